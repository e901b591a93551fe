"""Inspect: `react(compaction=UllageCompaction())`.

```python
from inspect_ai.agent import react
from ullage.integrations.inspect_ai import UllageCompaction

agent = react(tools=[bash()], compaction=UllageCompaction())
```
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Unpack

from ullage.exceptions import ContextTooLarge
from ullage.integrations.conversations import (
    Head,
    HeldConversation,
    HeldConversations,
    ModelFacts,
    Options,
    Translator,
    framework,
    in_place,
    result_in,
    text_of,
    tool_definitions,
    transcript_of,
)
from ullage.messages import Item
from ullage.providers._common import blocks_of, from_url
from ullage.summarizers.protocol import SummaryReply, SummaryRequest

with framework("inspect-ai"):
    from inspect_ai.model import (
        ChatMessage,
        ChatMessageAssistant,
        ChatMessageSystem,
        ChatMessageTool,
        ChatMessageUser,
        CompactionStrategy,
        ContentText,
        Model,
        get_model_info,
    )
    from inspect_ai.tool import ToolInfo

_OWN = {"written_by": "ullage"}


def _read_message(message: ChatMessage) -> Item:
    if isinstance(message, ChatMessageTool):
        return {"role": "user", "content": [_result(message)]}
    content = _content(message.content)
    if not isinstance(message, ChatMessageAssistant):
        role = "system" if isinstance(message, ChatMessageSystem) else "user"
        return {"role": role, "content": content}
    calls = _calls(message)
    return {"role": "assistant", "content": [*blocks_of(content), *calls]}


def _changed_message(message: ChatMessage, now: Item) -> ChatMessage:
    blocks = blocks_of(now["content"])
    if isinstance(message, ChatMessageTool):
        result = in_place([_result(message)], blocks, "tool_result")[0]
        if result is None:
            return _new_message(now)
        content: Any = result.get("content")
        update: dict[str, Any] = {
            "tool_call_id": str(result["tool_use_id"]) or message.tool_call_id
        }
        if message.error is None:
            update["content"] = _content_now(message, content)
        else:
            update["error"] = replace(message.error, message=text_of(content))
        return message.model_copy(update=update)
    if isinstance(message, ChatMessageAssistant):
        return _response_now(message, blocks)
    return message.model_copy(update={"content": _content_now(message, now.get("content"))})


def _new_message(item: Item) -> ChatMessage:
    """A message that Ullage wrote: the user's, or an answer or a result that was missing."""
    result = result_in(blocks_of(item["content"]))
    text = text_of(item["content"])
    if result is not None:
        call = str(result.get("tool_use_id"))
        return ChatMessageTool(content=text, tool_call_id=call, metadata=_OWN)
    spoken = item.get("role") == "assistant"
    return (ChatMessageAssistant if spoken else ChatMessageUser)(content=text, metadata=_OWN)


TRANSLATOR: Final = Translator[ChatMessage](_read_message, _changed_message, _new_message)
"""Reads messages, and writes changes into copies of them; ids, metadata and what a provider needs back stay."""


def _content(content: str | list[Any]) -> str | list[dict[str, Any]]:
    return content if isinstance(content, str) else [_block(part) for part in content]


def _block(content: Any) -> dict[str, Any]:
    kind = content.type
    if kind == "text":
        return {"type": "text", "text": content.text}
    if kind == "reasoning":
        signature = content.signature or ""
        return {"type": "thinking", "thinking": content.reasoning, "signature": signature}
    if kind in ("image", "document"):
        return {"type": kind, "source": from_url(getattr(content, kind))}
    # A tool that the provider ran, audio, data: read as a text, so that its size counts.
    about = content.model_dump(mode="json", exclude_none=True)
    return {"type": "text", "text": json.dumps(about, sort_keys=True)}


def _calls(message: ChatMessageAssistant) -> list[dict[str, Any]]:
    return [
        {"type": "tool_use", "id": call.id, "name": call.function, "input": call.arguments}
        for call in message.tool_calls or ()
    ]


def _result(message: ChatMessageTool) -> dict[str, Any]:
    """The result; where a call failed, models are sent the error's text in place of the content."""
    block = {"type": "tool_result", "tool_use_id": message.tool_call_id or ""}
    if message.error is not None:
        return {**block, "content": message.error.message, "is_error": True}
    return {**block, "content": _content(message.content)}


def _response_now(
    message: ChatMessageAssistant, now: Sequence[Mapping[str, Any]]
) -> ChatMessageAssistant:
    """The response with what its calls hold now, and without thinking where that left."""
    blocks = in_place(_calls(message), now, "tool_use")
    calls = [
        replace(call, id=str(block["id"]), arguments=dict(block["input"]))
        for call, block in zip(message.tool_calls or (), blocks, strict=True)
        if block is not None
    ]
    content = _content_now(message, [block for block in now if block.get("type") != "tool_use"])
    return message.model_copy(update={"content": content, "tool_calls": calls or None})


def _content_now(message: ChatMessage, now: Any) -> str | list[Any]:
    """The content that reads as these blocks; parts that read as before are the very parts given."""
    if isinstance(now, str):
        return now
    blocks = blocks_of(now)
    is_text = isinstance(message.content, str)
    if is_text and all(block.get("type") == "text" for block in blocks):
        return "\n\n".join(str(block["text"]) for block in blocks)
    parts: list[Any] = [] if is_text else list(message.content)
    contents = []
    for block in blocks:
        same = next((part for part in parts if _block(part) == block), None)
        if same is not None:
            parts.remove(same)
        contents.append(same or ContentText(text=text_of([block])))
    return contents


class UllageCompaction(CompactionStrategy):
    """A compaction strategy: where Inspect finds that the input passes its threshold, or a model refuses it as too long.

    The agent's record of messages stays whole; what the model is sent begins with the system messages and the sample's input.

    Args:
        threshold: Tokens, or a part of the window, from which Inspect asks for a compaction.
        memory: Whether Inspect warns the model before, if it has the memory tool.
        **options: See `ullage.integrations.conversations.Options`. For a response the generation config counts too.
    """

    def __init__(
        self, *, threshold: float = 0.9, memory: bool = True, **options: Unpack[Options]
    ) -> None:
        super().__init__(type="summary", threshold=threshold, memory=memory)
        self._window = options.pop("context_window", None)
        self._conversations = HeldConversations[ChatMessage](TRANSLATOR, **options)

    async def compact(
        self, model: Model, messages: list[ChatMessage], tools: list[ToolInfo]
    ) -> tuple[list[ChatMessage], ChatMessageUser | None]:
        """The messages made smaller, whether the window is full or not; nothing is added to the record."""
        # They stay in front whatever is left out, so they count as the system prompt.
        standing = [message for message in messages if isinstance(message, ChatMessageSystem)]
        others = [message for message in messages if not isinstance(message, ChatMessageSystem)]
        if not others:
            return messages, None
        schemas = (tool.parameters.model_dump(mode="json", exclude_none=True) for tool in tools)
        head: Head = {
            "system": "\n\n".join(message.text for message in standing),
            "tools": tool_definitions(
                (tool.name, tool.description, schema)
                for tool, schema in zip(tools, schemas, strict=True)
            ),
        }
        conversation = self._of(model, others)
        fitted = await conversation.afit(others, **head)
        if None not in fitted.view.origin:
            count = await model.count_tokens(messages)
            # Inspect names no reason: what is below the threshold was refused by the model.
            target = count // 2 if count <= self._room(model) else None
            try:
                await conversation.manager.acompact(target_tokens=target)
            except ContextTooLarge as error:  # over which Inspect would end the run
                await conversation.manager.acompact(target_tokens=error.floor_tokens)
            fitted = await conversation.afit(others, **head)
        # Inspect hands over the smaller list next time, with what followed.
        conversation.note_kept(fitted, fitted.messages)
        return [*standing, *fitted.messages], None

    def _of(self, model: Model, messages: Sequence[ChatMessage]) -> HeldConversation[ChatMessage]:
        """The conversation that begins with the same message; one strategy serves all samples of a task."""
        facts = ModelFacts(model.name, self._room(model), model.config.max_tokens)
        return self._conversations.of(str(messages[0].id), facts, lambda: _host(model))

    def _room(self, model: Model) -> int:
        """The tokens above which Inspect asks for a compaction."""
        window = self._window
        if not window:
            about = get_model_info(model)
            tokens = about and (about.input_tokens or about.context_length)
            # Of a model that neither states; source: inspect-ai 0.3.285, `DEFAULT_CONTEXT_WINDOW`.
            window = int(tokens or 128_000)
        whole = isinstance(self.threshold, int) or self.threshold > 1
        return min(int(self.threshold if whole else self.threshold * window), window)


def _host(model: Model) -> Callable[[SummaryRequest], Awaitable[SummaryReply]]:
    async def write(request: SummaryRequest) -> SummaryReply:
        text = transcript_of(request)
        system = [ChatMessageSystem(content=request.system)] if request.system else []
        answer = await model.generate([*system, ChatMessageUser(content=text)])
        return SummaryReply(text=answer.completion, finish_reason=str(answer.stop_reason))

    return write
