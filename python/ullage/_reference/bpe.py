"""Exact counting: byte-pair encoding with OpenAI's vocabularies, offline.

The plain way: the encodings' own regular expressions cut the text, and pairs are merged from the
bytes up, the lowest rank first. The Rust engine cuts by hand-written scanners and lays tokens from
the left; the results are equal. All text is ordinary text, also `<|endoftext|>`.
"""

from __future__ import annotations

import functools
import heapq
import operator
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from ullage._engine import vocabulary as _vocabulary
from ullage._reference.stored import stored_text
from ullage.exceptions import InvalidPolicy

__all__ = ["Packed", "count_text", "count_text_up_to", "encode_text", "encodings"]

_ENCODINGS = {
    "o200k_base": "o200k_base",
    "o200k_harmony": "o200k_base",
    "cl100k_base": "cl100k_base",
    "p50k_base": "p50k_base",
    "p50k_edit": "p50k_base",
    "r50k_base": "r50k_base",
    "gpt2": "r50k_base",
}
_R50K_TOKENS = 50_256
"""`r50k_base` is the first so many tokens of `p50k_base`, which adds runs of blanks."""

_LONGEST = 128
"""No token of these vocabularies has more bytes."""

_CACHED_PIECES = 1 << 15
"""About 8 MB of short pieces; the cache starts again when it is full."""

# ---- the packed file ---------------------------------------------------------------------------

_MAGIC = b"ullage-bpe-1"
_NO_GAP = 0xFFFFFFFF
_KINDS = {1: "l", 2: "u", 3: "o", 4: "m", 5: "n", 6: "s", 7: "r"}


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
        return cls._of(data, runs, tokens - 256, gap)

    @classmethod
    def _of(cls, data: bytes, runs: int, merges: int, gap: int) -> Packed:
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


# ---- the pre-tokenizers ------------------------------------------------------------------------

# `«lu»` stands for the characters of the classes l and u: l Ll, u Lu and Lt, o Lm and Lo, m M,
# n N, s white space but r, r carriage return and line feed.
_CONTRACTION = "'(?:[sStTmMdDſ]|[rR][eE]|[vV][eE]|[lL][lL])"
_PATTERNS = {
    "o200k_base": "|".join(
        [
            rf"[^\r\n«luon»]?[«uom»]*[«lom»]+(?:{_CONTRACTION})?",
            rf"[^\r\n«luon»]?[«uom»]+[«lom»]*(?:{_CONTRACTION})?",
            r"[«n»]{1,3}",
            r" ?[^«srluon»]+[\r\n/]*",
            r"[«sr»]*[\r\n]+",
            r"[«sr»]+(?![^«sr»])",
            r"[«sr»]+",
        ]
    ),
    "cl100k_base": "|".join(
        [
            _CONTRACTION,
            r"[^\r\n«luon»]?+[«luo»]++",
            r"[«n»]{1,3}+",
            r" ?[^«srluon»]++[\r\n]*+",
            r"[«sr»]++\Z",
            r"[«sr»]*[\r\n]",
            r"[«sr»]+(?![^«sr»])",
            r"[«sr»]",
        ]
    ),
}
_PATTERNS["p50k_base"] = _PATTERNS["r50k_base"] = "|".join(
    [
        "'(?:[sdmt]|ll|ve|re)",
        r" ?[«luo»]++",
        r" ?[«n»]++",
        r" ?[^«srluon»]++",
        r"[«sr»]++\Z",
        r"[«sr»]+(?![^«sr»])",
        r"[«sr»]",
    ]
)


def _pattern(vocabulary: str, runs: list[tuple[int, int]]) -> re.Pattern[str]:
    members = dict.fromkeys(_KINDS.values(), "")
    ends = [start for start, _ in runs[1:]] + [0x110000]
    for (start, kind), end in zip(runs, ends, strict=True):
        if kind in _KINDS:
            members[_KINDS[kind]] += f"\\U{start:08x}-\\U{end - 1:08x}"
    classes = re.compile("«([a-z]+)»")
    return re.compile(
        classes.sub(lambda m: "".join(members[kind] for kind in m[1]), _PATTERNS[vocabulary])
    )


# ---- merging -----------------------------------------------------------------------------------


class _Encoder:
    def __init__(self, vocabulary: str) -> None:
        file = "p50k_base" if vocabulary == "r50k_base" else vocabulary
        try:
            packed = Packed.parse(_vocabulary.read(file))
        except ValueError as exc:
            raise _vocabulary.damaged(file, str(exc)) from None
        keep = _R50K_TOKENS - 256 if vocabulary == "r50k_base" else None
        self._pieces = _pattern(vocabulary, packed.runs)
        self._byte = {byte: token for token, byte in enumerate(packed.bytes_)}
        self._pairs = {pair: token for token, pair in enumerate(packed.merges[:keep], 256)}
        self._gap = packed.gap
        self._cache: dict[str, list[int]] = {}

    def pieces(self, text: str) -> Iterator[list[int]]:
        """The tokens of each piece of the text."""
        for match in self._pieces.finditer(text):
            piece = match[0]
            tokens = self._cache.get(piece)
            if tokens is None:
                tokens = self._merged(piece.encode())
                self._remember(piece, tokens)
            yield tokens

    def _remember(self, piece: str, tokens: list[int]) -> None:
        if len(piece) > 30:
            return
        if len(self._cache) >= _CACHED_PIECES:
            self._cache.clear()
        self._cache[piece] = tokens

    def _merged(self, piece: bytes) -> list[int]:
        """Merges pairs, the lowest rank first, of equal ones the leftmost; by a heap."""
        parts: list[int] = [self._byte[byte] for byte in piece]
        behind = list(range(1, len(parts) + 1))
        before = list(range(-1, len(parts) - 1))
        heap = [(rank, i) for i, rank in enumerate(map(self._rank, parts, parts[1:])) if rank]
        heapq.heapify(heap)
        while heap:
            rank, i = heapq.heappop(heap)
            j = behind[i]
            # An entry is stale when either part was merged meanwhile.
            if j < len(parts) and parts[i] >= 0 and self._rank(parts[i], parts[j]) == rank:
                self._join(i, j, rank, parts, behind, before)
                self._push(heap, before[i], i, parts)
                self._push(heap, i, behind[i], parts)
        return [self._id(part) for part in parts if part >= 0]

    @staticmethod
    def _join(
        i: int, j: int, token: int, parts: list[int], behind: list[int], before: list[int]
    ) -> None:
        parts[i], parts[j] = token, -1
        behind[i] = behind[j]
        if behind[i] < len(parts):
            before[behind[i]] = i

    def _push(self, heap: list[tuple[int, int]], i: int, j: int, parts: list[int]) -> None:
        if i >= 0 and j < len(parts) and (rank := self._rank(parts[i], parts[j])):
            heapq.heappush(heap, (rank, i))

    def _rank(self, left: int, right: int) -> int:
        """The token that a pair makes; 0, which is a byte, if it does not merge."""
        return self._pairs.get((left, right), 0)

    def _id(self, token: int) -> int:
        return token + (self._gap is not None and token >= self._gap)


@functools.cache
def _encoder_of(vocabulary: str) -> _Encoder:
    return _Encoder(vocabulary)


def _encoder(encoding: str) -> _Encoder:
    if encoding not in _ENCODINGS:
        raise InvalidPolicy("encoding", encoding, f"must be one of {', '.join(_ENCODINGS)}")
    return _encoder_of(_ENCODINGS[encoding])


# ---- the functions of the engine ---------------------------------------------------------------


def encodings() -> list[str]:
    """Names of the encodings that can be counted with."""
    return list(_ENCODINGS)


def count_text(text: str, encoding: str = "o200k_base") -> int:
    """Number of tokens of a text."""
    return sum(map(len, _pieces(text, encoding)))


def count_text_up_to(text: str, limit: int, encoding: str = "o200k_base") -> int | None:
    """Number of tokens of a text, or `None` if there are more than `limit`."""
    text = _required(text, encoding)
    limit = operator.index(limit)
    if limit < 0:
        raise InvalidPolicy("limit", limit, "must be 0 or more")
    # A character is at least a byte, and no token is longer than _LONGEST.
    pieces = _pieces(text, encoding)
    if len(text) // _LONGEST > limit:
        return None
    count = 0
    for tokens in pieces:
        count += len(tokens)
        if count > limit:
            return None
    return count


def encode_text(text: str, encoding: str = "o200k_base") -> list[int]:
    """Token ids of a text."""
    return [token for tokens in _pieces(text, encoding) for token in tokens]


def _pieces(text: str, encoding: str) -> Iterator[list[int]]:
    text = _required(text, encoding)
    return _encoder(stored_text(encoding)).pieces(_without_surrogates(text))


def _required(text: str, encoding: str) -> str:
    for name, value in (("text", text), ("encoding", encoding)):
        if not isinstance(value, str):
            raise TypeError(f"argument {name!r} must be a str, not {type(value).__name__}")
    return stored_text(text)


def _without_surrogates(text: str) -> str:
    """Repairs as tiktoken does: surrogate pairs become their character, lone ones U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
