"""The deterministic fold: the older part as a record in one message, without a model; the newest part stays as it is (AUTO-7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ullage._engine import core
from ullage.levels.carry_items import item_tokens, opens_with, standing_tokens
from ullage.levels.cut_points import newest_input, whole_cuts
from ullage.levels.level import Context, Level
from ullage.levels.one_line_records import RECORD_HEAD, RECORD_TAIL, Line, fitted, lines_of
from ullage.levels.report import Made, StageReport
from ullage.levels.view import View

__all__ = ["LEVEL", "STAGE", "folded"]

STAGE = "fold"

AIM_PERCENT = 60
"""Percent of the room that a fold should end at, so that the next is far off (P-8); a share of it is the newest part."""


def run(context: Context) -> StageReport | None:
    """Fold all but the newest part; `None` if everything fits, or if the fold would not bring it below the limit.

    The user's words stay whole, the newest of them in a message of its own after the record. Each tool call is a line.
    """
    return folded(context, context.limit_tokens()) if context.over_goal() else None


def folded(context: Context, limit_tokens: int, *, whole_words: bool = True) -> StageReport | None:
    """The fold, whether it is due or not.

    Args:
        context: `truncate.margin_tokens` stay free; `keep.max_tokens` is the most that the newest part takes. What an earlier
            record or summary holds of the user's words is taken from the history.
        limit_tokens: What the request may take.
        whole_words: Older words of the user stay whole, or there is no fold; else they may be shortened too. The newest stay.
    """
    view, policy, history = context.view, context.policy, context.history
    room = limit_tokens - context.overhead_tokens - policy.truncate.margin_tokens
    if view.ledger.tokens() <= room:
        return None
    aim = room * AIM_PERCENT // 100
    # A third of it is for the record.
    for cut in _starts(view, min(aim * 2 // 3, policy.keep.max_tokens), room):
        if (parts := _folded(view, cut, (aim, room), whole_words, history)) is not None:
            return view.rearranged(STAGE, f"over {limit_tokens:,} tokens", parts)
    return None


def _starts(view: View, wanted: int, room: int) -> list[int]:
    """Where the newest part can begin: the earliest that is within what is wanted, else the latest that fits at all."""
    cuts = [cut for cut in whole_cuts(view.ledger) if 0 < cut < len(view)]
    tokens = view.ledger.tokens
    fitting = [cut for cut in cuts if tokens(cut) <= wanted][:1]
    latest = [cut for cut in cuts if tokens(cut) <= room][-1:]
    return list(dict.fromkeys([*fitting, *latest]))


def _folded(
    view: View,
    cut: int,
    rooms: tuple[int, int],
    whole_words: bool,
    history: Sequence[Mapping[str, Any]],
) -> list[int | Made] | None:
    head = opens_with(view)
    if cut <= head:
        return None
    apart = _apart(view, head, cut)
    kept = view.ledger.tokens(0, head) + view.ledger.tokens(cut)
    kept += sum(view.ledger.message(at).tokens for at in apart)
    kept += item_tokens(view, head, cut)
    kept += standing_tokens(view, {*range(head, cut)}.difference(apart))
    lines = lines_of(view, head, apart.start, history)
    lines += lines_of(view, apart.stop, cut, history)
    if not whole_words:
        lines = [line._replace(kind="made") if line.kind == "user" else line for line in lines]
    made = _record(view, lines, cut, (rooms[0] - kept, rooms[1] - kept))
    return None if made is None else [*range(head), made, *apart, *range(cut, len(view))]


def _apart(view: View, head: int, cut: int) -> range:
    """The newest words of the user if they are before the cut; with the calls, if they answer some; else none."""
    newest = newest_input(view)
    if newest is None or not head <= newest < cut:
        return range(cut, cut)
    cuts = whole_cuts(view.ledger, cut)
    start = max((at for at in cuts if at <= newest), default=newest)
    stop = min((at for at in cuts if at > newest), default=cut)
    return range(max(start, head), stop)


def _record(view: View, lines: list[Line], cut: int, budgets: tuple[int, int]) -> Made | None:
    """The record in the first budget that it fits in, smaller than what it stands for."""
    for budget in budgets:
        text = fitted(lines, budget - _FRAME_TOKENS, view.weights)
        if text is None:
            continue
        message = {"role": "user", "content": f"{RECORD_HEAD}\n\n{text}\n\n{RECORD_TAIL}"}
        tokens = int(core.Ledger(view.weights, [message]).tokens())
        if tokens <= budget and tokens < view.ledger.tokens(opens_with(view), cut):
            last = max((s for s in view.sources[:cut] if isinstance(s, int)), default=0)
            return Made(f"{STAGE}:{last}", message)
    return None


_FRAME_TOKENS = 120
"""Of head and tail, in the family with the most tokens for the same text."""


LEVEL = Level(STAGE, run, drain=run, rest=Context.within_goal)
