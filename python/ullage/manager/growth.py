"""The size at which an automatic compaction by share should end, by how fast the context grows."""

from __future__ import annotations

from math import isqrt
from typing import Final

from ullage.policy import AutocompactPolicy

__all__ = ["LEAST_REQUESTS", "target_tokens"]

LEAST_REQUESTS: Final = 5
"""Since growth is measured; fewer show one large result rather than a pace."""

USUAL_REQUESTS: Final = 40
"""In which a context grows from nothing to the trigger at the pace for which the policy's share holds unchanged."""

LEAST_PERCENT: Final = 10
"""Of the trigger: a smaller target leaves no room for a summary."""


def target_tokens(auto: AutocompactPolicy, trigger: int, pace: int) -> int:
    """Size at which a compaction should end.

    With equal cost of reading, compactions are fewest where the room that each makes grows with the square root
    of the pace: the number of compactions falls with the room, and the price of a request with what is kept.

    Args:
        auto: `target_percent` holds at a fortieth of the trigger a request; `max_after_percent` is the upper bound.
        trigger: Tokens from which a compaction is due.
        pace: Growth in tokens a request; 0: unknown, the share holds.
    """
    fixed = trigger * auto.target_percent // 100
    if not pace or not auto.follow_growth:
        return fixed
    room = (trigger - fixed) * isqrt(pace * USUAL_REQUESTS * 10_000 // max(trigger, 1)) // 100
    least = trigger * min(LEAST_PERCENT, auto.target_percent) // 100
    most = trigger * max(auto.max_after_percent, auto.target_percent) // 100
    return min(max(trigger - room, least), most)
