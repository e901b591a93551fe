"""Marks where the provider shall write a request's beginning to its prompt cache, and find it at the next request (COST-2).

Anthropic and Bedrock cache what is marked, at four places at most, and look for an earlier mark in the 20 blocks before one.
So the end of the newest message is marked, and the place where the last request ended, or up to which it is still the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from ullage._lazy import hashlib, orjson
from ullage.counting.models import Model
from ullage.messages import Item
from ullage.providers.registry import Provider

MOST_MARKS: Final = 4
"""A request with more is refused (A17, B06)."""

_MARK: Final = {"cache_control": {"type": "ephemeral"}}
_POINT: Final = {"cachePoint": {"type": "default"}}
_TAKE_MARKS: Final = frozenset(("text", "image", "document", "tool_use", "tool_result"))
_TAKE_POINTS: Final = frozenset(("text", "image", "document", "toolUse", "toolResult"))
_LOOK_BACK: Final = 4
"""Messages before a place that are tried where the one there takes no mark."""

Body = tuple[list[Item], Mapping[str, Any]]


class CacheMarks(NamedTuple):
    """Marks of one request.

    Attributes:
        form: `anthropic`, `bedrock`, or that of OpenAI, whose cache a key finds.
        places: Messages to mark besides the newest, the most useful first: where the last request ended, or up to where it was
            the same, and the last that a level has changed (a summary among them). -1: none.
        key: Of the conversation, for OpenAI.
        own: The host has marked a message itself.
    """

    form: str
    places: tuple[int, ...] = ()
    key: str = ""
    own: bool = False

    def on(self, messages: list[Item], parts: Mapping[str, Any]) -> Body:
        """The messages and the other parts of a body, marked: copies where a mark stands, else the same objects.

        What the host has marked itself stays: with a mark in its messages there are no others; with one in the system prompt
        or the tools there are others in the messages alone.
        """
        if self.key:
            return messages, {**parts, "prompt_cache_key": self.key}
        if self.own:
            return messages, parts
        theirs = sum(_marks_in(blocks) for blocks in _heads(parts))
        body, count = self._in_list(messages, MOST_MARKS - theirs)
        return body, parts if theirs else self._in_head(parts, MOST_MARKS - count)

    def _in_list(self, messages: list[Item], most: int) -> tuple[list[Item], int]:
        body, done = list(messages), set[int]()
        for place in (len(messages) - 1, *self.places):
            if len(done) >= most:
                break
            for at in range(place, max(-1, place - _LOOK_BACK), -1):
                marked = body[at] if at in done else self._message(body[at])
                if marked is not None:
                    body[at] = marked
                    done.add(at)
                    break
        return body, len(done)

    def _message(self, message: Item) -> Item | None:
        """The message with a mark at its last block that takes one; `None`: none does."""
        content: Any = message.get("content")
        if isinstance(content, str) and content.strip():
            return {**message, "content": [{"type": "text", "text": content, **_MARK}]}
        for at in range(len(content) - 1, -1, -1) if isinstance(content, list) else ():
            if self._takes(content[at]):
                return {**message, "content": self._after(content, at)}
        return None

    def _takes(self, block: Any) -> bool:
        if not isinstance(block, Mapping):
            return False
        words = block.get("text")
        if isinstance(words, str) and not words.strip():
            return False
        if self.form == "bedrock":
            return bool(_TAKE_POINTS & block.keys())
        return block.get("type") in _TAKE_MARKS

    def _after(self, blocks: Sequence[Any], at: int) -> list[Any]:
        """The blocks with a mark at one of them."""
        if self.form == "bedrock":
            return [*blocks[: at + 1], _POINT, *blocks[at + 1 :]]
        return [*blocks[:at], {**blocks[at], **_MARK}, *blocks[at + 1 :]]

    def _in_head(self, parts: Mapping[str, Any], most: int) -> Mapping[str, Any]:
        """The system prompt marked, which stands after the tools; these too where a mark is left."""
        body, left = dict(parts), most
        if not left:
            return body
        system: Any = parts.get("system")
        config = parts.get("toolConfig")
        if isinstance(system, str) and system.strip():
            body["system"], left = [{"type": "text", "text": system, **_MARK}], left - 1
        elif isinstance(system, list) and system and self._takes(system[-1]):
            body["system"], left = self._after(system, len(system) - 1), left - 1
        if left and self.form == "bedrock" and config:
            body["toolConfig"] = {**config, "tools": [*config["tools"], _POINT]}
        elif left and (tools := parts.get("tools")):
            body["tools"] = self._tools(tools)
        return body

    def _tools(self, tools: Sequence[Any]) -> list[Any]:
        """A tool that is loaded later takes no mark."""
        for at in range(len(tools) - 1, -1, -1):
            if not tools[at].get("defer_loading"):
                return self._after(tools, at)
        return list(tools)


def marks_for(provider: Provider, model: Model, head: Any) -> CacheMarks | None:
    """The marks that requests of this form to this model can carry; `None`: none.

    Args:
        provider: The form.
        model: Who is asked.
        head: System prompt, tools and first message: OpenAI's key is a digest of them.
    """
    name, points = provider.name, model.cache.breakpoints
    if name == "anthropic" and points:
        return CacheMarks(name)
    # Bedrock caches for the models from Claude 3.7 on, the first that think; it refuses points for others.
    if name == "bedrock" and points and model.thinking != ("disabled",):
        return CacheMarks(name)
    if name in ("openai_chat", "openai_responses") and model.known and model.provider == "openai":
        head_bytes = orjson.dumps(head, default=str)
        return CacheMarks(name, key=hashlib.blake2b(head_bytes, digest_size=16).hexdigest())
    return None


def has_marks(messages: Sequence[Any], start: int, end: int) -> bool:
    """Whether one of these messages, which are in a provider's form, carries a mark."""
    for at in range(start, end):
        message = messages[at]
        content = message["content"] if "content" in message else None
        for block in content if content.__class__ is list else ():
            if block.__class__ is dict and ("cache_control" in block or "cachePoint" in block):
                return True
    return False


def _heads(parts: Mapping[str, Any]) -> Iterator[Any]:
    yield parts.get("system")
    yield parts.get("tools")
    yield (parts.get("toolConfig") or {}).get("tools")


def _marks_in(blocks: Any) -> int:
    if not isinstance(blocks, list):
        return 0
    return sum(
        isinstance(block, Mapping) and ("cache_control" in block or "cachePoint" in block)
        for block in blocks
    )
