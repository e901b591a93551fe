"""Lines of a text that may tell a value: short ones with two digits, among them those with a key, a version or a port.

Twin of `rust/core/src/telling.rs`. A filter in front of the patterns of `ullage.facts.result_facts`, which decide: what it leaves
out, no pattern takes. Most lines of a result have no two digits.
"""

from __future__ import annotations

import re
from typing import Final

from ullage._reference.stored import stored_text, valid_text

__all__ = ["telling_lines"]

MIN_CHARS: Final = 4
MAX_CHARS: Final = 160
KEYED: Final = 1
PORT: Final = 2

_TWO_DIGITS = re.compile(r"[0-9][^0-9]*[0-9]")
_WIDE = "\x80-\U0010ffff"
"""These count as letters and as digits: the patterns look closer."""
_NUMBER = re.compile(
    rf"[ \t*\"'-]*[A-Za-z{_WIDE}][\w{_WIDE}()/.%\"' \t-]*[:=][ \t]{{0,3}}[-+$]?[0-9{_WIDE}][\w{_WIDE},.;%/ \t]*",
    re.ASCII,
)
"""`rejected: 48213`: words, a separator, a number, and nothing but what belongs to one."""
_VERSION = re.compile(
    rf"[ \t]*[\w{_WIDE}@/-]+(?:[ \t][0-9vV{_WIDE}]|(?<=[0-9{_WIDE}])\.[0-9{_WIDE}])", re.ASCII
)
"""`uvicorn 0.30.1`, `name@1.2`: a word, and a number with a point at once after it."""
_POINTED = re.compile(rf"[0-9{_WIDE}]\.[0-9{_WIDE}]")
_ID = re.compile(
    r".*(?:sha[0-9]{0,3}|id|digest|hash|commit|job|run|build|release|deployment|order|request|ticket|version|tag)"
    r"[\"']?[ \t]?\Z",
    re.ASCII | re.IGNORECASE,
)
"""One of the words for ids, before the first separator of the line."""
_SEPARATOR = re.compile(r"[:=#]")
_OF_AN_ID = re.compile(rf"[ \t]{{0,3}}[\"']?[\w{_WIDE}.:-]", re.ASCII)
LONGEST_KEY: Final = 12
"""Characters of the longest of them, with a quote and a blank."""
_LAST_NUMBER = re.compile(r"[ :=][0-9]{2,5}\b[^0-9]{0,40}\Z", re.ASCII)
_OF_PORTS = re.compile(r"ort|istening|istens|erving|unning|localhost|127\.0\.0\.1|0\.0\.0\.0")
"""What stands before a port, as far as it is the same with and without a capital."""


def telling_lines(text: str) -> list[tuple[str, int]]:
    """The lines in order, each with `KEYED`, `PORT` or both."""
    found = ((line, _told_by(line)) for line in valid_text(stored_text(text)).split("\n"))
    return [(line, told) for line, told in found if told]


def _told_by(line: str) -> int:
    if not MIN_CHARS <= len(line) <= MAX_CHARS:
        return 0
    ascii_only = line.isascii()
    if ascii_only and not _TWO_DIGITS.search(line):
        return 0
    port = _names_port(line) if ascii_only else _OF_PORTS.search(line) is not None
    versioned = _VERSION.match(line) and _POINTED.search(line)
    keyed = versioned or _NUMBER.fullmatch(line) or _has_id(line)
    return (KEYED if keyed else 0) | (PORT if port else 0)


def _has_id(line: str) -> bool:
    """`build id: 1a2b3c`."""
    separator = _SEPARATOR.search(line)
    if separator is None or not _OF_AN_ID.match(line, separator.end()):
        return False
    key = line[: separator.start()][-LONGEST_KEY:]
    return not key.isascii() or _ID.match(key) is not None


def _names_port(line: str) -> bool:
    """`listening on :8080`: the last digits of the line, at its end or nearly, and such a word before them."""
    number = _LAST_NUMBER.search(line)
    return number is not None and _OF_PORTS.search(line, 0, number.start() + 1) is not None
