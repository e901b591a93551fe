"""Branches of a pi session: pi's file is a tree whose newest entry is its tip, so another view is another branch.

Every line stays: the newest change is taken back by one more branch, with copies of what was said since.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ullage.exceptions import InvalidPolicy
from ullage.sessions.drafts import copy_of, draft_of
from ullage.sessions.load import Session, open_session
from ullage.sessions.native_append import continued
from ullage.transcript.formats import OpenedFile
from ullage.transcript.formats._model import iso
from ullage.transcript.formats.pi import path_of
from ullage.transcript.log import line_of
from ullage.transcript.logfile import LogFile
from ullage.transcript.pin import FilePin

__all__ = [
    "EDIT",
    "Line",
    "PiChange",
    "PiEntry",
    "appended",
    "copied_below",
    "newest_change",
    "nothing_to_undo",
    "path_to_tip",
    "record",
    "without_change",
]

Line = dict[str, Any]
PiEntry = Mapping[str, Any]

EDIT = "ullage-edit"
"""The type of a record after an edit's copies; its data names the tip before them."""

_UNDO = "ullage-undo"


@dataclass(frozen=True, slots=True)
class PiChange:
    """The newest compaction or edit on a session's branch.

    Attributes:
        entry: What records it.
        since: The entries that came after it.
        left: How many changes can be taken back after it.
    """

    entry: PiEntry
    since: Sequence[PiEntry]
    left: int


def path_to_tip(session: Session) -> list[PiEntry]:
    """The entries of a session's branch, from the first to the tip.

    Raises:
        InvalidPolicy: The file is of a version without ids, which knows no branches.
    """
    path = path_of(OpenedFile(session.path))
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


def newest_change(session: Session) -> PiChange:
    """What an undo takes back.

    Raises:
        InvalidPolicy: There is nothing, or the file is of a version without ids.
    """
    path = path_to_tip(session)
    places = [at for at, entry in enumerate(path) if _is_change(entry)]
    if not places:
        raise nothing_to_undo(session)
    entry, left = path[places[-1]], len(places) - 1
    if tip := _edited_tip(entry):
        left = sum(map(_is_change, path_of(OpenedFile(session.path), tip) or ()))
    return PiChange(entry, path[places[-1] + 1 :], left)


def without_change(session: Session, *, write: bool) -> Session:
    """The session with its newest change taken back, and with what was said since.

    Args:
        session: From `open_session`; its file must not have changed since.
        write: Whether the file is changed; else the result is what it would become.

    Raises:
        InvalidPolicy: See `newest_change`.
        StoreError: It cannot be written.
        LogConflict: The file changed since it was opened.
    """
    change = newest_change(session)
    before = _edited_tip(change.entry) or change.entry.get("parentId")
    lines = copied_below(before, change.since)
    return appended(
        session, lines or [record(_UNDO, before, undoes=change.entry.get("id"))], write=write
    )


def copied_below(parent: Any, entries: Sequence[PiEntry]) -> list[Line]:
    """The entries under ids of their own, on one chain."""
    made: list[Line] = []
    for entry in entries:
        name = os.urandom(4).hex()
        made.append({**entry, "id": name, "parentId": parent})
        parent = name
    return made


def record(kind: str, parent: Any, **data: Any) -> Line:
    """An entry that pi does not show to the model.

    Args:
        kind: Its `customType`.
        parent: Id of the entry before it; `None`: it begins a branch.
        **data: What it says.
    """
    said: Line = {"type": "custom", "customType": kind, "id": os.urandom(4).hex()}
    stamp = iso(time.time_ns() // 1_000_000)
    return said | {"parentId": parent, "timestamp": stamp, "data": data}


def appended(
    session: Session,
    lines: Sequence[Line],
    *,
    write: bool,
    check: Callable[[Session], None] | None = None,
) -> Session:
    """The session with lines appended; tried on a copy first.

    Args:
        session: From `open_session`; its file must not have changed since.
        lines: In the order of the file.
        write: Whether the file is changed; else the result is what it would become.
        check: Raises what keeps the file from being changed, after a look at that.

    Raises:
        StoreError: It cannot be written.
        LogConflict: The file changed since it was opened.
    """
    whole = continued(session.format, OpenedFile(session.path), lines, str(session.path))
    added = b"".join(line_of(line, at) for at, line in enumerate(whole))
    with draft_of(session.path) as draft:
        copy_of(session.path, draft, session.pin)
        _append(draft, added, None)
        tried = open_session(draft)
    if check is not None:
        check(tried)
    if not write:
        return tried
    _append(session.path, added, session.pin)
    return open_session(session.path)


def _append(path: Path, added: bytes, pin: FilePin | None) -> None:
    with closing(LogFile(str(path), create=False)) as log:
        log.append(added, pin)
        log.sync()


def _is_change(entry: PiEntry) -> bool:
    return entry.get("type") == "compaction" or bool(_edited_tip(entry))


def _edited_tip(entry: PiEntry) -> str:
    """The tip before an edit, if the entry records one."""
    data = entry.get("data")
    if entry.get("customType") != EDIT or not isinstance(data, Mapping):
        return ""
    return str(data.get("tip") or "")
