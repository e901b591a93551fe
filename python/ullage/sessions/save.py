"""Compacts a session and writes a transcript that can be resumed: whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Unpack

from ullage._engine import core
from ullage.compaction import CompactionResult
from ullage.compaction.api import job_of
from ullage.compaction.chain import entries_to_write, on_one_chain
from ullage.compaction.effects_runner import run_flow
from ullage.compaction.flow import compaction_flow
from ullage.compaction.input import ReadItems
from ullage.compaction.options import CompactionOptions
from ullage.counting.estimate import Weights, weights_for
from ullage.exceptions import InvalidPolicy, LogConflict, StoreError
from ullage.messages import BOUNDARY, Item
from ullage.policy.arguments import refuse_unknown
from ullage.providers.anthropic import clean_entries
from ullage.sessions.drafts import copy_of, draft_of, put_in_place
from ullage.sessions.load import CLAUDE_CODE, Session, open_session
from ullage.sessions.native_append import APPENDED, continued, lines_of, shown
from ullage.transcript import Transcript, TranscriptLog, resume
from ullage.transcript.formats import OpenedFile
from ullage.transcript.log import line_of
from ullage.transcript.logfile import LogFile
from ullage.transcript.write import envelope_of, session_lines

__all__ = ["CompactedSession", "compact_session"]


@dataclass(frozen=True, slots=True, repr=False)
class CompactedSession:
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


_OWN = ("output", "overwrite", "format", "before_write", "transcript_path")
"""Arguments of `compact_session` that are its own, for the nearest name of a misspelt one."""


def compact_session(
    session: Session,
    *,
    output: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    format: str | None = None,  # noqa: A002 - the word of the field, as in `read`
    transcript_path: str | None = None,
    before_write: Callable[[CompactionResult], object] | None = None,
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
    if format not in (None, CLAUDE_CODE) and (format != session.format or format not in APPENDED):
        known = sorted({CLAUDE_CODE, *(name for name in APPENDED if name == session.format)})
        raise InvalidPolicy("format", format, f"must be {' or '.join(known)}")
    target = None if output is None else Path(output)
    if target is not None:
        _refuse(session, target, overwrite)
    model = options.get("model") or session.model or None
    before, beside = _measured(session, options.get("weights") or weights_for(model))
    overhead = options.get("overhead_tokens")
    given: dict[str, Any] = {
        **options,
        "model": model,
        "overhead_tokens": beside() if overhead is None else overhead,
        "transcript_path": str(target or session.path)
        if transcript_path is None
        else transcript_path,
        "before_write": before_write or (lambda result: None),
    }
    if session.format in APPENDED and format != CLAUDE_CODE:
        done = _in_own_format(session, target, given, before)
        if done is not None:
            return done
        if format is not None or (target is not None and _is_own(session, target)):
            reason = f"the {session.format} format has no words for this compaction"
            raise StoreError(reason, path=str(target), hint="write another file, as claude_code")
    return _as_claude_code(session, target, given, before)


def _measured(session: Session, weights: Weights) -> tuple[int | None, Callable[[], int]]:
    """See `Session.reported_tokens` and `Session.overhead_tokens`, of one look at the entries."""
    ledger = core.Ledger(weights, session.items)
    count, beside = ledger.anchored(), ledger.overhead
    if count.anchor is None or beside is None:
        return None, lambda: session.overhead_tokens(weights)
    return count.total, lambda: beside


def _compacted(
    items: ReadItems, options: Mapping[str, Any], before: int | None
) -> CompactionResult:
    """The compaction, not written; its size before is the provider's figure where there is one, as in `inspect`."""
    of_flow = ("cancel", "listeners", "before_write")
    given = {name: each for name, each in options.items() if name not in of_flow}
    job = job_of(items, context_tokens=before, **given)
    listeners, cancel = options.get("listeners", ()), options.get("cancel")
    return run_flow(compaction_flow(job), job, listeners, cancel=cancel)


# ---- in Claude Code's format -----------------------------------------------------------------


def _as_claude_code(
    session: Session, target: Path | None, options: Mapping[str, Any], before: int | None
) -> CompactedSession:
    if target is not None and session.format != CLAUDE_CODE and _is_own(session, target):
        reason = f"is a {session.format} file, to which a compaction cannot be appended"
        raise StoreError(reason, path=str(target), hint="name another file to write")
    session, losses = _writable(session)
    items = ReadItems.in_context(session.items)
    result = _compacted(items, options, before)
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
        result = on_one_chain(result, history)
        _append(draft, result, history, str(session.path))
        if Transcript.open(draft).shown() != messages:
            raise StoreError("reads back differently from what was compacted", path=str(target))
        options["before_write"](result)
        _install(session, draft, target, size)
    return CompactedSession(result, target, messages, losses)


def _writable(session: Session) -> tuple[Session, Mapping[str, int]]:
    """The session as a Claude Code file can hold it, and how much of what kind it cannot hold."""
    if session.format == CLAUDE_CODE:
        return session, {}
    history, losses = clean_entries(session.history)
    found = resume(history)
    clean = replace(session, history=history, items=found.entries, messages=found.messages)
    return clean, Counter(loss.what for loss in losses)


def _copy(session: Session, draft: Path) -> None:
    if session.format == CLAUDE_CODE:
        copy_of(session.path, draft, session.pin)
        return
    with TranscriptLog.open(draft, durability="none") as log:
        log.write(_placed(session.history))


def _placed(history: Sequence[Item]) -> list[Item]:
    """Entries of another format with what Claude Code expects on each line, one chain between two boundaries."""
    placed: list[Item] = []
    parent = None
    for entry in history:
        mark = entry.get("subtype") == BOUNDARY
        links = {"parentUuid": None if mark else parent}
        if mark:
            links["logicalParentUuid"] = parent
        placed.append({**links, "isSidechain": False, "userType": "external", **entry})
        parent = entry.get("uuid") or parent
    return placed


def _with_kept(items: ReadItems, result: CompactionResult) -> list[dict[str, Any]]:
    """The messages of what was kept and of what is new."""
    kept, parts = set(result.report.kept), items.parts
    names = zip(parts.context, parts.ids, strict=True)
    near = [item for item, name in names if name in kept]
    return resume([*near, *result.new_entries]).messages


def _append(path: Path, result: CompactionResult, history: Transcript, name: str) -> None:
    """Appends a compaction to a copy of what `history` is the index of; errors call the file by `name`."""
    with TranscriptLog.open(path, create=False, durability="none") as log:
        lines = envelope_of(history, name).over(entries_to_write(result))
        log.write([*lines, *session_lines(history, lines)])


# ---- in the file's own format ----------------------------------------------------------------


def _in_own_format(
    session: Session, target: Path | None, options: Mapping[str, Any], before: int | None
) -> CompactedSession | None:
    """The compaction as lines of the session's format; `None` if that format cannot say it."""
    items = ReadItems.in_context(session.items)
    result = _compacted(items, options, before)
    messages = resume([*session.items, *result.new_entries]).messages
    if not result.compacted:
        return CompactedSession(result, None, messages, format=session.format)
    _whole(session, items, result)
    del items  # as large as the context, while the copy is read back
    with _draft(target, session.path.name) as draft:
        copy_of(session.path, draft, session.pin)
        size = draft.stat().st_size
        source = OpenedFile(draft)
        lines = lines_of(session.format, source, result.new_entries, messages)
        lines = continued(session.format, source, lines, str(session.path))
        _add(draft, lines)
        read = open_session(draft).messages if lines else []
        if shown(session.format, read) != shown(session.format, messages):
            return None
        if target is None:
            return CompactedSession(result, None, read, format=session.format)
        options["before_write"](result)
        _install(session, draft, target, size)
    return CompactedSession(result, target, read, format=session.format)


def _add(path: Path, lines: list[dict[str, Any]]) -> None:
    with closing(LogFile(str(path), create=False)) as file:
        file.append(b"".join(line_of(line, at) for at, line in enumerate(lines)))


# ---- both ------------------------------------------------------------------------------------


def _whole(session: Session, items: ReadItems, result: CompactionResult) -> None:
    """Everything that the model was shown is in the summary or kept: else a line would be lost."""
    known = items.parts.ids
    told = (*result.report.removed, *result.report.kept)
    if Counter(told) != Counter(known):
        raise LogConflict(
            f"{session.path}: the compaction accounts for {len(told):,} entries of {len(known):,}",
            hint="open it again and compact that: nothing was written",
        )


def _install(session: Session, draft: Path, target: Path, size: int) -> None:
    """Append what was added to the draft to the session's own file, or replace the target with the draft.

    Args:
        session: As it was read; its file must be the same still.
        draft: A copy with the compaction at its end, read back.
        target: Where it goes.
        size: Bytes of the copy.
    """
    if not _is_own(session, target):
        if session.pin is not None:
            session.pin.check(session.path.stat(), str(session.path))
        put_in_place(draft, target, like=session.path)
        return
    with draft.open("rb") as file:
        file.seek(size)
        added = file.read()
    with closing(LogFile(str(target), create=False)) as log:
        log.append(added.removeprefix(b"\n"), session.pin)
        log.sync()


@contextmanager
def _draft(target: Path | None, name: str) -> Iterator[Path]:
    """A file next to the target, to replace it; without a target, a hidden one."""
    if target is not None:
        with draft_of(target) as draft:
            yield draft
        return
    with tempfile.TemporaryDirectory() as folder, draft_of(Path(folder, name)) as draft:
        yield draft


def _is_own(session: Session, target: Path) -> bool:
    return target.exists() and target.samefile(session.path)


def _refuse(session: Session, target: Path, overwrite: bool) -> None:
    if target.is_dir():
        raise StoreError("is a directory", path=str(target), hint="name a file in it")
    if target.exists() and not target.is_file():
        raise StoreError("is not a regular file", path=str(target), hint="name another file")
    if target.exists() and not _is_own(session, target) and not overwrite:
        raise StoreError(
            "exists already",
            path=str(target),
            hint="name another file, or allow to overwrite it (overwrite=True, --force)",
        )
