"""In-place snip: a long result keeps its head and its tail, and says how much was removed between them."""

from __future__ import annotations

from collections.abc import Sequence

from ullage.levels.level import NEVER, NOW, Context, Level, Rest, share_of
from ullage.levels.report import Decision, StageReport
from ullage.levels.text_truncation import cut_middle
from ullage.levels.tool_results import fresh_from
from ullage.levels.view import Result, View
from ullage.policy import Policy

__all__ = ["LEVEL", "shortened"]

STAGE = "snip"


def run(context: Context) -> StageReport | None:
    """Snip long results; `None` if there are none or the window is not full enough.

    With `snip.on_arrival` new results are snipped at any fill. Where the request fits as it is, the model sees results whole
    that no answer has followed yet.
    """
    view, policy, snip = context.view, context.policy, context.policy.snip
    if not snip.enabled:
        return None
    pressed = context.fill_percent() >= snip.start_percent
    if not pressed and not snip.on_arrival:
        return None
    fits = view.tokens(context.overhead_tokens) <= context.window_tokens
    stop = len(view) if snip.on_arrival or not fits else fresh_from(view.ledger)
    start = view.looked.get(STAGE, 0) if pressed else view.sent
    chosen = [
        (result, decision)
        for result in view.results(start, stop)
        if result.chars > snip.max_chars and not result.replaced
        if (decision := _snip(view, result, policy)) is not None
    ]
    waiting = _waiting(context, chosen) if fits else 0
    if pressed:
        view.looked[STAGE] = chosen[0][0].message if waiting else stop
    chosen = chosen[waiting:]
    return (
        view.report(STAGE, f"results over {snip.max_chars:,} characters", chosen)
        if chosen
        else None
    )


def _waiting(context: Context, chosen: Sequence[tuple[Result, Decision]]) -> int:
    """How many of the first ones wait until they pay for the cache that they break: the later a change, the less it breaks."""
    from ullage.levels.waiting import pays_soon

    freed = 0
    worth = len(chosen)
    for at in range(len(chosen) - 1, -1, -1):
        result, decision = chosen[at]
        freed += result.tokens - result.tokens * len(decision.text) // result.chars
        if pays_soon(context, result.message, freed):
            worth = at
    return worth


def rest(context: Context) -> Rest:
    """Until the window is full enough, or a long result is there."""
    view, snip = context.view, context.policy.snip
    if not snip.enabled:
        return NEVER
    mark = share_of(context.window_tokens, snip.start_percent)
    if view.tokens(context.overhead_tokens) < mark:
        long = Rest(result_chars=snip.max_chars) if snip.on_arrival else NEVER
        return long.both(Rest(fill=mark))
    waits = any(
        result.chars > snip.max_chars and not result.replaced
        for result in view.results(view.looked.get(STAGE, 0))
    )
    # Above the window even results are snipped that the model has not seen.
    fits = Rest(fill=context.window_tokens, least_fill=mark, result_chars=snip.max_chars)
    return NOW if waits else fits


def shortened(text: str, policy: Policy, handle: str) -> str:
    """The first and last characters of a text, by shares of `snip.max_chars`; at most so long, however long the text is.

    Args:
        text: Of a result.
        policy: Its group `snip`.
        handle: What brings the whole text back.
    """
    snip = policy.snip
    first, last = (
        snip.max_chars * share // 100 for share in (snip.head_percent, snip.tail_percent)
    )
    return cut_middle(text, first, last, handle)


def _snip(view: View, result: Result, policy: Policy) -> Decision | None:
    if result.has_media:
        return None
    text = view.text(result)
    short = shortened(text, policy, result.id)
    return Decision(result.id, STAGE, short) if len(short) < len(text) else None


LEVEL = Level(STAGE, run, rest=rest)
