"""What a summarizer is: anything that turns a `SummaryRequest` into text.

A summarizer that calls a model raises whatever its client raises; the flow classifies it. One that
has `asummarize` is awaited in an event loop, any other is run in a thread there; see `is_async`.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, runtime_checkable

from ullage._start import Frozen
from ullage.messages import Item, is_thinking

if TYPE_CHECKING:
    from ullage.facts.model import Facts


# The conversation of a summary call in the forms that the APIs take.


def is_chat(messages: Sequence[Item]) -> bool:
    """Whether these are OpenAI chat messages: a `tool` role, or calls in a field next to the content."""
    return any(message.get("role") == "tool" or "tool_calls" in message for message in messages)


def anthropic_messages(messages: Sequence[Item]) -> list[Item]:
    """The messages in Anthropic's form; those of it are the same objects."""
    if not is_chat(messages):
        return list(messages)
    from ullage.providers import openai_chat

    return list(openai_chat.from_provider(list(messages)).messages)


def used_tools(messages: Sequence[Item]) -> list[dict[str, Any]]:
    """Bare definitions of the tools that a conversation has used.

    Some servers (Bedrock, gateways) refuse a conversation with calls that defines no tools.
    """
    names: dict[str, None] = {}
    for message in messages:
        content = message.get("content")
        for block in content if isinstance(content, list) else ():
            if isinstance(block, Mapping) and block.get("type") == "tool_use":
                names[str(block.get("name"))] = None
    # In the order of the alphabet: the definitions stand in front of everything that can be cached.
    return [{"name": name, "input_schema": {"type": "object"}} for name in sorted(names)]


def without_thinking(messages: Sequence[Item]) -> list[Item]:
    """The messages without reasoning; a message that was nothing else is left out."""
    remaining: list[Item] = []
    for message in messages:
        content = message.get("content")
        if not isinstance(content, list) or not any(map(is_thinking, content)):
            remaining.append(message)
        elif blocks := [block for block in content if not is_thinking(block)]:
            remaining.append({**message, "content": blocks})
    return remaining


# Watches one summary call from outside: progress, the stall time-out, and how to end it early.
#
# The summarizer tells the watch when a stream begins and what comes; whoever waits asks it whether to
# go on waiting. Both may be in different threads.


PROGRESS_CHARS = 500  # growth between two reports: a summary of 3 000 tokens makes some 25 of them


class Stopped(Exception):
    """Raised in a summarizer whose caller no longer waits: it shall let go of its stream."""


class Watch:
    """One summary call, seen by both sides.

    Args:
        progress: Called with the characters received so far; `None`: not called.
        clock: Seconds that only grow.
    """

    def __init__(
        self,
        progress: Callable[[int], object] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._progress, self._clock = progress, clock
        self._lock = threading.Lock()
        self._close: Callable[[], object] | None = None
        self._started = self._last = clock()
        self._streams = self._stopped = False
        self._chars = self._reported = 0

    # ---- the summarizer's side ---------------------------------------------------------------

    def begin(self, close: Callable[[], object] | None = None) -> None:
        """A request that streams is sent: from now on silence counts as a stall.

        Args:
            close: Ends the stream from another thread; `None`: it can't be ended.

        Raises:
            Stopped: The caller has given up already.
        """
        with self._lock:
            self._streams, self._close, self._last = True, close, self._clock()
        self._check()

    def token(self, text: str = "") -> None:
        """Something came: text of the answer, or (empty) a sign that the model works, such as reasoning.

        Raises:
            Stopped: The caller has given up.
        """
        self._check()
        with self._lock:
            self._last = self._clock()
            self._chars += len(text)
            due = self._chars - self._reported >= PROGRESS_CHARS
            self._reported = self._chars if due else self._reported
        if due and self._progress is not None:
            self._progress(self._chars)

    def _check(self) -> None:
        if self._stopped:
            raise Stopped("the caller no longer waits")

    # ---- the side that waits -----------------------------------------------------------------

    @property
    def chars(self) -> int:
        """Characters received so far."""
        return self._chars

    @property
    def stopped(self) -> bool:
        """Whether the caller has given up."""
        return self._stopped

    def late(self, deadline_seconds: float | None, stall_seconds: float | None) -> str:
        """Why to wait no longer, in words; empty: wait on.

        Args:
            deadline_seconds: For the whole call; `None`: none.
            stall_seconds: Longest silence of a stream; `None`: any.
        """
        now = self._clock()
        if deadline_seconds is not None and now - self._started >= deadline_seconds:
            return f"no answer within {deadline_seconds:g} s"
        if self._streams and stall_seconds is not None and now - self._last >= stall_seconds:
            return f"no token for {stall_seconds:g} s"
        return ""

    def stop(self) -> None:
        """Let the summarizer know, and close its stream; nothing is reported any more."""
        with self._lock:
            self._stopped, self._progress = True, None
            close, self._close = self._close, None
        if close is not None:
            with contextlib.suppress(Exception):  # a stream that is broken anyway
                close()

    def __repr__(self) -> str:
        state = "stopped" if self._stopped else "streaming" if self._streams else "waiting"
        return f"Watch({state}, {self._chars} characters)"


def _no_facts() -> Facts:
    from ullage.facts.model import Facts

    return Facts()


_CUT_OFF = frozenset({"max_tokens", "length", "max_output_tokens", "incomplete", "model_length"})
_REFUSALS = frozenset({"refusal", "content_filter", "safety", "prohibited_content", "recitation"})


class SummaryRequest(Frozen, kw_only=True):
    """One summary call, complete: a summarizer adds nothing to it.

    Attributes:
        messages: Bare messages, `prompt` not among them. In mode `shared` they are those of the main
            loop to the byte; in mode `plain` media are text and host attachments are removed.
        prompt: The request for the summary: the last user message of the call.
        mode: `shared`: same system prompt, tools, model and thinking settings as the main loop, so
            that the prompt cache is hit. `plain`: only what is here, thinking off. `native`: the provider
            compacts `messages`, which are as they stand in the conversation, by itself.
        system: System prompt of a plain call; `None` in mode `shared`.
        max_output_tokens: Room for the answer.
        facts: What code knows of the same messages; a summarizer without a model needs only this.
        instructions: The user's own and those of hooks, which `prompt` holds too.
        user_messages_tokens: Most that the user's messages may take in the summary, in UTF-8 bytes / 4.
        newest_apart: The newest user input stands verbatim elsewhere, after the summary.
        excerpts: What is removed cannot stay shortened next to the summary: room that is left is for excerpts of the newest results.
        deadline_seconds: For the whole call; `None`: none.
        stall_seconds: Longest wait for the next token of a stream; `None`: none.
        attempt: From 1; grows with each retry.
        source: Who asks: always `compact`, so that a host never takes the answer for a reply.
        watch: Called with what streams in; `None`: not called.
    """

    messages: Sequence[Mapping[str, Any]]
    prompt: str
    mode: Literal["shared", "plain", "native"] = "plain"
    system: str | None = None
    max_output_tokens: int = 20_000
    facts: Facts = field(default_factory=_no_facts, repr=False)
    instructions: str = ""
    user_messages_tokens: int = 20_000
    newest_apart: bool = False
    excerpts: bool = False
    deadline_seconds: float | None = None
    stall_seconds: float | None = None
    attempt: int = 1
    source: str = "compact"
    watch: Watch | None = field(default=None, repr=False, compare=False)

    def __repr__(self) -> str:
        return (
            f"SummaryRequest({self.mode}, {len(self.messages)} messages, attempt {self.attempt}, "
            f"max_output_tokens={self.max_output_tokens:_})"
        )


class SummaryReply(Frozen, kw_only=True):
    """The reply of a summarizer, not yet checked.

    Attributes:
        text: The response's text blocks, joined; no reasoning.
        finish_reason: As the provider named it (`end_turn`, `stop`, `max_tokens`, ...); empty: unknown.
        tool_calls: Names of tools that the response called, although this was forbidden.
        refused: The provider marked the answer as a refusal.
        model: The model that responded; empty: unknown.
        usage: Token counts as reported; `None`: not reported.
        carried: What the provider made instead of a text: messages that go in front of the summary
            message, as they are.
        left_out: A larger `max_output_tokens` would have let it say more; of one that knows.
    """

    text: str
    finish_reason: str = ""
    tool_calls: tuple[str, ...] = ()
    refused: bool = False
    model: str = ""
    usage: Mapping[str, Any] | None = None
    carried: tuple[Mapping[str, Any], ...] = ()
    left_out: bool = False

    @property
    def is_cut_off(self) -> bool:
        """Whether the answer ended at its output limit, in any provider's words."""
        return self.finish_reason.lower() in _CUT_OFF

    @property
    def is_refusal(self) -> bool:
        """Whether the provider refused, by its mark or by its reason to end."""
        return self.refused or self.finish_reason.lower() in _REFUSALS

    def __repr__(self) -> str:
        return f"SummaryReply({len(self.text)} characters, finish_reason={self.finish_reason!r})"


@runtime_checkable
class Summarizer(Protocol):
    """Writes a summary.

    Optional attributes, read with `getattr`: `window_tokens` and `max_output_tokens` (limits of its
    model; `None` or absent: unknown), `modes` (call modes in the order to try; absent: `("plain",)`),
    `local` (true: pure computation, run in place without a deadline), `is_async` (of one that has both forms: which is
    called; absent: the synchronous one on a thread, the asynchronous one in an event loop).
    """

    @property
    def name(self) -> str:
        """Its name in reports."""
        ...

    def summarize(self, request: SummaryRequest) -> SummaryReply | str:
        """Writes the summary that `request` asks for."""
        ...


@runtime_checkable
class AsyncSummarizer(Protocol):
    """Writes a summary without blocking the event loop."""

    @property
    def name(self) -> str:
        """Its name in reports."""
        ...

    def asummarize(self, request: SummaryRequest) -> Awaitable[SummaryReply | str]:
        """Writes the summary that `request` asks for."""
        ...


SummarizerFunction: TypeAlias = Callable[
    [SummaryRequest], SummaryReply | str | Awaitable[SummaryReply | str]
]
# A writer of summaries, synchronous, asynchronous or both.
Writer: TypeAlias = Summarizer | AsyncSummarizer
# What a caller may pass: a summarizer, a function, or a string such as `anthropic:claude-haiku-4-5`.
WriterLike: TypeAlias = Writer | SummarizerFunction | str


def is_async(summarizer: object, *, in_loop: bool) -> bool:
    """Whether a summarizer is to be awaited: its only form decides, then its `is_async`, then who calls it.

    Args:
        summarizer: Any; what has no `asummarize` is not awaited.
        in_loop: The caller is in an event loop.
    """
    if not hasattr(summarizer, "asummarize"):
        return False
    if not hasattr(summarizer, "summarize"):
        return True
    return bool(getattr(summarizer, "is_async", in_loop))
