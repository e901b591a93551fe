"""Transcripts: an append-only log of entries, and what the model was shown according to it."""

from __future__ import annotations

from ullage.transcript.after_boundary import context_entries, messages_after_boundary, resume
from ullage.transcript.conversation import Conversation, ResumeReport
from ullage.transcript.index import Transcript
from ullage.transcript.log import TranscriptLog
from ullage.transcript.write import BoundaryInfo, Kept, write_compaction

__all__ = [
    "BoundaryInfo",
    "Conversation",
    "Kept",
    "ResumeReport",
    "Transcript",
    "TranscriptLog",
    "context_entries",
    "messages_after_boundary",
    "resume",
    "write_compaction",
]
