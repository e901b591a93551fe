"""How a message is looked at: kinds of JSON values, intern table, checks that protect the walk.

The twin of `rust/core/src/view.rs`. Subclasses of str, dict, list count as what they extend.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeGuard

from ullage._reference.stored import stored_text
from ullage._reference.text import MAX_DEPTH, MAX_INT_BITS
from ullage.exceptions import InvalidMessage

__all__ = [
    "MAX_NODES",
    "Strings",
    "check_json",
    "is_list",
    "saturate",
    "shown",
    "timestamp_ms",
]

MAX_NODES = 10_000_000
"""Values in one counted value: a small graph that shares its parts can unfold to any size."""

_U32 = 0xFFFF_FFFF
_SHOWN_CHARS = 40
_NAMES = ((bool, "boolean"), (int, "integer"), (float, "float"), (str, "string"), (dict, "object"))


def saturate(count: int) -> int:
    """Digest fields are 32 bits wide: larger counts stay at the top."""
    return min(count, _U32)


def is_list(value: Any) -> TypeGuard[list[Any]]:
    """Whether JSON would write it as an array."""
    return isinstance(value, (list, tuple))


def type_name(value: Any) -> str:
    """The JSON word for a value's type; the class name of what JSON does not have."""
    if value is None:
        return "null"
    if is_list(value):
        return "list"
    found = next((name for kind, name in _NAMES if isinstance(value, kind)), None)
    return found or type(value).__name__


def shown(value: Any) -> str:
    """A value in an error message: short texts quoted, all else by type."""
    if not isinstance(value, str):
        return type_name(value)
    head = "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in value[:_SHOWN_CHARS])
    return f'"{head}…"' if len(value) > _SHOWN_CHARS else f'"{head}"'


class Strings:
    """Equal strings have equal numbers; 0 is none, and the empty string."""

    __slots__ = ("_numbers", "_texts")

    def __init__(self) -> None:
        self._texts = [""]
        self._numbers = {"": 0}

    def __len__(self) -> int:
        return len(self._texts)

    def intern(self, text: str) -> int:
        number = self._numbers.get(text)
        if number is None:
            text = str.__str__(text)  # a plain str where a subclass came
            number = self._numbers[text] = len(self._texts)
            self._texts.append(text)
        return number

    def get(self, number: int) -> str:
        return self._texts[number]

    def find(self, text: str) -> int | None:
        return self._numbers.get(stored_text(text))

    def rollback(self, length: int) -> None:
        """Forgets the newest strings, as after an item that could not be read."""
        for text in self._texts[length:]:
            del self._numbers[text]
        del self._texts[length:]


def check_json(value: Any, field: str) -> None:
    """Refuses what JSON cannot hold, before anything recursive sees it.

    Raises:
        InvalidMessage: A leaf or key of a foreign type, more than `MAX_DEPTH` levels, or more than
            `MAX_NODES` values.
    """
    stack: list[Iterator[Any]] = [iter((value,))]
    nodes = 0
    while stack:
        try:
            item = next(stack[-1])
        except StopIteration:
            stack.pop()
            continue
        nodes += 1
        if nodes > MAX_NODES:
            raise InvalidMessage(f"holds more than {MAX_NODES} values", field=field)
        if is_list(item):
            inside: Iterator[Any] = iter(item)
        elif isinstance(item, dict):
            inside = _values(item, field)
        else:
            _check_leaf(item, field)
            continue
        if len(stack) > MAX_DEPTH:
            raise InvalidMessage(f"nested more than {MAX_DEPTH} levels deep", field=field)
        stack.append(inside)


def _values(item: dict[Any, Any], field: str) -> Iterator[Any]:
    for key in item:  # of two wrong values both engines name the same
        if not isinstance(key, str):
            _check_leaf(key, field)
    return iter(item.values())


def _check_leaf(value: Any, field: str) -> None:
    if isinstance(value, int):
        if int.bit_length(value) > MAX_INT_BITS:
            reason = "holds an integer with too many digits"
            raise InvalidMessage(reason, field=field, got=shown(value))
    elif value is not None and not isinstance(value, (str, float)):
        got = type(value).__name__
        raise InvalidMessage("holds a value that JSON does not have", field=field, got=got)


_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def timestamp_ms(value: Any) -> int:
    """Milliseconds since the epoch of `YYYY-MM-DDTHH:MM:SS[.fraction][Z|+HH:MM|-HH:MM]`; else 0.

    A time without a zone counts as UTC.
    """
    if not isinstance(value, str) or not value.isascii() or not 19 <= len(value) <= 40:
        return 0
    if value[4] + value[7] + value[10] + value[13] + value[16] != "--T::":
        return 0
    fields = (value[:4], value[5:7], value[8:10], value[11:13], value[14:16], value[17:19])
    if not all(part.isdigit() for part in fields):
        return 0
    year, month, day, hour, minute, second = map(int, fields)
    rest = _fraction_and_zone(value[19:])
    if rest is None or year < 1970 or not 1 <= month <= 12 or not 1 <= day <= _days(year, month):
        return 0
    if hour > 23 or minute > 59 or second > 59:
        return 0
    millis, offset_minutes = rest
    minutes = (_days_since_epoch(year, month, day) * 24 + hour) * 60 + minute - offset_minutes
    return max(0, minutes * 60_000 + second * 1000 + millis)


def _leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def _days(year: int, month: int) -> int:
    return 29 if month == 2 and _leap(year) else _DAYS[month - 1]


def _days_since_epoch(year: int, month: int, day: int) -> int:
    before = year - 1
    leaps = before // 4 - before // 100 + before // 400 - 477  # 477 leap days before 1970
    months = sum(_days(year, earlier) for earlier in range(1, month))
    return (year - 1970) * 365 + leaps + months + day - 1


def _fraction_and_zone(rest: str) -> tuple[int, int] | None:
    """Milliseconds and minutes east of UTC, or `None` if it is neither."""
    millis = 0
    if rest.startswith("."):
        digits = rest[1:].rstrip("Z").split("+")[0].split("-")[0]
        if not digits.isdigit() or len(digits) > 9:
            return None
        millis, rest = int((digits + "00")[:3]), rest[1 + len(digits) :]
    if rest in ("", "Z"):
        return millis, 0
    if len(rest) != 6 or rest[0] not in "+-" or rest[3] != ":":
        return None
    hours, minutes = rest[1:3], rest[4:6]
    if not hours.isdigit() or not minutes.isdigit() or int(hours) > 23 or int(minutes) > 59:
        return None
    offset = int(hours) * 60 + int(minutes)
    return millis, offset if rest[0] == "+" else -offset
