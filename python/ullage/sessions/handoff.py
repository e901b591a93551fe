"""Writes a session as another tool's own: Claude Code's, Codex', pi's, OpenCode's.

It is compacted where it does not fit that tool's window, and legal for its provider.
"""

from __future__ import annotations

import json
import secrets
import shlex
import sqlite3
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import orjson

from ullage import _env
from ullage._start import Frozen
from ullage.counting.models import ModelTable
from ullage.counting.window import window_for
from ullage.exceptions import ContextTooLarge, InvalidPolicy, StoreError
from ullage.facts.words import blocks_of
from ullage.messages import Item, as_blocks, is_summary, role_of, same_items
from ullage.providers.anthropic import clean_entries
from ullage.recall.text import content_text
from ullage.sessions.find import FoundSession, claude_project_folder
from ullage.sessions.inspected import context_tokens, title_of
from ullage.sessions.load import Session, blocks_in, open_session, write_private
from ullage.sessions.save import codex_items, compact_session, file_name, resume_line
from ullage.transcript import resume
from ullage.transcript.formats.codex import NOTE
from ullage.transcript.formats.pi import FLAGS
from ullage.transcript.log import iso_of, line_of
from ullage.transcript.records import as_string


class Handoff(Frozen):
    """The new session, as it is written."""

    name: str  # its id
    cwd: str
    title: str  # may be empty
    model: str  # that goes on; may be empty
    now: datetime
    items: Sequence[Item] = field(repr=False)

    @property
    def milliseconds(self) -> int:
        """`now` since the epoch."""
        return int(self.now.timestamp() * 1_000)

    def stamp(self, item: Item | None = None) -> str:
        """An entry's time as ISO text, or `now`."""
        return as_string((item or {}).get("timestamp")) or iso_of(self.milliseconds)


# ---- OpenCode --------------------------------------------------------------------------------

_NO_TOKENS = {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}


def _ascending(prefix: str, milliseconds: int, count: int) -> str:
    """OpenCode's ids grow with time: 48 bits of it, then random characters."""
    moment = (milliseconds * 4_096 + count) & 0xFFFFFFFFFFFF
    return f"{prefix}_{moment:012x}{secrets.token_hex(7)}"


def _opencode(job: Handoff) -> tuple[Path, bytes]:
    """What `opencode export` would write, to be imported: OpenCode itself keeps sessions in a database."""
    path = _env.state_folder() / "handoff" / f"{job.name}.json"
    time = {"created": job.milliseconds, "updated": job.milliseconds}
    info: dict[str, Any] = {
        "id": job.name,
        "slug": f"handed-over-{job.name[-6:]}",
        "projectID": "global",
        "directory": job.cwd,
    }
    info |= {"title": job.title or "Handed over", "version": "1.18.0", "time": time}
    document = {"info": info, "messages": _OpenCodeMessages(job).messages}
    try:
        return path, orjson.dumps(document)
    except orjson.JSONEncodeError:  # lone surrogates, large numbers
        return path, json.dumps(document).encode()


class _OpenCodeMessages:
    """Messages with their parts: a call and its result are one part."""

    def __init__(self, job: Handoff) -> None:
        self._job = job
        self._count = 0
        self._results = {
            str(block.get("tool_use_id")): block for block in blocks_in(job.items, "tool_result")
        }
        self._parent = ""
        self.messages: list[dict[str, Any]] = []
        for item in job.items:
            self._add(item)

    def _next(self, prefix: str) -> str:
        self._count += 1
        return _ascending(prefix, self._job.milliseconds, self._count)

    def _add(self, item: Item) -> None:
        assistant = role_of(item) == "assistant"
        parts = [part for block in blocks_of(item) if (part := self._part(item, block, assistant))]
        if not parts:
            return
        name, job = self._next("msg"), self._job
        info: dict[str, Any] = {"id": name, "sessionID": job.name, "agent": "build"}
        if assistant:
            time = {"created": job.milliseconds, "completed": job.milliseconds}
            model = item["message"].get("model") or job.model or "unknown"
            info |= {"role": "assistant", "time": time, "parentID": self._parent, "modelID": model}
            info |= {"providerID": "anthropic", "mode": "build", "cost": 0, "tokens": _NO_TOKENS}
            info |= {"path": {"cwd": job.cwd, "root": job.cwd}}
            calls = any(part.get("type") == "tool" for part in parts)
            finish = {"type": "step-finish", "reason": "tool-calls" if calls else "stop", "cost": 0}
            parts = [{"type": "step-start"}, *parts, {**finish, "tokens": _NO_TOKENS}]
        else:
            asked = {"providerID": "anthropic", "modelID": job.model or "unknown"}
            info |= {"role": "user", "time": {"created": job.milliseconds}, "model": asked}
            self._parent = name
        complete = [
            {"id": self._next("prt"), "sessionID": job.name, "messageID": name, **part}
            for part in parts
        ]
        self.messages.append({"info": info, "parts": complete})

    def _part(self, item: Item, block: Mapping[str, Any], assistant: bool) -> dict[str, Any] | None:
        kind = block.get("type")
        moment = {"start": self._job.milliseconds, "end": self._job.milliseconds}
        if kind == "text":
            part: dict[str, Any] = {"type": "text", "text": str(block.get("text", ""))}
            if not assistant and item.get("isMeta") is True:
                part["synthetic"] = True
            return {**part, "metadata": {"ullage": "summary"}} if is_summary(item) else part
        if kind == "thinking" and assistant:
            signature = block.get("signature")
            signed = {"metadata": {"anthropic": {"signature": signature}}} if signature else {}
            text = str(block.get("thinking", ""))
            return {"type": "reasoning", "text": text, "time": moment, **signed}
        if kind == "tool_use":
            return self._call(block, moment)
        if image := _inline_image(block):
            mime = image.get("media_type")
            url = f"data:{mime};base64,{image.get('data')}"
            return {"type": "file", "mime": mime, "filename": "image", "url": url}
        return None

    def _call(self, block: Mapping[str, Any], moment: Mapping[str, int]) -> dict[str, Any]:
        result = self._results.get(str(block.get("id")))
        part = {"type": "tool", "callID": block.get("id"), "tool": block.get("name")}
        state: dict[str, Any] = {"input": block.get("input") or {}, "time": moment}
        text = content_text(result.get("content")) if result else "The call was not answered."
        if result is None or result.get("is_error") is True:
            return {**part, "state": {**state, "status": "error", "error": text}}
        state |= {"status": "completed", "output": text, "title": str(block.get("name"))}
        return {**part, "state": {**state, "metadata": {}}}


def _inline_image(block: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The source of an image that is in the message itself."""
    source = block.get("source")
    if block.get("type") != "image" or not isinstance(source, Mapping):
        return None
    return source if source.get("type") == "base64" else None


def _joined(lines: Sequence[Mapping[str, Any]]) -> bytes:
    return b"".join(line_of(line, at) for at, line in enumerate(lines))


def _flags(item: Item) -> dict[str, bool]:
    return {flag: True for flag in FLAGS if item.get(flag) is True}


# ---- Claude Code -----------------------------------------------------------------------------


def _claude(job: Handoff) -> tuple[Path, bytes]:
    folder = _env.claude_folder() / "projects" / claude_project_folder(job.cwd)
    head = {"isSidechain": False, "userType": "external", "cwd": job.cwd, "sessionId": job.name}
    lines: list[dict[str, Any]] = []
    parent: str | None = None
    for item in job.items:
        role, name, stored = str(role_of(item)), str(uuid.uuid4()), item["message"]
        message: dict[str, Any] = {}
        if role == "assistant":
            message = {"id": stored.get("id") or f"msg_{name}", "type": "message"}
            message["model"] = stored.get("model") or job.model
        message |= {"role": role, "content": stored["content"]}
        line = {"parentUuid": parent, **head, "version": "2.1.232", "gitBranch": "", "type": role}
        line |= {"message": message, **_flags(item), "uuid": name, "timestamp": job.stamp(item)}
        lines.append(line)
        parent = name
    if job.title:
        lines.append({"type": "custom-title", "customTitle": job.title, "sessionId": job.name})
    return folder / f"{job.name}.jsonl", _joined(lines)


# ---- Codex -----------------------------------------------------------------------------------


def _codex(job: Handoff) -> tuple[Path, bytes]:
    path = (
        _env.codex_folder()
        / "sessions"
        / f"{job.now:%Y/%m/%d}"
        / file_name("codex", job.name, job.now)
    )
    meta = {
        "id": job.name,
        "timestamp": job.stamp(),
        "cwd": job.cwd,
        "originator": "ullage",
        "cli_version": "0.142.5",
        "source": "cli",
        "model_provider": "openai",
    }
    lines = [{"timestamp": job.stamp(), "type": "session_meta", "payload": meta}]
    for item, payload in codex_items(job.items):
        stamp = job.stamp(item)
        note = _codex_note(item, payload)
        noted = {**payload, NOTE: note} if note else payload
        lines.append({"timestamp": stamp, "type": "response_item", "payload": noted})
        if event := _codex_event(item, payload):
            lines.append({"timestamp": stamp, "type": "event_msg", "payload": event})
    return path, _joined(lines)


def _codex_note(item: Item, payload: Mapping[str, Any]) -> dict[str, bool]:
    """What the API has no word for: the entry's flags, and that a call failed."""
    if payload.get("type") == "message":
        return _flags(item)
    failed = {
        str(block.get("tool_use_id"))
        for block in blocks_in([item], "tool_result")
        if block.get("is_error") is True
    }
    return {"isError": True} if "output" in payload and payload.get("call_id") in failed else {}


def _codex_event(item: Item, payload: Mapping[str, Any]) -> dict[str, str] | None:
    """What Codex shows of a message, and lists a session by."""
    if payload.get("type") != "message" or _flags(item):
        return None
    text = "\n".join(str(part.get("text", "")) for part in payload.get("content") or ())
    kind = {"user": "user_message", "assistant": "agent_message"}.get(str(payload.get("role")))
    return {"type": kind, "message": text} if kind and text else None


# ---- pi --------------------------------------------------------------------------------------


def whole_responses(items: Sequence[Item]) -> list[Item]:
    """Items in which each response is one, its results after it: Claude Code writes an entry for each block, with results between them."""
    joined: list[Item] = []
    newest: int | None = None  # the place of the response that is not over
    for item in items:
        message = item.get("message") or {}
        if role_of(item) == "assistant":
            name = message.get("id")
            begun = {} if newest is None else joined[newest]["message"]
            if newest is not None and isinstance(name, str) and name == begun.get("id"):
                content = [*as_blocks(begun.get("content")), *as_blocks(message.get("content"))]
                joined[newest] = {**joined[newest], "message": {**begun, "content": content}}
                continue
            newest = len(joined)
        elif any(block.get("type") != "tool_result" for block in blocks_of(item)):
            newest = None
        joined.append(item)
    return joined


def _pi(job: Handoff) -> tuple[Path, bytes]:
    folder = job.cwd.lstrip("/\\").translate(str.maketrans("/\\:", "---"))
    lines: list[dict[str, Any]] = [
        {"type": "session", "version": 3, "id": job.name, "timestamp": job.stamp(), "cwd": job.cwd}
    ]
    calls = blocks_in(job.items, "tool_use")
    names = {str(block.get("id")): str(block.get("name")) for block in calls}
    parent = None
    for item in job.items:
        for message in _pi_messages(job, item, names):
            name = secrets.token_hex(4)
            line = {"type": "message", "id": name, "parentId": parent, "timestamp": job.stamp(item)}
            stamped = {**message, "timestamp": job.milliseconds}
            lines.append({**line, "message": stamped, **_flags(item)})
            parent = name
    path = _env.pi_folder() / "sessions" / f"--{folder}--" / file_name("pi", job.name, job.now)
    return path, _joined(lines)


def _pi_messages(job: Handoff, item: Item, names: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    blocks = list(blocks_of(item))
    if role_of(item) == "assistant":
        usage = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0}
        cost = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}
        calls = any(block.get("type") == "tool_use" for block in blocks)
        yield {
            "role": "assistant",
            "content": _pi_blocks(blocks),
            "api": "anthropic-messages",
            "provider": "anthropic",
            "model": item["message"].get("model") or job.model,
            "usage": {**usage, "cost": cost},
            "stopReason": "toolUse" if calls else "stop",
        }
        return
    for block in blocks:
        if block.get("type") == "tool_result":
            call, content = str(block.get("tool_use_id")), block.get("content")
            shown = _pi_blocks(content) if isinstance(content, list) else []
            text = content_text(content)
            if not shown and text.strip():
                shown = [{"type": "text", "text": text}]
            yield {
                "role": "toolResult",
                "toolCallId": call,
                "toolName": names.get(call, "unknown"),
                "content": shown,
                "isError": block.get("is_error") is True,
            }
    if others := _pi_blocks(blocks):
        yield {"role": "user", "content": others}


def _pi_blocks(blocks: Sequence[Any]) -> list[dict[str, Any]]:
    return [shown for block in blocks if isinstance(block, Mapping) and (shown := _pi_block(block))]


def _pi_block(block: Mapping[str, Any]) -> dict[str, Any] | None:
    kind = block.get("type")
    if kind == "text":
        return {"type": "text", "text": str(block.get("text", ""))}
    if kind == "tool_use":
        call = {"type": "toolCall", "id": block.get("id"), "name": block.get("name")}
        return {**call, "arguments": block.get("input")}
    if kind == "thinking":
        signature = block.get("signature")
        signed = {"thinkingSignature": signature} if signature else {}
        return {"type": "thinking", "thinking": str(block.get("thinking", "")), **signed}
    if image := _inline_image(block):
        return {"type": "image", "data": image.get("data"), "mimeType": image.get("media_type")}
    return None


FORMS: Mapping[str, tuple[str, int, Callable[[Handoff], tuple[Path, bytes]]]] = {
    "claude-code": ("anthropic", 200_000, _claude),
    "codex": ("openai_responses", 272_000, _codex),
    "pi": ("anthropic", 200_000, _pi),
    "opencode": ("anthropic", 200_000, _opencode),
}
"""By the name of `ullage handoff --to`: whose rules the context follows, the tokens of the model that the tool uses by default, and
what makes the session's file and its bytes."""


# OpenCode's database: which sessions it holds, and one of them as the JSON that `opencode export` writes.


def database_sessions(database: Path) -> Iterator[FoundSession]:
    """The sessions of a database, those of sub-agents left out; none if it is missing or of another form."""
    if not database.is_file():
        return
    sizes = "SELECT session_id, SUM(LENGTH(data)) AS size FROM part GROUP BY session_id"
    query = (
        "SELECT s.id, s.time_updated, COALESCE(p.size, 0) FROM session s "  # noqa: S608 - no value in it
        f"LEFT JOIN ({sizes}) p ON p.session_id = s.id WHERE s.parent_id IS NULL"
    )
    try:
        with closing(_opened(database)) as store:
            rows = store.execute(query).fetchall()
    except sqlite3.Error:
        return
    for name, updated, size in rows:
        yield FoundSession("opencode", str(name), database, int(size), float(updated or 0) / 1_000)


def exported(database: Path, session: str) -> Path:
    """A file with one session, in Ullage's own folder, made again each time.

    `StoreError`: the database cannot be read, or the file not be written.
    """
    try:
        with closing(_opened(database)) as store:
            document = _document(store, session)
    except (sqlite3.Error, ValueError) as exc:
        raise StoreError(f"cannot be read: {exc}", path=str(database)) from exc
    path = _env.state_folder() / "opencode" / f"{quote(session, safe='')[:120]}.json"
    write_private(path, orjson.dumps(document))
    return path


def _opened(database: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True, timeout=2)


def _document(store: sqlite3.Connection, session: str) -> dict[str, Any]:
    query = "SELECT title, directory, project_id, version, time_created, time_updated FROM session WHERE id = ?"
    row = store.execute(query, (session,)).fetchone()
    if row is None:
        raise ValueError(f"there is no session {session}")
    title, directory, project, version, created, updated = row
    info = {"id": session, "projectID": project, "directory": directory, "title": title}
    info |= {"version": version, "time": {"created": created, "updated": updated}}
    parts: dict[str, list[Any]] = {}
    named = "SELECT id, message_id, data FROM part WHERE session_id = ? ORDER BY id"
    for name, message, data in store.execute(named, (session,)):
        ids = {"id": name, "sessionID": session, "messageID": message}
        parts.setdefault(message, []).append({**ids, **orjson.loads(data)})
    messages = []
    query = "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id"
    for name, data in store.execute(query, (session,)):
        head = {"id": name, "sessionID": session, **orjson.loads(data)}
        messages.append({"info": head, "parts": parts.get(name, [])})
    return {"info": info, "messages": messages}


# Small damage of a session, repaired entry by entry, so that each entry keeps what is known of it: its id, time and flags.


def tidied(items: Sequence[Item]) -> list[Item]:
    """The entries without blank texts and messages without content, with an answer after each call that has none; what needs no repair is the same object."""
    answered = {str(block.get("tool_use_id")) for block in blocks_in(items, "tool_result")}
    text = "[The call was interrupted; it has no result.]"
    tidy: list[Item] = []
    for item in filter(None, map(_without_blanks, items)):
        tidy.append(item)
        calls = (str(block.get("id")) for block in blocks_in([item], "tool_use"))
        blocks = [
            {"type": "tool_result", "tool_use_id": name, "content": text, "is_error": True}
            for name in calls
            if name not in answered
        ]
        if blocks:
            head = {key: item[key] for key in ("timestamp", "sessionId", "cwd") if key in item}
            message = {"role": "user", "content": blocks}
            tidy.append({"type": "user", "uuid": str(uuid.uuid4()), **head, "message": message})
    return tidy


def _without_blanks(item: Item) -> Item | None:
    message = item.get("message")
    content = message.get("content") if isinstance(message, Mapping) else None
    if isinstance(content, str):
        return item if content.strip() else None
    if not isinstance(content, list):
        return None if content is None and isinstance(message, Mapping) else item
    blocks = [_filled(block) for block in content if not _is_blank(block)]
    if not blocks:
        return None
    if same_items(blocks, content):
        return item
    return {**item, "message": {**item["message"], "content": blocks}}


def _is_blank(block: Any) -> bool:
    is_text = isinstance(block, Mapping) and block.get("type") == "text"
    return is_text and not str(block.get("text") or "").strip()


def _filled(block: Any) -> Any:
    """A result without the blank texts in it."""
    inner = block.get("content") if isinstance(block, Mapping) else None
    if not isinstance(inner, list) or not any(map(_is_blank, inner)):
        return block
    parts = [part for part in inner if not _is_blank(part)]
    return {**block, "content": parts or ""}


TargetTool = Literal["claude-code", "codex", "pi", "opencode"]


class HandedOver(Frozen):
    """A session in another tool's form."""

    tool: TargetTool  # which one
    id: str  # the new session's id
    path: Path  # its file; where nothing was written, the file that it would be
    resume_line: str  # the command that goes on from it, to be run in the project's folder
    compacted: bool  # whether it had to be compacted to fit
    tokens_before: int  # size of the old context
    tokens_after: int  # size of the new one, estimated by the same weights
    messages: int  # in the new context
    # What the form cannot hold, such as another provider's sealed reasoning, with how many of each.
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

    Calls and results keep their ids and the user's messages their words. `model` goes on; empty: the session's own where it
    is of the tool's vendor. The session is compacted to `target_tokens`; `None`: only where it would not fit `window_tokens`,
    which are by default the model's, or the tool's usual ones. `cwd` empty: the old folder.

    Raises:
        InvalidPolicy: An unknown tool, or a number out of range.
        ContextTooLarge: It does not fit that window even when compacted.
        StoreError: It cannot be written, or reads back differently.
        CompactionError: The compaction failed.
    """
    if to not in FORMS:
        raise InvalidPolicy("to", to, f"must be one of {', '.join(FORMS)}")
    provider, window, write_as = FORMS[to]
    before, table = context_tokens(session), ModelTable.builtin()
    window = window_tokens or (table.lookup(model).context_window if model else window)
    row = table.stated(model or "handed over", context_window=window)
    limit = window_for(row).threshold or window
    items, compacted = list(session.items), False
    if target_tokens is not None or before > limit:
        items, compacted = _smaller(session, target_tokens, limit, model)
    items = tidied(items)
    if to in ("pi", "opencode"):
        items = whole_responses(items)
    clean, losses = clean_entries(items) if to != "codex" else (items, ())
    view = replace(session, items=clean, messages=resume(clean).messages, boundaries=())
    sent = view.request(provider=provider, model=model or None)
    if sent.left:
        limit_text = f"cannot be made legal for {to}: {sent.left[0].detail}"
        raise InvalidPolicy("FILE", str(session.path), limit_text)
    now, is_opencode = datetime.now(UTC), to == "opencode"
    name = _ascending("ses", int(now.timestamp() * 1_000), 0) if is_opencode else str(uuid.uuid4())
    items = clean
    if view.request(provider=provider).repairs:
        # The repaired messages go, without the entries' flags.
        messages = view.request().messages
        items = [{"type": m["role"], "uuid": str(uuid.uuid4()), "message": m} for m in messages]
    job = Handoff(
        name=name,
        cwd=cwd or session.cwd or str(Path.cwd()),
        title=title_of(session),
        model=model or session.model,
        now=now,
        items=items,
    )
    path, data = write_as(job)
    if write:
        write_private(path, data, new=True)
        _check(path, len(job.items))
    line = resume_line(to, job.name, path)
    return HandedOver(
        tool=to,
        id=job.name,
        path=path,
        resume_line=f"opencode import {shlex.quote(str(path))} && {line}" if is_opencode else line,
        compacted=compacted,
        tokens_before=before,
        tokens_after=context_tokens(replace(view, items=job.items)) if compacted else before,
        messages=len(view.messages),
        losses=Counter(loss.what for loss in (*losses, *sent.losses)),
    )


def _smaller(
    session: Session, target: int | None, limit: int, model: str
) -> tuple[list[Item], bool]:
    """Down to the target; without one to half of the limit, so that the next compaction is far off, or to the limit."""
    wanted = max(limit // 2, 1) if target is None else min(target, limit)
    try:
        done = compact_session(session, target_tokens=wanted, model=model or None)
    except ContextTooLarge as exc:
        if target is not None:
            raise
        if exc.floor_tokens > limit:
            hint = "state a larger window"
            raise ContextTooLarge(exc.floor_tokens, limit, parts=exc.parts, hint=hint) from exc
        done = compact_session(session, target_tokens=limit, model=model or None)
    items = list(session.items)
    if done.result.compacted:
        items = list(resume([*items, *done.result.new_entries]).entries)
    size = context_tokens(replace(session, items=items))
    if size > limit:
        raise ContextTooLarge(size, limit, hint="state a larger window, or a smaller target")
    return items, done.result.compacted


def _check(path: Path, entries: int) -> None:
    try:
        read = open_session(path)
    except (OSError, ValueError) as exc:
        path.unlink(missing_ok=True)
        raise StoreError(f"cannot be read back: {exc}", path=str(path)) from exc
    if entries and not read.items:
        path.unlink(missing_ok=True)
        raise StoreError("holds nothing when it is read back", path=str(path))
