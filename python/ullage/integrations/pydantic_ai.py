"""Pydantic AI: `Agent(..., capabilities=[Ullage()])`.

```python
from pydantic_ai import Agent
from ullage.integrations.pydantic_ai import Ullage

agent = Agent("openai:gpt-5.4", capabilities=[Ullage()])
```
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, Unpack

from ullage.integrations.conversations import (
    Fitted,
    Head,
    HeldConversation,
    HeldConversations,
    ModelFacts,
    Options,
    Translator,
    framework,
    in_place,
    text_of,
    tool_definitions,
    transcript_of,
)
from ullage.manager.whole_list import print_of
from ullage.messages import Item
from ullage.providers._common import blocks_of
from ullage.summarizers.protocol import SummaryReply, SummaryRequest

with framework("pydantic-ai"):
    from pydantic_ai import RunContext
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.direct import model_request
    from pydantic_ai.exceptions import ModelContextWindowExceededError
    from pydantic_ai.messages import (
        BinaryContent,
        CompactionPart,
        ImageUrl,
        ModelMessage,
        ModelRequest,
        ModelResponse,
        RetryPromptPart,
        SystemPromptPart,
        TextPart,
        ThinkingPart,
        ToolCallPart,
        ToolReturnPart,
        UserPromptPart,
    )
    from pydantic_ai.models import Model, ModelRequestContext
    from pydantic_ai.usage import RequestUsage

OWN = {"ullage": "summary"}
"""Metadata of the parts that Ullage wrote."""

_PARTS = frozenset((UserPromptPart, SystemPromptPart, ToolReturnPart, RetryPromptPart, TextPart, ThinkingPart, ToolCallPart))  # fmt: skip

READ_AGAIN = frozenset(("capability-load", "tool-search"))
"""Kinds of tools whose results Pydantic AI reads back from the history: they are sent as they are."""


def _read_message(message: ModelMessage) -> Item:
    if isinstance(message, ModelRequest):
        blocks = [block for part in message.parts for block in _request_blocks(part)]
        # An empty one would be dropped as illegal, though what it holds, such as a system prompt, is sent.
        return {"role": "user", "content": blocks or [_text("[nothing]")]}
    read: dict[str, Any] = {
        "role": "assistant",
        "content": [_response_block(part) for part in message.parts] or [_text("[nothing]")],
    }
    usage = message.usage
    # Models without figures report 0.
    if size := usage.input_tokens:
        read["usage"] = {"input_tokens": size, "output_tokens": usage.output_tokens}
    return read


def _changed_message(message: ModelMessage, now: Item) -> ModelMessage:
    if isinstance(message, ModelRequest):
        return _request_now(
            message, blocks_of(_read_message(message)["content"]), blocks_of(now["content"])
        )
    return _response_now(message, blocks_of(now["content"]))


def _new_message(item: Item) -> ModelMessage:
    """A message that Ullage wrote: a summary, or an answer or a result that was missing."""
    results = [
        ToolReturnPart(
            "",
            text_of(block.get("content")),
            str(block.get("tool_use_id")),
            outcome="interrupted",
        )
        for block in blocks_of(item["content"])
        if block.get("type") == "tool_result"
    ]
    if results:
        return ModelRequest(parts=results)
    if item.get("role") == "assistant":
        return ModelResponse(parts=[TextPart(text_of(item["content"]))])
    # Said in the user's voice; tools that were found before it are announced again (pydantic-ai 2.62).
    return ModelRequest(parts=[CompactionPart(content=text_of(item["content"]), metadata=OWN)])


def _read_from(message: ModelMessage) -> Any:
    parts = [vars(part) if type(part) in _PARTS else part for part in message.parts]
    if type(message) is ModelRequest:
        return parts
    if type(message) is not ModelResponse or type(message.usage) is not RequestUsage:
        return message
    return [parts, message.usage.input_tokens, message.usage.output_tokens]


TRANSLATOR: Final = Translator[ModelMessage](
    _read_message, _changed_message, _new_message, _read_from, (datetime,)
)
"""Reads messages, and writes changes into copies of their parts; ids, metadata and signatures stay."""


def standing(messages: Sequence[ModelMessage]) -> list[Any]:
    """The system prompts in messages that are not sent."""
    return [
        part
        for message in messages
        if isinstance(message, ModelRequest)
        for part in message.parts
        if isinstance(part, SystemPromptPart)
    ]


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _request_blocks(part: Any) -> Iterator[dict[str, Any]]:
    if _is_result(part):
        retry = isinstance(part, RetryPromptPart)
        text = part.model_response() if retry else part.model_response_str()
        block = {"type": "tool_result", "tool_use_id": part.tool_call_id, "content": text}
        failed = retry or part.outcome in ("failed", "denied", "retried")
        yield {**block, "is_error": True} if failed else block
    elif isinstance(part, UserPromptPart):
        contents = [part.content] if isinstance(part.content, str) else part.content
        yield from (_content(content) for content in contents)
    elif isinstance(part, SystemPromptPart):
        return  # sent wherever its message goes
    else:
        yield _text(_words(part))


def _content(content: Any) -> dict[str, Any]:
    if isinstance(content, str):
        return _text(content)
    if isinstance(content, ImageUrl):
        return {"type": "image", "source": {"type": "url", "url": content.url}}
    if isinstance(content, BinaryContent):
        kind = "image" if content.is_image else "document"
        data = base64.b64encode(content.data).decode("ascii")
        return {"type": kind, "source": {"type": "base64", "media_type": content.media_type, "data": data}}  # fmt: skip
    return _text(str(getattr(content, "content", None) or f"[{type(content).__name__}]"))


def _words(part: Any) -> str:
    """A reading of a part of no known kind, for counts and summaries; it is sent as it is."""
    content = getattr(part, "content", None)
    return content if isinstance(content, str) and content else f"[{part.part_kind}]"


def _response_block(part: Any) -> dict[str, Any]:
    if isinstance(part, ToolCallPart):
        return {
            "type": "tool_use",
            "id": part.tool_call_id,
            "name": part.tool_name,
            "input": part.args_as_dict(),
        }
    if isinstance(part, ThinkingPart):
        return {"type": "thinking", "thinking": part.content, "signature": part.signature or ""}
    if isinstance(part, TextPart):
        return _text(part.content or "[no text]")
    if args := getattr(part, "args", None):
        return _text(f"[{getattr(part, 'tool_name', part.part_kind)} {args}]")
    return _text(_words(part))


def _request_now(
    message: ModelRequest, before: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]
) -> ModelRequest:
    results = iter(in_place(before, now, "tool_result"))
    parts: list[Any] = []
    for part in message.parts:
        if not _is_result(part):
            parts.append(part)
        elif (result := next(results)) is not None:
            parts.append(_result_now(part, result))
    # By text, not by place: a part can be several blocks, and a system prompt is none.
    texts, earlier = (
        [str(block["text"]) for block in blocks if block.get("type") == "text"]
        for blocks in (now, before)
    )
    added = (text for text in texts if text not in earlier)
    return replace(message, parts=[*parts, *(UserPromptPart(text) for text in added)])


def _is_result(part: Any) -> bool:
    return isinstance(part, ToolReturnPart) or (
        isinstance(part, RetryPromptPart) and bool(part.tool_name)
    )


def _result_now(part: Any, result: Mapping[str, Any]) -> Any:
    name, text = str(result["tool_use_id"]), text_of(result.get("content"))
    if name != part.tool_call_id:
        part = replace(part, tool_call_id=name)
    if isinstance(part, RetryPromptPart) or part.tool_kind in READ_AGAIN:
        return part
    return part if text == part.model_response_str() else replace(part, content=text)


def _response_now(message: ModelResponse, now: Sequence[Mapping[str, Any]]) -> ModelResponse:
    blocks = [_response_block(part) for part in message.parts]
    calls = iter(in_place(blocks, now, "tool_use"))
    thinks = any(block.get("type") == "thinking" for block in now)
    parts: list[Any] = []
    for part in message.parts:
        if isinstance(part, ToolCallPart):
            if (call := next(calls)) is None:
                continue
            if call["id"] != part.tool_call_id:
                part = replace(part, tool_call_id=str(call["id"]))
            same = part.args_as_dict() == call["input"]
            parts.append(part if same else replace(part, args=dict(call["input"])))
        elif thinks or not isinstance(part, ThinkingPart):
            parts.append(part)
    return replace(message, parts=parts)


History = Callable[[RunContext[Any], list[ModelMessage]], Awaitable[list[ModelMessage]]]


class Ullage(AbstractCapability[Any]):
    """Keeps an agent's requests within the model's window.

    The run's history stays as it is: what the model is sent is a view of it. If the provider refuses a request as too long, room
    is made and it is sent again (not in the middle of a stream).

    Args:
        persist: Also write the smaller list into the run's history.
        **options: See `ullage.integrations.conversations.Options`. Of the model its profile is known.
    """

    def __init__(self, *, persist: bool = False, **options: Unpack[Options]) -> None:
        self._persist = persist
        self.conversations = HeldConversations[ModelMessage](
            TRANSLATOR, overflow=ModelContextWindowExceededError, **options
        )

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Send what fits."""
        messages = request_context.messages
        conversation = self.of(ctx, request_context.model, messages)
        fitted = await conversation.afit(messages, **_head(request_context))
        if not fitted.changed:
            return request_context
        if self._persist:
            request_context.messages = _history(conversation, messages, fitted)
            # The request's list is a copy; the run goes on with this one.
            ctx.messages[:] = request_context.messages
        else:
            request_context.messages = _with_system(messages, fitted)
        return request_context

    async def on_model_request_error(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, error: Exception
    ) -> ModelResponse:
        """After a refusal as too long, send less."""
        conversation = self.of(ctx, request_context.model, request_context.messages)
        # The whole history: the request's own list is the one that was refused.
        messages = list(ctx.messages)
        await conversation.arefused(error)
        # Asked directly: what wraps a request may call its handler once only (pydantic-ai 2.62).
        return await conversation.asend(
            messages,
            lambda fitted: model_request(
                request_context.model,
                _with_system(messages, fitted),
                model_settings=request_context.model_settings,
                model_request_parameters=request_context.model_request_parameters,
            ),
            **_head(request_context),
        )

    def of(
        self, ctx: RunContext[Any], model: Model, messages: Sequence[ModelMessage]
    ) -> HeldConversation[ModelMessage]:
        """The conversation of a run: by Pydantic AI's id of it, else by how it begins."""
        name = str(ctx.conversation_id or "")
        if messages and not name:
            name = print_of(_read_message(messages[0]))
        facts = ModelFacts(str(model.model_name), model.context_window)
        return self.conversations.of(name, facts, lambda: _host(model))


def ullage_history(**options: Unpack[Options]) -> History:
    """A history processor: `Agent(..., capabilities=[ProcessHistory(ullage_history())])`.

    What it returns becomes the run's history. The arguments are those of `Ullage`.
    """
    capability = Ullage(**options)

    async def process(ctx: RunContext[Any], messages: list[ModelMessage]) -> list[ModelMessage]:
        conversation = capability.of(ctx, ctx.model, messages)
        return _history(conversation, messages, await conversation.afit(messages))

    return process


class UllageStrategy:
    """A `CompactionStrategy` of pydantic-ai-harness, alone or as a tier: `TieredCompaction(tiers=[UllageStrategy()])`.

    The arguments are those of `Ullage`.
    """

    def __init__(self, **options: Unpack[Options]) -> None:
        self._capability = Ullage(**options)

    async def compact(
        self, messages: list[ModelMessage], ctx: RunContext[Any]
    ) -> list[ModelMessage]:
        """The messages made smaller, whether the window is full or not."""
        conversation = self._capability.of(ctx, ctx.model, messages)
        # The harness asks because a threshold of its own is passed, which says nothing of Ullage's.
        if not (await conversation.afit(messages)).changed:
            await conversation.manager.acompact()
        return _history(conversation, messages, await conversation.afit(messages))


def _head(request: ModelRequestContext) -> Head:
    parameters = request.model_request_parameters
    tools = [*parameters.function_tools, *parameters.output_tools]
    newest = next((m for m in reversed(request.messages) if isinstance(m, ModelRequest)), None)
    prompts = [str(part.content) for part in standing(request.messages)]
    return {
        "system": "\n\n".join([*prompts, (newest.instructions if newest else None) or ""]),
        "tools": tool_definitions(
            (tool.name, tool.description, tool.parameters_json_schema) for tool in tools
        ),
    }


def _with_system(
    messages: Sequence[ModelMessage], fitted: Fitted[ModelMessage]
) -> list[ModelMessage]:
    """The messages to send; system prompts of those that are left out stand before them."""
    stay = set(fitted.view.origin)
    left = [message for at, message in enumerate(messages) if at not in stay]
    prompts = standing(left)
    if not prompts:
        return list(fitted.messages)
    first = fitted.messages[0]
    if isinstance(first, ModelRequest):
        return [replace(first, parts=[*prompts, *first.parts]), *fitted.messages[1:]]
    return [ModelRequest(parts=prompts), *fitted.messages]


def _history(
    conversation: HeldConversation[ModelMessage],
    messages: list[ModelMessage],
    fitted: Fitted[ModelMessage],
) -> list[ModelMessage]:
    """The messages, which become the run's history."""
    if not fitted.changed:
        return messages
    smaller = _with_system(messages, fitted)
    # Where system prompts had to be put in as a message of their own, positions no longer match the view's.
    if len(smaller) == len(fitted.view.messages):
        conversation.note_kept(fitted, smaller)
    return smaller


def _host(model: Model) -> Callable[[SummaryRequest], Awaitable[SummaryReply]]:
    async def write(request: SummaryRequest) -> SummaryReply:
        prompts = [SystemPromptPart(request.system)] if request.system else []
        asked = UserPromptPart(transcript_of(request))
        answer = await model_request(model, [ModelRequest(parts=[*prompts, asked])])
        return SummaryReply(text=answer.text or "", finish_reason=str(answer.finish_reason or ""))

    return write
