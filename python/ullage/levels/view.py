"""The request as a view of the conversation: originals, the decisions laid over them, and the ledger of both."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias

from ullage._engine import core
from ullage._engine.digests import BlockFlag, BlockKind, MessageFlag, Role
from ullage._start import Frozen, NamedTuple
from ullage.counting.calibration import Weights
from ullage.facts.sections import alone, holds, newest_item, without
from ullage.facts.words import Standing, standing_in, standing_left
from ullage.messages import (
    LONGEST_MARKER,
    Item,
    as_blocks,
    as_sent,
    is_thinking,
    message_of,
    role_of,
    same_items,
)

if TYPE_CHECKING:
    from ullage.levels.cost import Cost


# What a level decided, and what it says of it.


class Decision(NamedTuple):
    """All results of one tool use id are replaced by a text, for ever.

    Attributes:
        tool_use_id: Whose result.
        stage: Which level decided.
        text: What stands in its place.
    """

    tool_use_id: str
    stage: str
    text: str

    def __repr__(self) -> str:
        return f"Decision({self.stage}, {self.tool_use_id}, {len(self.text)} characters)"


class Made(NamedTuple):
    """A message that a level put into the request: a summary, a placeholder, a marker.

    Attributes:
        key: Names it within the conversation, such as `collapse:1f3a`; unique.
        message: A bare message, or an entry where flags such as `isMeta` matter.
    """

    key: str
    message: dict[str, Any]

    def __repr__(self) -> str:
        return f"Made({self.key})"


class Span(NamedTuple):
    """Positions [start, stop) in the history."""

    start: int
    stop: int


class StageReport(Frozen, kw_only=True):
    """What one level did.

    Attributes:
        stage: Its name.
        why: What set it off, in words.
        tokens_before: Estimate of all messages before it.
        tokens_after: And after.
        tool_use_ids: Whose results it replaced, in order.
        tools: Names of their tools, each once.
        paths: Files that these results showed; a host's "unchanged since last read" must not point at them any more.
        first_changed: First message that is not what was sent before: the cached prefix ends there. `None`: only messages that
            were never sent.
        removed_messages: How many messages went altogether.
        failures: What could not be done as planned, in words.
        removed: Which messages of the history went altogether.
        request: Number of the request that it was for, from 1; 0: none, it happened between two.
        visible_paths: Files of such results that can still be seen.
        records: Lines for the transcript, so that a resume gives the same view; not saved with the conversation.
        cost: What the rewrite costs and saves, a `ullage.levels.cost.Cost`; `None`: nothing that was sent has changed.
    """

    stage: str
    why: str
    tokens_before: int
    tokens_after: int
    tool_use_ids: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    first_changed: int | None = None
    removed_messages: int = 0
    failures: tuple[str, ...] = ()
    removed: tuple[Span, ...] = ()
    request: int = 0
    visible_paths: tuple[str, ...] = ()
    records: tuple[dict[str, Any], ...] = field(default=(), compare=False)
    cost: Cost | None = None

    @property
    def freed(self) -> int:
        """Tokens by estimate; 0 where a level put something back, or a note in."""
        return max(0, self.tokens_before - self.tokens_after)

    def __repr__(self) -> str:
        what = f"{len(self.tool_use_ids)} results"
        if self.removed_messages:
            what = f"{self.removed_messages} messages"
        return f"StageReport({self.stage}: {what}, frees≈{self.freed:_} tokens, {self.why})"


def names_of(results: Collection[Result]) -> dict[str, Any]:
    """What a report says of the results that a level replaced: their ids, their tools and their files, each once."""
    return {
        "tool_use_ids": tuple([result.id for result in results]),
        "tools": tuple(dict.fromkeys([result.tool for result in results])),
        "paths": tuple(dict.fromkeys([result.path for result in results if result.path])),
    }


def unrecorded(count: int) -> str:
    """Says that no line for the transcript was made, since so many of the messages have no uuid that a log knows."""
    return (
        f"no line for the transcript: {count} message(s) have no uuid; give ContextManager(log=...), "
        "or add what log.append returned"
    )


def spans(positions: Iterable[int]) -> tuple[Span, ...]:
    """Rising positions as spans without gaps."""
    listed: list[Span] = []
    for at in positions:
        if listed and listed[-1].stop == at:
            listed[-1] = Span(listed[-1].start, at + 1)
        else:
            listed.append(Span(at, at + 1))
    return tuple(listed)


# Tool results of a view with the calls that they answer, each read once.


_PATH_KEYS = (
    "file_path", "path", "filename", "notebook_path", "file", "filePath", "absolute_path", "target_file",
)  # fmt: skip

# As plain numbers: operators of enumerations cost more than the rest of a look.
_ASSISTANT = int(Role.ASSISTANT)
_HAS_MEDIA, _HAS_USAGE = MessageFlag.HAS_MEDIA, MessageFlag.HAS_USAGE
_IS_ERROR = BlockFlag.IS_ERROR
NESTED_MEDIA = BlockFlag.NESTED_MEDIA
_SHORTENED = BlockFlag.CLEARED | BlockFlag.OFFLOADED
_NOTHING: Mapping[str, Any] = {}


def is_replaced(chars: int, flags: int) -> bool:
    """Whether a result of this length, with these flags, may be a marker of ours; one that is as long as output is output.

    A tool can print what our markers begin with; there is nothing to gain from so short a text.
    """
    return bool(flags & _SHORTENED) and chars <= LONGEST_MARKER


def fresh_from(ledger: Any) -> int:
    """From this message on no answer of the model has followed: it sees these results whole (decided once they were seen)."""
    first: int = ledger.roles().rfind(_ASSISTANT) + 1
    return first


def _images_of(block: Any) -> int:
    if block.kind == BlockKind.IMAGE:
        return 1
    nested: int = block.aux & 0xFFFF if block.flags & NESTED_MEDIA else 0
    return nested


class Result(NamedTuple):
    """A tool result in the view, with the call that it answers."""

    id: str
    message: int  # index of its message
    block: int  # and of its block
    tool: str  # name of the tool; empty if its call is not in the context
    given: Mapping[str, Any]  # the call's input
    chars: int  # length of its text as it stands in the view
    tokens: int  # calibrated estimate of it
    is_error: bool
    has_media: bool
    replaced: bool  # something stands in its place already
    path: str  # the file that the call names, or empty


def _path(arguments: Mapping[str, Any]) -> str:
    for key in _PATH_KEYS:
        value = arguments.get(key)
        if isinstance(value, str):
            return value
    return ""


def _input_of(item: Item, number: int) -> Mapping[str, Any]:
    """The input of a call, by the place of its block."""
    content = (message_of(item) or {}).get("content")
    block = content[number] if type(content) is list and number < len(content) else None
    arguments = block.get("input") if type(block) is dict or isinstance(block, Mapping) else None
    return arguments if type(arguments) is dict or isinstance(arguments, Mapping) else _NOTHING


# What no level loses: the provider's own compaction item (FULL-14), and the texts that hosts put there to stand (HOST-1).


_SYSTEM = bytes((Role.SYSTEM,))
# What text may be to the ledger.
TEXTS = (int(BlockKind.TEXT), int(BlockKind.UNKNOWN))
_ITEM = "item:"
# How the key of a message begins that holds standing texts of the host and nothing else.
HOST = "host:"


Parts: TypeAlias = Sequence[int | Made]


def _with_standing(view: View, parts: Parts) -> Parts:
    """A new order of its messages, in which no text is lost that a host put there to stand, nor an older version of it kept.

    The very same parts where nothing has to be put back. The texts stand before what was made; those of the system's role after the user
    messages that follow, where providers take them (A12).
    """
    messages = view.messages
    removed = set(range(len(messages))).difference(part for part in parts if isinstance(part, int))
    new_messages = [part.message for part in parts if isinstance(part, Made)]
    left = standing_left(messages, removed, new_messages, view.standing()) if removed else []
    if not left:
        return parts
    # Before the first part that followed the texts or replaces them; after a provider's item: what stands before that is not read.
    first = left[0][0]
    followers = (
        at
        for at, part in enumerate(parts)
        if (part > first if isinstance(part, int) else not part.key.startswith(_ITEM))
    )
    place = next(followers, len(parts))
    before = max((part for part in parts[:place] if isinstance(part, int)), default=-1)
    after = min((part for part in parts[place:] if isinstance(part, int)), default=len(messages))
    back: list[int | Made] = []
    system: list[int | Made] = []
    for at, item in left:
        as_made = Made(f"{HOST}{view.sources[at]}", dict(item))
        if role_of(item) == "system":
            system.append(as_made)
        else:
            back.append(at if item is messages[at] and before < at < after else as_made)
    later = parts[place:]
    roles = [role_of(view.message_of(part)) for part in later]
    answer = roles.index("assistant") if "assistant" in roles else len(later)
    return [*parts[:place], *back, *later[:answer], *system, *later[answer:]]


def standing_tokens(view: View, removed: Collection[int]) -> int:
    """Tokens of the standing texts in messages that go: the texts come back."""
    left = standing_left(view.messages, removed, texts=view.standing())
    return int(core.Ledger(view.weights, [item for _, item in left]).tokens())


def _with_item(view: View, parts: Parts) -> Parts:
    """A new order of its messages, in which the provider's newest item is not lost and stands before all that is made.

    The very same parts where the item is in its place.
    """
    newest = newest_item(view.messages, view.ledger)
    if newest is None:
        return parts
    if any(isinstance(part, Made) and holds(part.message, newest.block) for part in parts):
        return parts
    if newest.at in parts:
        before = parts[: parts.index(newest.at)]
        if not any(isinstance(part, Made) for part in before):
            return parts
    others: list[int | Made] = []
    for part in parts:  # older items after it would count as newer ones
        message = view.message_of(part)
        left = without(message)
        if left is message:
            others.append(part)
        elif left is not None:
            key = f"rest:{view.sources[part]}" if isinstance(part, int) else part.key
            others.append(Made(key, dict(left)))
    roles = (role_of(view.message_of(part)) for part in others)
    head = next((at for at, role in enumerate(roles) if role != "system"), len(others))
    front = Made(f"{_ITEM}{view.sources[newest.at]}", alone(newest.block))
    return [*others[:head], front, *others[head:]]


def item_tokens(view: Any, start: int, stop: int) -> int:
    """Tokens of the message with the newest item, if it is one of [start, stop), which are removed: the item comes back. 0: it is not."""
    newest = newest_item(view.messages, view.ledger)
    if newest is None or not start <= newest.at < stop:
        return 0
    return int(view.ledger.message(newest.at).tokens)


def opens_with(view: Any) -> int:
    """How many messages at the beginning no level touches: system messages, and an item that stands alone."""
    roles: bytes = view.ledger.roles()
    head = len(roles) - len(roles.lstrip(_SYSTEM))
    newest = newest_item(view.messages, view.ledger)
    if newest is not None and newest.at == head and without(view.messages[head]) is None:
        return head + 1
    return head


# Changed messages from which the ledger takes the list in at once: each single replacement costs the rest of its sums.
MANY = 8
# Tokens left out by the provider, for a look at the newest figure whatever it says: the view judges it by what it covered then.
ANY = 1 << 40


class View:
    """What would be sent: the messages of the history that are left, what levels made, every decision applied.

    Untouched messages are the objects that were added. Adding costs the new message only; rewriting
    (`decide`, `append_text`, `rearranged`) may cost a walk, and happens seldom.

    Lists are replaced, never changed, once `snapshot` has handed them out: a request stays what it was. Without weights a token is
    four characters.
    """

    def __init__(self, weights: Weights | None = None) -> None:
        self.weights = weights
        self.originals: list[Item] = []  # as they were added, or made
        self.shown: list[Item] = []  # with decisions and additions applied; what the ledger holds
        self.messages: list[Item] = []  # as sent: bare, without what only responses or logs hold
        # For each the position in the history, or the key of what a level made.
        self.sources: list[int | str] = []
        self.ledger: Any = core.Ledger(weights)
        self.decisions: dict[str, Decision] = {}  # by tool use id, for ever
        # By position in the history: texts after a user input, only in the request's copy.
        self.added_texts: dict[int, list[str]] = {}
        self.whole: dict[str, None] = {}  # results that the budget has sent whole, in that order
        self.emptied: set[str] = set()  # tool uses whose input is shown empty
        self.unthought: set[int] = set()  # positions in the history that show no thinking
        self.cleared_elsewhere: set[str] = set()  # tool uses that the provider leaves out itself
        self.sent = 0  # messages before this index were part of a request
        # Lowest index of what was sent and is not as it was; `None`: nothing changed.
        self.changed_from: int | None = None
        self.rewrites = 0  # how often anything was changed that had been sent
        # Tool results, oldest first, of the first so many messages; what was read stays until the view changes there.
        self._results: list[Result] = []
        self._results_upto = 0
        # By level, or what is counted: messages before this index were looked at for it, and need not be again until they change.
        self.looked: dict[str, int] = {}
        self.bases: dict[int | str, int] = {}  # estimate of what a usage figure covered, by source
        # By position in the history, where a message does not say so: the name that a log knows it by, and when it came,
        # in milliseconds since the epoch.
        self.uuids: dict[int, str] = {}
        self.times: dict[int, int] = {}
        # Positions in the history of answers that go to Anthropic as they are, whatever is laid over them.
        self.plain: set[int] = set()
        # How far the history was searched for the user's newest words, and their place; -1: there are none.
        self.heard = (0, -1)
        # Results that came plainly since the newest request, the characters of the longest and of all, and how many messages were
        # there when one came otherwise, or something changed.
        self.fresh: list[str] = []
        self.fresh_longest = self.fresh_chars = self.closely = 0
        self.stable = 0  # messages before this index stand where they stood when whoever keeps the state set it
        self.edits = 0  # how often a decision was made, a text added, an input or thinking left out
        self.in_order = 0  # messages before this index were seen to stand at their place of the history, and have not moved since
        self._images: dict[int, int] = {}  # by message, of those that were counted
        self._standing: dict[int, list[Standing]] = {}  # the same for texts of hosts
        self._lent = False

    def __len__(self) -> int:
        return len(self.messages)

    # ---- changes -----------------------------------------------------------------------------

    def add(self, item: Item, source: int | None = None) -> bool:
        """Append a message or entry, by its position in the history (`None`: as many as there are messages).

        Returns:
            False for an entry of which a model is shown nothing.

        Raises:
            InvalidMessage: It is no message; nothing has changed.
        """
        place = len(self.messages) if source is None else source
        rendered = _rendered(item) if isinstance(item, dict) and "type" in item else item
        if rendered is None or not isinstance(rendered, Mapping):
            core.Ledger(None, [item])  # raises for what is no entry either
            return False
        shown = self._shown(rendered, place)
        self.ledger.append(shown)
        message = as_sent(shown)
        if message is None:
            self.ledger.truncate(len(self.messages))
            return False
        self.originals.append(rendered)
        self.shown.append(shown)
        self.messages.append(message)
        self.sources.append(place)
        self.closely = len(self.messages)
        if self.ledger.message(-1).flags & _HAS_USAGE:
            self._note_usage()
        return True

    def is_untouched(self, count: int) -> bool:
        """Whether it shows so many messages of the history, all of them, as they were added."""
        if self.decisions or self.added_texts or self.emptied or self.unthought:
            return False
        sources = self.sources
        while (at := self.in_order) < len(sources) and sources[at] == at:
            self.in_order += 1
        return self.in_order == len(sources) == count

    def take(
        self, message: Item, place: int, at_ms: int | None, plain: tuple[bool, list[str], int, int]
    ) -> bool:
        """As `add`, of a plain message, the next of the history, which the ledger holds already; False: something is laid over it.

        Then the ledger lets it go. `at_ms`: when it came; `plain`: what `Ledger.append_plain` said of it.
        """
        answer, ids, longest, chars = plain
        laid = self.added_texts or self.unthought or self.emptied or self.decisions
        if laid and not self._is_bare(place, ids):
            self.ledger.truncate(len(self.messages))
            return False
        sent = message
        if len(message) > 2:  # of the keys that a plain message may have, these are sent
            sent = {"role": message["role"], "content": message["content"]}
            if "foreign" in message:
                sent["foreign"] = message["foreign"]
        if ids and not answer:
            self.fresh += ids
            if longest > self.fresh_longest:
                self.fresh_longest = longest
            self.fresh_chars += chars
        self.originals.append(message)
        self.shown.append(message)
        self.messages.append(sent)
        self.sources.append(place)
        if at_ms is not None:
            self.times[place] = at_ms
        if "usage" in message:
            self._note_usage()
        return True

    def _is_bare(self, place: int, ids: Collection[str]) -> bool:
        """Whether nothing is laid over the message that comes at this place of the history, with calls or results of these ids."""
        if place in self.added_texts or place in self.unthought:
            return False
        return self.emptied.isdisjoint(ids) and self.decisions.keys().isdisjoint(ids)

    def _note_usage(self) -> None:
        anchor = self.ledger.anchor(ANY)
        if anchor is not None and anchor.last == len(self.messages) - 1:
            self.bases[self.sources[-1]] = self.ledger.tokens(0, anchor.covers)

    def cut(self, index: int) -> int | None:
        """Let messages from `index` on go, as if they had never come; returns as `decide`."""
        for source in self.sources[index:]:
            self.bases.pop(source, None)
            if isinstance(source, int):
                self.uuids.pop(source, None)
                self.times.pop(source, None)
                self.plain.discard(source)
        self.heard = (0, -1)
        del self.originals[index:], self.shown[index:], self.sources[index:]
        self.messages = self.messages[:index]
        self.ledger.truncate(index)
        changed = self._rebuilt(index)
        self.sent = min(self.sent, index)
        return changed

    def decide(self, decisions: Iterable[Decision]) -> int | None:
        """Apply decisions; returns the first changed message that was sent before, or `None`."""
        self.edits += 1
        touched: set[int] = set()
        for decision in decisions:
            place = self.ledger.find_result(decision.tool_use_id)
            if place is not None:
                self.decisions[decision.tool_use_id] = decision
                touched.add(place[0])
        return self._refresh(touched, decided=True)

    def strip(self, tool_use_ids: Iterable[str], indexes: Iterable[int] = ()) -> int | None:
        """Show calls without their input, and messages without their thinking, for ever; returns as `decide`."""
        self.edits += 1
        touched = set(indexes)
        self.unthought.update(
            at for at in (self.sources[i] for i in touched) if isinstance(at, int)
        )
        for name in tool_use_ids:
            self.emptied.add(name)
            if (place := self.ledger.find_call(name)) is not None:
                touched.add(place[0])
        return self._refresh(touched)

    def append_text(self, index: int, text: str) -> int | None:
        """Add a text after a message in the request's copy, permanently; returns as `decide`."""
        source = self.sources[index]
        if not isinstance(source, int):
            raise IndexError("what a level made has no place in the history")
        self.edits += 1
        self.added_texts.setdefault(source, []).append(text)
        return self._refresh({index})

    def _refresh(self, touched: set[int], *, decided: bool = False) -> int | None:
        if not touched:
            return None
        if self._lent:  # a list that a request holds is not changed
            self.messages, self._lent = list(self.messages), False
        for index in sorted(touched):
            shown = self._shown(self.originals[index], self.sources[index])
            if len(touched) < MANY:
                self.ledger.replace(index, shown)
            self.shown[index] = shown
            self.messages[index] = as_sent(shown) or {}
        if len(touched) >= MANY:
            self.ledger.sync(self.shown)
        if decided:
            self._results_decided(touched)
        else:
            self._results_changed(min(touched))
        return self._changed(min(touched))

    def _results_changed(self, index: int) -> None:
        if index < self._results_upto:
            self._results_upto = index
            del self._results[self._first_result(index) :]

    def _results_decided(self, messages: Collection[int]) -> None:
        """Other texts stand in the results of these messages; where they stand has not changed."""
        for at in range(self._first_result(min(messages)), len(self._results)):
            result = self._results[at]
            if result.message in messages:
                block = self.ledger.blocks(result.message)[result.block]
                self._results[at] = result._replace(
                    chars=block.chars,
                    tokens=block.tokens,
                    has_media=bool(block.flags & NESTED_MEDIA),
                    replaced=result.id in self.decisions or is_replaced(block.chars, block.flags),
                )
            elif not result.replaced and result.id in self.decisions:  # another under its id
                self._results[at] = result._replace(replaced=True)

    def _first_result(self, message: int) -> int:
        return bisect_left(self._results, message, key=attrgetter("message"))

    def _changed(self, index: int) -> int | None:
        self.closely = len(self.messages)
        for held in (self._images, self._standing):
            while held and next(reversed(held)) >= index:
                held.popitem()
        self.looked = {name: min(at, index) for name, at in self.looked.items()}
        if index >= self.sent:
            return None
        self.rewrites += 1
        self.changed_from = index if self.changed_from is None else min(index, self.changed_from)
        return index

    def rearranged(
        self, stage: str, why: str, parts: Parts, *, standing: bool = True
    ) -> StageReport:
        """Rebuild the view from messages that it has (by index, ascending) and from what a level made, and report what that did.

        What is kept stays the same objects, with its decisions. The provider's own compaction item is never lost: it comes
        to the front where its message left, or where something made would stand before it; nor, with `standing`, are texts that hosts
        put there to stand.
        """
        before = self.ledger.tokens()
        parts = _with_item(self, parts)
        if standing:
            parts = _with_standing(self, parts)
        staying = {part for part in parts if isinstance(part, int)}
        removed = [source for at, source in enumerate(self.sources) if at not in staying]
        same = next((at for at, part in enumerate(parts) if part != at), len(parts))
        was_sent = [isinstance(part, int) and part < self.sent for part in parts]
        sent = max((at + 1 for at, before in enumerate(was_sent) if before), default=0)
        new_messages = [part.message for part in parts if isinstance(part, Made)]
        # Results in what a level made stand as they are: an older decision, such as a longer excerpt, is laid over them no more.
        blocks = [
            b for item in new_messages for b in as_blocks((message_of(item) or {}).get("content"))
        ]
        ids = {str(b.get("tool_use_id")) for b in blocks if b.get("type") == "tool_result"}
        if not self.decisions.keys().isdisjoint(ids):
            self.decisions = {key: d for key, d in self.decisions.items() if key not in ids}
        rows = [
            (self.originals[part], self.shown[part], self.messages[part], self.sources[part])
            if isinstance(part, int)
            else (part.message, part.message, as_sent(part.message) or {}, part.key)
            for part in parts
        ]
        self.originals, self.shown = [row[0] for row in rows], [row[1] for row in rows]
        self.messages, self.sources = [row[2] for row in rows], [row[3] for row in rows]
        self.ledger.sync(self.shown)
        first = self._rebuilt(same)
        self.sent = sent
        report = self.report_since(stage, why, before, first)
        left = spans(at for at in removed if isinstance(at, int))
        return replace(report, removed_messages=len(removed), removed=left)

    def _rebuilt(self, index: int) -> int | None:
        """The messages from `index` on are others; returns as `decide`."""
        self._lent = False
        self._moved(index)
        self._results_changed(index)
        return self._changed(index)

    def place(self, placed: Sequence[tuple[int | str, Item]]) -> None:
        """Fill an empty view with what a stored one held; entries without a message are none of it."""
        for source, item in placed:
            rendered = _rendered(item) if "type" in item else item
            original = item if rendered is None else rendered
            shown = self._shown(original, source)
            self.originals.append(original)
            self.shown.append(shown)
            self.messages.append(as_sent(shown) or {})
            self.sources.append(source)
        self.ledger = core.Ledger(self.weights, self.shown)
        self.closely = len(self.messages)

    def put_back(self, index: int, positions: Iterable[int], history: Sequence[Item]) -> int | None:
        """Put messages of the history in place of message `index`; returns as `decide`."""
        back = View(self.weights)
        back.decisions, back.added_texts = self.decisions, self.added_texts
        back.emptied, back.unthought = self.emptied, self.unthought
        for at in positions:
            back.add(history[at], at)
        self.originals[index : index + 1] = back.originals
        self.shown[index : index + 1] = back.shown
        self.sources[index : index + 1] = back.sources
        self.messages = [*self.messages[:index], *back.messages, *self.messages[index + 1 :]]
        self.ledger.sync(self.shown)
        changed = self._rebuilt(index)
        if index < self.sent:
            self.sent += len(back) - 1
        return changed

    def weigh(self, weights: Weights | None) -> None:
        """Estimate with another model's weights from now on; figures of the one before do not hold."""
        self.weights = weights
        self.ledger = core.Ledger(weights, self.shown)
        self.forget_usage()

    def forget_usage(self) -> None:
        """Reported figures do not hold any more: all is estimated until the next (after a compaction)."""
        self.bases.clear()
        self._moved(0)

    def _moved(self, index: int) -> None:
        self.stable = min(self.stable, index)
        self.in_order = min(self.in_order, index)
        self.edits += 1

    def snapshot(self) -> tuple[list[Item], int]:
        """The messages as they are now, without copying: the list's first so many items stay as they are."""
        self._lent = True
        return self.messages, len(self.messages)

    def mark_sent(self) -> int | None:
        """All that is here has been sent; returns the first message that differs from what was sent before."""
        changed, self.changed_from, self.sent = self.changed_from, None, len(self.messages)
        if self.fresh:
            self.fresh, self.fresh_longest, self.fresh_chars = [], 0, 0
        return changed

    def _shown(self, item: Item, source: int | str) -> Item:
        """The message or entry with all that was decided laid over it; the same object where nothing concerns it."""
        texts = self.added_texts.get(source, ()) if isinstance(source, int) else ()
        thinking = source not in self.unthought
        if thinking and not (self.decisions or texts or self.emptied):
            return item
        message = message_of(item)
        content = None if message is None else message.get("content")
        blocks: Any = content
        if isinstance(content, list):
            blocks = [self._block(block) for block in content]
            if not thinking:  # unless there is nothing else
                blocks = [block for block in blocks if not is_thinking(block)] or blocks
            if same_items(blocks, content):
                blocks = content
        for text in texts:
            blocks = [*as_blocks(blocks), {"type": "text", "text": text}]
        if blocks is content or message is None:
            return item
        changed = {**message, "content": blocks}
        return changed if message is item else {**item, "message": changed}

    def _block(self, block: Any) -> Any:
        kind = block.get("type") if isinstance(block, Mapping) else None
        if kind == "tool_use" and str(block.get("id")) in self.emptied and block.get("input"):
            return {**block, "input": {}}
        if kind != "tool_result":
            return block
        decision = self.decisions.get(str(block.get("tool_use_id")))
        return block if decision is None else {**block, "content": decision.text}

    # ---- questions ---------------------------------------------------------------------------

    def message_of(self, part: int | Made) -> Item:
        """The message of a part of a new order."""
        return self.messages[part] if isinstance(part, int) else part.message

    def uuid_at(self, index: int) -> str:
        """The name that a log knows message `index` by; empty: no log knows it, so no line can name it."""
        own = self.originals[index].get("uuid")
        if isinstance(own, str):
            return own
        source = self.sources[index]
        return self.uuids.get(source, "") if isinstance(source, int) else ""

    def answered_ms(self) -> int:
        """When the newest message of the assistant came, in milliseconds since the epoch; 0: unknown, or there is none."""
        newest = fresh_from(self.ledger) - 1
        if newest < 0:
            return 0
        source = self.sources[newest]
        came = self.times.get(source, 0) if isinstance(source, int) else 0
        return int(self.ledger.message(newest).timestamp) or came

    def anchor(self) -> core.Anchor | None:
        """The newest usage figure, if it holds and can be true, or `None`."""
        return self.held(self.ledger.anchor(ANY))

    def held(self, anchor: core.Anchor | None) -> core.Anchor | None:
        """The ledger's newest figure, if it holds and can be true, or `None`."""
        base = None if anchor is None else self.bases.get(self.sources[anchor.last])
        if anchor is None or base is None:
            return None
        if anchor.usage * 2 >= base:
            return anchor
        # A figure below half of the estimate of what the provider read is not true.
        newest = newest_item(self.messages, self.ledger)
        start = 0 if newest is None else newest.at
        places = filter(None, map(self.ledger.find_result, self.cleared_elsewhere))
        cleared = (self.ledger.blocks(at)[block].tokens for at, block in places if at >= start)
        covered = anchor.usage + int(self.ledger.tokens(0, start)) + sum(cleared)
        return None if covered * 2 < base else anchor

    def freed_since(self, anchor: core.Anchor) -> int:
        """Estimated tokens that left since the figure that `anchor` gave just now, from what it covers."""
        covered: int = self.ledger.tokens(0, anchor.covers)
        return self.bases[self.sources[anchor.last]] - covered

    def tokens(self, overhead: int = 0) -> int:
        """Tokens of the next request.

        The provider's newest figure, corrected by what was freed since, and the estimate of what
        followed; without a figure the estimate of all messages and `overhead` (system prompt and tools).
        """
        anchor = self.anchor()
        if anchor is None:
            return int(self.ledger.tokens()) + overhead
        return max(0, int(self.ledger.anchored(0, ANY).total) - self.freed_since(anchor))

    def results(self, start: int = 0, stop: int | None = None) -> Iterator[Result]:
        """Tool results of messages [start, stop), oldest first; each is read once. `None`: to the end."""
        new = self.ledger.results(self._results_upto)
        for name, at, block, call, tool, chars, tokens, flags in new:
            arguments = _NOTHING if call is None else _input_of(self.originals[call[0]], call[1])
            error, media = bool(flags & _IS_ERROR), bool(flags & NESTED_MEDIA)
            stands = name in self.decisions or is_replaced(chars, flags)
            path = _path(arguments) if arguments else ""
            self._results.append(
                Result(name, at, block, tool, arguments, chars, tokens, error, media, stands, path)
            )
        self._results_upto = len(self.ledger)
        # A copy: a level may change the view while it looks.
        end = None if stop is None else self._first_result(stop)
        return iter(self._results[self._first_result(start) : end])

    def standing(self) -> list[tuple[int, list[Standing]]]:
        """The texts that hosts put there to stand, by their positions; each message is read once."""
        roles, start = self.ledger.roles(), self.looked.get("standing", 0)
        for at in self.ledger.with_kinds(*TEXTS):
            if at >= start and roles[at] != _ASSISTANT:
                if texts := standing_in(self.messages[at]):
                    self._standing[at] = texts
        self.looked["standing"] = len(self.messages)
        return [*self._standing.items()]

    def images(self) -> int:
        """Images of the request, those in tool results too; each message is looked at once."""
        count = len(self.messages)
        for at in range(self.looked.get("images", 0), count):
            if self.ledger.message(at).flags & _HAS_MEDIA:
                if images := sum(map(_images_of, self.ledger.blocks(at))):
                    self._images[at] = images
        self.looked["images"] = count
        return sum(self._images.values())

    def images_in(self, result: Result) -> int:
        """Images of a tool result."""
        return _images_of(self.ledger.blocks(result.message)[result.block])

    def text(self, result: Result) -> str:
        """The text of a result as it was added; texts of several blocks are joined by line ends."""
        message = message_of(self.originals[result.message]) or {}
        content = message["content"]
        inner = content[result.block].get("content") if isinstance(content, list) else content
        if isinstance(inner, str):
            return inner
        parts = inner if isinstance(inner, list | tuple) else ()
        texts = (part.get("text") for part in parts if isinstance(part, Mapping))
        return "\n".join(text for text in texts if isinstance(text, str))

    def report(
        self,
        stage: str,
        why: str,
        chosen: Sequence[tuple[Result, Decision]],
        *,
        failures: tuple[str, ...] = (),
    ) -> StageReport:
        """Apply decisions and say what they did, with lines for the transcript, so that the same texts stand there after a resume."""
        from ullage.transcript import records

        before = self.ledger.tokens()
        # A first decision about a result is a line that no later such line changes; what takes the place of an earlier one is a clearing.
        first, cleared = dict[str, str](), dict[str, str]()
        for _, (name, _, text) in chosen:
            again = stage == "microcompact" or name in self.decisions
            (cleared if again else first)[name] = text
        lines = [records.content_replacement(first)] if first else []
        lines += [records.microcompact(list(cleared), texts=cleared)] if cleared else []
        changed = self.decide(decision for _, decision in chosen)
        names = names_of([result for result, _ in chosen])
        report = self.report_since(stage, why, before, changed)
        return replace(report, records=tuple(lines), failures=failures, **names)

    def report_since(
        self, stage: str, why: str, before: int, changed: int | None = None
    ) -> StageReport:
        """What a level did, from the tokens of the messages before and the first changed message; `None`: none that was sent."""
        return StageReport(
            stage=stage,
            why=why,
            tokens_before=before,
            tokens_after=self.ledger.tokens(),
            first_changed=changed,
        )


def _rendered(item: Any) -> Any:
    """A line of a transcript as the model sees it; bare messages do not come here."""
    from ullage.transcript.render import rendered

    return rendered(item)
