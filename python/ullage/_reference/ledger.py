"""The ledger of a conversation (TOK-4, TOK-5). The twin of `ullage._core.Ledger`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import takewhile
from threading import RLock
from typing import Any

from ullage._engine.digests import Anchor, AnchoredCount, KeepWindow
from ullage._reference.digest import BlockDigest, BlockKind, MessageDigest, MessageFlag, Role
from ullage._reference.digests import Digested, Digests, Position
from ullage._reference.items import read_item
from ullage._reference.meter import Weights
from ullage._reference.plain import read_plain
from ullage._reference.rounds import rounds
from ullage._reference.stored import stored
from ullage._reference.truncate import truncate_head
from ullage._reference.window import Needs, keep_window
from ullage.exceptions import InvalidMessage, InvalidPolicy

__all__ = ["Ledger"]

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
        self._stale: set[int] = set()
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

    def append_plain(
        self, item: Item, calls: Mapping[str, Any], answered: Set[str], own: str = ""
    ) -> tuple[bool, list[str], int, int] | None:
        found = read_plain(item, own)
        if found is None or len(set(found.names)) < len(found.names):
            return None
        if any((name in calls) == found.answer or name in answered for name in found.names):
            return None
        self.append(item)
        return found

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
            for each in (digested, *tail[1:]):
                self._digests.push(each)
            self._digests.trim()
            self._held[index] = item
            self._stale.discard(index)
            self._edited(index)

    def truncate(self, length: int) -> None:
        with self._lock:
            if (length := _count("length", length, len(self))) < len(self):
                self._digests.take(length)
                self._digests.trim()
                del self._held[length:]
                self._stale = {index for index in self._stale if index < length}
                self._edited(length)

    def invalidate(self, index: int) -> None:
        with self._lock:
            self._stale.add(self._index(index))

    def sync(self, items: list[Item]) -> int:
        if not isinstance(items, list):
            raise TypeError(f"items must be a list, not {type(items).__name__}")
        with self._lock:
            head, tail = self._unchanged(items)
            old_end, new_end = len(self._held) - tail, len(items) - tail
            known = {
                id(self._held[index]): index
                for index in range(head, old_end)
                if index not in self._stale
            }
            wanted = [index for index in range(head, new_end) if id(items[index]) not in known]
            fresh = dict(
                zip(wanted, self._read_all([items[i] for i in wanted], wanted), strict=True)
            )
            taken = self._digests.take(head)
            for index in range(head, new_end):
                old = known.get(id(items[index]), 0) - head
                self._digests.push(fresh[index] if index in fresh else taken[old])
            for digested in taken[old_end - head :]:
                self._digests.push(digested)
            if head < len(self._held):
                self._edited(head)
                self._digests.trim()
            self._held, self._stale = list(items), set()
            return len(wanted)

    def _unchanged(self, items: list[Item]) -> tuple[int, int]:
        """How many items at the head and at the tail are the same objects as last time."""
        held, shorter = self._held, min(len(self._held), len(items))
        head = tail = 0
        while head < shorter and items[head] is held[head] and head not in self._stale:
            head += 1
        while tail < shorter - head and items[-1 - tail] is held[-1 - tail]:
            if len(held) - 1 - tail in self._stale:
                break
            tail += 1
        return head, tail

    def _read_all(self, items: list[Item], indices: Sequence[int] | None) -> list[Digested]:
        """Digests all or none; strings that only failed items named are forgotten."""
        strings, read = self._digests.strings, list[Digested]()
        known = len(strings)
        try:
            for item in items:
                read.append(read_item(stored(item), self._weights, strings))
        except InvalidMessage as exc:
            strings.rollback(known)
            index = None if indices is None else indices[len(read)]
            raise InvalidMessage(exc.reason, index=index, field=exc.field, got=exc.got) from None
        return read

    def _edited(self, index: int) -> None:
        self._version += 1
        while self._edits and self._edits[-1][1] >= index:
            self._edits.pop()
        self._edits.append((self._version, index))

    def changed_since(self, version: int) -> int:
        known = _whole("version", version)
        later = (index for edit, index in self._edits if edit > known)
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

    def rough(self, start: int = 0, stop: int | None = None) -> int:
        start, stop = self._range(start, stop)
        return self._digests.rough_sums[stop] - self._digests.rough_sums[start]

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

    def last_boundary(self) -> int | None:
        return self._digests.last_boundary()

    def find_uuid(self, uuid: str) -> int | None:
        found = self._digests.uuids.get(self._number(uuid))
        return found[-1] if found else None

    def find_call(self, tool_use_id: str) -> Position | None:
        found = self._digests.calls.get(self._number(tool_use_id))
        return found[-1] if found else None

    def find_result(self, tool_use_id: str) -> Position | None:
        found = self._digests.results.get(self._number(tool_use_id))
        return found[-1] if found else None

    def _number(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"expected a string, not {type(text).__name__}")
        return self._digests.strings.find(text) or 0

    def open_calls(self) -> list[Position]:
        """Client tool calls with no result anywhere later; one without an id can have none."""
        digests, found = self._digests, []
        for index in range(len(self)):
            for number, block in enumerate(digests.blocks_of(index)):
                results = digests.results.get(block.id) if block.id else None
                answered = results and results[-1] > (index, number)
                if block.kind == BlockKind.TOOL_USE and not answered:
                    found.append((index, number))
        return found

    def media_indices(self) -> list[int]:
        """User and tool messages with an image or document, also inside a tool result."""
        held = ((index, self.message(index)) for index in range(len(self)))
        return [
            index
            for index, message in held
            if message.flags & MessageFlag.HAS_MEDIA and message.role in (Role.USER, Role.TOOL)
        ]

    # ---- columns

    def results(
        self, start: int = 0
    ) -> list[tuple[str, int, int, Position | None, str, int, int, int]]:
        digests, (start, stop) = self._digests, self._range(start, None)
        found = []
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
                found.append((words[0], at, number, call, words[1], *sizes))
        return found

    def roles(self, start: int = 0, stop: int | None = None) -> bytes:
        return bytes(self.message(at).role for at in range(*self._range(start, stop)))

    def with_kinds(self, *kinds: int) -> list[int]:
        blocks = self._digests.blocks_of
        return [at for at in range(len(self)) if any(block.kind in kinds for block in blocks(at))]

    def whole_cuts(self, stop: int | None = None) -> list[int]:
        cuts, reach = [0], 0
        for at in range(self._range(0, stop)[1]):
            reach = max(reach, self._reach(at))
            # Position at + 1: everything that was begun up to here has ended.
            if reach <= at and not self._between_assistants(at):
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

    def _between_assistants(self, at: int) -> bool:
        roles = [message.role for message in self._digests.messages[at : at + 2]]
        return roles == [Role.ASSISTANT, Role.ASSISTANT]

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
        found = next(filter(self._is_current, map(self._anchor_at, newest)), None)
        if found is None:
            return None
        # The provider does not read what comes before its own compaction.
        own = (at for at in reversed(self._digests.compactions) if at < found.covers)
        read = self.tokens(max(next(own, 0), floor), found.covers)
        return found if _is_enough(found.usage, cleared, read) else None

    @property
    def overhead(self) -> int | None:
        """System prompt and tools, by the figures; `None`: there is none.

        What the oldest figure of the context exceeds the estimate by, since later ones hold thinking and reminders too; the newest
        where that is less.
        """
        anchor = self.anchor()
        if anchor is None:
            return None
        floor = self._context_start()
        within = (self._anchor_at(at) for at in self._digests.usages if at >= floor)
        able = (each for each in within if self._is_current(each))
        sizes = ((each, self.tokens(floor, each.covers)) for each in able)
        first = next((each for each, size in sizes if _is_enough(each.usage, 0, size)), anchor)
        newest, oldest = self._excess(anchor), self._excess(first)
        return max(0, min(oldest, newest) if newest > 0 else oldest)

    def _excess(self, found: Anchor) -> int:
        return found.usage - self.tokens(self._context_start(), found.covers)

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

    def _is_current(self, found: Anchor) -> bool:
        """Whether a figure is of this context, not kept from an older one or of another thread."""
        floor = self._context_start()
        since = self.message(floor - 1).timestamp if floor else 0
        kept = 0 < self.message(found.last).timestamp < since
        return not kept and not self._digests.aside(found.last)

    def anchored(self, freed: int = 0, cleared: int = 0) -> AnchoredCount:
        _count("freed", freed)
        found = self.anchor(cleared)
        if found is None:
            estimated = self.tokens(self._context_start())
            return AnchoredCount(max(0, estimated - freed), estimated, None)
        response = self.message(found.last).response_id
        pieces = self._digests.pieces[response] if response else ()
        inside = sum(self.message(piece).tokens for piece in pieces if piece >= found.covers)
        estimated = self.tokens(found.covers) - inside
        return AnchoredCount(max(0, found.usage + estimated - freed), estimated, found)

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
