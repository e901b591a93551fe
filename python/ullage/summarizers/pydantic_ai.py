"""A summarizer for the many providers that pydantic-ai knows, through its direct interface."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from ullage._start import optional
from ullage.counting.models import ModelTable
from ullage.exceptions import InvalidPolicy
from ullage.facts.words import blocks_of, clean
from ullage.summarizers.protocol import SummaryReply, SummaryRequest, Watch, anthropic_messages
from ullage.summarizers.streams import CUT_STREAM, SDK_MARGIN_SECONDS


class AnySummarizer:
    """Writes summaries with `pydantic_ai.direct`.

    Only plain calls: what another library makes of a request does not share the main loop's prefix.

    Args:
        model: `provider:model`, such as `google:gemini-2.5-flash`, or a model object of pydantic-ai.
        settings: Further model settings, such as `temperature`.
        window_tokens: Context window; `None`: from the model table, by the name after the colon.
        max_output_tokens: Longest answer; `None`: likewise.

    Raises:
        MissingExtra: The package `pydantic-ai-slim` is not installed.
    """

    modes: tuple[Literal["plain"], ...] = ("plain",)

    def __init__(
        self,
        model: object,
        *,
        settings: Mapping[str, Any] | None = None,
        window_tokens: int | None = None,
        max_output_tokens: int | None = None,
    ) -> None:
        self._direct = optional("pydantic_ai.direct", "any")
        self._parts = optional("pydantic_ai.messages", "any")
        named = model if isinstance(model, str) else str(getattr(model, "model_name", "model"))
        if not named.strip():
            raise InvalidPolicy("model", model, "must name a model")
        row = ModelTable.builtin().find(named.rpartition(":")[2])
        self.name = f"any:{named}"
        self.window_tokens = window_tokens or (row.context_window if row else None)
        self.max_output_tokens = max_output_tokens or (row.max_output_tokens if row else None)
        self._model, self._settings = model, dict(settings or {})

    def summarize(self, request: SummaryRequest) -> SummaryReply:
        """Writes the summary, in an event loop of its own."""
        import asyncio

        return asyncio.run(self.asummarize(request))

    async def asummarize(self, request: SummaryRequest) -> SummaryReply:
        """Writes the summary; raises what pydantic-ai raises."""
        watch = request.watch or Watch()
        watch.begin()
        limits: dict[str, Any] = {"max_tokens": request.max_output_tokens}
        if request.stall_seconds is not None:
            limits["timeout"] = request.stall_seconds + SDK_MARGIN_SECONDS
        settings = {**limits, **self._settings}
        messages = list(self._messages(request))
        async with self._direct.model_request_stream(
            self._model, messages, model_settings=settings
        ) as stream:
            async for event in stream:
                watch.token(_gained(event))
            return _reply(stream.get())

    # ---- messages ----------------------------------------------------------------------------

    def _messages(self, request: SummaryRequest) -> Iterator[Any]:
        if request.system:
            system = self._parts.SystemPromptPart(request.system)
            yield self._parts.ModelRequest(parts=[system])
        names: dict[str, str] = {}
        for message in anthropic_messages(request.messages):
            parts = list(self._blocks(message, names))
            if parts and message.get("role") == "assistant":
                yield self._parts.ModelResponse(parts=parts)
            elif parts:
                yield self._parts.ModelRequest(parts=parts)
        yield self._parts.ModelRequest(parts=[self._parts.UserPromptPart(request.prompt)])

    def _blocks(self, message: Mapping[str, Any], names: dict[str, str]) -> Iterator[Any]:
        ours = message.get("role") == "assistant"
        for block in blocks_of(message):
            kind, key = block.get("type"), str(block.get("id") or block.get("tool_use_id") or "")
            if kind == "tool_use":
                names[key] = str(block.get("name"))
                call_input = dict(block.get("input") or {})
                yield self._parts.ToolCallPart(names[key], call_input, tool_call_id=key)
            elif kind == "tool_result":
                text, name = _result(block), names.get(key, "tool")
                yield self._parts.ToolReturnPart(name, text, tool_call_id=key)
            elif isinstance(block.get("text"), str) and block["text"]:
                part = self._parts.TextPart if ours else self._parts.UserPromptPart
                yield part(block["text"])

    def __repr__(self) -> str:
        return f"AnySummarizer({self.name.removeprefix('any:')})"


def _result(block: Mapping[str, Any]) -> str:
    content = block.get("content")
    if isinstance(content, str):
        return clean(content)
    texts = [p.get("text") for p in content or () if isinstance(p, Mapping)]
    return "\n".join(text for text in texts if isinstance(text, str))


def _gained(event: Any) -> str:
    if event.event_kind == "part_end":  # says the whole part once more
        return ""
    for place, key in (("delta", "content_delta"), ("part", "content")):
        part = getattr(event, place, None)
        if getattr(part, "part_kind", getattr(part, "part_delta_kind", None)) == "text":
            return str(getattr(part, key, "") or "")
    return ""


def _reply(response: Any) -> SummaryReply:
    kinds = {"text": list[str](), "tool-call": list[str]()}
    for part in response.parts:
        content = part.content if part.part_kind == "text" else getattr(part, "tool_name", "")
        if part.part_kind in kinds:
            kinds[part.part_kind].append(str(content))
    usage, reason = response.usage, response.finish_reason
    if reason is None:
        # A provider always tells; models made of functions have none to tell.
        reason = CUT_STREAM if response.provider_name else ""
    return SummaryReply(
        text="\n".join(kinds["text"]),
        finish_reason=_REASONS.get(reason, reason),
        tool_calls=tuple(kinds["tool-call"]),
        refused=reason == "content_filter",
        model=response.model_name or "",
        usage=_usage(usage),
    )


def _usage(usage: Any) -> dict[str, int]:
    """In Anthropic's words; pydantic-ai counts what the cache had and took as input."""
    read, written = (int(getattr(usage, f"cache_{n}_tokens", 0) or 0) for n in ("read", "write"))
    return {
        "input_tokens": max(int(usage.input_tokens or 0) - read - written, 0),
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": written,
        "output_tokens": int(usage.output_tokens or 0),
    }


_REASONS = {"tool_call": "tool_calls"}
