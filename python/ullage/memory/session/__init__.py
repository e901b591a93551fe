"""Session memory: notes that are kept while the agent works, so that a compaction needs no model call."""

from __future__ import annotations

from ullage.effects.background import Slots as Slots
from ullage.memory.session.notes_folder import (
    Lock as Lock,
    Notes as Notes,
    NotesFolder,
    NotesPlace as NotesPlace,
)
from ullage.memory.session.session_memory import (
    Due as Due,
    NotesState as NotesState,
    Progress as Progress,
    SessionMemory as SessionMemory,
    update_due as update_due,
)
from ullage.memory.session.update import (
    UpdateJob as UpdateJob,
    UpdateOutcome as UpdateOutcome,
    UpdateReport as UpdateReport,
    update_flow as update_flow,
)

__all__ = ["NotesFolder"]
