"""Session memory: notes that are kept while the agent works, so that a compaction needs no model call."""

from __future__ import annotations

from ullage.effects.background import Slots
from ullage.memory.session.notes_folder import Lock, Notes, NotesFolder, NotesPlace
from ullage.memory.session.session_memory import (
    Due,
    NotesState,
    Progress,
    SessionMemory,
    update_due,
)
from ullage.memory.session.update import UpdateJob, UpdateOutcome, UpdateReport, update_flow

__all__ = ["NotesFolder"]
