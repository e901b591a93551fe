"""Ids of calls that are used again: a second call under an answered id gets one of its own, and so does its result.

Some servers number the calls of each answer from 0. What is decided of a result is decided by its id: under a shared one a later
result would be shown as an earlier one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ullage._late import hashlib
from ullage.messages import Item, message_of

__all__ = ["CallIds"]


LONGEST = 40
"""Characters of an id that every API takes."""

_ID = {"tool_use": "id", "tool_result": "tool_use_id"}


class CallIds:
    """Which call ids a conversation has used. Rebuilt from its history, it is the same.

    Attributes:
        calls: Ids of calls, each with the id of its response.
        answered: Ids that a result names.
    """

    def __init__(self) -> None:
        self.calls: dict[str, str | None] = {}
        self.answered: set[str] = set()

    def of_all(self, items: Iterable[Item]) -> list[Item]:
        """Messages in order, each `own` and taken in."""
        found = []
        for item in items:
            found.append(self.own(item))
            self.take(found[-1])
        return found

    def own(self, item: Item) -> Item:
        """The message, its calls and results under ids of their own; the same object where they are already."""
        message = message_of(item)
        content = None if message is None else message.get("content")
        if message is None or not isinstance(content, list):
            return item
        names: dict[str, str] = {}
        blocks = [self._block(block, message.get("id"), names) for block in content]
        if all(new is old for new, old in zip(blocks, content, strict=True)):
            return item
        changed = {**message, "content": blocks}
        return changed if message is item else {**item, "message": changed}

    def note_calls(self, names: Iterable[str], response: Any) -> None:
        """As `take`, of an answer whose calls are known; `response`: its id, if it has one."""
        if not isinstance(response, str):
            response = None
        for name in names:
            self.calls.setdefault(name, response)

    def take(self, item: Item) -> None:
        """Note the ids of a message that was added."""
        response = (message_of(item) or {}).get("id")
        for kind, name in _ids(item):
            if kind == "tool_use":
                self.calls.setdefault(name, response if isinstance(response, str) else None)
            else:
                self.answered.add(name)

    def _block(self, block: Any, response: Any, names: dict[str, str]) -> Any:
        kind = block.get("type") if isinstance(block, Mapping) else None
        key = _ID.get(kind) if isinstance(kind, str) else None
        name = block.get(key) if key is not None else None
        if not isinstance(name, str) or name not in self.answered:
            return block
        if kind == "tool_result":
            waiting = self._waiting(name)
            return block if waiting is None else {**block, key: waiting}
        if response is not None and self.calls.get(name) == response:
            return block  # the same answer once more, not another call
        return {**block, key: names.setdefault(name, self._next(name))}

    def _next(self, name: str) -> str:
        return next(each for each in _others(name) if each not in self.calls)

    def _waiting(self, name: str) -> str | None:
        """The newest call that was renamed from this id, if its result is still to come."""
        newest = None
        for each in _others(name):
            if each not in self.calls:
                break
            newest = each
        return None if newest is None or newest in self.answered else newest


def _others(name: str) -> Iterator[str]:
    """Names for further calls under an id."""
    stem = name
    if len(name) > LONGEST - 8:
        stem = "call-" + hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:24]
    number = 2
    while True:
        yield f"{stem}-{number}"
        number += 1


def _ids(item: Item) -> Iterator[tuple[str, str]]:
    content = (message_of(item) or {}).get("content")
    for block in content if isinstance(content, list) else ():
        kind = block.get("type") if isinstance(block, Mapping) else None
        key = _ID.get(kind) if isinstance(kind, str) else None
        if key is not None and isinstance(kind, str) and isinstance(block.get(key), str):
            yield kind, block[key]
