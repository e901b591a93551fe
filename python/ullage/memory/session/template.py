"""The form of the session notes: sections, each with a heading and a line in italics that stay as they are (SM-1)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

__all__ = [
    "DEFAULT_TEMPLATE",
    "TITLES",
    "Section",
    "Skeleton",
    "is_blank",
    "open_fences",
    "parse_notes",
    "skeleton",
]

_FORM = (
    ("Session Title", "A name for this session in five to ten words, dense and without filler"),
    (
        "Current State",
        "What is being worked on right now, what is open, and which steps follow directly",
    ),
    ("Task specification", "What the user asked for, with every decision about how it should be"),
    ("Files and Functions", "The files that matter, what is in them and why they matter"),
    ("Workflow", "Commands that are run, in which order, and how to read what they print"),
    (
        "Errors & Corrections",
        "Errors and how they were resolved, what the user corrected, what was tried and must not be tried again",
    ),
    (
        "Codebase and System Documentation",
        "The parts of the system, how they work and how they fit together",
    ),
    ("Learnings", "What worked, what did not, what to avoid; nothing that is in another section"),
    (
        "Key results",
        "Results that the user asked for, verbatim: an answer, a table, a document",
    ),
    ("Worklog", "Step by step, in one short line each: what was tried and what was done"),
)

TITLES = tuple(title for title, _ in _FORM)
"""The ten sections, in their order."""

DEFAULT_TEMPLATE = "\n\n".join(f"# {title}\n_{about}_" for title, about in _FORM) + "\n"
"""The notes before anything is known."""

_HEADING = re.compile(r"# +(\S.*?)\s*$")
_ITALIC = re.compile(r"_(?!_).*[^_\s]_\s*$|\*(?!\*).*[^*\s]\*\s*$")
_FENCE = re.compile(r"\s{0,3}(`{3,}|~{3,})(.*)$")


@dataclass(frozen=True, slots=True)
class Section:
    """One section of the notes.

    Attributes:
        title: The heading's text; empty for the part before the first heading.
        about: The line in italics; empty if there is none.
        body: What follows, without blank lines at its ends.
    """

    title: str
    about: str
    body: str

    def text(self, body: str | None = None) -> str:
        """The section as it is written, perhaps with another body."""
        head = [f"# {self.title}"] if self.title else []
        said = self.body if body is None else body
        return "\n".join([*head, *([self.about] if self.about else []), *([said] if said else [])])

    def __repr__(self) -> str:
        return f"Section({self.title!r}, {len(self.body)} characters)"


class Skeleton(NamedTuple):
    """What no edit may change: headings and lines in italics, in their order; and whether every fence is closed."""

    lines: tuple[tuple[str, str], ...]
    closed: bool


def parse_notes(text: str) -> list[Section]:
    """The sections of notes; lines inside code fences are never headings.

    Returns:
        At least what stands before the first heading, if that is anything.
    """
    sections, _ = _read(text)
    return sections


def skeleton(text: str) -> Skeleton:
    """The part of notes that edits must leave alone."""
    sections, closed = _read(text)
    return Skeleton(tuple((s.title, s.about) for s in sections if s.title), closed)


def is_blank(text: str, template: str = DEFAULT_TEMPLATE) -> bool:
    """Whether notes are still empty: no text, or the bare template."""
    if not text.strip() or text.split() == template.split():
        return True
    return all(not section.body for section in parse_notes(text) if section.title or section.body)


def open_fences(body: str) -> Iterator[tuple[str, bool]]:
    """Each line, and whether it belongs to a code fence."""
    fence = ""
    for line in body.split("\n"):
        fence, inside = _fenced(line, fence)
        yield line, inside


def _read(text: str) -> tuple[list[Section], bool]:
    rows: list[tuple[str, list[str]]] = [("", [])]
    fence = ""
    for line in text.replace("\r\n", "\n").split("\n"):
        fence, inside = _fenced(line, fence)
        heading = None if inside else _HEADING.match(line)
        if heading is not None:
            rows.append((heading[1], []))
        else:
            rows[-1][1].append(line)
    found = [_section(title, lines) for title, lines in rows]
    return [s for s in found if s.title or s.body], not fence


def _fenced(line: str, fence: str) -> tuple[str, bool]:
    """The fence that is open after a line (empty: none), and whether the line belongs to a block."""
    mark = _FENCE.match(line)
    if not fence:
        # A backtick fence has no backticks in what follows it: else it is code inside a line.
        opens = mark is not None and not (mark[1][0] == "`" and "`" in mark[2])
        return (mark[1], True) if mark is not None and opens else ("", False)
    closes = mark is not None and mark[1].startswith(fence) and not mark[2].strip()
    return ("" if closes else fence), True


def _section(title: str, lines: list[str]) -> Section:
    about = ""
    if title and lines and _ITALIC.match(lines[0]):
        about, lines = lines[0].rstrip(), lines[1:]
    return Section(title, about, "\n".join(lines).strip("\n").rstrip())
