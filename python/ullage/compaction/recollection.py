"""Notes of a session as a compaction uses them: who keeps them, and what they stand for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ullage.effects import Flow
from ullage.messages import Item

__all__ = ["SESSION_MEMORY", "KeptNotes", "Memory", "Remembered"]

SESSION_MEMORY = "session_memory"
"""Name of the summarizer in reports: no model was asked."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """Notes that can stand for a part of the conversation.

    Attributes:
        start: First message that they have not absorbed.
        text: The notes within so many tokens; `None`: within their own limits. What is cut is said, with where the
            rest is.
    """

    start: int
    text: Callable[[int | None], str] = field(repr=False)


class Memory(Protocol):
    """Keeps notes of the conversation while it goes on."""

    def recall_flow(
        self, items: Sequence[Mapping[str, Any]], measure: Callable[[str], int]
    ) -> Flow[Remembered | str]:
        """The notes, after waiting for an update that is running; or why they can't be used.

        Args:
            items: The conversation as the model sees it.
            measure: Tokens of a text.
        """
        ...


class KeptNotes(Memory, Protocol):
    """Notes that are kept up to date while a manager's conversation goes on."""

    def answered(
        self,
        response: Mapping[str, Any],
        items: Sequence[Item],
        /,
        *,
        tokens: int,
        source: str = "main",
        history: Sequence[Item] | None = None,
    ) -> object:
        """Called after each response; returns at once.

        Args:
            response: The message that came.
            items: The conversation as the model sees it.
            tokens: Of it.
            source: The part of the host that asked, as in the manager.
            history: All that was said; `None`: `items`.
        """
        ...

    def compacted(self, tokens: int) -> object:
        """Called after each compaction with the new size."""
        ...
