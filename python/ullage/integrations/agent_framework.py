"""Microsoft's Agent Framework: `Agent(client, middleware=[UllageChatMiddleware()])`.

```python
from agent_framework import Agent
from ullage.integrations.agent_framework import UllageChatMiddleware

agent = Agent(client, middleware=[UllageChatMiddleware(context_window=128_000)])
```
"""

from __future__ import annotations

import copy
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Unpack

from ullage.integrations.conversations import (
    Fitted,
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
from ullage.manager.whole_list import print_of
from ullage.messages import Item
from ullage.providers._common import blocks_of, from_url
from ullage.summarizers.protocol import SummaryReply, SummaryRequest

with framework("agent-framework"):
    from agent_framework import (
        ChatContext,
        ChatMiddleware,
        Content,
        Message,
        SupportsChatGetResponse,
        included_messages,
    )


def _read_message(message: Message) -> Item:
    role = "user" if message.role == "tool" else message.role
    return {"role": role, "content": list(_blocks(message.contents))}


def _changed_message(message: Message, now: Item) -> Message:
    before, blocks = blocks_of(_read_message(message)["content"]), blocks_of(now["content"])
    more = text_of(blocks[len(before) :])
    # Not deeply: contents that stay are the framework's own objects.
    copied = copy.copy(message)
    copied.contents = list(_contents_now(message, before, blocks))
    copied.contents += [Content.from_text(more)] if more else []
    copied.additional_properties = dict(message.additional_properties)
    return copied


def _new_message(item: Item) -> Message:
    """A message that Ullage wrote: the user's, or an answer or a result that was missing."""
    result = result_in(blocks_of(item["content"]))
    own = {"additional_properties": {"written_by": "ullage"}}
    if result is None:
        return Message(str(item.get("role")), [text_of(item["content"])], **own)
    text = text_of(result.get("content"))
    answer = Content.from_function_result(str(result.get("tool_use_id")), result=text)
    return Message("tool", [answer], **own)


TRANSLATOR: Final = Translator[Message](_read_message, _changed_message, _new_message)
"""Reads messages, and writes changes into copies; ids, author and properties stay."""


def _blocks(contents: Sequence[Content]) -> Iterator[dict[str, Any]]:
    for content in contents:
        if content.type == "text":
            yield {"type": "text", "text": content.text}
        elif content.type == "text_reasoning":
            sign = content.protected_data or ""
            yield {"type": "thinking", "thinking": content.text or "", "signature": sign}
        elif content.type == "function_call":
            call, name = content.call_id or "", content.name or ""
            arguments = content.parse_arguments() or {}
            yield {"type": "tool_use", "id": call, "name": name, "input": arguments}
        elif content.type == "function_result":
            yield _result(content)
        elif _is_image(content):
            yield {"type": "image", "source": from_url(str(content.uri))}
        elif content.type != "usage":
            yield {"type": "text", "text": json.dumps(content.to_dict(), default=str)}


def _result(content: Content) -> dict[str, Any]:
    inside = list(_blocks(content.items or ()))
    plain = content.result if isinstance(content.result, str) else json.dumps(content.result or "")
    call = content.call_id or ""
    block = {"type": "tool_result", "tool_use_id": call, "content": inside or plain}
    return {**block, "is_error": True} if content.exception else block


def _is_image(content: Content) -> bool:
    return content.type in ("data", "uri") and (content.media_type or "").startswith("image/")


def _contents_now(
    message: Message, before: Sequence[Mapping[str, Any]], blocks: Sequence[Mapping[str, Any]]
) -> Iterator[Content]:
    """What became of each content: itself, a copy that says less, or nothing."""
    calls = iter(in_place(before, blocks, "tool_use"))
    results = iter(in_place(before, blocks, "tool_result"))
    kinds = {block.get("type") for block in blocks}
    for content in message.contents:
        if content.type == "function_result":
            yield from _result_now(content, next(results))
        elif content.type == "function_call":
            call = next(calls)
            if call is None:
                continue
            arguments = dict(call["input"])
            if arguments == (content.parse_arguments() or {}) and call["id"] == content.call_id:
                yield content
                continue
            copied = copy.copy(content)
            # The provider's own object still says what was there before.
            copied.raw_representation, copied.call_id = None, str(call["id"])
            is_text = isinstance(content.arguments, str)
            copied.arguments = json.dumps(arguments) if is_text else arguments
            yield copied
        elif content.type == "text_reasoning":
            yield from [content] if "thinking" in kinds else []
        elif "image" in kinds or not _is_image(content):
            yield content


def _result_now(content: Content, result: Mapping[str, Any] | None) -> list[Content]:
    if result is None or result == _result(content):
        return [] if result is None else [content]
    copied, now = copy.copy(content), blocks_of(result.get("content"))
    # The texts of now, and those images that are still there.
    texts = [Content.from_text(str(part["text"])) for part in now if part.get("type") == "text"]
    images = [part for part in content.items or () if _is_image(part)]
    shown = [part for part in images if any(block in now for block in _blocks([part]))]
    copied.items = [*texts, *shown]
    copied.raw_representation, copied.call_id = None, str(result["tool_use_id"])
    copied.result = "\n".join(part.text or "" for part in copied.items if part.type == "text")
    return [copied]


class UllageChatMiddleware(ChatMiddleware):
    """Keeps each request of an agent within the model's window, also between the calls of one run.

    The session's history stays whole: what the model is sent is a view of it. After a refusal as too long, room is made and the
    request is sent again, but not once a stream has begun. Conversations that the service keeps pass as they are.

    Args:
        **options: See `ullage.integrations.conversations.Options`.
    """

    def __init__(self, **options: Unpack[Options]) -> None:
        self._conversations = HeldConversations[Message](TRANSLATOR, **options)

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Send what fits, and after a refusal as too long less."""
        messages, options = list(context.messages), dict(context.options or {})
        # The service holds what came before: these messages are only what is new.
        if not messages or options.get("conversation_id"):
            await call_next()
            return

        async def call(fitted: Fitted[Message]) -> None:
            context.messages = fitted.messages
            await call_next()

        system, tools = str(options.get("instructions") or ""), _tools(options.get("tools"))
        conversation = self._of(context, messages, options)
        await conversation.asend(messages, call, system=system, tools=tools)

    def _of(
        self, context: ChatContext, messages: Sequence[Message], options: Mapping[str, Any]
    ) -> HeldConversation[Message]:
        name = options.get("model") or getattr(context.client, "model", None)
        session_object = getattr(context, "session", None)  # older releases do not name it
        session = session_object.session_id if session_object else _begin(messages)
        return self._conversations.of(
            session, ModelFacts(str(name or "unknown")), lambda: _host(context.client)
        )


class UllageCompactionStrategy:
    """A compaction strategy: `CompactionProvider(before_strategy=UllageCompactionStrategy(model="gpt-5.4"))`, or `compaction_strategy=`.

    The framework tells a strategy neither model nor instructions nor tools; `UllageChatMiddleware` knows them.

    Args:
        model: Name of the model whose window counts.
        **options: See `ullage.integrations.conversations.Options`.
    """

    def __init__(
        self,
        *,
        model: str,
        **options: Unpack[Options],
    ) -> None:
        self._model = ModelFacts(model)
        self._conversations = HeldConversations[Message](
            TRANSLATOR,
            has_host=False,  # no client is at hand that could be asked
            **options,
        )

    async def __call__(self, messages: list[Message]) -> bool:
        """Replace the list's contents by what fits; the given messages themselves are not changed."""
        # Strategies of the framework leave what they exclude in the list, with a mark.
        included = included_messages(messages)
        if not included:
            return False
        conversation = self._conversations.of(_begin(included), self._model)
        fitted = await conversation.afit(included)
        if fitted.changed:
            # A strategy works in place: its caller goes on with the list that it passed.
            messages[:] = fitted.messages
            conversation.manager.view_kept(fitted.view)
        return fitted.changed


def _begin(messages: Sequence[Message]) -> str:
    """Tells a conversation from others by its first message."""
    return print_of(_read_message(messages[0]))


def _tools(tools: Any) -> list[dict[str, Any]]:
    return tool_definitions(
        (tool.name, getattr(tool, "description", ""), tool.parameters())
        for tool in (tools if isinstance(tools, Sequence) else [tools])
        if hasattr(tool, "parameters") and hasattr(tool, "name")
    )


def _host(client: SupportsChatGetResponse) -> Callable[[SummaryRequest], Awaitable[SummaryReply]]:
    async def write(request: SummaryRequest) -> SummaryReply:
        asked = [Message("user", [transcript_of(request)])]
        if request.system:
            asked.insert(0, Message("system", [request.system]))
        answer = await client.get_response(asked)
        return SummaryReply(text=answer.text, finish_reason=str(answer.finish_reason or ""))

    return write
