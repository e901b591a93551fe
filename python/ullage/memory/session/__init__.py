"""Session memory: notes that are kept while the agent works, so that a compaction needs no model call."""

from __future__ import annotations

from ullage.effects.background import Slots
from ullage.memory.session.notes_folder import NotesFolder
from ullage.memory.session.notes_place import Lock, Notes, NotesPlace
from ullage.memory.session.notes_state import NotesState
from ullage.memory.session.session_memory import SessionMemory
from ullage.memory.session.triggers import Due, Progress, update_due
from ullage.memory.session.update import UpdateJob, update_flow
from ullage.memory.session.update_report import UpdateOutcome, UpdateReport

__all__ = [
    "Due",
    "Lock",
    "Notes",
    "NotesFolder",
    "NotesPlace",
    "NotesState",
    "Progress",
    "SessionMemory",
    "Slots",
    "UpdateJob",
    "UpdateOutcome",
    "UpdateReport",
    "update_due",
    "update_flow",
]
