"""Seeded choices that come out equal in every process and every Python version."""

from __future__ import annotations

import hashlib
import random
import zlib
from collections.abc import Sequence
from typing import TypeVar

_T = TypeVar("_T")
_ALPHANUMERIC = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


class Rng:
    """A stream of choices.

    Built on `random.Random(int).random()` alone: the only sequence that Python promises to keep
    from version to version (`choice`, `shuffle` and `sample` have changed theirs).

    Args:
        seed: Any int; its low 64 bits count.
        stream: Name of an independent stream of the same seed.
    """

    __slots__ = ("_next", "_seed")

    def __init__(self, seed: int, stream: str = "") -> None:
        # crc32 and not hash(): the hash of a str differs from process to process.
        self._seed = (seed & (1 << 64) - 1) << 32 | zlib.crc32(stream.encode())
        self._next = random.Random(self._seed).random  # noqa: S311 - test data, not secrets

    def below(self, stop: int) -> int:
        """An int in [0, stop); `stop` under 2**32."""
        return int(self._next() * stop)

    def between(self, low: int, high: int) -> int:
        """An int in [low, high], both ends included."""
        return low + int(self._next() * (high - low + 1))

    def chance(self, percent: int) -> bool:
        """True in `percent` of 100 calls."""
        return self._next() * 100 < percent

    def pick(self, items: Sequence[_T]) -> _T:
        """One item."""
        return items[int(self._next() * len(items))]

    def some(self, items: Sequence[_T], count: int) -> list[_T]:
        """Up to `count` different items, in their order in `items`."""
        count = min(count, len(items))
        left, chosen = len(items), []
        for item in items:
            if self._next() * left < count:
                chosen.append(item)
                count -= 1
            left -= 1
        return chosen

    def token(self, length: int) -> str:
        """Letters and digits, as in the ids of an API."""
        draw = self._next
        return "".join([_ALPHANUMERIC[int(draw() * 62)] for _ in range(length)])

    def hex(self, length: int) -> str:
        """Lower-case hexadecimal digits, as in a commit id."""
        return self.noise((length + 1) // 2).hex()[:length]

    def uuid(self) -> str:
        """A version 4 UUID."""
        raw = self.noise(16).hex()
        return f"{raw[:8]}-{raw[8:12]}-4{raw[13:16]}-a{raw[17:20]}-{raw[20:]}"

    def noise(self, length: int) -> bytes:
        """Bytes without structure, several hundred MB per second."""
        salt = self._next().hex().encode()
        return hashlib.shake_128(salt + self._seed.to_bytes(12, "little")).digest(length)
