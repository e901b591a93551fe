"""Waits for a summarizer: until it answers, is late, falls silent, or the compaction is cancelled."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Awaitable, Callable
from typing import Any

from ullage.effects import Cancelled, CancelToken
from ullage.summarizers.call_watchdog import Watch

__all__ = ["Limits", "await_watched", "call_watched"]

LOOK_SECONDS = 0.05
"""Between two looks at the clock and at the cancel token."""

LAST_SECONDS = 1.0
"""That a cancelled task gets to close its stream."""


class Limits:
    """When to stop waiting for one call.

    Args:
        watch: Of the call.
        deadline_seconds: For the whole call; `None`: none.
        stall_seconds: Longest silence of a stream; `None`: any.
        cancel: Looked at while waiting; `None`: nobody cancels.
    """

    def __init__(
        self,
        watch: Watch,
        deadline_seconds: float | None,
        stall_seconds: float | None,
        cancel: CancelToken | None,
    ) -> None:
        self._watch, self._cancel = watch, cancel
        self._deadline, self._stall = deadline_seconds, stall_seconds

    def stop(self) -> None:
        """Let the call know that nobody waits any more."""
        self._watch.stop()

    def check(self) -> None:
        """Stop the call if its time is over.

        Raises:
            Cancelled: The caller cancelled.
            TimeoutError: Deadline or stall.
        """
        if self._watch.stopped or (self._cancel is not None and self._cancel.is_set()):
            self._watch.stop()
            raise Cancelled("cancelled")
        why = self._watch.late(self._deadline, self._stall)
        if why:
            self._watch.stop()
            raise TimeoutError(why)


def call_watched(function: Callable[[], Any], limits: Limits) -> Any:
    """What a function returns or raises, from a thread of its own.

    A call that is given up goes on there until it notices: threads can't be killed; its result is
    dropped.
    """
    done, box = threading.Event(), list[tuple[bool, Any]]()
    context = contextvars.copy_context()

    def run() -> None:
        try:
            box.append((True, context.run(function)))
        except BaseException as exc:
            box.append((False, exc))
        done.set()

    threading.Thread(target=run, name="ullage-summarizer", daemon=True).start()
    while not done.wait(LOOK_SECONDS):
        limits.check()
    fine, value = box[0]
    if fine:
        return value
    raise value


async def await_watched(pending: Awaitable[Any], limits: Limits) -> Any:
    """What an awaitable gives; if it is given up, it is cancelled and waited for, but not for long."""
    import asyncio

    task = asyncio.ensure_future(pending)
    try:
        while not task.done():
            await asyncio.wait({task}, timeout=LOOK_SECONDS)
            if not task.done():
                limits.check()
        return task.result()
    finally:
        if not task.done():
            limits.stop()
            task.cancel()
            await asyncio.wait({task}, timeout=LAST_SECONDS)
