"""A summary written ahead of need, and what it is good for (SPEC FULL-11).

Only the summary is written ahead: the cut is fixed then, everything else (hooks, files, state, the log)
happens when the compaction is due, with what is known by then. It is used only if the messages that it
stands for are still how the conversation begins.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from ullage.compaction.effects_runner import AsyncPerformer, Performer
from ullage.compaction.floor import LEAST_REMOVED_TOKENS
from ullage.compaction.job import Job
from ullage.compaction.prepared import prepare
from ullage.compaction.summary_call import write_summary
from ullage.compaction.tally import as_told
from ullage.effects import Flow, adrive, drive
from ullage.exceptions import CompactionError, InvalidMessage
from ullage.messages import Item
from ullage.observe.events import BackgroundFinished, Listener, SummaryUsage
from ullage.summarizers.protocol import SummaryReply, SummaryRequest

__all__ = ["Ahead", "Prewritten", "ahead_flow", "fitted"]


@dataclass(frozen=True, slots=True)
class Prewritten:
    """A summary that exists already, as the summarizer of the compaction that installs it.

    Attributes:
        name: Who wrote it.
        text: The summary.
        items: What it stands for, oldest first: the very objects.
        at: The first message that is kept, by uuid or position.
        usage: Of the calls that it took.
    """

    name: str
    text: str = field(repr=False)
    items: tuple[Item, ...] = field(repr=False)
    at: str | int = 0
    usage: SummaryUsage = field(default_factory=SummaryUsage)

    def summarize(self, request: SummaryRequest) -> SummaryReply:
        """The summary."""
        return SummaryReply(
            text=self.text, finish_reason="stop", model=self.name, usage=as_told(self.usage)
        )

    def begins(self, items: Sequence[Item]) -> bool:
        """Whether a conversation still begins with what the summary stands for, and goes on behind it."""
        pairs = zip(self.items, items, strict=False)
        return len(items) > len(self.items) and all(a is b for a, b in pairs)


def ahead_flow(job: Job) -> Flow[Prewritten | None]:
    """Writes the summary of a job, and does nothing else; `None`: there is too little to summarise.

    Raises:
        CompactionError: The summarizer failed.
    """
    # Without a model it is written in milliseconds when it is due: no need to do that ahead.
    state = prepare(replace(job, fallback=None))
    first_kept = state.source.ids[state.cut.stop : state.cut.stop + 1]
    if state.removed_tokens < LEAST_REMOVED_TOKENS or state.cut.start or not first_kept:
        return None
    accepted = yield from write_summary(state, job.instructions)
    at = first_kept[0]
    items = tuple(job.items[: _position(job.items, at)])
    return Prewritten(accepted.summarizer, accepted.text, items, at, state.tally.usage)


def _position(items: Sequence[Item], at: str | int) -> int:
    if isinstance(at, int):
        return at
    return next(place for place, item in enumerate(items) if item.get("uuid") == at)


class Ahead:
    """At most one summary that is being written, or waits to be used. For one conversation.

    Args:
        listeners: Told of the retries of the summary and of its end, from the thread or task that writes it.
    """

    def __init__(self, listeners: Iterable[Listener] = ()) -> None:
        self._listeners = tuple(listeners)
        self._stop = threading.Event()
        self._done = threading.Event()
        self._running = False
        self._found: Prewritten | None = None
        self._task: Any = None  # kept: an event loop holds its tasks weakly
        self.failure = ""

    @property
    def running(self) -> bool:
        """Whether one is being written."""
        return self._running

    @property
    def busy(self) -> bool:
        """Whether one is being written or waits to be used, or one failed and nothing was due since."""
        return self._running or self._found is not None or bool(self.failure)

    def drop_unfit(self, items: Sequence[Item]) -> None:
        """Throw away a summary whose messages are no longer how the conversation begins."""
        if self._found is not None and not self._found.begins(items):
            self._found = None

    def start(self, job: Job) -> None:
        """Write in a thread, unless there is one already. A summarizer that is a coroutine gets a loop of its own."""
        if self._begin():
            threading.Thread(
                target=self._in_thread, args=(job,), name="ullage-ahead", daemon=True
            ).start()

    def start_task(self, job: Job) -> None:
        """Write in a task of the running event loop, unless there is one already."""
        import asyncio

        if self._begin():
            self._task = asyncio.get_running_loop().create_task(self._in_task(job))

    def take(self, items: Sequence[Item]) -> Prewritten | None:
        """The summary that fits a conversation, once; one that does not fit is thrown away.

        `None`: there is none, or it is still being written: then it goes on, for the next time.
        """
        found, self._found, self.failure = self._found, None, ""
        return found if found is not None and found.begins(items) else None

    def cancel(self) -> None:
        """Stop writing, and throw away what is there."""
        self._stop.set()
        self._found = None
        if self._task is not None:
            self._task.cancel()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for a thread that writes; whether it is done."""
        return self._done.wait(seconds)

    # ---- inside ------------------------------------------------------------------------------

    def _begin(self) -> bool:
        if self.busy:
            return False
        self._running, self.failure = True, ""
        # New ones: a thread that was cancelled may still hold the old.
        self._stop, self._done = threading.Event(), threading.Event()
        return True

    def _in_thread(self, job: Job) -> None:
        stop, done = self._stop, self._done
        asynchronous = getattr(job.summarizer, "is_async", not hasattr(job.summarizer, "summarize"))
        try:
            if asynchronous and hasattr(job.summarizer, "asummarize"):
                import asyncio

                self._keep(asyncio.run(self._written(job, stop)), stop)
            else:
                perform = Performer(job, self._listeners, cancel=stop)
                self._keep(drive(ahead_flow(job), perform, cancel=stop), stop)
        except Exception as exc:  # nobody asked for it yet: the compaction that is due will tell
            self._failed(exc, stop)
        finally:
            self._ended(stop, done)

    async def _in_task(self, job: Job) -> None:
        stop, done = self._stop, self._done
        try:
            self._keep(await self._written(job, stop), stop)
        except Exception as exc:
            self._failed(exc, stop)
        finally:
            self._ended(stop, done)

    async def _written(self, job: Job, stop: threading.Event) -> Prewritten | None:
        perform = AsyncPerformer(job, self._listeners, cancel=stop)
        return await adrive(ahead_flow(job), perform, cancel=stop)

    def _keep(self, found: Prewritten | None, stop: threading.Event) -> None:
        if not stop.is_set() and stop is self._stop:
            self._found = found

    def _failed(self, exc: Exception, stop: threading.Event) -> None:
        if stop is self._stop:
            expected = isinstance(exc, CompactionError | InvalidMessage)
            self.failure = str(exc) if expected else f"{type(exc).__name__}: {exc}"

    def _ended(self, stop: threading.Event, done: threading.Event) -> None:
        mine = stop is self._stop
        if mine:
            self._running = False
        event = self._end() if mine and not stop.is_set() else _CANCELLED
        for listener in self._listeners:
            with suppress(Exception):
                listener(event)
        done.set()

    def _end(self) -> BackgroundFinished:
        if self._found is not None:
            return BackgroundFinished(outcome="ready", usage=self._found.usage)
        outcome = "failed" if self.failure else "nothing"
        return BackgroundFinished(outcome=outcome, reason=self.failure)

    def __repr__(self) -> str:
        state = "writing" if self._running else "ready" if self._found is not None else "idle"
        return f"Ahead({state})"


_CANCELLED = BackgroundFinished(outcome="cancelled")


def fitted(job: Job, found: Prewritten) -> Job:
    """A job that installs a summary which exists already."""
    return replace(job, summarizer=found, direction="up_to", at=found.at, keep=None)
