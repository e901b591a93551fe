"""Compacts a session and writes a transcript that can be resumed: whole or not at all."""

from __future__ import annotations

import os
import re
import shlex
import sys
import tempfile
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import field, replace
from datetime import UTC, datetime
from functools import partial
from io import FileIO
from pathlib import Path
from typing import Any, Unpack

from ullage._engine import core
from ullage._start import Frozen
from ullage.compaction import CompactionResult
from ullage.compaction.api import Copies, entries_to_write, job_of, on_one_chain
from ullage.compaction.cut import ReadItems
from ullage.compaction.effects_runner import run_flow
from ullage.compaction.flow import compaction_flow
from ullage.compaction.job import CompactionOptions
from ullage.counting.calibration import weights_for
from ullage.exceptions import InvalidPolicy, LogConflict, StoreError
from ullage.facts.sections import newest_item
from ullage.messages import BOUNDARY, SOURCE_ROLE, BlockView, Item, as_blocks, is_summary, now_in_ms
from ullage.policy import refuse_unknown
from ullage.providers.anthropic import clean_entries
from ullage.providers.openai_responses import _ResponsesWriter as ResponsesWriter
from ullage.sessions.load import (
    Session,
    blocks_in,
    draft_of,
    open_session,
    refuse_to_replace,
    write_private,
)
from ullage.transcript import Transcript, TranscriptLog, records, resume
from ullage.transcript.conversation import FilePin, open_regular
from ullage.transcript.formats import CLAUDE_CODE, OpenedFile
from ullage.transcript.formats.pi import path_of
from ullage.transcript.log import LogFile, entry_in, iso_of, line_of, sync_folder
from ullage.transcript.records import as_mapping, as_string
from ullage.transcript.write import (
    NEWEST_LINES,
    continued,
    is_managers,
    lines_to_append,
    refuse_managers,
)
from ullage.ullage_check import RECORD

# What is appended to a file is tried on a copy of it next to where it is to be written, and read back.

# A copy goes through memory in pieces: sessions of 64 MB and more exist.
_PIECE = 1 << 20


def _copy_file(source: Path, draft: Path, pin: FilePin | None) -> None:
    """Copies what was read of a file into a draft; `LogConflict`: it grew, or is not the one that was read any more."""
    with open_regular(str(source)) as file, draft.open("r+b") as copy:
        _check(pin, file, source)
        left = os.fstat(file.fileno()).st_size
        while left > 0 and (part := file.read(min(_PIECE, left))):
            copy.write(part)
            left -= len(part)
        if left > 0:
            raise LogConflict(f"{source}: the file was cut off while it was copied")
        _check(pin, file, source)


def _check(pin: FilePin | None, file: FileIO, source: Path) -> None:
    if pin is not None:
        pin.check(os.fstat(file.fileno()), str(source))
        pin.check(source.stat(), str(source))


def _put_in_place(draft: Path, target: Path, *, like: Path) -> None:
    """Makes a complete draft the target, on the disk: with the rights of the file `like`, and never more than the target had."""
    mode = like.stat().st_mode & 0o666
    if target.exists():
        mode &= target.stat().st_mode
    with draft.open("rb+") as file:
        if sys.platform != "win32":
            os.fchmod(file.fileno(), mode)
        os.fsync(file.fileno())
    draft.replace(target)
    sync_folder(str(target))


# A compaction in the words of the tool that wrote the file: one more line, from which that tool goes on too.
#
# Codex reads a `compacted` line with the whole new history in it. pi reads a `compaction` line with the summary and the
# place from which on its lines stay. Whether the file, read again, shows the model what was compacted is for the caller to check:
# pi's line has no words for everything.

APPENDED = ("codex", "pi")  # formats with a line of their own for a compaction

Line = dict[str, Any]

_OWN_KEYS = {
    "codex": ("timestamp", "type", "payload"),
    "pi": ("timestamp", "type", "id", "parentId"),
}
"""What is set on each line here; what else all lines of a file carry is continued."""


def _extend(session: Session, source: OpenedFile, lines: Sequence[Line]) -> None:
    """Append lines to a copy of a session's file, with what its newest lines all carry, such as Codex' `ordinal`.

    `StoreError`, naming the session: its lines share a field that cannot be continued.
    """
    newest, first = source.newest(NEWEST_LINES), source.head[:1]
    newest = newest if newest[:1] == first else first + newest  # it is of another type than most
    whole = continued(lines, newest, _OWN_KEYS[session.format], str(session.path))
    data = b"".join(line_of(line, at) for at, line in enumerate(whole))
    with closing(LogFile(source.path, create=False)) as file:
        file.append(data)


def shown(kind: str, messages: Sequence[Item]) -> list[Any]:
    """What the model is shown of messages, in the format's own form, to be compared."""
    if kind == "codex":
        return _items(messages)
    return [(one["role"], list(map(_flat, as_blocks(one["content"])))) for one in messages]


def _flat(block: Any) -> Any:
    if not isinstance(block, Mapping) or block.get("type") != "tool_result":
        return block
    return {**block, "content": as_blocks(block.get("content") or "")}


def _compacted_line(
    source: OpenedFile, stamp: str, message: str, history: Sequence[Line], window: str
) -> Line:
    """Codex' line after which it goes on from this history, in a window of this id."""
    payload = {"message": message, "replacement_history": history, **_window(source, window)}
    return {"timestamp": stamp, "type": "compacted", "payload": payload}


def _codex(source: OpenedFile, entries: Sequence[Item], messages: Sequence[Item]) -> list[Line]:
    stamp, window = _stamp(entries), str(_summary(entries)["uuid"])
    return [
        _compacted_line(source, stamp, _summary_text(entries), _items(messages), window),
        {"timestamp": stamp, "type": "event_msg", "payload": {"type": "context_compacted"}},
    ]


def codex_items(entries: Sequence[Item]) -> Iterator[tuple[Item, Line]]:
    """Items of the API, each with the entry that it was made of: written at once, so that ids agree."""
    everything = _items(entries)
    at = 0
    for entry in entries:
        count = len(_items([entry]))
        for item in everything[at : at + count]:
            yield entry, item
        at += count
    for item in everything[at:]:
        yield entries[-1], item


def _items(messages: Sequence[Item]) -> list[Line]:
    """Items as Codex reads them back: messages say their type, and their content is a list of parts."""
    return [_item(item) for item in ResponsesWriter(messages).items(messages)]


def _item(item: Mapping[str, Any]) -> Line:
    if "role" not in item:
        return dict(item)
    content = item.get("content")
    if isinstance(content, str):
        kind = "output_text" if item["role"] == "assistant" else "input_text"
        content = [{"type": kind, "text": content}]
    return {**item, "type": "message", "content": content}


def _window(source: OpenedFile, new: str) -> Line:
    """Codex numbers its windows since some version; a file without numbers gets none."""
    number: Any = 0
    first = last = ""
    for _, line in source.lines():
        payload = line.get("payload")
        if not isinstance(payload, Mapping):
            continue
        if line.get("type") == "session_meta" and not last:
            first = last = as_string(as_mapping(payload.get("context_window")).get("window_id"))
        elif line.get("type") == "compacted":
            number, last = payload.get("window_number"), as_string(payload.get("window_id"))
            first = str(payload.get("first_window_id") or first or last)
    if not isinstance(number, int) or not last:
        return {}
    return {
        "window_number": number + 1,
        "first_window_id": first,
        "previous_window_id": last,
        "window_id": new,
    }


def _pi(source: OpenedFile, entries: Sequence[Item]) -> list[Line]:
    """No line where pi's, which holds only a summary, has no words for the compaction."""
    if newest_item(entries) is not None:  # only its provider can write such an item
        return []
    metadata = entries[0].get("compactMetadata") or {}
    preserved = (metadata.get("preservedMessages") or {}).get("uuids") or []
    lines = list(source.lines())
    place: int | None = len(lines)
    if preserved:
        # The line of an entry ends the id that the reader gave it.
        number = str(preserved[0]).rpartition("-")[2]
        place = next((at for at, (line, _) in enumerate(lines) if str(line) == number), None)
    if place is None:
        return []
    last = lines[-1][1]
    linked = isinstance(last.get("id"), str) and last.get("type") != "session"
    compaction: Line = {"type": "compaction"}
    if linked:
        # Eight digits, as pi's ids are: a compaction that was taken back and made again has the uuid that it had.
        digits = str(_summary(entries)["uuid"]).replace("-", "")
        names = {digits[at : at + 8]: None for at in range(0, len(digits), 8)}
        for _, line in lines:
            names.pop(as_string(line.get("id")), None)
        compaction |= {"id": next(iter(names), None) or os.urandom(4).hex(), "parentId": last["id"]}
    compaction |= {
        "timestamp": _stamp(entries),
        "summary": _summary_text(entries),
        "tokensBefore": metadata.get("preTokens") or 0,
    }
    if linked and place < len(lines):
        compaction["firstKeptEntryId"] = lines[place][1].get("id")
    else:
        compaction["firstKeptEntryIndex"] = place
    return [compaction]


def _stamp(entries: Sequence[Item]) -> str:
    """When the newest entry was made; now, where the file has no times."""
    return str(entries[0].get("timestamp") or iso_of(now_in_ms()))


def _summary(entries: Sequence[Item]) -> Item:
    return next(entry for entry in entries if is_summary(entry))


def _summary_text(entries: Sequence[Item]) -> str:
    content = as_blocks(_summary(entries)["message"]["content"])
    return "\n\n".join(str(part.get("text", "")) for part in content)


class CompactedSession(Frozen):
    """A compaction, and where it was written.

    Attributes:
        result: What the compaction did.
        path: The file that can be resumed; `None` if nothing was written.
        messages: The context that a resume of that file finds; checked after writing.
        losses: Kinds of parts that only another provider can read, with how many of each the written
            context had to leave out; none in the file's own format.
        format: Of the file that was, or would be, written: the session's own, or `claude_code`.
    """

    result: CompactionResult
    path: Path | None
    messages: list[dict[str, Any]]
    losses: Mapping[str, int] = field(default_factory=dict)
    format: str = CLAUDE_CODE

    def __repr__(self) -> str:
        return f"CompactedSession({self.result!r}, path={self.path})"


_OWN = ("output", "overwrite", "format", "before_write", "transcript_path", "record")
"""Arguments of `compact_session` that are its own, for the nearest name of a misspelt one."""


def compact_session(
    session: Session,
    *,
    output: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    format: str | None = None,  # noqa: A002 - the word of the field, as in `read`
    transcript_path: str | None = None,
    before_write: Callable[[CompactionResult], object] | None = None,
    record: str | os.PathLike[str] | None = None,
    **options: Unpack[CompactionOptions],
) -> CompactedSession:
    """Compact a session and write a transcript that its own tool, or Claude Code, and Ullage can resume.

    The written file holds the whole history; the compaction is appended to it, so nothing is lost. Files of
    Claude Code, Codex and pi keep their format. One of another tool is written again in Claude Code's, which
    has no place for what only that tool's provider can read (encrypted reasoning, say): `losses` counts it,
    the file itself stays as it is.

    Args:
        session: From `open_session`.
        output: Where to write; the session's own path appends to it. `None`: nothing is written.
        overwrite: Whether another existing file may be replaced.
        format: `claude_code`, or the session's own where that is Codex or pi; `None`: the own one if it
            has words for this compaction, else Claude Code's.
        transcript_path: Where the summary says the whole conversation is; `None`: in the written file, or in the session's.
        before_write: Called when the new file is complete, before it is put in place; if it raises, nothing is written.
        record: File to which a record for `ullage-check` is appended once the compaction is written. For a file in Claude Code's
            format it holds records alone, for another one the messages too. `None`: there is none.
        **options: See `ullage.compaction.CompactionOptions`. `model=None`: the session's; `overhead_tokens=None`: as the session shows.

    Returns:
        The result. Nothing is written unless the outcome is `compacted`.

    Raises:
        InvalidPolicy: No file of this session can be written in that format, or there is no such option, or it is out of range.
        StoreError: The file exists and `overwrite` is false, or it cannot be written; nothing has changed.
        LogConflict: The session's file grew, or was changed or replaced, since it was opened, or another writer holds
            it: open it again. Nothing was written.
        CompactionError: The compaction failed; nothing has changed.
        ContextTooLarge: What must stay is more than `target_tokens`; names the smallest that can be met. Nothing was written.
    """
    refuse_unknown(options, (*_OWN, *CompactionOptions.__annotations__))
    if not isinstance(session, Session):
        got = session if isinstance(session, str) else type(session).__name__
        hint = "open_session(path) opens one"
        raise InvalidPolicy("session", got, "must be an opened session", hint=hint)
    if format not in (None, CLAUDE_CODE) and (format != session.format or format not in APPENDED):
        writable = sorted({CLAUDE_CODE, *(name for name in APPENDED if name == session.format)})
        raise InvalidPolicy("format", format, f"must be {' or '.join(writable)}")
    target = None if output is None else Path(output)
    if target is not None:
        _refuse(session, target, overwrite)
    model = options.get("model") or session.model or None
    weights = options.get("weights") or weights_for(model)
    ledger = core.Ledger(weights, session.items)
    count, overhead = ledger.anchored(), ledger.overhead
    # The provider's figure where there is one, as in `inspect`.
    before = None if count.anchor is None or overhead is None else count.total
    if options.get("overhead_tokens") is not None:
        overhead = options["overhead_tokens"]
    elif overhead is None:  # a figure of before a compaction may say it
        overhead = session.overhead_tokens(weights) if session.boundaries else 0
    of_job: dict[str, Any] = {
        **options,
        "model": model,
        "context_tokens": before,
        "overhead_tokens": overhead,
        "ledger": ledger,
        "transcript_path": str(target or session.path)
        if transcript_path is None
        else transcript_path,
    }
    before_write = before_write or (lambda result: None)
    done = None
    if session.format in APPENDED and format != CLAUDE_CODE:
        done = _in_own_format(session, target, of_job, before_write)
        if done is None and (format is not None or (target and _is_own(session, target))):
            reason = f"the {session.format} format has no words for this compaction"
            raise StoreError(reason, path=str(target), hint="write another file, as claude_code")
    if done is None:
        done = _as_claude_code(session, target, of_job, before_write)
    if record is not None and done.path is not None:
        _record(session, done, record)
    return done


BeforeWrite = Callable[[CompactionResult], object]


def _record(session: Session, done: CompactedSession, path: str | os.PathLike[str]) -> None:
    from ullage.transcript.record import record_compaction

    log: list[Any] = []
    items = session.items
    if done.format == CLAUDE_CODE:
        items = _writable(session)[0].items
        log = [line for _, line in OpenedFile(str(done.path)).lines()]
    record_compaction(path, items, done.result, log=log)


def _compacted(items: ReadItems, options: Mapping[str, Any]) -> CompactionResult:
    """The compaction, not written."""
    of_job = {name: value for name, value in options.items() if name != "ledger"}
    around = {"listeners": of_job.pop("listeners", ()), "cancel": of_job.pop("cancel", None)}
    job = job_of(items, **of_job)
    return run_flow(compaction_flow(job), **around)


def _as_claude_code(
    session: Session, target: Path | None, options: Mapping[str, Any], before_write: BeforeWrite
) -> CompactedSession:
    if target is not None and _is_own(session, target):
        if session.format != CLAUDE_CODE:
            reason = f"is a {session.format} file, to which a compaction cannot be appended"
            raise StoreError(reason, path=str(target), hint="name another file to write")
        refuse_managers(session.items, str(target))
    opened, (session, losses) = session, _writable(session)
    ledger = options["ledger"] if session is opened else None
    items = ReadItems.in_context(session.items, ledger)
    result = _compacted(items, options)
    if target is None or not result.compacted:
        messages = resume([*session.items, *result.new_entries]).messages
        return CompactedSession(result, None, messages, losses)
    _whole(session, items, result)
    # As the log will hold it: kept messages whole. `Session.request` leaves out what may not be sent of them.
    messages = _with_kept(items, result)
    del items  # as large as the context, while the copy is read back
    with draft_of(target) as draft:
        _copy(session, draft)
        size = draft.stat().st_size
        history = session.transcript or Transcript.open(draft)
        # Before anything is appended: copies of kept entries belong into the same write.
        result = on_one_chain(result, history)
        with TranscriptLog.open(draft, create=False, durability="none") as log:
            log.write(lines_to_append(history, entries_to_write(result), str(session.path)))
        if Transcript.open(draft).shown() != messages:
            raise StoreError("reads back differently from what was compacted", path=str(target))
        before_write(result)
        _install(session, draft, target, size)
    return CompactedSession(result, target, messages, losses)


def _writable(session: Session) -> tuple[Session, Mapping[str, int]]:
    """The session as a Claude Code file can hold it, and how much of what kind it cannot hold."""
    if session.format == CLAUDE_CODE:
        return _without_manager(session) if is_managers(session.items) else session, {}
    history, losses = clean_entries(session.history)
    resumed = resume(history)
    clean = replace(session, history=history, items=resumed.entries, messages=resumed.messages)
    return clean, Counter(loss.what for loss in losses)


def _without_manager(session: Session) -> Session:
    """The session without a manager's lines, marks and records: to another file no manager writes."""
    own = (records.STATE, RECORD)
    lines = (line for _, line in OpenedFile(session.path).lines() if line.get("type") not in own)
    history, items = (
        [{key: value for key, value in entry.items() if key != records.MARK} for entry in entries]
        for entries in (lines, session.items)
    )
    return replace(session, history=history, items=items, transcript=None)


def _copy(session: Session, draft: Path) -> None:
    is_claudes = session.format == CLAUDE_CODE
    if is_claudes and not session.history:
        _copy_file(session.path, draft, session.pin)
        return
    with TranscriptLog.open(draft, durability="none") as log:
        log.write(session.history if is_claudes else _placed(session.history))


def _placed(history: Sequence[Item]) -> list[Item]:
    """Entries of another format with what Claude Code expects on each line, one chain between two boundaries."""
    placed: list[Item] = []
    parent = None
    for entry in history:
        mark = entry.get("subtype") == BOUNDARY
        links = (
            {"parentUuid": None, "logicalParentUuid": parent} if mark else {"parentUuid": parent}
        )
        placed.append({**links, "isSidechain": False, "userType": "external", **entry})
        parent = entry.get("uuid") or parent
    return placed


def _with_kept(items: ReadItems, result: CompactionResult) -> list[dict[str, Any]]:
    """The messages of what was kept and of what is new."""
    kept_ids, parts = set(result.report.kept), items.parts
    names = zip(parts.context, parts.ids, strict=True)
    near = [item for item, name in names if name in kept_ids]
    return resume([*near, *result.new_entries]).messages


def _in_own_format(
    session: Session, target: Path | None, options: Mapping[str, Any], before_write: BeforeWrite
) -> CompactedSession | None:
    """The compaction as lines of the session's format; `None` if that format cannot say it."""
    items = ReadItems.in_context(session.items, options["ledger"])
    result = _compacted(items, options)
    messages = resume([*session.items, *result.new_entries]).messages
    if not result.compacted:
        return CompactedSession(result, None, messages, format=session.format)
    _whole(session, items, result)
    del items  # as large as the context, while the copy is read back
    with (
        nullcontext("") if target is not None else tempfile.TemporaryDirectory() as folder,
        draft_of(target or Path(folder, session.path.name)) as draft,
    ):
        _copy_file(session.path, draft, session.pin)
        size = draft.stat().st_size
        source, entries = OpenedFile(draft), result.new_entries
        codex = session.format == "codex"
        lines = _codex(source, entries, messages) if codex else _pi(source, entries)
        if not lines:
            return None
        _extend(session, source, lines)
        read = open_session(draft).messages
        if shown(session.format, read) != shown(session.format, messages):
            return None
        if target is not None:
            before_write(result)
            _install(session, draft, target, size)
    return CompactedSession(result, target, read, format=session.format)


def _whole(session: Session, items: ReadItems, result: CompactionResult) -> None:
    """Everything that the model was shown is in the summary or kept: else a line would be lost."""
    ids = items.parts.ids
    reported = (*result.report.removed, *result.report.kept)
    if Counter(reported) != Counter(ids):
        raise LogConflict(
            f"{session.path}: the compaction accounts for {len(reported):,} entries of {len(ids):,}",
            hint="open it again and compact that: nothing was written",
        )


def _install(session: Session, draft: Path, target: Path, size: int) -> None:
    """Append what was added to the draft, a copy of `size` bytes, to the session's own file, or replace the target with it."""
    if _is_own(session, target):
        _append(session, draft, size)
        return
    if session.pin is not None:
        session.pin.check(session.path.stat(), str(session.path))
    _put_in_place(draft, target, like=session.path)


def _append(session: Session, draft: Path, size: int) -> None:
    """Append to the session's own file what a draft has after its first bytes, which are that file's."""
    with draft.open("rb") as file, closing(LogFile(str(session.path), create=False)) as log:
        file.seek(size)
        log.append(file.read().removeprefix(b"\n"), session.pin)
        log.sync()


def _is_own(session: Session, target: Path) -> bool:
    return target.exists() and target.samefile(session.path)


def _refuse(session: Session, target: Path, overwrite: bool) -> None:
    if target.exists() and not (target.is_file() or target.is_dir()):
        raise StoreError("is not a regular file", path=str(target), hint="name another file")
    refuse_to_replace(target, overwrite=overwrite or _is_own(session, target))


class FreshSession(Frozen):
    """A new session."""

    id: str
    path: Path
    resume_line: str  # the command that goes on from it, to be run in the project's folder
    done: CompactedSession


def resume_line(tool: str, name: str, path: Path) -> str:
    """The command with which a tool goes on from a session of this id in this file."""
    starts = {
        "claude-code": "claude --resume",
        "codex": "codex resume",
        "pi": "pi --session",
        "gemini": "gemini --resume",
        "copilot": "copilot --resume",
        "opencode": "opencode --session",
    }
    return f"{starts[tool]} {shlex.quote(str(path) if tool == 'pi' else name)}"


def file_name(tool: str, name: str, now: datetime) -> str:
    """What a tool calls the file of a session of this id that begins now."""
    stamp = f"{now:%Y-%m-%dT%H-%M-%S}"
    if tool == "codex":
        return f"rollout-{stamp}-{name}.jsonl"
    return (
        f"{stamp}-{now.microsecond // 1_000:03}Z_{name}.jsonl" if tool == "pi" else f"{name}.jsonl"
    )


def new_session(
    session: Session,
    compact: Callable[[Session, Path], CompactedSession],
    *,
    name: str = "",
    now: datetime | None = None,
) -> FreshSession:
    """Copies a session's file under a new id, and compacts the copy.

    Args:
        session: From `open_session`; of Claude Code, Codex or pi.
        compact: Compacts a session into its own file.
        name: The new id; empty: a random one.
        now: For the file's name; `None`: the clock's.

    Returns:
        The new session; where nothing was compacted, its file is removed again.

    Raises:
        InvalidPolicy: Of another format.
        StoreError: It cannot be written, or a `ContextManager` writes to it.
    """
    if session.format not in REWRITTEN:
        hint = "`ullage handoff FILE --to claude-code` writes one for another tool"
        limit = f"needs a session of Claude Code, Codex or pi, this is one of {session.format}"
        raise InvalidPolicy("--new-session", str(session.path), limit, hint=hint)
    refuse_managers(session.items, str(session.path))
    tool, name = session.format.replace("_", "-"), name or str(uuid.uuid4())
    path = session.path.with_name(file_name(tool, name, now or datetime.now(UTC)))
    write_private(path, _renamed(session, name), new=True)
    compacted = False
    try:
        done = compact(open_session(path), path)
        compacted = done.result.compacted
    finally:
        if not compacted:
            path.unlink(missing_ok=True)
    return FreshSession(name, path, resume_line(tool, name, path), done)


def _renamed(session: Session, name: str) -> bytes:
    data = session.path.read_bytes()
    if session.format == CLAUDE_CODE:
        # Inside of a string the quotes would be escaped: this finds keys only, and leaves every other byte.
        old = re.escape(session.id.encode())
        return re.sub(
            rb'("sessionId"\s*:\s*")' + old + b'"', rb"\g<1>" + name.encode() + b'"', data
        )
    lines = data.splitlines(keepends=True)
    for at, line in enumerate(lines):
        entry = entry_in(line)
        if session.format == "pi" and entry.get("type") == "session":
            entry |= {"id": name, "parentSession": str(session.path)}
        elif session.format == "codex" and entry.get("type") == "session_meta":
            payload = entry["payload"]
            payload |= {"id": name, "forked_from_id": payload.get("id")}
            if "session_id" in payload:
                payload["session_id"] = name
        else:
            continue
        lines[at] = line_of(entry, at)
        break
    return b"".join(lines)


# Another view of a session, appended to its file: what the model is shown from now on, while every line before stays.
#
# In a Claude Code file it is a boundary, followed by copies on one chain of parents, so that a reader that walks the parents and
# one that takes what follows the boundary find the same. In a Codex file it is a line with a replaced history, in a pi file a branch.

REWRITTEN = (CLAUDE_CODE, "codex", "pi")  # formats that can be given another view by appended lines


def check_rewritable(session: Session) -> None:
    """Refuses, as `InvalidPolicy`, a session whose tool would not read an appended view."""
    if session.format not in REWRITTEN:
        limit = f"files of Claude Code, Codex and pi can be changed, this is one of {session.format}: its tool reads no other view from its end"
        hint = "`ullage handoff FILE --to claude-code` writes it as one that can"
        raise InvalidPolicy("FILE", str(session.path), limit, hint=hint)


def append_view(session: Session, items: Sequence[Item], **about: str) -> Session:
    """Appends a view of these entries of the session, in the order of the context, and opens the file again.

    The lines are tried on a copy first: unless that reads back as these items, nothing is written. What `about` says,
    such as `undoes`, is recorded with the boundary. The session is one that `check_rewritable` accepts; raises as `_appended` does.
    """
    write = {CLAUDE_CODE: _as_copies, "codex": _as_history, "pi": _as_branch}[session.format]
    wanted = resume(_bare(items)).messages
    return _appended(session, partial(write, session, items, about), wanted=wanted)


def _appended(
    session: Session,
    add: Callable[[Path], None],
    *,
    write: bool = True,
    wanted: Sequence[Item] | None = None,
) -> Session:
    """The session with what `add` appends to a file, or without `write` what it would become; tried on a copy first.

    `StoreError`: it cannot be written, or reads back as others than the `wanted` messages; `LogConflict`: it changed since it
    was opened. Nothing was written then.
    """
    with draft_of(session.path) as draft:
        _copy_file(session.path, draft, session.pin)
        size = draft.stat().st_size
        add(draft)
        tried, kind = open_session(draft), session.format
        if wanted is not None and shown(kind, tried.messages) != shown(kind, wanted):
            raise StoreError("reads back differently from what was chosen", path=str(session.path))
        if not write:
            return tried
        _append(session, draft, size)
    return open_session(session.path)


def _bare(items: Sequence[Item]) -> list[Item]:
    """The messages without their links, which name entries that are not among them."""
    keys = ("type", "uuid", "message", "isMeta", "isCompactSummary", SOURCE_ROLE)
    return [{key: item[key] for key in keys if key in item} for item in items]


def _as_copies(
    session: Session, items: Sequence[Item], about: Mapping[str, str], draft: Path
) -> None:
    with TranscriptLog.open(draft, create=False, durability="none") as log:
        history = log.transcript()
        metadata = {"trigger": "manual", "preTokens": 0, "replacementHistory": True, **about}
        cut = records.compact_boundary(metadata, content="View changed")
        mark = log.entry(cut, parent=log.leaf)
        parent = str(mark["uuid"])
        lines, copies = [mark], Copies(parent)
        for item in _as_stored(session, items):
            lines.append(log.entry(copies.of(item, parent), parent=parent))
            parent = str(lines[-1]["uuid"])
        mark["compactMetadata"]["groupUuids"] = [entry["uuid"] for entry in lines[1:]]
        log.write(lines_to_append(history, lines, str(session.path)))


def _as_stored(session: Session, items: Sequence[Item]) -> Iterator[Item]:
    """The items as the file holds them: attachments, and copies of results for the interface that shows the new view."""
    transcript = session.transcript
    rows = transcript.rows() if transcript else ()
    places = {row.uuid: row for row in rows if row.uuid}
    for item in items:
        row = places.get(str(item.get("uuid")))
        if transcript is None or row is None:
            yield item
        elif row.type == "attachment":
            yield transcript.load(row.at)
        elif "toolUseResult" in item and item["toolUseResult"] is None:
            yield {**item, "toolUseResult": transcript.load(row.at).get("toolUseResult")}
        else:
            yield item


def _as_history(
    session: Session, items: Sequence[Item], about: Mapping[str, str], draft: Path
) -> None:
    """Each entry as it stood, also where several of one role follow each other. Codex passes over the keys in `about`."""
    source = OpenedFile(draft)
    history: list[Line] = []
    for entry, item in codex_items(_bare(items)):
        spoken = item.get("role") == "user" and SOURCE_ROLE in entry
        history.append({**item, "role": entry[SOURCE_ROLE]} if spoken else item)
    line = _compacted_line(source, iso_of(now_in_ms()), "", history, str(uuid.uuid4()))
    line["payload"] |= about
    _extend(session, source, [line])


# Branches of a pi session: pi's file is a tree whose newest entry is its tip, so another view is another branch.
#
# Every line stays: the newest change is taken back by one more branch, with copies of what was said since.

PiEntry = Mapping[str, Any]

EDIT = "ullage-edit"  # type of a record after an edit's copies; its data names the tip before them


def _path_to_tip(session: Session) -> list[PiEntry]:
    """The entries of a session's branch, from the first to the tip; `InvalidPolicy`: a version without ids has no branches."""
    path = path_of(OpenedFile(session.path).lines())
    if path is None:
        limit = "is of a version of pi without ids, which has no words for it"
        hint = "`ullage handoff FILE --to claude-code` writes it as one that can be changed"
        raise InvalidPolicy("FILE", str(session.path), limit, hint=hint)
    return path


def nothing_to_undo(session: Session) -> InvalidPolicy:
    """The error for a session that holds neither a compaction nor an edit that stands."""
    hint = "what `ullage compact` wrote to another file is undone by going on from this one"
    limit = "holds no compaction to take back"
    return InvalidPolicy("FILE", str(session.path), limit, hint=hint)


def newest_change(session: Session) -> tuple[PiEntry, Sequence[PiEntry], int]:
    """The newest compaction or edit on a session's branch, what came after it, and how many can be taken back after it.

    `InvalidPolicy`: there is nothing, or the file is of a version without ids.
    """
    path = _path_to_tip(session)
    places = [at for at, entry in enumerate(path) if _is_change(entry)]
    if not places:
        raise nothing_to_undo(session)
    entry, left = path[places[-1]], len(places) - 1
    if tip := _edited_tip(entry):
        left = sum(map(_is_change, path_of(OpenedFile(session.path).lines(), tip) or ()))
    return entry, path[places[-1] + 1 :], left


def without_change(
    session: Session, change: PiEntry, since: Sequence[PiEntry], *, write: bool
) -> Session:
    """The session with its newest change taken back, and with what was said since; see `_appended` and `newest_change`."""
    before = _edited_tip(change) or change.get("parentId")
    lines = _copied_below(before, since)
    if not lines:
        lines = [_note("ullage-undo", before, undoes=change.get("id"))]
    return _appended(session, lambda draft: _extend(session, OpenedFile(draft), lines), write=write)


def _copied_below(parent: Any, entries: Sequence[PiEntry]) -> list[Line]:
    """The entries under ids of their own, on one chain."""
    copies: list[Line] = []
    for entry in entries:
        name = os.urandom(4).hex()
        copies.append({**entry, "id": name, "parentId": parent})
        parent = name
    return copies


def _note(kind: str, parent: Any, **data: Any) -> Line:
    """An entry that pi does not show to the model; `parent`, the id of the entry before it: `None` begins a branch."""
    entry: Line = {"type": "custom", "customType": kind, "id": os.urandom(4).hex()}
    stamp = iso_of(now_in_ms())
    return entry | {"parentId": parent, "timestamp": stamp, "data": data}


def _is_change(entry: PiEntry) -> bool:
    return entry.get("type") == "compaction" or bool(_edited_tip(entry))


def _edited_tip(entry: PiEntry) -> str:
    """The tip before an edit, if the entry records one."""
    data = as_mapping(entry.get("data")) if entry.get("customType") == EDIT else {}
    return str(data.get("tip") or "")


def _as_branch(
    session: Session, items: Sequence[Item], about: Mapping[str, str], draft: Path
) -> None:
    """From the first entry that changes on, the newest branch is copied with the changes: tool results may have other content."""
    del about  # of an undo, which is another branch
    path = _path_to_tip(session)
    chosen = _chosen(session, path, items)
    first = next((at for at, entry in enumerate(chosen) if entry is not path[at]), len(path))
    parent = path[first - 1]["id"] if first else None
    copies = _copied(session, path, chosen, first, parent)
    end = copies[-1]["id"] if copies else parent
    lines = [*copies, _note(EDIT, end, tip=path[-1]["id"])]
    _extend(session, OpenedFile(draft), lines)


def _chosen(
    session: Session, path: Sequence[PiEntry], items: Sequence[Item]
) -> list[PiEntry | None]:
    """For each entry of the path itself, a changed one in its place, or `None` where it goes."""
    items_by_uuid = {item["uuid"]: item for item in items}
    shown_items = _shown_items(session, path)
    # Without its summary, all that it stood for would be shown again.
    hidden = -1
    for at, item in enumerate(shown_items):
        if item and is_summary(item) and item["uuid"] not in items_by_uuid:
            hidden = at
    entries: list[PiEntry | None] = []
    for at, (entry, item) in enumerate(zip(path, shown_items, strict=True)):
        if item is not None:
            entries.append(_with_content(entry, item, items_by_uuid.get(item["uuid"])))
        else:
            goes = at < hidden and entry.get("type") in ("message", "compaction")
            entries.append(None if goes else entry)
    return entries


def _shown_items(session: Session, path: Sequence[PiEntry]) -> list[Item | None]:
    """For each entry the item in which the model is shown it; results in a row are one item."""
    numbers = {line.get("id"): number for number, line in OpenedFile(session.path).lines()}
    by_line = {int(str(item["uuid"]).rpartition("-")[2]): item for item in session.items}
    answers = {name: item for item in session.items for name in _results(item)}
    shown_items: list[Item | None] = []
    for entry in path:
        item, call = by_line.get(numbers[entry["id"]]), _answered(entry)
        if item is None and call:
            before = shown_items[-1] if shown_items else None
            item = before if before and _result_in(before, call) else answers.get(call)
        shown_items.append(item)
    return shown_items


def _with_content(entry: PiEntry, old: Item, new: Item | None) -> PiEntry | None:
    if new is None:
        return None
    before, after = (_result_in(item, _answered(entry)) for item in (old, new))
    if before is None or after is None or before.get("content") == after.get("content"):
        return entry
    content = as_blocks(after.get("content") or "")
    return {**entry, "message": {**entry["message"], "content": content}}


def _answered(entry: PiEntry) -> str:
    """Id of the call that a line with a result answers; empty for any other line."""
    return str(as_mapping(entry.get("message")).get("toolCallId") or "")


def _results(item: Item) -> dict[str, BlockView]:
    return {str(block.get("tool_use_id")): block for block in blocks_in([item], "tool_result")}


def _result_in(item: Item, call: str) -> BlockView | None:
    """The result of a call; the reader adds a number to an id that was used before."""
    for name, block in _results(item).items():
        stored, _, number = name.rpartition("-")
        if name == call or (stored == call and number.isdigit()):
            return block
    return None


def _copied(
    session: Session,
    path: Sequence[PiEntry],
    chosen: Sequence[PiEntry | None],
    first: int,
    parent: Any,
) -> list[Line]:
    """What stays from `first` on; a compaction among it keeps from the same entry on, or from the next that is left."""
    order = {line.get("id"): at for at, (_, line) in enumerate(OpenedFile(session.path).lines())}
    ids = {entry["id"]: at for at, entry in enumerate(path)}
    places = [at for at in range(first, len(path)) if chosen[at] is not None]
    copies = _copied_below(parent, [entry for entry in chosen[first:] if entry is not None])
    names = {at: line["id"] for at, line in zip(places, copies, strict=True)}
    for at, line in zip(places, copies, strict=True):
        if line.get("type") != "compaction":
            continue
        index = line.pop("firstKeptEntryIndex", None)
        start = ids.get(line.get("firstKeptEntryId"), at)
        if isinstance(index, int):
            start = next((i for i in range(at) if order[path[i]["id"]] >= index), at)
        start = next(i for i in range(start, at + 1) if chosen[i] is not None)
        line["firstKeptEntryId"] = names.get(start) or path[start]["id"]
    return copies
