"""Character classes, rough and calibrated estimates (TOK-1, TOK-2).

Twin of `rust/core/src/text.rs` and its submodules. A text is read once and leaves features: counts of
letters, words, digits, scripts. An estimate is their sum weighted by `Weights`.
"""

from __future__ import annotations

import base64
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, final

from ullage.exceptions import InvalidMessage, InvalidPolicy

__all__ = [
    "FEATURE_NAMES",
    "MAX_COUNT",
    "MAX_DEPTH",
    "MAX_INT_BITS",
    "MAX_WEIGHT",
    "UNIT",
    "HiddenRule",
    "ImageRule",
    "JsonTally",
    "Weights",
    "estimate_text",
    "features",
    "image_size",
    "image_tokens",
    "json_features",
    "json_length",
    "padded",
    "rough_text",
    "rough_tokens",
]

FEATURE_NAMES: Final = (
    "lower",
    "upper",
    "words",
    "words5",
    "words9",
    "words13",
    "glued_words",
    "humps",
    "caps",
    "rare",
    "digits",
    "numbers",
    "numbers4",
    "punctuation",
    "punctuation_runs",
    "open_runs",
    "repeats",
    "spaces",
    "gaps",
    "tabs",
    "tab_runs",
    "newlines",
    "newline_runs",
    "controls",
    "latin",
    "greek",
    "cyrillic",
    "arabic_hebrew",
    "indic",
    "kana",
    "cjk",
    "hangul",
    "cjk_punctuation",
    "latin_symbols",
    "typographic",
    "arrows",
    "box",
    "symbols",
    "other",
    "astral",
    "arguments",
    "argument_escapes",
    "structure",
    "escapes",
)
"""In the order of a tuple of features. The last four are counted on JSON only."""

UNIT: Final = 4096
MAX_WEIGHT: Final = 1 << 20
MAX_COUNT: Final = 1 << 53
MAX_DEPTH: Final = 128
MAX_INT_BITS: Final = 14_000

_BLOCK_KINDS: Final = 15
_ROLES: Final = 5
_U32: Final = (1 << 32) - 1


def _integer(field: str, value: int, least: int, most: int) -> int:
    limit = f"must be an integer from {least} to {most}"
    if not isinstance(value, int):
        raise TypeError(f"{field}: {limit} (got {type(value).__name__})")
    if not least <= value <= most:
        raise InvalidPolicy(field, value, limit)
    return int(value)


def _integers(field: str, values: Sequence[int], count: int, most: int) -> tuple[int, ...]:
    if len(values) != count:
        raise InvalidPolicy(field, values, f"must have {count} entries, not {len(values)}")
    return tuple(_integer(field, value, 0, most) for value in values)


def _string(text: str) -> str:
    if not isinstance(text, str):
        raise TypeError(f"expected a string, not {type(text).__name__}")
    return text


class ImageRule(NamedTuple):
    """How an image becomes tokens; the default is the standard tier of the Anthropic API."""

    patch_px: int = 28
    max_edge_px: int = 1568
    max_tokens: int = 1568
    default_tokens: int = 1568


class HiddenRule(NamedTuple):
    """What thinking costs that the API keeps encrypted: a signature is as long as the text behind it."""

    free_chars: int = 0  # characters of a signature without any text behind it
    per_char: int = 0  # for each further character, in 1/4096 token

    def weigh(self, chars: int) -> int:
        """Weight of the text behind so many characters of signature or encrypted data."""
        return max(0, chars - self.free_chars) * self.per_char


@final
class Weights:
    """Numbers of a calibrated estimate for one model family, in 1/4096 token."""

    __slots__ = ("blocks", "features", "hidden", "image", "messages")

    def __init__(
        self,
        features: Sequence[int],
        *,
        blocks: Sequence[int],
        messages: Sequence[int],
        image: Sequence[int] | None = None,
        hidden: Sequence[int] | None = None,
    ) -> None:
        self.features = _integers("features", features, len(FEATURE_NAMES), MAX_WEIGHT)
        self.blocks = _integers("blocks", blocks, _BLOCK_KINDS, MAX_WEIGHT)
        self.messages = _integers("messages", messages, _ROLES, MAX_WEIGHT)
        self.image = ImageRule()
        if image is not None:
            self.image = ImageRule(*_integers("image", image, 4, _U32))
        self.hidden = HiddenRule()
        if hidden is not None:
            self.hidden = HiddenRule(*_integers("hidden", hidden, 2, MAX_WEIGHT))

    def weigh(self, counts: Sequence[int]) -> int:
        """Weight of features, in 1/4096 token."""
        return sum(weight * count for weight, count in zip(self.features, counts, strict=True))


# ---- estimates -------------------------------------------------------------------------------


def whole_tokens(weight: int) -> int:
    """Whole tokens of a weight in 1/4096 token, half up."""
    return (weight + UNIT // 2) // UNIT


def rough_tokens(chars: int, chars_per_token: int = 4) -> int:
    """TOK-1: characters by characters per token, rounded half up."""
    _integer("chars", chars, 0, MAX_COUNT)
    _integer("chars_per_token", chars_per_token, 1, MAX_COUNT)
    return (chars + chars_per_token // 2) // chars_per_token


def padded(tokens: int) -> int:
    """The padded variant: 4/3, rounded up."""
    _integer("tokens", tokens, 0, MAX_COUNT)
    return tokens + (tokens + 2) // 3


def rough_text(text: str, chars_per_token: int = 4) -> int:
    """TOK-1 of a text, in code points."""
    return rough_tokens(len(_string(text)), chars_per_token)


def estimate_text(text: str, weights: Weights) -> int:
    """Calibrated tokens of a text alone."""
    return whole_tokens(weights.weigh(features(text)))


# ---- features --------------------------------------------------------------------------------

_SCRIPTS: Final = FEATURE_NAMES[24:40]
_BASE: Final = 0x80
_WORDY: Final = 6
_ASTRAL: Final = 15

_RANGES: Final = (
    (0xC0, 9),
    (0x300, 0),
    (0x340, 14),
    (0x400, 1),
    (0x540, 2),
    (0x900, 3),
    (0x1D00, 4),
    (0x1E00, 14),
    (0x1F00, 0),
    (0x2000, 1),
    (0x2080, 10),
    (0x2180, 13),
    (0x2200, 11),
    (0x2500, 13),
    (0x25C0, 12),
    (0x2E80, 13),
    (0x3000, 6),
    (0x3040, 8),
    (0x3100, 5),
    (0xA000, 6),
    (0xAC00, 14),
    (0xD800, 7),
    (0xF900, 14),
    (0xFB00, 6),
    (0xFF00, 14),
    (0x1_0000, 8),
)
"""Upper ends (exclusive) of ranges of code points from U+0080 up, and the script of each."""

_ENDS: Final = tuple(end for end, _ in _RANGES)


def _narrow(point: int) -> int:
    if point < _BASE:
        return point
    at = bisect_right(_ENDS, point)
    return _BASE + (_RANGES[at][1] if at < len(_RANGES) else _ASTRAL)


def _class(code: int) -> str:
    char = chr(code)
    if _BASE <= code < _BASE + _WORDY:
        return "w"
    if char.isascii() and char.isalnum():
        return "0" if char.isdigit() else "A" if char.isupper() else "a"
    return char if char in " \t\n" else "." if "!" <= char <= "~" else "?"


_CLASSES: Final = bytes(ord(_class(code)) for code in range(256))


def _only(classes: bytes) -> bytes:
    """A table that makes `x` of these classes and white space of all others."""
    return bytes(ord("x") if byte in classes else ord(" ") for byte in range(256))


_WORDS: Final = _only(b"aAw")
_DIGITS: Final = _only(b"0")
_PUNCT: Final = _only(b".")
_SPACES: Final = _only(b" ")
_TABS: Final = _only(b"\t")
_NEWLINES: Final = _only(b"\n")
_CAPS: Final = _only(b"A")
_GLUED: Final = re.compile(rb"(?<![aAw ])[aAw]")
_OPEN: Final = re.compile(rb"[ \t\n]\.")
_RARE: Final = b"jkqvwxzJKQVWXZ"
_CONTROLS: Final = bytes((*range(9), *range(11, 32), 127))
_REPEATS: Final = re.compile(rb"([!-/:-@\[-`{-~])\1+")


def _narrowed(text: str) -> bytes:
    if text.isascii():
        return text.encode("ascii")
    table = {point: _narrow(point) for point in map(ord, set(text))}
    return text.translate(table).encode("latin-1")


def _starts(classes: bytes, table: bytes) -> int:
    return len(classes.translate(table).split())


def _reach(runs: Mapping[int, int], length: int) -> int:
    return sum(count for size, count in runs.items() if size >= length)


def features(text: str) -> tuple[int, ...]:
    """Counts of a text by character class, in the order of `FEATURE_NAMES`."""
    codes = _narrowed(_string(text))
    classes = codes.translate(_CLASSES)
    lengths = Counter(map(len, classes.translate(_WORDS).split()))
    numbers = Counter(map(len, classes.translate(_DIGITS).split()))
    gaps = Counter(map(len, classes.translate(_SPACES).split()))

    return (
        classes.count(b"a"),
        classes.count(b"A"),
        _reach(lengths, 1),
        _reach(lengths, 5),
        _reach(lengths, 9),
        _reach(lengths, 13),
        len(_GLUED.findall(classes)),
        classes.count(b"aA"),
        classes.count(b"A") - _starts(classes, _CAPS),
        len(codes) - len(codes.translate(None, _RARE)),
        classes.count(b"0"),
        _reach(numbers, 1),
        _reach(numbers, 4),
        classes.count(b"."),
        _starts(classes, _PUNCT),
        len(_OPEN.findall(classes)),
        sum(found.end() - found.start() - 1 for found in _REPEATS.finditer(codes)),
        classes.count(b" "),
        _reach(gaps, 2),
        classes.count(b"\t"),
        _starts(classes, _TABS),
        classes.count(b"\n"),
        _starts(classes, _NEWLINES),
        len(codes) - len(codes.translate(None, _CONTROLS)),
        *(codes.count(_BASE + script) for script in range(len(_SCRIPTS))),
        0,
        0,
        0,
        0,
    )


# ---- JSON ------------------------------------------------------------------------------------

_ARGUMENTS: Final = FEATURE_NAMES.index("arguments")
_ARGUMENT_ESCAPES: Final = FEATURE_NAMES.index("argument_escapes")
_STRUCTURE: Final = FEATURE_NAMES.index("structure")
_ESCAPES: Final = FEATURE_NAMES.index("escapes")
_SHORT: Final = re.compile(r'["\\\b\t\n\f\r]')
_LONG: Final = re.compile(r"[\x00-\x07\x0b\x0e-\x1f]")


def _escapes(text: str) -> int:
    return len(_SHORT.findall(text)) + 5 * len(_LONG.findall(text))


class JsonTally:
    """What a walk over a value collects: features and the length of its compact JSON.

    Models see the members of a tool's input as named parameters, and JSON only inside of those: so what
    stands right inside the outermost container is told from what is deeper.
    """

    __slots__ = ("features", "length")

    def __init__(self) -> None:
        self.features = [0] * len(FEATURE_NAMES)
        self.length = 0

    def string(self, text: str, depth: int) -> None:
        """A string, or a key of an object with `depth - 1` containers around it."""
        escapes = _escapes(text)
        outer = depth <= 1
        self._add(features(text))
        self.features[_ARGUMENT_ESCAPES if outer else _ESCAPES] += escapes
        self.features[_STRUCTURE] += 0 if outer else 2
        self.length += len(text) + escapes + 2

    def word(self, ascii_text: str) -> None:
        """A number as JSON spells it, or `true`, `false`, `null`."""
        self._add(features(ascii_text))
        self.length += len(ascii_text)

    def array(self, items: int, depth: int) -> None:
        """Brackets and commas of an array."""
        self._container(items, 2 + max(items - 1, 0), depth)

    def object(self, members: int, depth: int) -> None:
        """Brackets, commas and colons of an object."""
        self._container(members, 2 + max(2 * members - 1, 0), depth)

    def _container(self, members: int, characters: int, depth: int) -> None:
        if depth == 0:
            self.features[_ARGUMENTS] += members
        else:
            self.features[_STRUCTURE] += characters
        self.length += characters

    def _add(self, counts: Iterable[int]) -> None:
        for at, count in enumerate(counts):
            self.features[at] += count


def json_tally(value: Any) -> JsonTally:
    """Length and features of a value's compact JSON.

    The text meant is `json.dumps(value, ensure_ascii=False, separators=(",", ":"))`.
    """
    tally = JsonTally()
    _walk(value, tally, 0)
    return tally


def json_features(value: Any) -> tuple[int, ...]:
    """Features of keys, strings and numbers, and of the JSON around them."""
    return tuple(json_tally(value).features)


def json_length(value: Any) -> int:
    """Code points of the compact JSON."""
    return json_tally(value).length


def _walk(value: Any, tally: JsonTally, depth: int) -> None:
    if isinstance(value, str):
        tally.string(value, depth)
        return
    if (word := _word(value)) is not None:
        tally.word(word)
        return
    if depth >= MAX_DEPTH:
        raise InvalidMessage(f"nested deeper than {MAX_DEPTH}", got=type(value).__name__)
    if isinstance(value, list | tuple):
        tally.array(len(value), depth)
        for item in value:
            _walk(item, tally, depth + 1)
        return
    if not isinstance(value, dict):
        raise InvalidMessage("not a JSON value", got=type(value).__name__)
    tally.object(len(value), depth)
    for key, item in value.items():
        tally.string(_key(key), depth + 1)
        _walk(item, tally, depth + 1)


def _key(key: Any) -> str:
    word = key if isinstance(key, str) else _word(key)
    if word is None:
        raise InvalidMessage("not a JSON key", got=type(key).__name__)
    return word


def _word(value: Any) -> str | None:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _SPELLED.get(float.__repr__(value), float.__repr__(value))
    if not isinstance(value, int):
        return None
    if int.bit_length(value) > MAX_INT_BITS:
        raise InvalidMessage(
            f"an integer of more than {MAX_INT_BITS} bits", got=type(value).__name__
        )
    return int.__repr__(value)


_SPELLED: Final = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


# ---- images ----------------------------------------------------------------------------------


def image_tokens(width: int, height: int, weights: Weights) -> int:
    """Tokens of an image: patches after scaling down to the rule's edge and to its most patches."""
    _integer("width", width, 0, _U32)
    _integer("height", height, 0, _U32)
    rule = weights.image
    if width == 0 or height == 0 or rule.patch_px == 0:
        return rule.default_tokens
    # Patches grow with the edge: the largest edge that fits is found by halving.
    fits, fails = 1, min(max(width, height), max(rule.max_edge_px, 1)) + 1
    while fails - fits > 1:
        edge = (fits + fails) // 2
        if _patches(width, height, edge, rule) <= rule.max_tokens:
            fits = edge
        else:
            fails = edge
    return _patches(width, height, fits, rule)


def _patches(width: int, height: int, edge: int, rule: ImageRule) -> int:
    long = max(width, height)
    wide, high = (-(-max(px * edge // long, 1) // rule.patch_px) for px in (width, height))
    return wide * high


def image_size(data: str) -> tuple[int, int]:
    """Width and height in pixels of a base64 image; (0, 0) if it is none of PNG, JPEG, GIF, WebP."""
    head = _Base64(_string(data))
    try:
        size = _image_size(head)
    except _End:
        return (0, 0)
    return size if size[0] and size[1] else (0, 0)


def _image_size(head: _Base64) -> tuple[int, int]:
    if head.starts(0, b"\x89PNG\r\n\x1a\n"):
        return head.number(16, 4, "big"), head.number(20, 4, "big")
    if head.starts(0, b"GIF8"):
        return head.number(6, 2, "little"), head.number(8, 2, "little")
    if head.starts(0, b"RIFF") and head.starts(8, b"WEBP"):
        return _webp(head)
    return _jpeg(head) if head.starts(0, b"\xff\xd8") else (0, 0)


def _webp(head: _Base64) -> tuple[int, int]:
    if head.starts(12, b"VP8X"):
        return head.number(24, 3, "little") + 1, head.number(27, 3, "little") + 1
    if head.starts(12, b"VP8L"):
        bits = head.number(21, 4, "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if head.starts(12, b"VP8 "):
        return head.number(26, 2, "little") & 0x3FFF, head.number(28, 2, "little") & 0x3FFF
    return (0, 0)


def _jpeg(head: _Base64) -> tuple[int, int]:
    at = 2
    while head.number(at, 1, "big") == 0xFF:
        marker = head.number(at + 1, 1, "big")
        if marker == 0xFF:
            at += 1
        elif marker == 0x01 or 0xD0 <= marker <= 0xD7:
            at += 2
        elif 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return head.number(at + 7, 2, "big"), head.number(at + 5, 2, "big")
        elif marker in (0xD9, 0xDA):
            break
        else:
            at += 2 + max(head.number(at + 2, 2, "big"), 2)
    return (0, 0)


class _End(Exception):
    """The data ends, or is no base64, before the byte that was asked for."""


class _Base64:
    """Bytes behind base64 characters, any of them without decoding those before it."""

    __slots__ = ("_chars",)

    def __init__(self, chars: str) -> None:
        self._chars = chars

    def read(self, at: int, size: int) -> bytes:
        # Byte 3k + r spans the characters 4k + r and 4k + r + 1.
        end = at + size - 1
        chars = self._chars[at // 3 * 4 : end // 3 * 4 + end % 3 + 2]
        wanted = end // 3 * 4 + end % 3 + 2 - at // 3 * 4
        if len(chars) < wanted or not _ALPHABET.fullmatch(chars, at % 3):
            raise _End
        # What stands before the first character asked for need not be base64.
        chars = "A" * (at % 3) + chars[at % 3 :]
        found = base64.b64decode(chars + "A" * (-len(chars) % 4))[at % 3 : at % 3 + size]
        return found

    def number(self, at: int, size: int, order: Literal["big", "little"]) -> int:
        """An unsigned integer of so many bytes."""
        return int.from_bytes(self.read(at, size), order)

    def starts(self, at: int, wanted: bytes) -> bool:
        """Whether these bytes stand there."""
        try:
            return self.read(at, len(wanted)) == wanted
        except _End:
            return False


_ALPHABET: Final = re.compile("[A-Za-z0-9+/]+")
