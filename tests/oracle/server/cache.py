"""A prompt cache: what was written at a marker is read again where the prefix is the same."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.oracle.checker.request import blocks_of
from tests.oracle.checker.size import count_tokens
from ullage.testing.generator import canonical

__all__ = ["CacheUse", "PromptCache", "StepCache"]

_LOOKBACK = 20  # blocks, the marker's own included, in which an earlier write is found


class CacheUse(NamedTuple):
    """Tokens of one prompt: not cached, written, read."""

    plain: int
    written: int
    read: int


class _Part(NamedTuple):
    key: str
    tokens: int
    marked: bool


class PromptCache:
    """Remembers prefixes by hash, per model.

    Args:
        minimum: Prefixes below so many tokens are not cached.
    """

    def __init__(self, minimum: int = 1024) -> None:
        self.minimum = minimum
        self._known: set[str] = set()
        self._lock = threading.Lock()

    def use(self, body: dict[str, Any]) -> CacheUse:
        """What this request reads, and what it writes for those after it."""
        parts = list(_parts(body))
        total = parts[-1].tokens if parts else 0
        marks = [n for n, part in enumerate(parts) if part.marked and part.tokens >= self.minimum]
        with self._lock:
            read = max((self._read(parts, mark) for mark in marks), default=0)
            self._known |= {parts[mark].key for mark in marks}
        written = max(0, parts[marks[-1]].tokens - read) if marks else 0
        return CacheUse(total - written - read, written, read)

    def _read(self, parts: list[_Part], mark: int) -> int:
        for at in range(mark, max(-1, mark - _LOOKBACK), -1):
            if parts[at].key in self._known:
                return parts[at].tokens
        return 0


def _parts(body: dict[str, Any]) -> Iterator[_Part]:
    """The request block by block: hash and tokens of all up to and with each."""
    running, tokens = hashlib.sha256(str(body.get("model")).encode()), 0
    pieces = list(_pieces(body))
    automatic = body.get("cache_control") is not None
    for at, (place, piece) in enumerate(pieces):
        marked = isinstance(piece, dict) and piece.get("cache_control") is not None
        bare = {k: v for k, v in piece.items() if k != "cache_control"} if marked else piece
        running.update(place.encode() + canonical(bare))
        tokens += count_tokens({"messages": [bare]})
        yield _Part(running.hexdigest(), tokens, marked or (automatic and at == len(pieces) - 1))


def _pieces(body: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for tool in body.get("tools") or ():
        yield "tool", tool
    for block in blocks_of(body.get("system")):
        yield "system", block
    for message in body.get("messages") or ():
        if not isinstance(message, dict):
            continue
        for block in blocks_of(message.get("content")):
            yield str(message.get("role")), block


class StepCache:
    """A cache without markers, as OpenAI and Gemini keep it: the beginning that a prompt has in common with an earlier one.

    Args:
        minimum: Shorter beginnings are not read.
        step: Only whole steps of so many tokens are.
    """

    def __init__(self, minimum: int = 1024, step: int = 128) -> None:
        self.minimum, self.step = minimum, step
        self._known: dict[Any, list[bytes]] = {}

    def use(self, body: dict[str, Any]) -> CacheUse:
        """What this request reads; only requests with its `prompt_cache_key` find the same server."""
        settings = ("toolConfig", "generationConfig")
        head = ("tools", "instructions", "systemInstruction", *settings)
        listed = next(body[name] for name in ("messages", "input", "contents") if name in body)
        pieces = [body[name] for name in head if name in body]
        prompt = b"".join(map(canonical, [*pieces, *listed]))
        earlier = self._known.setdefault(body.get("prompt_cache_key"), [])
        same = max((_common(prompt, each) for each in earlier), default=0) // 4
        earlier.append(prompt)
        read = same // self.step * self.step if same >= self.minimum else 0
        return CacheUse(0, len(prompt) // 4 - read, read)


def _common(a: bytes, b: bytes) -> int:
    """Bytes of the common beginning."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if a[:middle] == b[:middle] else (low, middle - 1)
    return low
