"""Google's Agent Development Kit: `App(..., plugins=[UllagePlugin()])`.

```python
from google.adk.apps import App
from ullage.integrations.google_adk import UllagePlugin

app = App(name="cellar", root_agent=agent, plugins=[UllagePlugin()])
```
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, Unpack

from ullage.integrations.conversations import (
    Fitted,
    Head,
    HeldConversation,
    HeldConversations,
    ModelFacts,
    Options,
    Translator,
    framework,
    tool_definitions,
    transcript_of,
)
from ullage.summarizers.protocol import SummaryReply, SummaryRequest

with framework("google-adk"):
    from google.adk.agents.callback_context import CallbackContext
    from google.adk.models import LLMRegistry, LlmRequest, LlmResponse
    from google.adk.plugins import BasePlugin
    from google.genai.types import Content, GenerateContentConfig, Part


TRANSLATOR: Final = Translator[Content](
    lambda content: content.model_dump(mode="json", by_alias=True, exclude_none=True),
    lambda _, now: Content.model_validate(now),
    Content.model_validate,
)
"""Contents as the dicts of Gemini's API, and back."""


class UllagePlugin(BasePlugin):
    """Keeps the requests of an app's agents within the model's window.

    The session's events stay as they are: what the model is sent is a view of them. After a refusal as too long, room is made and
    the model is asked again, without streaming.

    Args:
        **options: See `ullage.integrations.conversations.Options`.
    """

    def __init__(self, **options: Unpack[Options]) -> None:
        super().__init__(name="ullage")
        # By id() of requests under way.
        self._originals: dict[int, tuple[LlmRequest, list[Content]]] = {}
        self._conversations = HeldConversations[Content](TRANSLATOR, "gemini", **options)

    async def before_model_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> LlmResponse | None:
        """Send what fits."""
        if llm_request.contents:
            contents = list(llm_request.contents)
            # After an error ADK hands over the request with what was sent; to fit again takes what was given.
            self._originals[id(llm_request)] = llm_request, contents
            conversation = self._of(callback_context, llm_request)
            fitted = await conversation.afit(contents, **_head(llm_request.config))
            llm_request.contents = fitted.messages
        return None

    async def after_model_callback(
        self, *, callback_context: CallbackContext, llm_response: LlmResponse
    ) -> LlmResponse | None:
        """Forget what was given for requests that have been answered."""
        # A streamed answer comes in parts; an error may still follow any but the last.
        if not llm_response.partial:
            self._originals.clear()
        return None

    async def on_model_error_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest, error: Exception
    ) -> LlmResponse | None:
        """After a refusal as too long, send less."""
        _, contents = self._originals.pop(id(llm_request), (None, list(llm_request.contents)))
        conversation = self._of(callback_context, llm_request)

        async def ask(fitted: Fitted[Content]) -> LlmResponse:
            llm_request.contents = fitted.messages
            return await _asked(llm_request)

        await conversation.arefused(error)
        return await conversation.asend(contents, ask, **_head(llm_request.config))

    def _of(self, context: CallbackContext, request: LlmRequest) -> HeldConversation[Content]:
        model = request.model
        name = f"{context.session.id}/{context.agent_name}"
        # ADK names models as the API's paths do.
        facts = ModelFacts((model or "gemini-2.5-pro").removeprefix("models/"))
        host = partial(_host, model) if model else None
        return self._conversations.of(name, facts, host)


def _head(config: GenerateContentConfig) -> Head:
    functions = []
    for tool in config.tools or ():
        for function in getattr(tool, "function_declarations", None) or ():
            about = function.model_dump(mode="json", exclude_none=True)
            schema = about.get("parameters") or about.get("parameters_json_schema") or {}
            functions.append((function.name, function.description, schema))
    return {"system": str(config.system_instruction or ""), "tools": tool_definitions(functions)}


async def _asked(request: LlmRequest) -> LlmResponse:
    newest: LlmResponse | None = None
    model = LLMRegistry.new_llm(request.model or "")
    async for response in model.generate_content_async(request, stream=False):
        newest = response
    return newest or LlmResponse()


def _host(name: str) -> Callable[[SummaryRequest], Awaitable[SummaryReply]]:
    async def write(request: SummaryRequest) -> SummaryReply:
        text = transcript_of(request)
        asked = LlmRequest(
            model=name,
            contents=[Content(role="user", parts=[Part(text=text)])],
            config=GenerateContentConfig(system_instruction=request.system),
        )
        answer = await _asked(asked)
        parts = answer.content.parts if answer.content and answer.content.parts else []
        return SummaryReply(text="".join(part.text or "" for part in parts if not part.thought))

    return write
