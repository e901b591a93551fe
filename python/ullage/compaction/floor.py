"""The minimum gain of a compaction on demand: below it nothing is changed, and the notice names what would go further."""

from __future__ import annotations

from ullage.compaction.cut import choose_cut, scaled_keep
from ullage.compaction.prepared import State, recut
from ullage.facts.reading import text_of
from ullage.facts.sections import looks_like_summary
from ullage.messages import is_summary

__all__ = ["LEAST_REMOVED_TOKENS", "advice", "only_summary", "too_little"]

LEAST_REMOVED_TOKENS = 400
"""Below it nine headings cost more than they save."""


def only_summary(state: State) -> bool:
    """Whether a compaction on demand would summarise only an earlier summary and what was restored with it."""
    if state.job.trigger != "manual":
        return False
    removed = state.source.context[state.cut.start : state.cut.stop]
    seen = False
    for item in removed:
        summary = is_summary(item) or looks_like_summary(text_of(item))
        if not summary and item.get("isMeta") is not True:
            return False
        seen = seen or summary
    return seen


def too_little(state: State, freed: int) -> bool:
    """Whether a compaction on demand would rewrite the context, and lose the cache, for almost no gain."""
    target = state.job.target_tokens
    if target is not None and state.size > target:
        return freed <= 0
    least = state.job.policy.summary.min_freed_percent
    return state.job.trigger == "manual" and freed * 100 < state.size * least


def advice(state: State, reason: str) -> str:
    """Why a compaction on demand changed nothing, and which option would go further; empty for other reasons."""
    least = state.job.policy.summary.min_freed_percent
    why = {
        "nothing_to_compact": "the part that may be summarised is too small",
        "nothing_new": "nothing that may be summarised was added since the last compaction",
        "frees_too_little": f"less than {least} % of {state.size:,} tokens would be freed (summary.min_freed_percent)",
    }.get(reason)
    if why is None or state.job.trigger != "manual":
        return ""
    more = _further(state)
    if not more:
        return f"Nothing was changed: {why}."
    kept = state.tokens - state.removed_tokens
    return (
        f"Nothing was changed: {why}. {kept:,} tokens stay verbatim: a smaller keep (--keep) goes further, "
        f"keep=0 would summarise {more:,} tokens."
    )


def _further(state: State) -> int:
    """Tokens that a compaction with nothing kept could summarise; 0 if no more than this one."""
    job = state.job
    keep = scaled_keep(0, job.policy.keep, job.window_tokens)
    cut = choose_cut(state.source, state.ledger, keep, direction=job.direction, at=job.at)
    found = int(state.ledger.tokens(cut.start, cut.stop))
    if found <= max(state.removed_tokens, LEAST_REMOVED_TOKENS):
        return 0
    return 0 if only_summary(recut(state, cut)) else found
