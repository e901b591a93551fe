"""Sessions on disk: find those of this machine, open any known transcript, compact it, write one that can be resumed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ullage._lazy import on_first_use

if TYPE_CHECKING:
    from ullage.sessions.edit import SessionPart, remove_parts, session_parts
    from ullage.sessions.find import find_session, last_session
    from ullage.sessions.fresh_session import FreshSession, new_session, resume_line
    from ullage.sessions.inspected import InspectedSession, inspect_session
    from ullage.sessions.load import Session, open_session
    from ullage.sessions.save import CompactedSession, compact_session
    from ullage.sessions.search_index import SearchedSession, SearchHit, SearchIndex
    from ullage.sessions.session_list import ListedSession, listed
    from ullage.sessions.spending import Spending, spending_of
    from ullage.sessions.undo import Undone, undo_compaction
    from ullage.sessions.usual_folders import (
        FoundSession,
        ToolFolder,
        found_sessions,
        tool_folders,
    )

__all__ = [
    "CompactedSession",
    "FoundSession",
    "FreshSession",
    "InspectedSession",
    "ListedSession",
    "SearchHit",
    "SearchIndex",
    "SearchedSession",
    "Session",
    "SessionPart",
    "Spending",
    "ToolFolder",
    "Undone",
    "compact_session",
    "find_session",
    "found_sessions",
    "inspect_session",
    "last_session",
    "listed",
    "new_session",
    "open_session",
    "remove_parts",
    "resume_line",
    "session_parts",
    "spending_of",
    "tool_folders",
    "undo_compaction",
]

_HOMES = {
    "edit": ("SessionPart", "remove_parts", "session_parts"),
    "find": ("find_session", "last_session"),
    "fresh_session": ("FreshSession", "new_session", "resume_line"),
    "inspected": ("InspectedSession", "inspect_session"),
    "load": ("Session", "open_session"),
    "save": ("CompactedSession", "compact_session"),
    "search_index": ("SearchHit", "SearchIndex", "SearchedSession"),
    "session_list": ("ListedSession", "listed"),
    "spending": ("Spending", "spending_of"),
    "undo": ("Undone", "undo_compaction"),
    "usual_folders": ("FoundSession", "ToolFolder", "found_sessions", "tool_folders"),
}

__getattr__, __dir__ = on_first_use(__name__, _HOMES)
