"""The newest results made small enough: for the case that what cannot be folded does not fit by itself (P-3).

Only where the newest part alone is larger than what is allowed, whatever any policy says of snipping. The whole text stays in
the history and can be recalled.
"""

from __future__ import annotations

from ullage.levels.level import Context, Level, newest_input
from ullage.levels.snip import snipped
from ullage.levels.view import Decision, Result, StageReport, View

STAGE = "squeeze"
RECORD_TOKENS = 500  # room for a record in few words
# Tokens that each result keeps; the first cap with which the newest part fits is taken.
CAPS = (8_000, 4_000, 2_000, 1_000, 500, 250, 100, 30)


def run(context: Context) -> StageReport | None:
    """Shorten results of the newest part until it fits, largest first; `None` if it does, or if nothing helps."""
    if not context.over_goal():
        return None
    view = context.view
    margin_tokens = context.policy.truncate.margin_tokens
    room_tokens = context.limit_tokens() - context.overhead_tokens - margin_tokens
    start = max((cut for cut in view.ledger.whole_cuts() if cut < len(view)), default=0)
    newest = newest_input(view)
    excess = view.ledger.tokens(start) - room_tokens
    if newest is not None and newest < start:
        # The request stays too, and a record of what lies between.
        excess += view.ledger.message(newest).tokens + RECORD_TOKENS * (start > newest + 1)
    if excess <= 0:
        return None
    results = list(view.results(start))
    for cap in CAPS:
        large = [result for result in results if result.tokens > cap]
        if sum(result.tokens - cap for result in large) >= excess:
            chosen = [(one, Decision(one.id, STAGE, _text(view, one, cap))) for one in large]
            why = f"the newest part alone is over {room_tokens:,} tokens"
            return view.report(STAGE, why, chosen)
    return None


def _text(view: View, result: Result, cap: int) -> str:
    text = view.text(result)
    # Half of the cap: the note between the ends, and texts whose ends are denser than the rest.
    percent = max(0, 50 * cap // (2 * result.tokens))
    if not percent or result.has_media:
        media = " and media" if result.has_media else ""
        return f"[{len(text):,} characters{media} left out: more than fits]"
    return snipped(text, percent, percent)


LEVEL = Level(STAGE, run, drain=run, resort="fold", rest=Context.within_goal)
