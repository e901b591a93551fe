"""Notes that outlive a session: a folder of Markdown files, recall, the provider's memory tool, extraction."""

from __future__ import annotations

from ullage.memory.notes.folder import INDEX, Index, MemoryFolder, Problem
from ullage.memory.notes.keeper import NoteKeeper
from ullage.memory.notes.note import Note, NoteType
from ullage.memory.notes.recall import Embedder, NoteRecall, Recalled
from ullage.memory.notes.tool import MemoryTool, anthropic_tool

__all__ = [
    "INDEX",
    "Embedder",
    "Index",
    "MemoryFolder",
    "MemoryTool",
    "Note",
    "NoteKeeper",
    "NoteRecall",
    "NoteType",
    "Problem",
    "Recalled",
    "anthropic_tool",
]
