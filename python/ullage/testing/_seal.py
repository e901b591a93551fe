"""Signatures of made-up thinking that are bound to their prefix, as new models bind theirs.

A seal says which prefix (system prompt, tools, all earlier turns) the thinking was made on, and
which thinking stood before it. So a server can tell a changed prefix, and a gap in a run of
thinking, from the request alone. It is a checksum and protects nothing.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

__all__ = ["Prefix", "Seal", "seal", "unseal"]

_THINKING = ("thinking", "redacted_thinking")


def _canonical(value: Any) -> bytes:
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # lone surrogates, ints over 64 bits
        return json.dumps(value, sort_keys=True, separators=(",", ":"), default=repr).encode()


def _bare(block: Any) -> Any:
    """The block without its cache markers: moving one changes no prefix."""
    if not isinstance(block, dict):
        return block
    if "cache_control" in block:
        block = {key: value for key, value in block.items() if key != "cache_control"}
    content = block.get("content")
    if isinstance(content, list) and any(
        isinstance(b, dict) and "cache_control" in b for b in content
    ):
        block = {**block, "content": [_bare(inner) for inner in content]}
    return block


def _blocks(content: Any) -> Iterable[Any]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return content if isinstance(content, list) else []


class Prefix:
    """A running hash over system prompt, tools and turns.

    Neighbours of one role count as one turn, so cutting a message in two changes nothing;
    thinking is left out, so dropping it from the start is allowed.
    """

    __slots__ = ("_hash", "_role", "_turn")

    def __init__(
        self, system: Any = None, tools: Iterable[Mapping[str, Any]] | None = None
    ) -> None:
        self._hash = hashlib.sha256()
        self._role = ""
        for block in _blocks(system):
            self._hash.update(b"system" + _canonical(_bare(block)))
        for tool in tools or ():
            if not tool.get("defer_loading"):
                self._hash.update(b"tool" + _canonical(_bare(tool)))
        self._turn = self.now()

    def now(self) -> str:
        """The hash of all that was added."""
        return self._hash.hexdigest()[:20]

    def enter(self, role: str) -> str:
        """Begin a message; the hash of all before the turn that it belongs to."""
        if role != self._role:
            self._role, self._turn = role, self.now()
        return self._turn

    def add(self, role: str, content: Any) -> str:
        """Take a whole message in; the hash of all before its turn."""
        before = self.enter(role)
        for block in _blocks(content):
            if not (isinstance(block, dict) and block.get("type") in _THINKING):
                self._hash.update(role.encode() + _canonical(_bare(block)))
        return before


@dataclass(frozen=True, slots=True)
class Seal:
    """What a signature says."""

    model: str
    prefix: str
    text: str  # hash of the thinking text, "" for thinking that is not shown
    previous: str  # name of the thinking before it, "" for the first

    @property
    def name(self) -> str:
        """What the next seal calls this one."""
        return hashlib.sha256(repr(self).encode()).hexdigest()[:12]


def _text_hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12] if text else ""


def seal(model: str, prefix: str, text: str, previous: str = "") -> tuple[str, Seal]:
    """A signature for `text`, about as long as a real one, and what it says."""
    value = Seal(model, prefix, _text_hash(text), previous)
    body = "|".join(("sealed", model, prefix, value.text, previous))
    check = hashlib.shake_128(body.encode()).digest(96)
    return base64.b64encode(body.encode() + b"|" + check).decode("ascii"), value


def unseal(signature: Any, text: str = "") -> Seal | None:
    """What a signature says; `None` if it is foreign, damaged, or not for this text."""
    try:
        raw = base64.b64decode(signature, validate=True)
        kind, model, prefix, text_hash, previous = raw[:-97].decode().split("|")
    except (ValueError, TypeError, binascii.Error):
        return None
    value = Seal(model, prefix, text_hash, previous)
    genuine = raw[-96:] == hashlib.shake_128(raw[:-97]).digest(96)
    if kind != "sealed" or not genuine or (text and _text_hash(text) != text_hash):
        return None
    return value


def thinking_blocks(
    messages: Iterable[Mapping[str, Any]],
) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Message index, block index and block of all thinking."""
    for index, message in enumerate(messages):
        for at, block in enumerate(_blocks(message.get("content"))):
            if isinstance(block, dict) and block.get("type") in _THINKING:
                yield index, at, block
