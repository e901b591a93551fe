"""Ids of calls that are used again: a second call under an id gets one of its own, and so does its result.

Some servers number the calls of each answer from 0, and some give all calls of an answer one id. What is decided of a result is decided
by its id: under a shared one a later result would be shown as an earlier one. Whoever keeps the list has to find its own ids in it:
`as_given` puts them back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ullage._late import hashlib
from ullage.messages import Item, message_of

__all__ = ["CallIds", "as_given"]


LONGEST = 40
"""Characters of an id that every API takes."""

_ID = {"tool_use": "id", "tool_result": "tool_use_id"}


class CallIds:
    """Which call ids a conversation has used. Rebuilt from its history, it is the same.

    Attributes:
        calls: Ids of calls, each with the id of its response.
        answered: Ids that a result names.
        waiting: Ids of calls that no later result names, in order.
        given: By the id of its own that a call got here, the one it came with.

    Args:
        given: Of messages that were renamed before, as the attribute; `None`: there are none.
    """

    def __init__(self, given: Mapping[str, str] | None = None) -> None:
        self.calls: dict[str, str | None] = {}
        self.answered: set[str] = set()
        self.waiting: dict[str, None] = {}
        self.given: dict[str, str] = dict(given or ())
        self._newest: dict[
            str, str
        ] = {}  # by the id that it came with, the newest call that was renamed
        # Calls of the newest answer without a result, in order, by the id that they came with.
        self._open: dict[str, list[str]] = {}
        self._spoken = False  # the newest message is the model's

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
        taken: list[str] = []  # by calls and results of this message
        blocks = [self._block(block, message.get("id"), taken) for block in content]
        if all(new is old for new, old in zip(blocks, content, strict=True)):
            return item
        changed = {**message, "content": blocks}
        return changed if message is item else {**item, "message": changed}

    def note_calls(self, names: Iterable[str], response: Any) -> None:
        """As `take`, of an answer whose calls are known; `response`: its id, if it has one."""
        self._speaks(True)
        for name in names:
            self._called(name, response)

    def note_results(self, names: Iterable[str]) -> None:
        """As `take`, of a message of the user with these results."""
        self._speaks(False)
        for name in names:
            self._answered(name)

    def take(self, item: Item) -> None:
        """Note the ids of a message that was added."""
        message = message_of(item)
        if message is None:
            return
        if message.get("role") != "system":
            self._speaks(message.get("role") == "assistant")
        for kind, name in _ids(message):
            if kind == "tool_use":
                self._called(name, message.get("id"))
            else:
                self._answered(name)

    def _speaks(self, spoken: bool) -> None:
        if spoken and not self._spoken:
            self._open = {}
        self._spoken = spoken

    def _called(self, name: str, response: Any) -> None:
        if name in self.calls:
            return
        self.calls[name] = response if isinstance(response, str) else None
        self.waiting[name] = None
        came = self.given.get(name, name)
        if came is not name:
            self._newest[came] = name
        self._open.setdefault(came, []).append(name)

    def _answered(self, name: str) -> None:
        self.answered.add(name)
        self.waiting.pop(name, None)
        waiting = self._open.get(self.given.get(name, name))
        if waiting and name in waiting:
            waiting.remove(name)

    def _block(self, block: Any, response: Any, taken: list[str]) -> Any:
        kind = block.get("type") if isinstance(block, Mapping) else None
        key = _ID.get(kind) if isinstance(kind, str) else None
        came = block.get(key) if key is not None else None
        if not isinstance(came, str):
            return block
        name = (
            self._of_result(came, taken)
            if kind == "tool_result"
            else self._of_call(came, response, taken)
        )
        taken.append(name)
        return block if name == came else {**block, key: name}

    def _of_call(self, came: str, response: Any, taken: list[str]) -> str:
        newest = self._newest.get(came, came)
        if newest not in taken:
            if newest not in self.calls:
                return newest
            if response is not None and self.calls[newest] == response:
                return newest  # the same answer once more, not another call
        used = (self.calls, taken)
        name = next(each for each in _others(came) if not any(each in names for names in used))
        self.given[name] = came
        return name

    def _of_result(self, came: str, taken: list[str]) -> str:
        """The first open call of the newest answer that came with this id, else the newest one of them."""
        for name in self._open.get(came, ()):
            if name not in taken:
                return name
        newest = self._newest.get(came, came)
        return came if newest in self.answered or newest in taken else newest


def _others(name: str) -> Iterator[str]:
    """Names for further calls under an id."""
    stem = name
    if len(name) > LONGEST - 8:
        stem = "call-" + hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:24]
    number = 2
    while True:
        yield f"{stem}-{number}"
        number += 1


def _ids(message: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    content = message.get("content")
    for block in content if isinstance(content, list) else ():
        kind = block.get("type") if isinstance(block, Mapping) else None
        key = _ID.get(kind) if isinstance(kind, str) else None
        if key is not None and isinstance(kind, str) and isinstance(block.get(key), str):
            yield kind, block[key]


def as_given(message: Item, given: Mapping[str, str]) -> Item:
    """The message with the ids that its calls and results came with; the same object where they are there.

    Args:
        message: Of the internal view, bare.
        given: See `CallIds`.
    """
    content = message.get("content")
    if not given or not isinstance(content, list):
        return message
    blocks = [_block_as_given(block, given) for block in content]
    if all(new is old for new, old in zip(blocks, content, strict=True)):
        return message
    return {**message, "content": blocks}


def _block_as_given(block: Any, given: Mapping[str, str]) -> Any:
    kind = block.get("type") if isinstance(block, Mapping) else None
    key = _ID.get(kind) if isinstance(kind, str) else None
    came = given.get(block.get(key)) if key is not None else None
    return block if came is None else {**block, key: came}
