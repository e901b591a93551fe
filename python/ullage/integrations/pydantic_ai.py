"""Pydantic AI: `Agent(..., capabilities=[Ullage()])`.

```python
from pydantic_ai import Agent
from ullage.integrations.pydantic_ai import Ullage

agent = Agent("openai:gpt-5.4", capabilities=[Ullage()])
```
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, Unpack

from ullage.integrations.conversations import (
    Fitted,
    HeldConversation,
    HeldConversations,
    ModelFacts,
    Options,
    transcript_of,
)
from ullage.integrations.pydantic_ai_messages import PydanticTranslator, standing
from ullage.integrations.versions import absent, check
from ullage.manager.followed import print_of
from ullage.summarizers.protocol import SummaryReply, SummaryRequest

check("pydantic-ai")
try:
    from pydantic_ai import RunContext
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.direct import model_request
    from pydantic_ai.exceptions import ModelContextWindowExceededError
    from pydantic_ai.messages import (
        ModelMessage,
        ModelRequest,
        ModelResponse,
        SystemPromptPart,
        UserPromptPart,
    )
    from pydantic_ai.models import Model, ModelRequestContext
except ImportError as exc:
    raise absent("pydantic-ai") from exc

__all__ = ["Ullage", "UllageStrategy", "ullage_history"]

History = Callable[[RunContext[Any], list[ModelMessage]], Awaitable[list[ModelMessage]]]


class Ullage(AbstractCapability[Any]):
    """Keeps an agent's requests within the model's window.

    The run's history stays as it is: what the model is sent is a view of it. If the provider refuses a request as too long, room
    is made and it is sent again (not in the middle of a stream).

    Args:
        persist: Also write the smaller list into the run's history.
        **options: See `ullage.integrations.conversations.Options`. Of the model its profile is known.
    """

    def __init__(
        self,
        *,
        persist: bool = False,
        **options: Unpack[Options],
    ) -> None:
        self._persist = persist
        self.conversations = HeldConversations[ModelMessage](PydanticTranslator(), **options)

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Send what fits."""
        given, conversation = request_context.messages, self._of(ctx, request_context)
        fitted = await conversation.afit(given, **_head(request_context))
        if not fitted.changed:
            return request_context
        request_context.messages = _with_system(given, fitted)
        if self._persist:
            _kept(conversation, request_context.messages, fitted)
            ctx.messages[:] = request_context.messages
        return request_context

    async def on_model_request_error(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, error: Exception
    ) -> ModelResponse:
        """After a refusal as too long, send less."""
        conversation = self._of(ctx, request_context)
        given = list(ctx.messages)
        while True:
            is_overflow = isinstance(error, ModelContextWindowExceededError)
            await conversation.arefused(error, overflow=is_overflow)
            fitted = await conversation.afit(given, **_head(request_context))
            try:
                return await model_request(
                    request_context.model,
                    _with_system(given, fitted),
                    model_settings=request_context.model_settings,
                    model_request_parameters=request_context.model_request_parameters,
                )
            except Exception as again:
                error = again

    def _of(
        self, ctx: RunContext[Any], request: ModelRequestContext
    ) -> HeldConversation[ModelMessage]:
        return self.of(ctx, request.model, request.messages)

    def of(
        self, ctx: RunContext[Any], model: Model, messages: Sequence[ModelMessage]
    ) -> HeldConversation[ModelMessage]:
        """The conversation of a run."""
        host = _host(model) if self.conversations.host_writes else None
        return self.conversations.of(_name(ctx, messages), _facts(model), host)


def ullage_history(
    **options: Unpack[Options],
) -> History:
    """A history processor: `Agent(..., capabilities=[ProcessHistory(ullage_history())])`.

    What it returns becomes the run's history. The arguments are those of `Ullage`.
    """
    strategy = UllageStrategy(**options)

    async def process(ctx: RunContext[Any], messages: list[ModelMessage]) -> list[ModelMessage]:
        return await strategy.fitted(messages, ctx)

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
        fitted = await conversation.afit(messages)
        if not fitted.changed:
            await conversation.manager.acompact()
            fitted = await conversation.afit(messages)
        return _taken(conversation, messages, fitted)

    async def fitted(
        self, messages: list[ModelMessage], ctx: RunContext[Any]
    ) -> list[ModelMessage]:
        """The messages made smaller if they do not fit."""
        conversation = self._capability.of(ctx, ctx.model, messages)
        return _taken(conversation, messages, await conversation.afit(messages))


# ---- what a run is ----------------------------------------------------------------------------


def _name(ctx: RunContext[Any], messages: Sequence[ModelMessage]) -> str:
    """What names a conversation: Pydantic AI's id of it, else how it begins."""
    if ctx.conversation_id:
        return str(ctx.conversation_id)
    return print_of(PydanticTranslator().read(messages[0])) if messages else ""


def _facts(model: Model) -> ModelFacts:
    return ModelFacts(str(model.model_name), model.context_window)


def _head(request: ModelRequestContext) -> dict[str, Any]:
    parameters = request.model_request_parameters
    tools = [*parameters.function_tools, *parameters.output_tools]
    newest = next((m for m in reversed(request.messages) if isinstance(m, ModelRequest)), None)
    prompts = [str(part.content) for part in standing(request.messages)]
    return {
        "system": "\n\n".join([*prompts, (newest.instructions if newest else None) or ""]),
        "tools": [
            {
                "name": tool.name,
                "description": tool.description or "",
                "input_schema": tool.parameters_json_schema,
            }
            for tool in tools
        ],
    }


def _with_system(given: Sequence[ModelMessage], fitted: Fitted[ModelMessage]) -> list[ModelMessage]:
    """The messages to send; system prompts of those that are left out stand before them."""
    stay = set(fitted.view.origin)
    left = [message for at, message in enumerate(given) if at not in stay]
    prompts = standing(left)
    if not prompts:
        return list(fitted.messages)
    first = fitted.messages[0]
    if isinstance(first, ModelRequest):
        return [replace(first, parts=[*prompts, *first.parts]), *fitted.messages[1:]]
    return [ModelRequest(parts=prompts), *fitted.messages]


def _taken(
    conversation: HeldConversation[ModelMessage],
    given: list[ModelMessage],
    fitted: Fitted[ModelMessage],
) -> list[ModelMessage]:
    """The messages, which become the run's history."""
    if not fitted.changed:
        return given
    made = _with_system(given, fitted)
    _kept(conversation, made, fitted)
    return made


def _kept(
    conversation: HeldConversation[ModelMessage],
    made: Sequence[ModelMessage],
    fitted: Fitted[ModelMessage],
) -> None:
    if len(made) == len(fitted.view.messages):
        read = [conversation.translator.read(message) for message in made]
        conversation.manager.view_kept(replace(fitted.view, messages=read))


def _host(model: Model) -> Callable[[SummaryRequest], Awaitable[SummaryReply]]:
    """The agent's own model as the writer of summaries."""

    async def write(request: SummaryRequest) -> SummaryReply:
        prompts = [SystemPromptPart(request.system)] if request.system else []
        asked = UserPromptPart(transcript_of(request.messages, request.prompt))
        answer = await model_request(model, [ModelRequest(parts=[*prompts, asked])])
        return SummaryReply(text=answer.text or "", finish_reason=str(answer.finish_reason or ""))

    return write
