"""What a summarizer is: anything that turns a `SummaryRequest` into text.

A summarizer that calls a model raises whatever its client raises; the flow classifies it. One that
has `asummarize` is awaited in an event loop, any other is run in a thread there; see `is_async`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, runtime_checkable

from ullage.summarizers.call_watchdog import Watch

if TYPE_CHECKING:
    from ullage.facts.model import Facts

__all__ = [
    "AsyncSummarizer",
    "Summarizer",
    "SummarizerFunction",
    "SummaryReply",
    "SummaryRequest",
    "Writer",
    "WriterLike",
    "is_async",
]


def _no_facts() -> Facts:
    from ullage.facts.model import Facts

    return Facts()


_CUT_OFF = frozenset({"max_tokens", "length", "max_output_tokens", "incomplete", "model_length"})
_REFUSALS = frozenset({"refusal", "content_filter", "safety", "prohibited_content", "recitation"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryRequest:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryReply:
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
    """

    text: str
    finish_reason: str = ""
    tool_calls: tuple[str, ...] = ()
    refused: bool = False
    model: str = ""
    usage: Mapping[str, Any] | None = None
    carried: tuple[Mapping[str, Any], ...] = ()

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

Writer: TypeAlias = Summarizer | AsyncSummarizer
"""A writer of summaries, synchronous, asynchronous or both."""

WriterLike: TypeAlias = Writer | SummarizerFunction | str
"""What a caller may pass: a summarizer, a function, or a string such as `anthropic:claude-haiku-4-5`."""


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
