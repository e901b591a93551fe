"""Agent Framework's messages as messages of the internal view, and what changed there in copies of them."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ullage.integrations.conversations import blocks_of, in_place, text_of
from ullage.integrations.versions import absent
from ullage.messages import Item
from ullage.providers._common import from_url

try:
    from agent_framework import Content, Message
except ImportError as exc:
    raise absent("agent-framework") from exc

__all__ = ["MessageTranslator"]


class MessageTranslator:
    """Reads messages, and writes changes into copies; ids, author and properties stay."""

    def read(self, message: Message) -> Item:
        """The message in the internal view."""
        role = "user" if message.role == "tool" else message.role
        return {"role": role, "content": list(_blocks(message.contents))}

    def changed(self, message: Message, now: Item) -> Message:
        """A copy of the message that says what its reading says now."""
        before, blocks = blocks_of(self.read(message)), blocks_of(now)
        more = text_of({"content": blocks[len(before) :]})
        made = copy.copy(message)
        made.contents = list(_contents_now(message, before, blocks))
        made.contents += [Content.from_text(more)] if more else []
        made.additional_properties = dict(message.additional_properties)
        return made

    def made(self, item: Item) -> Message:
        """A message that Ullage wrote: the user's, or an answer or a result that was missing."""
        result = next((each for each in blocks_of(item) if each.get("type") == "tool_result"), None)
        own = {"additional_properties": {"written_by": "ullage"}}
        if result is None:
            return Message(str(item.get("role")), [text_of(item)], **own)
        text = text_of({"content": result.get("content")})
        answer = Content.from_function_result(str(result.get("tool_use_id")), result=text)
        return Message("tool", [answer], **own)


def _blocks(contents: Sequence[Content]) -> Iterator[dict[str, Any]]:
    for content in contents:
        if content.type == "text":
            yield {"type": "text", "text": content.text}
        elif content.type == "text_reasoning":
            sign = content.protected_data or ""
            yield {"type": "thinking", "thinking": content.text or "", "signature": sign}
        elif content.type == "function_call":
            given = content.parse_arguments() or {}
            yield {
                "type": "tool_use",
                "id": content.call_id or "",
                "name": content.name or "",
                "input": given,
            }
        elif content.type == "function_result":
            yield _result(content)
        elif _is_image(content):
            yield {"type": "image", "source": from_url(str(content.uri))}
        elif content.type != "usage":
            yield {"type": "text", "text": json.dumps(content.to_dict(), default=str)}


def _result(content: Content) -> dict[str, Any]:
    inside = list(_blocks(content.items or ()))
    plain = content.result if isinstance(content.result, str) else json.dumps(content.result or "")
    block = {
        "type": "tool_result",
        "tool_use_id": content.call_id or "",
        "content": inside or plain,
    }
    return {**block, "is_error": True} if content.exception else block


def _is_image(content: Content) -> bool:
    return content.type in ("data", "uri") and (content.media_type or "").startswith("image/")


def _contents_now(
    message: Message, before: Sequence[Mapping[str, Any]], blocks: Sequence[Mapping[str, Any]]
) -> Iterator[Content]:
    """What became of each content: itself, a copy that says less, or nothing."""
    calls = iter(in_place(before, blocks, "tool_use"))
    results = iter(in_place(before, blocks, "tool_result"))
    for content in message.contents:
        if content.type == "function_result":
            yield from _result_now(content, next(results))
        elif content.type == "function_call":
            yield from _call_now(content, next(calls))
        elif _stays(content, blocks):
            yield content


def _stays(content: Content, blocks: Sequence[Mapping[str, Any]]) -> bool:
    kinds = {each.get("type") for each in blocks}
    if content.type == "text_reasoning":
        return "thinking" in kinds
    return "image" in kinds or not _is_image(content)


def _result_now(content: Content, found: Mapping[str, Any] | None) -> list[Content]:
    if found is None or found == _result(content):
        return [] if found is None else [content]
    made = copy.copy(content)
    made.items = _items_now(content, blocks_of({"content": found.get("content")}))
    made.raw_representation, made.call_id = None, str(found["tool_use_id"])
    made.result = "\n".join(each.text or "" for each in made.items if each.type == "text")
    return [made]


def _items_now(content: Content, now: Sequence[Mapping[str, Any]]) -> list[Content]:
    """The texts of now, and those images that are still there."""
    texts = [Content.from_text(str(each["text"])) for each in now if each.get("type") == "text"]
    images = [each for each in content.items or () if _is_image(each)]
    return texts + [each for each in images if any(seen in now for seen in _blocks([each]))]


def _call_now(content: Content, found: Mapping[str, Any] | None) -> list[Content]:
    if found is None:
        return []
    if found["input"] == (content.parse_arguments() or {}) and found["id"] == content.call_id:
        return [content]
    made = copy.copy(content)
    given = dict(found["input"])
    made.raw_representation, made.call_id = None, str(found["id"])
    made.arguments = json.dumps(given) if isinstance(content.arguments, str) else given
    return [made]
