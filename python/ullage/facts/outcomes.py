"""How a tool call ended: refused, failed or successful, with the line that shows it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from ullage.facts.words import feedback_of

__all__ = ["CallOutcome", "is_framing", "read_outcome"]

SCANNED_LINES = 3000
"""Lines of one result that are searched; the verdict of a build log is among them or at its end."""

LINE_CHARS = 200

LAST_LINES = 12
"""Of a success, in which its verdict is looked for."""


class CallOutcome(NamedTuple):
    """`ok` is `None` where the call was refused or stopped, and so never ran."""

    ok: bool | None
    exit_code: int | None
    line: str  # the error's first informative line, or the last line of a success; may be empty
    feedback: str  # what the user said when refusing


_EXIT = re.compile(
    r"(?:^|\n)[ \t]*(?:Exit code:?|(?:Process|Command) exited with code|exit status|Command failed with exit code)"
    r"[ \t]*(\d{1,9})",
    re.IGNORECASE,
)
_EXIT_JSON = re.compile(r'"(?:exit_code|exitCode|returncode|exit_status)"\s*:\s*(-?\d{1,9})')
_REFUSED = ("The user doesn't want to", "[Request interrupted by user")
_FAILED = ("<tool_use_error>", "Error:", "error:", "ERROR:", "Traceback (most recent call last)")
"""Beginnings of results that report a failure only in words."""
_ERROR_TAG = re.compile(r"</?(?:tool_use_error|error)>")
_ERROR = re.compile(
    r"\b(?:error|fatal|panic|exception|failed|failure|undefined|denied|refused|cannot|can't|could not|"
    r"not found|no such|unexpected|unknown|invalid|missing|mismatch|timed out|assertion\w*)\b|"
    r"\w(?:Error|Exception)\b|^\s*(?:E\s{2,}|--- FAIL|FAIL\b|✗|✖|×|not ok\b)",
    re.IGNORECASE,
)
_STRONG = re.compile(
    r"\w(?:Error|Exception)\b\s*:|\berror(?:\[\w+\])?\s*:|^\s*(?:--- FAIL|fatal:|panic:|E\s{2,}\S)|"
    r"^\S+:\d+(?::\d+)?:\s"
)
_NOISE = re.compile(
    r"^(?:\W*|exit code:?\s*\d+|=== (?:RUN|PAUSE|CONT).*|chunk id:.*|wall time\b.*|output:|script (?:completed|running)\b.*|"
    r"original token count:.*|\{\"chunk_id\".*|warning: truncated output.*|(?:process|command) exited with code \d+|process running\b.*|total output lines:.*|"
    r"\((?:\w+ completed with )?no output\)|"
    r"traceback \(most recent call last\):|\[[\w:.-]+\] \$ .*)$",
    re.IGNORECASE,
)
_VERDICT = re.compile(
    r"\b(?:passed|failed|ok|pass|success\w*|succeeded|built|finished|done|completed|up to date|"
    r"no issues|0 issues|clean|created|updated|merged|pushed)\b|^\[\S+ [0-9a-f]{7,}\]",
    re.IGNORECASE,
)


def is_framing(line: str) -> bool:
    """Whether a host wrote a line around a result: exit code, time, size."""
    return _NOISE.match(line) is not None


def read_outcome(text: str, *, is_error: bool) -> CallOutcome:
    """The outcome of a call, from its result's text and error flag."""
    head = text[:600]
    if head.lstrip().startswith(_REFUSED):
        # Hosts mark a refusal as an error; any tool may print its words.
        return CallOutcome(None, None, "", feedback_of(text) if is_error else "")
    code = _exit_code(text)
    failed = is_error or (code is not None and code != 0) or head.lstrip().startswith(_FAILED)
    line = _error_line(text) if failed else _verdict(text)
    return CallOutcome(not failed, code, line, "")


def _exit_code(text: str) -> int | None:
    # Hosts write it at the start or the very end; in between it is the output of something else.
    for part in (text[:400], text[-400:]):
        match = _EXIT.search(part) or _EXIT_JSON.search(part)
        if match:
            return int(match[1])
    return None


def _lines(text: str) -> list[str]:
    found = _ERROR_TAG.sub("", text).replace("\r", "\n").split("\n", SCANNED_LINES)
    lines = (line.strip() for line in found[:SCANNED_LINES])
    return [line[:LINE_CHARS] for line in lines if line and not _NOISE.match(line[:LINE_CHARS])]


def _error_line(text: str) -> str:
    lines = _lines(text)
    for pattern in (_STRONG, _ERROR):
        for line in lines:
            if pattern.search(line):
                return line
    return lines[0] if lines else ""


def _verdict(text: str) -> str:
    newest = list(islice(_newest_lines(text[-4000:]), LAST_LINES))
    found = next((line for line in newest if _VERDICT.search(line)), "")
    return found or (newest[0] if 0 < len(newest) <= 3 else "")


def _newest_lines(text: str) -> Iterator[str]:
    """Lines from the last one on, without what the host wrote around the result."""
    for line in reversed(_ERROR_TAG.sub("", text).replace("\r", "\n").split("\n")):
        line = line.strip()[:LINE_CHARS]
        if line and not _NOISE.match(line):
            yield line
