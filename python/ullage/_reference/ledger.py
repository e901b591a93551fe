"""The ledger of a conversation (TOK-4, TOK-5). The twin of `ullage._core.Ledger`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from threading import RLock
from typing import Any, NamedTuple, TypeAlias

from ullage._engine.digests import (
    Anchor,
    AnchoredCount,
    BlockDigest,
    BlockKind,
    KeepWindow,
    MessageDigest,
    MessageFlag as F,
    Role,
)
from ullage._reference.read import Strings, read_item
from ullage._reference.text import Weights, stored
from ullage.exceptions import InvalidMessage, InvalidPolicy

# Digests of a conversation with what finds them again: sums, positions by id, boundaries.
#
# Everything here is pushed and popped at the end only; an edit in the middle pops the tail and
# pushes it again, so that no index can disagree with the messages. The twin of the struct `Ledger`
# in `rust/core/src/ledger.rs`.


CALLS = frozenset({int(BlockKind.TOOL_USE), int(BlockKind.SERVER_TOOL_USE)})
RESULTS = frozenset({int(BlockKind.TOOL_RESULT), int(BlockKind.SERVER_TOOL_RESULT)})

# So many strings that no message needs are kept at least: numbers that come back cost nothing.
SPARE_STRINGS = 1024

Digested: TypeAlias = tuple[MessageDigest, list[BlockDigest]]
Position: TypeAlias = tuple[int, int]


class Digests:
    """Messages, their blocks, prefix sums, and positions by string number (newest last)."""

    def __init__(self) -> None:
        self.strings = Strings()
        self.messages: list[MessageDigest] = []
        self.blocks: list[BlockDigest] = []
        self.token_sums = [0]
        self.text_sums = [0]
        # The highest string number that the messages up to each need.
        self.tops = [0]
        self.boundaries: list[int] = []
        self.usages: list[int] = []
        self.compactions: list[int] = []  # messages with the provider's own compaction
        self.pieces: dict[int, list[int]] = defaultdict(list)
        self.calls: dict[int, list[Position]] = defaultdict(list)
        self.results: dict[int, list[Position]] = defaultdict(list)

    def __len__(self) -> int:
        return len(self.messages)

    def push(self, digested: Digested) -> None:
        message, blocks = digested
        index = len(self.messages)
        message = message._replace(first_block=len(self.blocks))
        self.messages.append(message)
        self.token_sums.append(self.token_sums[-1] + message.tokens)
        has_text = bool(message.flags & F.HAS_TEXT)
        self.text_sums.append(self.text_sums[-1] + has_text)
        numbers = (max(block.id, block.name) for block in blocks)
        self.tops.append(max(self.tops[-1], message.uuid, message.response_id, *numbers))
        for number, block in enumerate(blocks):
            self._positions(block, (index, number))
        self.blocks.extend(blocks)
        for positions in self._lists_of(message, blocks):
            positions.append(index)

    def _positions(self, block: BlockDigest, position: Position) -> None:
        if block.id and block.kind in CALLS:
            self.calls[block.id].append(position)
        elif block.id and block.kind in RESULTS:
            self.results[block.id].append(position)

    def _lists_of(self, message: MessageDigest, blocks: Sequence[BlockDigest]) -> list[list[int]]:
        """The lists that hold this message's index."""
        lists = []
        if message.response_id:
            lists.append(self.pieces[message.response_id])
        if message.flags & F.BOUNDARY:
            lists.append(self.boundaries)
        if message.flags & F.HAS_USAGE:
            lists.append(self.usages)
        if any(block.kind == BlockKind.COMPACTION for block in blocks):
            lists.append(self.compactions)
        return lists

    def pop(self) -> Digested:
        message = self.messages.pop()
        blocks = self.blocks[message.first_block :]
        del self.blocks[message.first_block :]
        for sums in (self.token_sums, self.text_sums, self.tops):
            sums.pop()
        for block in blocks:
            if block.id and block.kind in CALLS:
                self.calls[block.id].pop()
            elif block.id and block.kind in RESULTS:
                self.results[block.id].pop()
        for positions in self._lists_of(message, blocks):
            positions.pop()
        return message, blocks

    def take(self, length: int) -> list[Digested]:
        """Pops all messages from `length` on; oldest first."""
        tail = [self.pop() for _ in range(len(self) - length)]
        tail.reverse()
        return tail

    def trim(self) -> None:
        """Forgets the newest strings that no message needs, if they are more than those needed.

        Always-new ids would grow the table for ever. What is done seldom costs each string once.
        """
        needed = self.tops[-1] + 1
        if len(self.strings) - needed > max(needed, SPARE_STRINGS):
            self.strings.rollback(needed)
            for positions in (self.pieces, self.calls, self.results):
                for number in [number for number in positions if number >= needed]:
                    del positions[number]

    def blocks_of(self, index: int) -> list[BlockDigest]:
        message = self.messages[index]
        return self.blocks[message.first_block : message.first_block + message.block_count]

    def last_boundary(self) -> int | None:
        return self.boundaries[-1] if self.boundaries else None

    def aside(self, index: int) -> bool:
        """Whether a message belongs to no round: metadata, or another thread than the first one.

        In an agent's own transcript every line is a sidechain; there none of them stands aside.
        """
        message = self.messages[index]
        if message.role == Role.NONE:
            return True
        own = next(other for other in self.messages if other.role != Role.NONE)
        return bool((message.flags ^ own.flags) & F.SIDECHAIN)

    def call_before(self, block_id: int, position: Position) -> Position | None:
        """The newest call with this id before a position."""
        earlier = (call for call in reversed(self.calls[block_id]) if call < position)
        return next(earlier, None)


# API rounds: one response and what answers it. The twin of `rust/core/src/rounds.rs`.


def rounds(digests: Digests, start: int, stop: int) -> list[int]:
    """First index of each round of `[start, stop)`, as if these messages were all.

    A round starts at each response; what stands before the first one belongs to round 0. A response
    stored in pieces (one response id) is one response, also where results stand between them.
    Without ids, neighbouring assistant messages are one response. What stands aside (other threads,
    metadata) stays in the running round.
    """
    firsts = [start] if start < stop else []
    response: int | None = None
    adjacent = False
    for index in range(start, stop):
        message = digests.messages[index]
        if digests.aside(index):
            continue
        if message.role != Role.ASSISTANT:
            adjacent = False
            continue
        same = response == message.response_id and (message.response_id != 0 or adjacent)
        if response is not None and not same:
            firsts.append(index)
        response, adjacent = message.response_id, True
    return firsts


# The keep window (KEEP-1 to KEEP-3). The twin of `rust/core/src/window.rs`.


class Needs(NamedTuple):
    """When enough is kept: `max_tokens`, or `min_tokens` and `text_messages`."""

    min_tokens: int
    max_tokens: int
    text_messages: int


def keep_window(digests: Digests, start: int, floor: int, needs: Needs) -> KeepWindow:
    """Move `start` back until enough is kept and nothing in it is split.

    Never before `floor`, nor the newest boundary; a start that lies before them stays.
    """
    boundary = digests.last_boundary()
    floor = max(floor, 0 if boundary is None else boundary + 1)
    start = _close(digests, _grow(digests, start, floor, needs), floor)
    tokens = digests.token_sums[-1] - digests.token_sums[start]
    texts = digests.text_sums[-1] - digests.text_sums[start]
    return KeepWindow(start, tokens, texts, _orphans(digests, start))


def _enough(digests: Digests, start: int, needs: Needs) -> bool:
    tokens = digests.token_sums[-1] - digests.token_sums[start]
    texts = digests.text_sums[-1] - digests.text_sums[start]
    if tokens >= needs.max_tokens:
        return True
    return tokens >= needs.min_tokens and texts >= needs.text_messages


def _grow(digests: Digests, start: int, floor: int, needs: Needs) -> int:
    """The latest start at or before `start` that keeps enough; both sums only grow backwards."""
    if start <= floor or _enough(digests, start, needs):
        return start
    low, high = floor, start
    while low < high:
        middle = (low + high + 1) // 2
        if _enough(digests, middle, needs):
            low = middle
        else:
            high = middle - 1
    return low


def _close(digests: Digests, start: int, floor: int) -> int:
    """Moves back to the calls of kept results and the first pieces of kept responses."""
    end = len(digests)
    while start < end:
        reach = min(_reach(digests, index, floor) for index in range(start, end))
        if reach >= start:
            break
        start, end = reach, start
    return start


def _reach(digests: Digests, index: int, floor: int) -> int:
    """The earliest message, not before the floor, that must be kept with this one."""
    message = digests.messages[index]
    places = [index, *(piece for piece in digests.pieces[message.response_id] if piece >= floor)]
    for number, block in enumerate(digests.blocks_of(index)):
        if block.id and block.kind in RESULTS:
            call = digests.call_before(block.id, (index, number))
            if call is not None and call[0] >= floor:
                places.append(call[0])
    return min(places)


def _orphans(digests: Digests, start: int) -> list[Position]:
    """Kept results whose call is not kept; one without an id belongs to no call."""
    lost = []
    for index in range(start, len(digests)):
        for number, block in enumerate(digests.blocks_of(index)):
            if not block.id or block.kind not in RESULTS:
                continue
            call = digests.call_before(block.id, (index, number))
            if call is None or call[0] < start:
                lost.append((index, number))
    return lost


# How much to cut from the head (FULL-3). The twin of `rust/core/src/truncate.rs`.


def truncate_head(digests: Digests, gap_tokens: int | None, start: int, share_percent: int) -> int:
    """First message to keep after whole oldest rounds are dropped; `start` if only one is left.

    With a known gap as few rounds as cover it, else a share of them; at least one either way.
    """
    firsts = rounds(digests, start, len(digests))
    if len(firsts) < 2:
        return start
    if gap_tokens is None:
        drop = max(1, len(firsts) * share_percent // 100)
        return firsts[min(drop, len(firsts) - 1)]
    enough = digests.token_sums[start] + gap_tokens
    covers = (first for first in firsts[1:] if digests.token_sums[first] >= enough)
    return next(covers, firsts[-1])


Item = Mapping[str, Any]


def _whole(name: str, value: int) -> int:
    if not isinstance(value, int):
        raise TypeError(f"{name} must be an integer, not {type(value).__name__}")
    return int(value)


def _count(field: str, value: int, top: int | None = None, bottom: int = 0) -> int:
    """An integer in a range."""
    value = _whole(field, value)
    if value < bottom or (top is not None and value > top):
        limit = "must not be negative" if top is None else f"must be between {bottom} and {top}"
        raise InvalidPolicy(field, value, limit)
    return value


LEAST_OF_ESTIMATE = 2
"""A figure below one part in so many of the estimate cannot be true: our estimates are off by a third at most."""


def _is_enough(usage: int, cleared: int, covered: int) -> bool:
    """Whether a figure can be true of messages of this estimate."""
    return usage + cleared >= -(-covered // LEAST_OF_ESTIMATE)


class Ledger:
    """Digests of a conversation, kept up to date as it grows."""

    def __init__(self, weights: Weights | None = None, items: Iterable[Item] | None = None) -> None:
        self._weights = weights
        self._digests = Digests()
        self._held: list[Any] = []
        self._version = 0
        self._edits: list[tuple[int, int]] = []
        self._lock = RLock()
        self.extend(() if items is None else items)

    # ---- changes

    @property
    def version(self) -> int:
        return self._version

    def append(self, item: Item) -> int:
        with self._lock:
            self._digests.push(self._read_all([item], None)[0])
            self._held.append(item)
            return len(self)

    def append_plain(self, *_: object) -> None:
        """`None`: every message takes the second look, which this saves the Rust engine."""

    def extend(self, items: Iterable[Item]) -> int:
        new = list(items)
        with self._lock:
            for digested in self._read_all(new, range(len(new))):
                self._digests.push(digested)
            self._held.extend(new)
            return len(self)

    def replace(self, index: int, item: Item) -> None:
        with self._lock:
            index = self._index(index)
            digested = self._read_all([item], None)[0]
            tail = self._digests.take(index)
            for digest in (digested, *tail[1:]):
                self._digests.push(digest)
            self._digests.trim()
            self._held[index] = item
            self._edited(index)

    def truncate(self, length: int) -> None:
        with self._lock:
            if (length := _count("length", length, len(self))) < len(self):
                self._digests.take(length)
                self._digests.trim()
                del self._held[length:]
                self._edited(length)

    def sync(self, items: list[Item]) -> int:
        if not isinstance(items, list):
            raise TypeError(f"items must be a list, not {type(items).__name__}")
        with self._lock:
            head, tail = self._unchanged(items)
            old_end, new_end = len(self._held) - tail, len(items) - tail
            places = {id(self._held[index]): index for index in range(head, old_end)}
            wanted = [index for index in range(head, new_end) if id(items[index]) not in places]
            fresh = dict(
                zip(wanted, self._read_all([items[i] for i in wanted], wanted), strict=True)
            )
            removed = self._digests.take(head)
            for index in range(head, new_end):
                old = places.get(id(items[index]), 0) - head
                self._digests.push(fresh[index] if index in fresh else removed[old])
            for digested in removed[old_end - head :]:
                self._digests.push(digested)
            if head < len(self._held):
                self._edited(head)
                self._digests.trim()
            self._held = list(items)
            return len(wanted)

    def _unchanged(self, items: list[Item]) -> tuple[int, int]:
        """How many items at the head and at the tail are the same objects as last time."""
        held, shorter = self._held, min(len(self._held), len(items))
        head = tail = 0
        while head < shorter and items[head] is held[head]:
            head += 1
        while tail < shorter - head and items[-1 - tail] is held[-1 - tail]:
            tail += 1
        return head, tail

    def _read_all(self, items: list[Item], indices: Sequence[int] | None) -> list[Digested]:
        """Digests all or none; strings that only failed items named are forgotten."""
        strings, read = self._digests.strings, list[Digested]()
        before = len(strings)
        try:
            for item in items:
                read.append(read_item(stored(item), self._weights, strings))
        except InvalidMessage as exc:
            strings.rollback(before)
            index = None if indices is None else indices[len(read)]
            raise InvalidMessage(exc.reason, index=index, field=exc.field, got=exc.got) from None
        return read

    def _edited(self, index: int) -> None:
        self._version += 1
        while self._edits and self._edits[-1][1] >= index:
            self._edits.pop()
        self._edits.append((self._version, index))

    def changed_since(self, version: int) -> int:
        since = _whole("version", version)
        later = (index for edit, index in self._edits if edit > since)
        return min(next(later, len(self)), len(self))

    # ---- questions

    def __len__(self) -> int:
        return len(self._digests)

    def _index(self, index: int) -> int:
        """A position, counted from the end if negative."""
        place = _whole("index", index) + (len(self) if index < 0 else 0)
        if not 0 <= place < len(self):
            raise IndexError(f"index {index} is outside of {len(self)} messages")
        return place

    def _range(self, start: int, stop: int | None) -> tuple[int, int]:
        """As a slice understands it."""
        stop = len(self) if stop is None else _whole("stop", stop)
        start, stop, _ = slice(_whole("start", start), stop).indices(len(self))
        return start, max(start, stop)

    def tokens(self, start: int = 0, stop: int | None = None) -> int:
        start, stop = self._range(start, stop)
        return self._digests.token_sums[stop] - self._digests.token_sums[start]

    def message(self, index: int) -> MessageDigest:
        return self._digests.messages[self._index(index)]

    def blocks(self, index: int) -> list[BlockDigest]:
        return self._digests.blocks_of(self._index(index))

    def string(self, ref: int) -> str:
        strings = self._digests.strings
        if not 0 <= _whole("ref", ref) < len(strings):
            raise IndexError(f"string {ref} of {len(strings)}")
        return strings.get(ref)

    def rounds(self, start: int = 0, stop: int | None = None) -> list[int]:
        return rounds(self._digests, *self._range(start, stop))

    def find_call(self, tool_use_id: str) -> Position | None:
        place = self._digests.calls.get(self._number(tool_use_id))
        return place[-1] if place else None

    def find_result(self, tool_use_id: str) -> Position | None:
        place = self._digests.results.get(self._number(tool_use_id))
        return place[-1] if place else None

    def _number(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"expected a string, not {type(text).__name__}")
        return self._digests.strings.find(text) or 0

    def open_calls(self) -> list[Position]:
        """Client tool calls with no result anywhere later; one without an id can have none."""
        digests, open_calls = self._digests, []
        for index in range(len(self)):
            for number, block in enumerate(digests.blocks_of(index)):
                results = digests.results.get(block.id) if block.id else None
                answered = results and results[-1] > (index, number)
                if block.kind == BlockKind.TOOL_USE and not answered:
                    open_calls.append((index, number))
        return open_calls

    def media_indices(self) -> list[int]:
        """User and tool messages with an image or document, also inside a tool result."""
        return [
            index
            for index, message in enumerate(self._digests.messages)
            if message.flags & F.HAS_MEDIA and message.role in (Role.USER, Role.TOOL)
        ]

    # ---- columns

    def results(
        self, start: int = 0
    ) -> list[tuple[str, int, int, Position | None, str, int, int, int]]:
        digests, (start, stop) = self._digests, self._range(start, None)
        results = []
        for at in range(start, stop):
            if self.message(at).role not in (Role.USER, Role.TOOL):
                continue
            for number, block in enumerate(digests.blocks_of(at)):
                if block.kind != BlockKind.TOOL_RESULT or not block.id:
                    continue
                calls = digests.calls.get(block.id)
                call = calls[-1] if calls else None
                name = digests.blocks_of(call[0])[call[1]].name if call else 0
                words = self.string(block.id), self.string(name)
                sizes = block.chars, block.tokens, block.flags
                results.append((words[0], at, number, call, words[1], *sizes))
        return results

    def roles(self, start: int = 0, stop: int | None = None) -> bytes:
        start, stop = self._range(start, stop)
        return bytes(message.role for message in self._digests.messages[start:stop])

    def with_kinds(self, *kinds: int) -> list[int]:
        blocks = self._digests.blocks_of
        return [at for at in range(len(self)) if any(block.kind in kinds for block in blocks(at))]

    def whole_cuts(self, stop: int | None = None) -> list[int]:
        cuts, reach = [0], 0
        for at in range(self._range(0, stop)[1]):
            reach = max(reach, self._reach(at))
            # Position at + 1: everything that was begun up to here has ended.
            roles = [message.role for message in self._digests.messages[at : at + 2]]
            if reach <= at and roles != [Role.ASSISTANT, Role.ASSISTANT]:
                cuts.append(at + 1)
        return cuts

    def _reach(self, at: int) -> int:
        """The last message that belongs together with this one."""
        digests, message = self._digests, self.message(at)
        reach = digests.pieces[message.response_id][-1] if message.response_id else at
        for block in digests.blocks_of(at):
            if block.kind in (BlockKind.TOOL_USE, BlockKind.SERVER_TOOL_USE) and block.id:
                results = digests.results.get(block.id)
                reach = max(reach, results[-1][0] if results else at)
        return reach

    # ---- anchored count

    def anchor(self, cleared: int = 0) -> Anchor | None:
        """The newest usage figure after the newest boundary, if it can be true.

        A message older than that boundary by its timestamp was kept by a compaction: its figure is
        of the context before it, and is passed over, as is a figure of another thread. One below half of the
        estimate of what it covers, of which the provider itself left out `cleared` tokens, anchors nothing.
        """
        _count("cleared", cleared)
        floor = self._context_start()
        newest = takewhile(lambda at: at >= floor, reversed(self._digests.usages))
        newest_anchor = next(filter(self._is_current, map(self._anchor_at, newest)), None)
        if newest_anchor is None:
            return None
        # The provider does not read what comes before its own compaction.
        own = (at for at in reversed(self._digests.compactions) if at < newest_anchor.covers)
        read = self.tokens(max(next(own, 0), floor), newest_anchor.covers)
        return newest_anchor if _is_enough(newest_anchor.usage, cleared, read) else None

    @property
    def overhead(self) -> int | None:
        """System prompt and tools, by the figures; `None`: there is none.

        What the oldest figure of the context exceeds the estimate by, since later ones hold thinking and reminders too; the newest
        where that is less. A newest one below the estimate says nothing of it, unless all of it is less than the oldest one's excess:
        then that is of another model or of other tools.
        """
        anchor = self.anchor()
        if anchor is None:
            return None
        floor = self._context_start()
        within = (self._anchor_at(at) for at in self._digests.usages if at >= floor)
        able = (candidate for candidate in within if self._is_current(candidate))
        sizes = ((candidate, self.tokens(floor, candidate.covers)) for candidate in able)
        first = next(
            (candidate for candidate, size in sizes if _is_enough(candidate.usage, 0, size)), anchor
        )
        newest, oldest = self._excess(anchor), self._excess(first)
        bounded = newest > 0 or oldest > anchor.usage
        return max(0, min(oldest, newest) if bounded else oldest)

    def _excess(self, anchor: Anchor) -> int:
        return anchor.usage - self.tokens(self._context_start(), anchor.covers)

    def _context_start(self) -> int:
        """Where the context of the model begins: after the newest boundary."""
        boundary = self._digests.last_boundary()
        return 0 if boundary is None else boundary + 1

    def _anchor_at(self, last: int) -> Anchor:
        digests, floor = self._digests, self._context_start()
        message = digests.messages[last]
        pieces = digests.pieces[message.response_id] if message.response_id else ()
        first = next((piece for piece in pieces if piece >= floor), last)
        return Anchor(first, last, first + 1, message.usage)

    def _is_current(self, anchor: Anchor) -> bool:
        """Whether a figure is of this context, not kept from an older one or of another thread."""
        floor = self._context_start()
        since = self.message(floor - 1).timestamp if floor else 0
        is_old = 0 < self.message(anchor.last).timestamp < since
        return not is_old and not self._digests.aside(anchor.last)

    def anchored(self, freed: int = 0, cleared: int = 0) -> AnchoredCount:
        _count("freed", freed)
        anchor = self.anchor(cleared)
        if anchor is None:
            estimated = self.tokens(self._context_start())
            return AnchoredCount(max(0, estimated - freed), estimated, None)
        response = self.message(anchor.last).response_id
        pieces = self._digests.pieces[response] if response else ()
        inside = sum(self.message(piece).tokens for piece in pieces if piece >= anchor.covers)
        estimated = self.tokens(anchor.covers) - inside
        return AnchoredCount(max(0, anchor.usage + estimated - freed), estimated, anchor)

    # ---- plans

    def keep_window(
        self,
        start: int,
        *,
        floor: int = 0,
        min_tokens: int = 10_000,
        max_tokens: int = 40_000,
        min_text_messages: int = 5,
    ) -> KeepWindow:
        start, floor = _count("start", start, len(self)), _count("floor", floor, len(self))
        needs = Needs(
            _count("min_tokens", min_tokens),
            _count("max_tokens", max_tokens),
            _count("min_text_messages", min_text_messages),
        )
        return keep_window(self._digests, start, floor, needs)

    def truncate_head(
        self, gap_tokens: int | None, *, start: int = 0, share_percent: int = 20
    ) -> int:
        if gap_tokens is not None:
            _count("gap_tokens", gap_tokens)
        _count("start", start, len(self))
        _count("share_percent", share_percent, 100, 1)
        return truncate_head(self._digests, gap_tokens, start, share_percent)
