"""How a tool call ended, by its result: the exit code, and the line that shows it.

Twin of `rust/core/src/outcome.rs`. Letters, digits and blanks of the patterns are those of ASCII, in both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

from ullage._reference.text import data_text, stored_text, valid_text

SCANNED_LINES: Final = 3000  # the verdict of a build log is among them or at its end
LINE_CHARS: Final = 200  # of a line that are looked at
TEST_CHARS: Final = 80  # of the name of a test that failed, before the line that says why
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
_ASSERTED = re.compile("|".join(_TABLES["asserted"]), _ANY_CASE)
_FAILED_TEST = re.compile("|".join(_TABLES["failed_test"]), re.ASCII)
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
    patterns = (_ASSERTED, _STRONG, _ERROR)
    first = (next(filter(pattern.search, lines), "") for pattern in patterns)
    line = next(filter(None, first), "") or (lines[0] if lines else "")
    test = next(filter(_FAILED_TEST.search, lines), line)
    return line if test == line else f"{test[:TEST_CHARS]} / {line}"[:LINE_CHARS]


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


# Lines of a text that may tell a value.
#
# In Rust (`telling.rs`) a filter in front of the patterns of `ullage.facts.tallies`, which decide. Here they see every line
# that is neither too short to tell anything nor data.


MIN_CHARS: Final = 4
MAX_CHARS: Final = 160
KEYED: Final = 1
PORT: Final = 2


def telling_lines(text: str) -> list[tuple[str, int]]:
    """The lines in order, each with `KEYED` and `PORT`."""
    lines = valid_text(stored_text(text)).split("\n")
    return [(line, KEYED | PORT) for line in lines if MIN_CHARS <= len(line) <= MAX_CHARS]
