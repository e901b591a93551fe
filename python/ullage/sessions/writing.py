"""Compacts a session and writes a transcript that can be resumed: whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ullage.compaction import CompactionResult, compact
from ullage.exceptions import InvalidPolicy, LogConflict, StoreError
from ullage.messages import Item
from ullage.providers.anthropic import clean_entries
from ullage.sessions.opening import CLAUDE_CODE, Session, open_session
from ullage.sessions.own import APPENDED, lines_of, shown
from ullage.transcript import TranscriptLog, resume
from ullage.transcript.formats import Source
from ullage.transcript.log import line_of
from ullage.transcript.logfile import LogFile

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


def compact_session(
    session: Session,
    *,
    output: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    format: str | None = None,  # noqa: A002 - the word of the field, as in `read`
    **options: Any,
) -> CompactedSession:
    """Compact a session and write a transcript that its own tool, or Claude Code, and Ullage can resume.

    The written file holds the whole history; the compaction is appended to it, so nothing is lost. Files of
    Claude Code, Codex and pi keep their format. One of another tool is written anew in Claude Code's, which
    has no place for what only that tool's provider can read (encrypted reasoning, say): `losses` counts it,
    the file itself stays as it is.

    Args:
        session: From `open_session`.
        output: Where to write; the session's own path appends to it. `None`: nothing is written.
        overwrite: Whether another existing file may be replaced.
        format: `claude_code`, or the session's own where that is Codex or pi; `None`: the own one if it
            has words for this compaction, else Claude Code's.
        **options: Arguments of `compact`, such as `instructions`, `keep`, `model`, `summarizer`.

    Returns:
        The result. Nothing is written unless the outcome is `compacted`.

    Raises:
        InvalidPolicy: No file of this session can be written in that format.
        StoreError: The file exists and `overwrite` is false, or it cannot be written; nothing has changed.
        LogConflict: The session's own file grew since it was opened, or another writer holds it.
        CompactionError: The compaction failed; nothing has changed.
    """
    if format not in (None, CLAUDE_CODE) and (format != session.format or format not in APPENDED):
        known = sorted({CLAUDE_CODE, *(name for name in APPENDED if name == session.format)})
        raise InvalidPolicy("format", format, f"must be {' or '.join(known)}")
    target = None if output is None else Path(output)
    if target is not None:
        _refuse(session, target, overwrite)
    options.setdefault("model", session.model or None)
    if session.format in APPENDED and format != CLAUDE_CODE:
        done = _in_own_format(session, target, options)
        if done is not None:
            return done
        if format is not None or (target is not None and _is_own(session, target)):
            reason = f"the {session.format} format has no words for this compaction"
            raise StoreError(reason, path=str(target), hint="write another file, as claude_code")
    return _as_claude_code(session, target, options)


# ---- in Claude Code's format -----------------------------------------------------------------


def _as_claude_code(
    session: Session, target: Path | None, options: Mapping[str, Any]
) -> CompactedSession:
    if target is not None and session.format != CLAUDE_CODE and _is_own(session, target):
        reason = f"is a {session.format} file, to which a compaction cannot be appended"
        raise StoreError(reason, path=str(target), hint="name another file to write")
    session, losses = _writable(session)
    result = compact(session.items, transcript_path=str(target or session.path), **options)
    # As the log will hold it: kept messages whole. `Session.request` leaves out what may not be sent of them.
    messages = resume([*session.items, *result.new_entries]).messages
    if target is None or not result.compacted:
        return CompactedSession(result, None, messages, losses)
    _write(session, result, target)
    written = resume(target).messages
    if written != messages:
        raise StoreError("reads back differently from what was compacted", path=str(target))
    return CompactedSession(result, target, written, losses)


def _writable(session: Session) -> tuple[Session, Mapping[str, int]]:
    """The session as a Claude Code file can hold it, and how much of what kind it cannot hold."""
    if session.format == CLAUDE_CODE:
        return session, {}
    history, losses = clean_entries(session.history)
    found = resume(history)
    clean = replace(session, history=history, items=found.entries, messages=found.messages)
    return clean, Counter(loss.what for loss in losses)


def _write(session: Session, result: CompactionResult, target: Path) -> None:
    if _is_own(session, target):
        _append(target, result)
        return
    with _draft(target, session.path.name) as draft:
        _copy(session, draft)
        _append(draft, result)
        draft.replace(target)


def _copy(session: Session, draft: Path) -> None:
    if session.format == CLAUDE_CODE:
        shutil.copyfile(session.path, draft)
        return
    with TranscriptLog.open(draft, durability="none") as log:
        log.write([_placed(entry) for entry in session.history])


def _placed(entry: Item) -> Mapping[str, Any]:
    """An entry of another format with what Claude Code expects on each line."""
    return {"parentUuid": None, "isSidechain": False, "userType": "external", **entry}


def _append(path: Path, result: CompactionResult) -> None:
    with TranscriptLog.open(path, create=False) as log:
        # Titles and tags again at the end: lists of sessions only read the last part of a file.
        metadata = list(log.transcript().metadata.values())
        log.write([*result.new_entries, *metadata])
        log.sync()


# ---- in the file's own format ----------------------------------------------------------------


def _in_own_format(
    session: Session, target: Path | None, options: Mapping[str, Any]
) -> CompactedSession | None:
    """The compaction as lines of the session's format; `None` if that format cannot say it."""
    result = compact(session.items, transcript_path=str(target or session.path), **options)
    messages = resume([*session.items, *result.new_entries]).messages
    if not result.compacted:
        return CompactedSession(result, None, messages, format=session.format)
    with _draft(target, session.path.name) as draft:
        shutil.copyfile(session.path, draft)
        if draft.stat().st_size != session.size:
            raise LogConflict(f"{session.path}: the file changed since it was opened")
        lines = lines_of(session.format, Source(draft), result.new_entries, messages)
        _add(draft, lines)
        read = open_session(draft).messages if lines else []
        if shown(session.format, read) != shown(session.format, messages):
            return None
        if target is None:
            return CompactedSession(result, None, read, format=session.format)
        if _is_own(session, target):
            _add(target, lines, size=session.size)
        else:
            draft.replace(target)
    return CompactedSession(result, target, read, format=session.format)


def _add(path: Path, lines: list[dict[str, Any]], *, size: int | None = None) -> None:
    data = b"".join(line_of(line, at) for at, line in enumerate(lines))
    file = LogFile(str(path), create=False)
    try:
        if size is not None and file.end != size:
            raise LogConflict(f"{path}: the file changed since it was opened")
        file.append(data)
        file.sync()
    finally:
        file.close()


# ---- both ------------------------------------------------------------------------------------


@contextmanager
def _draft(target: Path | None, name: str) -> Iterator[Path]:
    """A file beside the target, to be put in its place; without a target, one that nobody sees."""
    if target is None:
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder) / name
        return
    path = target.with_name(f".{target.name}.{os.getpid()}.part")
    path.unlink(missing_ok=True)
    try:
        yield path
    except StoreError:
        raise
    except OSError as exc:
        raise StoreError(f"cannot be written: {exc.strerror or exc}", path=str(target)) from exc
    finally:
        path.unlink(missing_ok=True)


def _is_own(session: Session, target: Path) -> bool:
    return target.exists() and target.samefile(session.path)


def _refuse(session: Session, target: Path, overwrite: bool) -> None:
    if target.is_dir():
        raise StoreError("is a directory", path=str(target), hint="name a file in it")
    if target.exists() and not target.is_file():
        raise StoreError("is no regular file", path=str(target), hint="name another file")
    if target.exists() and not _is_own(session, target) and not overwrite:
        raise StoreError(
            "exists already",
            path=str(target),
            hint="name another file, or allow to overwrite it (overwrite=True, --force)",
        )
