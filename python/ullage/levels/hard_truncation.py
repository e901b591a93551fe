"""Hard truncation, the last resort: whole oldest rounds go until the rest fits."""

from __future__ import annotations

from ullage.exceptions import ContextTooLarge
from ullage.levels.carry_items import item_tokens
from ullage.levels.cut_points import newest_input, whole_cuts
from ullage.levels.report import Made, StageReport
from ullage.levels.view import View

__all__ = ["apply"]

STAGE = "truncate"


def apply(
    view: View, limit_tokens: int, overhead_tokens: int, margin_tokens: int
) -> StageReport | None:
    """Drop oldest rounds; `None` if everything fits.

    The newest user input stays, with all that follows it. A marker says how many messages were dropped.

    Args:
        view: Begins anew from what is left.
        limit_tokens: What the request may take.
        overhead_tokens: System prompt and tool definitions.
        margin_tokens: Left free beside them.

    Raises:
        ContextTooLarge: Even the newest user input and what follows it do not fit; nothing has changed.
    """
    room = limit_tokens - overhead_tokens - margin_tokens
    ledger = view.ledger
    if ledger.tokens() <= room:
        return None
    newest = newest_input(view) or 0
    # Words that came with a result keep its call.
    newest = max((at for at in whole_cuts(ledger) if at <= newest), default=0)
    starts = [start for start in ledger.rounds() if 0 < start <= newest] + [newest]
    kept = (ledger.tokens(start) + item_tokens(view, 0, start) for start in starts)
    cut = next((start for start, size in zip(starts, kept, strict=True) if size <= room), None)
    if cut is None or cut == 0:
        parts = {
            "system and tools": overhead_tokens,
            "newest input and what follows": ledger.tokens(newest),
        }
        if item := item_tokens(view, 0, newest):
            parts["the provider's own compaction"] = item
        raise ContextTooLarge(sum(parts.values()) + margin_tokens, limit_tokens, parts=parts)
    text = f"[{cut} earlier messages were dropped to fit the context window.]"
    marker = Made(f"truncate:{view.sources[cut]}", {"role": "user", "content": text})
    return view.rearranged(STAGE, f"over {limit_tokens:,} tokens", [marker, *range(cut, len(view))])
