"""The summary call: which request, which retries, when to give up. Part of the compaction flow."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from ullage.compaction.checks import check_reply, error_for, error_in, not_in_source
from ullage.compaction.language import script_of
from ullage.compaction.overflow import HeadTruncation
from ullage.compaction.parts import split_in_parts
from ullage.compaction.plain_messages import plain_messages
from ullage.compaction.prepared import State, room_after
from ullage.compaction.prompt import PLAIN_SYSTEM, compact_instructions, summary_prompt
from ullage.compaction.target import LEAST_SUMMARY_TOKENS, frame_tokens
from ullage.effects import Cancelled, Emit, Flow, LetOthersRun, Summarize, Wait
from ullage.exceptions import CompactionError, InvalidPolicy, MissingExtra
from ullage.facts.reading import flat_text
from ullage.levels import microcompact
from ullage.levels.level import Context
from ullage.levels.pipeline import fresh_states
from ullage.levels.view import View
from ullage.observe.events import CompactionRetried, CompactionSummaryRejected
from ullage.providers.errors import Classified, classify
from ullage.summarizers.budgeted_text import cost
from ullage.summarizers.extractive import DEFAULT_TOKENS, ExtractiveSummarizer, render
from ullage.summarizers.protocol import SummaryReply, SummaryRequest
from ullage.summarizers.streams import PrefixLost

__all__ = ["Accepted", "write_summary"]

BACK_OFF_SECONDS = (2.0, 8.0, 30.0)
"""Seconds before the second, third, … try, if the provider names no time."""

LONGEST_WAIT_SECONDS = 120.0

MARGIN_TOKENS = 1_000
"""Share of a summarizer's window that stays free, since the estimate may be that far off."""

LEAST_PART_TOKENS = 500

SHADOW_TOKENS = 2_000
"""Tokens of Ullage's own summary next to one that only its provider can read: 1 % of a usual window."""

EXTRACTIVE_SHARE = 2
"""A summary may have at most 1/2 of what it replaces: less would not be worth a rewrite."""

LEAST_BESIDE = 60
"""Tokens of a summary besides the newest message of the user: headings, and how many others were left out."""

LEAST_OUTPUT_TOKENS = 300
"""Nine headings with a little text: a shorter summary says nothing."""

FRAME = 150
"""Tokens of the text around a summary."""

Mode: TypeAlias = Literal["shared", "plain", "native"]

_HOPELESS = frozenset({"auth", "malformed_history", "tool_pairing", "thinking_binding"})


@dataclass(frozen=True, slots=True)
class Accepted:
    """A summary that passed the checks; `carried`: messages of the provider's that go in front of it."""

    text: str
    summarizer: str
    attempts: int
    dropped: int
    by_code: bool
    facts_tokens: int | None = None  # most that code may append; `None`: the policy's
    limit: int = 0  # tokens that it could have had, where code wrote it
    carried: tuple[Mapping[str, Any], ...] = ()
    warnings: tuple[str, ...] = ()  # what it says and its source does not


def write_summary(state: State, instructions: str) -> Flow[Accepted]:
    """Get a summary from the job's summarizer, or else from its fallback.

    Raises:
        CompactionError: All failed; the last failure, by name.
    """
    job = state.job
    yield from state.known.collect()
    try:
        return (
            yield from _by(_of_length(job.summarizer, state.summary_limit), state, instructions)
        )
    except CompactionError as exc:
        if job.fallback is None or exc.code == "aborted":
            raise
        state.tally.failure = str(exc)
        yield Emit(CompactionRetried(reason="fallback", attempt=1, summarizer=_name(job.fallback)))
    return (yield from _by(job.fallback, state, instructions))


def _of_length(summarizer: Any, limit: int | None) -> Any:
    """The extractive summarizer, where nobody set its length, as long as a target wants it."""
    usual = _reads_facts_only(summarizer) and summarizer.max_tokens == DEFAULT_TOKENS
    if not usual or limit is None or limit <= DEFAULT_TOKENS:
        return summarizer
    return ExtractiveSummarizer(max_tokens=limit)


def _by(summarizer: Any, state: State, instructions: str) -> Flow[Accepted]:
    """A summary by one summarizer, in parts if the history is too long for its window."""
    parts = (
        [[]]
        if _reads_facts_only(summarizer)
        else _parts(summarizer, state, instructions, (yield from _messages(state)))
    )
    attempts = dropped = 0
    previous = ""
    for number, messages in enumerate(parts, 1):
        call = _Call(summarizer, state, instructions, messages, previous, alone=len(parts) == 1)
        accepted = yield from _in_modes(call)
        attempts += accepted.attempts
        dropped += accepted.dropped
        previous = accepted.text
        if number < len(parts):
            yield Emit(CompactionRetried(reason="part", attempt=number + 1, summarizer=call.name))
    warnings = (
        ()
        if accepted.by_code or accepted.carried
        else _invented(state, accepted.text, instructions)
    )
    return replace(accepted, attempts=attempts, dropped=dropped, warnings=warnings)


def _invented(state: State, text: str, instructions: str) -> tuple[str, ...]:
    whole = state.source.bare(0, len(state.source.context))
    given = "\n".join(flat_text(message) for message in whole)
    return tuple(not_in_source(text, f"{given}\n{instructions}", state.whole))


def _reads_facts_only(summarizer: Any) -> bool:
    """Whether neither messages nor a prompt need to be made for it; a class of its own may read them."""
    return type(summarizer) is ExtractiveSummarizer


def _parts(
    summarizer: Any, state: State, instructions: str, messages: list[Any]
) -> list[list[Any]]:
    window = getattr(summarizer, "window_tokens", None)
    whole = getattr(summarizer, "local", False) is True or _is_native(summarizer)
    if window is None or whole:
        return [messages]
    # A summary of the parts before, as long as it may be, is in the prompt of the next.
    call = _Call(summarizer, state, instructions, messages, "", alone=True)
    room = window - 2 * call.output_tokens() - state.measure(call.prompt()) - MARGIN_TOKENS
    return split_in_parts(messages, max(room, LEAST_PART_TOKENS), state.job.weights)


def _in_modes(call: _Call) -> Flow[Accepted]:
    """Tries the summarizer's call modes in order; all work on the same, perhaps shortened, history."""
    failure = CompactionError("no_summary", f"{call.name}: has no call mode for this conversation")
    job = call.state.job
    share = job.policy.summary.drop_percent
    head = HeadTruncation(call.messages, weights=job.weights, share_percent=share)
    modes = _modes(call)
    for number, mode in enumerate(modes, 1):
        try:
            return (yield from _Caller(call, mode, head, last=number == len(modes)).run())
        except CompactionError as exc:
            if exc.code == "aborted":
                raise
            failure = exc
    raise failure


def _is_native(summarizer: Any) -> bool:
    return "native" in getattr(summarizer, "modes", ())


def _readable(state: State, text: str, carried: Sequence[Any]) -> str:
    """The summary, or in addition to an opaque one a short one by code, for humans and other providers."""
    return render(state.facts, tokens=SHADOW_TOKENS) if carried else text


def _modes(call: _Call) -> tuple[str, ...]:
    """The summarizer's modes, without the shared prefix where it cannot be used.

    A part, and a partial compaction, must not see all of the conversation; after calls that wait for
    their results no message may be appended.
    """
    modes = tuple(getattr(call.who, "modes", ("plain",)))
    source, direction = call.state.source, call.state.job.direction
    if "native" in modes:
        # A transcript has no form for items before a summary, and they may not come after kept messages.
        return modes if call.state.cut.start == 0 and not source.entries else ()
    if "shared" not in modes:
        return modes or ("plain",)
    if call.alone and direction == "full" and not call.state.ledger.open_calls():
        return modes
    return tuple(mode for mode in modes if mode != "shared") or ("plain",)


def _messages(state: State) -> Flow[list[Any]]:
    """What is summarised; on demand with old results that can be fetched again shortened, so that the call covers what matters."""
    source, (start, stop) = state.source, state.cut
    part = plain_messages(source.bare(start, stop, plain=True))
    if state.job.microcompacted or state.job.trigger != "manual":
        return part
    before, after = source.bare(0, start), source.bare(stop, len(source.context))
    view = View(state.job.weights)
    for message in (*before, *part, *after):
        view.add(message)
    view.mark_sent()
    context = Context(
        view=view, policy=state.job.policy, states=fresh_states((microcompact.LEVEL,))
    )
    outcome = microcompact.LEVEL.run(context)
    if isinstance(outcome, Generator):
        yield from outcome
    return view.messages[len(before) : len(before) + len(part)]


def _name(summarizer: Any) -> str:
    return str(getattr(summarizer, "name", type(summarizer).__name__))


@dataclass(frozen=True, slots=True)
class _Call:
    """The input of one summary."""

    who: Any
    state: State
    instructions: str
    messages: list[Any]
    previous: str  # summary of the parts before
    alone: bool  # these are all messages

    @property
    def name(self) -> str:
        return _name(self.who)

    @property
    def local(self) -> bool:
        return getattr(self.who, "local", False) is True

    def prompt(self) -> str:
        """The request, redacted."""
        job, cut = self.state.job, self.state.cut
        if _reads_facts_only(self.who) and not job.template:
            return ""
        kept = cut.stop < len(self.state.source.context)
        scope = "kept" if job.direction == "full" and kept else job.direction
        own = compact_instructions(self.state.source.context)
        text = summary_prompt(
            scope=scope,
            instructions=f"{own}\n\n{self.instructions}",
            previous_summary=self.previous,
            language=script_of(self.state.facts.inputs),
            template=job.template,
        )
        return job.redact(text) if job.redact else text

    def output_tokens(self) -> int:
        """Tokens for the response: the policy's limit, the model's, and for copies a share of their source."""
        most = self.state.job.policy.summary.max_output_tokens
        limit = min(getattr(self.who, "max_output_tokens", None) or most, most)
        state = self.state
        if self.local:
            limit = min(limit, self._most_copied())
            limit = min(limit, max(self._room(), LEAST_OUTPUT_TOKENS))
        if state.summary_limit is not None:
            limit = min(limit, state.summary_limit)
        elif state.summary_room is not None:
            left = state.summary_room - frame_tokens(state.summary_room)
            limit = min(limit, max(left, LEAST_SUMMARY_TOKENS))
        window = getattr(self.who, "window_tokens", None)
        return int(limit if window is None else min(limit, max(window // 4, 1)))

    def _most_copied(self) -> int:
        """For copies: a share of their source, or nearly all of it if a limit was set explicitly."""
        removed = self.state.removed_tokens
        most = getattr(self.who, "max_tokens", DEFAULT_TOKENS)
        told = self.state.job.target_tokens is not None or most != DEFAULT_TOKENS
        return max(removed * 9 // 10 if told else removed // EXTRACTIVE_SHARE, 1)

    def _room(self) -> int:
        """What remains after the kept part, so that the next compaction comes late (P-8)."""
        state = self.state
        return room_after(state.job, state.overhead) - (state.tokens - state.removed_tokens) - FRAME


class _Caller:
    """Calls one summarizer in one mode until a response is good or its tries are used up."""

    def __init__(self, call: _Call, mode: str, head: HeadTruncation, *, last: bool) -> None:
        self._call, self._mode, self._head, self._last = call, mode, head, last
        self._state, self._local = call.state, call.local
        self._policy = call.state.job.policy.summary
        self._attempt = self._errors = 0

    def run(self) -> Flow[Accepted]:
        """The summary.

        Raises:
            CompactionError: No try was good.
        """
        while True:
            self._attempt += 1
            tally = self._state.tally
            tally.asked(self._call.name, self._head.dropped)
            try:
                reply = yield Summarize(self._request(), self._call.who)
            except Cancelled as exc:
                raise CompactionError("aborted", "the compaction was cancelled") from exc
            except (InvalidPolicy, MissingExtra):
                raise  # an error of the caller, not of the model
            except Exception as exc:
                yield from self._failed(exc)
                continue
            tally.answered(reply)
            yield LetOthersRun()
            refused = None if self._local else error_in(_text_of(reply))
            if refused is not None:
                yield from self._failed(RuntimeError(refused))
                continue
            text, problems = self._checked(reply)
            if not problems:
                told = (self._call.name, self._attempt, self._head.dropped, self._local)
                carried = getattr(reply, "carried", ())
                text, limit = _readable(self._state, text, carried), self._call.output_tokens()
                return Accepted(text, *told, carried=carried, limit=limit)
            yield from self._rejected(problems)

    def _checked(self, reply: Any) -> tuple[str, tuple[str, ...]]:
        if isinstance(reply, str):
            reply = SummaryReply(text=reply)
        if not isinstance(reply, SummaryReply):
            raise InvalidPolicy("summarizer", type(reply).__name__, "must answer with text")
        if self._local:
            # Copies and counts need no checks; whether they pay is decided for the result as a whole.
            return reply.text, ()
        if reply.carried:
            return reply.text, ()  # signed or encrypted: it is used unchanged, or not at all
        return check_reply(
            reply,
            source_chars=max(_chars(self._call.messages) + len(self._call.previous), 1),
            nine_sections=not self._state.job.template,
            script=script_of(self._state.whole.inputs) if self._state.whole.inputs else None,
        )

    @property
    def _shared(self) -> bool:
        """Whether the next call shares the main loop's prefix; not once messages were dropped."""
        return self._mode == "shared" and not self._head.dropped

    @property
    def _native(self) -> bool:
        """Whether the provider compacts by itself: what it does not see would be lost."""
        return self._mode == "native"

    def _messages(self) -> Sequence[Mapping[str, Any]]:
        source, cut = self._state.source, self._state.cut
        if self._native:
            return source.bare(cut.start, cut.stop)
        return source.bare(0, len(source.context)) if self._shared else self._head.messages

    def _request(self) -> SummaryRequest:
        state, policy = self._state, self._policy
        mode: Mode = "native" if self._native else "shared" if self._shared else "plain"
        return SummaryRequest(
            messages=self._redacted(self._messages()),
            prompt=self._call.prompt(),
            mode=mode,
            system=PLAIN_SYSTEM if mode == "plain" else None,
            max_output_tokens=self._call.output_tokens(),
            facts=state.facts,
            instructions=self._call.instructions,
            user_messages_tokens=policy.user_messages_max_tokens,
            newest_apart=self._newest_apart(),
            deadline_seconds=policy.deadline_seconds,
            stall_seconds=policy.stall_seconds,
            attempt=self._attempt,
        )

    def _newest_apart(self) -> bool:
        """Whether the newest message stands after the summary: always after a model's, whose list may not have it whole."""
        newest = self._state.situation().newest_input
        if not newest or not self._local:
            return bool(newest)
        room, words = self._call.output_tokens(), cost(newest)
        return words * 2 > room if self._state.target is None else words + LEAST_BESIDE > room

    def _redacted(self, messages: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
        redact = self._state.job.redact
        if redact is None:
            return tuple(messages)
        return tuple(_map_text(message, redact) for message in messages)

    def _failed(self, exc: Exception) -> Flow[None]:
        found = classify(exc)
        # Too many bytes are usually media, which a plain call leaves out: nothing needs to be dropped.
        bytes_only = self._shared and found.kind == "overflow_bytes"
        if found.is_overflow and not bytes_only:
            yield from self._overflow(found.gap_tokens)
            return
        self._errors += 1
        hopeless = bytes_only or found.kind in _HOPELESS or isinstance(exc, PrefixLost)
        if self._errors > self._policy.retries or self._local or hopeless:
            text = f"{self._call.name}: the call failed: {type(exc).__name__}: {exc}"
            raise CompactionError("api_error", text[:500]) from exc
        seconds = _pause(found, self._errors)
        yield self._retried(_REASONS.get(found.kind, "error"), wait_seconds=seconds)
        yield from _wait(seconds)

    def _overflow(self, gap_tokens: int | None) -> Flow[None]:
        before = self._head.dropped
        self._head.overflows += 1
        tried = self._native or self._head.overflows > self._policy.overflow_retries
        if tried or not self._head.shrink(gap_tokens):
            raise self._too_long()
        yield self._retried("overflow", dropped_messages=self._head.dropped - before)
        if self._mode == "shared" and not self._last:
            # Without its oldest messages nothing of the prefix is shared: the plain call takes over from here.
            raise self._too_long()

    def _too_long(self) -> CompactionError:
        return CompactionError(
            "prompt_too_long",
            f"{self._call.name}: the conversation is too long for the summary call",
            hint="use a summarizer with a larger window, or the extractive one",
        )

    def _rejected(self, problems: tuple[str, ...]) -> Flow[None]:
        yield Emit(CompactionSummaryRejected(summarizer=self._call.name, problems=problems))
        if problems[0] == "overflow":
            yield from self._overflow(None)
            return
        self._errors += 1
        # After a bad response the shared prefix is not tried again: the plain call asks differently.
        if self._errors > self._policy.retries or self._local or self._shared:
            raise error_for(problems[0], self._call.name)
        yield self._retried("rejected")

    def _retried(self, reason: str, **details: Any) -> Emit:
        return Emit(
            CompactionRetried(
                reason=reason, attempt=self._attempt + 1, summarizer=self._call.name, **details
            )
        )


def _text_of(reply: Any) -> str:
    return reply if isinstance(reply, str) else str(getattr(reply, "text", ""))


_REASONS = {"rate_limit": "rate_limit", "overloaded": "overloaded"}


def _pause(found: Classified, errors: int) -> float:
    told = found.retry_after_seconds
    if told is None:
        told = BACK_OFF_SECONDS[min(errors, len(BACK_OFF_SECONDS)) - 1]
    return min(max(told, 0.0), LONGEST_WAIT_SECONDS)


def _wait(seconds: float) -> Flow[None]:
    try:
        yield Wait(seconds)
    except Cancelled as exc:
        raise CompactionError("aborted", "the compaction was cancelled") from exc


def _chars(messages: Sequence[Mapping[str, Any]]) -> int:
    return sum(len(flat_text(message.get("content"))) for message in messages)


def _map_text(value: Any, change: Any, depth: int = 0) -> Any:
    """A copy with each string under a `text`, `content` or `input` key changed; signatures stay."""
    if depth > 40 or not isinstance(value, Mapping):
        return value
    out = {}
    for key, part in value.items():
        if key in ("type", "id", "role", "signature", "data", "tool_use_id", "name", "source"):
            out[key] = part
        elif isinstance(part, str):
            out[key] = change(part)
        elif isinstance(part, list):
            out[key] = [
                change(p) if isinstance(p, str) else _map_text(p, change, depth + 1) for p in part
            ]
        else:
            out[key] = _map_text(part, change, depth + 1)
    return out
