"""Notes that outlive a session: a folder of Markdown files, recall, the provider's memory tool, extraction."""

from __future__ import annotations

from ullage.memory.notes.extraction import NoteKeeper, aextract, consolidate, extract
from ullage.memory.notes.folder import (
    MemoryFolder,
    MemoryTool,
    Note as Note,
    NoteType as NoteType,
    anthropic_tool,
)
from ullage.memory.notes.note_recall import NoteRecall

__all__ = [
    "MemoryFolder",
    "MemoryTool",
    "NoteKeeper",
    "NoteRecall",
    "aextract",
    "anthropic_tool",
    "consolidate",
    "extract",
]
