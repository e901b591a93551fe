"""What the shape adapters share: their result types, and the carrier of foreign data.

The internal view is Anthropic-shaped. What another provider attached to a block and Anthropic has no
word for travels under the key `foreign`, by shape: `{"foreign": {"gemini": {...}}}`. A block that is
nothing but such data has the type `foreign`. Adapters put it back where it came from and leave it out
elsewhere, and say so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ullage.facts.compaction_items import family_of
from ullage.messages import Block, Item, message_of
from ullage.providers._json import dumps

__all__ = ["Internal", "Loss", "Shaped", "normal_form"]

FOREIGN = "foreign"

ANTHROPIC_ONLY = frozenset(
    {
        "redacted_thinking",
        "thinking",
        "search_result",
        "container_upload",
        "server_tool_use",
        "mcp_tool_use",
        "mcp_tool_listing",
        "fallback",
        "compaction",
        "tool_addition",
        "tool_removal",
        "tool_reference",
        "browser_state",
        "connector_text",
    }
)
"""Block types that no other provider has a word for; so are all `*_tool_result` but `tool_result`."""

USER_FILLER = "[The conversation continues here.]"
"""Stands where a provider wants a user line first. It asks for nothing and agrees to nothing."""

TOOL_FILLER = "[Results received.]"
"""Stands where a provider wants an assistant line between tool results and a user message."""


class Loss(NamedTuple):
    """Something that a target shape cannot express.

    Attributes:
        what: What is concerned, such as `thinking`.
        where: Its place in the source, such as `messages[3].content[0]`.
        why: What became of it.
    """

    what: str
    where: str
    why: str


@dataclass(frozen=True, slots=True, repr=False)
class Shaped:
    """A conversation in a provider's shape.

    Attributes:
        parts: Keys to put into the request, such as `messages` and `tools`.
        losses: What the shape cannot express.
        ids: The provider's id → our id, for each tool call whose id had to change.
        names: The provider's name → our name, for each tool whose name had to change, in calls and definitions.
    """

    parts: dict[str, Any]
    losses: tuple[Loss, ...] = ()
    ids: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        sizes = (f"{key}={_size(value)}" for key, value in self.parts.items())
        return f"Shaped({', '.join(sizes)}, losses={len(self.losses)})"


@dataclass(frozen=True, slots=True, repr=False)
class Internal:
    """A conversation in the internal view.

    Attributes:
        messages: Anthropic-shaped messages.
        system: The system prompt, a string or text blocks; `None` if there is none.
        tools: Anthropic-shaped definitions; `None` if the source names none.
        losses: What the internal view cannot express.
    """

    messages: list[dict[str, Any]]
    system: str | list[Block] | None = None
    tools: list[dict[str, Any]] | None = None
    losses: tuple[Loss, ...] = ()

    def __repr__(self) -> str:
        return f"Internal(messages={len(self.messages)}, losses={len(self.losses)})"


def _size(value: Any) -> int:
    return len(value) if hasattr(value, "__len__") else 1


class Losses:
    """Collects losses while a conversation is translated."""

    def __init__(self) -> None:
        self._found: list[Loss] = []

    def add(self, what: str, where: str, why: str) -> None:
        """Notes one loss."""
        self._found.append(Loss(what, where, why))

    def all(self) -> tuple[Loss, ...]:
        """The losses in the order in which they were met."""
        return tuple(self._found)


# ---- messages and blocks -------------------------------------------------------------------------


def bare(items: Iterable[Item]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Positions and messages: entries are unwrapped, entries without a message are passed over."""
    for index, item in enumerate(items):
        message = message_of(item)
        if message is not None and isinstance(message.get("role"), str):
            yield index, message


def blocks_of(content: Any) -> list[Block]:
    """Content as blocks: a string is one text block, `None` is none."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    if type(content) is not list and not isinstance(content, Iterable):
        return []  # a number, which the rules name
    # Dicts are recognised at once.
    return [block for block in content if type(block) is dict or isinstance(block, Mapping)]  # type: ignore[misc]


def is_text(block: Mapping[str, Any]) -> bool:
    """Whether a block is a well-formed text block."""
    return block.get("type") == "text" and isinstance(block.get("text"), str)


def result_text(content: Any) -> str:
    """The text of a tool result; other blocks as compact JSON."""
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(
        block["text"] if is_text(block) else dumps(block) for block in blocks_of(content)
    )


def foreign(value: Mapping[str, Any], shape: str) -> Mapping[str, Any]:
    """What `shape` attached to a block or message; empty if nothing."""
    carried = value.get(FOREIGN)
    if carried is None:
        return {}
    data = carried.get(shape) if isinstance(carried, Mapping) else None
    return data if isinstance(data, Mapping) else {}


def carrying(block: dict[str, Any], shape: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """The block, with `data` attached for `shape` if there is any."""
    return {**block, FOREIGN: {shape: dict(data)}} if data else block


def note_foreign(value: Mapping[str, Any], shape: str, where: str, losses: Losses) -> None:
    """Notes what other shapes attached, as it cannot go to this one."""
    carried = value.get(FOREIGN)
    if carried is not None and isinstance(carried, Mapping):
        for other in carried:
            if other != shape:
                what = "compaction" if family_of(value) else f"{other} data"
                losses.add(what, where, "only that provider can read it")


def note_keys(block: Mapping[str, Any], known: frozenset[str], where: str, losses: Losses) -> None:
    """Notes keys of a block that the target has no place for."""
    for key in block:
        if key not in known and not (key == "is_error" and not block[key]):
            losses.add(key, where, "the target has no such field")


def is_anthropic_only(kind: Any) -> bool:
    """Whether no other provider has a word for this block type."""
    server_result = isinstance(kind, str) and kind.endswith("_tool_result")
    return kind in ANTHROPIC_ONLY or server_result


def as_text(block: Mapping[str, Any]) -> str | None:
    """A reading of a block that the target cannot hold, the JSON of one that nobody knows; `None` if it has nothing for a reader."""
    kind = block.get("type")
    if kind == "search_result":
        body = result_text(block.get("content"))
        return "\n".join(part for part in (block.get("title"), block.get("source"), body) if part)
    if kind == "compaction" and isinstance(block.get("content"), str):
        return str(block["content"]) or None
    if kind == "document":
        return _document_text(block)
    if kind in ("image", "container_upload"):
        return f"[{kind}]"
    if kind == FOREIGN or is_anthropic_only(kind):
        return None
    rest = {key: value for key, value in block.items() if key not in ("type", FOREIGN)}
    return f"[{kind if isinstance(kind, str) else 'block'}] {dumps(rest)}"


def _document_text(block: Mapping[str, Any]) -> str:
    source = block.get("source")
    source = source if isinstance(source, Mapping) else {}
    title = f"{block['title']}\n" if block.get("title") else ""
    if source.get("type") == "text":
        return f"{title}{source.get('data', '')}"
    if source.get("type") == "content":
        return f"{title}{result_text(source.get('content'))}"
    return f"[document{': ' + str(block['title']) if block.get('title') else ''}]"


# ---- media ---------------------------------------------------------------------------------------


def to_url(source: Any) -> str | None:
    """An image's or document's source as a URL, `data:` for base64; `None` if it has none."""
    if not isinstance(source, Mapping):
        return None
    if source.get("type") == "url" and isinstance(source.get("url"), str):
        return str(source["url"])
    if source.get("type") == "base64" and isinstance(source.get("data"), str):
        return f"data:{source.get('media_type', '')};base64,{source['data']}"
    return None


def from_url(url: str) -> dict[str, Any]:
    """The reverse of `to_url`."""
    head, comma, data = url.partition(",")
    if comma and head.startswith("data:") and head.endswith(";base64"):
        return {"type": "base64", "media_type": head[5:-7], "data": data}
    return {"type": "url", "url": url}


# ---- one notation --------------------------------------------------------------------------------


def normal_form(messages: Iterable[Item]) -> list[dict[str, Any]]:
    """The one notation of what several notations say alike.

    A string is one text block; neighbours of one role are one message; an absent result is an empty
    one; `is_error: false` is absent; only role and content (and a system message's own keys) count.
    Two conversations with equal normal forms are the same request to Anthropic.
    """
    merged: list[dict[str, Any]] = []
    for _, message in bare(messages):
        blocks = [_normal_block(block) for block in blocks_of(message.get("content"))]
        extra = {key: message[key] for key in ("output_config", "clear_at") if key in message}
        if merged and merged[-1]["role"] == message["role"] and not extra:
            merged[-1]["content"].extend(blocks)
        elif blocks or extra:
            merged.append({"role": message["role"], "content": blocks, **extra})
    return merged


def _normal_block(block: Mapping[str, Any]) -> dict[str, Any]:
    plain = {key: value for key, value in block.items() if not (key == "is_error" and not value)}
    if plain.get("type") == "tool_result":
        plain["content"] = [_normal_block(one) for one in blocks_of(plain.get("content"))]
    return plain
