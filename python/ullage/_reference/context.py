"""Which lines of a transcript are in the model's context, where nothing but compactions took something out of it.

The twin of `rust/core/src/jsonl/context.rs`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ullage._engine.digests import FoldedContext
from ullage._reference.digest import MessageFlag

__all__ = ["BOUNDARY", "GivenMark", "fold"]

BOUNDARY = "compact_boundary"
RECORDS = (
    "microcompact_boundary",
    "snip_boundary",
    "content-replacement",
    "collapse-expand",
    "collapse-commit",
    "marble-origami-commit",
    "collapse-snapshot",
    "marble-origami-snapshot",
)
SPEAKS = ("user", "assistant", "attachment")

GivenMark = tuple[int, str, list[str], bool, list[str], str, str, str]
"""Line, logical parent, group, whether it needs no summary, kept entries, head and tail of a kept segment, anchor."""

Head = tuple[str, str, str, str, int]


class _Mark(NamedTuple):
    at: int
    parent: str
    group: list[str]
    replaced: bool
    kept: list[str]
    head: str
    tail: str
    anchor: str


class _Row(NamedTuple):
    at: int
    kind: str
    uuid: str
    parent: str
    flags: int
    mark: _Mark | None

    @property
    def aside(self) -> bool:
        return bool(self.flags & (MessageFlag.SIDECHAIN | MessageFlag.SYNTHETIC))

    @property
    def summary(self) -> bool:
        return bool(self.flags & MessageFlag.SUMMARY)

    @property
    def prompt(self) -> bool:
        typed = self.kind == "user" and bool(self.flags & MessageFlag.USER_INPUT)
        return typed and not self.aside and not self.summary


class _Unknown(Exception):
    """More than compactions changed the context, or a boundary has no mark."""


def fold(heads: Sequence[Head], given: Iterable[GivenMark]) -> FoldedContext | None:
    """The lines in context; `None` if that takes more than this fold knows."""
    marks = {mark[0]: _Mark(*mark) for mark in given}
    try:
        rows = [_row(at, head, marks) for at, head in enumerate(heads)]
        return _Fold().run(rows, _left_out(rows))
    except _Unknown:
        return None


def _row(at: int, head: Head, marks: Mapping[int, _Mark]) -> _Row:
    kind, subtype, uuid, parent, flags = head
    bounds = subtype == BOUNDARY
    # A boundary of another type counts in some places and not in others.
    if (kind != "system" and bounds) or kind == BOUNDARY or (bounds and at not in marks):
        raise _Unknown
    record = subtype if kind == "system" else kind
    return _Row(
        at,
        record if record in RECORDS else kind,
        uuid,
        parent,
        flags,
        marks.get(at) if bounds else None,
    )


# ---- what never counts -----------------------------------------------------------------------


def _left_out(rows: Sequence[_Row]) -> set[int]:
    out = {row.at for row in rows if row.aside}
    # A rewind can take back a compaction, so branches come first.
    tops = _rewound(list(_left(rows, out)))
    if tops:
        out |= _below(list(_left(rows, out)), tops)
    return out | _unfinished(list(_left(rows, out)))


def _left(rows: Iterable[_Row], out: set[int]) -> Iterator[_Row]:
    return (row for row in rows if row.at not in out)


def _rewound(rows: Sequence[_Row]) -> list[_Row]:
    """Prompts of the user that have a later sibling."""
    linked = {row.parent for row in rows}
    newest: dict[tuple[str, int], _Row] = {}
    found, segment = [], 0
    for row in rows:
        segment += row.mark is not None
        if row.prompt and row.uuid:
            # Roots are siblings within a segment, but only where entries are linked at all.
            key = (row.parent, 0 if row.parent else segment)
            older = newest.get(key)
            if older is not None and (row.parent or older.uuid in linked):
                found.append(older)
            newest[key] = row
    return found


def _below(rows: Sequence[_Row], tops: Sequence[_Row]) -> set[int]:
    children: defaultdict[str, list[_Row]] = defaultdict(list)
    for row in rows:
        parent = row.parent or (row.mark.parent if row.mark else "")
        if parent:
            children[parent].append(row)
    stack, found = list(tops), set[int]()
    while stack:
        row = stack.pop()
        if row.at not in found:
            found.add(row.at)
            stack.extend(children.pop(row.uuid, ()))
    return found


def _unfinished(rows: Sequence[_Row]) -> set[int]:
    """Boundaries without a summary, and what was written with them: a crash came between."""
    known = {row.uuid for row in rows if row.uuid}
    out, partial, summarized = set[int](), set[str](), False
    for row in reversed(rows):
        if row.mark is None:
            summarized = summarized or row.summary
            continue
        if not (summarized or row.mark.replaced) or not known.issuperset(row.mark.group):
            out.add(row.at)
            partial.update(row.mark.group)
        summarized = False
    return out | {row.at for row in rows if row.uuid in partial}


# ---- the fold --------------------------------------------------------------------------------


class _Fold:
    def __init__(self) -> None:
        self.context: list[_Row] = []
        self.newest: _Row | None = None
        # Kept entries wait until their anchor has been placed, whatever a client wrote before it.
        self.waiting: list[_Row] = []
        self.anchor = ""
        self.anchored = False  # it is still to come
        self.anchors: dict[str, int] = {}
        self.missing = 0

    def run(self, rows: Sequence[_Row], out: set[int]) -> FoldedContext:
        named = {row.mark.anchor for row in rows if row.mark}
        spoken = (row for row in _left(rows, out) if row.kind in SPEAKS)
        self.anchors = {row.uuid: row.at for row in spoken if row.uuid and row.uuid in named}
        for row in _left(rows, out):
            if row.kind in SPEAKS:
                self._talk(row)
            elif row.kind in RECORDS:
                raise _Unknown
            elif row.mark is not None:
                self._boundary(row, row.mark)
        self._place()
        return self._finish()

    def _place(self) -> None:
        self.context += self.waiting
        self.waiting = []

    def _mark(self) -> _Mark | None:
        return self.newest.mark if self.newest else None

    def _talk(self, row: _Row) -> None:
        if self.waiting and not row.summary and not self.anchored:
            self._place()
        self.context.append(row)
        if row.uuid == self.anchor:
            self._place()

    def _boundary(self, row: _Row, mark: _Mark) -> None:
        self._place()
        self.waiting, self.context = self._preserved(mark), []
        self.newest, self.anchor = row, mark.anchor
        self.anchored = self.anchors.get(mark.anchor, -1) > row.at
        if self.anchor == row.uuid:
            self._place()

    def _preserved(self, mark: _Mark) -> list[_Row]:
        places = {row.uuid: at for at, row in enumerate(self.context) if row.uuid}
        if mark.kept:
            found = [self.context[places[uuid]] for uuid in mark.kept if uuid in places]
            self.missing += len(mark.kept) - len(found)
            return found
        if mark.head in places and mark.tail in places:
            return self.context[places[mark.head] : places[mark.tail] + 1]
        self.missing += sum(bool(uuid) and uuid not in places for uuid in (mark.head, mark.tail))
        return []

    def _finish(self) -> FoldedContext:
        mark = self._mark()
        boundary, kept = (mark.at, set(mark.kept)) if mark else (0, set[str]())
        return FoldedContext(
            [row.at for row in self.context],
            [place for place, row in enumerate(self.context) if row.kind == "attachment"],
            [row.at for row in self.context if row.at < boundary or row.uuid in kept],
            self.missing,
        )
