"""What a message, an entry, a block, a role, thinking, a summary, a boundary and a local field look like.

Plain dicts: nothing is wrapped, unknown keys pass through. Readers take bare messages and entries alike, never raise on a
shape that they do not know, and copy no block.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import is_
from typing import Any, Final, Literal, NotRequired, Protocol, TypeAlias, TypedDict

from ullage.exceptions import InvalidMessage

__all__ = ["Block", "Entry", "Item", "Message"]


# What a block, a message, an entry and a response's token counts look like.
#
# Annotations are not strings here: `TypedDict` would compile each of them, and compiling the first takes 3 ms.


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


THINKING: Final = ("thinking", "redacted_thinking")
"""Types of the blocks that hold a model's reasoning."""

CLEARED: Final = "[Old tool result content cleared]"
"""Stands instead of a tool result that was cleared to make room (MIC-1)."""

LONGEST_MARKER: Final = 4_000
"""Characters: a longer text that begins like one of our markers is output, not a marker."""

BOUNDARY: Final = "compact_boundary"
"""The `subtype` of the entry that separates what was compacted from what follows."""

LOCAL_FIELDS: Final = frozenset(
    "id type model usage stop_reason stop_sequence stop_details container context_management diagnostics "
    "uuid timestamp".split()
)
"""Keys of a response or of an entry that no request takes."""

COPY_OF: Final = "copyOfUuid"
"""Field of an entry that is a copy: the entry that it repeats."""

SOURCE_ROLE: Final = "sourceRole"
"""Of an entry whose program gave it another role than the user's, such as Codex's `developer`."""

METADATA_TYPES: Final = (
    "custom-title",
    "ai-title",
    "tag",
    "agent-name",
    "agent-color",
    "agent-setting",
    "mode",
    "permission-mode",
    "pr-link",
    "last-prompt",
)
"""Lines about the session, of which the last of each type counts; repeated after a compaction so
that they lie within the last 16 KB, which is all that a list of sessions reads (POST-5)."""

Item: TypeAlias = Mapping[str, Any]
"""A bare message or an entry: every function takes both."""

Items: TypeAlias = Sequence[Item]

SystemPrompt: TypeAlias = str | Mapping[str, Any] | Sequence[Mapping[str, Any]]
"""A system prompt: text, blocks of it, or Gemini's content."""


class SDKObject(Protocol):
    """An object of a provider's SDK, which dumps itself as pydantic's models do."""

    def model_dump(
        self, *, by_alias: bool | None = None, exclude_none: bool = False
    ) -> dict[str, Any]:
        """Its fields as a dict."""


Tools: TypeAlias = Sequence[Mapping[str, Any] | SDKObject]
"""Definitions of tools, in the provider's form: as JSON, or as its SDK's objects."""

StoredEntry: TypeAlias = dict[str, Any]
"""An entry as a transcript's line holds it, with keys that nothing here knows."""


def check_list(items: object) -> None:
    """Refuse what is no list, whatever a list of it would hold.

    Raises:
        InvalidMessage: It is none.
    """
    if isinstance(items, str | Mapping) or not isinstance(items, Iterable):
        raise InvalidMessage("must be in a list of messages", got=type(items).__name__)


def listed(items: Iterable[Item]) -> list[Item]:
    """The items as a list.

    Raises:
        InvalidMessage: It is no list, or one is no mapping; names its position.
    """
    check_list(items)
    items_read = list(items)
    for index, item in enumerate(items_read):
        if type(item) is not dict and not isinstance(item, Mapping):
            raise InvalidMessage("must be a mapping", index=index, got=type(item).__name__)
    return items_read


def message_of(item: object) -> Mapping[str, Any] | None:
    """The message of an item, as the engines read it: itself if it names a role, else what its envelope holds.

    Returns:
        `None` for what is no message: metadata, an envelope whose message names no role, no mapping at all.

    Example:
        >>> message_of({"role": "user", "content": "x", "message": {"note": 1}})["content"]
        'x'
    """
    if type(item) is not dict and not isinstance(item, Mapping):  # dicts are recognised at once
        return None
    if "role" in item:
        return item
    inner = item.get("message")
    if inner is None or (type(inner) is not dict and not isinstance(inner, Mapping)):
        return None
    return inner if "role" in inner else None


def role_of(item: object) -> str:
    """`user`, `assistant`, `system` (also for `developer`), `tool`; empty for metadata."""
    message = message_of(item)
    role = message.get("role") if message is not None else None
    if role == "developer":
        return "system"
    return role if isinstance(role, str) else ""


def as_blocks(content: object) -> list[Block]:
    """A content as blocks: a string is one text block, anything but a list holds none. What a list holds is not checked."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return list(content) if isinstance(content, list | tuple) else []


def is_thinking(block: object) -> bool:
    """Whether a block holds a model's reasoning, readable or not."""
    return isinstance(block, Mapping) and block.get("type") in THINKING


def as_sent(item: Item) -> Item | None:
    """The message as it is sent: without local fields; the same object where there are none.

    Returns:
        `None` for an item that is no message, such as a boundary.
    """
    message = message_of(item)
    if message is None or LOCAL_FIELDS.isdisjoint(message):
        return message
    return {key: value for key, value in message.items() if key not in LOCAL_FIELDS}


def uuid_of(item: object) -> str:
    """The id of an entry, or of a bare message that carries one; empty if there is none."""
    if type(item) is not dict and not isinstance(item, Mapping):
        return ""
    for key in ("uuid", "id"):
        value = item.get(key)
        if isinstance(value, str):
            return value
    return ""


def is_boundary(item: object) -> bool:
    """Whether an entry separates what was compacted from what follows."""
    return (
        (type(item) is dict or isinstance(item, Mapping))
        and item.get("type") == "system"
        and item.get("subtype") == BOUNDARY
    )


def is_summary(item: object) -> bool:
    """Whether an item is the summary message of an earlier compaction."""
    if type(item) is not dict and not isinstance(item, Mapping):
        return False
    return item.get("isCompactSummary") is True


def same_items(new: Sequence[object], old: Sequence[object]) -> bool:
    """Whether both hold the same objects in the same order: what no repair or change has touched."""
    return len(new) == len(old) and all(map(is_, new, old))


def with_parts(holder: Item, change: Callable[[Block], object]) -> Item:
    """A message or a block with each part of its content changed; the same object if none is, or it has no list of parts."""
    content = holder.get("content")
    if not isinstance(content, list | tuple):
        return holder
    parts = [change(part) for part in content]
    return holder if same_items(parts, content) else {**holder, "content": parts}


def whole_count(value: object) -> int:
    """A count; 0 for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def now_in_ms() -> int:
    """The system's clock, in milliseconds since the epoch, as messages are stamped."""
    return time.time_ns() // 1_000_000


def largest(most: int, fits: Callable[[int], bool], *, least: int = 0) -> int:
    """The largest number up to `most` that fits, by halving; `least`, which is not asked, if none above it does."""
    low, high = least, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def common_length(before: Sequence[object], now: Sequence[object]) -> int:
    """How many items at the start of both are equal."""
    most = min(len(before), len(now))
    if before[:most] == now[:most]:
        return most
    return next(at for at in range(most) if before[at] != now[at])
