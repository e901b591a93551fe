"""Shortens a summary call that is itself too long: drops oldest rounds until it fits, and always terminates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ullage._engine import core
from ullage.counting.estimate import Weights
from ullage.messages import role_of

__all__ = ["MARKER", "HeadTruncation"]

MARKER = "[Earlier turns were cut here so that the summary request fits.]"
"""Text of the meta message that comes first if the rest starts with the assistant."""


class HeadTruncation:
    """The messages of a summary call, shorter at each `shrink`.

    Args:
        messages: Oldest first.
        weights: For the estimate; `None`: rough.
        share_percent: Share of the rounds to drop where the gap is unknown; at least one round is dropped.

    Attributes:
        overflows: Calls that were too long so far, in all of the summarizer's call modes.
    """

    def __init__(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        weights: Weights | None = None,
        share_percent: int = 20,
    ) -> None:
        self._messages = list(messages)
        self._weights = weights
        self._share = share_percent
        self._first = 0
        self.overflows = 0

    @property
    def dropped(self) -> int:
        """Messages dropped so far."""
        return self._first

    @property
    def messages(self) -> list[Mapping[str, Any]]:
        """What to send now: what is left, the marker in front if it starts with the assistant.

        The marker is made again each time, so it is never counted as a round of the conversation.
        """
        rest = self._messages[self._first :]
        if self._first and rest and role_of(rest[0]) != "user":
            return [{"role": "user", "content": MARKER}, *rest]
        return rest

    def tokens(self) -> int:
        """Estimate of what would be sent now."""
        return int(core.Ledger(self._weights, self._messages[self._first :]).tokens())

    def shrink(self, gap_tokens: int | None) -> bool:
        """Drops whole oldest rounds.

        Args:
            gap_tokens: By how much the call was too long; `None`: unknown.

        Returns:
            False if nothing could be dropped: one round is always left.
        """
        ledger = core.Ledger(self._weights, self._messages)
        first = int(ledger.truncate_head(gap_tokens, start=self._first, share_percent=self._share))
        first = min(first, len(self._messages) - 1)
        if first <= self._first:
            return False
        self._first = first
        return True
