"""Full compaction as one flow: the steps, their order, and their effects.

Nothing of the conversation changes before the last check has passed; the only step that changes
anything outside is the call of `Job.store`, which is all or nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from ullage.compaction.assemble import (
    LEAST_REMOVED_TOKENS,
    advice,
    answer_room,
    check_target,
    only_summary,
    over_target,
    parts_of_target,
    summary_text,
    target_too_small,
    too_little,
    weighed,
)
from ullage.compaction.cut import (
    Cut,
    State,
    after_item,
    keep_of,
    kept_share,
    later_cut,
    must_stay,
    prepare,
    recut,
    room_after,
    since_last,
    whole_turn,
    window_start,
    with_more_kept,
    with_results_within,
    within_share,
)
from ullage.compaction.effects_runner import Attachment
from ullage.compaction.job import (
    SESSION_MEMORY,
    CompactionReport,
    CompactionResult,
    Job,
    Memory,
    Outcome,
)
from ullage.compaction.restore import rebuild, within
from ullage.compaction.summary_call import Accepted, name_of, write_summary
from ullage.effects import Call, Cancelled, Emit, Flow, LetOthersRun, RunHook
from ullage.exceptions import CompactionError, UllageError
from ullage.facts.model import Facts
from ullage.facts.sections import BRIEF_OPENING, CLOSING, NOTES_OPENING, OPENING
from ullage.facts.words import summary_text as text_of_summary, text_of
from ullage.observe.events import (
    CacheReset,
    CompactionFinished,
    CompactionStarted,
    CompactionSummaryWritten,
    HookFinished,
    HookStarted,
)
from ullage.observe.hooks import Hook, HookReply
from ullage.providers.anthropic import is_manual
from ullage.summarizers.budgeted_text import cost
from ullage.summarizers.extractive import DEFAULT_TOKENS, needed_tokens


def compaction_flow(job: Job) -> Flow[CompactionResult]:
    """Compacts a conversation; a manual compaction that fails raises, an automatic one returns the failure.

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
        error: Exception = exc
        if isinstance(exc, Cancelled):
            error = CompactionError("aborted", "the compaction was cancelled")
        code = error.code if isinstance(error, UllageError) else type(error).__name__
        result = _ended(job, Outcome.FAILED, code, report=_unchanged(state))
        # A compaction on demand raises its own error; an automatic one never stops the agent's loop.
        expected = isinstance(error, CompactionError) or job.trigger == "auto"
        if code == "aborted" or not (isinstance(error, UllageError) and expected):
            yield from _last_words(job, state, result)
            if error is exc:
                raise
            raise error from exc
        result = replace(result, error=error)
    yield from _last_words(job, state, result)
    if result.error is not None and job.trigger == "manual":
        raise result.error
    return result


def _last_words(job: Job, state: State | None, result: CompactionResult) -> Flow[None]:
    """Emit the end event of what began; too late for a cancel, since the compaction is installed."""
    if state is None:
        return
    report = result.report
    event = CompactionFinished(
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
    with suppress(Cancelled):
        yield Emit(event)


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
        overhead_tokens=state.counted(state.overhead),
        summarizer=tally.summarizer,
        attempts=tally.attempts,
        dropped_messages=tally.dropped,
        usage=tally.usage,
        summarizer_failure=tally.failure,
    )


def _compact(state: State) -> Flow[CompactionResult]:
    job = state.job
    yield Emit(_started(state))
    yield LetOthersRun()
    state, unmet = _with_target(state)
    least = 1 if over_target(state, state.counted(state.tokens)) else LEAST_REMOVED_TOKENS
    if state.removed_tokens + state.freed_tokens < least:
        return _no_op(state, "nothing_to_compact")
    if only_summary(state):
        return _no_op(state, "nothing_new")
    if too_little(state, state.counted(state.removed_tokens)):
        return _no_op(state, "frees_too_little")
    hooked = yield from _pre_compact(state)
    if isinstance(hooked, CompactionResult):
        return hooked
    instructions, notices, hook_warnings = hooked
    state, accepted, passed = yield from _written(state, instructions)
    warnings = [*unmet, *hook_warnings, *passed]
    result = yield from _built(state, accepted, warnings, instructions)
    if not result.compacted:
        return result
    if job.store is not None:
        result = yield Call(job.store, (result, state.source.ids))
    report = result.report
    notice = (
        f"Compacted {len(report.removed)} messages: about {report.tokens_before:,} tokens before, "
        f"{report.tokens_after:,} after."
    )
    notice_parts = [notice, *notices, result.user_notice]
    result = replace(result, user_notice=" ".join(filter(None, notice_parts)))
    return (yield from _after(state, result))


def _started(state: State) -> CompactionStarted:
    job, (turns, previous) = state.job, since_last(state)
    return CompactionStarted(
        trigger=job.trigger,
        messages=len(state.source.context),
        tokens_before=state.size,
        summarizer=name_of(job.summarizer),
        recompaction=state.recompaction,
        turns_since=turns if job.turns_since is None else job.turns_since,
        previous_turn_id=job.previous_turn_id or previous,
        threshold_tokens=job.trigger_tokens,
        source=job.source,
    )


WORK_TOKENS = 300
"""What an automatic compaction has next to what must stay: without it there is no word about the work. No more: a larger target would give less."""


def _with_target(state: State) -> tuple[State, list[str]]:
    """The job, with a warning where its target had to be raised: the agent's loop needs room in any case.

    Raises:
        ContextTooLarge: A target that cannot be met, where somebody asked for it.
    """
    warnings = [f"usage_set_aside:{state.untrue_usage}"] if state.untrue_usage else []
    if state.job.trigger == "manual":
        check_target(state)
        return state, warnings
    target, least = state.job.target_tokens or 0, sum(parts_of_target(state).values())
    raised = least + min(target, WORK_TOKENS)
    if not least or raised <= target:
        return state, warnings
    job = replace(state.job, target_tokens=raised)
    return prepare(job), [*warnings, f"target_too_small:{least}"]


def _written(state: State, instructions: str) -> Flow[tuple[State, Accepted, list[str]]]:
    """The text that replaces the old part, with its cut: the session's notes, else a summary; and warnings."""
    passed = ""
    if state.job.memory is not None:
        # What hooks add is for a summary; where the notes suffice, none is written.
        notes = yield from _by_notes(state, state.job.memory)
        if not isinstance(notes, str):
            return *notes, []
        passed = notes
    if state.target is not None and getattr(state.job.summarizer, "local", False) is not True:
        yield from state.facts.collect()
        state = replace(state, summary_limit=answer_room(state))
    accepted = yield from write_summary(state, instructions)
    yield Emit(
        CompactionSummaryWritten(
            summarizer=accepted.summarizer,
            attempts=state.tally.attempts,
            chars=len(accepted.text),
            usage=state.tally.usage,
        )
    )
    warnings = [f"session_memory_passed:{passed}"] if passed else []
    return state, accepted, [*warnings, *accepted.warnings]


def _built(
    state: State, accepted: Accepted, earlier_warnings: list[str], instructions: str
) -> Flow[CompactionResult]:
    """The new context, or the reason why it would not be a gain."""
    job = state.job
    attached, warnings = yield from rebuild(
        job.providers,
        state.facts.removed,
        state.facts.still_shown if job.providers.read_file is not None else Facts(),
        job.policy.restore,
        state.measure,
        state.kept_items(),
    )
    hooks, source = job.hooks.session_start, {"source": "compact"}
    begun = yield from _hook_replies(job, "SessionStart", hooks, "compact", source)
    warnings = [*earlier_warnings, *warnings, *begun.warnings]

    def put_together(state: State, accepted: Accepted) -> CompactionResult:
        return _put_together(state, accepted, attached, begun.texts, warnings)

    result = put_together(state, accepted)
    search = _Search()
    for _ in range(MOST_FITTINGS):
        another = search.next_try(state, accepted, result)
        if another is None:
            break
        state = another
        accepted = yield from write_summary(state, instructions)
        result = put_together(state, accepted)
    result = search.best or result
    if not accepted.by_code and job.target_tokens is not None:
        # What a model's summary leaves of a target is for more of the messages: nobody is asked again.
        for _ in range(MOST_FITTINGS):
            another = search.more_kept(state, result)
            if another is None or _over(job, fuller := put_together(another, accepted)) > 0:
                break
            state, result = another, fuller
    if not accepted.by_code and (over := _over(job, result)) > 0:
        # It was paid for: results give way before it does, where it is longer than it was asked to be.
        share = state.kept_tokens - state.facts.standing_tokens - over
        state = with_results_within(state, share)
        result = put_together(state, accepted)
    if not state.removed_tokens and over_target(state, result.report.messages_after):
        return _no_op(state, "nothing_to_compact")  # shortened results alone are not enough
    _hold(state, accepted, result.report)
    freed = state.counted(state.tokens + state.overhead) - result.report.tokens_after
    if freed <= 0:
        return _no_op(state, "not_smaller")
    if too_little(state, freed):
        return _no_op(state, "frees_too_little")
    return replace(result, user_notice=" ".join(begun.notices), stop=begun.stop)


# Times that a summary by code is written again for a target; two or three suffice as a rule.
MOST_FITTINGS = 8
FILLED_PERCENT = 95  # of a target: from here on it is filled
AIMED_PERCENT = 98  # of it, at which a guess of the length aims
SMALL_TARGET = 1_000  # tokens; below it a short turn can be a twentieth of the target
WORTH_PERCENT = 90  # of what a summary replaces: one that is longer frees too little


@dataclass(slots=True)
class _Search:
    """The search for the summary by code that fills a target, and for how much stays verbatim next to it.

    With one cut, its length is looked for between the longest that fitted and the shortest that did not. Where length is
    not what decides, the cut changes, and the search for a length begins again: less is kept where no shorter summary
    can be written, more where it has said all that there is to say.
    """

    best: CompactionResult | None = None  # the fullest of those that fit
    low: int = 0  # the longest limit with which it fits; 0: none yet
    low_used: int = 0  # tokens of the messages with it
    high: int = 0  # below it is looked first: the least length of a text that did not fit, or `over`; 0: none yet
    over: int = 0  # the shortest limit with which it did not fit; 0: none yet

    def next_try(self, state: State, accepted: Accepted, result: CompactionResult) -> State | None:
        """The job of the next try; `None`: this one is right, or no other would be better."""
        target, used = state.job.target_tokens, result.report.messages_after
        whole = state.counted(state.tokens)
        most = whole * WORTH_PERCENT // 100
        if not accepted.by_code or (target is None and used <= most):
            return None
        most = most if target is None else min(target, most)
        # In a small one the next turns need room, else each of them would begin with another compaction.
        aim = most if most >= SMALL_TARGET else most * FILLED_PERCENT // 100
        free = (aim - used) * 1000 // state.job.permille
        size = cost(accepted.text)
        if used > most:
            if accepted.limit <= accepted.least:
                return self._with_less_kept(state, -free)
            # A limit that was not used up is not what made it long.
            begin = min(size, accepted.limit)
            self.high = min(self.high or begin, begin)
            self.over = min(self.over or accepted.limit, accepted.limit)
        else:
            if self.best is None or used > self.best.report.messages_after:
                self.best = result
            if used * 100 >= aim * FILLED_PERCENT or (target is not None and whole <= target):
                return None  # filled, or all of it would have fitted
            # A small step may say no more, though a larger one would; without an upper bound steps are large.
            said_more = not self.low or self.high or used > self.low_used
            longer = accepted.left_out and said_more
            if not longer or accepted.limit >= DEFAULT_TOKENS:
                more = self._with_more_kept(state, free, accepted.limit)
                # The lines of a transcript stay as they are: where none of them fits, the room is for excerpts.
                excerpts = more is None and bool(state.source.entries) and target is not None
                if more is not None or not (longer or (excerpts and not state.excerpts)):
                    return more
                state = replace(state, excerpts=state.excerpts or excerpts)
            # Without excerpts it may have been shorter than it was allowed to be.
            begin = max(size, accepted.limit) if longer else size
            step, gain = begin - self.low, used - self.low_used
            slow = self.low and not self.high and gain > 0
            self.low, self.low_used = max((self.low, self.low_used), (begin, used))
            if slow and step > 2 * gain:  # a longer limit adds less than half of its length
                return self._limited(state, begin + (aim - used) * step // gain, aim)
        # What is added can have more tokens for its length than what stands there; without a target nothing is to be filled.
        to_fill = size if target is None else most
        short = to_fill * (100 - AIMED_PERCENT) * 10 // state.job.permille
        guess = begin + size * (free - short) // max(state.measure(accepted.text), 1)
        return self._limited(state, guess, aim)

    def _limited(self, state: State, guess: int, aim: int) -> State | None:
        """The same with another limit; more of the messages where none fills the target."""
        limit = self._between(guess)
        if limit is not None:
            return replace(state, summary_limit=limit)
        # No length fills it with this cut: what is free next to the longest that fits may be enough for more of the messages.
        spare = (aim - self.low_used) * 1000 // state.job.permille
        filled = not self.low or self.low_used * 100 >= aim * FILLED_PERCENT
        return None if filled else self._with_more_kept(state, spare, self.low)

    def more_kept(self, state: State, result: CompactionResult) -> State | None:
        """The job with more of the messages next to a summary that stays as it is; `None`: the target is filled, or none fits."""
        target = min(
            state.job.target_tokens or 0, state.counted(state.tokens) * WORTH_PERCENT // 100
        )
        free = target - result.report.messages_after
        if free * 100 <= target * (100 - FILLED_PERCENT):
            return None
        return self._with_more_kept(state, free * 1000 // state.job.permille, None)

    def _between(self, guess: int) -> int | None:
        """The next limit: the guess, within the bounds; `None`: they have met."""
        low, high = self.low, self.high
        if not high:
            return max(guess, low + 1)
        if low and (high - low) * 50 < high:
            if (self.over - low) * 50 < self.over:
                return None
            # A text can be shorter than its limit: one between the two can still fit.
            self.high = self.over
            return (low + self.over) // 2
        return max(min(guess, high - 1), low + 1)

    def _again(self, state: State | None, limit: int | None) -> State | None:
        """The search for a length, with another cut."""
        self.low = self.high = self.over = 0
        return state and replace(state, summary_limit=limit)

    def _with_less_kept(self, state: State, over: int) -> State | None:
        """The same with less of the messages; without a target as much stays as was asked for."""
        if state.job.target_tokens is None or state.job.direction != "full":
            return None
        share = state.kept_tokens - state.facts.standing_tokens - over - 1
        less = within_share(state, max(share, 0))
        return self._again(less, None) if less.kept_tokens < state.kept_tokens else None

    def _with_more_kept(self, state: State, free: int, limit: int | None) -> State | None:
        """The same with more of the newest messages, where the policy decides how many stay."""
        if state.job.keep is not None or state.job.direction != "full":
            return None
        share = state.kept_tokens - state.facts.standing_tokens + free
        if state.target is not None:
            # No more than twice the target would keep: what that says must not stand for less.
            share = min(share, kept_share(2 * state.target, needed_tokens(state.facts.removed)))
        if state.freed_tokens:
            longer = with_results_within(state, share)
            return self._again(longer if longer.kept_tokens > state.kept_tokens else None, limit)
        more = with_more_kept(state, share)
        return self._again(more, None) if more and more.kept_tokens > state.kept_tokens else None


def _hold(state: State, accepted: Accepted, report: CompactionReport) -> None:
    """Refuse a result that is over a target that somebody asked for: nothing has changed yet.

    Raises:
        CompactionError: `incomplete_summary`: a summary that code did not write is too long.
        ContextTooLarge: What else is in it is too much; names the size that was reached.
    """
    target, manual = state.job.target_tokens, state.job.trigger == "manual"
    if target is None or report.messages_after <= target or not manual:
        return
    if state.counted(state.tokens) <= target:
        return  # it is no gain either, and all stays as it is
    if not accepted.by_code:
        too_long = f"{accepted.summarizer}: its summary of {report.summary_tokens:,} tokens is too long for the target of {target:,}"
        hint = "a larger target, or no summarizer: code writes to any length"
        raise CompactionError("incomplete_summary", too_long, hint=hint)
    parts = {"summary": report.summary_tokens}
    parts["kept and restored messages"] = report.messages_after - report.summary_tokens
    raise target_too_small(report.messages_after, target, parts)


def _put_together(
    state: State,
    accepted: Accepted,
    attached: list[Attachment],
    hook_context: Sequence[tuple[str, str]],
    earlier_warnings: list[str],
) -> CompactionResult:
    job, warnings = state.job, list(earlier_warnings)
    text, fixed = summary_text(state, accepted)
    result = weighed(state, text, attached, hook_context, accepted, fixed, warnings)
    over = _over(job, result)
    # Code adds fewer facts to a model's summary, then only the rules.
    for most in (cost(fixed.text) - over - over // 8, 0):
        if over > 0 and fixed.text and not accepted.by_code:
            text, fixed = summary_text(state, accepted._replace(facts_tokens=max(most, 0)))
            result = weighed(state, text, attached, hook_context, accepted, fixed, warnings)
            over = _over(job, result)
    if attached and _too_large(job, accepted, result.report):
        # Better without some of them than not at all.
        warnings.append("attachments_left_out")
        bare = weighed(state, text, [], hook_context, accepted, fixed, warnings)
        room = _most(job, accepted, bare.report) - 1 - bare.report.tokens_after
        fitting = within(attached, room, state.measure)
        result = weighed(state, text, fitting, hook_context, accepted, fixed, warnings)
        result = bare if _too_large(job, accepted, result.report) else result
    return result


def _over(job: Job, result: CompactionResult) -> int:
    """Tokens by which it exceeds the target, negative where it has fewer; 0 also without a target."""
    return 0 if job.target_tokens is None else result.report.messages_after - job.target_tokens


def _too_large(job: Job, accepted: Accepted, report: CompactionReport) -> bool:
    return report.tokens_after >= _most(job, accepted, report)


def _most(job: Job, accepted: Accepted, report: CompactionReport) -> int:
    """The size from which it is not a gain; notes must also leave room before the next compaction (KEEP-5)."""
    limit = job.trigger_tokens if accepted.summarizer == SESSION_MEMORY else None
    most = report.tokens_before if limit is None else min(limit, report.tokens_before)
    target = job.target_tokens
    return most if target is None else min(most, target + report.overhead_tokens + 1)


def _no_op(state: State, reason: str) -> CompactionResult:
    notice = advice(state, reason)
    over = over_target(state, state.counted(state.tokens))
    report = replace(_unchanged(state), warnings=tuple(over))
    return _ended(state.job, Outcome.NO_OP, reason, report=report, user_notice=notice)


# ---- by the session's notes --------------------------------------------------------------------

# Notes may have at most this share of what they replace: else a rewrite would not be worth it.
MOST_NOTES_PERCENT = 50
# The notes may be cut to half to fit a small window; if not even that fits, a summary is better.
LEAST_NOTES_SHARE = 2
NOTES_FRAME_TOKENS = 300  # the text of the summary message around the notes


def _by_notes(state: State, memory: Memory) -> Flow[tuple[State, Accepted] | str]:
    """The cut and the text of a compaction without a summary call, or why a summary is needed.

    The keeper of the notes says how far they reach; how much of the conversation stays with them is decided here.
    """
    if state.job.instructions.strip():
        return "instructions"  # only a summary can follow them
    if state.job.direction != "full":
        return "partial"
    notes = yield from memory.recall_flow(state.source.stored, state.measure)
    if isinstance(notes, str):
        return notes
    # So that the next compaction comes late (P-8), within the target; `None`: unknown.
    most = [] if state.job.trigger_tokens is None else [room_after(state.job, state.overhead)]
    most += [] if state.target is None else [state.target]
    room = min(most) - NOTES_FRAME_TOKENS if most else None
    cut = Cut(0, _kept_with_notes(state, notes.start, room))
    state = recut(state, after_item(state.source, state.ledger, cut))
    text = _framed(notes.text(None))
    size = state.measure(text)
    left = size if room is None else room - (state.tokens - state.removed_tokens)
    if left < size:
        least = size // LEAST_NOTES_SHARE
        # Where a section is cut it says so, which takes a little room again.
        text = _framed(notes.text(max(left * 9 // 10, 0)))
        size = state.measure(text)
        if left < least or size > left:
            return "too_much_kept"
    if size > state.removed_tokens * MOST_NOTES_PERCENT // 100:
        return "not_smaller"
    facts = None if room is None else left - size
    return state, Accepted(text, SESSION_MEMORY, 0, by_code=False, facts_tokens=facts)


def _kept_with_notes(state: State, start: int, room: int | None) -> int:
    """KEEP-1 to KEEP-3: from the first message that is not in the notes, back until enough stays."""
    source, ledger, job = state.source, state.ledger, state.job
    # Not before the newest summary, if the notes have absorbed that too.
    summaries = [at for at in range(start) if text_of_summary(source.context[at])]
    last = min(start, must_stay(source, ledger))
    floor = summaries[-1] + 1 if summaries else 0
    first = window_start(ledger, last, keep_of(job), floor=floor)
    if room is not None:
        first = later_cut(ledger, first, last, room * 3 // 4)  # a quarter is for the notes
    if not is_manual(job.thinking):
        return first
    # A turn whose calls wait for results cannot be ended by code.
    most = None if ledger.open_calls() else room
    return whole_turn(source, ledger, first, most, last=start)


_MARKS = re.compile(
    "|".join(re.escape(mark) for mark in (BRIEF_OPENING, OPENING, CLOSING, NOTES_OPENING))
    + r"|</?system-reminder\b",
    re.IGNORECASE,
)

_BROKEN = str.maketrans({"[": "(", "]": ")", "<": "‹"})


def _framed(notes: str) -> str:
    """Notes after their opening, defused so that they can neither end their frame nor imitate the host."""

    def broken(mark: re.Match[str]) -> str:
        text = mark[0].translate(_BROKEN)
        return text[0].lower() + text[1:]

    return f"{NOTES_OPENING}\n\n{_MARKS.sub(broken, notes)}"


# ---- hooks -----------------------------------------------------------------------------------


def _pre_compact(state: State) -> Flow[CompactionResult | tuple[str, list[str], list[str]]]:
    """The instructions of the user, then of the hooks, with notices and warnings; or the result, if a hook blocks."""
    job = state.job
    instructions, notices, warnings = [job.instructions.strip()], list[str](), list[str]()
    for hook in _matching(job.hooks.pre_compact, job.trigger):
        payload = {"trigger": job.trigger, "custom_instructions": job.instructions}
        reply = yield from _run(job, "PreCompact", hook, payload)
        if reply.status == "blocked":
            why = reply.reason or f"hook {hook.name}"
            parts = (f"Compaction blocked: {why}", *notices, reply.user_message)
            more = {"user_notice": " ".join(filter(None, parts)), "stop": why if reply.stop else ""}
            return _ended(job, Outcome.BLOCKED, "hook", report=_unchanged(state), **more)
        if reply.status == "ok":
            instructions.append(reply.text[:MAX_HOOK_INSTRUCTIONS].strip())
            notices.append(reply.user_message)
        else:
            warnings.append(f"hook_{reply.status}:{hook.name}")
    return "\n\n".join(filter(None, instructions)), list(filter(None, notices)), warnings


# Characters of one hook's instructions, so that it cannot crowd out the prompt.
MAX_HOOK_INSTRUCTIONS = 4_000


@dataclass(slots=True)
class _HookReplies:
    """What the hooks of one event said: for the model by hook, for the user, as warnings, and why to stop."""

    texts: list[tuple[str, str]] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    stop: str = ""


def _hook_replies(
    job: Job, event: str, hooks: Sequence[Hook], name: str, details: Mapping[str, Any]
) -> Flow[_HookReplies]:
    """Run the hooks of an event that can no longer block; one that stops the agent is the last."""
    replies = _HookReplies()
    for hook in _matching(hooks, name):
        reply = yield from _run(job, event, hook, details)
        if reply.status in ("failed", "timeout"):
            replies.warnings.append(f"hook_{reply.status}:{hook.name}")
        elif reply.text:
            replies.texts.append((hook.name, reply.text))
        replies.notices += [reply.user_message] if reply.user_message else []
        if reply.stop:
            replies.stop = reply.reason or f"hook {hook.name}"
            break
    return replies


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


def _warned(result: CompactionResult, *warnings: str) -> CompactionResult:
    report = replace(result.report, warnings=(*result.report.warnings, *warnings))
    return replace(result, report=report)


def _after(state: State, result: CompactionResult) -> Flow[CompactionResult]:
    """What follows an installed compaction; none of it can undo it."""
    job = state.job
    for clean_up in job.providers.clean_up:
        try:
            yield Call(clean_up)
        except Cancelled:
            return result
        except Exception as exc:  # it is the host's responsibility; the compaction stays installed
            result = _warned(result, f"clean_up_failed:{type(exc).__name__}")
    try:
        yield Emit(CacheReset(reason="compaction", details={"trigger": job.trigger}))
        summary = "\n\n".join(text_of(item) for item in result.summary_messages)
        details = {"trigger": job.trigger, "compact_summary": summary}
        hooks = job.hooks.post_compact
        replies = yield from _hook_replies(job, "PostCompact", hooks, job.trigger, details)
    except Cancelled:
        return result
    if replies.warnings:
        result = _warned(result, *replies.warnings)
    notice = " ".join([result.user_notice, *replies.notices])
    return replace(result, user_notice=notice, stop=result.stop or replies.stop)
