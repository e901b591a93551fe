"""How much to cut from the head (FULL-3). The twin of `rust/core/src/truncate.rs`."""

from __future__ import annotations

from ullage._reference.digests import Digests
from ullage._reference.rounds import rounds

__all__ = ["truncate_head"]


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
