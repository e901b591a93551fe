"""Watches one summary call from outside: progress, the stall time-out, and how to end it early.

The summarizer tells the watch when a stream begins and what comes; whoever waits asks it whether to
go on waiting. Both may be in different threads.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable

__all__ = ["Stopped", "Watch"]

PROGRESS_CHARS = 500
"""Growth between two reports: a summary of 3 000 tokens makes some 25 of them."""


class Stopped(Exception):
    """Raised in a summarizer whose caller no longer waits: it shall let go of its stream."""


class Watch:
    """One summary call, seen by both sides.

    Args:
        progress: Called with the characters received so far; `None`: not called.
        clock: Seconds that only grow.
    """

    def __init__(
        self,
        progress: Callable[[int], object] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._progress, self._clock = progress, clock
        self._lock = threading.Lock()
        self._close: Callable[[], object] | None = None
        self._started = self._last = clock()
        self._streams = self._stopped = False
        self._chars = self._told = 0

    # ---- the summarizer's side ---------------------------------------------------------------

    def begin(self, close: Callable[[], object] | None = None) -> None:
        """A request that streams is sent: from now on silence counts as a stall.

        Args:
            close: Ends the stream from another thread; `None`: it can't be ended.

        Raises:
            Stopped: The caller has given up already.
        """
        with self._lock:
            self._streams, self._close, self._last = True, close, self._clock()
        self._check()

    def token(self, text: str = "") -> None:
        """Something came: text of the answer, or (empty) a sign that the model works, such as reasoning.

        Raises:
            Stopped: The caller has given up.
        """
        self._check()
        with self._lock:
            self._last = self._clock()
            self._chars += len(text)
            due = self._chars - self._told >= PROGRESS_CHARS
            self._told = self._chars if due else self._told
        if due and self._progress is not None:
            self._progress(self._chars)

    def _check(self) -> None:
        if self._stopped:
            raise Stopped("the caller no longer waits")

    # ---- the side that waits -----------------------------------------------------------------

    @property
    def chars(self) -> int:
        """Characters received so far."""
        return self._chars

    @property
    def stopped(self) -> bool:
        """Whether the caller has given up."""
        return self._stopped

    def late(self, deadline_seconds: float | None, stall_seconds: float | None) -> str:
        """Why to wait no longer, in words; empty: wait on.

        Args:
            deadline_seconds: For the whole call; `None`: none.
            stall_seconds: Longest silence of a stream; `None`: any.
        """
        now = self._clock()
        if deadline_seconds is not None and now - self._started >= deadline_seconds:
            return f"no answer within {deadline_seconds:g} s"
        if self._streams and stall_seconds is not None and now - self._last >= stall_seconds:
            return f"no token for {stall_seconds:g} s"
        return ""

    def stop(self) -> None:
        """Let the summarizer know, and close its stream; nothing is reported any more."""
        with self._lock:
            self._stopped, self._progress = True, None
            close, self._close = self._close, None
        if close is not None:
            with contextlib.suppress(Exception):  # a stream that is broken anyway
                close()

    def __repr__(self) -> str:
        state = "stopped" if self._stopped else "streaming" if self._streams else "waiting"
        return f"Watch({state}, {self._chars} characters)"
