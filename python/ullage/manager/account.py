"""The requests of a conversation, for `explain`: what each was spent on is worked out when somebody asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ullage.levels.view import View
from ullage.manager.categories import Tally, named

if TYPE_CHECKING:
    from ullage.manager.explain import RequestRecord

__all__ = ["Account"]


_Noted = tuple[int, int, int, int, int | None]
"""A record without its categories: number, messages, history, tokens, time."""


class Account:
    """Records of requests, oldest first.

    Categories of a noted request are those of its messages, as long as the view has only grown: whoever changes the view
    in another way calls `settle` before.

    Attributes:
        held: How many there are.
    """

    __slots__ = ("_noted", "_read", "_summed", "held")

    def __init__(self) -> None:
        self._read: list[RequestRecord] = []
        self._summed: list[tuple[_Noted, tuple[int, ...]]] = []
        self._noted: list[tuple[_Noted, int]] = []
        self.held = 0

    def note(
        self, number: int, messages: int, history: int, tokens: int, at_ms: int | None, shown: int
    ) -> None:
        """A request was made; `shown` is the length of the view, the other arguments are those of `RequestRecord`."""
        self._noted.append(((number, messages, history, tokens, at_ms), shown))
        self.held += 1

    def settle(self, view: View, tally: Tally) -> None:
        """Add up what is noted, as the view is now."""
        self._summed += [(each, tally.sums(view, shown)) for each, shown in self._noted]
        self._noted.clear()

    def records(self, view: View, tally: Tally) -> list[RequestRecord]:
        """Every record; the list is the account's own."""
        self.settle(view, tally)
        if not self._summed:
            return self._read
        from ullage.manager.explain import RequestRecord

        self._read += [RequestRecord(*each, named(sums)) for each, sums in self._summed]
        self._summed.clear()
        return self._read

    def replace(self, records: list[RequestRecord]) -> None:
        """Hold these."""
        self._read, self._summed, self._noted = records, [], []
        self.held = len(records)

    def trim(self, keep: int) -> None:
        """Hold only the newest so many."""
        more = max(0, self.held - keep)
        self.held -= more
        for held in (self._read, self._summed, self._noted):
            gone = min(more, len(held))
            del held[:gone]
            more -= gone
