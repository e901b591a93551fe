"""The history of a conversation that a log holds: what the request does not show any more is read from there when asked for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, MutableSequence, Sequence
from typing import Any, overload

from ullage.levels.view import View
from ullage.messages import Item, message_of

__all__ = ["History", "as_entries"]


class History(MutableSequence[Item]):
    """All that was added, in order; equal to a list of it.

    Args:
        items: What was added so far.
        read: Gives the message at a position, equal to what was added; `None`: it is nowhere else.
    """

    def __init__(self, items: Iterable[Item], read: Callable[[int], Item | None]) -> None:
        self._items: list[Item | None] = list(items)
        self._read = read

    def let_go(self, stay: Collection[int]) -> None:
        """Hold in memory only what stays, and what cannot be had back exactly as it was added."""
        for at, item in enumerate(self._items):
            if item is not None and at not in stay and self._read(at) == item:
                self._items[at] = None

    def held(self, at: int) -> bool:
        """Whether a message is in memory."""
        return self._items[at] is not None

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, at: int) -> Item: ...
    @overload
    def __getitem__(self, at: slice) -> list[Item]: ...
    def __getitem__(self, at: int | slice) -> Item | list[Item]:
        if isinstance(at, slice):
            return [self[each] for each in range(*at.indices(len(self._items)))]
        item = self._items[at]
        if item is not None:
            return item
        found = self._read(at % len(self._items))
        if found is None:
            raise LookupError(f"message {at} was let go and cannot be read back")
        return found

    @overload
    def __setitem__(self, at: int, item: Item) -> None: ...
    @overload
    def __setitem__(self, at: slice, item: Iterable[Item]) -> None: ...
    def __setitem__(self, at: Any, item: Any) -> None:
        self._items[at] = item

    def __delitem__(self, at: int | slice) -> None:
        del self._items[at]

    def insert(self, index: int, value: Item) -> None:
        """Put a message in; only at the end is it what a log tells."""
        self._items.insert(index, value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str) or len(other) != len(self):
            return NotImplemented
        return all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        held = sum(item is not None for item in self._items)
        return f"History({len(self)} messages, {held} in memory)"


def as_entries(
    history: Sequence[Item], view: View, start: int, ids: Callable[[], str]
) -> list[dict[str, Any]]:
    """Messages from a position on as entries; one without a uuid is given one, and keeps it."""
    from ullage.transcript.log import iso_of

    made = []
    for at in range(len(history))[start:]:
        item = history[at]
        if message_of(item) is None:
            continue
        own = item.get("uuid")
        name = own if isinstance(own, str) else view.uuids.setdefault(at, ids())
        came = {"timestamp": iso_of(view.times[at])} if at in view.times else {}
        envelope = item if "message" in item else {"type": item["role"], "message": item}
        made.append({"uuid": name, **came, **envelope})
    return made
