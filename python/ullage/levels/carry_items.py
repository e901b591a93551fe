"""What no level loses: the provider's own compaction item (FULL-14), and the texts that hosts put there to stand (HOST-1)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from ullage._engine import core
from ullage._engine.digests import Role
from ullage.facts.compaction_items import alone, has_items, holds, newest_item, without
from ullage.facts.whose_words import standing_left
from ullage.levels.report import Made
from ullage.messages import Item, role_of

_SYSTEM = bytes((Role.SYSTEM,))

__all__ = ["HOST", "item_tokens", "opens_with", "standing_tokens", "with_item", "with_standing"]

_ITEM = "item:"
HOST = "host:"
"""How the key of a message begins that holds standing texts of the host and nothing else."""


def with_standing(
    messages: Sequence[Item], sources: Sequence[int | str], parts: Sequence[int | Made]
) -> Sequence[int | Made]:
    """A new order of a view's messages, in which no text is lost that a host put there to stand, nor an older version of it kept.

    Args:
        messages: Of the view as it is.
        sources: Of the same.
        parts: Of the view as it shall be: positions in `messages`, rising, and what a level made.

    Returns:
        The parts, the very same where nothing has to be put back. The texts stand before what was made; those of the system's
        role after the user messages that follow, where providers take them (A12).
    """
    gone = set(range(len(messages))).difference(part for part in parts if isinstance(part, int))
    made = [part.message for part in parts if isinstance(part, Made)]
    left = standing_left(messages, gone, made) if gone else []
    if not left:
        return parts
    # After a provider's item: what stands before that is not read.
    found = (at for at, part in enumerate(parts) if _follows(part, left[0][0]))
    place = next(found, len(parts))
    before = max((part for part in parts[:place] if isinstance(part, int)), default=-1)
    after = min((part for part in parts[place:] if isinstance(part, int)), default=len(messages))
    back: list[int | Made] = []
    system: list[int | Made] = []
    for at, item in left:
        as_made = Made(f"{HOST}{sources[at]}", dict(item))
        if role_of(item) == "system":
            system.append(as_made)
        else:
            back.append(at if item is messages[at] and before < at < after else as_made)
    rest = parts[place:]
    roles = (role_of(messages[p] if isinstance(p, int) else p.message) for p in rest)
    answer = next((at for at, role in enumerate(roles) if role == "assistant"), len(rest))
    return [*parts[:place], *back, *rest[:answer], *system, *rest[answer:]]


def _follows(part: int | Made, at: int) -> bool:
    """Whether a part stands for what followed message `at`, or replaces it."""
    return not part.key.startswith(_ITEM) if isinstance(part, Made) else part > at


def standing_tokens(view: Any, gone: Collection[int]) -> int:
    """Tokens of the standing texts in messages that go: the texts come back."""
    left = standing_left(view.messages, gone)
    return int(core.Ledger(view.weights, [item for _, item in left]).tokens())


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
    front = Made(f"{_ITEM}{sources[found.at]}", alone(found.block))
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
