"""A call of a client that may be changed or answered here: its bytes, and what they say.

Unchanged parts are sent as the bytes that came. Parsing and writing them would turn integers over 64 bits into floats and change the
spelling of floats and escapes, and signed thinking may be bound to those.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:  # reading a call needs no HTTP client
    from ullage.proxy.upstream import Endpoint, Incoming

_LOOKED_AT = ("messages", "chat", "responses", "compact", "count")

_MODEL = re.compile(rb'"model"\s*:\s*"([^"\\]{1,200})"')
_HEAD = 512
"""How many bytes to search for the model's name; later ones may be part of a message."""

_MOST_VALUES = 4_000_000
"""Maximum commas and opening brackets of a body to parse; each may become a value of 60 bytes. A window of a million tokens has fewer."""


class ClientCall:
    """One call.

    `endpoint`: what it is for. `incoming`: the request, for its headers. `raw`: its body, exactly as it came.
    """

    def __init__(self, endpoint: Endpoint, incoming: Incoming, raw: bytes) -> None:
        self.endpoint, self.incoming, self.raw = endpoint, incoming, raw

    @staticmethod
    def can_be_read(endpoint: Endpoint, incoming: Incoming) -> bool:
        """Whether the gateway can read such a call: a known one, and not compressed."""
        packed = incoming.header(b"content-encoding") not in ("", "identity")
        return endpoint.kind in _LOOKED_AT and not packed

    @cached_property
    def body(self) -> dict[str, Any] | None:
        """The body as an object; `None` if it is not JSON, has lone surrogates or is too large, so that it can only be passed on."""
        if sum(self.raw.count(mark) for mark in (b",", b"{", b"[")) > _MOST_VALUES:
            return None
        try:
            value = orjson.loads(self.raw)
        except orjson.JSONDecodeError:
            return None
        return value if isinstance(value, dict) else None

    @property
    def list_key(self) -> str:
        """The API's key for the conversation."""
        return "input" if self.endpoint.provider == "openai_responses" else "messages"

    @cached_property
    def items(self) -> list[Any] | None:
        """The conversation; `None`: there is none, or it is not a list."""
        value = (self.body or {}).get(self.list_key)
        return value if isinstance(value, list) and value else None

    @cached_property
    def model(self) -> str:
        """The model's name; empty if there is none."""
        early = _MODEL.search(self.raw, 0, _HEAD)
        if early is not None:
            return early[1].decode("utf-8", "replace")
        named = (self.body or {}).get("model")
        return named if isinstance(named, str) else ""

    @property
    def streams(self) -> bool:
        """Whether the answer is to be a stream."""
        return (self.body or {}).get("stream") is True

    def with_items(self, items: list[Any], **others: object) -> bytes:
        """The body with another conversation; everything else byte for byte, in the same order.

        `items`: those that are the same objects as in `items` keep their bytes, and so do the blocks of a changed message.
        `others`: other keys of the body to replace or add.
        """
        body = self.body or {}
        raw, lists = self.raw, {self.list_key: list[Place]()}
        places = _members(raw, _start(raw, 0), body, lists)
        pairs = zip(self.items or [], lists[self.list_key], strict=True)
        places_by_id = {id(item): place for item, place in pairs if isinstance(item, dict)}
        written = {id(item) for item in items}
        for item in self.items or []:
            if id(item) in places_by_id and id(item) not in written:  # changed, or no longer there
                places_by_id.update(_blocks(raw, places_by_id[id(item)][0], item))
        members: dict[str, Any] = {key: orjson.Fragment(raw[a:b]) for key, (a, b) in places.items()}
        parts = [_spliced(item, places_by_id, raw) for item in items]
        return orjson.dumps({**members, self.list_key: parts, **others})


Place = tuple[int, int]

_SPACE = re.compile(rb"[ \t\r\n]*")
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_TOKENS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)
_SCALAR = re.compile(rb"[^,\]}\s]+")
_ENDS = b",]} \t\r\n"


def _start(raw: bytes, at: int) -> int:
    return _SPACE.match(raw, at).end()  # type: ignore[union-attr]  # matches anywhere


def _members(
    raw: bytes, at: int, value: dict[str, Any], lists: dict[str, list[Place]]
) -> dict[str, Place]:
    """Positions of the values of an object's keys; of a repeated key the last, as every parser takes it.

    `at`: where the object begins. `lists`: keys whose values are lists, and to each where its elements stand, which is filled in.
    """
    members = {}
    at = _start(raw, at + 1)
    while raw[at] != ord("}"):
        after = _STRING.match(raw, at).end()  # type: ignore[union-attr]  # an object's keys are strings
        key = orjson.loads(raw[at:after])
        begin = end = _start(raw, _start(raw, after) + 1)
        if key in lists and raw[begin] == ord("["):
            lists[key], end = _elements(raw, begin, value[key])
        else:
            end = _end(raw, begin, value[key])
        members[key] = begin, end
        at = _next(raw, end)
    return members


def _elements(raw: bytes, at: int, value: list[Any]) -> tuple[list[Place], int]:
    """Where the elements of a list stand, and where it ends; `value` is another one if its key stands twice."""
    elements: list[Place] = []
    at = _start(raw, at + 1)
    while raw[at] != ord("]"):
        guess = value[len(elements)] if len(elements) < len(value) else None
        elements.append((at, _end(raw, at, guess)))
        at = _next(raw, elements[-1][1])
    return elements, at + 1


def _next(raw: bytes, end: int) -> int:
    at = _start(raw, end)
    return _start(raw, at + 1) if raw[at] == ord(",") else at


def _end(raw: bytes, at: int, value: object) -> int:
    """Where a value ends. Most clients write JSON as we do; comparing is then six times as fast as a scan."""
    guess = orjson.dumps(value)
    end = at + len(guess)
    if raw.startswith(guess, at) and raw[end] in _ENDS:
        return end
    return _scanned(raw, at)


def _scanned(raw: bytes, at: int) -> int:
    if raw[at] not in b"[{":
        match = (_STRING if raw[at] == ord('"') else _SCALAR).match(raw, at)
        return match.end()  # type: ignore[union-attr]  # the body was read as JSON
    depth = 0
    for token in _TOKENS.finditer(raw, at):
        mark = raw[token.start()]
        depth += (mark in b"[{") - (mark in b"]}")
        if not depth:
            return token.end()
    raise AssertionError("the body was read as JSON")


def _blocks(raw: bytes, at: int, message: Any) -> Iterator[tuple[int, Place]]:
    """Where the blocks of a message stand, by their identity."""
    blocks = message.get("content") if isinstance(message, dict) else None
    if isinstance(blocks, list):
        places = {"content": list[Place]()}
        _members(raw, at, message, places)
        for block, place in zip(blocks, places["content"], strict=True):
            if isinstance(block, dict):
                yield id(block), place


def _spliced(item: Any, places: dict[int, Place], raw: bytes) -> Any:
    """An item to write: the bytes that came, for the whole or for its unchanged blocks."""
    if (place := places.get(id(item))) is not None:
        return orjson.Fragment(raw[place[0] : place[1]])
    blocks = item.get("content") if isinstance(item, dict) else None
    if not isinstance(blocks, list):
        return item
    parts = [
        block
        if (place := places.get(id(block))) is None
        else orjson.Fragment(raw[place[0] : place[1]])
        for block in blocks
    ]
    return {**item, "content": parts}
