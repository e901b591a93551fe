"""Whether a message is made of the very objects that it was made of when it was read; here each message is read again."""

from __future__ import annotations

from typing import Any, final


@final
class MessageObjects:
    """Holds nothing: a walk in Python takes as long as a fingerprint."""

    def __init__(self, *constants: type) -> None:
        """`constants`: classes of which no instance ever changes."""

    def cut(self, count: int) -> None:
        """Hold no more than the objects of the first so many messages."""

    def note(self, items: list[Any], at: int) -> None:
        """Hold the objects of the message there."""

    def differing(self, items: list[Any], start: int, stop: int) -> list[int]:
        """Messages from `start` up to `stop` that are made of other objects, or of which none are held."""
        return list(range(start, stop))
