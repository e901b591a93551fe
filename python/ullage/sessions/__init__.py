"""Sessions on disk: open any known transcript, compact it, write one that can be resumed."""

from __future__ import annotations

from ullage.sessions.load import Session, open_session
from ullage.sessions.save import CompactedSession, compact_session

__all__ = ["CompactedSession", "Session", "compact_session", "open_session"]
