"""The input of a compaction: the context that the model currently sees, from a list of messages or entries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ullage.facts.compaction_items import CompactionItem, newest_item
from ullage.facts.whose_words import without_host_text
from ullage.messages import Item, is_boundary, listed, message_of, role_of
from ullage.transcript.after_boundary import resume
from ullage.transcript.render import to_messages

__all__ = ["CompactionInput", "ReadItems", "read_source"]


@dataclass(frozen=True, slots=True)
class CompactionInput:
    """A conversation, split into its parts.

    Attributes:
        items: Everything that was passed.
        head: System messages at the start of a bare list; never compacted.
        context: What the model sees after the newest boundary, one entry or message each.
        stored: For each of `context` the item as it was passed: the same object, unless a placeholder
            of an earlier level replaces it.
        ids: For each of `context` its uuid, or its position in `items`.
        earlier: Items that an earlier compaction took out of the context.
        entries: Whether the items are entries of a transcript.
        item: The newest of the provider's own compaction items in `context`; `None`: there is none.
    """

    items: tuple[Item, ...]
    head: tuple[Item, ...]
    context: tuple[Item, ...]
    stored: tuple[Item, ...]
    ids: tuple[str | int, ...]
    earlier: tuple[Item, ...]
    entries: bool
    item: CompactionItem | None

    def bare(self, start: int, stop: int, *, plain: bool = False) -> list[dict[str, Any]]:
        """A part of the context as messages of a request.

        Args:
            start: First position in the context.
            stop: Position after the last.
            plain: Leave out what hosts put in, for the moment or to stand; what sub-agents answered stays.
        """
        part = self.context[start:stop]
        if not self.entries:
            messages = [dict(message) for message in part]
        else:
            if plain:
                pairs = zip(part, self.stored[start:stop], strict=True)
                part = tuple(item for item, stored in pairs if not _attached(item, stored))
            messages = to_messages(part).messages
        if not plain:
            return messages
        told = [without_host_text(message) for message in messages]
        left = [dict(message) for message in told if message is not None]
        # A call begins with the user's role, also where all that was said in it is a host's.
        lacks = bool(left) and told[0] is None and role_of(left[0]) == "assistant"
        return [messages[0], *left] if lacks else left


def _attached(item: Item, stored: Item) -> bool:
    return stored.get("type") == "attachment" and item.get("isMeta") is True


class ReadItems(tuple[Item, ...]):
    """Items that were split already, for a caller that asks about them before and after a compaction."""

    parts: CompactionInput

    @classmethod
    def of(cls, given: Sequence[Item]) -> ReadItems:
        """The items with their parts."""
        items = cls(given)
        items.parts = read_source(given)
        return items

    @classmethod
    def in_context(cls, given: Sequence[Item]) -> ReadItems:
        """Entries that a replay has found to be the context: it is not asked again what stands in it."""
        items = cls(given)
        if not any("message" in item and "role" not in item for item in items):
            return cls.of(given)
        names = (item.get("uuid") for item in items)
        ids = tuple(name if isinstance(name, str) else at for at, name in enumerate(names))
        context = tuple(items)
        found = newest_item(context)
        items.parts = CompactionInput(context, (), context, context, ids, (), True, found)
        return items


def read_source(given: Sequence[Item]) -> CompactionInput:
    """Split a list into its parts.

    Args:
        given: Bare messages or entries, oldest first; not changed. `ReadItems` are not read again.

    Raises:
        InvalidMessage: Something in the list is not a mapping; names its position.
    """
    if isinstance(given, ReadItems):
        return given.parts
    items = tuple(listed(given))
    if any(("message" in item and "role" not in item) or is_boundary(item) for item in items):
        return _of_entries(items)
    return _of_messages(items)


def _uuid(item: Item) -> str:
    uuid = item.get("uuid")
    return uuid if isinstance(uuid, str) else ""


def _of_messages(items: tuple[Item, ...]) -> CompactionInput:
    head = 0
    while head < len(items) and role_of(items[head]) == "system":
        head += 1
    places = tuple(at for at in range(head, len(items)) if message_of(items[at]) is not None)
    context = tuple(items[at] for at in places)
    item = newest_item(context)
    return CompactionInput(items, items[:head], context, context, places, (), False, item)


def _of_entries(items: tuple[Item, ...]) -> CompactionInput:
    context = tuple(resume(items).entries)
    by_object = {id(item): at for at, item in enumerate(items)}
    by_uuid = {_uuid(item): at for at, item in enumerate(items) if _uuid(item)}
    places = [by_object.get(id(item), by_uuid.get(_uuid(item), -1)) for item in context]
    stored = tuple(
        items[at] if at >= 0 and items[at].get("type") == "attachment" else item
        for item, at in zip(context, places, strict=True)
    )
    ids = tuple(
        item["uuid"] if isinstance(item.get("uuid"), str) else at
        for item, at in zip(context, places, strict=True)
    )
    inside = set(places)
    last = max((at for at, item in enumerate(items) if is_boundary(item)), default=-1)
    earlier = tuple(items[at] for at in range(max(last, 0)) if at not in inside)
    return CompactionInput(items, (), context, stored, ids, earlier, True, newest_item(context))
