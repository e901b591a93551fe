"""Whether a change of what was sent waits until it pays for the cache that it breaks (BEY-2)."""

from __future__ import annotations

from ullage.levels.cost import expected_cost, is_cold
from ullage.levels.level import Context

__all__ = ["pays_soon"]


def pays_soon(context: Context, first: int, gain: int) -> bool:
    """Whether a change pays within `cost.wait_requests`; always true where the policy waits for nothing, or no model is known.

    Args:
        context: Of the level.
        first: First message that would change.
        gain: Estimated tokens that it frees.
    """
    limit, model = context.policy.cost.wait_requests, context.model
    if not limit or model is None or not context.window_tokens:
        return True
    view, overhead = context.view, context.overhead_tokens
    cold = is_cold(view, model, context.now_ms)
    found = expected_cost(view, model, first, gain, overhead_tokens=overhead, cold=cold)
    return found.break_even_turns is not None and found.break_even_turns <= limit
