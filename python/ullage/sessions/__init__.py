"""Sessions on disk: find those of this machine, open any known transcript, compact it, write one that can be resumed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ullage._start import on_first_use

if TYPE_CHECKING:
    from ullage.sessions.edit import remove_parts, session_parts, undo_compaction
    from ullage.sessions.find import find_session, found_sessions, last_session
    from ullage.sessions.inspected import InspectedSession as InspectedSession, inspect_session
    from ullage.sessions.load import Session as Session, open_session as open_session
    from ullage.sessions.save import (
        CompactedSession as CompactedSession,
        compact_session as compact_session,
        new_session,
    )

__all__ = [
    "find_session",
    "found_sessions",
    "inspect_session",
    "last_session",
    "new_session",
    "remove_parts",
    "session_parts",
    "undo_compaction",
]

_HOMES = {
    "edit": "remove_parts session_parts undo_compaction",
    "find": "find_session found_sessions last_session",
    "inspected": "InspectedSession inspect_session",
    "load": "Session open_session",
    "save": "CompactedSession compact_session new_session",
}

__getattr__, __dir__ = on_first_use(__name__, _HOMES)
