"""Notes that outlive a session: a folder of Markdown files, recall, the provider's memory tool, extraction."""

from __future__ import annotations

from ullage.memory.notes.extraction import (
    Extraction,
    NoteKeeper,
    Refused,
    aextract,
    consolidate,
    extract,
)
from ullage.memory.notes.folder import INDEX, Index, MemoryFolder, Note, NoteType, Problem
from ullage.memory.notes.memory_tool import MemoryTool, anthropic_tool
from ullage.memory.notes.note_recall import Embedder, NoteRecall, RecalledNotes

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
