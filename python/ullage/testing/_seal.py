"""Signatures of made-up thinking that are bound to their prefix, as new models bind theirs.

A seal says which prefix (system prompt, tools, all earlier turns) the thinking was made on, which
thinking stood before it, and the how-manieth it is since the user's last words. So a server can
tell a changed prefix, a gap in a run of thinking, and thinking missing from the open turn, from
the request alone. It is a checksum and protects nothing.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from ullage.messages import THINKING, SystemPrompt

_CHECK_BYTES = 96  # makes a signature some 250 characters, like the shorter of the real ones


def canonical(value: Any) -> bytes:
    """JSON with sorted keys; also of what strict JSON cannot hold."""
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
        self, system: SystemPrompt | None = None, tools: Iterable[Mapping[str, Any]] | None = None
    ) -> None:
        self._hash = hashlib.sha256()
        self._role = ""
        for block in _blocks(system):
            self._hash.update(b"system" + canonical(_bare(block)))
        for tool in tools or ():
            if not tool.get("defer_loading"):
                self._hash.update(b"tool" + canonical(_bare(tool)))
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
            if not (isinstance(block, dict) and block.get("type") in THINKING):
                self._hash.update(role.encode() + canonical(_bare(block)))
        return before


@dataclass(frozen=True, slots=True)
class Seal:
    """What a signature says."""

    model: str
    prefix: str
    text: str  # hash of the thinking text, "" for thinking that is not shown
    previous: str = ""  # name of the thinking before it, "" for the first
    step: int = 0  # thinking blocks before it since the user's last words

    @property
    def name(self) -> str:
        """What the next seal calls this one."""
        return hashlib.sha256(repr(self).encode()).hexdigest()[:12]


def _text_hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12] if text else ""


def seal(model: str, prefix: str, text: str, previous: str = "", step: int = 0) -> tuple[str, Seal]:
    """A signature for `text`, about as long as a real one, and what it says."""
    value = Seal(model, prefix, _text_hash(text), previous, step)
    body = "|".join(("sealed", model, prefix, value.text, previous, str(step))).encode()
    check = hashlib.shake_128(body).digest(_CHECK_BYTES)
    return base64.b64encode(body + b"|" + check).decode("ascii"), value


def unseal(signature: Any, text: str = "") -> Seal | None:
    """What a signature says; `None` if it is foreign, damaged, or not for this text."""
    try:
        raw = base64.b64decode(signature, validate=True)
        body, check = raw[: -_CHECK_BYTES - 1], raw[-_CHECK_BYTES:]
        kind, model, prefix, text_hash, previous, step = body.decode().split("|")
        value = Seal(model, prefix, text_hash, previous, int(step))
    except (ValueError, TypeError, binascii.Error):
        return None
    genuine = kind == "sealed" and check == hashlib.shake_128(body).digest(_CHECK_BYTES)
    fits = not text or _text_hash(text) == text_hash
    return value if genuine and fits else None


class Walk:
    """Goes through the messages of a request and knows, for each, where its thinking stands."""

    __slots__ = ("prefix", "step")

    def __init__(
        self, system: SystemPrompt | None = None, tools: Iterable[Mapping[str, Any]] | None = None
    ) -> None:
        self.prefix = Prefix(system, tools)
        self.step = 0

    def enter(self, message: Mapping[str, Any]) -> str:
        """Take a message in; the hash that thinking in it is bound to."""
        role, content = str(message.get("role")), message.get("content")
        if role == "user" and not any(_is(block, "tool_result") for block in _blocks(content)):
            self.step = 0
        return self.prefix.add(role, content)


def _is(block: Any, *kinds: str) -> bool:
    return isinstance(block, dict) and block.get("type") in kinds


def sign_thinking(
    messages: Iterable[Mapping[str, Any]],
    *,
    system: SystemPrompt | None = None,
    tools: Iterable[Mapping[str, Any]] | None = None,
    model: str = "claude-opus-5-5",
) -> list[Any]:
    """The same messages with all thinking signed for the place where it stands.

    Messages without thinking are the same objects. `redacted_thinking` gets its `data` likewise.
    """
    walk, previous, out = Walk(system, tools), "", list[Any]()
    for message in messages:
        before = walk.enter(message)
        content = message.get("content")
        if not any(_is(block, *THINKING) for block in _blocks(content)):
            out.append(message)
            continue
        blocks = []
        for block in _blocks(content):
            if _is(block, *THINKING):
                text = str(block.get("thinking") or "")
                signature, value = seal(model, before, text, previous, walk.step)
                previous, walk.step = value.name, walk.step + 1
                key = "signature" if block["type"] == "thinking" else "data"
                block = {**block, key: signature}
            blocks.append(block)
        out.append({**message, "content": blocks})
    return out
