"""Limits of the notes: one per section and one for all (SM-4), and cutting them for a summary (KEEP-5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ullage.memory.session.template import Section, parse_notes

__all__ = ["FIRST", "Excess", "TrimmedNotes", "cut_notes", "excess"]

Measure = Callable[[str], int]

FIRST = ("Current State", "Errors & Corrections")
"""Sections that are shortened last."""


@dataclass(frozen=True, slots=True)
class Excess:
    """By how much notes are too long.

    Attributes:
        total: Tokens of all sections.
        limit: Tokens that they may have together.
        sections: Title and tokens of each section over its own limit, the longest first.
    """

    total: int
    limit: int
    sections: tuple[tuple[str, int], ...]

    def __bool__(self) -> bool:
        return bool(self.sections) or self.total > self.limit


@dataclass(frozen=True, slots=True)
class TrimmedNotes:
    """Notes that fit, and the titles of the sections that lost something."""

    text: str
    shortened: tuple[str, ...]


def excess(notes: str, *, section_tokens: int, total_tokens: int, measure: Measure) -> Excess:
    """What is too long in notes.

    Args:
        notes: The file.
        section_tokens: Limit of one section.
        total_tokens: Limit of all.
        measure: Tokens of a text.
    """
    sizes = [(section.title, measure(section.text())) for section in parse_notes(notes)]
    over = sorted((row for row in sizes if row[1] > section_tokens), key=lambda row: -row[1])
    return Excess(sum(size for _, size in sizes), total_tokens, tuple(over))


def cut_notes(
    notes: str, *, section_tokens: int, total_tokens: int, measure: Measure, where: str = ""
) -> TrimmedNotes:
    """Notes for a reader, within their limits; cuts are marked, with the place of the rest.

    Lines in italics are instructions for editing and are removed, as are empty sections.
    Sections are cut at line ends from their end on. Over the limit of all, the sections of `FIRST` are
    kept first, then the others share what is left in proportion to their size.

    Args:
        notes: The file.
        section_tokens: Limit of one section.
        total_tokens: Limit of all.
        measure: Tokens of a text.
        where: Path of the whole notes; empty: nowhere.
    """
    sections = [replace(section, about="") for section in parse_notes(notes) if section.body]
    wanted = [min(measure(section.text()), section_tokens) for section in sections]
    room = _rooms(sections, wanted, total_tokens)
    written, shortened = [], []
    for section, tokens in zip(sections, room, strict=True):
        text = section.text()
        if measure(text) > tokens:
            text = _shorter(section, tokens, measure, where)
            shortened.append(section.title)
        written.append(text)
    return TrimmedNotes("\n\n".join(written), tuple(shortened))


def _rooms(sections: list[Section], wanted: list[int], total: int) -> list[int]:
    if sum(wanted) <= total:
        return wanted
    room, left = list(wanted), total
    for at, section in enumerate(sections):
        if section.title in FIRST:
            room[at] = min(wanted[at], left)
            left -= room[at]
    rest = [at for at, section in enumerate(sections) if section.title not in FIRST]
    whole = max(sum(wanted[at] for at in rest), 1)
    for at in rest:
        room[at] = wanted[at] * left // whole
    return room


def _shorter(section: Section, tokens: int, measure: Measure, where: str) -> str:
    """As many lines as fit; of a single line too long for that, its beginning."""
    lines = section.body.split("\n")
    keep = _most(len(lines), lambda n: measure(_with_note(section, lines, n, where)) <= tokens)
    if keep:
        return _with_note(section, lines, keep, where)
    line = lines[0]
    chars = _most(len(line), lambda n: measure(_with_note(section, [line[:n]], 1, where)) <= tokens)
    return _with_note(section, [line[:chars], *lines], 1 if chars else 0, where)


def _most(high: int, fits: Callable[[int], bool]) -> int:
    """The largest number up to `high` that fits, 0 if none does."""
    low = 0
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def _with_note(section: Section, lines: list[str], keep: int, where: str) -> str:
    at = f"; the whole section is in {where}" if where else ""
    note = f"[… the rest of this section was cut{at} …]"
    body = _closed(lines[:keep])
    return section.text("\n".join([*body, note]))


def _closed(lines: list[str]) -> list[str]:
    """The lines, with a code fence that the cut left open closed again."""
    fence = ""
    for line in lines:
        bare = line.strip()
        if fence and bare.startswith(fence) and not bare.strip(fence[0]):
            fence = ""
        elif not fence and bare.startswith(("```", "~~~")):
            fence = bare[: len(bare) - len(bare.lstrip(bare[0]))]
    return [*lines, fence] if fence else lines
