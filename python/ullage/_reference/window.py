"""The keep window (KEEP-1 to KEEP-3). The twin of `rust/core/src/window.rs`."""

from __future__ import annotations

from typing import NamedTuple

from ullage._engine.digests import KeepWindow
from ullage._reference.digests import RESULTS, Digests, Position

__all__ = ["Needs", "keep_window"]


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
    found = [index, *(piece for piece in digests.pieces[message.response_id] if piece >= floor)]
    for number, block in enumerate(digests.blocks_of(index)):
        if block.id and block.kind in RESULTS:
            call = digests.call_before(block.id, (index, number))
            if call is not None and call[0] >= floor:
                found.append(call[0])
    return min(found)


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
