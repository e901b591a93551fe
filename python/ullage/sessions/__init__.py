"""Sessions on disk: find those of this machine, open any known transcript, compact it, write one that can be resumed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ullage._start import on_first_use

if TYPE_CHECKING:
    from ullage.sessions.edit import (
        SessionPart as SessionPart,
        Undone as Undone,
        remove_parts,
        session_parts,
        undo_compaction,
    )
    from ullage.sessions.find import (
        FoundSession as FoundSession,
        ToolFolder as ToolFolder,
        find_session,
        found_sessions,
        last_session,
        tool_folders as tool_folders,
    )
    from ullage.sessions.inspected import (
        InspectedSession as InspectedSession,
        ListedSession as ListedSession,
        Spending as Spending,
        inspect_session,
        listed as listed,
        spending_of as spending_of,
    )
    from ullage.sessions.load import Session as Session, open_session as open_session
    from ullage.sessions.save import (
        CompactedSession as CompactedSession,
        FreshSession as FreshSession,
        compact_session as compact_session,
        new_session,
        resume_line as resume_line,
    )
    from ullage.sessions.search_index import (
        SearchedSession as SearchedSession,
        SearchHit as SearchHit,
        SearchIndex as SearchIndex,
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
    "edit": "SessionPart Undone remove_parts session_parts undo_compaction",
    "find": "FoundSession ToolFolder find_session found_sessions last_session tool_folders",
    "inspected": "InspectedSession ListedSession Spending inspect_session listed spending_of",
    "load": "Session open_session",
    "save": "CompactedSession FreshSession compact_session new_session resume_line",
    "search_index": "SearchHit SearchIndex SearchedSession",
}

__getattr__, __dir__ = on_first_use(__name__, _HOMES)
