"""LangChain: `create_agent(..., middleware=[UllageMiddleware()])`.

```python
from langchain.agents import create_agent
from ullage.integrations.langchain import UllageMiddleware

agent = create_agent("openai:gpt-5.4", tools=[...], middleware=[UllageMiddleware()])
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
)
from ullage.integrations.langchain_messages import LangChainTranslator
from ullage.integrations.langchain_summary import ChatSummarizer
from ullage.integrations.versions import absent, check
from ullage.manager.followed import print_of

check("langchain")
try:
    from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse
    from langchain.agents.middleware.internal_call_transformer import InternalCallTransformer
    from langchain_core.exceptions import ContextOverflowError
    from langchain_core.messages import AIMessage, AnyMessage, RemoveMessage
    from langchain_core.utils.function_calling import convert_to_openai_tool
    from langgraph.config import get_config
    from langgraph.graph.message import REMOVE_ALL_MESSAGES
    from langgraph.runtime import Runtime
except ImportError as exc:
    raise absent("langchain") from exc

__all__ = ["UllageMiddleware"]

Handler = Callable[[ModelRequest[Any]], ModelResponse[Any]]
AsyncHandler = Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]


class UllageMiddleware(AgentMiddleware[AgentState[Any], Any, Any]):
    """Keeps an agent's requests within the model's window.

    The state of the graph stays as it is: what the model is sent is a view of its messages, made again from them wherever the
    graph is resumed, so checkpoints and time travel need nothing. If the provider refuses a request as too long, room is made
    and it is sent again.

    Args:
        persist: Also write the smaller list into the state, so that checkpoints do not grow; what is removed is then
            only in this process.
        name: The middleware's name; `SummarizationMiddleware` takes the place of deepagents' own.
        **options: See `ullage.integrations.conversations.Options`. Of the model its profile is known.
    """

    transformers = (InternalCallTransformer,)

    def __init__(
        self,
        *,
        persist: bool = False,
        name: str = "UllageMiddleware",
        **options: Unpack[Options],
    ) -> None:
        super().__init__()
        self._persist, self._name = persist, name
        self._tools: tuple[list[Any], list[dict[str, Any]]] = ([], [])
        self.conversations = HeldConversations[AnyMessage](LangChainTranslator(), **options)

    @property
    def name(self) -> str:
        """The middleware's name in the graph."""
        return self._name

    # ---- the request -------------------------------------------------------------------------

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Handler
    ) -> ModelResponse[Any] | AIMessage:
        """Send what fits; after a refusal as too long, less."""
        conversation = self._of(request)
        while True:
            fitted = conversation.fit(request.messages, **self._head(request))
            try:
                return handler(_sending(request, fitted))
            except Exception as error:
                conversation.refused(error, overflow=isinstance(error, ContextOverflowError))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: AsyncHandler
    ) -> ModelResponse[Any] | AIMessage:
        """`wrap_model_call`, without blocking the event loop."""
        conversation = self._of(request)
        while True:
            fitted = await conversation.afit(request.messages, **self._head(request))
            try:
                return await handler(_sending(request, fitted))
            except Exception as error:
                is_overflow = isinstance(error, ContextOverflowError)
                await conversation.arefused(error, overflow=is_overflow)

    # ---- the state ---------------------------------------------------------------------------

    def before_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        """With `persist`, put the smaller list into the state."""
        conversation = self._persisted(state["messages"])
        return (
            None
            if conversation is None
            else _written(conversation, conversation.fit(state["messages"]))
        )

    async def abefore_model(
        self, state: AgentState[Any], runtime: Runtime[Any]
    ) -> dict[str, Any] | None:
        """`before_model`, without blocking the event loop."""
        conversation = self._persisted(state["messages"])
        if conversation is None:
            return None
        return _written(conversation, await conversation.afit(state["messages"]))

    def _persisted(self, messages: Sequence[AnyMessage]) -> HeldConversation[AnyMessage] | None:
        """The conversation, from its second request on: the first one names the model."""
        return self.conversations.held(_thread(messages)) if self._persist else None

    # ---- inside ------------------------------------------------------------------------------

    def _of(self, request: ModelRequest[Any]) -> HeldConversation[AnyMessage]:
        host = ChatSummarizer(request.model) if self.conversations.host_writes else None
        return self.conversations.of(_thread(request.messages), _facts(request.model), host)

    def _head(self, request: ModelRequest[Any]) -> dict[str, Any]:
        system = request.system_message
        return {"system": "" if system is None else system.content, "tools": self._defined(request)}

    def _defined(self, request: ModelRequest[Any]) -> list[dict[str, Any]]:
        """Definitions of the tools, made once for as long as they are the same objects."""
        known, made = self._tools
        given = list(request.tools)
        if len(known) != len(given) or any(a is not b for a, b in zip(known, given, strict=True)):
            made = [convert_to_openai_tool(tool) for tool in given]
            self._tools = given, made
        return made


def _sending(request: ModelRequest[Any], fitted: Fitted[AnyMessage]) -> ModelRequest[Any]:
    return request.override(messages=fitted.messages) if fitted.changed else request


def _written(
    conversation: HeldConversation[AnyMessage], fitted: Fitted[AnyMessage]
) -> dict[str, Any] | None:
    if not fitted.changed:
        return None
    read = [conversation.translator.read(message) for message in fitted.messages]
    conversation.manager.view_kept(replace(fitted.view, messages=read))
    return {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), *fitted.messages]}


def _facts(model: Any) -> ModelFacts:
    profile = getattr(model, "profile", None) or {}
    names = (getattr(model, name, None) for name in ("model_name", "model", "model_id"))
    name = next((name for name in names if isinstance(name, str) and name), type(model).__name__)
    return ModelFacts(
        name.removeprefix("models/"),
        profile.get("max_input_tokens"),
        profile.get("max_output_tokens"),
    )


def _thread(messages: Sequence[AnyMessage]) -> str:
    """What names a conversation: the thread of the checkpointer, else how it begins."""
    try:
        configurable = get_config().get("configurable") or {}
    except RuntimeError:  # not in a graph
        configurable = {}
    thread = configurable.get("thread_id")
    if thread is not None:
        # Each node has a namespace of its own; what it is in names the graph.
        outer = str(configurable.get("checkpoint_ns") or "").rpartition("|")[0]
        return f"{thread}/{outer}"
    return print_of(messages[0].content) if messages else ""
