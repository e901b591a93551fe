"""How a tool call ended, by its result: the exit code, and the line that shows it.

Twin of `rust/core/src/outcome.rs`. Letters, digits and blanks of the patterns are those of ASCII, in both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

from ullage._reference.text import data_text, stored_text, valid_text, word_list

SCANNED_LINES: Final = 3000  # the verdict of a build log is among them or at its end
LINE_CHARS: Final = 200  # of a line that are looked at
LAST_LINES: Final = 12  # of a success, in which its verdict is looked for
CODE_CHARS: Final = 400  # at both ends: a code in between is of something else
HEAD_CHARS: Final = 600  # where hosts write that a call failed
TAIL_CHARS: Final = 4000  # in which a verdict is looked for
FEW_LINES: Final = 3  # of a success without a verdict: as few lines are shown by the newest


def _tables() -> dict[str, list[str]]:
    """What is looked for, by table: `data/outcome.txt`, which the core reads too."""
    tables: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in data_text("outcome.txt").split("\n"):
        if line.startswith("[") and line.endswith("]"):
            lines = tables.setdefault(line[1:-1], [])
        elif line and not line.startswith("# "):
            lines.append(line)
    return tables


_TABLES = _tables()
_FAILED = tuple(_TABLES["failed"])
_ANY_CASE = re.ASCII | re.IGNORECASE
_EXIT = re.compile("|".join(_TABLES["exit"]), _ANY_CASE)
_EXIT_JSON = re.compile("|".join(_TABLES["exit_json"]), re.ASCII)
_ERROR_TAG = re.compile("|".join(_TABLES["error_tag"]))
_ERROR = re.compile("|".join(_TABLES["error"]), _ANY_CASE)
_STRONG = re.compile("|".join(_TABLES["strong"]), re.ASCII)
_FRAMING = re.compile("|".join(_TABLES["framing"]), _ANY_CASE)
_VERDICT = re.compile("|".join(_TABLES["verdict"]), _ANY_CASE)
_MARKS = re.compile(
    "[\x00-/:-@\\[-^`{-\xbf×÷\u2000-\u2bff\u3000-\u303f\ufe00-\ufe0f\U0001f000-\U0001faff]*"
)
"""Punctuation, symbols, emoji: what no word is made of."""


def read_result(text: str, is_error: bool) -> tuple[bool, int | None, str]:
    """Whether a call failed, its exit code, and the line that shows it."""
    text = valid_text(stored_text(text))
    code = _exit_code(text)
    failed = is_error or bool(code) or text[:HEAD_CHARS].lstrip().startswith(_FAILED)
    return failed, code, _error_line(text) if failed else _verdict(text)


def is_framing(line: str) -> bool:
    """Whether a host wrote a line around a result, or nobody wrote a word."""
    line = valid_text(stored_text(line))
    return _MARKS.fullmatch(line) is not None or _FRAMING.fullmatch(line) is not None


def _exit_code(text: str) -> int | None:
    for part in (text[:CODE_CHARS], text[-CODE_CHARS:]):
        match = _EXIT.search(part) or _EXIT_JSON.search(part)
        if match:
            return int(match[match.lastindex or 1])
    return None


def _lines(text: str) -> list[str]:
    return _ERROR_TAG.sub("", text).replace("\r", "\n").split("\n")


def _error_line(text: str) -> str:
    stripped = (line.strip() for line in islice(_lines(text), SCANNED_LINES))
    lines = [line[:LINE_CHARS] for line in stripped if line and not is_framing(line[:LINE_CHARS])]
    for pattern in (_STRONG, _ERROR):
        for line in lines:
            if pattern.search(line):
                return line
    return lines[0] if lines else ""


def _verdict(text: str) -> str:
    newest = list(islice(_newest_lines(text[-TAIL_CHARS:]), LAST_LINES))
    verdict = next((line for line in newest if _VERDICT.search(line)), "")
    return verdict or (newest[0] if 0 < len(newest) <= FEW_LINES else "")


def _newest_lines(text: str) -> Iterator[str]:
    """Lines from the last one on, without what the host wrote around the result."""
    for line in reversed(_lines(text)):
        line = line.strip()[:LINE_CHARS]
        if line and not is_framing(line):
            yield line


# Lines of a text that may tell a value: short ones with two digits, among them those with a key, a version or a port.
#
# Twin of `rust/core/src/telling.rs`. A filter in front of the patterns of `ullage.facts.tallies`, which decide: what it leaves
# out, no pattern takes. Most lines of a result have no two digits.


MIN_CHARS: Final = 4  # fewer characters tell nothing
MAX_CHARS: Final = 160  # longer lines are data
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
    rf".*(?:sha[0-9]{{0,3}}|{'|'.join(word_list('id_words'))})[\"']?[ \t]?\Z",
    re.ASCII | re.IGNORECASE,
)
"""One of the words for ids, before the first separator of the line."""
_SEPARATOR = re.compile(r"[:=#]")
_OF_AN_ID = re.compile(rf"[ \t]{{0,3}}[\"']?[\w{_WIDE}.:-]", re.ASCII)
LONGEST_KEY: Final = 12
"""Characters of the longest of them, with a quote and a blank."""
_LAST_NUMBER = re.compile(r"[ :=][0-9]{2,5}\b[^0-9]{0,40}\Z", re.ASCII)
_OF_PORTS = re.compile("|".join(map(re.escape, word_list("port_words"))))
"""What stands before a port, as far as it is the same with and without a capital."""


def telling_lines(text: str) -> list[tuple[str, int]]:
    """The lines in order, each with `KEYED`, `PORT` or both."""
    lines = ((line, _reasons(line)) for line in valid_text(stored_text(text)).split("\n"))
    return [(line, reason) for line, reason in lines if reason]


def _reasons(line: str) -> int:
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
