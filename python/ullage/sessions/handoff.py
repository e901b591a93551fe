"""Writes a session as another tool's own, compacted where it does not fit that tool's window, legal for its provider."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from ullage.counting.models import ModelTable
from ullage.counting.window import window_for
from ullage.exceptions import ContextTooLarge, InvalidPolicy, StoreError
from ullage.messages import Item
from ullage.providers.anthropic import clean_entries
from ullage.sessions.fresh_session import resume_line
from ullage.sessions.handoff_forms import FORMS
from ullage.sessions.handoff_job import Handoff
from ullage.sessions.handoff_tidy import tidied
from ullage.sessions.load import Session, open_session
from ullage.sessions.private_file import private_folder, write_private
from ullage.sessions.save import CompactedSession, compact_session
from ullage.sessions.session_list import context_tokens, title_of
from ullage.transcript import resume

__all__ = ["HandedOver", "TargetTool", "handoff"]

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
    made = (str(uuid.uuid4()) for _ in messages)
    return [
        {"type": m["role"], "uuid": name, "message": m}
        for m, name in zip(messages, made, strict=True)
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
