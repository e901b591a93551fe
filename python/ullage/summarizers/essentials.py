"""The lines that come before everything except the user's words: changed files, open failures, decisions, open work."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence

from ullage.facts.model import Facts, Previous
from ullage.summarizers.budgeted_text import Unit, cost, inline

__all__ = [
    "ESSENTIAL",
    "carried_failure",
    "changed_line",
    "changed_paths",
    "essential_cost",
    "is_dense",
    "is_open_failure",
    "ranked_old",
]

ESSENTIAL = 1 << 30
"""Subtracted from the rank of a unit that comes first."""

_UNSOLVED = re.compile(r"not seen to succeed since$|was refused; the user said")
_MISSED = re.compile(
    r"^- `[^`\n]*?(?P<name>[^\s`]{3,})` failed: `(?=[^`]*(?:does not exist|no such file|not found|ENOENT))[^`]*(?P=name)",
    re.IGNORECASE,
)


def is_open_failure(piece: str) -> bool:
    """Whether a line of section 4 says that something failed and is still to be dealt with: not that what was looked for is missing."""
    return _UNSOLVED.search(piece) is not None and not _MISSED.match(piece)


_FIRST: dict[int, Callable[[str], object]] = {
    2: re.compile(r"^- https?://").match,
    4: is_open_failure,
    5: re.compile(r"^- (?:Decided:|The assistant said:|Committed |Seen: )").match,
    7: re.compile(r"^- (?:\[ \]|Said to be open:|Done:|Withdrawn:|Waiting for)").match,
}
"""Lines of an earlier summary that are essential, by section."""


def ranked_old(number: int, pieces: Sequence[str]) -> list[Unit]:
    """Pieces of the previous summary, the last ones first, essential ones before all."""
    first = _FIRST.get(number)
    return [
        Unit(piece, len(pieces) - at - (ESSENTIAL if first and first(piece) else 0))
        for at, piece in enumerate(pieces)
    ]


def essential_cost(units: Sequence[Unit]) -> int:
    """Tokens of the essential ones, in UTF-8 bytes / 4."""
    return sum(cost(unit.text) for unit in units if unit.rank < 0)


_FAILED = re.compile(r"^- (`[^`\n]*`) failed: .*; (not seen to succeed since)$", re.DOTALL)


def carried_failure(piece: str, facts: Facts) -> str:
    """A failure of the previous summary, closed where the same call has succeeded since."""
    found = _FAILED.match(piece)
    if found is None:
        return piece
    for step in facts.steps:
        if step.ok and inline(step.line, 160) == found[1]:
            return piece[: found.start(2)] + "later succeeded"
    return piece


# ---- changed files in one line ------------------------------------------------------------------

_CHANGED = "- Changed"
_LINE = re.compile(r"^- Changed(?: under `([^`\n]+)`)?: (.*)$")
_OWN = re.compile(r"^- `([^`\n]+)`: (?:[^\n]*\b)?(?:edited|written|deleted)\b")
LEAST_PREFIX = 12


def is_dense(piece: str) -> bool:
    """Whether a line of a summary lists changed files; it is written again from what is known now."""
    return piece.startswith(_CHANGED)


def changed_paths(facts: Facts) -> list[str]:
    """Every file that the session changed, the newest last, those of the previous summary too."""
    old = [] if facts.previous is None else _told(facts.previous)
    now = [file.path for file in sorted(facts.files, key=lambda file: file.last) if file.changed]
    return [path for path in dict.fromkeys(old) if path not in now] + now


def _told(previous: Previous) -> list[str]:
    paths: list[str] = []
    for line in previous.section(3).split("\n"):
        if own := _OWN.match(line):
            paths.append(own[1])
        elif dense := _LINE.match(line):
            base = dense[1] or ""
            paths += [base + path for path in dense[2].split(", ") if not path.startswith("…")]
    return paths


def changed_line(paths: Sequence[str], tokens: int) -> str:
    """The paths on one line or two, the newest where not all fit; those under one folder without its name."""
    base = _folder(paths)
    under = [path for path in paths if base and path.startswith(base)]
    rest = [path for path in paths if path not in under]
    lines: list[str] = []
    for head, found in ((f"{_CHANGED}: ", rest), (f"{_CHANGED} under `{base}`: ", under)):
        line = _fitting(head, [path[len(base) :] if found is under else path for path in found], tokens)  # fmt: skip
        if line:
            lines.append(line)
            tokens -= cost(line)
    return "\n".join(lines)


def _folder(paths: Sequence[str]) -> str:
    absolute = [path for path in paths if path.startswith("/")]
    if len(absolute) < 3:
        return ""
    common = os.path.commonpath(absolute) + "/"
    return common if len(common) >= LEAST_PREFIX else ""


def _fitting(head: str, paths: Sequence[str], tokens: int) -> str:
    spent = cost(head) + 4
    kept: list[str] = []
    for path in reversed(paths):
        price = (len(path.encode("utf-8", "replace")) + 5) // 4
        if spent + price > tokens:
            break
        kept.append(path)
        spent += price
    if not kept:
        return ""
    missing = len(paths) - len(kept)
    return head + ", ".join([f"… {missing} more"] * bool(missing) + kept[::-1])
