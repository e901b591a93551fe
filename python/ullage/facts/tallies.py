"""Running tallies for the facts: names by weight and age, files by what was done, failures by what followed."""

from __future__ import annotations

import re
from dataclasses import replace

from ullage._engine import core
from ullage.facts.calls import Action, CallEffect, describe
from ullage.facts.identifiers import KINDS, NameKind
from ullage.facts.model import FailedCall, FileUse, Name, Origin
from ullage.facts.outcomes import CallOutcome
from ullage.facts.well_known import is_well_known

__all__ = ["MAX_NAMES", "FailureTally", "FileTally", "NameTally", "command_key"]

MAX_NAMES = 2000
"""Names that are ranked at most."""

MAX_HASHES = 12
"""Of one result; more are a listing of objects, of which nothing but the program knows which one matters."""

MAX_RANGES = 24

WEIGHTS = {
    "user": 8,
    "call": 4,
    "assistant": 3,
    "edit": 2,
    "summary": 2,
    "result": 1,
}
"""How much one use of a name counts, depending on who used it. With `1 / (5 + age)` this order found the
names of the next 20 tool calls best in recorded sessions (see `benches/fidelity`)."""

_ORIGINS = {
    "user": Origin.USER,
    "summary": Origin.SUMMARY,
    "result": Origin.TOOL,
    "call": Origin.ASSISTANT,
    "edit": Origin.ASSISTANT,
    "assistant": Origin.ASSISTANT,
}
_AUTHORS = tuple(WEIGHTS)
_NUMBERS = {author: number for number, author in enumerate(_AUTHORS)}


class NameTally:
    """Which names were used, by whom, how long ago, and with which file or command; the engine counts them."""

    def __init__(self) -> None:
        self._counted = core.NameTally(tuple(WEIGHTS.values()))

    def add(self, text: str, source: str, index: int, home: str = "") -> None:
        """Counts each name in a text once.

        Args:
            text: What names them.
            source: Who wrote it: a key of `WEIGHTS`.
            index: Index of the message.
            home: The file whose text it is, or the command; empty: neither.
        """
        self._counted.add(
            text,
            _NUMBERS[source],
            index,
            home=home,
            moves=source == "edit",
            most_hashes=MAX_HASHES if source == "result" else 0,
        )

    def add_command(self, name: str, index: int) -> None:
        """Counts a program with its subcommand that was run."""
        self._counted.add_name(name, _NUMBERS["call"], index)

    def ranked(self, end: int, most: int) -> tuple[Name, ...]:
        """The names, those of most worth for their room first; ties by text.

        Args:
            end: Index of the newest message.
            most: How many are wanted.
        """
        return tuple([_name(*row) for row in self._counted.ranked(end, most)])


def _name(
    text: str, number: int | None, count: int, last: int, score: int, author: int, home: str
) -> Name:
    kind = NameKind.COMMAND if number is None else KINDS[number]
    origin = _ORIGINS[_AUTHORS[author]]
    return Name(text, kind, count, last, score, origin, home, is_well_known(text, kind))


class FileTally:
    """What was done to each file, in order of first use."""

    def __init__(self) -> None:
        self._files: dict[str, _Use] = {}

    def add(self, call: CallEffect, index: int) -> None:
        """Counts a call about a file that succeeded."""
        path = call.target.strip()
        if not path or len(path) > 1000 or "\n" in path:
            return
        use = self._files.get(path)
        if use is None:
            use = self._files[path] = _Use(index)
        use.add(call, index)

    def files(self) -> tuple[FileUse, ...]:
        """All files."""
        return tuple([use.of(path) for path, use in self._files.items()])


class _Use:
    """What was done to a file so far."""

    __slots__ = ("code", "deleted", "edits", "first", "last", "ranges", "reads", "writes")

    def __init__(self, first: int) -> None:
        self.first = first
        self.ranges: tuple[tuple[int, int], ...] = ()
        self.reads = self.edits = self.writes = 0
        self.deleted, self.code = False, ""

    def add(self, call: CallEffect, last: int) -> None:
        self.last = last
        if call.action is Action.READ:
            self.reads += 1
            self.ranges = _with_range(self.ranges, call)
        elif call.action is Action.DELETE:
            self.deleted, self.code = True, ""
        else:
            self.edits += call.action is Action.EDIT
            self.writes += call.action is Action.WRITE
            self.deleted = False
            self.code = call.code if call.code.strip() else self.code

    def of(self, path: str) -> FileUse:
        done = (self.reads, self.edits, self.writes, self.deleted)
        return FileUse(path, self.first, self.last, self.ranges, *done, self.code)


def _with_range(
    ranges: tuple[tuple[int, int], ...], call: CallEffect
) -> tuple[tuple[int, int], ...]:
    first = max(call.start, 1)
    new = (first, first + call.lines - 1 if call.lines else 0)
    return merge_ranges((*ranges, new))[-MAX_RANGES:]


def merge_ranges(ranges: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    """Line ranges in order, adjacent ones merged; an end of 0 means the end of the file."""
    merged: list[tuple[int, int]] = []
    for first, last in sorted(ranges, key=lambda r: (r[0], r[1] == 0, r[1])):
        if merged and (merged[-1][1] == 0 or first <= merged[-1][1] + 1):
            start, stop = merged[-1]
            merged[-1] = (start, 0 if 0 in (stop, last) else max(stop, last))
        else:
            merged.append((first, last))
    return tuple(merged)


_CD = re.compile(r"^cd \S+ ?(?:&&|;) ?")
_TAIL = re.compile(r" ?(?:2>&1 ?)?\| ?(?:head|tail|grep|rg|less|cat|wc)\b.*$| ?2>&1$")
"""For commands with single spaces only: the pattern would try every split of a longer run."""


def command_key(command: str) -> str:
    """A command without parts that do not change its meaning: a leading `cd`, a trailing pager or filter."""
    core = " ".join(command[:2000].split())
    return _TAIL.sub("", _CD.sub("", core)).strip()


def _key(call: CallEffect) -> tuple[str, str]:
    if call.action is Action.COMMAND:
        return "command", command_key(call.target)
    if call.action in (Action.EDIT, Action.WRITE):
        return "change", call.target
    return call.name, call.target[:500]


class FailureTally:
    """What failed, and which later success of the same thing ended it."""

    def __init__(self) -> None:
        self._all: list[FailedCall] = []
        self._open: dict[tuple[str, str], list[int]] = {}
        self._changes: list[tuple[int, str]] = []

    def failed(self, call: CallEffect, outcome: CallOutcome, index: int) -> None:
        """Record a call that failed or was refused."""
        self._open.setdefault(_key(call), []).append(len(self._all))
        self._all.append(FailedCall(index, describe(call), outcome.line, outcome.feedback))

    def succeeded(self, call: CallEffect, index: int) -> None:
        """Close the failures of the same thing."""
        if call.action in (Action.EDIT, Action.WRITE):
            self._changes.append((index, call.target))
        if not self._open:
            return
        for place in self._open.pop(_key(call), ()):
            failure = self._all[place]
            between = (path for at, path in self._changes if failure.index < at < index)
            by = ", ".join(list(dict.fromkeys(between))[-4:])
            self._all[place] = replace(failure, fixed_index=index, fixed_by=by)

    def failures(self) -> tuple[FailedCall, ...]:
        """All failures, oldest first."""
        return tuple(self._all)
