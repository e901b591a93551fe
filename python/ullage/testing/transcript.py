"""A session as Claude Code stores it: a transcript with one JSON object per line."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from ullage.testing._rng import Rng
from ullage.testing.generator import Scenario


@dataclass(frozen=True, slots=True)
class SessionFile:
    """A transcript.

    Attributes:
        entries: The lines, as objects.
        session_id: Name of the session, and of its file.
    """

    entries: list[dict[str, Any]]
    session_id: str

    def to_bytes(self) -> bytes:
        """The file's bytes."""
        return b"".join([orjson.dumps(entry) + b"\n" for entry in self.entries])

    def write(self, folder: str | Path) -> Path:
        """Write `<session id>.jsonl` into a folder that exists; its path."""
        path = Path(folder) / f"{self.session_id}.jsonl"
        path.write_bytes(self.to_bytes())
        return path

    def __repr__(self) -> str:
        return f"SessionFile({self.session_id}, {len(self.entries)} lines)"


def session_file(made: Scenario) -> SessionFile:
    """A session as a transcript, one line per message; equal sessions give equal lines.

    Example:
        >>> from ullage.testing import scenario
        >>> file = session_file(scenario(1, turns=3))
        >>> file.entries[-1]["type"]
        'user'
    """
    rng = Rng(made.seed, "entries")
    session_id, parent = rng.uuid(), None
    entries: list[dict[str, Any]] = []
    for message, time in zip(made.messages, made.times, strict=True):
        sent: dict[str, Any] = {**message}
        if message["role"] == "assistant":
            sent |= {"type": "message", "id": f"msg_01{rng.token(22)}", "model": made.model}
        stamp = datetime.fromtimestamp(time / 1000, UTC).isoformat(timespec="milliseconds")
        entries.append(
            {
                "parentUuid": parent,
                "isSidechain": False,
                "userType": "external",
                "cwd": made.cwd,
                "sessionId": session_id,
                "version": "2.1.232",
                "type": message["role"],
                "message": sent,
                "uuid": (parent := rng.uuid()),
                "timestamp": stamp.replace("+00:00", "Z"),
            }
        )
    return SessionFile(entries, session_id)
