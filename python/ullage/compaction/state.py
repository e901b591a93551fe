"""What is worked out once, before anything is asked of the outside: context, cut, facts, sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from ullage._engine import core
from ullage.compaction.cut import Cut, choose_cut, scaled_keep
from ullage.compaction.job import Job
from ullage.compaction.source import Source, read_source
from ullage.compaction.summary import Situation
from ullage.exceptions import CompactionError
from ullage.facts import is_user_input
from ullage.facts.collect import Collector, collect
from ullage.facts.model import Facts
from ullage.facts.reading import is_summary, role_of, text_of
from ullage.facts.sections import looks_like_summary
from ullage.pins import Pin, read_pins

__all__ = ["State", "prepare", "recut"]


@dataclass(frozen=True, slots=True)
class State:
    """A job, looked at."""

    job: Job
    source: Source
    cut: Cut
    facts: Facts = field(repr=False)  # of what is summarised
    visible: Facts = field(repr=False)  # of what is kept
    whole: Facts = field(repr=False)  # of the whole context
    pins: tuple[Pin, ...]
    tokens: int  # of the context
    removed_tokens: int
    overhead: int  # system prompt and tools

    @property
    def measure(self) -> Callable[[str], int]:
        """Tokens of a text, by the weights of the job."""
        weights = self.job.weights
        if weights is None:
            return lambda text: int(core.rough_text(text))
        return lambda text: int(core.estimate_text(text, weights))

    def kept(self) -> tuple[int, int]:
        """First and last + 1 of the kept run in the context."""
        return self.cut.kept(len(self.source.context))

    def situation(self) -> Situation:
        """Where the conversation stands for the model that goes on."""
        first, last = self.kept()
        newest = self.whole.inputs[-1] if self.whole.inputs else None
        kept = self.source.context[first:last]
        shown = newest is not None and any(is_user_input(item) for item in kept)
        return Situation(
            trigger=self.job.trigger,
            kept_messages=last - first,
            kept_before=self.cut.start > 0,
            newest_input="" if newest is None or (shown and self.cut.start == 0) else newest.text,
            unanswered=bool(self.source.context) and is_user_input(self.source.context[-1]),
            open_question=self.whole.open_question,
            interrupted=self.whole.interrupted,
            in_tool_loop=bool(kept) and _ends_in_loop(kept[-1]),
            transcript_path=self.job.transcript_path,
        )


def _ends_in_loop(item: Any) -> bool:
    return role_of(item) in ("user", "tool") and not is_user_input(item)


def prepare(job: Job) -> State:
    """Reads the conversation, chooses the cut, collects the facts.

    Raises:
        CompactionError: `not_enough_messages`: there is nothing that a model has been shown.
        InvalidMessage: An item is no object.
    """
    source = read_source(job.items)
    if not source.context:
        raise CompactionError("not_enough_messages", "there are no messages to compact")
    ledger = core.Ledger(job.weights, source.context)
    tokens = int(ledger.tokens())
    overhead = _overhead(job, ledger)
    keep = scaled_keep(job.keep, job.policy.keep, job.window_tokens)
    most = _most_kept(job, overhead)
    cut = choose_cut(source, ledger, keep, direction=job.direction, at=job.at, most_kept=most)
    facts, whole = _facts(source, cut)
    first, last = cut.kept(len(source.context))
    return State(
        job=job,
        source=source,
        cut=cut,
        facts=facts,
        visible=collect(source.context[first:last], first_index=first),
        whole=whole,
        pins=_pins(job, source),
        tokens=tokens,
        removed_tokens=int(ledger.tokens(cut.start, cut.stop)),
        overhead=overhead,
    )


def recut(state: State, cut: Cut) -> State:
    """The same job with another cut."""
    source = state.source
    facts, whole = _facts(source, cut)
    first, last = cut.kept(len(source.context))
    return replace(
        state,
        cut=cut,
        facts=facts,
        visible=collect(source.context[first:last], first_index=first),
        whole=whole,
        removed_tokens=int(
            core.Ledger(state.job.weights, source.context).tokens(cut.start, cut.stop)
        ),
    )


def _overhead(job: Job, ledger: Any) -> int:
    """What the newest usage figure holds beyond the messages: system prompt and tools."""
    if job.overhead_tokens is not None:
        return job.overhead_tokens
    anchor = ledger.anchor()
    return max(0, int(anchor.usage) - int(ledger.tokens(0, anchor.covers))) if anchor else 0


def _most_kept(job: Job, overhead: int) -> int | None:
    """Room for kept messages so that the result stays clear of the next compaction (P-8)."""
    limit = job.trigger_tokens if job.trigger_tokens is not None else job.window_tokens
    room = limit * job.policy.auto.max_after_percent // 100 - overhead
    # A summary needs room too: a quarter of what is left is set aside for it.
    return max(room * 3 // 4, 0)


def _facts(source: Source, cut: Cut) -> tuple[Facts, Facts]:
    """Facts of the summarised part, with the user's words of all time, and of the whole context.

    The log still holds what an earlier compaction removed: the user's messages are taken from there,
    since what the previous summary says of them is only a copy, perhaps a shortened one.
    """
    earlier = Collector()
    for index, item in enumerate(source.earlier, -len(source.earlier)):
        earlier.feed(index, item)
    collector = Collector(earlier)
    for index in range(cut.start, cut.stop):
        collector.feed(index, source.context[index])
    facts = collector.finish()
    if cut.start > 0:
        return facts, collect(source.context)
    for index in range(cut.stop, len(source.context)):
        collector.feed(index, source.context[index])
    return facts, collector.finish()


def _pins(job: Job, source: Source) -> tuple[Pin, ...]:
    pins: dict[str, Pin] = {}
    for item in source.context:
        text = text_of(item) if role_of(item) == "user" else ""
        if is_summary(item) or looks_like_summary(text):
            pins.update((pin.name, pin) for pin in read_pins(text))
    pins.update((pin.name, pin) for pin in job.pins)
    return tuple(pins.values())
