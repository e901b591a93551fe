"""Full compaction as one flow: the steps, their order, and their effects.

Nothing of the conversation changes before the last check has passed; the only step that changes
anything outside is `Store`, which is all or nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from ullage.compaction.assemble import over_target, summary_text, weighed
from ullage.compaction.compaction_result import CompactionReport, CompactionResult, Outcome
from ullage.compaction.context_providers import Attachment
from ullage.compaction.floor import LEAST_REMOVED_TOKENS, advice, only_summary, too_little
from ullage.compaction.from_session_notes import remembered
from ullage.compaction.job import Job
from ullage.compaction.prepared import State, prepare, since_last
from ullage.compaction.put_back import rebuild, within
from ullage.compaction.recollection import SESSION_MEMORY
from ullage.compaction.summary_call import Accepted, write_summary
from ullage.compaction.target import LEAST_SUMMARY_TOKENS, frame_tokens
from ullage.effects import Call, Cancelled, Emit, Flow, LetOthersRun, RunHook, Store
from ullage.exceptions import CompactionError, UllageError
from ullage.facts.model import Facts
from ullage.facts.reading import text_of
from ullage.observe.events import (
    CacheReset,
    CompactionFinished,
    CompactionStarted,
    CompactionSummaryWritten,
    HookFinished,
    HookStarted,
)
from ullage.observe.hooks import Hook, HookReply
from ullage.summarizers.budgeted_text import cost

__all__ = ["compaction_flow", "notice_of"]


def compaction_flow(job: Job) -> Flow[CompactionResult]:
    """Compacts a conversation.

    Args:
        job: What and how.

    Returns:
        The result. A manual compaction that fails raises; an automatic one returns the failure.

    Raises:
        CompactionError: By name (FULL-4); nothing has changed.
        InvalidMessage: An item is not a mapping; manual only, like all errors other than `CompactionError`.
        LogConflict: The log changed meanwhile; nothing was written.
        StoreError: The log could not be written.
    """
    if job.disabled:  # checked here for every entry point (WIN-4)
        notice = "Compaction is turned off (DISABLE_COMPACT)."
        return _ended(job, Outcome.BLOCKED, "disabled", user_notice=notice)
    state: State | None = None
    try:
        state = prepare(job)
        result = yield from _compact(state)
    except Exception as exc:
        error = _named(exc)
        result = _ended(job, Outcome.FAILED, _code(error), report=_unchanged(state))
        # A compaction on demand raises its own error; an automatic one never stops the agent's loop.
        told = isinstance(error, CompactionError) or job.trigger == "auto"
        if _code(error) == "aborted" or not (isinstance(error, UllageError) and told):
            yield from _last_words(job, state, result)
            if error is exc:
                raise
            raise error from exc
        result = replace(result, error=error)
    yield from _last_words(job, state, result)
    if result.error is not None and job.trigger == "manual":
        raise result.error
    return result


def _named(exc: Exception) -> Exception:
    if isinstance(exc, Cancelled):
        return CompactionError("aborted", "the compaction was cancelled")
    return exc


def _code(error: Exception) -> str:
    return error.code if isinstance(error, UllageError) else type(error).__name__


def _last_words(job: Job, state: State | None, result: CompactionResult) -> Flow[None]:
    """Emit the end event of what began; too late for a cancel, since the compaction is installed."""
    if state is not None:
        with suppress(Cancelled):
            yield _finished(job, result)


def _ended(job: Job, outcome: Outcome, reason: str, **more: Any) -> CompactionResult:
    return CompactionResult(outcome=outcome, reason=reason, messages=tuple(job.items), **more)


def _unchanged(state: State | None) -> CompactionReport:
    """The report of a compaction that changed nothing: how large the context is, and what was tried."""
    if state is None:
        return CompactionReport()
    tally = state.tally
    return CompactionReport(
        kept=state.source.ids,
        tokens_before=state.size,
        tokens_after=state.size,
        summarizer=tally.summarizer,
        attempts=tally.attempts,
        dropped_messages=tally.dropped,
        usage=tally.usage,
    )


def _finished(job: Job, result: CompactionResult) -> Emit:
    report = result.report
    return Emit(
        CompactionFinished(
            outcome="aborted" if result.reason == "aborted" else result.outcome.value,
            reason=result.reason,
            trigger=job.trigger,
            tokens_before=report.tokens_before,
            tokens_after=report.tokens_after,
            summarizer=report.summarizer,
            facts_appended=sum(report.facts_appended.values()),
            attempts=report.attempts,
            dropped_messages=report.dropped_messages,
            usage=report.usage,
        )
    )


def _compact(state: State) -> Flow[CompactionResult]:
    job = state.job
    yield Emit(_started(state))
    yield LetOthersRun()
    least = LEAST_REMOVED_TOKENS
    if job.target_tokens is not None and state.size > job.target_tokens:
        least = LEAST_REMOVED_TO_FIT
    if state.removed_tokens < least:
        return _no_op(state, "nothing_to_compact")
    if only_summary(state):
        return _no_op(state, "nothing_new")
    if too_little(state, state.removed_tokens):
        return _no_op(state, "frees_too_little")
    hooked = yield from _pre_compact(state)
    if isinstance(hooked, CompactionResult):
        return hooked
    instructions, notices = hooked
    state, accepted, passed = yield from _written(state, instructions)
    result = yield from _built(state, accepted, passed, instructions)
    if not result.compacted:
        return result
    if job.store is not None:
        result = yield Store(result, state.source.ids)
    said = [notice_of(result.report), *notices, result.user_notice]
    result = replace(result, user_notice=" ".join(filter(None, said)))
    return (yield from _after(state, result))


LEAST_REMOVED_TO_FIT = 120
"""Tokens that a summary must replace where a target asks for less than there is."""


def _written(state: State, instructions: str) -> Flow[tuple[State, Accepted, list[str]]]:
    """The text that replaces the old part, with its cut: the session's notes, else a summary; and warnings."""
    passed = ""
    if state.job.memory is not None:
        found = yield from remembered(state, instructions)
        if not isinstance(found, str):
            return *found, []
        passed = found
    accepted = yield from write_summary(state, instructions)
    yield Emit(
        CompactionSummaryWritten(
            summarizer=accepted.summarizer,
            attempts=state.tally.attempts,
            chars=len(accepted.text),
            usage=state.tally.usage,
        )
    )
    return state, accepted, [f"session_memory_passed:{passed}"] if passed else []


def _built(
    state: State, accepted: Accepted, told: list[str], instructions: str
) -> Flow[CompactionResult]:
    """The new context, or the reason why it would not be a gain."""
    job = state.job
    attached, warnings = yield from rebuild(
        job.providers,
        state.facts,
        state.visible if job.providers.read_file is not None else Facts(),
        job.policy.restore,
        state.measure,
        state.kept_items(),
    )
    begun = yield from _told_by(
        job, "SessionStart", job.hooks.session_start, "compact", {"source": "compact"}
    )
    hook_context = begun.texts
    warnings = [*told, *warnings, *begun.warnings]
    result = _put_together(state, accepted, attached, hook_context, warnings)
    for _ in range(MOST_FITTINGS):
        limit = _smaller(state, accepted, result.report)
        if limit is None:
            break
        state = replace(state, summary_limit=limit)
        accepted = yield from write_summary(state, instructions)
        result = _put_together(state, accepted, attached, hook_context, warnings)
    if result.report.tokens_after >= result.report.tokens_before:
        return _no_op(state, "not_smaller")
    if too_little(state, result.report.tokens_before - result.report.tokens_after):
        return _no_op(state, "frees_too_little")
    return replace(result, user_notice=" ".join(begun.notices), stop=begun.stop)


MOST_FITTINGS = 6
"""Times that a summary by code is written again, smaller; one or two suffice for the estimate."""


def _smaller(state: State, accepted: Accepted, report: CompactionReport) -> int | None:
    """How long a summary by code may be to meet the target; `None`: it is met, or no summary would meet it."""
    target = state.job.target_tokens
    over = 0 if target is None else report.tokens_after - target
    size = cost(accepted.text)
    if over <= 0 or not accepted.by_code or size <= LEAST_SUMMARY_TOKENS:
        return None
    limit = state.summary_limit
    if limit is None:
        room = state.summary_room or 0
        limit = max(room - frame_tokens(room), LEAST_SUMMARY_TOKENS)
    # A little more than the size: whole messages went to come below the limit.
    return max(min(limit, size + SLACK_TOKENS) - over - over // 8 - 2, LEAST_SUMMARY_TOKENS)


SLACK_TOKENS = 12


def _put_together(
    state: State,
    accepted: Accepted,
    attached: list[Attachment],
    hook_context: Sequence[tuple[str, str]],
    told: list[str],
) -> CompactionResult:
    job, warnings = state.job, list(told)
    text, fixed = summary_text(state, accepted)
    result = weighed(state, text, attached, hook_context, accepted, fixed, warnings)
    over = result.report.tokens_after - (job.target_tokens or result.report.tokens_after)
    if over > 0 and fixed.text and not accepted.by_code:
        fewer = replace(accepted, facts_tokens=max(cost(fixed.text) - over - over // 8, 0))
        text, fixed = summary_text(state, fewer)
        result = weighed(state, text, attached, hook_context, accepted, fixed, warnings)
    if attached and _too_large(job, accepted, result.report):
        # Better without some of them than not at all.
        warnings.append("attachments_left_out")
        bare = weighed(state, text, [], hook_context, accepted, fixed, warnings)
        room = _most(job, accepted, result.report) - 1 - bare.report.tokens_after
        fitting = within(attached, room, state.measure)
        result = weighed(state, text, fitting, hook_context, accepted, fixed, warnings)
        result = bare if _too_large(job, accepted, result.report) else result
    return result


def _too_large(job: Job, accepted: Accepted, report: CompactionReport) -> bool:
    return report.tokens_after >= _most(job, accepted, report)


def _most(job: Job, accepted: Accepted, report: CompactionReport) -> int:
    """The size from which it is not a gain; notes must also leave room before the next compaction (KEEP-5)."""
    limit = job.trigger_tokens if accepted.summarizer == SESSION_MEMORY else None
    most = report.tokens_before if limit is None else min(limit, report.tokens_before)
    return most if job.target_tokens is None else min(most, job.target_tokens + 1)


def _started(state: State) -> CompactionStarted:
    job = state.job
    turns, previous = since_last(state)
    return CompactionStarted(
        trigger=job.trigger,
        messages=len(state.source.context),
        tokens_before=state.size,
        summarizer=str(getattr(job.summarizer, "name", type(job.summarizer).__name__)),
        recompaction=state.recompaction,
        turns_since=turns if job.turns_since is None else job.turns_since,
        previous_turn_id=job.previous_turn_id or previous,
        threshold_tokens=job.trigger_tokens,
        source=job.source,
    )


def _no_op(state: State, reason: str) -> CompactionResult:
    notice = advice(state, reason)
    report = replace(_unchanged(state), warnings=tuple(over_target(state, state.size)))
    return _ended(state.job, Outcome.NO_OP, reason, report=report, user_notice=notice)


# ---- hooks -----------------------------------------------------------------------------------


def _pre_compact(state: State) -> Flow[CompactionResult | tuple[str, list[str]]]:
    """The instructions of the user, then of the hooks; or the result, if a hook blocks."""
    job = state.job
    instructions: list[str] = [job.instructions.strip()]
    notices: list[str] = []
    for hook in _matching(job.hooks.pre_compact, job.trigger):
        payload = {"trigger": job.trigger, "custom_instructions": job.instructions}
        reply = yield from _run(job, "PreCompact", hook, payload)
        if reply.status == "blocked":
            why = reply.reason or f"hook {hook.name}"
            notice = " ".join(
                filter(None, (f"Compaction blocked: {why}", *notices, reply.user_message))
            )
            stop, report = why if reply.stop else "", _unchanged(state)
            return _ended(
                job, Outcome.BLOCKED, "hook", user_notice=notice, report=report, stop=stop
            )
        if reply.status == "ok":
            instructions.append(reply.text[:MAX_HOOK_INSTRUCTIONS].strip())
            notices.append(reply.user_message)
    return "\n\n".join(filter(None, instructions)), list(filter(None, notices))


MAX_HOOK_INSTRUCTIONS = 4_000
"""Characters of one hook's instructions, so that it cannot crowd out the prompt."""


@dataclass(slots=True)
class _Said:
    """What the hooks of one event said: for the model by hook, for the user, as warnings, and why to stop."""

    texts: list[tuple[str, str]] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    stop: str = ""


def _told_by(
    job: Job, event: str, hooks: Sequence[Hook], name: str, details: Mapping[str, Any]
) -> Flow[_Said]:
    """Run the hooks of an event that can no longer block; one that stops the agent is the last."""
    said = _Said()
    for hook in _matching(hooks, name):
        reply = yield from _run(job, event, hook, details)
        if reply.status in ("failed", "timeout"):
            said.warnings.append(f"hook_{reply.status}:{hook.name}")
        elif reply.text:
            said.texts.append((hook.name, reply.text))
        said.notices += [reply.user_message] if reply.user_message else []
        if reply.stop:
            said.stop = reply.reason or f"hook {hook.name}"
            break
    return said


def _matching(hooks: Sequence[Hook], name: str) -> list[Hook]:
    return [hook for hook in hooks if hook.matcher in ("", "*", name)]


def _run(job: Job, event: str, hook: Hook, details: Mapping[str, Any]) -> Flow[HookReply]:
    payload = {
        "session_id": job.session_id,
        "transcript_path": job.transcript_path,
        "cwd": job.cwd,
        "hook_event_name": event,
        **details,
    }
    yield Emit(HookStarted(event_name=event, hook=hook.name))
    try:
        reply: HookReply = yield RunHook(hook, payload)
    except Cancelled:
        yield Emit(
            HookFinished(event_name=event, hook=hook.name, status="failed", detail="aborted")
        )
        raise
    except Exception as exc:  # a performer that does not catch its own errors
        reply = HookReply(status="failed", reason=f"{type(exc).__name__}: {exc}"[:500])
    detail = reply.reason
    yield Emit(HookFinished(event_name=event, hook=hook.name, status=reply.status, detail=detail))
    return reply


# ---- afterwards ------------------------------------------------------------------------------


def _warned(result: CompactionResult, warning: str) -> CompactionResult:
    report = replace(result.report, warnings=(*result.report.warnings, warning))
    return replace(result, report=report)


def _after(state: State, result: CompactionResult) -> Flow[CompactionResult]:
    """What follows an installed compaction; none of it can undo it."""
    for clean_up in state.job.providers.clean_up:
        try:
            yield Call(clean_up)
        except Cancelled:
            return result
        except (
            Exception
        ) as exc:  # the clean-up is the host's responsibility; the compaction stays installed
            failed = f"clean_up_failed:{type(exc).__name__}"
            result = _warned(result, failed)
    try:
        yield Emit(CacheReset(reason="compaction", details={"trigger": state.job.trigger}))
        job, details = state.job, {"trigger": state.job.trigger, "compact_summary": _said(result)}
        said = yield from _told_by(job, "PostCompact", job.hooks.post_compact, job.trigger, details)
    except Cancelled:
        return result
    for warning in said.warnings:
        result = _warned(result, warning)
    notice = " ".join([result.user_notice, *said.notices])
    return replace(result, user_notice=notice, stop=result.stop or said.stop)


def _said(result: CompactionResult) -> str:
    return "\n\n".join(text_of(item) for item in result.summary_messages)


def notice_of(report: CompactionReport) -> str:
    """The notice to the user about a completed compaction."""
    return (
        f"Compacted {len(report.removed)} messages: about {report.tokens_before:,} tokens before, "
        f"{report.tokens_after:,} after."
    )
