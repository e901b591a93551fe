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
from collections.abc import Iterator

from ullage._engine import vocabulary as _vocabulary
from ullage._engine.vocabulary import ENCODINGS, R50K_TOKENS, Packed
from ullage._reference.text import stored_text, valid_text
from ullage.exceptions import InvalidPolicy

_LONGEST = 128
"""No token of these vocabularies has more bytes."""

_CACHED_PIECES = 1 << 15
"""About 8 MB of short pieces; the cache starts again when it is full."""

# ---- the pre-tokenizers ------------------------------------------------------------------------

_KINDS = {1: "l", 2: "u", 3: "o", 4: "m", 5: "n", 6: "s", 7: "r"}

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
        keep = R50K_TOKENS - 256 if vocabulary == "r50k_base" else None
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
                if len(self._cache) >= _CACHED_PIECES:
                    self._cache.clear()
                if len(piece) <= 30:
                    self._cache[piece] = tokens
            yield tokens

    def _merged(self, piece: bytes) -> list[int]:
        """Merges pairs, the lowest rank first, of equal ones the leftmost; by a heap."""
        parts: list[int] = [self._byte[byte] for byte in piece]
        following = list(range(1, len(parts) + 1))
        before = list(range(-1, len(parts) - 1))
        heap = [(rank, i) for i, rank in enumerate(map(self._rank, parts, parts[1:])) if rank]
        heapq.heapify(heap)
        while heap:
            rank, i = heapq.heappop(heap)
            j = following[i]
            # An entry is stale when either part was merged meanwhile.
            if j < len(parts) and parts[i] >= 0 and self._rank(parts[i], parts[j]) == rank:
                parts[i], parts[j] = rank, -1
                following[i] = following[j]
                if following[i] < len(parts):
                    before[following[i]] = i
                self._push(heap, before[i], i, parts)
                self._push(heap, i, following[i], parts)
        gap = self._gap
        return [part + (gap is not None and part >= gap) for part in parts if part >= 0]

    def _push(self, heap: list[tuple[int, int]], i: int, j: int, parts: list[int]) -> None:
        if i >= 0 and j < len(parts) and (rank := self._rank(parts[i], parts[j])):
            heapq.heappush(heap, (rank, i))

    def _rank(self, left: int, right: int) -> int:
        """The token that a pair makes; 0, which is a byte, if it does not merge."""
        return self._pairs.get((left, right), 0)


_encoder_of = functools.cache(_Encoder)


# ---- the functions of the engine ---------------------------------------------------------------


def encodings() -> list[str]:
    """Names of the encodings that can be counted with."""
    return list(ENCODINGS)


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
    encoding = stored_text(encoding)
    if encoding not in ENCODINGS:
        raise InvalidPolicy("encoding", encoding, f"must be one of {', '.join(ENCODINGS)}")
    return _encoder_of(ENCODINGS[encoding]).pieces(valid_text(text))


def _required(text: str, encoding: str) -> str:
    for name, value in (("text", text), ("encoding", encoding)):
        if not isinstance(value, str):
            raise TypeError(f"argument {name!r} must be a str, not {type(value).__name__}")
    return stored_text(text)
