"""Transcripts: an append-only log of entries, and what the model was shown according to it."""

from __future__ import annotations

from ullage.transcript.conversation import Conversation, ResumeReport
from ullage.transcript.index import Transcript
from ullage.transcript.resume import context_entries, messages_after_boundary, resume

__all__ = [
    "Conversation",
    "ResumeReport",
    "Transcript",
    "context_entries",
    "messages_after_boundary",
    "resume",
]
