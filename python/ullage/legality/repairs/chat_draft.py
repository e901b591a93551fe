"""A working copy of a list whose items are messages without blocks in common: chat, items, contents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ullage._engine import core
from ullage.exceptions import InvalidMessage
from ullage.legality.repairs.items import plain
from ullage.legality.repairs.result import Repair

__all__ = ["ChatLine", "Lines", "as_text"]


class ChatLine:
    """One item. `value` is the item itself until a repair puts a new one in its place.

    Attributes:
        value: The item; never changed in place.
        origin: Its index in the list that was given; that of a neighbour for an added one.
    """

    __slots__ = ("origin", "value")

    def __init__(self, value: Any, origin: int) -> None:
        self.value = value
        self.origin = origin

    def get(self, key: str) -> Any:
        """A field of the item."""
        return self.value.get(key) if isinstance(self.value, Mapping) else None

    def put(self, **fields: Any) -> None:
        """Sets fields, in a copy."""
        self.value = {**self.value, **fields}

    def drop(self, *keys: str) -> None:
        """Removes fields, in a copy."""
        self.value = {key: value for key, value in self.value.items() if key not in keys}


class Lines:
    """Lines in order, and the repairs so far."""

    def __init__(self, items: Iterable[Any]) -> None:
        self.lines = [ChatLine(item, index) for index, item in enumerate(items)]
        self.repairs: list[Repair] = []

    def build(self) -> list[Any]:
        """The items as they are now."""
        return [line.value for line in self.lines]

    def note(
        self,
        rule: str,
        line: ChatLine | None,
        action: str,
        *,
        block: int = -1,
        ids: Iterable[Any] = (),
    ) -> None:
        """Records a repair."""
        origin = -1 if line is None else line.origin
        self.repairs.append(Repair(rule, origin, block, action, tuple(str(each) for each in ids)))

    def make_plain(self, rule: str) -> None:
        """Replaces what JSON cannot hold."""
        for line in self.lines:
            try:
                core.Ledger(None, [{"role": "user", "content": [line.value]}])
            except InvalidMessage as exc:
                self.note(rule, line, f"replaced what cannot be sent: {exc.reason}")
                line.value = plain(line.value)


def as_text(value: Any) -> str:
    """Text of content in any of the usual forms; what is no text is left out."""
    if isinstance(value, str):
        return value
    parts = value if isinstance(value, list | tuple) else ()
    texts = (part.get("text") for part in parts if isinstance(part, Mapping))
    return "\n".join(text for text in texts if isinstance(text, str))
