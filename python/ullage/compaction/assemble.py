"""Assembles the new context and its report: order, entries or messages, sizes, warnings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ullage._engine import core
from ullage.compaction.boundary import BoundaryEntries, stable_uuid
from ullage.compaction.carried import with_item
from ullage.compaction.compaction_result import CompactionReport, CompactionResult, Outcome
from ullage.compaction.context_providers import Attachment
from ullage.compaction.kept_media import kept_media, with_media
from ullage.compaction.prepared import State
from ullage.compaction.summary_call import Accepted
from ullage.compaction.summary_message import summary_message
from ullage.compaction.summary_repair import SummaryRepair, repair, with_rules
from ullage.compaction.target import frame_tokens, shorter_results
from ullage.facts.reading import text_of
from ullage.facts.whose_words import is_standing
from ullage.legality.repairs import turn_end, unbound
from ullage.levels.pins import missing_pins
from ullage.messages import Item, message_of, role_of
from ullage.providers.manual_thinking import is_manual, is_torn
from ullage.summarizers.budgeted_text import cost
from ullage.transcript.attachment_text import render
from ullage.transcript.write import BoundaryInfo, Kept

__all__ = ["over_target", "summary_text", "weighed"]


def summary_text(state: State, accepted: Accepted) -> tuple[str, SummaryRepair]:
    """The summary, what code restores, and the text around it."""
    cap = state.job.policy.summary.facts_max_tokens
    cap = 0 if accepted.by_code or accepted.carried else min(cap, state.removed_tokens // 3)
    if accepted.facts_tokens is not None:
        cap = min(cap, accepted.facts_tokens)
    room = state.summary_room
    if room is not None:
        cap = min(cap, max(room - frame_tokens(room) - cost(accepted.text), 0))
    words = state.job.policy.summary.user_messages_max_tokens
    fixed = SummaryRepair("", {}, 0)
    if cap:
        fixed = repair(state.facts, accepted.text, tokens=cap, user_tokens=words)
    if room is not None:
        shown = (
            f"{accepted.text}\n{state.situation().newest_input}"  # which stands whole in any case
        )
        fixed = with_rules(state.facts, shown, fixed)
    body = f"{accepted.text}\n\n{fixed.text}" if fixed.text else accepted.text
    text = summary_message(body, state.situation(), pins=state.pins)
    return (state.job.redact(text) if state.job.redact else text), fixed


def weighed(
    state: State,
    text: str,
    attached: Sequence[Attachment],
    hook_context: Sequence[tuple[str, str]],
    accepted: Accepted,
    fixed: SummaryRepair,
    warnings: Sequence[str],
) -> CompactionResult:
    """The new context with its report.

    Args:
        state: The job, looked at.
        text: Of the summary message.
        attached: What is put back.
        hook_context: Name and text of each SessionStart hook that had something to say.
        accepted: The summary's origin.
        fixed: What code added to it.
        warnings: So far.
    """
    result = _assemble(state, text, attached, hook_context, accepted.carried)
    told = [*warnings, *_pin_warnings(state, result), *_header(state, accepted)]
    return _reported(state, result, accepted, fixed, told)


def _assemble(
    state: State,
    text: str,
    attached: Sequence[Attachment],
    hook_context: Sequence[tuple[str, str]],
    carried: tuple[Item, ...],
) -> CompactionResult:
    """The new context, in the form of the input.

    Args:
        state: The job, looked at.
        text: Of the summary message.
        attached: What is put back.
        hook_context: Name and text of each SessionStart hook that had something to say.
        carried: Messages that the provider made just now, in front of the summary; for bare messages only.

    Raises:
        CompactionError: `provider_compaction`: an older item of the provider's cannot be kept in its place.
    """
    context = [
        {
            "type": "hook_additional_context",
            "hookName": name,
            "hookEvent": "SessionStart",
            "content": [said],
        }
        for name, said in hook_context
    ]
    kept = _without_bound_thinking(state, state.kept_items())
    kept = _with_turn_ended(state, kept)
    front, kept = with_item(state.source, state.cut, kept, carried)
    front, system = _with_standing(state, front)
    content = with_media(text, kept_media(state), state.job.transcript_path)
    if state.source.entries:
        return _as_entries(state, content, attached, context, kept, (*front, *system))
    summary = (*front, {"role": "user", "content": content})
    make, files, hooked = _entries(state), _as_messages(attached), _as_messages(context)
    ordered = _with_system(_ordered(state, summary, kept, files, hooked), system, summary[-1])
    return CompactionResult(
        outcome=Outcome.COMPACTED,
        messages=(*state.source.head, *ordered),
        boundary=make.boundary(_info(state, 0), {"uuid": stable_uuid("summary", text)}, (), Kept()),
        summary_messages=summary,
        kept=kept,
        attachments=files,
        hook_results=hooked,
        head=state.source.head,
    )


def _with_standing(
    state: State, front: tuple[Item, ...]
) -> tuple[tuple[Item, ...], tuple[Item, ...]]:
    """What comes before the summary with the host's standing texts; and those in the system's role, which have another place."""
    texts = [item for _, item in state.known.standing]
    system = tuple(item for item in texts if role_of(item) == "system")
    return (*front, *(item for item in texts if role_of(item) != "system")), system


def _with_system(
    ordered: tuple[Item, ...], system: tuple[Item, ...], summary: Item
) -> tuple[Item, ...]:
    """Messages of the system's role where providers take them: after the summary and the user messages that follow it (A12)."""
    first = next(at for at, item in enumerate(ordered) if item is summary)
    later = range(first, len(ordered))
    place = next((at for at in later if role_of(ordered[at]) == "assistant"), len(ordered))
    return (*ordered[:place], *system, *ordered[place:])


def _without_bound_thinking(state: State, kept: tuple[Item, ...]) -> tuple[Item, ...]:
    """The kept messages after a summary, for a model whose thinking is bound to what came before it.

    A kept beginning has nothing new before it. A turn that is still open is ended by two lines, since its
    thinking may not be missing; in a log there are none: the request is repaired instead.
    """
    if not state.job.bound_thinking or state.cut.start > 0:
        return kept
    return tuple(unbound(kept, close=not state.source.entries))


def _with_turn_ended(state: State, kept: tuple[Item, ...]) -> tuple[Item, ...]:
    """What stays, where manual thinking is on: a turn that lost its first thinking is ended by two lines (A14).

    In a log there are none: the request is repaired instead. Nor where results are still to come.
    """
    if not is_manual(state.job.thinking) or state.cut.start > 0 or state.source.entries or not kept:
        return kept
    ledger = core.Ledger(None, kept)
    if ledger.open_calls() or not is_torn(ledger):
        return kept
    return (*kept, *turn_end())


def _as_messages(attachments: Sequence[Attachment]) -> tuple[Item, ...]:
    contents = (render(attachment) for attachment in attachments)
    return tuple({"role": "user", "content": content} for content in contents if content)


def _entries(state: State) -> BoundaryEntries:
    last = state.source.ids[-1]
    return BoundaryEntries(state.source.context, last if isinstance(last, str) else "")


def _as_entries(
    state: State,
    content: str | list[Any],
    attached: Sequence[Attachment],
    context: Sequence[Attachment],
    kept: tuple[Item, ...],
    front: tuple[Item, ...],
) -> CompactionResult:
    make = _entries(state)
    summary = make.summary(content)
    carried = make.carried(front, summary)
    if carried:
        summary = make.summary(content, behind=str(carried[-1]["uuid"]))
    follow = make.following([*attached, *context], str(summary["uuid"]))
    boundary = make.boundary(_info(state, 0), summary, [*carried, *follow], _kept_ids(state))
    files, hooked = tuple(follow[: len(attached)]), tuple(follow[len(attached) :])
    return CompactionResult(
        outcome=Outcome.COMPACTED,
        messages=(boundary, *_ordered(state, (*carried, summary), kept, files, hooked)),
        boundary=boundary,
        summary_messages=(*carried, summary),
        kept=kept,
        attachments=files,
        hook_results=hooked,
    )


def _ordered(
    state: State,
    summary: tuple[Item, ...],
    kept: tuple[Item, ...],
    files: tuple[Item, ...],
    hooked: tuple[Item, ...],
) -> tuple[Item, ...]:
    """Summary, kept messages, attachments, hook results (POST-1).

    A kept beginning stands before its summary. Where the kept end has calls whose results are still
    to come, nothing may stand between: attachments go in front of it.
    """
    if state.cut.start > 0:
        return (*kept, *summary, *files, *hooked)
    if core.Ledger(None, kept).open_calls():
        return (*summary, *files, *hooked, *kept)
    return (*summary, *kept, *files, *hooked)


def _info(state: State, after: int) -> BoundaryInfo:
    return BoundaryInfo(
        trigger=state.job.trigger,
        pre_tokens=state.size,
        post_tokens=after or None,
        messages_summarized=state.cut.stop - state.cut.start,
        discovered_tools=state.whole.found_tools,
    )


def _kept_ids(state: State) -> Kept:
    first, last = state.kept()
    names = [name for name in state.source.ids[first:last] if isinstance(name, str)]
    return Kept(tuple(names), before_summary=state.cut.start > 0)


# ---- the account -----------------------------------------------------------------------------


def _reported(
    state: State,
    result: CompactionResult,
    accepted: Accepted,
    fixed: SummaryRepair,
    warnings: list[str],
) -> CompactionResult:
    """The result with its account: ids, sizes before and after, what was appended, warnings."""
    weights = state.job.weights
    estimated = int(core.Ledger(weights, _counted(state, result)).tokens())
    after, messages = state.counted(estimated + state.overhead), state.counted(estimated)
    written = [item for item in result.summary_messages if not is_standing(item)]
    summary = state.counted(int(core.Ledger(weights, written).tokens()))
    first, last = state.kept()
    if fixed.left_out:
        warnings.append(f"facts_left_out:{fixed.left_out}")
    context, ids = state.source.context, state.source.ids
    # In a log what stands is a copy, ahead of the summary.
    whole = {at for at, item in state.known.standing if item is context[at]} - (
        set(range(len(ids))) if state.source.entries else set()
    )
    report = CompactionReport(
        removed=tuple(ids[at] for at in range(state.cut.start, state.cut.stop) if at not in whole),
        kept=tuple(ids[at] for at in sorted({*whole, *range(first, last)})),
        tokens_before=state.size,
        tokens_after=after,
        overhead_tokens=after - messages,
        summary_tokens=summary,
        summarizer=accepted.summarizer,
        attempts=state.tally.attempts,
        usage=state.tally.usage,
        summarizer_failure=state.tally.failure,
        dropped_messages=accepted.dropped,
        facts_appended=dict(fixed.appended),
        warnings=(*warnings, *_size_warnings(state, after, messages, summary)),
    )
    if result.boundary is not None:
        metadata = {**result.boundary["compactMetadata"], "postTokens": after}
        boundary = {**result.boundary, "compactMetadata": metadata}
        ordered = tuple(boundary if item is result.boundary else item for item in result.messages)
        result = replace(result, boundary=boundary, messages=ordered)
    return replace(result, report=report)


def _counted(state: State, result: CompactionResult) -> list[Item]:
    """The new context as the model will see it: attachments rendered, no boundary, no head."""
    if not state.source.entries:
        return list(result.messages[len(result.head) :])
    added = (*result.attachments, *result.hook_results)
    first, last = state.kept()
    kept = state.source.context[first:last]
    return [*result.summary_messages, *kept, *_as_messages([a["attachment"] for a in added])]


def over_target(state: State, messages: int, *, summary: int = 0) -> list[str]:
    """The excess over the target, and what takes the room and cannot be smaller; empty: it is met, or there is none.

    Args:
        state: The job, looked at.
        messages: Tokens of the new context's messages.
        summary: Of those, the summary's.
    """
    target = state.job.target_tokens
    if target is None or messages <= target:
        return []
    host = state.counted(state.known.standing_tokens)
    kept = messages - summary - host
    sizes = {"host_text": host, "kept_messages": kept, "summary": summary}
    whole = ",".join(f"{name}={size}" for name, size in sizes.items() if size > 0)
    return [f"over_target:{messages - target}", f"cannot_shrink:{whole}"]


def _size_warnings(state: State, after: int, messages: int, summary: int) -> list[str]:
    target = state.job.target_tokens
    if target is not None and messages > target:
        warnings = over_target(state, messages, summary=summary)
        return [*warnings, *_whole_results(state, messages - target)]
    limit = state.job.trigger_tokens
    if limit is None:
        return []
    if after >= limit:
        return ["would_trigger_again"]
    low = limit * state.job.policy.auto.max_after_percent // 100
    return ["above_low_mark"] if after > low else []


def _whole_results(state: State, over: int) -> list[str]:
    """What cutting results would have freed if their messages were not lines of a transcript."""
    if not state.source.entries:
        return []
    first, last = state.kept()
    kept = [message_of(item) or {} for item in state.source.context[first:last]]
    _, freed = shorter_results(kept, over, state.measure)
    return [f"results_kept_whole:{freed}"] if freed else []


def _header(state: State, accepted: Accepted) -> list[str]:
    """What later requests need for the provider's compaction item."""
    beta = getattr(state.job.summarizer, "beta", "")
    return [f"needs_beta:{beta}"] if beta and accepted.carried else []


def _pin_warnings(state: State, result: CompactionResult) -> list[str]:
    """A warning for each pin that the summary message does not hold (a redaction can do that)."""
    texts = [text_of(message) for message in result.summary_messages]
    return [f"pin_lost:{pin.name}" for pin in missing_pins(state.pins, texts)]
