"""Stable names of messages, by which the notes record what they have absorbed (SM-5)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from ullage._engine import core
from ullage.facts.reading import blocks_of, clean, text_of
from ullage.facts.sections import holds_notes
from ullage.messages import Item, message_of, role_of

__all__ = ["covered_end", "find_key", "item_key", "safe_end"]


def item_key(item: Item) -> str:
    """A name for a message: the uuid of an entry; for a bare message a hash of what never changes in it.

    Contents of tool results are not part of the hash, since earlier levels may shorten them; their ids are.
    """
    name = item.get("uuid")
    if isinstance(name, str) and name:
        return name
    message = message_of(item) or {}
    parts = [str(message.get("role")), *(_fixed(block) for block in blocks_of(item))]
    return "sha256:" + hashlib.sha256(orjson.dumps(parts)).hexdigest()[:40]


def _fixed(block: Mapping[str, Any]) -> str:
    kind = clean(block.get("type"), 100)
    for key in ("id", "tool_use_id", "text", "signature", "thinking", "data"):
        value = block.get(key)
        if isinstance(value, str) and value:
            return f"{kind}:{key}:{clean(value, 4 * len(value) + 1)}"
    return kind


def find_key(items: Sequence[Item], key: str) -> int | None:
    """The position of a name, the oldest of several; `None`: it is not there.

    The oldest, because bare messages may be equal: then more is kept than necessary, never less.
    """
    return next((at for at, item in enumerate(items) if item_key(item) == key), None)


def covered_end(items: Sequence[Item], covered: str) -> int | None:
    """The position after the last message that the notes have absorbed; `None`: unknown.

    A compaction takes that message away. If it put the notes in its place, they hold what they held then.

    Args:
        items: The conversation as the model sees it.
        covered: Name of that message; empty: unknown.
    """
    found = find_key(items, covered) if covered else None
    if found is None:
        places = (at for at, item in enumerate(items) if _stands_for_notes(item))
        found = max(places, default=None)
    return None if found is None else found + 1


def _stands_for_notes(item: Item) -> bool:
    return role_of(item) == "user" and holds_notes(text_of(item))


def safe_end(items: Sequence[Item]) -> int:
    """How many messages the notes may absorb: all, or those before a response that waits for a tool's result.

    Raises:
        InvalidMessage: An item is not a message.
    """
    ledger = core.Ledger(None, items)
    newest = ledger.rounds()[-1] if len(ledger) else 0
    waiting = [message for message, _ in ledger.open_calls() if message >= newest]
    if not waiting:
        return len(items)
    response = ledger.message(waiting[0]).response_id
    for at in range(newest, waiting[0]):
        if response and ledger.message(at).response_id == response:
            return at
    return waiting[0]
