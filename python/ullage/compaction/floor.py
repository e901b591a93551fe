"""What a compaction must leave, and the minimum gain of one on demand: below it nothing is changed, and the notice says what goes further."""

from __future__ import annotations

from dataclasses import replace

from ullage._engine import core
from ullage.compaction.assemble import summary_text
from ullage.compaction.carried import after_item, item_tokens
from ullage.compaction.cut import choose_cut, least_cut, scaled_keep
from ullage.compaction.kept_media import kept_media, with_media
from ullage.compaction.prepared import State, recut
from ullage.compaction.summary_call import Accepted
from ullage.compaction.target import LEAST_SUMMARY_TOKENS, shorter_results
from ullage.exceptions import ContextTooLarge
from ullage.facts import whose_words
from ullage.facts.whose_words import is_host_only, is_user_input
from ullage.providers.manual_thinking import is_manual
from ullage.summarizers.extractive import render

__all__ = [
    "LEAST_REMOVED_TOKENS",
    "advice",
    "check_target",
    "least_messages",
    "only_summary",
    "target_too_small",
    "too_little",
]

LEAST_REMOVED_TOKENS = 400
"""Below it nine headings cost more than they save."""


def check_target(state: State) -> None:
    """Refuse a target that what must stay exceeds, before anything is removed.

    Raises:
        ContextTooLarge: Names the smallest target that can be met, and what takes it.
    """
    target = state.job.target_tokens
    if target is None or state.counted(state.tokens) <= target:
        return
    parts = least_messages(state)
    least = sum(parts.values())
    if least > target:
        raise target_too_small(least, target, parts)


def target_too_small(least: int, target: int, parts: dict[str, int]) -> ContextTooLarge:
    """The error for a target: it counts messages only."""
    shown = {name: tokens for name, tokens in parts.items() if tokens}
    hint = f"nothing was changed; the smallest target is {least:,} tokens of messages (target_tokens, --target)"
    return ContextTooLarge(least, target, parts=shown, limit="the target of messages is", hint=hint)


def least_messages(state: State) -> dict[str, int]:
    """What must stay of the messages whatever the target, in the provider's tokens: the sum is the smallest that can be met (FULL-17).

    The unfinished end (a message without an answer, open calls), the provider's own item, what hosts put there to stand, and the summary
    message in its shortest form, which holds the user's newest message, every rule and the pins.
    """
    least = _with_least_kept(state)
    kept = int(least.ledger.tokens(*least.kept()))
    if not least.source.entries:
        kept -= shorter_results(least.kept_items(), kept, least.measure)[1]
    found = least.source.item
    item = (
        0
        if found is None or found.at >= least.cut.stop
        else item_tokens(least.source, least.ledger)
    )
    host = least.known.standing_tokens
    summary = _least_summary(least, kept + host)
    newest = min(least.measure(least.situation().newest_input), summary)
    parts = {
        "messages that wait for an answer": kept,
        "the provider's own compaction": item,
        "standing host text": host,
        "the user's newest message": newest,
        "rules, pins and frame": summary - newest,
    }
    return {name: least.counted(tokens) + (tokens > 0) for name, tokens in parts.items()}


def _with_least_kept(state: State) -> State:
    if state.job.direction != "full":
        return recut(state, state.cut)
    manual = is_manual(state.job.thinking)
    cut = least_cut(state.source, state.ledger, manual_thinking=manual)
    return recut(state, after_item(state.source, state.ledger, cut))


def _least_summary(state: State, kept: int) -> int:
    """Tokens of the shortest summary message; its frame is longer where its room is."""
    text = render(state.facts, tokens=LEAST_SUMMARY_TOKENS, newest_apart=True)
    accepted = Accepted(text, "extractive", 0, 0, by_code=True)
    tokens = 1
    for _ in range(LOOKS):
        job = replace(state.job, target_tokens=state.counted(kept + tokens))
        written, _ = summary_text(replace(state, job=job), accepted)
        content = with_media(written, kept_media(state), job.transcript_path)
        message = {"role": "user", "content": content}
        found = int(core.Ledger(job.weights, [message]).tokens())
        if found <= tokens:
            break
        tokens = found
    return tokens


LOOKS = 4


def only_summary(state: State) -> bool:
    """Whether a compaction on demand would summarise only an earlier summary and what was restored with it."""
    if state.job.trigger != "manual":
        return False
    removed = state.source.context[state.cut.start : state.cut.stop]
    seen = False
    for item in removed:
        summary = bool(whose_words.summary_text(item)) and not is_user_input(item)
        if not summary and item.get("isMeta") is not True and not is_host_only(item):
            return False
        seen = seen or summary
    return seen


def too_little(state: State, freed: int) -> bool:
    """Whether a compaction on demand would rewrite the context, and lose the cache, for almost no gain."""
    target = state.job.target_tokens
    if target is not None and state.counted(state.tokens) > target:
        return freed <= 0
    least = state.job.policy.summary.min_freed_percent
    whole = state.counted(state.tokens + state.overhead)
    return state.job.trigger == "manual" and freed * 100 < whole * least


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
