"""The summary call: which request, which retries, when to give up. Part of the compaction flow."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import orjson

from ullage._engine import core
from ullage._start import pattern
from ullage.compaction.cut import FRAME_TOKENS, LEAST_SUMMARY_TOKENS, State, room_after, usage_of
from ullage.compaction.job import wording
from ullage.counting.calibration import Weights
from ullage.counting.media_stripping import strip_media
from ullage.effects import Cancelled, Emit, Flow, LetOthersRun, Summarize, Wait
from ullage.exceptions import CompactionError, InvalidPolicy, MissingExtra
from ullage.facts.model import Facts
from ullage.facts.names import NameKind, find_names, urls_in
from ullage.facts.sections import HEADINGS, family_of, parse_sections, readable, strip_draft
from ullage.facts.words import flat_text, standing_in, unfenced
from ullage.levels import microcompact
from ullage.levels.level import Context
from ullage.levels.pipeline import fresh_states
from ullage.levels.view import View
from ullage.messages import THINKING, Item, role_of, with_parts
from ullage.observe.events import CompactionRetried, CompactionSummaryRejected
from ullage.providers.errors import classify
from ullage.summarizers.budgeted_text import cost, shorten
from ullage.summarizers.extractive import (
    DEFAULT_TOKENS,
    ExtractiveSummarizer,
    least_tokens as least_whole,
    render,
)
from ullage.summarizers.protocol import SummaryReply, SummaryRequest
from ullage.summarizers.streams import PrefixLost

# System prompt of a plain summary call.
PLAIN_SYSTEM = (
    "You write hand-over notes: complete, exact, and only from the conversation you are given."
)
MAX_TEMPLATE_BYTES = 100_000  # a longer file was passed by mistake
# The section ends at the next heading that is not below its own, or with the element around it.
_OWN_SECTION = pattern(
    r"^(#+) Compact Instructions[ \t]*\n((?:(?:\1#|(?!#|</)).*\n?)*)", re.IGNORECASE | re.MULTILINE
)


def summary_prompt(
    *,
    scope: str = "full",
    instructions: str = "",
    previous_summary: str = "",
    language: str = "",
    template: str = "",
) -> str:
    """The last user message of a summary call.

    Args:
        scope: `full`, `kept` (newest messages follow), `from` or `up_to`.
        instructions: The project's, the user's, then those of hooks, under their own heading.
        previous_summary: The summary of an earlier compaction that the messages do not show; to be carried over.
        language: Script of the user's words if it is not Latin, such as `Han`; empty: not mentioned.
        template: Used instead of the built-in prompt; these arguments and `{{sections}}` are filled in.
    """
    words = wording()
    if scope not in words["scopes"]:
        raise InvalidPolicy("scope", scope, f"must be one of {', '.join(words['scopes'])}")
    numbered = enumerate(zip(HEADINGS, words["sections"], strict=True), 1)
    values = {
        "sections": "\n".join(
            f"{number}. {heading}: {what}." for number, (heading, what) in numbered
        ),
        "scope": words["scopes"][scope],
        "instructions": instructions.strip(),
        "previous_summary": previous_summary.strip(),
        "language": language,
    }
    if template.strip():
        return filled(template, values)
    parts = [words["no_tools"], values["scope"], words["how"], values["sections"], words["rules"]]
    stated = [name for name in ("language", "previous_summary", "instructions") if values[name]]
    parts += [words[name].format(**values) for name in stated]
    return "\n\n".join([*parts, words["no_tools"]])


def compact_instructions(items: Sequence[Item]) -> str:
    """The newest section “Compact Instructions” of the project's own instructions (CLAUDE.md, AGENTS.md), without its heading; else empty.

    A plain call is not sent the text around it.
    """
    for item in reversed(items):
        texts = [str(part.block.get("text")) for part in standing_in(item)]
        sections = [section[2].strip() for text in texts for section in _OWN_SECTION.finditer(text)]
        if any(sections):
            return "\n\n".join(sections)
    return ""


def load_template(path: str | os.PathLike[str] | None) -> str:
    """A template file in UTF-8, as `Job.template` takes it; see `summary_prompt` for what is filled in. `None`: empty, no template.

    Raises:
        InvalidPolicy: It cannot be read, is empty, too long, or not text.
    """
    if path is None:
        return ""
    try:
        raw = Path(path).read_bytes()
        text = raw[: MAX_TEMPLATE_BYTES + 1].decode("utf-8-sig")
    except OSError as exc:
        reason = f"cannot be read: {exc.strerror}"
        raise InvalidPolicy("template", str(path), reason) from exc
    except UnicodeDecodeError as exc:
        raise InvalidPolicy("template", str(path), "must be UTF-8 text") from exc
    if not text.strip() or len(raw) > MAX_TEMPLATE_BYTES:
        limit = f"must hold 1 to {MAX_TEMPLATE_BYTES:,} bytes of text"
        raise InvalidPolicy("template", str(path), limit)
    return text


def filled(template: str, values: Mapping[str, str]) -> str:
    """A template with each `{{name}}` of the values filled in, in one pass: variables inside a value are not, unknown names stay."""
    names = "|".join(map(re.escape, values))
    variable = rf"\{{\{{(?:\s*({names})\s*\}}\}})?"
    return re.sub(variable, lambda match: values[match[1]] if match[1] else match[0], template)


# Shortens a summary call that is itself too long: drops oldest rounds until it fits, and always terminates.


# Text of the meta message that comes first if what is left starts with the assistant.
MARKER = "[Earlier turns were cut here so that the summary request fits.]"


def without_head(messages: Sequence[Item], dropped: int) -> list[Item]:
    """What is left, the marker in front if it starts with the assistant; never counted as a round, since it is made for each call."""
    left = list(messages[dropped:])
    if dropped and left and role_of(left[0]) != "user":
        return [{"role": "user", "content": MARKER}, *left]
    return left


def more_dropped(
    messages: Sequence[Item],
    dropped: int,
    gap_tokens: int | None,
    *,
    weights: Weights | None = None,
    share_percent: int = 20,
) -> int:
    """How many messages, whole oldest rounds, have to go for a call without the first `dropped` that was too long by so much.

    `gap_tokens`: `None`: unknown, then a share of the rounds goes, and at least one. No more than `dropped` where only one round is left.
    """
    ledger = core.Ledger(weights, messages)
    first = int(ledger.truncate_head(gap_tokens, start=dropped, share_percent=share_percent))
    return max(dropped, min(first, len(messages) - 1))


# Splits a history that is too long for its summarizer into parts that fit, one after the other.


# Calls for one compaction; if a history needs more, its oldest rounds are covered only by the facts.
MOST_PARTS = 12
LONG_TEXT_TOKENS = 500  # characters of each text that stay in a round that does not fit by itself


def split_in_parts(
    messages: Sequence[Item], room_tokens: int, weights: Weights | None = None
) -> list[list[Item]]:
    """Whole rounds in order, as many in each part as fit, in at most `MOST_PARTS`.

    A round that is too long for one call by itself is a part of its own, with its texts shortened.
    """
    listed = list(messages)
    ledger = core.Ledger(weights, listed)
    if int(ledger.tokens()) <= room_tokens:
        return [listed]
    starts = [*sorted({0, *(int(at) for at in ledger.rounds())}), len(listed)]
    parts: list[list[Item]] = []
    room = 0
    for first, last in pairwise(starts):
        size = int(ledger.tokens(first, last))
        round_ = listed[first:last]
        if size > room_tokens:
            round_ = [_shortened(message) for message in round_]
            size = int(core.Ledger(weights, round_).tokens())
        if not parts or size > room:
            parts.append([])
            room = room_tokens
        parts[-1].extend(round_)
        room -= size
    return parts[-MOST_PARTS:]


def _shortened(message: Item) -> Item:
    content = message.get("content")
    if isinstance(content, str):
        return {**message, "content": shorten(content, LONG_TEXT_TOKENS)}
    return with_parts(message, _block)


def _block(block: Any) -> Any:
    kind = block.get("type") if isinstance(block, Mapping) else None
    if kind == "text" and isinstance(block.get("text"), str):
        return {**block, "text": shorten(block["text"], LONG_TEXT_TOKENS)}
    return _shortened(block) if kind == "tool_result" else block


# Reduces a conversation to what every API accepts: text, calls, results.
#
# Signed reasoning is bound to the system prompt and tools of the main loop, and server tools to its
# headers: neither may be sent in a call that has others.


# Characters of a block that is only described: a page that a server tool fetched may have 100 000.
LONGEST_NOTE = 2_000
# Tuples: a type may be anything, and only strings are sure to have a hash.
_KEPT_TYPES = ("text", "tool_use", "tool_result")
_DROPPED = (*THINKING, "fallback")
_SENT_ONLY = ("cache_control", "citations")


def plain_messages(messages: Sequence[Item]) -> list[Item]:
    """The messages of a plain summary call.

    Media become `[image]` and `[document]`; reasoning and cache markers are removed; blocks of server tools and
    unknown ones become a line of text. A message that needs none of this is the same object; one that
    is empty then is left out.
    """
    plain: list[Item] = []
    for message in strip_media(messages, provider="anthropic"):
        content = message.get("content")
        if not isinstance(content, list) or all(_fits(block) for block in content):
            plain.append(message)
            continue
        blocks = [block for block in map(_plain_block, content) if block is not None]
        if blocks or message.get("tool_calls"):
            plain.append({**message, "content": blocks})
    return plain


def _fits(block: Any) -> bool:
    if not isinstance(block, (dict, Mapping)):
        return True
    return block.get("type") in _KEPT_TYPES and not any(key in block for key in _SENT_ONLY)


def _plain_block(block: Any) -> Any:
    if not isinstance(block, (dict, Mapping)):
        return block
    kind = block.get("type")
    if kind in _DROPPED:
        return None
    if kind in _KEPT_TYPES:
        return {key: value for key, value in block.items() if key not in _SENT_ONLY}
    if kind == "compaction" or family_of(block):
        text = readable(block)
        return {"type": "text", "text": text} if text else None
    try:
        note = orjson.dumps(block, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
    except TypeError:  # what strict JSON cannot hold: lone surrogates, large integers, depth
        note = repr(block).encode(errors="replace").decode()
    return {"type": "text", "text": f"[{kind}: {note[:LONGEST_NOTE]}]"}


# Seconds before the second, third, … try, if the provider names no time.
BACK_OFF_SECONDS = (2.0, 8.0, 30.0)
LONGEST_WAIT_SECONDS = 120.0
# Share of a summarizer's window that stays free, since the estimate may be that far off.
MARGIN_TOKENS = 1_000
LEAST_PART_TOKENS = 500
# Tokens of Ullage's own summary next to one that only its provider can read: 1 % of a usual window.
SHADOW_TOKENS = 2_000
# A summary may have at most 1/2 of what it replaces: less would not be worth a rewrite.
EXTRACTIVE_SHARE = 2
# Of a target's room: a summary by code is limited by bytes / 4, and has 1.1 to 1.4 tokens for each (recorded sessions).
FIRST_LIMIT_PERCENT = 77
LEAST_OUTPUT_TOKENS = 300  # nine headings with a little text: a shorter summary says nothing

Mode: TypeAlias = Literal["shared", "plain", "native"]

_HOPELESS = frozenset({"auth", "malformed_history", "tool_pairing", "thinking_binding"})


class Accepted(NamedTuple):
    """A summary that passed the checks; `carried`: messages of the provider's that go in front of it."""

    text: str
    summarizer: str
    dropped: int
    by_code: bool
    facts_tokens: int | None = None  # most that code may append; `None`: the policy's
    least: int = 0  # fewest tokens that it could have had, where code wrote it
    limit: int = 0  # tokens that it could have had
    left_out: bool = False  # for want of more
    carried: tuple[Mapping[str, Any], ...] = ()
    warnings: tuple[str, ...] = ()  # what it says and its source does not


def write_summary(state: State, instructions: str) -> Flow[Accepted]:
    """Get a summary from the job's summarizer, or else from its fallback.

    Raises:
        CompactionError: All failed; the last failure, by name.
    """
    job = state.job
    yield from state.facts.collect()
    if job.fallback is None or not state.tally.failure:  # else it has failed for another length
        try:
            return (yield from _by(job.summarizer, state, instructions))
        except CompactionError as exc:
            if job.fallback is None or exc.code == "aborted":
                raise
            state.tally.failure = str(exc)
            retried = CompactionRetried(
                reason="fallback", attempt=1, summarizer=name_of(job.fallback)
            )
            yield Emit(retried)
    return (yield from _by(job.fallback, state, instructions))


def _by(summarizer: Any, state: State, instructions: str) -> Flow[Accepted]:
    """A summary by one summarizer, in parts if the history is too long for its window."""
    limit = state.summary_limit
    parts: list[list[Any]] = [[]]
    if not _reads_facts_only(summarizer):
        parts = _parts(summarizer, state, instructions, (yield from _messages(state)))
    elif summarizer.max_tokens == DEFAULT_TOKENS and limit is not None and limit > DEFAULT_TOKENS:
        # Nobody set its length: it is as long as a target wants it.
        summarizer = ExtractiveSummarizer(max_tokens=limit)
    dropped, previous = 0, ""
    for number, messages in enumerate(parts, 1):
        call = _Call(summarizer, state, instructions, messages, previous, alone=len(parts) == 1)
        accepted = yield from call.run()
        dropped += accepted.dropped
        previous = accepted.text
        if number < len(parts):
            yield Emit(CompactionRetried(reason="part", attempt=number + 1, summarizer=call.name))
    if accepted.by_code or accepted.carried:
        return accepted._replace(dropped=dropped)
    texts = map(flat_text, state.source.bare(0, len(state.source.context)))
    source = "\n".join([*texts, instructions])
    warnings = not_in_source(accepted.text, source, state.facts.whole)
    return accepted._replace(dropped=dropped, warnings=tuple(warnings))


def _reads_facts_only(summarizer: Any) -> bool:
    """Whether neither messages nor a prompt need to be made for it; a class of its own may read them."""
    return type(summarizer) is ExtractiveSummarizer


def _own_most(summarizer: Any, state: State) -> int:
    """Most tokens of a response by the policy and by the summarizer's own limits."""
    most: int = state.job.policy.summary.max_output_tokens
    if _reads_facts_only(summarizer):
        return min(int(summarizer.max_tokens), most)
    return min(int(getattr(summarizer, "max_output_tokens", None) or most), most)


def least_tokens(summarizer: Any, state: State) -> int:
    """Of a summary for a target: one by code has the newest message whole, where none of its limits is below that."""
    newest, inputs = state.newest_input, state.facts.removed.inputs
    local = getattr(summarizer, "local", False) is True
    if local and state.target is not None and newest and inputs and inputs[-1].text == newest:
        whole = least_whole(state.facts.removed)
        return whole if whole <= _own_most(summarizer, state) else LEAST_SUMMARY_TOKENS
    return LEAST_SUMMARY_TOKENS


def _parts(
    summarizer: Any, state: State, instructions: str, messages: list[Any]
) -> list[list[Any]]:
    window = getattr(summarizer, "window_tokens", None)
    whole = getattr(summarizer, "local", False) is True or "native" in getattr(
        summarizer, "modes", ()
    )
    if window is None or whole:
        return [messages]
    # A summary of the parts before, as long as it may be, is in the prompt of the next.
    call = _Call(summarizer, state, instructions, messages, "", alone=True)
    room = window - 2 * call.output_tokens() - state.measure(call.prompt()) - MARGIN_TOKENS
    return split_in_parts(messages, max(room, LEAST_PART_TOKENS), state.job.weights)


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
    states = fresh_states((microcompact.LEVEL,))
    outcome = microcompact.LEVEL.run(Context(view=view, policy=state.job.policy, states=states))
    if isinstance(outcome, Generator):
        yield from outcome
    return view.messages[len(before) : len(before) + len(part)]


def name_of(summarizer: Any) -> str:
    """The name that events and reports have for a summarizer."""
    return str(getattr(summarizer, "name", type(summarizer).__name__))


class _Call:
    """The calls for one summary, or for one part of it, until an answer is good.

    `previous`: summary of the parts before, empty: there are none; `alone`: these are all messages.
    """

    def __init__(
        self,
        summarizer: Any,
        state: State,
        instructions: str,
        messages: list[Any],
        previous: str,
        *,
        alone: bool,
    ) -> None:
        self._summarizer, self._state, self._instructions = summarizer, state, instructions
        self._messages, self._previous, self._alone = messages, previous, alone
        self._policy = state.job.policy.summary
        self._local = getattr(summarizer, "local", False) is True
        self.name = name_of(summarizer)
        # All modes work on the same history: what one had to drop, the next cannot send either.
        self._dropped = self._overflows = 0
        self._own_mode, self._last_mode = "plain", True
        self._attempt = self._errors = 0

    def run(self) -> Flow[Accepted]:
        """The summary, by the first of the summarizer's call modes that has one.

        Raises:
            CompactionError: None has; the failure of the last.
        """
        none = f"{self.name}: has no call mode for this conversation"
        failure, modes = CompactionError("no_summary", none), self._modes()
        for number, mode in enumerate(modes, 1):
            self._own_mode, self._last_mode = mode, number == len(modes)
            self._attempt = self._errors = 0
            try:
                return (yield from self._in_mode())
            except CompactionError as exc:
                if exc.code == "aborted":
                    raise
                failure = exc
        raise failure

    def _modes(self) -> tuple[str, ...]:
        """The summarizer's modes, without the shared prefix where it cannot be used.

        A part, and a partial compaction, must not see all of the conversation; after calls that wait for
        their results no message may be appended.
        """
        modes = tuple(getattr(self._summarizer, "modes", ("plain",)))
        state = self._state
        if "native" in modes:
            # A transcript has no form for items before a summary, and they may not come after kept messages.
            return modes if state.cut.start == 0 and not state.source.entries else ()
        if "shared" not in modes:
            return modes or ("plain",)
        if self._alone and state.job.direction == "full" and not state.ledger.open_calls():
            return modes
        return tuple(mode for mode in modes if mode != "shared") or ("plain",)

    def prompt(self) -> str:
        """The request, redacted."""
        job, cut = self._state.job, self._state.cut
        if _reads_facts_only(self._summarizer) and not job.template:
            return ""
        some_kept = cut.stop < len(self._state.source.context)
        scope = "kept" if job.direction == "full" and some_kept else job.direction
        own = compact_instructions(self._state.source.context)
        text = summary_prompt(
            scope=scope,
            instructions=f"{own}\n\n{self._instructions}",
            previous_summary=self._previous,
            language=script_of(self._state.facts.removed.inputs),
            template=job.template,
        )
        return job.redact(text) if job.redact else text

    def output_tokens(self) -> int:
        """Tokens for the response: the most that it may have, or the room of a target."""
        state, most = self._state, self._most()
        room = state.summary_limit
        if room is None and state.summary_room is not None:
            room = state.summary_room * FIRST_LIMIT_PERCENT // 100
        return most if room is None else min(most, max(room, self._least))

    def _most(self) -> int:
        """The policy's limit, the model's, and for copies a share of their source."""
        most = _own_most(self._summarizer, self._state)
        if self._local:
            # Nearly all of the source, if a limit was set explicitly.
            removed = self._state.removed_tokens
            usual = getattr(self._summarizer, "max_tokens", DEFAULT_TOKENS) == DEFAULT_TOKENS
            copied = removed // EXTRACTIVE_SHARE
            if self._state.target is not None or not usual:
                copied = removed * 9 // 10
            most = min(most, max(copied, self._least, 1))
            if self._state.target is None:  # which says itself how much may be after it
                # What remains after the kept part, so that the next compaction comes late (P-8).
                state, job = self._state, self._state.job
                room = room_after(job, state.overhead) - (state.tokens - removed) - FRAME_TOKENS
                most = min(most, max(room, LEAST_OUTPUT_TOKENS))
        window = getattr(self._summarizer, "window_tokens", None)
        return int(most if window is None else min(most, max(window // 4, 1)))

    @cached_property
    def _least(self) -> int:
        return least_tokens(self._summarizer, self._state)

    def _in_mode(self) -> Flow[Accepted]:
        """Call in one mode until a response is good or the tries are used up."""
        while True:
            self._attempt += 1
            tally = self._state.tally
            tally.summarizer, tally.dropped = self.name, self._dropped
            tally.attempts += 1
            try:
                reply = yield Summarize(self._request(), self._summarizer)
            except Cancelled as exc:
                raise CompactionError("aborted", "the compaction was cancelled") from exc
            except (InvalidPolicy, MissingExtra):
                raise  # an error of the caller, not of the model
            except Exception as exc:
                yield from self._failed(exc)
                continue
            reported = getattr(reply, "usage", None)
            if isinstance(reported, Mapping):
                tally.usage += usage_of(reported)
            yield LetOthersRun()
            text = reply if isinstance(reply, str) else str(getattr(reply, "text", ""))
            error = None if self._local else error_in(text)
            if error is not None:
                yield from self._failed(RuntimeError(error))
                continue
            text, problems = self._checked(reply)
            if problems:
                yield from self._rejected(problems)
                continue
            carried = getattr(reply, "carried", ())
            if carried:
                # Opaque: next to it stands a short one by code, for humans and other providers.
                text = render(self._state.facts.removed, tokens=SHADOW_TOKENS)
            return Accepted(
                text,
                self.name,
                self._dropped,
                by_code=self._local,
                least=self._least,
                limit=self.output_tokens(),
                left_out=getattr(reply, "left_out", False),
                carried=carried,
            )

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
        chars = len(self._previous)
        chars += sum(len(flat_text(message.get("content"))) for message in self._messages)
        inputs = self._state.facts.whole.inputs
        return check_reply(
            reply,
            source_chars=max(chars, 1),
            nine_sections=not self._state.job.template,
            script=script_of(inputs) if inputs else None,
        )

    @property
    def _mode(self) -> Mode:
        """Of the next call: once messages were dropped, it does not share the main loop's prefix."""
        if self._own_mode == "native":  # the provider compacts by itself
            return "native"
        return "shared" if self._own_mode == "shared" and not self._dropped else "plain"

    def _request(self) -> SummaryRequest:
        state, policy, mode, most = self._state, self._policy, self._mode, self.output_tokens()
        source, redact = state.source, state.job.redact
        messages: Sequence[Item] = without_head(self._messages, self._dropped)
        if mode == "native":
            messages = source.bare(*state.cut)
        elif mode == "shared":
            messages = source.bare(0, len(source.context))
        # Whether the newest message stands after the summary: always after a model's, whose list may not have it whole.
        newest = state.newest_input
        apart = bool(newest)
        if newest and self._local:
            in_target = self._least == LEAST_SUMMARY_TOKENS
            apart = cost(newest) * 2 > most if state.target is None else in_target
        return SummaryRequest(
            messages=tuple(
                messages if redact is None else (_map_text(m, redact) for m in messages)
            ),
            prompt=self.prompt(),
            mode=mode,
            system=PLAIN_SYSTEM if mode == "plain" else None,
            max_output_tokens=most,
            facts=state.facts.removed,
            instructions=self._instructions,
            user_messages_tokens=policy.user_messages_max_tokens,
            newest_apart=apart,
            excerpts=state.excerpts,
            deadline_seconds=policy.deadline_seconds,
            stall_seconds=policy.stall_seconds,
            attempt=self._attempt,
        )

    def _failed(self, exc: Exception) -> Flow[None]:
        failure = classify(exc)
        # Too many bytes are usually media, which a plain call leaves out: nothing needs to be dropped.
        bytes_only = self._mode == "shared" and failure.kind == "overflow_bytes"
        if failure.is_overflow and not bytes_only:
            yield from self._overflow(failure.gap_tokens)
            return
        self._errors += 1
        hopeless = bytes_only or failure.kind in _HOPELESS or isinstance(exc, PrefixLost)
        if self._errors > self._policy.retries or self._local or hopeless:
            text = f"{self.name}: the call failed: {type(exc).__name__}: {exc}"
            raise CompactionError("api_error", text[:500]) from exc
        seconds = failure.retry_after_seconds
        if seconds is None:
            seconds = BACK_OFF_SECONDS[min(self._errors, len(BACK_OFF_SECONDS)) - 1]
        seconds = min(max(seconds, 0.0), LONGEST_WAIT_SECONDS)
        reason = failure.kind if failure.kind in ("rate_limit", "overloaded") else "error"
        yield self._retried(reason, wait_seconds=seconds)
        try:
            yield Wait(seconds)
        except Cancelled as cancelled:
            raise CompactionError("aborted", "the compaction was cancelled") from cancelled

    def _overflow(self, gap_tokens: int | None) -> Flow[None]:
        before = self._dropped
        self._overflows += 1
        # What the provider does not see of what it compacts would be lost.
        if self._own_mode != "native" and self._overflows <= self._policy.overflow_retries:
            weights, share = self._state.job.weights, self._policy.drop_percent
            self._dropped = more_dropped(
                self._messages, before, gap_tokens, weights=weights, share_percent=share
            )
        if self._dropped > before:
            yield self._retried("overflow", dropped_messages=self._dropped - before)
            # Without its oldest messages nothing of the prefix is shared: the plain call takes over from here.
            if self._own_mode != "shared" or self._last_mode:
                return
        raise CompactionError(
            "prompt_too_long",
            f"{self.name}: the conversation is too long for the summary call",
            hint="use a summarizer with a larger window, or the extractive one",
        )

    def _rejected(self, problems: tuple[str, ...]) -> Flow[None]:
        yield Emit(CompactionSummaryRejected(summarizer=self.name, problems=problems))
        if problems[0] == "overflow":
            yield from self._overflow(None)
            return
        self._errors += 1
        # After a bad response the shared prefix is not tried again: the plain call asks differently.
        if self._errors > self._policy.retries or self._local or self._mode == "shared":
            code, text = wording()["problems"][problems[0]]
            raise CompactionError(code, f"{self.name}: {text}")
        yield self._retried("rejected")

    def _retried(self, reason: str, **details: Any) -> Emit:
        attempt = self._attempt + 1
        event = CompactionRetried(reason=reason, attempt=attempt, summarizer=self.name, **details)
        return Emit(event)


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


# Finds the script in which the user writes, so that the summary can be requested in their language.


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

_OTHER = pattern(r"[^\x00-\u036f]")  # 25 times quicker to compile than the range above it


def script_of(inputs: Sequence[Any]) -> str:
    """The script of most of the user's letters if it is not Latin; empty else.

    Kana decide for Japanese, whatever the share of Han.
    """
    return script_of_text("".join(entry.text for entry in inputs)[-20_000:])


def script_of_text(text: str) -> str:
    """The script of most letters of a text if it is not Latin; empty else."""
    counts = dict(_script_counts(text))
    if not counts:
        return ""
    latin = sum(1 for char in text if char.isascii() and char.isalpha())
    if counts.get("Japanese", 0) * 10 > counts.get("Han", 0) + counts.get("Japanese", 0) > 0:
        counts["Japanese"] += counts.pop("Han", 0)
    # A word in another script carries about as much as five Latin letters in most texts about code.
    best = max(counts, key=lambda name: counts[name], default="")
    return best if best and counts[best] * 5 > latin else ""


def _script_counts(text: str) -> Iterator[tuple[str, int]]:
    points = [ord(char) for char in _OTHER.findall(text)]
    for name, first, last in _SCRIPTS:
        count = sum(1 for point in points if first <= point <= last)
        if count:
            yield name, count


# Of nine. Fewer is no hand-over; up to four that a model left out are filled by code.
LEAST_SECTIONS = 5
LEAST_CHARS = 40
_OVERFLOW = frozenset({"model_context_window_exceeded"})
_CALLED = frozenset({"tool_use", "tool_calls", "function_call"})

_PROTOCOL = pattern(
    r"<\|(?:im_start|im_end|endoftext|eot_id|start_header_id|python_tag|channel|message|tool_call)[^|]{0,40}\|>|"
    r"</?(?:antml:)?(?:function_calls|invoke|tool_call|tool_use)\b[^>]{0,200}>|\[/?(?:INST|TOOL_CALLS)\]"
)
_REFUSAL = pattern(
    r"^\W*(?:I['’]?m sorry|I am sorry|Sorry|I can(?:['’]t|not)|I['’]?m (?:not able|unable)|I won['’]t|As an AI)\b",
    re.IGNORECASE,
)
_BLANK = pattern(
    r"^[\s\W]*(?:none|n/?a|nothing|empty|unknown|tbd|not applicable|no \w+|\[[^\]]{0,200}\]|<[^>]{0,200}>)?[\s\W]*$",
    re.IGNORECASE,
)
_INLINE = pattern(r"`[^`\n]+`")
# Characters of a section that may say nothing; longer ones say nothing only if they hold no letter.
LONGEST_BLANK = 400
# Characters up to which an answer may be an error's text; a summary in nine sections is longer.
LONGEST_ERROR = 600
# With these a client's own words for an error begin.
_ERRORS = ("API Error", "Prompt is too long", "prompt is too long")


def check_reply(
    reply: SummaryReply, *, source_chars: int, nine_sections: bool = True, script: str | None = None
) -> tuple[str, tuple[str, ...]]:
    """The summary without its draft, and what is wrong with it, by the names in `texts.toml`; nothing, if it may be installed.

    `source_chars`: length of what it summarises, it must be shorter; `nine_sections`: false where the host's template asks for something
    else; `script`: of the user's words, as `script_of` names it, empty: Latin, `None`: not checked.
    """
    text = strip_draft(reply.text)
    finish = reply.finish_reason.lower()
    if finish in _OVERFLOW:
        return text, ("overflow",)
    if reply.tool_calls or finish in _CALLED:
        return text, ("tool_call",)
    if reply.is_refusal:
        return text, ("refusal",)
    if len(text) < LEAST_CHARS:
        return text, ("no_text",)
    prose = _INLINE.sub("", unfenced(text))
    faults = (
        ("protocol_tokens", _PROTOCOL.search(prose)),
        ("refusal", _REFUSAL.match(text) and len(text) < 1500),
        ("cut", reply.is_cut_off),
        ("repetition", _repeats(text)),
        ("not_smaller", len(text) >= source_chars),
    )
    problems = [name for name, is_broken in faults if is_broken]
    if script is not None and not problems and _other_script(text, prose, script):
        problems = ["wrong_script"]
    if nine_sections and not problems:
        sections = parse_sections(text)
        if len(sections) < LEAST_SECTIONS:
            problems = ["too_few_sections"]
        elif sum(not _blank(body) for body in sections.values()) < 2:
            problems = ["template_only"]
    return text, tuple(problems)


def error_in(text: str) -> str | None:
    """An answer that is the text of an error, as wrappers around a client return it; `None`: it is none."""
    answer = text.strip()
    if not answer or len(answer) > LONGEST_ERROR or parse_sections(answer):
        return None
    if answer.startswith(_ERRORS):
        return answer
    return answer if classify(answer).is_overflow else None


def _other_script(text: str, prose: str, script: str) -> bool:
    """Whether a summary (`prose`: less what it quotes as code) is in another script than the user's. Languages that share a script are not distinguished.

    A user of another script has their own words in the summary; a user of Latin letters may quote a
    little of any.
    """
    if not script:
        return bool(script_of_text(prose))
    # Any letters of it suffice; Han count for Japanese and Hangul too.
    also = {"Japanese": {"Han"}, "Hangul": {"Han"}, "Han": {"Japanese"}}
    scripts = {script, *also.get(script, set())}
    return scripts.isdisjoint(name for name, _ in _script_counts(text))


def _blank(body: str) -> bool:
    text = body.strip()
    if len(text) > LONGEST_BLANK:
        return not any(char.isalnum() for char in text)
    return _BLANK.match(text) is not None


def _repeats(text: str) -> bool:
    """A model that loops says the same line again and again (over a third of its longer lines), or 20 to 200 characters at the end."""
    lines = [line.strip() for line in text.splitlines() if len(line.strip()) > 30]
    if len(lines) >= 12 and len(set(lines)) * 3 < len(lines) * 2:
        return True
    tail = text[-4000:]
    for size in range(20, 201):
        unit = tail[-size:]
        if len(tail) >= 5 * size and tail.endswith(unit * 5) and len(set(unit)) > 3:
            return True
    return False


# ---- what a summary says and its source does not ---------------------------------------------------

MOST_NAMED = 8  # names in one warning
LONGEST_REQUEST = 120
# Kinds of names that nobody writes in other words.
_COPIED = frozenset((NameKind.PATH, NameKind.COMMIT, NameKind.ID, NameKind.TICKET))
COMMIT_CHARS = 7  # of a hash, which sources and summaries cut at different lengths

_REQUEST = pattern(
    r"\bthe user (?:has |had |then |also |explicitly |later )*(?:ask(?:s|ed)|request(?:s|ed)|want(?:s|ed)|told|tells|instruct(?:s|ed)|demand(?:s|ed)|"
    r"approved|confirmed|decided|agreed|insist(?:s|ed)|require(?:s|d))\b([^\n]{1,400}?)(?:[.;\n]|$)",
    re.IGNORECASE,
)
_WORD = pattern(r"[^\W\d_]{4,}")
STEM_CHARS = 5  # of a word: its beginning is the same in most of its forms
_HASH = pattern(r"[0-9a-f]{7,40}")
_IN_ANY_REQUEST = frozenset(
    "that this with from into their there them then also some more before after when where which should would could must have been make made "
    "assistant user about they what only first next again continue work done want wants".split()
)


def not_in_source(summary: str, source: str, facts: Facts) -> list[str]:
    """Warnings about a model's summary: names and requests of the user that its source does not hold.

    `source`: all texts that the model was given, also inputs and results of tools; `facts` are of it.
    """
    named = [name for name, kind in find_names(summary) if kind in _COPIED and not _is_prose(name)]
    names = [name for name in (*named, *urls_in(summary)) if not _stands_in(name, source)]
    warnings = [f"names_not_in_source:{', '.join(names[:MOST_NAMED])}"] if names else []
    return [*warnings, *(f"request_not_in_source:{text}" for text in _invented(summary, facts))]


def _is_prose(name: str) -> bool:
    """`before/after`: words that a stroke joins."""
    return "." not in name and name.count("/") == 1 and not name.startswith(("/", "."))


def _stands_in(name: str, source: str) -> bool:
    """Whether a source holds a name; a path may be given from another folder, a hash cut."""
    last = name.rstrip("/").rsplit("/", 1)[-1]
    return (
        name in source
        or last in source
        or (_HASH.fullmatch(name) is not None and name[:COMMIT_CHARS] in source)
    )


def _invented(summary: str, facts: Facts) -> list[str]:
    """What a summary says that the user asked for, of which most words are neither the user's nor the assistant's.

    Where that is so for most of its requests, it was written in another language, and nothing is said.
    """
    asked = [match[0].strip()[:LONGEST_REQUEST] for match in _REQUEST.finditer(summary)]
    if not asked:
        return []
    texts = [text for entry in facts.inputs for text in (entry.text, entry.question)]
    texts += [rule.text for rule in facts.standing]
    texts += [statement.text for statement in facts.statements]
    texts += [f"{decision.question} {decision.answer}" for decision in facts.decisions]
    texts += [facts.plan, facts.previous.text if facts.previous else ""]
    source_stems = _stems("\n".join(texts))
    invented = []
    for text in asked:
        match = _REQUEST.search(f"{text}\n")
        stems = _stems(match[1], _IN_ANY_REQUEST) if match else set()
        if len(stems) > 1 and 2 * len(stems & source_stems) < len(stems):
            invented.append(text)
    return invented if len(invented) * 2 <= len(asked) or len(asked) == 1 else []


def _stems(text: str, without: Collection[str] = ()) -> set[str]:
    return {word[:STEM_CHARS] for word in _WORD.findall(text.lower()) if word not in without}
