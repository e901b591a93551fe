"""What a block, a message, an entry and a response's token counts look like.

Annotations are not strings here: `TypedDict` would compile each of them, and compiling the first takes 3 ms.
"""

from collections.abc import Mapping
from typing import Any, Literal, NotRequired, TypeAlias, TypedDict

__all__ = ["Block", "BlockView", "Content", "Entry", "Message", "TokenUsage"]

Block: TypeAlias = dict[str, Any]
"""One content block, such as `{"type": "text", "text": "..."}`."""

BlockView: TypeAlias = Mapping[str, Any]
"""A content block that is only read."""

Content: TypeAlias = str | list[Block]
"""A message's content: a string stands for one text block."""


class TokenUsage(TypedDict, total=False):
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
    usage: NotRequired[TokenUsage]


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
