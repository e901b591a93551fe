"""Which parts of many similar lists of messages have to be judged: what was judged once is known by its content.

A list is taken apart where an assistant message begins with nothing open before it. Each part with the one before
it is a window. The rules are about neighbours, except for ids, counts and sizes, which the whole list is judged for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import orjson

__all__ = ["Contents", "windows"]

OPENING: dict[str, Any] = {"role": "user", "content": "."}
_SERVER_CALLS = ("server_tool_use", "mcp_tool_use")


class _Shape(NamedTuple):
    """What decides where a list can be taken apart."""

    role: str
    opened: frozenset[str]  # server tools' calls, whose results may come much later
    closed: frozenset[str]


class Contents:
    """Gives messages numbers: the same one for the same content.

    Args:
        blocks: Blocks that are known by identity; they must live as long as this does.
    """

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self._known: dict[int, tuple[Any, int]] = {}
        self._blocks: dict[int, Any] = {}
        self._shapes: list[_Shape] = []

    def keep(self, messages: Sequence[Any]) -> None:
        """Messages that stay alive and unchanged: they are looked at once."""
        for message in messages:
            if id(message) not in self._known:
                content = message["content"]
                for block in content if isinstance(content, list) else ():
                    self._blocks[id(block)] = block
                self._known[id(message)] = message, self._number(message)

    def numbers(self, messages: Sequence[Any]) -> tuple[int, ...]:
        """The messages as numbers."""
        return tuple(self._of(message) for message in messages)

    def shape(self, number: int) -> _Shape:
        return self._shapes[number]

    def _of(self, message: Any) -> int:
        known = self._known.get(id(message))
        return self._number(message) if known is None else known[1]

    def _number(self, message: Mapping[str, Any]) -> int:
        content = message.get("content")
        blocks = content if isinstance(content, list) else [content]
        rest = {key: value for key, value in message.items() if key != "content"}
        key = (orjson.dumps(rest), type(content), *map(self._name, blocks))
        number = self._numbers.setdefault(key, len(self._numbers))
        if number == len(self._shapes):
            self._shapes.append(_shape(message, blocks))
        return number

    def _name(self, block: Any) -> Any:
        if id(block) in self._blocks:
            return id(block)
        return hashlib.blake2b(orjson.dumps(block), digest_size=16).digest()


def _shape(message: Mapping[str, Any], blocks: Sequence[Any]) -> _Shape:
    found = [block for block in blocks if isinstance(block, dict)]
    opened = (str(each.get("id")) for each in found if each.get("type") in _SERVER_CALLS)
    closed = (str(each.get("tool_use_id")) for each in found if "tool_use_id" in each)
    return _Shape(str(message.get("role")), frozenset(opened), frozenset(closed))


def windows(numbers: Sequence[int], contents: Contents) -> Iterator[tuple[int, int]]:
    """Starts and ends of a list's windows; an only part is one.

    Args:
        numbers: The list, as `Contents.numbers` gives it.
        contents: What gave the numbers.
    """
    edges = [0, *_cuts([contents.shape(number) for number in numbers]), len(numbers)]
    if len(edges) == 2:
        yield 0, len(numbers)
    for (start, _), (_, stop) in pairwise(pairwise(edges)):
        yield start, stop


def _cuts(shapes: Sequence[_Shape]) -> Iterator[int]:
    pending: set[str] = set()
    for at, shape in enumerate(shapes):
        begins = shape.role == "assistant" and at > 0 and shapes[at - 1].role == "user"
        if begins and not pending:
            yield at
        pending |= shape.opened
        pending -= shape.closed
