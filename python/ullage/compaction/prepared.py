"""What is computed once, before any effect: context, cut, facts, sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from ullage._engine import core
from ullage.compaction.carried import after_item, item_tokens
from ullage.compaction.cut import Cut, choose_cut, least_cut, legal_cut, scaled_keep
from ullage.compaction.input import CompactionInput, read_source
from ullage.compaction.job import Job
from ullage.compaction.summary_message import Continuation
from ullage.compaction.tally import CallTally
from ullage.compaction.target import kept_share, scaled_to_target, shorter_results
from ullage.counting.estimate import Weights
from ullage.effects import Flow, LetOthersRun, drive
from ullage.exceptions import CompactionError
from ullage.facts import is_user_input
from ullage.facts.collector import Collector
from ullage.facts.model import Facts
from ullage.facts.whose_words import standing_left, summary_text
from ullage.levels.pins import Pin, read_pins
from ullage.levels.view import ANY
from ullage.messages import Item, is_boundary, is_summary, message_of, role_of
from ullage.providers.manual_thinking import is_manual, is_torn
from ullage.summarizers.extractive import needed_tokens
from ullage.summarizers.listed_names import MOST_NAMES

__all__ = ["State", "prepare", "recut", "since_last", "with_more_kept", "within_share"]


class Known:
    """Facts of a conversation, collected on first use, since the cut may still change before that."""

    def __init__(self, source: CompactionInput, cut: Cut, weights: Weights | None) -> None:
        self._source, self._cut, self._weights = source, cut, weights

    @cached_property
    def standing(self) -> tuple[tuple[int, Item], ...]:
        """What hosts put there to stand, of what is summarised: it stays, ahead of the summary (HOST-1)."""
        gone = range(self._cut.start, self._cut.stop)
        return tuple(standing_left(self._source.context, gone))

    @cached_property
    def standing_tokens(self) -> int:
        """Of these texts."""
        return int(core.Ledger(self._weights, [item for _, item in self.standing]).tokens())

    @cached_property
    def _collected(self) -> tuple[Facts, Facts]:
        return drive(_facts(self._source, self._cut), lambda effect: None)

    def collect(self) -> Flow[None]:
        """Collect them now, in pieces between which others run."""
        if "_collected" not in vars(self):
            self._collected = yield from _facts(self._source, self._cut)

    @property
    def facts(self) -> Facts:
        """Of what is summarised."""
        return self._collected[0]

    @property
    def whole(self) -> Facts:
        """Of the whole context."""
        return self._collected[1]

    @cached_property
    def shows_input(self) -> bool:
        """Whether a message of the user is kept."""
        first, last = self._cut.kept(len(self._source.context))
        return any(is_user_input(item) for item in self._source.context[first:last])

    @cached_property
    def visible(self) -> Facts:
        """Of what is kept."""
        first, last = self._cut.kept(len(self._source.context))
        return _unranked(self._source.context[first:last], first)


@dataclass(frozen=True, slots=True)
class State:
    """A job with everything that is computed from it."""

    job: Job
    source: CompactionInput
    ledger: Any = field(repr=False)  # of the context
    cut: Cut
    known: Known = field(repr=False)
    pins: tuple[Pin, ...]
    recompaction: bool  # the context holds a summary already
    tokens: int  # of the context
    removed_tokens: int  # by the summary: without the host's standing texts, which stay
    overhead: int  # system prompt and tools, by our estimate
    reported: int | None = None  # size of the context by a usage figure or by the host
    untrue_usage: int = 0  # the newest usage figure, where it cannot be true
    tally: CallTally = field(default_factory=CallTally, repr=False)  # of the summary calls
    shortened: tuple[Item, ...] | None = field(
        default=None, repr=False
    )  # kept messages, to fit a target
    freed_tokens: int = 0  # by shortening them
    summary_limit: int | None = None  # most tokens of the summary, to fit a target

    @property
    def facts(self) -> Facts:
        """Of what is summarised."""
        return self.known.facts

    @property
    def visible(self) -> Facts:
        """Of what is kept."""
        return self.known.visible

    @property
    def whole(self) -> Facts:
        """Of the whole context."""
        return self.known.whole

    def counted(self, estimated: int) -> int:
        """As the provider counts what we estimate, as far as the host knows it."""
        return (estimated * self.job.permille + 500) // 1000

    @property
    def size(self) -> int:
        """Tokens of the context, with system prompt and tools where known: what triggered."""
        whole = self.counted(self.tokens + self.overhead)
        return whole if self.reported is None else self.reported

    @property
    def target(self) -> int | None:
        """Most tokens of the new context's messages, by our estimate; `None`: there is no limit."""
        given = self.job.target_tokens
        return None if given is None else given * 1000 // self.job.permille

    @property
    def measure(self) -> Callable[[str], int]:
        """Tokens of a text, by the weights of the job."""
        weights = self.job.weights
        if weights is None:
            return lambda text: int(core.rough_text(text))
        return lambda text: int(core.estimate_text(text, weights))

    @property
    def summary_room(self) -> int | None:
        """Tokens of a target that kept messages leave; `None`: there is no target."""
        return None if self.target is None else self.target - self.kept_tokens

    @property
    def kept_tokens(self) -> int:
        """Tokens of the messages that stay."""
        return self.tokens - self.removed_tokens - self.freed_tokens

    def kept(self) -> tuple[int, int]:
        """First and last + 1 of the kept run in the context."""
        return self.cut.kept(len(self.source.context))

    def kept_items(self) -> tuple[Item, ...]:
        """What is kept, as it was stored, or shortened to fit a target."""
        first, last = self.kept()
        return self.source.stored[first:last] if self.shortened is None else self.shortened

    def situation(self) -> Continuation:
        """The state of the conversation for the model that continues."""
        first, last = self.kept()
        newest = self.whole.inputs[-1] if self.whole.inputs else None
        kept = self.source.context[first:last]
        shown = newest is not None and self.known.shows_input
        apart = newest is not None and not (shown and self.cut.start == 0)
        words = newest.text if newest is not None and apart else ""
        room = self.summary_room
        return Continuation(
            trigger=self.job.trigger,
            kept_messages=last - first,
            kept_before=self.cut.start > 0,
            newest_input=words,
            room=None if room is None else room - self.measure(words),
            unanswered=bool(self.source.context) and is_user_input(self.source.context[-1]),
            open_question=self.whole.open_question,
            interrupted=self.whole.interrupted,
            in_tool_loop=bool(kept) and _ends_in_loop(kept[-1]),
            transcript_path=self.job.transcript_path,
        )


def _ends_in_loop(item: Any) -> bool:
    return role_of(item) in ("user", "tool") and not is_user_input(item)


def prepare(job: Job) -> State:
    """Reads the conversation and chooses the cut.

    Raises:
        CompactionError: `not_enough_messages`: there is nothing that a model has been shown.
        InvalidMessage: An item is not a mapping.
    """
    source = read_source(job.items)
    if not source.context:
        raise CompactionError("not_enough_messages", "there are no messages to compact")
    ledger = core.Ledger(job.weights, source.context)
    tokens = int(ledger.tokens())
    overhead = int(ledger.overhead or 0) if job.overhead_tokens is None else job.overhead_tokens
    keep = scaled_keep(job.keep, job.policy.keep, job.window_tokens)
    if job.target_tokens is not None and job.keep is None:
        keep = scaled_to_target(keep, kept_share(job.target_tokens * 1000 // job.permille))
    most = _most_kept(job, overhead)
    known = Known(source, Cut(0, len(source.context)), job.weights)
    most = max(most - item_tokens(source, ledger) - known.standing_tokens, 0)
    cut = choose_cut(
        source,
        ledger,
        keep,
        direction=job.direction,
        at=job.at,
        most_kept=most,
        manual_thinking=is_manual(job.thinking),
    )
    cut = after_item(source, ledger, cut)
    summaries = _summaries(source)
    known = Known(source, cut, job.weights)
    state = State(
        job=job,
        source=source,
        ledger=ledger,
        cut=cut,
        known=known,
        pins=_pins(job, summaries),
        recompaction=bool(summaries),
        tokens=tokens,
        removed_tokens=int(ledger.tokens(cut.start, cut.stop)) - known.standing_tokens,
        overhead=overhead,
        reported=_reported(job, ledger),
        untrue_usage=_untrue(ledger),
    )
    return _within_target(state)


def _reported(job: Job, ledger: Any) -> int | None:
    """The context's size by the host, or by the newest usage figure where nobody states what is sent in addition to the messages."""
    if job.context_tokens is not None or job.overhead_tokens is not None:
        return job.context_tokens
    count = ledger.anchored()
    return None if count.anchor is None else int(count.total)


def _untrue(ledger: Any) -> int:
    """The newest usage figure, where it is too small to be true; else 0."""
    newest, held = ledger.anchor(ANY), ledger.anchor()
    return int(newest.usage) if newest is not None and newest != held else 0


def _within_target(state: State) -> State:
    """Reduce the kept part to its share of the target: results are cut first, then less is kept."""
    target = state.target
    if target is None:
        return state
    tokens = int(state.ledger.tokens(*state.kept()))
    if not tokens:
        return state
    room = max(target - state.known.standing_tokens, 0)
    share = kept_share(room, needed_tokens(state.facts))
    return state if tokens <= share else within_share(state, share)


def within_share(state: State, share: int) -> State:
    """The kept part reduced to so many tokens, as far as it can be."""
    tokens, first = int(state.ledger.tokens(*state.kept())), state.kept()[0]
    if not state.source.entries:
        # The lines of a transcript stay as they are.
        kept, freed = shorter_results(state.kept_items(), tokens - share, state.measure)
        if tokens - freed <= share or state.job.direction != "full":
            return replace(state, shortened=kept, freed_tokens=freed)
    if state.job.direction != "full":
        return state
    manual = is_manual(state.job.thinking)
    least = least_cut(state.source, state.ledger, manual_thinking=manual)
    least = after_item(state.source, state.ledger, least)
    if least.stop <= first:
        return state if state.source.entries else replace(state, shortened=kept, freed_tokens=freed)
    return _shortened(_least_over(state, share, least), share)


def with_more_kept(state: State, share: int) -> State | None:
    """The job with the earliest legal cut that keeps no more than so many tokens; `None`: that is no earlier one."""
    length = len(state.source.context)
    for place in range(state.cut.stop - 1, 0, -1):
        if state.ledger.tokens(place, length) > share:
            break
    else:
        place = 0
    starts = (legal_cut(state.ledger, at) for at in range(place + 1, state.cut.stop))
    fits = (at for at in starts if 0 < at and state.ledger.tokens(at, length) <= share)
    start = next(fits, state.cut.stop)
    return recut(state, Cut(0, start)) if start < state.cut.stop else None


def _least_over(state: State, share: int, least: Cut) -> State:
    """The cut that keeps the most within the share, else what must stay; avoids splitting manual thinking where possible."""
    manual = is_manual(state.job.thinking)
    for place in range(state.cut.stop + 1, least.stop):
        if state.ledger.tokens(place, len(state.source.context)) <= share:
            legal = legal_cut(state.ledger, place)
            cut = after_item(state.source, state.ledger, Cut(0, legal))
            if manual and is_torn(state.ledger, cut.stop):
                continue
            if state.ledger.tokens(cut.stop, len(state.source.context)) <= share:
                return recut(state, cut)
    return recut(state, least)


def _shortened(state: State, share: int) -> State:
    excess = int(state.ledger.tokens(*state.kept())) - share
    if excess <= 0 or state.source.entries:
        return state
    kept, freed = shorter_results(state.kept_items(), excess, state.measure)
    return replace(state, shortened=kept, freed_tokens=freed)


def since_last(state: State) -> tuple[int | None, str]:
    """Responses since the newest compaction, and the uuid of its summary, from a log's entries; `None`, "": unknown."""
    if not state.recompaction or not state.source.entries:
        return None, ""
    items = state.source.items
    last = max((at for at, item in enumerate(items) if is_boundary(item)), default=None)
    if last is None:
        return None, ""
    answers = {
        _answer(item) or at for at, item in enumerate(items[last:]) if role_of(item) == "assistant"
    }
    summary = next((item for item in items[last:] if is_summary(item)), items[last])
    return len(answers), str(summary.get("uuid") or "")


def _answer(item: Any) -> Any:
    """The response's id: a log may hold one response in several lines."""
    found = (message_of(item) or {}).get("id")
    return found if isinstance(found, str) else None


def recut(state: State, cut: Cut) -> State:
    """The same job with another cut."""
    known = Known(state.source, cut, state.job.weights)
    removed = int(state.ledger.tokens(cut.start, cut.stop)) - known.standing_tokens
    return replace(
        state, cut=cut, known=known, removed_tokens=removed, shortened=None, freed_tokens=0
    )


def _most_kept(job: Job, overhead: int) -> int:
    """Room for kept messages so that the next compaction comes late (P-8)."""
    room = room_after(job, overhead)
    # A summary needs room too: a quarter is reserved for it, and half where a quarter would hardly hold its headings.
    aside = max(room // 4, min(room // 2, LEAST_SUMMARY_ROOM))
    return max(room - aside, 0)


LEAST_SUMMARY_ROOM = 4_000
"""Tokens that a summary should have, if half of the room is that large."""


def room_after(job: Job, overhead: int) -> int:
    """Tokens that messages may take after a compaction, so that the next comes late (P-8)."""
    stated = (job.limit_tokens, job.trigger_tokens, job.window_tokens)
    limit = next(each for each in stated if each is not None)
    return limit * job.policy.auto.max_after_percent // 100 - overhead


def _facts(source: CompactionInput, cut: Cut) -> Flow[tuple[Facts, Facts]]:
    """Facts of the summarised part, with the user's words of all time, and, unranked, of the whole context.

    The log still holds what an earlier compaction removed: the user's messages are taken from there,
    since the previous summary has only copies, perhaps shortened ones.
    """
    earlier = Collector()
    yield from _fed(earlier, source.earlier, -len(source.earlier))
    collector = Collector(earlier)
    yield from _fed(collector, source.context[cut.start : cut.stop], cut.start)
    facts = collector.finish(most_names=MOST_NAMES)
    yield LetOthersRun()
    if cut.start > 0:
        return facts, _unranked(source.context)
    yield from _fed(collector, source.context[cut.stop :], cut.stop)
    return facts, collector.finish(ranked=False)


def _fed(collector: Collector, items: Sequence[Item], first: int) -> Flow[None]:
    for index, item in enumerate(items, first):
        collector.feed(index, item)
        if index % ITEMS_AT_ONCE == 0:
            yield LetOthersRun()


ITEMS_AT_ONCE = 4
"""Items that are read between two places where others may run: some 0.3 ms."""


def _unranked(items: Sequence[Item], first: int = 0) -> Facts:
    collector = Collector()
    for index, item in enumerate(items, first):
        collector.feed(index, item)
    return collector.finish(ranked=False)


def _summaries(source: CompactionInput) -> list[str]:
    """The texts of the summaries in the context."""
    return [text for item in source.context if (text := summary_text(item))]


def _pins(job: Job, summaries: list[str]) -> tuple[Pin, ...]:
    pins: dict[str, Pin] = {}
    for text in summaries:
        pins.update((pin.name, pin) for pin in read_pins(text))
    pins.update((pin.name, pin) for pin in job.pins)
    return tuple(pins.values())
