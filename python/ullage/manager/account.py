"""The requests of a conversation, for `explain`: what each was spent on is found out when somebody asks."""

from __future__ import annotations

from typing import NamedTuple

from ullage.levels.view import View
from ullage.manager.categories import Tally
from ullage.manager.explain import RequestRecord

__all__ = ["Account"]


class _Noted(NamedTuple):
    """A record without its categories."""

    number: int
    messages: int
    history: int
    tokens: int
    at_ms: int | None
    shown: int  # messages of the view


class Account:
    """Records of requests, oldest first.

    Categories of a noted request are those of its messages, as long as the view has only grown: whoever changes the view
    in another way calls `settle` before.
    """

    __slots__ = ("_noted", "_settled")

    def __init__(self) -> None:
        self._settled: list[RequestRecord] = []
        self._noted: list[_Noted] = []

    def __len__(self) -> int:
        return len(self._settled) + len(self._noted)

    def note(
        self, number: int, messages: int, history: int, tokens: int, at_ms: int | None, shown: int
    ) -> None:
        """A request was made; `shown` is the length of the view, the other arguments are those of `RequestRecord`."""
        self._noted.append(_Noted(number, messages, history, tokens, at_ms, shown))

    def settle(self, view: View, tally: Tally) -> list[RequestRecord]:
        """Every record, complete; the list is the account's own."""
        for each in self._noted:
            self._settled.append(RequestRecord(*each[:-1], tally.look(view, each.shown)))
        self._noted.clear()
        return self._settled

    def replace(self, records: list[RequestRecord]) -> None:
        """Hold these."""
        self._settled, self._noted = records, []

    def trim(self, keep: int) -> None:
        """Hold only the newest so many."""
        more = max(0, len(self) - keep)
        settled = min(more, len(self._settled))
        del self._settled[:settled], self._noted[: more - settled]
