"""Hard truncation, the last resort: whole oldest rounds go until the rest fits."""

from __future__ import annotations

from dataclasses import replace

from ullage.exceptions import ContextTooLarge
from ullage.levels import fold
from ullage.levels.level import Context, Level, newest_input
from ullage.levels.view import Made, StageReport, item_tokens, standing_tokens

STAGE = "truncate"
# Percent of a refused request that may be left, whatever the error said.
DRAIN_PERCENT = 80


def run(context: Context) -> StageReport | None:
    """Drop whole rounds where a fold did not help; `None` if everything fits.

    Where only the newest turn is left, it is folded, and older words are shortened.

    Raises:
        ContextTooLarge: What must stay does not fit; names the floor.
    """
    if not context.over_goal() or any(report.stage == fold.STAGE for report in context.reports):
        return None
    return _shortened(context, context.limit_tokens())


def drain(context: Context) -> StageReport | None:
    """As `run`, and by a good part in any case: nothing else is left to try."""
    goal, share = context.goal.tokens or 0, context.estimated() * DRAIN_PERCENT // 100
    return _shortened(context, min(goal, share) + context.policy.truncate.margin_tokens)


def _shortened(context: Context, limit_tokens: int) -> StageReport | None:
    try:
        return truncated(context, limit_tokens)
    except ContextTooLarge:
        report = fold.folded(context, limit_tokens, whole_words=False)
        if report is None:
            raise
        return report


def truncated(context: Context, limit_tokens: int) -> StageReport | None:
    """Drop oldest rounds; `None` if everything fits.

    The newest user input stays, with all that follows it. A marker says how many messages were dropped.

    Raises:
        ContextTooLarge: Even the newest user input and what follows it do not fit; nothing has changed.
    """
    view, overhead_tokens = context.view, context.overhead_tokens
    margin_tokens = context.policy.truncate.margin_tokens
    room = limit_tokens - overhead_tokens - margin_tokens
    ledger = view.ledger
    if ledger.tokens() <= room:
        return None
    newest = newest_input(view) or 0
    # Words that came with a result keep its call.
    newest = max((at for at in ledger.whole_cuts() if at <= newest), default=0)
    starts = [start for start in ledger.rounds() if 0 < start <= newest] + [newest]
    sizes = [(start, ledger.tokens(start) + item_tokens(view, 0, start)) for start in starts]
    host = standing_tokens(view, range(newest))
    cut = next((at for at, size in sizes if size + host <= room), None)
    lost = host > 0 and not cut
    if lost:  # rather without them than not at all
        cut = next((at for at, size in sizes if size <= room), None)
    if not cut:
        parts = {
            "system and tools": overhead_tokens,
            "newest input and what follows": ledger.tokens(newest),
        }
        if item := item_tokens(view, 0, newest):
            parts["the provider's own compaction"] = item
        raise ContextTooLarge(sum(parts.values()) + margin_tokens, limit_tokens, parts=parts)
    text = f"[{cut} earlier messages were dropped to fit the context window.]"
    marker = Made(f"truncate:{view.sources[cut]}", {"role": "user", "content": text})
    why = f"over {limit_tokens:,} tokens"
    failures = (f"host_text_left_out:{host}",) if lost else ()
    report = view.rearranged(STAGE, why, [marker, *range(cut, len(view))], standing=not lost)
    return replace(report, failures=failures)


LEVEL = Level(STAGE, run, drain=drain, rest=Context.within_goal)
