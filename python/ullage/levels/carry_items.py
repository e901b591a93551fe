"""The provider's own compaction item through every level: in front, as it came (FULL-14)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ullage._engine import core
from ullage._engine.digests import Role
from ullage.facts.compaction_items import alone, has_items, holds, newest_item, without
from ullage.levels.report import Made
from ullage.messages import Item

_SYSTEM = bytes((Role.SYSTEM,))

__all__ = ["item_tokens", "opens_with", "with_item"]


def with_item(
    messages: Sequence[Item],
    sources: Sequence[int | str],
    parts: Sequence[int | Made],
    ledger: core.Ledger,
) -> Sequence[int | Made]:
    """A new order of a view's messages, in which the newest item is not lost and stands before all that is made.

    Args:
        messages: Of the view as it is.
        sources: Of the same.
        parts: Of the view as it shall be: positions in `messages`, rising, and what a level made.
        ledger: Of the view as it is.

    Returns:
        The parts, the very same where the item is in its place.
    """
    found = newest_item(messages, ledger)
    if found is None:
        return parts
    made = [part for part in parts if isinstance(part, Made)]
    if any(holds(part.message, found.block) for part in made):
        return parts
    place = next((at for at, part in enumerate(parts) if part == found.at), None)
    if place is not None and not any(isinstance(part, Made) for part in parts[:place]):
        return parts
    # Older items after it would count as newer ones.
    others = [each for part in parts for each in _without_items(messages, sources, part)]
    head = _system_messages(messages, others)
    front = Made(f"item:{sources[found.at]}", alone(found.block))
    return [*others[:head], front, *others[head:]]


def _without_items(
    messages: Sequence[Item], sources: Sequence[int | str], part: int | Made
) -> list[int | Made]:
    message = messages[part] if isinstance(part, int) else part.message
    if not has_items(message):
        return [part]
    rest = without(message)
    key = f"rest:{sources[part]}" if isinstance(part, int) else part.key
    return [] if rest is None else [Made(key, dict(rest))]


def _system_messages(messages: Sequence[Item], parts: Sequence[int | Made]) -> int:
    told = (messages[part] if isinstance(part, int) else part.message for part in parts)
    roles = (each.get("role") for each in told)
    return next((at for at, role in enumerate(roles) if role != "system"), len(parts))


def item_tokens(view: Any, start: int, stop: int) -> int:
    """Tokens of the message with the newest item, if it is one of [start, stop), which go: the item comes back. 0: it is none."""
    found = newest_item(view.messages, view.ledger)
    inside = found is not None and start <= found.at < stop
    return int(view.ledger.message(found.at).tokens) if found is not None and inside else 0


def opens_with(view: Any) -> int:
    """How many messages at the beginning no level touches: system messages, and an item that stands alone."""
    roles: bytes = view.ledger.roles()
    head = len(roles) - len(roles.lstrip(_SYSTEM))
    found = newest_item(view.messages, view.ledger)
    if found is not None and found.at == head and without(view.messages[head]) is None:
        return head + 1
    return head
