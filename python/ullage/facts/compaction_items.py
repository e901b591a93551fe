"""The provider's own compaction items: opaque or signed replacements for everything said before them.

Anthropic generates a `compaction` block, OpenAI an encrypted item, which the internal view holds as a `foreign` block.
Only the provider can write them, so they are carried unchanged, at the front; the newest one replaces the older ones too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ullage._engine import core
from ullage._engine.digests import BlockKind
from ullage.messages import BlockView, Item, message_of

__all__ = [
    "CompactionItem",
    "alone",
    "family_of",
    "has_items",
    "holds",
    "newest_item",
    "readable",
    "without",
]

_KINDS = (int(BlockKind.COMPACTION), int(BlockKind.UNKNOWN))
"""What an item is to a ledger, among others."""

ITEM_TYPES = ("compaction", "compaction_summary", "context_compaction")
"""The types that OpenAI and the Codex CLI have used."""


class CompactionItem(NamedTuple):
    """A provider's item: the block, and which message holds it."""

    at: int
    block: BlockView


def family_of(block: object) -> str:
    """The provider of a compaction item: `anthropic`, `openai_responses`; empty if the block is not one."""
    if type(block) is not dict and not isinstance(block, Mapping):  # dicts are recognised at once
        return ""
    kind = block.get("type")
    if kind != "compaction" and kind != "foreign":
        return ""
    if kind == "compaction":
        # Null content and nothing sealed: a failed compaction, which replaces nothing.
        told = block.get("content"), block.get("encrypted_content"), block.get("signature")
        return "anthropic" if any(told) else ""
    return "openai_responses" if _foreign_item(block).get("type") in ITEM_TYPES else ""


def _foreign_item(block: BlockView) -> Mapping[str, Any]:
    carried = block.get("foreign") if block.get("type") == "foreign" else None
    data = carried.get("openai_responses") if isinstance(carried, Mapping) else None
    item = data.get("item") if isinstance(data, Mapping) else None
    return item if isinstance(item, Mapping) else {}


def _blocks(item: Item) -> Sequence[Any]:
    content = (message_of(item) or {}).get("content")
    return content if isinstance(content, list) else ()


def newest_item(
    messages: Sequence[Item], ledger: core.Ledger | None = None
) -> CompactionItem | None:
    """The newest provider's item of a conversation; `None`: there is none.

    Args:
        messages: Bare messages of the internal view, or entries.
        ledger: Of exactly these messages; `None`: each is looked into.
    """
    places = range(len(messages)) if ledger is None else ledger.with_kinds(*_KINDS)
    for at in reversed(places):
        item = messages[at]
        # A view is asked several times by a level that acts: bare messages are looked into here.
        content = item.get("content") if type(item) is dict and "role" in item else _blocks(item)
        for block in reversed(content) if isinstance(content, list) else ():
            kind = block.get("type") if type(block) is dict else "compaction"
            if (kind == "compaction" or kind == "foreign") and family_of(block):
                return CompactionItem(at, block)
    return None


def holds(item: Item, block: BlockView) -> bool:
    """Whether a message or entry holds this item, or an equal one."""
    return any(each is block or each == block for each in _blocks(item) if family_of(each))


def alone(block: BlockView) -> dict[str, Any]:
    """An assistant message with only the item."""
    return {"role": "assistant", "content": [block]}


def has_items(item: Item) -> bool:
    """Whether a message or entry holds any provider's item."""
    return any(family_of(each) for each in _blocks(item))


def without(item: Item) -> Item | None:
    """The message or entry less such items; the same object if it has none, `None` if nothing else is in it."""
    blocks = _blocks(item)
    rest = [each for each in blocks if not family_of(each)]
    if len(rest) == len(blocks):
        return item
    if not rest:
        return None
    message = message_of(item) or {}
    changed = {**message, "content": rest}
    return changed if message is item else {**item, "message": changed}


def readable(block: BlockView) -> str:
    """The readable text of an item; empty if all of it is sealed."""
    if block.get("type") == "compaction":
        return "\n".join(_texts(block.get("content")))
    item = _foreign_item(block)
    parts = (item.get(key) for key in ("content", "summary", "message"))
    return "\n".join(text for part in parts for text in _texts(part))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield from [value] if value.strip() else []
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part.get("text") if isinstance(part, Mapping) else part)
