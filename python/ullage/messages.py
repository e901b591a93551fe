"""The types of messages and entries. Plain dicts: nothing is wrapped, unknown keys pass through."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NotRequired, TypeAlias, TypedDict

from ullage.exceptions import InvalidMessage

__all__ = [
    "Block",
    "Content",
    "Entry",
    "Item",
    "Message",
    "Usage",
    "listed",
    "message_of",
]

Block: TypeAlias = dict[str, Any]
"""One content block, such as `{"type": "text", "text": "..."}`."""

Content: TypeAlias = str | list[Block]
"""A message's content: a string stands for one text block."""


class Usage(TypedDict, total=False):
    """Token counts as the provider reports them for one response."""

    input_tokens: int
    output_tokens: int
    cache_creation_input_tokens: int
    cache_read_input_tokens: int


class Message(TypedDict):
    """One entry of what is sent to a model."""

    role: Literal["user", "assistant", "system", "developer", "tool"]
    content: Content
    id: NotRequired[str]
    usage: NotRequired[Usage]


class Entry(TypedDict, total=False):
    """A message in an envelope, as a transcript stores it. Lines without `message` are metadata."""

    type: str
    uuid: str
    parentUuid: str | None
    timestamp: str
    message: Message
    isMeta: bool
    isSidechain: bool
    isCompactSummary: bool


Item: TypeAlias = Mapping[str, Any]
"""A bare message or an entry: every function takes both."""

Items: TypeAlias = Sequence[Item]


def listed(items: Iterable[Item]) -> list[Item]:
    """The items as a list.

    Raises:
        InvalidMessage: One is no mapping; names its position.
    """
    found = list(items)
    for index, item in enumerate(found):
        if not isinstance(item, Mapping):
            raise InvalidMessage("is no object", index=index, got=type(item).__name__)
    return found


def message_of(item: Any) -> Mapping[str, Any] | None:
    """The message of an item, as the engines read it: itself if it names a role, else what its envelope holds.

    Returns:
        `None` for what is no message: metadata, an envelope whose message names no role, no mapping at all.

    Example:
        >>> message_of({"role": "user", "content": "x", "message": {"note": 1}})["content"]
        'x'
    """
    if type(item) is not dict and not isinstance(item, Mapping):  # dicts are told at once
        return None
    if "role" in item:
        return item
    inner = item.get("message")
    return inner if isinstance(inner, Mapping) and "role" in inner else None
