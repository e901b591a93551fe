"""Transcripts: an append-only log of entries, and what the model was shown according to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ullage._start import on_first_use

if TYPE_CHECKING:
    from ullage.transcript.conversation import Conversation as Conversation
    from ullage.transcript.index import (
        Transcript as Transcript,
        messages_after_boundary,
        resume as resume,
    )
    from ullage.transcript.log import TranscriptLog as TranscriptLog

__all__ = ["messages_after_boundary"]

_HOMES = {
    "conversation": "Conversation",
    "index": "Transcript messages_after_boundary resume",
    "log": "TranscriptLog",
}
if not TYPE_CHECKING:  # a misspelt name is an error of the type checker
    __getattr__, __dir__ = on_first_use(__name__, _HOMES)
