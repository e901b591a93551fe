"""What is computed once, before any effect: context, cut, facts, sizes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

from ullage._engine import core
from ullage._engine.digests import BlockKind, Role
from ullage._start import Frozen
from ullage.compaction.job import Direction, Job
from ullage.counting.calibration import Weights, measure_of
from ullage.effects import Flow, LetOthersRun, drive
from ullage.exceptions import CompactionError, InvalidPolicy
from ullage.facts import is_user_input
from ullage.facts.collector import Collector
from ullage.facts.model import Facts
from ullage.facts.sections import alone, family_of, newest_item, without
from ullage.facts.words import (
    Standing,
    is_one_result,
    others_in,
    standing_in,
    standing_left,
    summary_text,
    text_of,
    without_host_text,
)
from ullage.levels.pins import Pin, read_pins
from ullage.levels.view import ANY
from ullage.messages import Item, is_boundary, is_summary, listed, message_of, role_of
from ullage.observe.events import SummaryUsage, reported_tokens
from ullage.policy import KeepPolicy
from ullage.providers.anthropic import is_manual, is_torn, whole_start
from ullage.summarizers.budgeted_text import begin, end
from ullage.summarizers.extractive import needed_tokens
from ullage.summarizers.lines import MOST_NAMES
from ullage.transcript.index import resume
from ullage.transcript.render import to_messages

# The input of a compaction: the context that the model currently sees, from a list of messages or entries.


class CompactionInput(Frozen):
    """A conversation, split into its parts."""

    items: tuple[Item, ...]  # everything that was passed
    head: tuple[Item, ...]  # system messages at the start of a bare list; never compacted
    context: tuple[Item, ...]  # what the model sees after the newest boundary
    stored: tuple[Item, ...]  # the same as passed, unless a level's placeholder replaces it
    ids: tuple[str | int, ...]  # for each of `context` its uuid, or its position in `items`
    earlier: tuple[Item, ...]  # what an earlier compaction took out of the context
    entries: bool  # the items are entries of a transcript
    # By position in `context`: the items that a level's message stands for. Code reads them in its place.
    originals: Mapping[int, Sequence[Item]] = field(default_factory=dict)
    ledger: Any = None  # of `context`, by the job's weights; `None`: it is made

    @cached_property
    def spoken(self) -> list[tuple[int, Item]]:
        """Messages of the context, by position, without answers and results that stand alone: neither hosts nor summaries are there."""
        return [
            (at, item)
            for at, item in enumerate(self.context)
            if "isCompactSummary" in item
            or not (role_of(item) == "assistant" or is_one_result(message_of(item) or {}))
        ]

    @cached_property
    def newest_input(self) -> int | None:
        """Where the user wrote last; `None`: nowhere."""
        return next((at for at, item in reversed(self.spoken) if is_user_input(item)), None)

    @cached_property
    def standing(self) -> list[tuple[int, list[Standing]]]:
        """The texts that hosts put there to stand, by their positions in the context."""
        return [(at, texts) for at, item in self.spoken if (texts := standing_in(item))]

    def bare(self, start: int, stop: int, *, plain: bool = False) -> list[dict[str, Any]]:
        """A part of the context as messages of a request; `plain`: without what hosts put in, but with what sub-agents answered."""
        part = self.context[start:stop]
        if not self.entries:
            messages = [dict(message) for message in part]
        else:
            if plain:
                pairs = zip(part, self.stored[start:stop], strict=True)
                part = tuple(
                    item
                    for item, stored in pairs
                    if stored.get("type") != "attachment" or item.get("isMeta") is not True
                )
            messages = to_messages(part).messages
        if not plain:
            return messages
        stripped = [without_host_text(message) for message in messages]
        left = [dict(message) for message in stripped if message is not None]
        # A call begins with the user's role, also where all that was said in it is a host's.
        lacks = bool(left) and stripped[0] is None and role_of(left[0]) == "assistant"
        return [messages[0], *left] if lacks else left


class ReadItems(tuple[Item, ...]):
    """Items that were split already, for a caller that asks about them before and after a compaction."""

    parts: CompactionInput

    @classmethod
    def of(cls, sequence: Sequence[Item]) -> ReadItems:
        """The items with their parts."""
        items = cls(sequence)
        items.parts = read_source(sequence)
        return items

    @classmethod
    def with_originals(
        cls, sequence: Sequence[Item], originals: Mapping[int, Sequence[Item]]
    ) -> ReadItems:
        """The items, and by their positions what messages of levels among them stand for."""
        items = cls.of(sequence)
        places = {id(item): at for at, item in enumerate(items.parts.context)}
        of_context = {places[id(items[at])]: replaced for at, replaced in originals.items()}
        items.parts = replace(items.parts, originals=of_context)
        return items

    @classmethod
    def in_context(cls, sequence: Sequence[Item], ledger: Any = None) -> ReadItems:
        """Entries that a replay has found to be the context, perhaps with their ledger: it is not asked again what stands in it."""
        items = cls(sequence)
        if not any("message" in item and "role" not in item for item in items):
            return cls.of(sequence)
        names = (item.get("uuid") for item in items)
        ids = tuple(name if isinstance(name, str) else at for at, name in enumerate(names))
        context = tuple(items)
        items.parts = CompactionInput(context, (), context, context, ids, (), True, ledger=ledger)
        return items


def read_source(sequence: Sequence[Item]) -> CompactionInput:
    """Split a list of bare messages or entries into its parts; `ReadItems` are not read again.

    Raises:
        InvalidMessage: Something in the list is not a mapping; names its position.
    """
    if isinstance(sequence, ReadItems):
        return sequence.parts
    items = tuple(listed(sequence))
    # Most are bare messages, which neither names.
    special = [item for item in items if "role" not in item or "subtype" in item]
    if any(("message" in item and "role" not in item) or is_boundary(item) for item in special):
        return _of_entries(items)
    head = 0
    while head < len(items) and role_of(items[head]) == "system":
        head += 1
    numbered = range(head, len(items))
    places = [at for at in numbered if "role" in items[at] or message_of(items[at]) is not None]
    context = tuple([items[at] for at in places])
    return CompactionInput(items, items[:head], context, context, tuple(places), (), False)


def _uuid(item: Item) -> str:
    uuid = item.get("uuid")
    return uuid if isinstance(uuid, str) else ""


def _of_entries(items: tuple[Item, ...]) -> CompactionInput:
    context = tuple(resume(items).entries)
    by_object = {id(item): at for at, item in enumerate(items)}
    by_uuid = {_uuid(item): at for at, item in enumerate(items) if _uuid(item)}
    places = [by_object.get(id(item), by_uuid.get(_uuid(item), -1)) for item in context]
    stored = tuple(
        items[at] if at >= 0 and items[at].get("type") == "attachment" else item
        for item, at in zip(context, places, strict=True)
    )
    ids = tuple(
        item["uuid"] if isinstance(item.get("uuid"), str) else at
        for item, at in zip(context, places, strict=True)
    )
    inside = set(places)
    last = max((at for at, item in enumerate(items) if is_boundary(item)), default=-1)
    earlier = tuple(items[at] for at in range(max(last, 0)) if at not in inside)
    return CompactionInput(items, (), context, stored, ids, earlier, True)


# Where to cut: what the summary replaces, and what stays verbatim.


class Cut(NamedTuple):
    """`[start, stop)` of the context is summarised; the rest is kept, after it or (direction `from`) before."""

    start: int
    stop: int

    def kept_range(self, length: int) -> tuple[int, int]:
        """First and last + 1 of what is kept; it is empty or one run."""
        return (self.stop, length) if self.start == 0 else (0, self.start)


def scaled_keep(
    keep: KeepPolicy | int | None, policy: KeepPolicy, window_tokens: int
) -> KeepPolicy:
    """How much to keep: a policy, or tokens (0: only what must stay).

    `None`: the default policy, but at least a twelfth and at most a quarter of a small window.
    """
    if isinstance(keep, KeepPolicy):
        return keep
    if keep is None:
        least = min(policy.min_tokens, window_tokens // 12)
        most = max(min(policy.max_tokens, window_tokens // 4), 1)
        return replace(policy, min_tokens=least, max_tokens=most)
    tokens: object = keep
    if isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < 0:
        raise InvalidPolicy("keep", tokens, "must be a number of tokens, at least 0")
    return KeepPolicy(min_tokens=tokens, max_tokens=max(tokens, 1), min_text_messages=0)


def choose_cut(
    source: CompactionInput,
    ledger: Any,
    keep: KeepPolicy,
    *,
    direction: Direction = "full",
    at: int | str | None = None,
    most_kept: int | None = None,
    manual_thinking: bool = False,
) -> Cut:
    """The cut of a compaction; never through a tool pair or a response that was stored in pieces.

    `keep`: how much of the end stays, at most `most_kept` tokens (`None`: any), for direction `full`; the others begin or end at the message
    `at`, by its uuid or its position in the items, moved back to a legal place. `manual_thinking`: an open turn is kept from a message
    on that begins with thinking, where there is one near.
    """
    length = len(source.context)
    if direction != "full":
        pointed = source.items[at] if isinstance(at, int) and 0 <= at < len(source.items) else None
        places = (place for place, item in enumerate(source.stored) if item is pointed)
        place = source.ids.index(at) if at in source.ids else next(places, None)
        if place is None:
            limit = f"must name a message of the context for direction {direction!r}"
            raise InvalidPolicy("at", at, limit)
        place = legal_cut(ledger, place)
        return Cut(place, length) if direction == "from" else Cut(0, place)
    start = _kept_from(source, ledger, keep)
    if most_kept is not None and ledger.tokens(start, length) > most_kept:
        last = must_stay(source, ledger)
        start = later_cut(ledger, start, last, most_kept)
        if start == last:
            return least_cut(source, ledger, manual_thinking=manual_thinking)
    return Cut(0, whole_turn(source, ledger, start, most_kept) if manual_thinking else start)


def later_cut(ledger: Any, start: int, last: int, most: int) -> int:
    """The first legal cut from `start` on that keeps no more than so many tokens; `last` if there is none before it."""
    places = range(start, last)
    # The later, the fewer tokens.
    first = bisect_left(places, True, key=lambda at: ledger.tokens(at, len(ledger)) <= most)
    return next((at for at in places[first:] if legal_cut(ledger, at) == at), last)


def least_cut(source: CompactionInput, ledger: Any, *, manual_thinking: bool) -> Cut:
    """The cut that keeps what must stay, and no more.

    With manual thinking a turn whose calls still wait for results is kept from its thinking on, however much
    that is: no line may end it before they come.
    """
    start = must_stay(source, ledger)
    if not manual_thinking or not ledger.open_calls():
        return Cut(0, start)
    return Cut(0, whole_turn(source, ledger, start, None))


def whole_turn(
    source: CompactionInput, ledger: Any, start: int, most: int | None, *, last: int | None = None
) -> int:
    """The cut, where an open turn begins with thinking; the very same if there is none: then the turn is ended.

    `most`: tokens that may be kept, `None`: any. `last`: the newest position that the cut may have, `None`: where what must stay begins.
    """
    end = must_stay(source, ledger)
    place = whole_start(
        ledger, start, floor=0, last=end if last is None else min(last, end), most=most
    )
    return start if place is None else place


def legal_cut(ledger: Any, place: int) -> int:
    """The newest position, at or before one, where a cut splits nothing."""
    window = ledger.keep_window(place, floor=0, min_tokens=0, max_tokens=1, min_text_messages=0)
    return _with_reasoning(ledger, int(window.start))


def window_start(ledger: Any, last: int, keep: KeepPolicy, *, floor: int = 0) -> int:
    """From where on enough of the newest messages stays: back from `last`, at most to `floor`."""
    window = ledger.keep_window(
        last,
        floor=floor,
        min_tokens=keep.min_tokens,
        max_tokens=keep.max_tokens,
        min_text_messages=keep.min_text_messages,
    )
    return int(window.start)


def _with_reasoning(ledger: Any, place: int) -> int:
    """The cut before reasoning that stands as an item of its own in front of it (R02).

    The items of a response of OpenAI's Responses share no id that would hold them together.
    """
    while (
        0 < place < len(ledger)
        and ledger.message(place).role == ledger.message(place - 1).role == Role.ASSISTANT
        and {block.kind for block in ledger.blocks(place - 1)} == {BlockKind.THINKING}
    ):
        place -= 1
    return place


def _kept_from(source: CompactionInput, ledger: Any, keep: KeepPolicy) -> int:
    length = len(source.context)
    if keep.min_tokens == 0 and keep.min_text_messages == 0:
        return must_stay(source, ledger)
    start = min(window_start(ledger, length, keep), must_stay(source, ledger))
    newest = source.newest_input
    # The newest request and all that was done for it, if that is not much more than is kept anyway.
    if newest is not None and newest < start and ledger.tokens(newest, length) <= keep.max_tokens:
        start = legal_cut(ledger, newest)
    return _with_reasoning(ledger, start)


def must_stay(source: CompactionInput, ledger: Any) -> int:
    """Where the unfinished end begins: an unanswered request, calls whose results are still to come."""
    context = source.context
    start = length = len(context)
    # A teammate or another session that has spoken waits for an answer too, though it is not the user.
    if source.newest_input == length - 1 or (
        length and role_of(context[-1]) == "user" and others_in(text_of(context[-1]))
    ):
        start = length - 1
    for message, _ in ledger.open_calls():
        # Only calls of the newest response can still be answered; an older one never will be.
        if not any(
            is_user_input(item) or (role_of(item) == "assistant" and text_of(item).strip())
            for item in context[message + 1 :]
        ):
            start = min(start, message)
    return legal_cut(ledger, start) if start < length else length


# A size that the new context must not exceed: how the room is split, and what is shortened first.


Measure: TypeAlias = Callable[[str], int]

LEAST_SUMMARY_TOKENS = 20  # one section with a line in it
FRAME_TOKENS = 150  # the text of the summary message around the summary
# Tokens for the summary message below which that text is reduced to what must be said.
SMALL_ROOM = 700
SMALL_FRAME_TOKENS = 60
MARK_TOKENS = 12  # of the mark where a result is cut: one is not cut to save less
# Minimum tokens of a result in the kept part: a shorter one would not show what it was.
LEAST_RESULT_TOKENS = 60
HEAD_PERCENT = 60
LEAST_KEPT_PERCENT = 20


def frame_tokens(room: int) -> int:
    """Tokens of the text around a summary whose message has this room."""
    return SMALL_FRAME_TOKENS if room < SMALL_ROOM else FRAME_TOKENS


def kept_share(room: int, needed: int = 0) -> int:
    """Tokens of a target that the kept messages may have: half, or what the summary leaves of it, but at least a fifth.

    `needed`: what the summary needs for the user's words and the essential facts; results are shortened before these are.
    """
    left = room - needed - frame_tokens(room)
    return max(min(room // 2, left), room * LEAST_KEPT_PERCENT // 100)


def keep_of(job: Job) -> KeepPolicy:
    """How much a job keeps; the policy's amount is reduced where a target leaves less room."""
    keep = scaled_keep(job.keep, job.policy.keep, job.window_tokens)
    if job.target_tokens is None or job.keep is not None:
        return keep
    share = kept_share(job.target_tokens * 1000 // job.permille)
    least = min(keep.min_tokens, share // 2)
    return replace(keep, min_tokens=least, max_tokens=max(min(keep.max_tokens, share), 1))


class _Result(NamedTuple):
    message: int
    path: tuple[str | int, ...]  # to its text in the message
    text: str
    tokens: int


def shorter_results(
    messages: Sequence[Item], excess: int, measure: Measure
) -> tuple[tuple[Item, ...], int]:
    """The kept messages with their largest tool results cut in the middle, to remove `excess` tokens.

    Returns:
        The messages (unchanged ones are the same objects), and about how many tokens were removed.
    """
    results = [result for at, item in enumerate(messages) for result in _results(at, item, measure)]
    most = _cap(sorted((result.tokens for result in results), reverse=True), excess)
    out = list(messages)
    freed = 0
    for result in results:
        # By its size alone, so that of two results the larger one is never whole while the other is cut.
        if result.tokens > most + MARK_TOKENS:
            text = _cut(result.text, most, result.tokens)
            gain = result.tokens - measure(text)
            if gain > 0:
                out[result.message] = _put(out[result.message], result.path, text)
                freed += gain
    return tuple(out), freed


def _cap(sizes: Sequence[int], excess: int) -> int:
    """The size above which results are cut to remove the excess in total; at least `LEAST_RESULT_TOKENS`."""
    for count in range(1, len(sizes) + 1):
        below = sizes[count] if count < len(sizes) else 0
        if sum(sizes[:count]) - count * below >= excess:
            return max((sum(sizes[:count]) - excess) // count, LEAST_RESULT_TOKENS)
    return LEAST_RESULT_TOKENS


def _results(at: int, item: Item, measure: Measure) -> Iterator[_Result]:
    content = item.get("content")
    if item.get("role") == "tool" and isinstance(content, str):
        yield _Result(at, ("content",), content, measure(content))
    for place, block in enumerate(content if isinstance(content, list) else ()):
        if not isinstance(block, Mapping) or block.get("type") != "tool_result":
            continue
        inner, path = block.get("content"), ("content", place, "content")
        if isinstance(inner, str):
            yield _Result(at, path, inner, measure(inner))
        for number, part in enumerate(inner if isinstance(inner, list) else ()):
            text = part.get("text") if isinstance(part, Mapping) else None
            if isinstance(text, str) and part.get("type") == "text":
                yield _Result(at, (*path, number, "text"), text, measure(text))


def _cut(text: str, tokens: int, whole: int) -> str:
    chars = max(len(text) * (tokens - 16) // max(whole, 1), 0)
    head, tail = chars * HEAD_PERCENT // 100, chars * (100 - HEAD_PERCENT) // 100
    front, back = begin(text, head), end(text, tail)
    missing = len(text) - len(front) - len(back)
    return f"{front}\n[… {missing} characters left out to fit …]\n{back}"


def _put(value: Any, path: tuple[str | int, ...], text: str) -> Any:
    """A copy with the text at the end of the path."""
    if not path:
        return text
    copy: Any = dict(value) if isinstance(value, Mapping) else list(value)
    copy[path[0]] = _put(value[path[0]], path[1:], text)
    return copy


# Carries the provider's own compaction item through a compaction: at the front, unchanged, or the compaction is refused (FULL-14).


def after_item(source: CompactionInput, ledger: Any, cut: Cut) -> Cut:
    """The cut, after the item where that is legal: the provider does not read what comes before its item.

    Only for entries: they cannot be split, so that an item among the kept ones stays where it is.

    Raises:
        CompactionError: `provider_compaction`: the item is in what a partial compaction takes from the end.
    """
    newest = newest_item(source.context, ledger)
    if newest is not None and cut.start > 0 and newest.at >= cut.start:
        raise _refused("it would come after the messages that are kept")
    if newest is None or not source.entries or cut.start > 0 or newest.at < cut.stop:
        return cut
    last = must_stay(source, ledger)
    return next(
        (Cut(0, at) for at in range(newest.at + 1, last + 1) if legal_cut(ledger, at) == at), cut
    )


def with_item(
    state: State, kept_items: tuple[Item, ...], carried: tuple[Item, ...]
) -> tuple[tuple[Item, ...], tuple[Item, ...]]:
    """What comes before the summary, and the kept messages without what moved to the front and what that replaces.

    `carried`: what the provider made just now, instead of a summary.

    Raises:
        CompactionError: `provider_compaction`: the item is newer than what the provider was asked to compact.
    """
    cut, newest = state.cut, newest_item(state.source.context, state.ledger)
    if newest is None or cut.start > 0:
        return carried, kept_items
    if carried:
        if newest.at >= cut.stop:
            raise _refused("it is newer than what was to be summarised by the provider")
        newer = newest_item(carried)
        same = newer is not None and family_of(newer.block) == family_of(newest.block)
        # Another provider's item cannot have been absorbed.
        return carried if same else (alone(newest.block), *carried), kept_items
    if newest.at < cut.stop:
        return (alone(newest.block),), kept_items
    if state.source.entries:
        return (), kept_items
    others = (without(item) for item in kept_items)
    return (alone(newest.block),), tuple(item for item in others if item is not None)


def _refused(why: str) -> CompactionError:
    return CompactionError(
        "provider_compaction",
        f"the context holds the provider's own compaction item, which cannot be moved: {why}",
        hint="compact the whole conversation (direction full), with a summarizer that writes text",
    )


# The cost of a compaction's summary calls, counted as they are made, so that it is known even if the compaction fails.


@dataclass(slots=True)
class CallTally:
    """One compaction's calls."""

    summarizer: str = ""  # asked last; empty: none yet
    attempts: int = 0  # calls that were made
    dropped: int = 0  # oldest messages that the newest call did not see
    usage: SummaryUsage = field(default_factory=SummaryUsage)  # of the calls that reported theirs
    failure: str = ""  # why the summarizer gave up, so that its fallback wrote; empty: it did not


def usage_of(reported: Mapping[str, Any]) -> SummaryUsage:
    """One answer's usage, in Anthropic's or OpenAI's words."""
    prompt, read, written, output = reported_tokens(reported)
    return SummaryUsage(
        calls=1,
        input_tokens=max(prompt - read - written, 0),
        cache_read_tokens=read,
        cache_write_tokens=written,
        output_tokens=output,
    )


class CutFacts:
    """Facts on both sides of a cut, collected on first use, since the cut may still change before that."""

    def __init__(self, source: CompactionInput, cut: Cut, weights: Weights | None) -> None:
        self._source, self._cut, self._weights = source, cut, weights

    @cached_property
    def standing(self) -> tuple[tuple[int, Item], ...]:
        """What hosts put there to stand, of what is summarised: it stays, ahead of the summary (HOST-1)."""
        removed = range(self._cut.start, self._cut.stop)
        source = self._source
        return tuple(standing_left(source.context, removed, texts=source.standing))

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
    def removed(self) -> Facts:
        """Of what is summarised."""
        return self._collected[0]

    @property
    def whole(self) -> Facts:
        """Of the whole context."""
        return self._collected[1]

    @cached_property
    def shows_input(self) -> bool:
        """Whether a message of the user is kept."""
        first, last = self._cut.kept_range(len(self._source.context))
        return any(is_user_input(item) for at, item in self._source.spoken if first <= at < last)

    @cached_property
    def still_shown(self) -> Facts:
        """Of what is kept."""
        first, last = self._cut.kept_range(len(self._source.context))
        return _unranked(self._source.context[first:last], first)


class State(Frozen):
    """A job with everything that is computed from it."""

    job: Job
    source: CompactionInput
    ledger: Any = field(repr=False)  # of the context
    cut: Cut
    facts: CutFacts = field(repr=False)
    pins: tuple[Pin, ...]
    recompaction: bool  # the context holds a summary already
    tokens: int  # of the context
    removed_tokens: int  # by the summary: without the host's standing texts, which stay
    overhead: int  # system prompt and tools, by our estimate
    # Size of the context by the host, or by the newest usage figure where nobody states what is sent besides the messages.
    reported: int | None = None
    untrue_usage: int = 0  # the newest usage figure, where it cannot be true
    tally: CallTally = field(default_factory=CallTally, repr=False)  # of the summary calls
    # The kept messages, shortened to fit a target.
    shortened: tuple[Item, ...] | None = field(default=None, repr=False)
    freed_tokens: int = 0  # by shortening them
    summary_limit: int | None = None  # most tokens of the summary, to fit a target
    excerpts: bool = False  # room that is left is for excerpts of the newest results

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
        target = self.job.target_tokens
        return None if target is None else target * 1000 // self.job.permille

    @property
    def measure(self) -> Callable[[str], int]:
        """Tokens of a text, by the weights of the job."""
        return measure_of(self.job.weights)

    @property
    def summary_room(self) -> int | None:
        """Tokens of a target that kept messages leave; `None`: there is no target."""
        return None if self.target is None else self.target - self.kept_tokens

    @property
    def kept_tokens(self) -> int:
        """Tokens of the messages that stay."""
        return self.tokens - self.removed_tokens - self.freed_tokens

    def kept_range(self) -> tuple[int, int]:
        """First and last + 1 of the kept run in the context."""
        return self.cut.kept_range(len(self.source.context))

    def kept_items(self) -> tuple[Item, ...]:
        """What is kept, as it was stored, or shortened to fit a target."""
        first, last = self.kept_range()
        return self.source.stored[first:last] if self.shortened is None else self.shortened

    @property
    def newest_input(self) -> str:
        """The newest message of the user, where the model does not see it after the summary; empty else."""
        inputs = self.facts.whole.inputs
        shown = self.facts.shows_input and self.cut.start == 0
        return inputs[-1].text if inputs and not shown else ""


def prepare(job: Job) -> State:
    """Reads the conversation and chooses the cut.

    Raises:
        CompactionError: `not_enough_messages`: there is nothing that a model has been shown.
        InvalidMessage: An item is not a mapping.
    """
    source = read_source(job.items)
    if not source.context:
        raise CompactionError("not_enough_messages", "there are no messages to compact")
    ledger = core.Ledger(job.weights, source.context) if source.ledger is None else source.ledger
    tokens = int(ledger.tokens())
    overhead = int(ledger.overhead or 0) if job.overhead_tokens is None else job.overhead_tokens
    # Whatever the cut, what the host put there to stand takes its room. A summary needs room too: a quarter is reserved for it, and
    # half where a quarter would hardly hold its headings.
    standing = CutFacts(source, Cut(0, len(source.context)), job.weights).standing_tokens
    room = room_after(job, overhead)
    room = max(room - max(room // 4, min(room // 2, LEAST_SUMMARY_ROOM)), 0)
    newest = newest_item(source.context, ledger)  # the provider's own, which stays
    item_tokens = 0 if newest is None else int(ledger.message(newest.at).tokens)
    most = max(room - item_tokens - standing, 0)
    cut = choose_cut(
        source,
        ledger,
        keep_of(job),
        direction=job.direction,
        at=job.at,
        most_kept=most,
        manual_thinking=is_manual(job.thinking),
    )
    cut = after_item(source, ledger, cut)
    summaries = [text for _, item in source.spoken if (text := summary_text(item))]
    pins = {pin.name: pin for text in summaries for pin in read_pins(text)}
    pins |= {pin.name: pin for pin in job.pins}
    facts = CutFacts(source, cut, job.weights)
    usage, true_usage = ledger.anchor(ANY), ledger.anchor()
    reported = job.context_tokens
    if reported is None and job.overhead_tokens is None and true_usage is not None:
        reported = int(ledger.anchored().total)
    state = State(
        job=job,
        source=source,
        ledger=ledger,
        cut=cut,
        facts=facts,
        pins=tuple(pins.values()),
        recompaction=bool(summaries),
        tokens=tokens,
        removed_tokens=int(ledger.tokens(cut.start, cut.stop)) - facts.standing_tokens,
        overhead=overhead,
        reported=reported,
        untrue_usage=0 if usage is None or usage == true_usage else int(usage.usage),
    )
    kept_tokens = int(ledger.tokens(*state.kept_range()))
    if state.target is None or not kept_tokens:
        return state
    # The kept part has its share of the target: results are cut first, then less is kept.
    room = max(state.target - facts.standing_tokens, 0)
    share = kept_share(room, needed_tokens(facts.removed))
    return state if kept_tokens <= share else within_share(state, share)


def within_share(state: State, share: int) -> State:
    """The kept part reduced to so many tokens, as far as it can be: its results are cut first, then less is kept."""
    shorter, (first, last) = with_results_within(state, share), state.kept_range()
    tokens = int(state.ledger.tokens(first, last))
    if state.job.direction != "full" or tokens - shorter.freed_tokens <= share:
        return shorter
    least = least_of(state)
    if least.stop <= first:
        return shorter
    return with_results_within(_least_over(state, share, least), share)


def least_of(state: State) -> Cut:
    """The cut that keeps what must stay, and no more, after the provider's item where that is legal."""
    manual = is_manual(state.job.thinking)
    cut = least_cut(state.source, state.ledger, manual_thinking=manual)
    return after_item(state.source, state.ledger, cut)


def with_more_kept(state: State, share: int) -> State | None:
    """The job with the earliest legal cut that keeps no more than so many tokens; `None`: nothing more can be kept.

    Where the next older step does not fit as it is, it stays with its results shortened.
    """
    start = later_cut(state.ledger, 1, state.cut.stop, share)
    if start == state.cut.stop:
        start = legal_cut(state.ledger, max(start - 1, 0))
    if not 0 < start < state.cut.stop:
        return None
    more = with_results_within(recut(state, Cut(0, start)), share)
    return more if more.kept_tokens - more.facts.standing_tokens <= share else None


def _least_over(state: State, share: int, least: Cut) -> State:
    """The cut that keeps the most within the share, else what must stay; avoids splitting manual thinking where possible.

    Results count as what they can be shortened to: fewer of them would stay for a larger target otherwise.
    """
    context, ledger = state.source.context, state.ledger
    # By position: tokens of the messages from there on, with results as short as they get.
    left, freed = {len(context): 0}, 0
    for at in range(len(context) - 1, state.cut.stop - 1, -1):
        if not state.source.entries:  # the lines of a transcript stay as they are
            results = _results(at, context[at], state.measure)
            freed += sum(max(one.tokens - LEAST_RESULT_TOKENS, 0) for one in results)
        left[at] = int(ledger.tokens(at, len(context))) - freed
    manual = is_manual(state.job.thinking)
    for place in range(state.cut.stop + 1, least.stop):
        if left[place] <= share:
            legal = legal_cut(state.ledger, place)
            cut = after_item(state.source, state.ledger, Cut(0, legal))
            if manual and is_torn(state.ledger, cut.stop):
                continue
            if left[cut.stop] <= share:
                return recut(state, cut)
    return recut(state, least)


def with_results_within(state: State, share: int) -> State:
    """The job with the results that are kept as long as this share allows; the lines of a transcript stay as they are."""
    state = replace(state, shortened=None, freed_tokens=0)
    excess = int(state.ledger.tokens(*state.kept_range())) - share
    if excess <= 0 or state.source.entries:
        return state
    for marks in (0, 1, 4, 16):  # what is freed may go for marks of what is missing
        more = excess + marks * MARK_TOKENS
        shorter, freed = shorter_results(state.kept_items(), more, state.measure)
        if freed >= excess:
            break
    return replace(state, shortened=shorter, freed_tokens=freed)


def since_last(state: State) -> tuple[int | None, str]:
    """Responses since the newest compaction, and the uuid of its summary, from a log's entries; `None`, "": unknown."""
    if not state.recompaction or not state.source.entries:
        return None, ""
    items = state.source.items
    last = max((at for at, item in enumerate(items) if is_boundary(item)), default=None)
    if last is None:
        return None, ""
    # A log may hold one response in several lines.
    answers = [message_of(item) or {} for item in items[last:] if role_of(item) == "assistant"]
    names = [answer.get("id") for answer in answers]
    responses = {name if isinstance(name, str) and name else at for at, name in enumerate(names)}
    summary = next((item for item in items[last:] if is_summary(item)), items[last])
    return len(responses), str(summary.get("uuid") or "")


def recut(state: State, cut: Cut) -> State:
    """The same job with another cut."""
    facts = CutFacts(state.source, cut, state.job.weights)
    removed = int(state.ledger.tokens(cut.start, cut.stop)) - facts.standing_tokens
    return replace(
        state, cut=cut, facts=facts, removed_tokens=removed, shortened=None, freed_tokens=0
    )


LEAST_SUMMARY_ROOM = 4_000  # tokens that a summary should have, if half of the room is that large
# Of the tokens between system prompt and trigger: messages take no less after a compaction.
LEAST_ROOM_PERCENT = 30
ITEMS_AT_ONCE = 4  # items that are read between two places where others may run: some 0.3 ms


def room_after(job: Job, overhead: int) -> int:
    """Tokens that messages may take after a compaction, so that the next comes late (P-8)."""
    stated = (job.limit_tokens, job.trigger_tokens, job.window_tokens)
    limit = next(tokens for tokens in stated if tokens is not None)
    room = limit * job.policy.auto.max_after_percent // 100 - overhead
    # A large system prompt can take all of that. Messages then have a share of what is free below the limit: a summary of a few
    # hundred tokens with nothing after it is no context to work from, and the next compaction would come soon all the same.
    return max(room, (limit - overhead) * LEAST_ROOM_PERCENT // 100)


def _facts(source: CompactionInput, cut: Cut) -> Flow[tuple[Facts, Facts]]:
    """Facts of the summarised part, with the user's words of all time, and, unranked, of the whole context.

    The log still holds what an earlier compaction removed: the user's messages are taken from there,
    since the previous summary has only copies, perhaps shortened ones.
    """
    earlier = Collector(ranked=False)
    yield from _fed(earlier, source.earlier, -len(source.earlier), {})
    collector = Collector(earlier)
    yield from _fed(collector, source.context[cut.start : cut.stop], cut.start, source.originals)
    facts = collector.finish(most_names=MOST_NAMES)
    yield LetOthersRun()
    if cut.start > 0:
        return facts, _unranked(source.context)
    collector.ranked = False
    yield from _fed(collector, source.context[cut.stop :], cut.stop, source.originals)
    whole = collector.finish()
    return _as_of_now(facts, whole, cut.stop), whole


def _as_of_now(facts: Facts, whole: Facts, stop: int) -> Facts:
    """Facts of the summarised part, with what the messages that stay after it say of its failures, tasks and open work."""
    if whole.messages == facts.messages:
        return facts
    opened = {work.text for work in (*facts.still_open, *facts.closed_work)}
    return replace(
        facts,
        statements=whole.statements[: len(facts.statements)],
        failures=tuple([failure for failure in whole.failures if failure.index < stop]),
        tasks=whole.tasks,
        still_open=tuple([work for work in whole.still_open if work.text in opened]),
        closed_work=tuple([work for work in whole.closed_work if work.text in opened]),
        open_question=facts.open_question if facts.open_question == whole.open_question else "",
        interrupted=facts.interrupted and whole.interrupted,
        plan_mode=whole.plan_mode,
        later_inputs=len(whole.inputs) - len(facts.inputs),
        now=whole,
        read={},
    )


def _fed(
    collector: Collector, items: Sequence[Item], first: int, originals: Mapping[int, Sequence[Item]]
) -> Flow[None]:
    numbered: Iterable[tuple[int, Item]] = enumerate(items, first)
    if originals:
        numbered = ((at, one) for at, item in numbered for one in originals.get(at, (item,)))
    for count, (index, item) in enumerate(numbered):
        collector.feed(index, item)
        if count % ITEMS_AT_ONCE == 0:
            yield LetOthersRun()


def _unranked(items: Sequence[Item], first: int = 0) -> Facts:
    collector = Collector(ranked=False)
    for index, item in enumerate(items, first):
        collector.feed(index, item)
    return collector.finish()
