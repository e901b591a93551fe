"""What is handed over, whatever the form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from ullage.messages import Item
from ullage.transcript.log import iso_of

__all__ = ["FLAGS", "Handoff"]

FLAGS = ("isMeta", "isCompactSummary")
"""What a host wrote in the user's role, and what is a summary: kept where another tool passes over keys that it does not know."""


@dataclass(frozen=True, slots=True)
class Handoff:
    """What is written.

    Attributes:
        name: The new session's id.
        cwd: Its folder.
        title: Its title; may be empty.
        model: The model that goes on; may be empty.
        now: When.
        items: Entries, oldest first.
    """

    name: str
    cwd: str
    title: str
    model: str
    now: datetime
    items: Sequence[Item] = field(repr=False)

    @property
    def milliseconds(self) -> int:
        """`now` since the epoch."""
        return int(self.now.timestamp() * 1_000)

    def stamp(self, item: Item | None = None) -> str:
        """An entry's time as ISO text, or `now`."""
        found = item.get("timestamp") if item else None
        return found if isinstance(found, str) and found else iso_of(self.milliseconds)
