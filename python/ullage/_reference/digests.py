"""Digests of a conversation with what finds them again: sums, positions by id, boundaries.

Everything here is pushed and popped at the end only; an edit in the middle pops the tail and
pushes it again, so that no index can disagree with the messages. The twin of the struct `Ledger`
in `rust/core/src/ledger.rs`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TypeAlias

from ullage._reference.digest import (
    BlockDigest,
    BlockKind,
    MessageDigest,
    MessageFlag,
    Role,
    plain,
)
from ullage._reference.view import Strings

__all__ = ["CALLS", "RESULTS", "Digested", "Digests"]

F = plain(MessageFlag)
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
        self.rough_sums = [0]
        self.text_sums = [0]
        # The highest string number that the messages up to each need.
        self.tops = [0]
        self.boundaries: list[int] = []
        self.usages: list[int] = []
        self.compactions: list[int] = []  # messages with the provider's own compaction
        self.uuids: dict[int, list[int]] = defaultdict(list)
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
        self.rough_sums.append(self.rough_sums[-1] + message.rough)
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
        if message.uuid:
            lists.append(self.uuids[message.uuid])
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
        for sums in (self.token_sums, self.rough_sums, self.text_sums, self.tops):
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
        taken = [self.pop() for _ in range(len(self) - length)]
        taken.reverse()
        return taken

    def trim(self) -> None:
        """Forgets the newest strings that no message needs, if they are more than those needed.

        Always-new ids would grow the table for ever. What is done seldom costs each string once.
        """
        needed = self.tops[-1] + 1
        if len(self.strings) - needed > max(needed, SPARE_STRINGS):
            self.strings.rollback(needed)
            for positions in (self.uuids, self.pieces, self.calls, self.results):
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
