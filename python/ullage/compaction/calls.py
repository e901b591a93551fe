"""The summary call: which request, which retries, when to give up. Part of the compaction flow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ullage.compaction.checks import check_reply, error_for
from ullage.compaction.overflow import HeadTruncation
from ullage.compaction.prompt import PLAIN_SYSTEM, summary_prompt
from ullage.compaction.state import State
from ullage.effects import Cancelled, Emit, Flow, Summarize, Wait
from ullage.events import CompactionRetried, CompactionSummaryRejected
from ullage.exceptions import CompactionError, InvalidPolicy, MissingExtra
from ullage.facts.reading import flat_text
from ullage.media import strip_media
from ullage.providers.overflow import Classified, classify
from ullage.summarizers.protocol import SummaryReply, SummaryRequest

__all__ = ["Accepted", "write_summary"]

BACK_OFF_SECONDS = (2.0, 8.0, 30.0)
"""Before the second, third, … try, where the provider names no time."""

LONGEST_WAIT_SECONDS = 120.0

EXTRACTIVE_SHARE = 2
"""A summary may have at most 1/2 of what it replaces: less would not be worth a rewrite."""

_HOPELESS = frozenset({"auth", "malformed_history", "tool_pairing", "thinking_binding"})


@dataclass(frozen=True, slots=True)
class Accepted:
    """A summary that passed the checks."""

    text: str
    summarizer: str
    attempts: int
    dropped: int
    by_code: bool


def write_summary(state: State, instructions: str) -> Flow[Accepted]:
    """Gets a summary, from the job's summarizer or else from its fallback.

    Raises:
        CompactionError: All failed; the last failure, by name.
    """
    job = state.job
    try:
        return (yield from _by(job.summarizer, state, instructions))
    except CompactionError as exc:
        if job.fallback is None or exc.code == "aborted":
            raise
        yield Emit(CompactionRetried(reason="fallback", attempt=1, summarizer=_name(job.fallback)))
    return (yield from _by(job.fallback, state, instructions))


def _by(summarizer: Any, state: State, instructions: str) -> Flow[Accepted]:
    modes = getattr(summarizer, "modes", ("plain",))
    failure = CompactionError("no_summary", f"{_name(summarizer)}: has no call mode")
    head = HeadTruncation(
        _messages(state, "plain"),
        weights=state.job.weights,
        share_percent=state.job.policy.summary.drop_percent,
    )
    for mode in modes:
        try:
            return (yield from _Caller(summarizer, mode, state, instructions, head).run())
        except CompactionError as exc:
            if exc.code == "aborted":
                raise
            failure = exc
    raise failure


def _messages(state: State, mode: str) -> list[Any]:
    if mode == "shared":
        return state.source.bare(0, len(state.source.context))
    cut = state.cut
    return strip_media(state.source.bare(cut.start, cut.stop, plain=True))


def _name(summarizer: Any) -> str:
    return str(getattr(summarizer, "name", type(summarizer).__name__))


class _Caller:
    """Calls one summarizer in one mode until it answers well or has used up its tries."""

    def __init__(
        self, summarizer: Any, mode: str, state: State, instructions: str, head: HeadTruncation
    ) -> None:
        self._who, self._mode, self._state = summarizer, mode, state
        self._instructions, self._head = instructions, head
        self._local = getattr(summarizer, "local", False) is True
        self._policy = state.job.policy.summary
        self._attempt = self._errors = self._overflows = 0

    def run(self) -> Flow[Accepted]:
        self._fit_window()
        while True:
            self._attempt += 1
            try:
                reply = yield Summarize(self._request(), self._who)
            except Cancelled as exc:
                raise CompactionError("aborted", "the compaction was cancelled") from exc
            except (InvalidPolicy, MissingExtra):
                raise  # the caller's mistake, not the model's
            except Exception as exc:
                yield from self._failed(exc)
                continue
            text, problems = self._checked(reply)
            if not problems:
                return Accepted(
                    text, _name(self._who), self._attempt, self._head.dropped, self._local
                )
            yield from self._rejected(problems)

    def _checked(self, reply: Any) -> tuple[str, tuple[str, ...]]:
        if isinstance(reply, str):
            reply = SummaryReply(text=reply)
        if not isinstance(reply, SummaryReply):
            raise InvalidPolicy("summarizer", type(reply).__name__, "must answer with text")
        if self._local:
            # Copies and counts need no judge; whether it pays is weighed for the result as a whole.
            return reply.text, ()
        return check_reply(
            reply,
            source_chars=max(_chars(_messages(self._state, "plain")), 1),
            nine_sections=not self._state.job.template,
        )

    def _request(self) -> SummaryRequest:
        state, policy = self._state, self._policy
        shared = self._mode == "shared" and not self._head.dropped
        messages = _messages(state, "shared") if shared else self._head.messages
        return SummaryRequest(
            messages=self._redacted(messages),
            prompt=self._prompt(),
            mode="shared" if shared else "plain",
            system=None if shared else PLAIN_SYSTEM,
            max_output_tokens=self._output_tokens(),
            facts=state.facts,
            instructions=self._instructions,
            newest_apart=bool(state.situation().newest_input),
            deadline_seconds=policy.deadline_seconds,
            stall_seconds=policy.stall_seconds,
            attempt=self._attempt,
        )

    def _prompt(self) -> str:
        job, cut = self._state.job, self._state.cut
        scope = job.direction
        if scope == "full" and cut.stop < len(self._state.source.context):
            scope_name = "kept"
        else:
            scope_name = scope
        text = summary_prompt(
            scope=scope_name,
            instructions=self._instructions,
            language=script_of(self._state.facts.inputs),
            template=job.template,
        )
        return job.redact(text) if job.redact else text

    def _output_tokens(self) -> int:
        limit = getattr(self._who, "max_output_tokens", None) or self._policy.max_output_tokens
        limit = min(limit, self._policy.max_output_tokens)
        if self._local:
            limit = min(limit, max(self._state.removed_tokens // EXTRACTIVE_SHARE, 1))
        return int(limit)

    def _redacted(self, messages: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
        redact = self._state.job.redact
        if redact is None:
            return tuple(messages)
        return tuple(_map_text(message, redact) for message in messages)

    def _fit_window(self) -> None:
        """Shortens the history before the first call if it cannot fit the summarizer's own window."""
        window = getattr(self._who, "window_tokens", None)
        if window is None or self._local:
            return
        room = window - self._output_tokens() - self._state.measure(self._prompt())
        while (gap := self._head.tokens() - room) > 0 and self._head.shrink(gap):
            pass

    def _failed(self, exc: Exception) -> Flow[None]:
        found = classify(exc)
        if found.is_overflow:
            yield from self._overflow(found.gap_tokens)
            return
        self._errors += 1
        if self._errors > self._policy.retries or self._local or found.kind in _HOPELESS:
            text = f"{_name(self._who)}: the call failed: {type(exc).__name__}: {exc}"
            raise CompactionError("api_error", text[:500]) from exc
        seconds = _pause(found, self._errors)
        yield self._retried(_REASONS.get(found.kind, "error"), wait_seconds=seconds)
        yield from _wait(seconds)

    def _overflow(self, gap_tokens: int | None) -> Flow[None]:
        before = self._head.dropped
        self._overflows += 1
        if self._overflows > self._policy.overflow_retries or not self._head.shrink(gap_tokens):
            raise CompactionError(
                "prompt_too_long",
                f"{_name(self._who)}: the conversation is too long for the summary call",
                hint="use a summarizer with a larger window, or the extractive one",
            )
        yield self._retried("overflow", dropped_messages=self._head.dropped - before)

    def _rejected(self, problems: tuple[str, ...]) -> Flow[None]:
        yield Emit(CompactionSummaryRejected(summarizer=_name(self._who), problems=problems))
        if problems[0] == "overflow":
            yield from self._overflow(None)
            return
        self._errors += 1
        if self._errors > self._policy.retries or self._local:
            raise error_for(problems[0], _name(self._who))
        yield self._retried("rejected")

    def _retried(self, reason: str, **details: Any) -> Emit:
        return Emit(
            CompactionRetried(
                reason=reason, attempt=self._attempt + 1, summarizer=_name(self._who), **details
            )
        )


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


_SCRIPTS = (
    ("Cyrillic", 0x0400, 0x052F),
    ("Greek", 0x0370, 0x03FF),
    ("Hebrew", 0x0590, 0x05FF),
    ("Arabic", 0x0600, 0x06FF),
    ("Devanagari", 0x0900, 0x097F),
    ("Thai", 0x0E00, 0x0E7F),
    ("Hangul", 0xAC00, 0xD7AF),
    ("Japanese", 0x3040, 0x30FF),
    ("Han", 0x4E00, 0x9FFF),
)


def script_of(inputs: Sequence[Any]) -> str:
    """The script of most of the user's letters if it is not Latin; empty else.

    Kana decide for Japanese, whatever the share of Han.
    """
    text = "".join(entry.text for entry in inputs)[-20_000:]
    counts = dict(_script_counts(text))
    latin = sum(1 for char in text if char.isascii() and char.isalpha())
    if counts.get("Japanese", 0) * 10 > counts.get("Han", 0) + counts.get("Japanese", 0) > 0:
        counts["Japanese"] += counts.pop("Han", 0)
    # A word in another script carries about as much as five Latin letters in most texts about code.
    best = max(counts, key=lambda name: counts[name], default="")
    return best if best and counts[best] * 5 > latin else ""


def _script_counts(text: str) -> Iterator[tuple[str, int]]:
    points = [ord(char) for char in text if ord(char) >= 0x0370]
    for name, first, last in _SCRIPTS:
        count = sum(1 for point in points if first <= point <= last)
        if count:
            yield name, count
