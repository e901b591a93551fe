"""One call at a time prepares a conversation's request; a second one is refused by name."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from ullage.exceptions import ManagerBusy

__all__ = ["ExclusiveGuard"]


class ExclusiveGuard:
    """Entered by each call that prepares a request or recovers from a refusal; never waits.

    A call that is suspended at an `await` is still at work: another one in between would mix the reports of both, and
    number requests in another order than the host sees them.
    """

    __slots__ = ("_lock", "_running")

    def __init__(self) -> None:
        self._lock = threading.Lock()  # two threads may ask in the same moment
        self._running = ""

    def enter(self, name: str) -> None:
        """A call of this name begins; `leave` ends it.

        Raises:
            ManagerBusy: Another one is at work; nothing has changed.
        """
        if not self._lock.acquire(False):
            raise ManagerBusy(name, self._running)
        self._running = name

    def leave(self) -> None:
        """The call that entered ends."""
        self._running = ""
        self._lock.release()

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """While a call of this name is at work.

        Raises:
            ManagerBusy: Another one is; nothing has changed.
        """
        self.enter(name)
        try:
            yield
        finally:
            self.leave()
