"""Compaction by the provider: its own model writes, and the opaque result must stay unchanged.

Anthropic gives a signed `compaction` block, OpenAI the user's messages and an encrypted item. They go
before a short summary by code, which a user, another provider or the next compaction can read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from ullage.legality.repairs import repair
from ullage.providers import openai_responses
from ullage.summarizers.anthropic import AnthropicSummarizer, MessageReader
from ullage.summarizers.inputs import anthropic_messages, without_thinking
from ullage.summarizers.openai import OpenAISummarizer
from ullage.summarizers.protocol import SummaryReply, SummaryRequest
from ullage.summarizers.shared_prefix import begins_with
from ullage.summarizers.streams import CUT_STREAM, LastRequest, StreamReader

__all__ = ["BETA", "AnthropicCompaction", "OpenAICompaction"]

BETA = "compact-2026-09-04"
"""Header of Anthropic's on-demand compaction: on the call itself, and on every later request that holds the block."""

MOST_INSTRUCTIONS = 16_384
"""Characters that Anthropic takes."""

Native = tuple[Literal["native"], ...]


class AnthropicCompaction(AnthropicSummarizer):
    """Anthropic's on-demand compaction, as a summarizer for bare messages.

    With `last_request` the call keeps the main loop's system prompt, tools and thinking settings, and
    reads its prompt cache. The block that comes back stands first in the new context; every later
    request needs the beta header `compact-2026-09-04`, and may not carry a `compact_*` edit. It can't be
    had on Bedrock.

    Args are those of `AnthropicSummarizer`.
    """

    modes: Native = ("native",)  # type: ignore[assignment]  # the other two would be another request
    beta = BETA

    def __init__(
        self,
        model: str,
        *,
        client: object | None = None,
        async_client: object | None = None,
        api_key: str | None = None,
        base_url: str = "",
        last_request: LastRequest = None,
        window_tokens: int | None = None,
        max_output_tokens: int | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(
            model,
            client=client,
            async_client=async_client,
            api_key=api_key,
            base_url=base_url,
            last_request=last_request,
            window_tokens=window_tokens,
            max_output_tokens=max_output_tokens,
            extra=extra,
        )
        self.modes = ("native",)
        self.name = f"anthropic-compaction:{model}"

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


_REPLY_ONLY = ("context_management", "stop_sequences", "output_format", "stream")


def _only_for_a_reply(body: Mapping[str, Any]) -> dict[str, Any]:
    """Without the parameters that only shape a reply: the API refuses them here (RULES 2.17)."""
    kept = {key: value for key, value in body.items() if key not in _REPLY_ONLY}
    choice, config = kept.get("tool_choice"), kept.get("output_config")
    if isinstance(choice, Mapping) and choice.get("type") in ("any", "tool"):
        del kept["tool_choice"]
    if isinstance(config, Mapping):
        slim = {key: value for key, value in config.items() if key != "format"}
        budget = slim.get("task_budget")
        if isinstance(budget, Mapping):
            slim["task_budget"] = {k: v for k, v in budget.items() if k != "remaining"}
        kept["output_config"] = slim
    return kept


class BlockReader(MessageReader):
    """Reads a compaction block, key by key as it comes."""

    def __init__(self) -> None:
        super().__init__()
        self._found: dict[str, Any] | None = None

    def _block(self, event: Any) -> str:
        if event.content_block.type == "compaction":
            self._found = event.content_block.model_dump(mode="json", exclude_unset=True)
        return super()._block(event)

    def _delta(self, event: Any) -> str:
        delta = event.delta
        if delta.type != "compaction_delta" or self._found is None:
            return super()._delta(event)
        told = delta.model_dump(mode="json", exclude_unset=True)
        self._found |= {key: value for key, value in told.items() if key != "type"}
        return str(delta.content or "")

    def reply(self) -> SummaryReply:
        """See `StreamReader`; without a summary the old history has to stay."""
        reply, block = super().reply(), self._found
        if block is None or not block.get("content"):
            return reply
        return SummaryReply(
            text=str(block["content"]),
            finish_reason=reply.finish_reason,
            model=reply.model,
            usage=reply.usage,
            carried=({"role": "assistant", "content": [block]},),
        )


_FRAME = ("instructions", "prompt_cache_key")


class OpenAICompaction(OpenAISummarizer):
    """OpenAI's `/responses/compact`, as a summarizer for bare messages.

    What comes back (the user's messages and one encrypted item) stands first in the new context, as
    `providers.openai_responses` writes it.

    Args are those of `OpenAISummarizer`, without `api` and `dialect`.
    """

    modes: Native = ("native",)  # type: ignore[assignment]  # see above

    def __init__(
        self,
        model: str,
        *,
        client: object | None = None,
        async_client: object | None = None,
        api_key: str | None = None,
        base_url: str = "",
        last_request: LastRequest = None,
        window_tokens: int | None = None,
        max_output_tokens: int | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(
            model,
            api="responses",
            client=client,
            async_client=async_client,
            api_key=api_key,
            base_url=base_url,
            last_request=last_request,
            window_tokens=window_tokens,
            max_output_tokens=max_output_tokens,
            extra=extra,
        )
        self.modes = ("native",)
        self.name = f"openai-compaction:{model}"

    def body(self, request: SummaryRequest) -> dict[str, Any]:
        """The arguments of `responses.compact`."""
        last = self.last_request() if self._last is not None else {}
        shaped = openai_responses.to_provider(anthropic_messages(request.messages)).parts["input"]
        items = repair(shaped, provider="openai_responses").messages
        kept: dict[str, Any] = {key: last[key] for key in _FRAME if key in last}
        return {"model": last.get("model", self.model), "input": list(items), **kept}

    def summarize(self, request: SummaryRequest) -> SummaryReply:
        """Compacts; raises what the SDK raises. It does not stream: the deadline alone ends it."""
        with self._lent(self._client, asynchronous=False) as client:
            return _carried(
                client.with_options(max_retries=0).responses.compact(**self._args(request))
            )

    async def asummarize(self, request: SummaryRequest) -> SummaryReply:
        """Compacts without blocking."""
        async with self._lent(self._async_client, asynchronous=True) as client:
            once = client.with_options(max_retries=0)
            return _carried(await once.responses.compact(**self._args(request)))

    def _args(self, request: SummaryRequest) -> dict[str, Any]:
        limit = request.deadline_seconds
        return {**self.body(request), **({} if limit is None else {"timeout": limit})}

    def _reader(self) -> StreamReader:
        raise NotImplementedError


def _carried(response: Any) -> SummaryReply:
    # User messages come back in a form that the SDK's types do not foresee: it warns, and keeps them.
    dumped = {"mode": "json", "exclude_unset": True, "warnings": False}
    items = [item.model_dump(**dumped) for item in response.output]
    opaque = any(item.get("type") == "compaction" for item in items)
    messages = openai_responses.from_provider(items).messages if opaque else []
    usage = response.usage.model_dump(exclude_none=True) if response.usage is not None else None
    reason = "completed" if opaque else CUT_STREAM
    return SummaryReply(text="", finish_reason=reason, usage=usage, carried=tuple(messages))
