"""Messages of the history under a name of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["NamedSpan"]


@dataclass(frozen=True, slots=True)
class NamedSpan:
    """Messages [first, last] of the history under one name, such as a snipped turn or a collapse.

    Attributes:
        first: Position in the history.
        last: Position of the last message, inclusive.
        title: Its description, one line.
    """

    first: int
    last: int
    title: str = ""

    def to_dict(self) -> dict[str, Any]:
        """For saving."""
        return {"first": self.first, "last": self.last, "title": self.title}
