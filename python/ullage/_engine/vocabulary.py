"""The packed vocabularies of the exact counter, as both engines read them.

Made by `benches/python/pack_bpe.py`; the form is described in `rust/core/src/bpe/packed.rs`.
"""

from __future__ import annotations

import pkgutil
import struct
from dataclasses import dataclass

from ullage.exceptions import StoreError

ENCODINGS = {
    "o200k_base": "o200k_base",
    "o200k_harmony": "o200k_base",
    "cl100k_base": "cl100k_base",
    "p50k_base": "p50k_base",
    "p50k_edit": "p50k_base",
    "r50k_base": "r50k_base",
    "gpt2": "r50k_base",
}
"""Encoding → the vocabulary that it counts with."""

R50K_TOKENS = 50_256
"""`r50k_base` is the first so many tokens of `p50k_base`, which adds runs of blanks."""


def read(name: str) -> bytes:
    """The bytes of one packed vocabulary.

    Raises:
        StoreError: The file is not there.
    """
    try:
        data = pkgutil.get_data("ullage", f"data/{name}.bpe")
    except OSError:
        data = None
    if data is None:
        raise damaged(name, "cannot be read")
    return data


def damaged(name: str, reason: str) -> StoreError:
    """The error for a vocabulary that is not what it should be."""
    return StoreError(reason, path=f"ullage/data/{name}.bpe", hint="reinstall ullage")


# ---- the packed file ---------------------------------------------------------------------------

_MAGIC = b"ullage-bpe-1"
_NO_GAP = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Packed:
    """A vocabulary in packed form, its sizes checked."""

    runs: list[tuple[int, int]]
    bytes_: bytes
    merges: list[tuple[int, int]]
    gap: int | None

    @classmethod
    def parse(cls, data: bytes) -> Packed:
        """Reads the packed form.

        Raises:
            ValueError: It is damaged; the text says how.
        """
        if len(data) < 24:
            raise ValueError("cut short" if len(data) < 12 or data[:12] == _MAGIC else _NOT_PACKED)
        if data[:12] != _MAGIC:
            raise ValueError(_NOT_PACKED)
        runs, tokens, gap = struct.unpack_from("<III", data, 12)
        if not 256 <= tokens <= 1 << 18 or not 1 <= runs <= 0x110000:
            raise ValueError("sizes out of range")
        size = 24 + 4 * runs + 256 + 6 * (tokens - 256)
        if len(data) != size:
            raise ValueError("cut short" if len(data) < size else "longer than its header says")
        merges = tokens - 256
        kinds = 24 + 3 * runs
        after = kinds + runs + 256
        left, right = _planes(data, after, merges), _planes(data, after + 3 * merges, merges)
        if any(a >= i or b >= i for i, (a, b) in enumerate(zip(left, right, strict=True), 256)):
            raise ValueError("a merge of tokens that do not exist yet")
        single = data[after - 256 : after]
        if len(set(single)) != 256:
            raise ValueError("a byte without a token")
        starts = _planes(data, 24, runs)
        return cls(
            list(zip(starts, data[kinds : kinds + runs], strict=True)),
            single,
            list(zip(left, right, strict=True)),
            None if gap == _NO_GAP else gap,
        )


_NOT_PACKED = "not a packed vocabulary"


def _planes(data: bytes, start: int, rows: int) -> list[int]:
    low, middle, high = (data[start + i * rows : start + (i + 1) * rows] for i in range(3))
    return [a | b << 8 | c << 16 for a, b, c in zip(low, middle, high, strict=True)]
