"""Sessions on disk: find those of this machine, open any known transcript, compact it, write one that can be resumed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ullage._lazy import on_first_use

if TYPE_CHECKING:
    from ullage.sessions.find import find_session, last_session
    from ullage.sessions.load import Session, open_session
    from ullage.sessions.save import CompactedSession, compact_session
    from ullage.sessions.session_list import ListedSession, listed
    from ullage.sessions.spending import Spending, spending_of
    from ullage.sessions.usual_folders import (
        FoundSession,
        ToolFolder,
        found_sessions,
        tool_folders,
    )

__all__ = [
    "CompactedSession",
    "FoundSession",
    "ListedSession",
    "Session",
    "Spending",
    "ToolFolder",
    "compact_session",
    "find_session",
    "found_sessions",
    "last_session",
    "listed",
    "open_session",
    "spending_of",
    "tool_folders",
]

_HOMES = {
    "find": ("find_session", "last_session"),
    "load": ("Session", "open_session"),
    "save": ("CompactedSession", "compact_session"),
    "session_list": ("ListedSession", "listed"),
    "spending": ("Spending", "spending_of"),
    "usual_folders": ("FoundSession", "ToolFolder", "found_sessions", "tool_folders"),
}

__getattr__, __dir__ = on_first_use(__name__, _HOMES)
