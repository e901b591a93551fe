"""Inspect's chat messages as messages of the internal view, and what changed there in Inspect's messages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ullage.integrations.conversations import blocks_of, in_place, text_of
from ullage.integrations.versions import absent
from ullage.messages import Item
from ullage.providers._common import from_url

try:
    from inspect_ai.model import (
        ChatMessage,
        ChatMessageAssistant,
        ChatMessageSystem,
        ChatMessageTool,
        ChatMessageUser,
        ContentText,
    )
except ImportError as exc:
    raise absent("inspect-ai") from exc

__all__ = ["InspectTranslator"]

_OWN = {"written_by": "ullage"}


class InspectTranslator:
    """Reads messages, and writes changes into copies of them; ids, metadata and what a provider needs back stay."""

    def read(self, message: ChatMessage) -> Item:
        """The message in the internal view."""
        if isinstance(message, ChatMessageTool):
            return {"role": "user", "content": [_result(message)]}
        content = _content(message.content)
        if not isinstance(message, ChatMessageAssistant):
            role = "system" if isinstance(message, ChatMessageSystem) else "user"
            return {"role": role, "content": content}
        calls = _calls(message)
        return {"role": "assistant", "content": [*blocks_of({"content": content}), *calls]}

    def changed(self, message: ChatMessage, now: Item) -> ChatMessage:
        """A copy of the message that says what its reading says now."""
        blocks = blocks_of(now)
        if isinstance(message, ChatMessageTool):
            result = in_place([_result(message)], blocks, "tool_result")[0]
            return self.made(now) if result is None else _result_now(message, result)
        if isinstance(message, ChatMessageAssistant):
            return _response_now(message, blocks)
        return message.model_copy(update={"content": _content_now(message, now.get("content"))})

    def made(self, item: Item) -> ChatMessage:
        """A message that Ullage wrote: the user's, or an answer or a result that was missing."""
        result = next((each for each in blocks_of(item) if each.get("type") == "tool_result"), None)
        text = text_of(item)
        if result is not None:
            call = str(result.get("tool_use_id"))
            return ChatMessageTool(content=text, tool_call_id=call, metadata=_OWN)
        if item.get("role") == "assistant":
            return ChatMessageAssistant(content=text, metadata=_OWN)
        return ChatMessageUser(content=text, metadata=_OWN)


# ---- in ---------------------------------------------------------------------------------------


def _content(content: str | list[Any]) -> str | list[dict[str, Any]]:
    return content if isinstance(content, str) else [_block(each) for each in content]


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


# ---- back -------------------------------------------------------------------------------------


def _result_now(message: ChatMessageTool, result: Mapping[str, Any]) -> ChatMessageTool:
    named: dict[str, Any] = {"tool_call_id": str(result["tool_use_id"]) or message.tool_call_id}
    if message.error is not None:
        error = replace(message.error, message=text_of({"content": result.get("content")}))
        return message.model_copy(update={**named, "error": error})
    content = _content_now(message, result.get("content"))
    return message.model_copy(update={**named, "content": content})


def _response_now(
    message: ChatMessageAssistant, now: list[Mapping[str, Any]]
) -> ChatMessageAssistant:
    """The response with what its calls hold now, and without thinking where that left."""
    found = in_place(_calls(message), now, "tool_use")
    calls = [
        replace(call, id=str(block["id"]), arguments=dict(block["input"]))
        for call, block in zip(message.tool_calls or (), found, strict=True)
        if block is not None
    ]
    content = _content_now(message, [each for each in now if each.get("type") != "tool_use"])
    update = {"content": content, "tool_calls": calls or None}
    return message.model_copy(update=update)


def _content_now(message: ChatMessage, now: Any) -> str | list[Any]:
    """The content that reads as these blocks; parts that read as before are the very parts given."""
    if isinstance(now, str):
        return now
    blocks = blocks_of({"content": now})
    if isinstance(message.content, str):
        if all(block.get("type") == "text" for block in blocks):
            return "\n\n".join(str(block["text"]) for block in blocks)
        given: list[Any] = []
    else:
        given = list(message.content)
    made = []
    for block in blocks:
        same = next((each for each in given if _block(each) == block), None)
        if same is not None:
            given.remove(same)
        made.append(same or ContentText(text=text_of({"content": [block]})))
    return made
