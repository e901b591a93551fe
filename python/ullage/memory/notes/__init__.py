"""Notes that outlive a session: a folder of Markdown files, recall, the provider's memory tool, extraction."""

from __future__ import annotations

from ullage.memory.notes.extraction import (
    Extraction as Extraction,
    NoteKeeper,
    Refused as Refused,
    aextract,
    consolidate,
    extract,
)
from ullage.memory.notes.folder import (
    INDEX as INDEX,
    Index as Index,
    MemoryFolder,
    MemoryTool,
    Note as Note,
    NoteType as NoteType,
    Problem as Problem,
    anthropic_tool,
)
from ullage.memory.notes.note_recall import (
    Embedder as Embedder,
    NoteRecall,
    RecalledNotes as RecalledNotes,
)

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
