"""Writes a session as another tool's own, compacted where it does not fit that tool's window, legal for its provider."""

from __future__ import annotations

import hashlib
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from ullage.counting.models import ModelTable
from ullage.counting.window import window_for
from ullage.exceptions import ContextTooLarge, InvalidPolicy, StoreError
from ullage.facts.words import blocks_of
from ullage.messages import Item, same_items
from ullage.providers.anthropic import clean_entries
from ullage.sessions.find import context_tokens, state_folder, title_of
from ullage.sessions.handoff_forms import FORMS, Handoff
from ullage.sessions.load import Session, open_session, private_folder, write_private
from ullage.sessions.save import CompactedSession, compact_session, resume_line
from ullage.transcript import resume

# Summaries that the gateway gave to a client, for the hook that runs next: what stands in one need not be restored.


FRESH_SECONDS = 600
"""A client installs a summary within seconds; an older one is of an earlier compaction."""

KEPT = 20
"""Summaries of so many sessions stay."""


def hand_over(session: str, text: str) -> None:
    """Keeps the newest summary of a session.

    Args:
        session: Its id, as the client calls it.
        text: The summary.

    Raises:
        StoreError: It cannot be written.
    """
    path = _path(session)
    private_folder(path.parent)
    write_private(path, text.encode("utf-8", "surrogatepass"))
    summaries = sorted(path.parent.glob("*.txt"), key=lambda file: file.stat().st_mtime)
    for old in summaries[:-KEPT]:
        old.unlink(missing_ok=True)


def handed_summary(session: str, now: float | None = None) -> str:
    """The summary that a session was just given; empty if there was none.

    Args:
        session: Its id.
        now: Seconds since the epoch; `None`: the clock's.
    """
    with suppress(OSError):
        path = _path(session)
        age = (time.time() if now is None else now) - path.stat().st_mtime
        if session and age <= FRESH_SECONDS:
            return path.read_bytes().decode("utf-8", "replace")
    return ""


def _path(session: str) -> Path:
    """A file's name for any id: ids come from outside, and none may lead elsewhere."""
    name = hashlib.sha256(session.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return state_folder() / "handed" / f"{name}.txt"


# Small damage of a session, repaired entry by entry, so that each entry keeps what is known of it: its id, time and flags.


_UNANSWERED = "[The call was interrupted; it has no result.]"


def tidied(items: Sequence[Item]) -> list[Item]:
    """The entries without blank texts, with an answer after each call that has none.

    Args:
        items: Entries; never changed. What needs no repair is the same object.
    """
    answered = {
        str(block.get("tool_use_id"))
        for item in items
        for block in blocks_of(item)
        if block.get("type") == "tool_result"
    }
    messages: list[Item] = []
    for item in items:
        shown = _without_blanks(item)
        if shown is not None:
            messages += [shown, *_answers(shown, answered)]
    return messages


def _without_blanks(item: Item) -> Item | None:
    message = item.get("message")
    content = message.get("content") if isinstance(message, Mapping) else None
    if isinstance(content, str):
        return item if content.strip() else None
    if not isinstance(content, list):
        return item
    blocks = [_filled(block) for block in content if not _is_blank(block)]
    if not blocks:
        return None
    same = same_items(blocks, content)
    return item if same else {**item, "message": {**item["message"], "content": blocks}}


def _is_blank(block: Any) -> bool:
    return (
        isinstance(block, Mapping)
        and block.get("type") == "text"
        and not str(block.get("text") or "").strip()
    )


def _filled(block: Any) -> Any:
    """A result without the blank texts in it."""
    inner = block.get("content") if isinstance(block, Mapping) else None
    if not isinstance(inner, list) or not any(map(_is_blank, inner)):
        return block
    parts = [part for part in inner if not _is_blank(part)]
    return {**block, "content": parts or ""}


def _answers(item: Item, answered: set[str]) -> Iterator[Item]:
    open_ = [
        str(block.get("id"))
        for block in blocks_of(item)
        if block.get("type") == "tool_use" and str(block.get("id")) not in answered
    ]
    if open_:
        blocks = [
            {"type": "tool_result", "tool_use_id": name, "content": _UNANSWERED, "is_error": True}
            for name in open_
        ]
        head = {key: item[key] for key in ("timestamp", "sessionId", "cwd") if key in item}
        message = {"role": "user", "content": blocks}
        yield {"type": "user", "uuid": str(uuid.uuid4()), **head, "message": message}


TargetTool = Literal["claude-code", "codex", "pi", "opencode"]

_WINDOWS = {"claude-code": 200_000, "codex": 272_000, "pi": 200_000, "opencode": 200_000}
"""Tokens of the model that each tool uses by default; `model` or `window_tokens` states another."""


@dataclass(frozen=True, slots=True)
class HandedOver:
    """A session in another tool's form.

    Attributes:
        tool: Which one.
        id: The new session's id.
        path: Its file; where nothing was written, the file that it would be.
        resume_line: The command that goes on from it, to be run in the project's folder.
        compacted: Whether it had to be compacted to fit.
        tokens_before: Size of the old context.
        tokens_after: Size of the new one, estimated by the same weights.
        messages: In the new context.
        losses: What the form cannot hold, such as another provider's sealed reasoning, with how many of each.
    """

    tool: TargetTool
    id: str
    path: Path
    resume_line: str
    compacted: bool
    tokens_before: int
    tokens_after: int
    messages: int
    losses: Mapping[str, int] = field(default_factory=dict)


def handoff(
    session: Session,
    to: TargetTool,
    *,
    model: str = "",
    window_tokens: int | None = None,
    target_tokens: int | None = None,
    cwd: str = "",
    write: bool = True,
) -> HandedOver:
    """Hands a session over to another tool; the old one stays as it is.

    Calls and results keep their ids and the user's messages their words.

    Args:
        session: From `open_session`.
        to: Whose form.
        model: The model that goes on; empty: the session's own where it is of the tool's vendor.
        window_tokens: Its window; `None`: the model's, or the tool's usual one.
        target_tokens: Most tokens of the new context's messages; `None`: it is compacted only where it would not fit.
        cwd: The folder in which the new session runs; empty: the old one's.
        write: Whether the file is written.

    Raises:
        InvalidPolicy: An unknown tool, or a number out of range.
        ContextTooLarge: It does not fit that window even when compacted.
        StoreError: It cannot be written, or reads back differently.
        CompactionError: The compaction failed.
    """
    if to not in FORMS:
        raise InvalidPolicy("to", to, f"must be one of {', '.join(FORMS)}")
    before = context_tokens(session)
    limit = _limit(to, model, window_tokens)
    items, compacted = list(session.items), False
    if target_tokens is not None or before > limit:
        items, compacted = _smaller(session, target_tokens, limit, model)
    form = FORMS[to]
    items = tidied(items)
    clean, losses = clean_entries(items) if to != "codex" else (items, ())
    view = replace(session, items=clean, messages=resume(clean).messages, boundaries=())
    sent = view.request(provider=form.provider, model=model or None)
    if sent.left:
        limit_text = f"cannot be made legal for {to}: {sent.left[0].detail}"
        raise InvalidPolicy("FILE", str(session.path), limit_text)
    now = datetime.now(UTC)
    job = Handoff(
        name=form.new_id(now),
        cwd=cwd or session.cwd or str(Path.cwd()),
        title=title_of(session),
        model=model or session.model,
        now=now,
        items=clean if _is_legal(view, form.provider) else _flat(view.request().messages),
    )
    path = form.path(job)
    lost = Counter(loss.what for loss in (*losses, *sent.losses))
    written = form.lines(job)
    if write:
        private_folder(path.parent)
        write_private(path, written, new=True)
        _check(path, len(job.items))
    after = context_tokens(replace(view, items=job.items)) if compacted else before
    return HandedOver(
        to,
        job.name,
        path,
        form.resume(job, path) or resume_line(to, job.name, path),
        compacted,
        before,
        after,
        len(view.messages),
        lost,
    )


def _limit(to: TargetTool, model: str, window_tokens: int | None) -> int:
    table = ModelTable.builtin()
    window = window_tokens or (table.lookup(model).context_window if model else _WINDOWS[to])
    row = table.stated(model or "handed over", context_window=window)
    return window_for(row).threshold or window


def _smaller(
    session: Session, target: int | None, limit: int, model: str
) -> tuple[list[Item], bool]:
    done = _compacted(session, target, limit, model)
    items = list(session.items)
    if done.result.compacted:
        items = list(resume([*items, *done.result.new_entries]).entries)
    size = context_tokens(replace(session, items=items))
    if size > limit:
        raise ContextTooLarge(size, limit, hint="state a larger window, or a smaller target")
    return items, done.result.compacted


def _compacted(session: Session, target: int | None, limit: int, model: str) -> CompactedSession:
    """Down to the target; without one to half of the limit, so that the next compaction is far off, or to the limit."""
    if target is not None:
        return compact_session(session, target_tokens=min(target, limit), model=model or None)
    try:
        return compact_session(session, target_tokens=max(limit // 2, 1), model=model or None)
    except ContextTooLarge as exc:
        if exc.floor_tokens > limit:
            hint = "state a larger window"
            raise ContextTooLarge(exc.floor_tokens, limit, parts=exc.parts, hint=hint) from exc
        return compact_session(session, target_tokens=limit, model=model or None)


def _is_legal(view: Session, provider: str) -> bool:
    """Whether the entries can go as they are; else the repaired messages go, without the entries' flags."""
    sent = view.request(provider=provider)
    return not sent.repairs


def _flat(messages: Sequence[Item]) -> list[Item]:
    names = (str(uuid.uuid4()) for _ in messages)
    return [
        {"type": m["role"], "uuid": name, "message": m}
        for m, name in zip(messages, names, strict=True)
    ]


def _check(path: Path, entries: int) -> None:
    try:
        read = open_session(path)
    except (OSError, ValueError) as exc:
        path.unlink(missing_ok=True)
        raise StoreError(f"cannot be read back: {exc}", path=str(path)) from exc
    if entries and not read.items:
        path.unlink(missing_ok=True)
        raise StoreError("holds nothing when it is read back", path=str(path))
