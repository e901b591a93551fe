"""Claude Code's own transcripts, which `ullage.transcript.Transcript` reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ullage.transcript.formats._model import OpenedFile

_TALK = ("user", "assistant", "system", "attachment", "progress")
_NOTES = ("summary", "file-history-snapshot", "queue-operation", "custom-title", "last-prompt")


def sniff(source: OpenedFile) -> bool:
    """Whether lines are linked entries of a session, or its notes."""
    return any(_is_ours(line) for line in source.head)


def _is_ours(line: Mapping[str, Any]) -> bool:
    kind = line.get("type")
    if kind in _NOTES:
        return bool({"sessionId", "leafUuid", "messageId", "snapshot"} & set(line))
    return kind in _TALK and "uuid" in line and bool({"parentUuid", "sessionId"} & set(line))
