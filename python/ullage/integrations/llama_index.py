"""LlamaIndex: `FunctionAgent(llm=UllageLLM(llm))`, and a block for its memory, `Memory.from_defaults(memory_blocks=[UllageBlock()])`.

```python
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.llms.openai import OpenAI
from ullage.integrations.llama_index import UllageLLM

agent = FunctionAgent(tools=[...], llm=UllageLLM(OpenAI(model="gpt-5.4")))
```
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Unpack

from ullage.exceptions import ContextTooLarge
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
from ullage.messages import Item
from ullage.observe import Listener
from ullage.policy import Policy
from ullage.providers._common import blocks_of, from_url
from ullage.recall.store import OffloadStore
from ullage.summarizers.protocol import SummaryReply, SummaryRequest, WriterLike

with framework("llama-index"):
    from llama_index.core.base.llms.types import (
        ChatMessage,
        ChatResponse,
        CompletionResponse,
        DocumentBlock,
        ImageBlock,
        LLMMetadata,
        TextBlock,
        ThinkingBlock,
        ToolCallBlock,
    )
    from llama_index.core.bridge.pydantic import Field, PrivateAttr
    from llama_index.core.constants import DEFAULT_CONTEXT_WINDOW, DEFAULT_NUM_OUTPUTS
    from llama_index.core.llms.function_calling import FunctionCallingLLM
    from llama_index.core.llms.llm import LLM
    from llama_index.core.memory.memory import BaseMemoryBlock

_ROLES = {"developer": "system", "chatbot": "assistant", "model": "assistant", "tool": "user", "function": "user"}  # fmt: skip


def _read_message(message: ChatMessage) -> Item:
    blocks = [*_blocks(message.blocks), *_older_calls(message)]
    call = _answered(message)
    if call:
        result = {"type": "tool_result", "tool_use_id": call, "content": blocks}
        return {"role": "user", "content": [result]}
    role = str(message.role.value)
    return {"role": _ROLES.get(role, role), "content": blocks}


def _changed_message(message: ChatMessage, now: Item) -> ChatMessage:
    blocks, more = blocks_of(now["content"]), dict(message.additional_kwargs)
    if _answered(message):
        result = result_in(blocks)
        if result is None:
            return _new_message(now)
        more["tool_call_id"] = str(result["tool_use_id"])
        blocks = blocks_of(result.get("content"))
    own = list(_now(message.blocks, blocks))
    return message.model_copy(update={"blocks": own, "additional_kwargs": more})


def _new_message(item: Item) -> ChatMessage:
    """A message that Ullage wrote: the user's, or an answer or a result that was missing."""
    result = result_in(blocks_of(item["content"]))
    if result is None:
        return ChatMessage(text_of(item["content"]), role=item["role"])
    named = {"tool_call_id": str(result.get("tool_use_id"))}
    text = text_of(result.get("content"))
    return ChatMessage(text, role="tool", additional_kwargs=named)


TRANSLATOR: Final = Translator[ChatMessage](_read_message, _changed_message, _new_message)
"""Reads messages, and writes changes into copies; `additional_kwargs` stay.

Calls that older integrations keep in `additional_kwargs` are read, and never changed.
"""


def _answered(message: ChatMessage) -> str:
    """The call whose result the message is; empty: it is none."""
    named = message.additional_kwargs.get("tool_call_id")
    return str(named) if named and message.role.value in ("tool", "function") else ""


# ---- in ---------------------------------------------------------------------------------------


def _blocks(blocks: Sequence[Any]) -> list[dict[str, Any]]:
    return [read for block in blocks if (read := _read(block)) is not None]


def _read(block: Any) -> dict[str, Any] | None:
    """A block in the internal view; `None`: it says nothing, as a cache point."""
    if isinstance(block, TextBlock):
        return {"type": "text", "text": block.text}
    if isinstance(block, ThinkingBlock):
        sign = str(block.additional_information.get("signature") or "")
        return {"type": "thinking", "thinking": block.content or "", "signature": sign}
    if isinstance(block, ToolCallBlock):
        # Without an id LlamaIndex names a call by its tool, and its result likewise.
        name, arguments = block.tool_call_id or block.tool_name, _arguments(block.tool_kwargs)
        return {"type": "tool_use", "id": name, "name": block.tool_name, "input": arguments}
    if isinstance(block, ImageBlock):
        return {"type": "image", "source": _source(block, block.image, block.image_mimetype)}
    if isinstance(block, DocumentBlock):
        return {"type": "document", "source": _source(block, block.data, block.document_mimetype)}
    if block.block_type == "cache":
        return None
    # Without the fields that hold a file.
    text = block.model_dump_json(exclude={"audio", "video", "data", "image"})
    return {"type": "text", "text": text}


def _source(block: ImageBlock | DocumentBlock, data: Any, kind: str | None) -> dict[str, Any]:
    if isinstance(data, bytes):
        kind = kind or ("image/png" if isinstance(block, ImageBlock) else "application/pdf")
        return {"type": "base64", "media_type": kind, "data": data.decode("ascii", "replace")}
    return from_url(str(block.url or block.path or ""))


def _older_calls(message: ChatMessage) -> Iterator[dict[str, Any]]:
    """Calls in OpenAI's form, where older integrations keep them."""
    if any(isinstance(block, ToolCallBlock) for block in message.blocks):
        return
    for call in message.additional_kwargs.get("tool_calls") or ():
        plain = call if isinstance(call, Mapping) else call.model_dump()
        about = plain.get("function") or {}
        arguments, name = _arguments(about.get("arguments") or {}), str(about.get("name"))
        call_id = str(plain.get("id") or name)
        yield {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def _arguments(arguments: Any) -> dict[str, Any]:
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            return {"arguments": arguments}
    return arguments if isinstance(arguments, dict) else {"arguments": arguments}


# ---- back -------------------------------------------------------------------------------------


def _now(blocks: Sequence[Any], now: Sequence[Mapping[str, Any]]) -> Iterator[Any]:
    """The blocks that are still there, those that say something else, and what is new."""
    before = _blocks(blocks)
    fresh = [part for part in now if part.get("type") == "text" and part not in before]
    calls = iter(in_place(before, now, "tool_use"))
    for block in blocks:
        read = _read(block)
        if isinstance(block, ToolCallBlock):
            call = next(calls)
            if call == read:
                yield block
            elif call is not None:
                arguments = dict(call["input"])
                text = json.dumps(arguments) if isinstance(block.tool_kwargs, str) else arguments
                yield block.model_copy(
                    update={"tool_kwargs": text, "tool_call_id": str(call["id"])}
                )
        elif read is None or read in now:
            yield block
        elif not isinstance(block, ThinkingBlock) and fresh:
            yield TextBlock(text=fresh.pop(0)["text"])
    yield from (TextBlock(text=part["text"]) for part in fresh)


class UllageLLM(FunctionCallingLLM):
    """A model whose requests keep within its window, also between the tool calls of one run.

    Agents, chat engines and memories keep their messages whole: what the model is sent is a view of them. After a refusal as too
    long, room is made and the request is sent again, but not once a stream has begun. Completions of a prompt pass as they are.

    Args:
        llm: Any model of LlamaIndex, which is asked.
        **options: See `ullage.integrations.conversations.Options`.
    """

    llm: LLM = Field(description="The model that is asked.")
    # No field: fields are dumped and stored.
    _conversations: HeldConversations[ChatMessage] = PrivateAttr()

    def __init__(self, llm: LLM, **options: Unpack[Options]) -> None:
        super().__init__(llm=llm, callback_manager=llm.callback_manager)
        self._conversations = HeldConversations[ChatMessage](TRANSLATOR, **options)

    @classmethod
    def class_name(cls) -> str:
        """The name under which LlamaIndex stores it."""
        return "UllageLLM"

    @property
    def metadata(self) -> LLMMetadata:
        """What the model says of itself."""
        return self.llm.metadata

    # ---- requests that are made to fit -------------------------------------------------------

    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """The model's response to what fits."""
        request = _Request(messages, kwargs)
        return self._of(request).send(
            request.messages,
            lambda fitted: self.llm.chat(request.sent(fitted), **kwargs),
            **request.head,
        )

    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """`chat`, without blocking the event loop."""
        request = _Request(messages, kwargs)
        return await self._of(request).asend(
            request.messages,
            lambda fitted: self.llm.achat(request.sent(fitted), **kwargs),
            **request.head,
        )

    def stream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> Iterator[ChatResponse]:
        """`chat`, piece by piece."""
        request = _Request(messages, kwargs)
        conversation, begun = self._of(request), False
        while True:
            fitted = conversation.fit(request.messages, **request.head)
            try:
                # A piece that was passed on cannot be taken back: from then on the error is the caller's.
                for piece in self.llm.stream_chat(request.sent(fitted), **kwargs):
                    begun = True
                    yield piece
            except Exception as error:
                if begun:
                    raise
                conversation.refused(error)
            else:
                return

    async def astream_chat(
        self, messages: Sequence[ChatMessage], **kwargs: Any
    ) -> AsyncIterator[ChatResponse]:
        """`stream_chat`, without blocking the event loop."""
        request = _Request(messages, kwargs)

        async def ask(fitted: Fitted[ChatMessage]) -> AsyncIterator[ChatResponse]:
            async for piece in await self.llm.astream_chat(request.sent(fitted), **kwargs):
                yield piece

        return self._of(request).astream(request.messages, ask, **request.head)

    def _of(self, request: _Request) -> HeldConversation[ChatMessage]:
        return self._conversations.of(request.name, _facts(self.metadata), lambda: _host(self.llm))

    # ---- what passes -------------------------------------------------------------------------

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        """Asks the model as it is."""
        return self.llm.complete(prompt, formatted, **kwargs)

    async def acomplete(
        self, prompt: str, formatted: bool = False, **kwargs: Any
    ) -> CompletionResponse:
        """Asks the model as it is."""
        return await self.llm.acomplete(prompt, formatted, **kwargs)

    def stream_complete(
        self, prompt: str, formatted: bool = False, **kwargs: Any
    ) -> Iterator[CompletionResponse]:
        """Asks the model as it is."""
        return self.llm.stream_complete(prompt, formatted, **kwargs)

    async def astream_complete(
        self, prompt: str, formatted: bool = False, **kwargs: Any
    ) -> AsyncIterator[CompletionResponse]:
        """Asks the model as it is."""
        return await self.llm.astream_complete(prompt, formatted, **kwargs)

    # Agents ask the outer model: how tools are written, and calls are read, is the inner one's business.
    def _prepare_chat_with_tools(self, tools: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        return self.llm._prepare_chat_with_tools_compat(tools, *args, **kwargs)

    def _validate_chat_with_tools_response(self, response: Any, tools: Any, **kwargs: Any) -> Any:
        return self.llm._validate_chat_with_tools_response(response, tools, **kwargs)

    def get_tool_calls_from_response(
        self, response: ChatResponse, error_on_no_tool_call: bool = True, **kwargs: Any
    ) -> list[Any]:
        """The model's own reading of its response."""
        return self.llm.get_tool_calls_from_response(response, error_on_no_tool_call, **kwargs)


class UllageBlock(BaseMemoryBlock[list[ChatMessage]]):
    """Keeps what LlamaIndex's memory lets go of, and shows as much of it as fits: shortened results, then a summary.

    Its messages stand before those that the memory still holds. They stay whole in `flushed`, which is part of `model_dump()`, so
    that a block can be stored and go on.

    Args:
        token_limit: What the block may take of the memory's own `token_limit`, in tokens; the default is what its defaults leave.
        model: Name of the model for which tokens are counted.
        policy: Every threshold, or the name of a preset: `buffered`, `ladder`; `None`: `buffered`.
        summarizer: A summarizer, or its name; `None`: code, without a model.
        store: For large tool results; `None`: they stay, and are snipped.
        listeners: Called with every event.
        **fields: Those of a memory block: `name`, `description`, `priority`, `flushed`.
    """

    name: str = Field(default="earlier", description="The name of the memory block.")
    token_limit: int = Field(default=9_000, description="What the block may take, in tokens.")
    model: str = Field(default="gpt-5.4", description="For which tokens are counted.")
    flushed: list[ChatMessage] = Field(default_factory=list, description="All messages, whole.")
    _conversations: HeldConversations[ChatMessage] = PrivateAttr()

    def __init__(
        self,
        *,
        token_limit: int = 9_000,
        model: str = "gpt-5.4",
        policy: Policy | str | None = None,
        summarizer: WriterLike | None = None,
        store: OffloadStore | None = None,
        listeners: Iterable[Listener] = (),
        **fields: Any,
    ) -> None:
        super().__init__(token_limit=token_limit, model=model, **fields)
        self._conversations = HeldConversations[ChatMessage](
            TRANSLATOR,
            policy=policy,
            summarizer=summarizer,
            store=store,
            listeners=listeners,
            has_host=False,  # no model is at hand that could be asked
        )

    async def _aput(self, messages: list[ChatMessage]) -> None:
        self.flushed = [*self.flushed, *messages]

    async def _aget(
        self, messages: list[ChatMessage] | None = None, **block_kwargs: Any
    ) -> list[ChatMessage]:
        return (await self._shown(self.token_limit)).messages if self.flushed else []

    async def atruncate(
        self, content: list[ChatMessage], tokens_to_truncate: int
    ) -> list[ChatMessage] | None:
        """What the block shows in less room; called where its `priority` is not 0 and the memory's limit is passed.

        Args:
            content: What the block has shown.
            tokens_to_truncate: By how many tokens less it is to show; half of its limit is tried, then half of that, and so on.

        Returns:
            The first of them that is small enough; `None` where none is, so that the memory leaves the block out.
        """
        wanted = (await self._shown(self.token_limit)).view.tokens - tokens_to_truncate
        limit = self.token_limit // 2
        # Each smaller limit may mean a summary: from the default, halving ends after four. Below 500 tokens a block is not
        # worth its place.
        while wanted > 0 and limit >= 500:
            try:
                shown = await self._shown(limit)
            except ContextTooLarge:
                return None
            if shown.view.tokens <= wanted:
                return shown.messages
            limit //= 2
        return None

    async def _shown(self, limit: int) -> Fitted[ChatMessage]:
        # It is shown inside a prompt: no answer has to fit next to it.
        facts = ModelFacts(self.model, limit, max(limit // 16, 1))
        return await self._conversations.of("", facts).afit(self.flushed)


class _Request:
    """What a model is asked, without the system prompt that stands before the conversation."""

    def __init__(self, messages: Sequence[ChatMessage], options: Mapping[str, Any]) -> None:
        all_messages = list(messages)
        kinds = [message.role.value in ("system", "developer") for message in all_messages]
        first = kinds.index(False) if False in kinds else len(all_messages)
        self._system, self.messages = all_messages[:first], all_messages[first:]
        system = "\n\n".join(message.content or "" for message in self._system)
        self.head: Head = {"system": system, "tools": _tools(options.get("tools"))}
        begin = self.messages[:1] or self._system[:1]
        self.name = print_of([_read_message(message) for message in begin])

    def sent(self, fitted: Fitted[ChatMessage]) -> list[ChatMessage]:
        """The messages to send."""
        return [*self._system, *fitted.messages]


def _host(llm: LLM) -> HostSummarizer:
    def ask(request: SummaryRequest) -> SummaryReply:
        return SummaryReply(text=llm.chat(_asked(request)).message.content or "")

    async def aask(request: SummaryRequest) -> SummaryReply:
        return SummaryReply(text=(await llm.achat(_asked(request))).message.content or "")

    return HostSummarizer(
        f"host:{llm.class_name()}", _facts(llm.metadata).context_window, ask, aask
    )


def _asked(request: SummaryRequest) -> list[ChatMessage]:
    system = [ChatMessage(request.system, role="system")] if request.system else []
    return [*system, ChatMessage(transcript_of(request))]


def _facts(about: LLMMetadata) -> ModelFacts:
    """What the metadata says; their defaults say nothing."""
    window = None if about.context_window == DEFAULT_CONTEXT_WINDOW else about.context_window
    output = None if about.num_output in (-1, DEFAULT_NUM_OUTPUTS) else about.num_output
    return ModelFacts(about.model_name, window, output)


def _tools(tools: Any) -> list[dict[str, Any]]:
    definitions = []
    for tool in tools or ():
        if isinstance(tool, Mapping):
            definitions.append(dict(tool))
        elif (about := getattr(tool, "metadata", None)) is not None:
            # LlamaIndex refuses descriptions over OpenAI's 1,024 characters here; other models take them.
            definitions.append(about.to_openai_tool(skip_length_check=True))
    return definitions
