"""Character classes, rough and calibrated estimates (TOK-1, TOK-2).

Twin of `rust/core/src/text.rs`. A text is read once and leaves features: counts of letters, words, digits, scripts. An estimate is their sum weighted by `Weights`.
"""

from __future__ import annotations

import json
import operator
import pkgutil
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, final

from ullage.exceptions import InvalidPolicy

# What is stored in dicts, lists and strings whose classes may answer differently.
#
# The Rust engine reads storage and runs no method of a subclass; so does the twin, which is given plain values.


_LEAVES: Final = frozenset({str, int, float, bool, type(None)})
_KINDS: Final = (str, dict, list, tuple, int, float)


def stored_text(text: str) -> str:
    """The characters of a string, as a plain one."""
    return text if type(text) is str else str.__str__(text)


def valid_text(text: str) -> str:
    """The text as UTF-8 can hold it, as tiktoken does it: pairs of surrogates are their character, lone ones U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def stored(value: Any) -> Any:
    """The value itself if all in it is of built-in types, else a copy that is; what JSON does not have stays."""
    return value if _is_plain(value) else _copy(value)


def _is_plain(value: Any) -> bool:
    """Whether no subclass is in it; each container is looked at once, however often it occurs."""
    seen: set[int] = set()
    waiting = [value]
    while waiting:
        item = waiting.pop()
        kind = type(item)
        if kind in _LEAVES:
            continue
        if kind is dict or kind is list or kind is tuple:
            if id(item) not in seen:
                seen.add(id(item))
                waiting.extend(item)
                waiting.extend(item.values() if kind is dict else ())
        elif isinstance(item, _KINDS):
            return False
    return True


def _copy(value: Any) -> Any:
    """A copy of built-in types; what occurs twice does so in the copy."""
    copy: dict[int, Any] = {}
    waiting: list[Any] = []

    def plain(item: Any) -> Any:
        if isinstance(item, str):
            return stored_text(item)
        if isinstance(item, bool) or not isinstance(item, _KINDS):
            return item
        if isinstance(item, int):
            return int.__pos__(item)
        if isinstance(item, float):
            return float.__pos__(item)
        if id(item) not in copy:
            copy[id(item)] = {} if isinstance(item, dict) else []
            waiting.append(item)
        return copy[id(item)]

    top = plain(value)
    while waiting:
        item = waiting.pop()
        into = copy[id(item)]
        if isinstance(item, dict):
            # Other keys than strings are refused later, as they are.
            members = dict.items(item)
            into.update((plain(k) if isinstance(k, str) else k, plain(one)) for k, one in members)
        else:
            parts = list.__iter__(item) if isinstance(item, list) else tuple.__iter__(item)
            into.extend(map(plain, parts))
    return top


FEATURE_NAMES: Final = tuple(
    """
    lower upper words words5 words9 words13 glued_words humps caps rare digits numbers numbers4
    punctuation punctuation_runs open_runs repeats spaces gaps tabs tab_runs newlines
    newline_runs controls latin greek cyrillic arabic_hebrew indic kana cjk hangul
    cjk_punctuation latin_symbols typographic arrows box symbols other astral arguments
    argument_escapes structure escapes
    """.split()
)
"""In the order of a tuple of features. The last four are counted on JSON only."""

UNIT: Final = 4096  # tokens are weighed in this many parts
# 256 tokens a feature: sums of texts below 2^40 characters stay below 2^64.
MAX_WEIGHT: Final = 1 << 20
MAX_DEPTH: Final = 128  # no API takes tool input so deep
MAX_INT_BITS: Final = 14_000  # the decimal text of larger integers costs quadratic time

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
    return stored_text(text)


class ImageRule(NamedTuple):
    """How an image becomes tokens; the default is the standard tier of the Anthropic API."""

    patch_px: int = 28
    max_edge_px: int = 1568
    max_tokens: int = 1568
    default_tokens: int = 1568


class HiddenRule(NamedTuple):
    """The cost of thinking that the API keeps encrypted: a signature is as long as the text that it encrypts."""

    free_chars: int = 0  # characters of a signature without any text
    per_char: int = 0  # for each further character, in 1/4096 token

    def weigh(self, chars: int) -> int:
        """Weight of the text in this many characters of signature or encrypted data."""
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
        return sum(map(operator.mul, self.features, counts))


# ---- tables that both engines read -----------------------------------------------------------


def data_text(name: str) -> str:
    """A text file of `ullage/data`."""
    return (pkgutil.get_data("ullage", f"data/{name}") or b"").decode()


def word_list(name: str) -> list[str]:
    """A list of words. Its file is JSON and an array of Rust's as well, which the core includes as it is."""
    words: list[str] = json.loads(data_text(f"{name}.json"))
    return words


# ---- estimates -------------------------------------------------------------------------------


def whole_tokens(weight: int) -> int:
    """Whole tokens of a weight in 1/4096 token, half up."""
    return (weight + UNIT // 2) // UNIT


def rough_tokens(chars: int) -> int:
    """TOK-1: four characters a token, rounded half up."""
    return (chars + 2) // 4


def rough_text(text: str) -> int:
    """TOK-1 of a text, in code points."""
    return rough_tokens(len(_string(text)))


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
        sum(match.end() - match.start() - 1 for match in _REPEATS.finditer(codes)),
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


# The sentences of a text (parts between line breaks, and blanks after a full stop, question or exclamation mark), and texts in another.
#
# Twin of `rust/core/src/sentences.rs`.


_BREAK = re.compile(r"\s(?:(?<=\n)|(?<=[.!?]\s))")  # begins with what is looked for quickly


def split_sentences(text: str, least: int, most: int) -> list[str]:
    """The sentences in order, without blanks around them: those of at least and at most so many characters."""
    sentences = (part.strip() for part in _BREAK.split(valid_text(stored_text(text))))
    return [part for part in sentences if least <= len(part) <= most]


def contained(texts: Sequence[str], whole: str) -> list[bool]:
    """For each of some texts whether it stands in another."""
    whole = valid_text(stored_text(whole))
    return [valid_text(stored_text(text)) in whole for text in texts]


# Which of some patterns are in a sentence.


MOST_PATTERNS: Final = 63


class PatternSet:
    """Some patterns, looked for together. Where Rust judges, and leaves doubtful ones to Python's search, this searches."""

    def __init__(self, patterns: Sequence[str], *, wide: bool = False) -> None:
        if len(patterns) > MOST_PATTERNS:
            raise ValueError(f"at most {MOST_PATTERNS} patterns, not {len(patterns)}")
        try:
            self._patterns = [re.compile(text, re.IGNORECASE) for text in patterns]
        except re.error as exc:
            raise ValueError(str(exc)) from exc

    def look(self, text: str) -> tuple[int, int]:
        """A bit for each pattern that is in the text, and the same: none only may be."""
        text = stored_text(text)
        bits = sum(bool(one.search(text)) << at for at, one in enumerate(self._patterns))
        return bits, bits
