"""Work in the background, and calls that are waited for only so long.

A synchronous host gets daemon threads (a host that ends waits for none of them), an asynchronous one tasks of its event
loop. Threads can't be killed: a call that is given up goes on until it notices, and its result is dropped.

A forked process has none of its parent's threads and loops: it begins idle, and what runs in the parent is not its concern.
"""

from __future__ import annotations

import contextvars
import os
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar

from ullage.effects import CancelToken

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")
Mode: TypeAlias = Literal["auto", "thread", "inline"]

LOOK_SECONDS = 0.05
"""Between two looks at the clock and at the cancel token."""

LAST_SECONDS = 1.0
"""That a cancelled task gets to close its stream."""

POLL_SECONDS = 0.01


# ---- one call --------------------------------------------------------------------------------


class Late(Exception):
    """The deadline passed."""


class _ThreadCall(Generic[T]):
    """A function that runs on a thread of its own, with the caller's context variables."""

    def __init__(self, function: Callable[[], T], name: str) -> None:
        self.ended = threading.Event()
        self._result: list[T] = []
        self._error: BaseException | None = None
        _start_thread(lambda: self._run(function), name)

    def _run(self, function: Callable[[], T]) -> None:
        try:
            self._result.append(function())
        except BaseException as exc:
            self._error = exc
        self.ended.set()

    def result(self) -> T:
        """What the function returned; raises what it raised."""
        if self._error is not None:
            raise self._error
        return self._result[0]


def _start_thread(function: Callable[[], None], name: str) -> None:
    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(function,), name=name, daemon=True).start()


def call_with_deadline(function: Callable[[], T], seconds: float | None) -> T:
    """What a function returns or raises, if that happens in time, on a thread of its own; else `Late`. `None` seconds: no deadline, and no thread."""
    if seconds is None:
        return function()
    call = _ThreadCall(function, "ullage-deadline")
    if not call.ended.wait(seconds):
        raise Late
    return call.result()


def call_watched(function: Callable[[], T], check: Callable[[], None]) -> T:
    """What a function returns or raises, from a thread of its own; what `check` raises, every `LOOK_SECONDS`, ends the wait."""
    call = _ThreadCall(function, "ullage-summarizer")
    while not call.ended.wait(LOOK_SECONDS):
        check()
    return call.result()


async def await_watched(
    pending: Awaitable[T], check: Callable[[], None], stop: Callable[[], None]
) -> T:
    """As `call_watched`, of an awaitable; if it is given up, `stop` is called, and it is cancelled and waited for, at most `LAST_SECONDS`."""
    import asyncio

    task = asyncio.ensure_future(pending)
    try:
        while not task.done():
            await asyncio.wait({task}, timeout=LOOK_SECONDS)
            if not task.done():
                check()
        return task.result()
    finally:
        if not task.done():
            stop()
            task.cancel()
            await asyncio.wait({task}, timeout=LAST_SECONDS)


# ---- work that goes on -----------------------------------------------------------------------


class Slots:
    """How many pieces of work may run at once over all sessions that share this object."""

    def __init__(self, limit: int = 4) -> None:
        self._limit, self._process = limit, os.getpid()
        self._free = threading.BoundedSemaphore(limit)

    def _of_process(self) -> threading.BoundedSemaphore:
        if self._process != os.getpid():
            self._free, self._process = threading.BoundedSemaphore(self._limit), os.getpid()
        return self._free

    def take(self) -> bool:
        """Take one if it is free; never waits."""
        return self._of_process().acquire(blocking=False)

    def give_back(self) -> None:
        """Give one back."""
        self._of_process().release()


class BackgroundWork:
    """One piece of work.

    Args:
        run: Does it, on a thread; gets a token that is set once the work is cancelled or given up.
        arun: The same for a task of an event loop.
        done: Receives the result, or what was raised, or `None` if its task was cancelled; never for work that was given up.
        given_up: Called when the work is given up as stuck.

    Attributes:
        cancelled: That token.
    """

    def __init__(
        self,
        run: Callable[[CancelToken], Any],
        arun: Callable[[CancelToken], Awaitable[Any]],
        *,
        done: Callable[[Any], None],
        given_up: Callable[[], None] = lambda: None,
    ) -> None:
        self.run, self.arun = run, arun
        self.done, self.given_up = done, given_up
        self.cancelled = threading.Event()
        self.mode: Mode = "auto"  # in which it was submitted
        self.loop: asyncio.AbstractEventLoop | None = None
        self.task: asyncio.Task[None] | None = None  # kept: an event loop holds its tasks weakly
        self.asked = self.began = 0.0

    def stop(self) -> None:
        """Ask it to end: by its token, and its task by cancelling it."""
        self.cancelled.set()
        if self.loop is not None and self.task is not None:
            with suppress(RuntimeError):  # the loop is closed: nothing runs in it
                self.loop.call_soon_threadsafe(self.task.cancel)

    def lost(self) -> bool:
        """Whether its event loop was closed, so that it can't come to its end."""
        return self.loop is not None and self.loop.is_closed()


class BackgroundRunner:
    """One piece of work at a time, and the newest of those that came meanwhile in line.

    Args:
        name: Of its threads.
        mode: `auto`: a task where an event loop runs, else a thread. `inline`: at once, in the caller.
        slots: Shared with others; `None`: there is no common limit.
        stale_seconds: Work that has run or waited for longer than this is given up when new work comes; `None`: never.
        clock: In seconds.
    """

    def __init__(
        self,
        name: str = "ullage-background",
        *,
        mode: Mode = "auto",
        slots: Slots | None = None,
        stale_seconds: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name, self._mode, self._slots = name, mode, slots
        self._stale_seconds, self._clock = stale_seconds, clock
        self._begin_idle()

    def _begin_idle(self) -> None:
        self._process, self._lock = os.getpid(), threading.Lock()
        self._running: BackgroundWork | None = None
        self._waiting: BackgroundWork | None = None
        self._idle = threading.Event()
        self._idle.set()

    def _guard(self) -> threading.Lock:
        """The lock; a thread that was not forked with this process may hold the old one for ever."""
        if self._process != os.getpid():
            self._begin_idle()
        return self._lock

    # ---- asked by the host -------------------------------------------------------------------

    def submit(self, work: BackgroundWork, *, mode: Mode | None = None) -> str:
        """Begin work that was not submitted before, or let it wait; returns `begun`, `waiting` or `no_slot`. `mode` `None`: the runner's."""
        self._give_up_stale()
        with self._guard():
            work.asked, work.mode = self._clock(), mode or self._mode
            if self._running is not None:
                self._waiting = work
                return "waiting"
            if self._slots is not None and not self._slots.take():
                return "no_slot"
            self._begin(work)
        self._start(work)
        return "begun"

    @property
    def running(self) -> bool:
        """Whether work runs."""
        return self.busy_seconds() is not None

    def busy_seconds(self) -> float | None:
        """For how long the work has been running; `None`: there is none."""
        with self._guard():
            work = self._running
            return None if work is None or work.lost() else self._clock() - work.began

    def waits_for_caller(self) -> bool:
        """Whether the work is a task of the event loop of this very thread: it can't go on while the caller waits."""
        with self._guard():
            return self._running is not None and self._running.loop is _loop() is not None

    def cancel(self) -> None:
        """Stop what runs and forget what waits; returns at once."""
        with self._guard():
            running, self._waiting = self._running, None
        if running is not None:
            running.stop()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until nothing runs or waits; false if that took too long. Not in an event loop: see `settled`."""
        return not self.running or self._idle.wait(seconds)

    async def settled(self, seconds: float | None = None) -> bool:
        """`wait`, without blocking the event loop."""
        import asyncio

        end = None if seconds is None else time.monotonic() + seconds
        while self.running:
            if end is not None and time.monotonic() >= end:
                return False
            await asyncio.sleep(POLL_SECONDS)
        return True

    # ---- running -----------------------------------------------------------------------------

    def _begin(self, work: BackgroundWork) -> None:
        work.began = self._clock()
        self._running = work
        self._idle.clear()

    def _start(self, work: BackgroundWork) -> None:
        loop = None if work.mode in ("thread", "inline") else _loop()
        if loop is not None:
            work.loop = loop
            work.task = loop.create_task(self._arun(work))
        elif work.mode == "inline":
            self._run(work)
        else:
            _start_thread(lambda: self._run(work), self._name)

    def _run(self, work: BackgroundWork) -> None:
        try:
            result = work.run(work.cancelled)
        except Exception as exc:  # a host's listener or summarizer may raise anything
            result = exc
        except BaseException as exc:  # only this thread ends: nobody else may wait for ever
            result = RuntimeError(repr(exc))
        self._end(work, result)

    async def _arun(self, work: BackgroundWork) -> None:
        result: Any = None
        try:
            result = await work.arun(work.cancelled)
        except Exception as exc:  # as above
            result = exc
        finally:
            self._end(work, result)

    def _end(self, work: BackgroundWork, result: Any) -> None:
        with self._guard():
            if self._running is not work:
                return  # it was given up: its slot is given back, and nobody waits for it
        try:
            work.done(result)
        except Exception:  # reported as Python reports what ends a thread: nobody else sees it
            sys.excepthook(*sys.exc_info())
        with self._guard():
            if self._running is not work:
                return
            following, self._waiting, self._running = self._waiting, None, None
            if following is not None and not self._stale(following.asked):
                self._begin(following)
            else:
                following = None
                self._idle.set()
        if following is not None:
            self._start(following)
        elif self._slots is not None:
            self._slots.give_back()

    def _stale(self, since: float) -> bool:
        return self._stale_seconds is not None and self._clock() - since > self._stale_seconds

    def _give_up_stale(self) -> None:
        with self._guard():
            running = self._running
            if running is None or not (running.lost() or self._stale(running.began)):
                return
            self._running = None
            self._idle.set()
        running.given_up()
        running.stop()
        if self._slots is not None:
            self._slots.give_back()


def _loop() -> asyncio.AbstractEventLoop | None:
    """The event loop of this thread; asyncio is not loaded to find that there is none."""
    # Half of it is there while another thread imports it; then no loop runs here.
    running = getattr(sys.modules.get("asyncio"), "get_running_loop", None)
    try:
        return running() if running is not None else None
    except RuntimeError:
        return None
