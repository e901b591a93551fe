"""Takes the newest compaction of a session back: what it removed is shown again, together with what was said since."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ullage.messages import BOUNDARY, COPY_OF, Item, is_summary
from ullage.sessions.append_view import append_view, check_rewritable
from ullage.sessions.load import Session
from ullage.sessions.pi_branch import newest_change, nothing_to_undo, without_change
from ullage.sessions.session_list import context_tokens
from ullage.transcript import resume

__all__ = ["Undone", "undo_compaction"]


@dataclass(frozen=True, slots=True)
class Undone:
    """What an undo did.

    Attributes:
        session: The file as it is now; as it would be, if nothing was written.
        undone: Uuid of the boundary that was taken back.
        when: Its timestamp; empty if the file has none.
        messages_before: In the context before the undo.
        messages_after: In the context now.
        tokens_before: Size of the context before, as `context_tokens` counts.
        tokens_after: Size now; 0 if nothing was written.
        left: How many compactions can still be taken back.
    """

    session: Session
    undone: str
    when: str
    messages_before: int
    messages_after: int
    tokens_before: int
    tokens_after: int
    left: int


def undo_compaction(session: Session, *, write: bool = True) -> Undone:
    """Takes back the newest compaction that was not taken back yet.

    Only lines are appended: called again, it takes back the compaction before that one.

    Args:
        session: From `open_session`.
        write: Whether the file is changed; else the result says what would be.

    Raises:
        InvalidPolicy: There is no compaction to take back, or the format has no words for it.
        StoreError: It cannot be written.
        LogConflict: The file changed since it was opened.
    """
    check_rewritable(session)
    if session.format == "pi":
        return _undo_in_pi(session, write=write)
    lines = list(session.transcript.entries()) if session.transcript else list(session.history)
    open_ = _standing(lines)
    if not open_:
        raise nothing_to_undo(session)
    at = open_[-1]
    view = resume(_without(lines, at))
    name = str(lines[at].get("uuid"))
    now = append_view(session, view.entries, undoes=name) if write else session
    return Undone(
        now,
        name,
        str(lines[at].get("timestamp") or ""),
        len(session.messages),
        len(view.messages),
        context_tokens(session),
        context_tokens(now) if write else 0,
        len(open_) - 1,
    )


def _undo_in_pi(session: Session, *, write: bool) -> Undone:
    change = newest_change(session)
    now = without_change(session, write=write)
    return Undone(
        now if write else session,
        str(change.entry.get("id")),
        str(change.entry.get("timestamp") or ""),
        len(session.messages),
        len(now.messages),
        context_tokens(session),
        context_tokens(now) if write else 0,
        change.left,
    )


def _standing(lines: Sequence[Item]) -> list[int]:
    """Places of compactions that were neither taken back nor take one back."""
    taken = {_about(line).get("undoes") for line in lines if line.get("subtype") == BOUNDARY}
    return [
        at
        for at, line in enumerate(lines)
        if line.get("subtype") == BOUNDARY
        and line.get("uuid") not in taken
        and not _about(line).get("undoes")
    ]


def _about(line: Item) -> Mapping[str, Any]:
    found = line.get("compactMetadata")
    return found if isinstance(found, Mapping) else {}


def _without(lines: Sequence[Item], at: int) -> list[Item]:
    """The lines as if this compaction and what was written with it, and all views after it, had never been written."""
    marks = [line for line in lines[at:] if line.get("subtype") == BOUNDARY]
    written = {name for mark in marks for name in _about(mark).get("groupUuids") or ()}
    places = {_place(mark) for mark in marks} - {""}
    kept = []
    for line in lines[at:]:
        made = is_summary(line) or COPY_OF in line or line.get("uuid") in written
        if line.get("subtype") != BOUNDARY and not made and _place(line) not in places:
            kept.append(line)
    return [*lines[:at], *kept]


def _place(line: Item) -> str:
    """The line of the file, where a reader gave the id: a replaced history stands on the line of its boundary."""
    uuid = str(line.get("uuid") or "")
    return "" if "parentUuid" in line else uuid.rpartition("-")[2]
