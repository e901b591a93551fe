"""A compaction of a pi session taken back: pi's file is a tree whose newest entry is its tip, so other words are another branch.

The entries that came after the compaction are copied below the entry before it. Every line stays.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from ullage.exceptions import InvalidPolicy
from ullage.sessions.drafts import copy_of, draft_of
from ullage.sessions.load import Session, open_session
from ullage.transcript.formats import OpenedFile
from ullage.transcript.formats._model import iso
from ullage.transcript.formats.pi import path_of
from ullage.transcript.log import line_of
from ullage.transcript.logfile import LogFile
from ullage.transcript.pin import FilePin

__all__ = ["newest_compaction", "without_compaction"]

Line = dict[str, Any]


def newest_compaction(session: Session) -> tuple[Sequence[Mapping[str, Any]], int]:
    """The entries from the first to the tip, and the place of the newest compaction among them.

    Raises:
        InvalidPolicy: There is none, or the file is of a version without ids, which knows no branches.
    """
    path = path_of(OpenedFile(session.path))
    if path is None:
        limit = "is of a version of pi without ids, which has no words for it"
        hint = "`ullage handoff FILE --to claude-code` writes it as one that can be changed"
        raise InvalidPolicy("FILE", str(session.path), limit, hint=hint)
    places = [at for at, entry in enumerate(path) if entry.get("type") == "compaction"]
    if not places:
        raise InvalidPolicy("FILE", str(session.path), "holds no compaction to take back")
    return path, places[-1]


def without_compaction(session: Session, *, write: bool) -> Session:
    """The session with its newest compaction taken back.

    Args:
        session: From `open_session`; its file must not have changed since.
        write: Whether the file is changed; else the result is what it would become.

    Raises:
        InvalidPolicy: See `newest_compaction`.
        StoreError: It cannot be written.
        LogConflict: The file changed since it was opened.
    """
    lines = _branch(*newest_compaction(session))
    added = b"".join(line_of(line, at) for at, line in enumerate(lines))
    if not write:
        with draft_of(session.path) as draft:
            copy_of(session.path, draft, session.pin)
            _append(draft, added, None)
            return open_session(draft)
    _append(session.path, added, session.pin)
    return open_session(session.path)


def _append(path: Path, added: bytes, pin: FilePin | None) -> None:
    with closing(LogFile(str(path), create=False)) as log:
        log.append(added, pin)
        log.sync()


def _branch(path: Sequence[Mapping[str, Any]], place: int) -> list[Line]:
    """What came after the compaction, below the entry before it; where nothing came, an entry that only moves the tip."""
    parent = path[place].get("parentId")
    names: dict[str, str] = {}
    made: list[Line] = []
    for entry in path[place + 1 :]:
        names[str(entry["id"])] = name = os.urandom(4).hex()
        copied = {**entry, "id": name, "parentId": parent}
        kept = copied.get("firstKeptEntryId")
        if kept in names:
            copied["firstKeptEntryId"] = names[kept]
        made.append(copied)
        parent = name
    if made:
        return made
    said: Line = {"type": "custom", "customType": "ullage-undo", "id": os.urandom(4).hex()}
    said |= {"parentId": parent, "timestamp": iso(time.time_ns() // 1_000_000)}
    return [{**said, "data": {"undoes": path[place].get("id")}}]
