"""LangChain: `create_agent(..., middleware=[UllageMiddleware()])`.

```python
from langchain.agents import create_agent
from ullage.integrations.langchain import UllageMiddleware

agent = create_agent("openai:gpt-5.4", tools=[...], middleware=[UllageMiddleware()])
```
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from operator import is_not
from typing import Any, Final, Unpack

from ullage.integrations.conversations import (
    Fitted,
    Head,
    HeldConversation,
    HeldConversations,
    HostSummarizer,
    ModelFacts,
    Options,
    Translator,
    framework,
    in_place,
    result_in,
    text_of,
    transcript_of,
)
from ullage.manager.whole_list import print_of
from ullage.messages import THINKING, Item
from ullage.providers._common import blocks_of, from_url
from ullage.summarizers.protocol import SummaryReply, SummaryRequest

with framework("langchain"):
    from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse
    from langchain.agents.middleware.internal_call_transformer import (
        InternalCallTransformer,
        internal_call_metadata,
    )
    from langchain_core.exceptions import ContextOverflowError
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import (
        AIMessage,
        AnyMessage,
        BaseMessage,
        ChatMessage,
        FunctionMessage,
        HumanMessage,
        RemoveMessage,
        SystemMessage,
        ToolMessage,
    )
    from langchain_core.runnables import RunnableConfig
    from langchain_core.utils.function_calling import convert_to_openai_tool
    from langgraph.config import get_config
    from langgraph.graph.message import REMOVE_ALL_MESSAGES
    from langgraph.runtime import Runtime

# Content may repeat the calls in the provider's words; `tool_calls` has each of them once, and only that is read.
_CALLS = frozenset(("tool_use", "tool_call", "function_call", "tool_call_chunk", "input_json_delta", "invalid_tool_call"))  # fmt: skip
_PLAIN = frozenset((HumanMessage, SystemMessage, ChatMessage, FunctionMessage))
_REASONING = frozenset((*THINKING, "reasoning", "reasoning_content"))


def _read_message(message: AnyMessage) -> Item:
    if isinstance(message, AIMessage):
        return _response(message)
    if isinstance(message, ToolMessage):
        return {"role": "user", "content": [_result(message)]}
    role = "system" if isinstance(message, SystemMessage) else "user"
    if getattr(message, "role", None) == "assistant":
        role = "assistant"
    return {"role": role, "content": _content(message.content)}


def _changed_message(message: AnyMessage, now: Item) -> AnyMessage:
    if isinstance(message, ToolMessage):
        result = in_place([_result(message)], blocks_of(now["content"]), "tool_result")[0]
        if result is None:
            return _new_message(now)
        content, call = _plain(result.get("content")), str(result["tool_use_id"])
        return message.model_copy(update={"content": content, "tool_call_id": call})
    if isinstance(message, AIMessage):
        return _response_now(message, blocks_of(now["content"]))
    if isinstance(message, FunctionMessage):
        return message.model_copy(update={"content": text_of(now["content"])})
    before, content = blocks_of(_read_message(message)["content"]), message.content
    if isinstance(content, str):
        content = [{"type": "text", "text": content}] if content else []
    more = [dict(block) for block in blocks_of(now["content"])[len(before) :]]
    return message.model_copy(update={"content": [*content, *more]})


def _new_message(item: Item) -> AnyMessage:
    """A message that Ullage wrote: the user's, or an answer or a result that was missing."""
    result = result_in(blocks_of(item["content"]))
    if result is not None:
        call = str(result.get("tool_use_id"))
        return ToolMessage(_plain(result.get("content")), tool_call_id=call)
    text = text_of(item["content"])
    # As LangChain marks what its own middleware writes.
    own = {"additional_kwargs": {"lc_source": "ullage"}}
    if item.get("role") == "assistant":
        return AIMessage(text, **own)
    kind = SystemMessage if item.get("role") == "system" else HumanMessage
    return kind(text, **own)


def _read_from(message: AnyMessage) -> Any:
    kind = type(message)
    if kind is AIMessage or kind is ToolMessage:
        return vars(message)
    # Of the others a field that the class does not have may name the role.
    return [vars(message), message.model_extra] if kind in _PLAIN else message


TRANSLATOR: Final = Translator[AnyMessage](
    _read_message, _changed_message, _new_message, _read_from
)
"""Reads messages, and writes changes into copies of them; ids, artifacts, usage and metadata stay."""


def _content(content: str | list[Any]) -> str | list[dict[str, Any]]:
    return content if isinstance(content, str) else list(_blocks(content))


def _blocks(content: list[Any]) -> Iterator[dict[str, Any]]:
    for block in content:
        if isinstance(block, str):
            yield {"type": "text", "text": block}
        elif not isinstance(block, Mapping) or block.get("type") in _CALLS:
            continue
        elif block.get("type") == "image_url":
            url = block.get("image_url")
            address = url.get("url") if isinstance(url, Mapping) else url
            yield {"type": "image", "source": from_url(str(address))}
        elif block.get("type") in ("reasoning", "reasoning_content"):
            # The whole block, so that what is sealed in it counts; it is sent as it came.
            yield {"type": "thinking", "thinking": json.dumps(block, default=str), "signature": ""}
        else:
            yield dict(block)


def _response(message: AIMessage) -> Item:
    content = message.content
    blocks = list(_blocks([content] if isinstance(content, str) and content else content or []))
    read: dict[str, Any] = {"role": "assistant", "content": [*blocks, *_calls(message)]}
    usage = message.usage_metadata
    if usage:
        read["usage"] = {name: usage[name] for name in ("input_tokens", "output_tokens")}
    return read


def _calls(message: AIMessage) -> Iterator[dict[str, Any]]:
    for at, call in enumerate([*message.tool_calls, *message.invalid_tool_calls]):
        arguments = call["args"] if isinstance(call["args"], dict) else {"arguments": call["args"]}
        # Some local models give none: the message's own id makes the same name in each reading.
        name = call["id"] or f"call_{message.id}_{at}"
        yield {"type": "tool_use", "id": name, "name": call["name"] or "", "input": arguments}


def _result(message: ToolMessage) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": message.tool_call_id}
    block["content"] = _content(message.content)
    return {**block, "is_error": True} if message.status == "error" else block


def _plain(content: Any) -> Any:
    if isinstance(content, str):
        return content
    return [dict(block) for block in content or () if isinstance(block, Mapping)] or ""


def _response_now(message: AIMessage, now: Sequence[Mapping[str, Any]]) -> AIMessage:
    """The response with what its calls hold now, and without thinking where that left."""
    before = list(_calls(message))
    calls_now = in_place(before, now, "tool_use")
    calls = [
        {**call, "args": block["input"], "id": call["id"] and block["id"]}
        for call, block in zip(message.tool_calls, calls_now, strict=False)
        if block is not None
    ]
    thinks = any(block.get("type") in _REASONING for block in now)
    content = message.content
    if isinstance(content, list):
        stays = [block for block in content if thinks or _kind(block) not in _REASONING]
        content = list(_content_now(stays, list(zip(before, calls_now, strict=True))))
    more = dict(message.additional_kwargs)
    # langchain-openai sends these where `tool_calls` is empty: calls that left would come back.
    for name in () if calls == message.tool_calls else ("tool_calls", "function_call"):
        more.pop(name, None)
    if not thinks:
        more.pop("reasoning_content", None)
    update = {"content": content, "tool_calls": calls, "additional_kwargs": more}
    return message.model_copy(update=update)


def _kind(block: Any) -> Any:
    return block.get("type") if isinstance(block, Mapping) else None


def _content_now(
    content: list[Any], calls: list[tuple[dict[str, Any], Mapping[str, Any] | None]]
) -> Iterator[Any]:
    """The content, in which calls may stand once more: the first of an id is the first call of that id."""
    for block in content:
        name = "call_id" if _kind(block) == "function_call" else "id"
        is_call = _kind(block) in ("tool_use", "tool_call", "function_call")
        ids = [before["id"] for before, _ in calls]
        if not is_call or block.get(name) not in ids:
            yield block
            continue
        before, now = calls.pop(ids.index(block[name]))
        if now is None:
            continue
        key, arguments = ("args" if _kind(block) == "tool_call" else "input"), now["input"]
        if name == "call_id":
            key, arguments = "arguments", json.dumps(arguments)
        same = now["input"] == before["input"]
        yield {**block, name: now["id"], **({} if same else {key: arguments})}


def _host(model: BaseChatModel) -> HostSummarizer:
    """The agent's own model as the writer of summaries, which are kept out of the agent's stream."""

    def ask(request: SummaryRequest) -> SummaryReply:
        return _reply(model.invoke(*_asked(request)))

    async def aask(request: SummaryRequest) -> SummaryReply:
        return _reply(await model.ainvoke(*_asked(request)))

    window = _profile(model).get("max_input_tokens")
    return HostSummarizer(f"host:{type(model).__name__}", window, ask, aask)


def _profile(model: Any) -> Mapping[str, Any]:
    return getattr(model, "profile", None) or {}


def _asked(request: SummaryRequest) -> tuple[list[BaseMessage], RunnableConfig]:
    """The messages, and the marks by which streams leave the answer out."""
    system = [SystemMessage(request.system)] if request.system else []
    text = HumanMessage(transcript_of(request))
    return [*system, text], {"metadata": {"lc_source": "summarization", **internal_call_metadata()}}


def _reply(answer: AIMessage) -> SummaryReply:
    about: dict[str, Any] = answer.response_metadata
    reason = about.get("finish_reason") or about.get("stop_reason") or ""
    return SummaryReply(
        text=str(answer.text),
        finish_reason=str(reason),
        tool_calls=tuple(call["name"] for call in answer.tool_calls),
    )


Handler = Callable[[ModelRequest[Any]], ModelResponse[Any]]
AsyncHandler = Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]


def _sending(request: ModelRequest[Any], fitted: Fitted[AnyMessage]) -> ModelRequest[Any]:
    return request.override(messages=fitted.messages) if fitted.changed else request


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

    # With the metadata of `_asked`: without both, a summary streams to the user as if the agent said it (langchain 1.4.7).
    transformers = (InternalCallTransformer,)

    def __init__(
        self, *, persist: bool = False, name: str = "UllageMiddleware", **options: Unpack[Options]
    ) -> None:
        super().__init__()
        self._persist, self._name = persist, name
        self._tools: tuple[list[Any], list[dict[str, Any]]] = ([], [])
        self.conversations = HeldConversations[AnyMessage](
            TRANSLATOR, overflow=ContextOverflowError, **options
        )

    @property
    def name(self) -> str:
        """The middleware's name in the graph."""
        return self._name

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Handler
    ) -> ModelResponse[Any] | AIMessage:
        """Send what fits; after a refusal as too long, less."""
        return self._of(request).send(
            request.messages,
            lambda fitted: handler(_sending(request, fitted)),
            **self._head(request),
        )

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: AsyncHandler
    ) -> ModelResponse[Any] | AIMessage:
        """`wrap_model_call`, without blocking the event loop."""
        return await self._of(request).asend(
            request.messages,
            lambda fitted: handler(_sending(request, fitted)),
            **self._head(request),
        )

    def before_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        """With `persist`, put the smaller list into the state."""
        conversation = self._persisted(state["messages"])
        if conversation is None:
            return None
        return _written(conversation, conversation.fit(state["messages"]))

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

    def _of(self, request: ModelRequest[Any]) -> HeldConversation[AnyMessage]:
        model: Any = request.model
        # Chat models share no attribute: OpenAI's have `model_name`, Anthropic's and Google's `model`, Bedrock's `model_id`.
        names = (getattr(model, name, None) for name in ("model_name", "model", "model_id"))
        name = next(
            (text for text in names if isinstance(text, str) and text), type(model).__name__
        )
        limits = map(_profile(model).get, ("max_input_tokens", "max_output_tokens"))
        facts = ModelFacts(name.removeprefix("models/"), *limits)
        return self.conversations.of(_thread(request.messages), facts, lambda: _host(model))

    def _head(self, request: ModelRequest[Any]) -> Head:
        """System prompt and tools; these are converted once for as long as they are the same objects."""
        system = request.system_message
        earlier, definitions = self._tools
        tools = list(request.tools)
        # Converting 50 tools takes milliseconds, and an agent passes the same objects in each turn.
        if len(earlier) != len(tools) or any(map(is_not, earlier, tools)):
            definitions = [convert_to_openai_tool(tool) for tool in tools]
            self._tools = tools, definitions
        return {"system": "" if system is None else system.content, "tools": definitions}


def _written(
    conversation: HeldConversation[AnyMessage], fitted: Fitted[AnyMessage]
) -> dict[str, Any] | None:
    if not fitted.changed:
        return None
    conversation.note_kept(fitted, fitted.messages)
    # The graph merges messages by id: a list is replaced only where all of the old one is removed first.
    return {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), *fitted.messages]}


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
