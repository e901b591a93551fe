"""The conversation of a call as a manager reads it: without the system prompt at its head and the cache marks that move with each call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ullage.manager import ListView
from ullage.messages import is_thinking
from ullage.proxy.client_calls import ClientCall

__all__ = ["ClientList"]

_HEAD_ROLES = ("system", "developer")
_HELD_ELSEWHERE = ("previous_response_id", "conversation", "thread", "compaction")
"""With one of these the provider holds a part of the conversation, or compacts it now: the list is not all of it."""


class ClientList:
    """The list of one call.

    Args:
        head: Messages before the conversation: the system prompt, where it is one.
        given: The other messages, as they came.
        system: The system prompt, to be counted.
        tools: Tool definitions, to be counted.

    Attributes:
        bare: The messages without cache marks, and a content that is one text as a string: clients write it as a block where they
            mark it. All others are the same objects.
    """

    def __init__(
        self, head: list[Any], given: list[Any], system: Any, tools: list[dict[str, Any]]
    ) -> None:
        self.head, self.given, self.system, self.tools = head, given, system, tools
        self.bare: list[Any] = [
            item if type(item.get("content")) is str else _without_marks(item) for item in given
        ]

    @classmethod
    def of(cls, call: ClientCall) -> ClientList | None:
        """The list of a call; `None`: it is not all of the conversation, or cannot be read."""
        body, items = call.body, call.items
        if body is None or items is None or any(body.get(key) for key in _HELD_ELSEWHERE):
            return None
        if any(type(item) is not dict or item.get("type") == "item_reference" for item in items):
            return None
        heads = (at for at, item in enumerate(items) if item.get("role") not in _HEAD_ROLES)
        start = next(heads, len(items)) if call.endpoint.provider != "anthropic" else 0
        tools = [tool for tool in body.get("tools") or () if isinstance(tool, dict)]
        head = items[:start]
        return cls(head, items[start:], _system(body, head), tools) if items[start:] else None

    def written(self, view: ListView) -> list[Any]:
        """The list to send: what was kept as it came, with its marks; what was changed has the marks of what it was made of."""
        made = list(self.head)
        for message, origin in zip(view.messages, view.origin, strict=True):
            if origin is None:
                made.append(message)
            elif message is self.bare[origin]:
                made.append(self.given[origin])
            else:
                made.append(
                    _with_mark(self._with_given_blocks(message, origin), self.given[origin])
                )
        return made

    def _with_given_blocks(self, message: Mapping[str, Any], origin: int) -> Mapping[str, Any]:
        """A changed message with those blocks that were not changed as the objects that came, by which their bytes are known."""
        content = message.get("content")
        bare, given = self.bare[origin].get("content"), self.given[origin].get("content")
        if not (isinstance(content, list) and isinstance(bare, list) and isinstance(given, list)):
            return message
        came = {id(block): own for block, own in zip(bare, given, strict=False) if block == own}
        return {**message, "content": [came.get(id(block), block) for block in content]}


def _system(body: Mapping[str, Any], head: Sequence[Mapping[str, Any]]) -> Any:
    """What is counted as the system prompt."""
    own = body.get("system") or body.get("instructions")
    if not head:
        return own if isinstance(own, (str, list)) else None
    texts = [own] if isinstance(own, str) else []
    return "\n".join([*texts, *(_text(message.get("content")) for message in head)])


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    return "\n".join(str(block.get("text", "")) for block in blocks if isinstance(block, Mapping))


# ---- cache marks -----------------------------------------------------------------------------

_PLAIN_TEXT = {"type", "text", "cache_control"}


def _without_marks(message: dict[str, Any]) -> dict[str, Any]:
    content = message.get("content")
    if not isinstance(content, list):
        return message
    only = content[0] if len(content) == 1 else None
    if isinstance(only, dict) and only.get("type") == "text" and only.keys() <= _PLAIN_TEXT:
        return {**message, "content": only.get("text")}
    for block in content:
        if isinstance(block, dict) and "cache_control" in block:
            return {**message, "content": [_without(each) for each in content]}
    return message


def _without(block: Any) -> Any:
    if not isinstance(block, dict) or "cache_control" not in block:
        return block
    return {key: value for key, value in block.items() if key != "cache_control"}


def _mark_of(message: Mapping[str, Any]) -> object:
    content = message.get("content")
    blocks = content if isinstance(content, list) else []
    marks = (block.get("cache_control") for block in blocks if isinstance(block, dict))
    return next((mark for mark in marks if mark), None)


def _with_mark(message: Mapping[str, Any], given: Mapping[str, Any]) -> Mapping[str, Any]:
    """A changed message with the mark of the one that it was made of, at its end."""
    mark, content = _mark_of(given), message.get("content")
    if mark is not None and isinstance(content, str):
        block = {"type": "text", "text": content, "cache_control": mark}
        return {**message, "content": [block]}
    if mark is None or not isinstance(content, list) or not content:
        return message
    last = content[-1]
    if not isinstance(last, dict) or is_thinking(last):
        return message
    return {**message, "content": [*content[:-1], {**last, "cache_control": mark}]}
