"""Facts of a growing conversation: nothing is read twice."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from ullage.facts import Facts
from ullage.facts.collector import Collector
from ullage.messages import Item

__all__ = ["FactsFeed"]


class FactsFeed:
    """Collects facts of a list that only grows; another list starts again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._collector = Collector()
        self._read = 0
        self._last: Item | None = None

    def up_to(self, items: Sequence[Item], end: int) -> Facts:
        """The facts of `items[:end]`.

        Args:
            items: The list passed before, perhaps longer.
            end: At least the previous value, else everything is read again.
        """
        with self._lock:
            if not self._goes_on(items, end):
                self._collector, self._read = Collector(), 0
            for index in range(self._read, end):
                self._collector.feed(index, items[index])
            self._read = end
            self._last = items[end - 1] if end else None
            return self._collector.finish()

    def _goes_on(self, items: Sequence[Item], end: int) -> bool:
        if self._read == 0:
            return True
        # The last item that was read, at its place: the same list, or one that grew out of it.
        return self._read <= end and items[self._read - 1] is self._last
