"""Length and features of a value's compact JSON, without building it.

Twin of `rust/core/src/text/json.rs` and `escapes.rs`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from ullage._reference.stored import stored
from ullage._reference.text import FEATURE_NAMES, MAX_DEPTH, MAX_INT_BITS, features
from ullage.exceptions import InvalidMessage

__all__ = ["JsonTally", "json_features", "json_length", "json_tally"]

_ARGUMENTS: Final = FEATURE_NAMES.index("arguments")
_ARGUMENT_ESCAPES: Final = FEATURE_NAMES.index("argument_escapes")
_STRUCTURE: Final = FEATURE_NAMES.index("structure")
_ESCAPES: Final = FEATURE_NAMES.index("escapes")
# The interpreter's limit is no lower than 640 digits.
_PART_DIGITS: Final = 600
_PART: Final = 10**_PART_DIGITS
_SHORT: Final = re.compile(r'["\\\b\t\n\f\r]')
_LONG: Final = re.compile(r"[\x00-\x07\x0b\x0e-\x1f]")


def _escapes(text: str) -> int:
    return len(_SHORT.findall(text)) + 5 * len(_LONG.findall(text))


class JsonTally:
    """What a walk over a value collects: features and the length of its compact JSON.

    Models see the members of a tool's input as named parameters, and JSON only inside of those: so what
    is directly inside the outermost container is distinguished from what is deeper.
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
    return tuple(json_tally(stored(value)).features)


def json_length(value: Any) -> int:
    """Code points of the compact JSON."""
    return json_tally(stored(value)).length


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


def spelled(value: int) -> str:
    """The decimal digits, also past the limit that `sys.set_int_max_str_digits` sets: estimates do not depend on it."""
    try:
        return int.__repr__(value)
    except ValueError:
        rest, parts = int.__abs__(value), list[str]()
    while rest:
        rest, part = divmod(rest, _PART)
        parts.append(f"{part:0{_PART_DIGITS}d}")
    return "-" * (value < 0) + "".join(reversed(parts)).lstrip("0")


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
    return spelled(value)


_SPELLED: Final = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
