"""A summary written in advance (FULL-11).

Only the summary is written in advance: the cut is fixed then, everything else (hooks, files, state, the log)
happens when the compaction is due, with what is known by then. It is used only if the messages that it
replaces are still the beginning of the conversation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from ullage.compaction.effects_runner import flow_work
from ullage.effects import Flow
from ullage.effects.background import BackgroundRunner
from ullage.exceptions import CompactionError, InvalidMessage
from ullage.messages import Item
from ullage.observe.events import BackgroundFinished, Listener, SummaryUsage, tell
from ullage.summarizers.protocol import SummaryReply, SummaryRequest

if TYPE_CHECKING:
    from ullage.compaction.job import Job


@dataclass(frozen=True, slots=True)
class Prewritten:
    """A summary that exists already, as the summarizer of the compaction that installs it."""

    name: str  # of the summarizer that wrote it
    text: str = field(repr=False)
    items: tuple[Item, ...] = field(repr=False)  # that it replaces, oldest first: the same objects
    at: str | int = 0  # the first message that is kept, by uuid or position
    usage: SummaryUsage = field(default_factory=SummaryUsage)  # of the calls that it took

    def summarize(self, request: SummaryRequest) -> SummaryReply:
        """The summary."""
        used = {
            "input_tokens": self.usage.input_tokens,
            "cache_read_input_tokens": self.usage.cache_read_tokens,
            "cache_creation_input_tokens": self.usage.cache_write_tokens,
            "output_tokens": self.usage.output_tokens,
        }
        reported = used if self.usage.calls else None
        return SummaryReply(text=self.text, finish_reason="stop", model=self.name, usage=reported)

    def begins(self, items: Sequence[Item]) -> bool:
        """Whether a conversation still begins with what the summary replaces, and continues after it."""
        pairs = zip(self.items, items, strict=False)
        return len(items) > len(self.items) and all(a is b for a, b in pairs)


def ahead_flow(job: Job) -> Flow[Prewritten | None]:
    """Writes the summary of a job, and does nothing else; `None`: there is too little to summarise.

    Raises:
        CompactionError: The summarizer failed.
    """
    from ullage.compaction.assemble import LEAST_REMOVED_TOKENS
    from ullage.compaction.cut import prepare
    from ullage.compaction.summary_call import write_summary

    # Without a model it takes milliseconds when it is due: no need to write it in advance.
    state = prepare(replace(job, fallback=None))
    first_kept = state.source.ids[state.cut.stop : state.cut.stop + 1]
    if state.removed_tokens < LEAST_REMOVED_TOKENS or state.cut.start or not first_kept:
        return None
    accepted = yield from write_summary(state, job.instructions)
    at = first_kept[0]
    names = [item.get("uuid") for item in job.items]
    items = tuple(job.items[: at if isinstance(at, int) else names.index(at)])
    return Prewritten(accepted.summarizer, accepted.text, items, at, state.tally.usage)


class Ahead:
    """At most one summary that is being written or waits to be used, for one conversation.

    `listeners` hear of its retries and its end, from the thread or task that writes it. `failure`: why the newest one was not written;
    empty: it was, or nothing was due since.
    """

    def __init__(self, listeners: Iterable[Listener] = ()) -> None:
        self._listeners = tuple(listeners)
        self._background = BackgroundRunner("ullage-ahead")
        self._prewritten: Prewritten | None = None
        self.failure = ""

    @property
    def running(self) -> bool:
        """Whether one is being written."""
        return self._background.running

    @property
    def busy(self) -> bool:
        """Whether one is being written or waits to be used, or one failed and nothing was due since."""
        return self.running or self._prewritten is not None or bool(self.failure)

    def drop_outdated(self, items: Sequence[Item]) -> None:
        """Discard a summary whose messages are no longer the beginning of the conversation."""
        if self._prewritten is not None and not self._prewritten.begins(items):
            self._prewritten = None

    def start(self, job: Job, *, in_loop: bool = False) -> None:
        """Write, unless there is one already: as a task of the running event loop (`in_loop`), else on a thread.

        A summarizer that must be awaited gets an event loop of its own on that thread.
        """
        if self.busy:
            return
        work = flow_work(
            partial(ahead_flow, job), job.summarizer, self._listeners, done=self._ended
        )
        self._background.submit(work, mode="auto" if in_loop else "thread")

    def take(self, items: Sequence[Item]) -> Prewritten | None:
        """Take the summary that matches the conversation; one that does not match is discarded.

        `None`: there is none, or it is still being written: then it continues, for the next time.
        """
        prewritten, self._prewritten, self.failure = self._prewritten, None, ""
        return prewritten if prewritten is not None and prewritten.begins(items) else None

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for what is being written; false if that took longer."""
        return self._background.wait(seconds)

    def _ended(self, result: object) -> None:
        if isinstance(result, Exception):
            # It was not requested yet: the compaction that needs it will report this.
            expected = isinstance(result, CompactionError | InvalidMessage)
            self.failure = str(result) if expected else f"{type(result).__name__}: {result}"
        elif isinstance(result, Prewritten):
            self._prewritten = result
        if self._prewritten is not None:
            event = BackgroundFinished(outcome="ready", usage=self._prewritten.usage)
        else:
            outcome = "failed" if self.failure else "nothing"
            event = BackgroundFinished(outcome=outcome, reason=self.failure)
        tell(self._listeners, event)
