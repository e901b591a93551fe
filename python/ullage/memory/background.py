"""Work beside the agent: one at a time for each session, the newest request in line, never in the way.

A synchronous host gets a thread, an asynchronous one a task of its event loop. A request that finds the work running
replaces the one that waits; work that is older than its time is put out, and the next begins.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any, Literal

from ullage.effects import Flow
from ullage.memory.driving import arun, run

__all__ = ["Background", "Slots", "Work"]

Mode = Literal["auto", "thread", "task", "inline"]

_POLL_SECONDS = 0.01


class Slots:
    """How many updates may run at once over all sessions that share this object.

    Args:
        limit: At least 1.
    """

    def __init__(self, limit: int = 4) -> None:
        self._free = threading.BoundedSemaphore(limit)

    def take(self) -> bool:
        """Take one if it is free; never waits."""
        return self._free.acquire(blocking=False)

    def give_back(self) -> None:
        """Give one back."""
        self._free.release()


class Work:
    """One piece of work.

    Args:
        flow: Makes the flow, when it begins; told how to see whether it was cancelled.
        done: Told of the result, of what was raised, or `None` if its task was cancelled.
        put_out: Called when the work is given up as stuck.
    """

    def __init__(
        self,
        flow: Callable[[Callable[[], bool]], Flow[Any]],
        *,
        done: Callable[[Any], None],
        put_out: Callable[[], None] = lambda: None,
    ) -> None:
        self.flow = flow
        self.done = done
        self.put_out = put_out
        self.cancelled = threading.Event()
        self.stop: Callable[[], Any] = lambda: None
        self.loop: asyncio.AbstractEventLoop | None = None
        self.asked = self.began = time.monotonic()


class Background:
    """The work of one session.

    Args:
        mode: `auto`: a task where an event loop runs, else a thread. `inline`: at once, in the caller.
        slots: Shared with other sessions; `None`: there is no common limit.
        stale_seconds: Work that has run or waited for longer than this is put out.
        clock: In seconds.
    """

    def __init__(
        self,
        *,
        mode: Mode = "auto",
        slots: Slots | None = None,
        stale_seconds: float = 60,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._mode, self._slots, self._clock = mode, slots, clock
        self._stale_seconds = stale_seconds
        self._lock = threading.Lock()
        self._running: Work | None = None
        self._waiting: Work | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    # ---- asked by the session ----------------------------------------------------------------

    def submit(self, work: Work) -> str:
        """Begin, or wait for what is running; returns `begun`, `waiting` or `no_slot`."""
        self._put_out_stale()
        with self._lock:
            work.asked = self._clock()
            if self._running is not None:
                self._waiting = work
                return "waiting"
            if self._slots is not None and not self._slots.take():
                return "no_slot"
            self._begin(work)
        self._start(work)
        return "begun"

    def busy_seconds(self) -> float | None:
        """For how long the work has been running; `None`: there is none."""
        with self._lock:
            return None if self._running is None else self._clock() - self._running.began

    def waits_for_caller(self) -> bool:
        """Whether the work is a task of the event loop of this very thread: it can't go on while the caller waits."""
        with self._lock:
            return self._running is not None and self._running.loop is _loop() is not None

    def cancel(self) -> None:
        """Stop what runs and forget what waits; returns at once."""
        with self._lock:
            running, self._waiting = self._running, None
        if running is not None:
            running.cancelled.set()
            running.stop()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until nothing runs or waits; false if that took too long. Not in an event loop: see `settled`."""
        end = None if seconds is None else time.monotonic() + seconds
        while self.busy_seconds() is not None:
            if end is not None and time.monotonic() >= end:
                return False
            time.sleep(_POLL_SECONDS)
        return True

    async def settled(self, seconds: float | None = None) -> bool:
        """`wait`, without blocking the event loop."""
        end = None if seconds is None else time.monotonic() + seconds
        while self.busy_seconds() is not None:
            if end is not None and time.monotonic() >= end:
                return False
            await asyncio.sleep(_POLL_SECONDS)
        return True

    # ---- running -----------------------------------------------------------------------------

    def _begin(self, work: Work) -> None:
        work.began = self._clock()
        self._running = work

    def _start(self, work: Work) -> None:
        mode = self._mode
        if mode == "auto":
            mode = "thread" if _loop() is None else "task"
        if mode == "inline":
            self._run(work)
        elif mode == "task":
            self._start_task(work)
        else:
            # A daemon: a host that ends does not wait for notes, and a torn update changes nothing.
            threading.Thread(
                target=self._run, args=(work,), name="ullage-memory", daemon=True
            ).start()

    def _start_task(self, work: Work) -> None:
        loop = asyncio.get_running_loop()
        task = loop.create_task(self._arun(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        work.loop = loop
        work.stop = lambda: loop.is_closed() or loop.call_soon_threadsafe(task.cancel)

    def _run(self, work: Work) -> None:
        try:
            flow = work.flow(work.cancelled.is_set)
            result: Any = run(flow, cancel=work.cancelled)
        except Exception as exc:  # a host's listener or summarizer may raise anything
            result = exc
        self._end(work, result)

    async def _arun(self, work: Work) -> None:
        result: Any = None
        try:
            flow = work.flow(work.cancelled.is_set)
            result = await arun(flow, cancel=work.cancelled)
        except Exception as exc:  # as above
            result = exc
        finally:
            self._end(work, result)

    def _end(self, work: Work, result: Any) -> None:
        with self._lock:
            if self._running is not work:
                return  # it was put out: its slot is given back, and nobody waits for it
        work.done(result)
        with self._lock:
            if self._running is not work:
                return
            following, self._waiting = self._waiting, None
            if following is not None and self._clock() - following.asked > self._stale_seconds:
                following = None
            self._running = None
            if following is not None:
                self._begin(following)
        if following is not None:
            self._start(following)
        elif self._slots is not None:
            self._slots.give_back()

    def _put_out_stale(self) -> None:
        with self._lock:
            running = self._running
            if running is None or self._clock() - running.began <= self._stale_seconds:
                return
            self._running = None
        running.cancelled.set()
        running.put_out()
        running.stop()
        if self._slots is not None:
            self._slots.give_back()


"""The performers ask it for what an update never yields."""


def _loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
