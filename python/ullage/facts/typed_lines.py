"""Which lines of a message its author typed; the others were pasted.

A message may hold a mail, a log, a page or another agent's words. Marks show it: a head, a greeting, a signature, a fence,
a ruler on both sides, a line that announces it. What they are is in `pasted.toml`. In case of doubt a line was pasted.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence, Set
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ullage.facts.fences import unfenced
from ullage.facts.searched import SearchedPatterns

__all__ = ["ELEMENT", "is_reported", "typed"]

MOST_CHARS = 200_000
"""Characters of a message that are read, half at each end: more is read only in the middle of a paste."""

MOST_LINES = 8_000
"""Lines of it, half at each end, so that a paste of short lines takes no longer."""

MOST_IN_LINE = 300
"""Characters of a line in which a mark may stand; of a line that announces something, its last ones."""

_CUT = "\x00"
"""A line in place of a fence or an element."""


ELEMENT = "\x01"
"""Stands for an element amid a line: without it the sentence around it would lose its object."""


class _Mark(IntEnum):
    """What may stand in a line, by its place in the patterns."""

    OPENS, INTRODUCES, MACHINE, SHOWN, BOX, ASKS, CLOSES, PARTS, POINTS = range(9)


class _Marks(NamedTuple):
    """What shows that text was pasted, from `pasted.toml`."""

    lines: SearchedPatterns  # by `_Mark`
    text: re.Pattern[str]
    machine_text: re.Pattern[str]
    own: re.Pattern[str]
    reported: SearchedPatterns
    labels: frozenset[str]


@cache
def _marks() -> _Marks:
    data = tomllib.loads(Path(__file__).with_name("pasted.toml").read_text(encoding="utf-8"))
    either = {name: "|".join(filter(None, text.split("\n"))) for name, text in data.items()}
    begins = [rf"^(?:{either[mark.name.lower()]})" for mark in _Mark if mark is not _Mark.POINTS]
    words = {
        name: re.compile(rf"\b(?:{either[name]})\b", re.IGNORECASE)
        for name in ("text", "machine_text", "own")
    }
    return _Marks(
        lines=SearchedPatterns([*begins, rf"\b(?:{either['points']})\W*$"]),
        reported=SearchedPatterns([either["reported"]]),
        labels=frozenset(data["labels"].split()),
        **words,
    )


def typed(text: str) -> str:
    """A message with every line blanked that was not typed; of a long one, its two ends.

    Args:
        text: The user's words of one message.
    """
    plain = _without_tagged(unfenced(text, open_too=True, gap=_CUT))
    return "\n".join(_typed_lines(_ends(plain)))


def is_reported(sentence: str) -> bool:
    """Whether a sentence says what somebody else said or wrote: “the docs say …”, “according to Bob …”."""
    return _marks().reported.first(sentence) >= 0


def _ends(text: str) -> list[str]:
    if len(text) > MOST_CHARS:
        head = text.rfind("\n", 0, MOST_CHARS // 2)
        tail = text.find("\n", len(text) - MOST_CHARS // 2)
        head = head if head >= 0 else MOST_CHARS // 2
        text = f"{text[:head]}\n{text[tail if tail >= 0 else len(text) - MOST_CHARS // 2 :]}"
    lines = text.split("\n")
    if len(lines) > MOST_LINES:
        lines = lines[: MOST_LINES // 2] + lines[-MOST_LINES // 2 :]
    return lines


_OPENING_TAG = re.compile(r"<([A-Za-z][\w:.-]{0,60})(?:[ \t\n][^<>]{0,400})?>")
_GAP = f"\n{_CUT}\n"


def _without_tagged(text: str) -> str:
    """Remove whole elements; one that opens a line and is never closed removes the rest. Linear."""
    if "<" not in text:
        return text
    kept: list[str] = []
    unclosed: set[str] = set()
    position = 0
    for match in _OPENING_TAG.finditer(text):
        tag = match[1]
        if match.start() < position or tag in unclosed:
            continue
        end = text.find(f"</{tag}>", match.end())
        if end >= 0:
            before = text[position : match.start()]
            kept.append(before + (ELEMENT if before.rpartition("\n")[2].strip() else _GAP))
            position = end + len(tag) + 3
        elif not text[
            max(position, text.rfind("\n", 0, match.start()) + 1) : match.start()
        ].strip():
            kept.append(text[position : match.start()])
            return "".join(kept)
        else:
            unclosed.add(tag)
    kept.append(text[position:])
    return "".join(kept)


# ---- lines -----------------------------------------------------------------------------------------


def _typed_lines(lines: Sequence[str]) -> list[str]:
    return list(_Lines(lines).typed())


class _Lines:
    """The lines of one message, and which of them are known to be pasted."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._marks = _marks()
        self._pasted = bytearray(line == _CUT for line in lines)

    def typed(self) -> Iterator[str]:
        """Each line, empty where it was not typed."""
        if len(self._lines) > 1:
            self._between_rulers()
            self._between_marks()
            self._quoted_paragraphs()
            self._transcript()
        self._passages()
        if len(self._lines) > 1:
            self._tables()
        return (
            "" if pasted else line for line, pasted in zip(self._lines, self._pasted, strict=True)
        )

    def _hide(self, start: int, stop: int | None = None) -> None:
        stop = len(self._lines) if stop is None else stop
        self._pasted[start:stop] = b"\x01" * (stop - start)

    # ---- what stands between two marks

    def _between_rulers(self) -> None:
        rulers = [at for at, line in enumerate(self._lines) if self._is_ruler(at, line)]
        if not rulers:
            return
        first, last = rulers[0], rulers[-1]
        if last > first:
            self._hide(first, last + 1)
        elif not any(map(str.strip, self._lines[:first])):
            self._hide(first)

    def _is_ruler(self, at: int, line: str) -> bool:
        if not _RULER.match(line) and not self._is_titled_ruler(line):
            return False
        above = self._lines[at - 1].strip() if at else ""
        heading = above and abs(len(above) - len(line.strip())) <= HEADING_SLACK
        return not (heading and (at < 2 or not self._lines[at - 2].strip()))

    def _is_titled_ruler(self, line: str) -> bool:
        """`==== X ====`, unless X is what users call their own parts."""
        match = _TITLED_RULER.match(line)
        return match is not None and not self._is_own(match[1])

    def _is_own(self, title: str) -> bool:
        return not self._marks.labels.isdisjoint(re.findall(r"\w+", title.lower()))

    def _between_marks(self) -> None:
        opened, closer = -1, ""
        for at, line in enumerate(self._lines):
            bare = line.strip()
            if opened < 0 and bare in _CLOSERS:
                opened, closer = at, _CLOSERS[bare]
            elif opened >= 0 and bare == closer:
                self._hide(opened, at + 1)
                opened = -1
        if opened >= 0:
            self._hide(opened)

    def _quoted_paragraphs(self) -> None:
        """A quotation that begins a paragraph and ends a later one."""
        opened, closers, starts = -1, "", True
        for at, line in enumerate(self._lines):
            bare = line.strip()
            if opened < 0 and starts and bare[:1] in _OPENERS:
                inner = bare[1:]
                closers = _OPENERS[bare[0]]
                opened = -1 if any(mark in inner for mark in closers) else at
            elif opened >= 0 and bare.rstrip(".,!?") and bare.rstrip(".,!?")[-1] in closers:
                self._hide(opened, at + 1)
                opened = -1
            starts = not bare

    def _transcript(self) -> None:
        """Two lines of speakers make a transcript: all from the first one on is another's."""
        speakers = [at for at, line in enumerate(self._lines) if self._speaks(line)]
        if len(speakers) > 1 and _Mark.CLOSES not in self._marked(speakers[0]):
            self._hide(speakers[0])

    def _speaks(self, line: str) -> bool:
        if ":" not in line and "：" not in line:
            return False
        if _SPEAKER.match(line):
            return True
        named = _NAMED.match(line)
        return named is not None and not self._is_own(named[1])

    # ---- what a line opens

    def _passages(self) -> None:
        """Heads and announcing lines, up to the end; logs and speakers, up to an empty line."""
        at, until_empty, in_list = 0, False, False
        while at < len(self._lines):
            line = self._lines[at]
            if not line.strip():
                until_empty = False
            elif not self._pasted[at]:
                marks = self._marked(at)
                if _Mark.OPENS in marks or _Mark.INTRODUCES in marks:
                    return self._hide(at)
                if self._closes(at, marks):
                    return self._hide(0)  # what is signed was another's from the beginning
                # What follows a log's or a shell's line, or a speaker's, belongs to it.
                until_empty = until_empty or _Mark.MACHINE in marks or self._speaks(line)
                item = _LIST_ITEM.match(line) is not None
                shown = _Mark.SHOWN in marks and not (item and in_list)
                self._pasted[at] = until_empty or shown or _Mark.BOX in marks
                in_list = item or (in_list and line[:1] in " \t")
                if kind := self._announced(line, marks):
                    at = self._after_announcement(at, kind)
                    until_empty = until_empty and bool(self._lines[at - 1].strip())
                    continue
            at += 1
        return None

    def _marked(self, at: int) -> Set[int]:
        line = self._lines[at].rstrip()
        found = frozenset(self._marks.lines.found(line[:MOST_IN_LINE]))
        if len(line) > MOST_IN_LINE:
            end = self._marks.lines.found(line[-MOST_IN_LINE:])
            found = found - {_Mark.POINTS} | {_Mark.POINTS}.intersection(end)
        return found

    def _announced(self, line: str, marks: Set[int]) -> str:
        """What a line says of the text that follows: `text`, `machine`; empty: nothing."""
        bare = line.rstrip()
        if _Mark.ASKS in marks and len(bare) <= SHORT_LINE:
            return "text"
        points = _Mark.POINTS in marks
        if not bare.endswith((":", "：")) and (len(bare) > SHORT_LINE * 2 or not points):
            return ""
        end = bare[-200:]
        text, machine, own = (
            _last(each, end)
            for each in (self._marks.text, self._marks.machine_text, self._marks.own)
        )
        if own >= 0 and (own >= max(text, machine) or _HOLD.search(end)):
            return ""
        if text < 0 and machine >= 0:
            return "machine"
        return "text" if text >= 0 or points else ""

    def _after_announcement(self, at: int, kind: str) -> int:
        """Where the user may go on after a text that was announced."""
        follows = (n for n in range(at + 1, len(self._lines)) if self._lines[n].strip())
        first = next(follows, -1)
        if first < 0:
            if _WORKS_ON.match(self._lines[at]) and at and not self._lines[at - 1].strip():
                self._hide(0, at)
            return len(self._lines)
        heading = self._lines[first].startswith("#")  # of the text, no comment of a shell
        if self._pasted[first] or not (heading or _SHOWN.isdisjoint(self._marked(first))):
            return first
        end = self._machine_end(first) if kind == "machine" else len(self._lines)
        self._hide(at + 1, end)
        return end

    def _machine_end(self, at: int) -> int:
        """Where prose begins again after paragraphs of a log; the end, where none of them looks like one."""
        seen = False
        for start, stop in self._paragraphs(at):
            lines = self._lines[start:stop]
            machine = 2 * sum(map(bool, map(_MACHINE.search, lines))) >= len(lines)
            if seen and not machine:
                return start
            seen = seen or machine
        return len(self._lines)

    def _paragraphs(self, at: int = 0) -> Iterator[tuple[int, int]]:
        start = at
        for place in range(at, len(self._lines) + 1):
            if place == len(self._lines) or not self._lines[place].strip():
                if place > start:
                    yield start, place
                start = place + 1

    def _tables(self) -> None:
        for start, stop in self._paragraphs():
            lines = [line for line in self._lines[start:stop] if line != _CUT]
            if len(lines) > 1 and (_is_csv(lines) or self._is_data(lines)):
                self._hide(start, stop)

    def _is_data(self, lines: Sequence[str]) -> bool:
        """YAML, an INI file, variables, a table without borders."""
        keys = [match[1] or match[2] for match in map(_KEY.match, lines) if match]
        if 2 * len(keys) >= len(lines) and len(keys) > 1:
            return not all(map(self._is_own, keys))
        return sum(" | " in line or "\t" in line.strip() for line in lines) > 1

    def _closes(self, at: int, marks: Set[int]) -> bool:
        below = self._lines[at + 1].strip() if at + 1 < len(self._lines) else ""
        named = _Mark.PARTS in marks and _NAME.fullmatch(below) is not None
        return named or _Mark.CLOSES in marks


def _is_csv(lines: Sequence[str]) -> bool:
    for mark in ",;\t":
        if _HEADER[mark].fullmatch(lines[0]):
            count = lines[0].count(mark)
            return all(line.count(mark) == count for line in lines[1:])
    return False


def _last(pattern: re.Pattern[str], text: str) -> int:
    return max((match.end() for match in pattern.finditer(text)), default=-1)


_SHOWN = frozenset((_Mark.MACHINE, _Mark.SHOWN, _Mark.BOX))
SHORT_LINE = 90
HEADING_SLACK = 2
"""Characters by which the line under a heading may differ from it."""

_RULER = re.compile(r"[ \t]*(?:([-=_*~#+.─═━])(?:[ ]?\1){2,}|[─═━]{3,})[ \t]*$")
_TITLED_RULER = re.compile(
    r"[ \t]*[-=_~+]{3,}[ \t]*([^\s\-=_~+][^\n]{0,120}?)[ \t]*[-=_~+]{2,}[ \t]*$"
)
_CLOSERS = {"'''": "'''", '"""': '"""', "<<<": ">>>", "/*": "*/", "/**": "*/"}
_OPENERS = {"“": "”", "„": "“”", "«": "»", "‹": "›", "「": "」", "『": "』", "‘": "’", '"': '"'}
_LIST_ITEM = re.compile(r"[ \t]*(?:[-*+•]|\d{1,3}[.)])[ \t]")
_SPEAKER = re.compile(
    r"[ \t]*(?:\*\*|\[)?(?:system|assistant|human|user|ai|bot|tool|agent|developer|function|claude|chatgpt|model)(?:\*\*|\])?"
    r"[ \t]*:",
    re.IGNORECASE,
)
_CAPITAL = r"[A-ZÀ-ÖØ-ÞА-ЯЁ](?:[^\W\d_]|[.'’-]){0,20}"
_NAME = re.compile(rf"{_CAPITAL}(?: {_CAPITAL}){{0,2}}")
_NAMED = re.compile(
    rf"[ \t]*(?:\*\*|\[|@)?({_CAPITAL}(?: {_CAPITAL}){{0,2}})(?:\*\*|\])?[ \t]*(?:\([^)\n]{{1,30}}\))?(?:\*\*)?[ \t]*(?::|：)(?:\*\*)?[ \t]+\S"
)
"""Somebody's name and a colon."""
_HOLD = re.compile(r"\b(?:are|is|apply|applies|hold|gelten|gilt|sind)\b", re.IGNORECASE)
_WORKS_ON = re.compile(
    r"[ \t]*(?:(?:please|pls|can you|could you|bitte)[ \t,]+)*(?:summari[sz]|translat|proofread|rephras|paraphras|reword|rewrit|transcrib|shorten|polish|tl;?dr|fasse|übersetz|traduis|résum|traduc|resum)",
    re.IGNORECASE,
)
_MACHINE = re.compile(
    r"[=<>{}\[\]|\\/_]\S|\S[=<>{}\[\]|_;]|\d{3,}|^[ \t]+\S|^\W|\w\.\w|\w(?:Error|Exception)\b"
)
_KEY = re.compile(
    r"[ \t]{0,40}(?:-[ \t]{1,8})?(?:export[ \t]{1,8})?([a-z_][\w.-]{0,60}|[A-Z][A-Z0-9_]{1,60})[ \t]{0,40}(?::(?:[ \t]|$)|=[ \t]?\S)"
    r"|[ \t]{0,40}(\[[\w .-]{1,60}\])[ \t]*$"
)
_HEADER = {
    mark: re.compile(
        rf"[ \t]*\"?[\w .-]{{1,30}}\"?(?:{mark}[ ]?\"?[\w .-]{{1,30}}\"?){{1,40}}[ \t]*"
    )
    for mark in ",;\t"
}
