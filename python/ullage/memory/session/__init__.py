"""Session memory: notes that are kept while the agent works, so that a compaction needs no model call."""

from __future__ import annotations

from ullage.effects.background import Slots as Slots
from ullage.memory.session.notes_folder import NotesFolder
from ullage.memory.session.session_memory import (
    NotesState as NotesState,
    SessionMemory as SessionMemory,
    UpdateReport as UpdateReport,
)

__all__ = ["NotesFolder"]
