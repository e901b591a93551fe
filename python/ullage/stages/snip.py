"""In-place snip: a long result keeps its head and its tail, and says how much is gone between them."""

from __future__ import annotations

from ullage.policy import Policy
from ullage.stages.cutting import snipped
from ullage.stages.report import Decision, StageReport
from ullage.stages.view import Result, View

__all__ = ["apply"]

STAGE = "snip"


def apply(view: View, policy: Policy, fill_percent: int) -> StageReport | None:
    """Snip long results; `None` if there are none or the window is not full enough.

    Args:
        view: Changed in place by the decisions.
        policy: `snip.on_arrival`: new results are snipped at any fill.
        fill_percent: Of the window, what the next request takes.
    """
    snip = policy.snip
    if not snip.enabled:
        return None
    pressed = fill_percent >= snip.start_percent
    if not pressed and not snip.on_arrival:
        return None
    start = view.looked.get(STAGE, 0) if pressed else view.sent
    long = [
        result
        for result in view.results(start)
        if result.chars > snip.max_chars and not result.replaced
    ]
    chosen = [
        (result, decision)
        for result in long
        if (decision := _snip(view, result, policy)) is not None
    ]
    if pressed:
        view.looked[STAGE] = len(view)
    return (
        view.report(STAGE, f"results over {snip.max_chars:,} characters", chosen)
        if chosen
        else None
    )


def _snip(view: View, result: Result, policy: Policy) -> Decision | None:
    if result.has_media:
        return None
    text = view.text(result)
    short = snipped(text, policy.snip.head_percent, policy.snip.tail_percent)
    return Decision(result.id, STAGE, short) if len(short) < len(text) else None
