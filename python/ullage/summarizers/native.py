"""Compaction by the provider: its own model writes, and the opaque result must stay unchanged.

Anthropic gives a signed `compaction` block, OpenAI the user's messages and an encrypted item. They go
before a short summary by code, which a user, another provider or the next compaction can read.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from ullage.exceptions import InvalidPolicy
from ullage.legality.repairs import repair
from ullage.providers import openai_responses
from ullage.summarizers.anthropic import AnthropicSummarizer, MessageReader
from ullage.summarizers.openai import OpenAISummarizer
from ullage.summarizers.protocol import (
    SummarizerFunction,
    SummaryReply,
    SummaryRequest,
    anthropic_messages,
    without_thinking,
)
from ullage.summarizers.streams import CUT_STREAM, StreamingSummarizer, begins_with

# Header of Anthropic's on-demand compaction: on the call itself, and on every later request that holds the block.
BETA = "compact-2026-09-04"
MOST_INSTRUCTIONS = 16_384  # characters that Anthropic takes
_REPLY_ONLY = ("context_management", "stop_sequences", "output_format", "stream")
_FRAME = ("instructions", "prompt_cache_key")


class AnthropicCompaction(AnthropicSummarizer):
    """Anthropic's on-demand compaction, as a summarizer for bare messages.

    With `last_request` the call keeps the main loop's system prompt, tools and thinking settings, and
    reads its prompt cache. The block that comes back stands first in the new context; every later
    request needs the beta header `compact-2026-09-04`, and may not carry a `compact_*` edit. It can't be
    had on Bedrock.

    Args are those of `AnthropicSummarizer`.
    """

    _kind = "anthropic-compaction"
    modes = ("native",)  # the other two would be another request
    beta = BETA

    def body(self, request: SummaryRequest) -> dict[str, Any]:
        """The arguments of `beta.messages.create`."""
        last = _only_for_a_reply(self.last_request()) if self._last is not None else {}
        frame = last or {"model": self.model, "max_tokens": request.max_output_tokens}
        wanted: dict[str, Any] = {"type": "summarize"}
        if request.instructions:
            wanted["instructions"] = request.prompt[:MOST_INSTRUCTIONS]
        betas = [*dict.fromkeys([*(frame.get("betas") or ()), BETA])]
        messages = self._messages(last.get("messages") or (), request)
        return {**frame, "messages": messages, "betas": betas, "compaction": wanted, "stream": True}

    def _messages(self, sent: Sequence[Any], request: SummaryRequest) -> list[Any]:
        ours = anthropic_messages(request.messages)
        if begins_with(sent, ours):
            return list(sent[: len(ours)])
        # Under another system prompt, or after other messages, signed reasoning is refused.
        return list(repair(without_thinking(ours), model=self.model, resume="compaction").messages)

    def _reader(self) -> BlockReader:
        return BlockReader()


def _only_for_a_reply(body: Mapping[str, Any]) -> dict[str, Any]:
    """Without the parameters that only shape a reply: the API refuses them here (RULES 2.17)."""
    remaining = {key: value for key, value in body.items() if key not in _REPLY_ONLY}
    choice, config = remaining.get("tool_choice"), remaining.get("output_config")
    if isinstance(choice, Mapping) and choice.get("type") in ("any", "tool"):
        del remaining["tool_choice"]
    if isinstance(config, Mapping):
        slim = {key: value for key, value in config.items() if key != "format"}
        budget = slim.get("task_budget")
        if isinstance(budget, Mapping):
            slim["task_budget"] = {k: v for k, v in budget.items() if k != "remaining"}
        remaining["output_config"] = slim
    return remaining


class BlockReader(MessageReader):
    """Reads a compaction block, key by key as it comes."""

    def __init__(self) -> None:
        super().__init__()
        self._compaction: dict[str, Any] | None = None

    def _block(self, event: Any) -> str:
        if event.content_block.type == "compaction":
            self._compaction = event.content_block.model_dump(mode="json", exclude_unset=True)
        return super()._block(event)

    def _delta(self, event: Any) -> str:
        delta = event.delta
        if delta.type != "compaction_delta" or self._compaction is None:
            return super()._delta(event)
        fields = delta.model_dump(mode="json", exclude_unset=True)
        self._compaction |= {key: value for key, value in fields.items() if key != "type"}
        return str(delta.content or "")

    def reply(self) -> SummaryReply:
        """See `StreamReader`; without a summary the old history has to stay."""
        reply, block = super().reply(), self._compaction
        if block is None or not block.get("content"):
            return reply
        return SummaryReply(
            text=str(block["content"]),
            finish_reason=reply.finish_reason,
            model=reply.model,
            usage=reply.usage,
            carried=({"role": "assistant", "content": [block]},),
        )


class OpenAICompaction(StreamingSummarizer):
    """OpenAI's `/responses/compact`, as a summarizer for bare messages. It does not stream: the deadline alone ends it.

    What comes back (the user's messages and one encrypted item) stands first in the new context, as
    `providers.openai_responses` writes it.

    Args are those of `OpenAISummarizer`, without `api` and `dialect`.
    """

    provider, form = "openai", "openai_responses"
    _kind = "openai-compaction"
    _clients, _keys = OpenAISummarizer._clients, OpenAISummarizer._keys
    modes = ("native",)

    def body(self, request: SummaryRequest) -> dict[str, Any]:
        """The arguments of `responses.compact`."""
        last = self.last_request() if self._last is not None else {}
        shaped = openai_responses.to_provider(anthropic_messages(request.messages)).parts["input"]
        items = repair(shaped, provider="openai_responses").messages
        frame: dict[str, Any] = {key: last[key] for key in _FRAME if key in last}
        return {"model": last.get("model", self.model), "input": list(items), **frame}

    def summarize(self, request: SummaryRequest) -> SummaryReply:
        """Compacts; raises what the SDK raises."""
        with self._lent(self._client, asynchronous=False) as client:
            once = client.with_options(max_retries=0)
            return _carried(once.responses.compact(**self._args(request)))

    async def asummarize(self, request: SummaryRequest) -> SummaryReply:
        """Compacts without blocking."""
        async with self._lent(self._async_client, asynchronous=True) as client:
            once = client.with_options(max_retries=0)
            return _carried(await once.responses.compact(**self._args(request)))

    def _args(self, request: SummaryRequest) -> dict[str, Any]:
        limit = request.deadline_seconds
        return {**self.body(request), **({} if limit is None else {"timeout": limit})}


def _carried(response: Any) -> SummaryReply:
    # User messages come back in a form that the SDK's types do not foresee: it warns, and keeps them.
    dumped = {"mode": "json", "exclude_unset": True, "warnings": False}
    items = [item.model_dump(**dumped) for item in response.output]
    opaque = any(item.get("type") == "compaction" for item in items)
    messages = openai_responses.from_provider(items).messages if opaque else []
    usage = response.usage.model_dump(exclude_none=True) if response.usage is not None else None
    reason = "completed" if opaque else CUT_STREAM
    return SummaryReply(text="", finish_reason=reason, usage=usage, carried=tuple(messages))


# A function as a summarizer.


class CallableSummarizer:
    """Wraps a function, synchronous or not, that takes a `SummaryRequest` and returns text.

    Args:
        function: Returns the summary as a string or a `SummaryReply`.
        name: For reports; by default the function's.
        window_tokens: Context window of its model; `None`: unknown, not checked.
        max_output_tokens: Its longest answer; `None`: unknown.
        modes: Call modes in the order to try.

    Example:
        >>> writer = CallableSummarizer(lambda request: "## 1. Primary Request and Intent", name="mine")
        >>> writer.name
        'mine'
    """

    def __init__(
        self,
        function: SummarizerFunction,
        *,
        name: str = "",
        window_tokens: int | None = None,
        max_output_tokens: int | None = None,
        modes: tuple[Literal["shared", "plain"], ...] = ("plain",),
    ) -> None:
        if not callable(function):
            raise InvalidPolicy("summarizer", function, "must be a summarizer or a function")
        self._function = function
        self.name = name or getattr(function, "__name__", type(function).__name__)
        self.window_tokens = window_tokens
        self.max_output_tokens = max_output_tokens
        self.modes = modes

    def summarize(self, request: SummaryRequest) -> SummaryReply | str:
        """Calls the function."""
        answer = self._function(request)
        if inspect.isawaitable(answer):
            if close := getattr(answer, "close", None):  # a coroutine that nobody awaits would warn
                close()
            raise InvalidPolicy(
                "summarizer", self.name, "is asynchronous", hint="use acompact, or a plain function"
            )
        return answer

    async def asummarize(self, request: SummaryRequest) -> SummaryReply | str:
        """Calls the function and awaits it if it is asynchronous."""
        answer = self._function(request)
        return await answer if inspect.isawaitable(answer) else answer

    @property
    def is_async(self) -> bool:
        """Whether the function is a coroutine function; another is run in a thread."""
        return inspect.iscoroutinefunction(self._function) or inspect.iscoroutinefunction(
            getattr(self._function, "__call__", None)  # noqa: B004 - an object with an async __call__
        )

    def __repr__(self) -> str:
        return f"CallableSummarizer({self.name})"
