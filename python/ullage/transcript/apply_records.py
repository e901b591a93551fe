"""Which entries of a transcript are in the context: a fold over its lines in file order.

File order is authoritative; links between entries are used only to leave out what the user
rewound. Parallel calls make the tree branch, compaction cuts it, and links may point forward or
nowhere, so that walking it from the last leaf would lose results.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from ullage.messages import BOUNDARY, CLEARED, Item
from ullage.transcript import records

__all__ = [
    "GivenMark",
    "Placeholder",
    "RecordLine",
    "RecordSource",
    "Replay",
    "RowFlag",
    "Slot",
    "kept_uuids",
    "mark_of",
    "replay",
]


class RowFlag:
    """Facts about a line that the fold needs; bits of `RecordLine.flags`."""

    SIDECHAIN = 1
    SYNTHETIC = 2
    SUMMARY = 4
    PROMPT = 8  # a user's own input


class RecordLine(NamedTuple):
    """One line, as far as the fold needs it."""

    at: int
    type: str
    subtype: str
    uuid: str
    parent: str
    flags: int


class Placeholder(NamedTuple):
    """A collapsed span: one message stands for the slots in `archived`."""

    uuid: str
    collapse_id: str
    text: str
    archived: tuple[Any, ...]  # of Slot


Slot = RecordLine | Placeholder


class RecordSource(Protocol):
    """Lines in file order, and the object of a line where one is needed."""

    def rows(self) -> Sequence[RecordLine]:
        """All readable lines."""

    def load(self, at: int) -> Item:
        """The entry of a line."""


@dataclass(slots=True)
class Replay:
    """What the fold found; `context` is what the model was shown last, in its order."""

    context: list[Slot] = field(default_factory=list)
    boundary: RecordLine | None = None
    texts: dict[str, str] = field(default_factory=dict)  # tool use id: what stands for its result
    replaced: dict[str, str] = field(default_factory=dict)  # of those, the budget's decisions
    kept: set[str] = field(default_factory=set)  # the budget's decisions to send whole
    removed: dict[str, str] = field(default_factory=dict)  # uuid: why it is not in the context
    commits: dict[str, records.CollapseCommit] = field(default_factory=dict)
    snapshot: records.CollapseSnapshot | None = None
    missing: list[str] = field(default_factory=list)  # preserved uuids that the file lacks
    ignored: list[str] = field(default_factory=list)  # boundaries that were never completed
    rewritten: int = -1  # the newest line that took something out of the context, or put it back


_TALK = frozenset({"user", "assistant", "attachment"})


def replay(source: RecordSource) -> Replay:
    """Replays a transcript: boundaries, preserved segments, snips, clearings and collapses."""
    rows = source.rows()
    state = Replay()
    _Fold(source, state, _left_out(rows, source, state)).run(rows)
    return state


# ---- what never counts -----------------------------------------------------------------------


def _left_out(rows: Sequence[RecordLine], source: RecordSource, state: Replay) -> set[int]:
    """Lines that no context holds: sub-agents, errors, rewound branches, unfinished compactions."""
    out = {row.at for row in rows if row.flags & (RowFlag.SIDECHAIN | RowFlag.SYNTHETIC)}
    for row in rows:
        if row.at in out:
            reason = "sidechain" if row.flags & RowFlag.SIDECHAIN else "synthetic"
            _remove(state, row, reason)
    main = [row for row in rows if row.at not in out]
    # A rewind can take back a compaction, so branches come first.
    rewound = _rewound(main, source)
    for row in main:
        if row.at in rewound:
            _remove(state, row, "rewound")
    rest = [row for row in main if row.at not in rewound]
    return out | rewound | _unfinished(rest, source, state)


def _remove(state: Replay, row: RecordLine, reason: str) -> None:
    if row.uuid and row.type in _TALK:
        state.removed[row.uuid] = reason


def _rewound(rows: Sequence[RecordLine], source: RecordSource) -> set[int]:
    """A user's prompt that has a later sibling was rewound, with everything that follows from it."""
    newest: dict[tuple[str, int], RecordLine] = {}
    taken_back = []
    linked = {row.parent for row in rows}
    segment = 0
    for row in rows:
        segment += row.subtype == BOUNDARY
        if row.flags & RowFlag.PROMPT and row.uuid:
            # Roots are siblings within a segment, but only where entries are linked at all.
            key = (row.parent, 0 if row.parent else segment)
            if (older := newest.get(key)) and (row.parent or older.uuid in linked):
                taken_back.append(older)
            newest[key] = row
    return _below(rows, taken_back, source) if taken_back else set()


def _below(
    rows: Sequence[RecordLine], tops: Iterable[RecordLine], source: RecordSource
) -> set[int]:
    stack = list(tops)
    children: defaultdict[str, list[RecordLine]] = defaultdict(list)
    for row in rows:
        parent = row.parent
        if not parent and row.subtype == BOUNDARY:
            parent = _string(source.load(row.at).get("logicalParentUuid"))
        if parent:
            children[parent].append(row)
    found: set[int] = set()
    while stack:
        row = stack.pop()
        if row.at not in found:
            found.add(row.at)
            # Once for a uuid, of which a file that was joined from others has many lines.
            stack.extend(children.pop(row.uuid, ()))
    return found


def _unfinished(rows: Sequence[RecordLine], source: RecordSource, state: Replay) -> set[int]:
    """Boundaries without a summary, and what was written with them: a crash came between."""
    out: set[int] = set()
    known = {row.uuid for row in rows if row.uuid}
    has_summary = False
    partial: set[str] = set()
    for row in reversed(rows):
        if row.subtype != BOUNDARY:
            has_summary = has_summary or bool(row.flags & RowFlag.SUMMARY)
            continue
        entry = source.load(row.at)
        group = _group(entry)
        # Codex puts the history that is left instead of a summary.
        complete = has_summary or _metadata(entry).get("replacementHistory") is True
        if not complete or not group <= known:
            out.add(row.at)
            partial |= group
            state.ignored.append(row.uuid)
        has_summary = False
    for row in rows if partial else ():
        if row.uuid in partial:
            out.add(row.at)
            _remove(state, row, "unfinished")
    return out


def _group(entry: Item) -> set[str]:
    """Uuids that were written together with a boundary, as its metadata says."""
    return set(_strings(_metadata(entry).get("groupUuids")))


def _metadata(entry: Item) -> Mapping[str, Any]:
    metadata = entry.get("compactMetadata")
    return metadata if isinstance(metadata, Mapping) else {}


# ---- the fold --------------------------------------------------------------------------------


class _Fold:
    def __init__(self, source: RecordSource, state: Replay, left_out: set[int]) -> None:
        self._source = source
        self._state = state
        self._left_out = left_out
        # Kept messages wait until their anchor has been placed, whatever a client wrote before it.
        self._waiting: list[Slot] = []
        self._anchor = ""
        self._anchored = False  # it is still to come
        self._places: dict[str, int] = {}
        self._snipped: set[str] = set()
        self._collapsed: dict[str, tuple[int, int]] = {}  # where, and `rewritten` before it

    def run(self, rows: Sequence[RecordLine]) -> None:
        spoken = (row for row in rows if row.type in _TALK and row.at not in self._left_out)
        self._places = {row.uuid: row.at for row in spoken if row.uuid}
        for row in rows:
            if row.at not in self._left_out:
                self._take(row)
        self._place_waiting()
        self._explain(rows)

    def _take(self, row: RecordLine) -> None:
        if row.type in _TALK:
            self._talk(row)
        elif handler := _HANDLERS.get(row.subtype if row.type == "system" else row.type):
            handler(self, row, self._source.load(row.at))

    def _talk(self, row: RecordLine) -> None:
        if self._waiting and not row.flags & RowFlag.SUMMARY and not self._anchored:
            self._place_waiting()
        if row.uuid not in self._snipped or not row.uuid:
            self._state.context.append(row)
        if self._waiting and row.uuid == self._anchor:
            self._place_waiting()

    def _place_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._state.context.extend(waiting)

    def _boundary(self, row: RecordLine, entry: Item) -> None:
        self._place_waiting()
        metadata = _metadata(entry)
        kept = self._preserved(metadata)
        self._state.context = []
        self._state.boundary = row
        self._waiting, self._anchor = kept, _anchor(metadata)
        self._anchored = self._places.get(self._anchor, -1) > row.at
        if self._anchor == row.uuid:
            self._place_waiting()

    def _preserved(self, metadata: Mapping[str, Any]) -> list[Slot]:
        context = self._state.context
        where = {slot.uuid: at for at, slot in enumerate(context) if slot.uuid}
        messages = metadata.get("preservedMessages")
        if isinstance(messages, Mapping) and (uuids := _strings(messages.get("uuids"))):
            self._state.missing.extend(uuid for uuid in uuids if uuid not in where)
            return [context[where[uuid]] for uuid in uuids if uuid in where]
        segment = metadata.get("preservedSegment")
        if not isinstance(segment, Mapping):
            return []
        head, tail = _string(segment.get("headUuid")), _string(segment.get("tailUuid"))
        if head not in where or tail not in where:
            self._state.missing.extend(uuid for uuid in (head, tail) if uuid and uuid not in where)
            return []
        return context[where[head] : where[tail] + 1]

    def _snip(self, row: RecordLine, entry: Item) -> None:
        uuids = set(records.parse_snip(entry))
        self._rewrite(row, {slot.uuid for slot in self._state.context} & uuids)
        self._snipped |= uuids
        self._state.removed.update((uuid, "snipped") for uuid in uuids)
        self._drop(uuids)

    def _clear(self, row: RecordLine, entry: Item) -> None:
        cleared = records.parse_microcompact(entry)
        self._rewrite(row, cleared.tool_use_ids or cleared.attachment_uuids)
        for tool_use_id in cleared.tool_use_ids:
            self._state.texts[tool_use_id] = cleared.texts.get(tool_use_id, CLEARED)
        self._state.removed.update((uuid, "cleared") for uuid in cleared.attachment_uuids)
        self._drop(set(cleared.attachment_uuids))

    def _drop(self, uuids: set[str]) -> None:
        self._place_waiting()
        self._state.context = [slot for slot in self._state.context if slot.uuid not in uuids]

    def _replace(self, row: RecordLine, entry: Item) -> None:
        del row
        decided = records.parse_content_replacement(entry)
        self._state.kept |= decided.kept
        for tool_use_id, text in decided.replaced.items():
            self._state.replaced.setdefault(tool_use_id, text)
            # What was cleared since then stays cleared.
            self._state.texts.setdefault(tool_use_id, text)

    def _collapse(self, row: RecordLine, entry: Item) -> None:
        self._place_waiting()
        commit = records.parse_collapse_commit(entry)
        context = self._state.context
        where = {slot.uuid: at for at, slot in enumerate(context) if slot.uuid}
        if commit is None or commit.first_uuid not in where or commit.last_uuid not in where:
            return
        first, last = where[commit.first_uuid], where[commit.last_uuid]
        if first <= last:
            span = tuple(context[first : last + 1])
            stand_in = Placeholder(commit.summary_uuid, commit.collapse_id, commit.content, span)
            context[first : last + 1] = [stand_in]
            self._state.commits[commit.collapse_id] = commit
            self._collapsed[commit.collapse_id] = (row.at, self._state.rewritten)
            self._rewrite(row, span)

    def _rewrite(self, row: RecordLine, gone: Iterable[Any]) -> None:
        """Usage from before this line is no longer valid if the line removed anything."""
        if any(True for _ in gone):
            self._state.rewritten = row.at

    def _expand(self, row: RecordLine, entry: Item) -> None:
        collapse_id = records.parse_collapse_expand(entry)
        context: list[Slot] = []
        for slot in self._state.context:
            found = isinstance(slot, Placeholder) and slot.collapse_id == collapse_id
            context.extend(slot.archived if found and isinstance(slot, Placeholder) else [slot])
        self._state.context = context
        self._state.commits.pop(collapse_id, None)
        at, before = self._collapsed.pop(collapse_id, (-1, -1))
        if at >= 0:
            # If nothing was said in between, what was measured before the collapse is valid again.
            said = any(isinstance(slot, RecordLine) and slot.at > at for slot in context)
            self._state.rewritten = row.at if said else min(before, self._state.rewritten)

    def _snapshot(self, row: RecordLine, entry: Item) -> None:
        del row
        self._state.snapshot = records.parse_collapse_snapshot(entry)

    def _explain(self, rows: Iterable[RecordLine]) -> None:
        """Assign exactly one reason to every entry that is not in the context (P-2)."""
        state = self._state
        shown = {slot.uuid for slot in state.context}
        hidden = {
            row.uuid
            for slot in state.context
            if isinstance(slot, Placeholder)
            for row in _rows_in(slot)
        }
        for row in rows:
            if row.uuid and row.type in _TALK:
                if row.uuid in shown:
                    state.removed.pop(row.uuid, None)
                elif row.uuid not in state.removed:
                    state.removed[row.uuid] = "collapsed" if row.uuid in hidden else "compacted"


_HANDLERS: dict[str, Callable[[_Fold, RecordLine, Item], None]] = {
    BOUNDARY: _Fold._boundary,
    "microcompact_boundary": _Fold._clear,
    "snip_boundary": _Fold._snip,
    records.CONTENT_REPLACEMENT: _Fold._replace,
    records.COLLAPSE_EXPAND: _Fold._expand,
    **dict.fromkeys(records.COMMIT_TYPES, _Fold._collapse),
    **dict.fromkeys(records.SNAPSHOT_TYPES, _Fold._snapshot),
}


def _rows_in(slot: Slot) -> Iterable[RecordLine]:
    if isinstance(slot, Placeholder):
        for inner in slot.archived:
            yield from _rows_in(inner)
    else:
        yield slot


def kept_uuids(boundary: Item) -> set[str]:
    """Uuids that a boundary says were kept, as far as it names each."""
    messages = _metadata(boundary).get("preservedMessages")
    return set(_strings(messages.get("uuids"))) if isinstance(messages, Mapping) else set()


GivenMark = tuple[int, str, list[str], bool, list[str], str, str, str]
"""What a boundary says of itself, for `TranscriptIndex.context`: its line, logical parent, group, whether it needs no summary,
kept entries, head and tail of a kept segment, anchor."""


def mark_of(at: int, boundary: Item) -> GivenMark:
    """A boundary's mark, as the engine takes it."""
    metadata = _metadata(boundary)
    messages, segment = metadata.get("preservedMessages"), metadata.get("preservedSegment")
    kept = _strings(messages.get("uuids")) if isinstance(messages, Mapping) else []
    ends = segment if isinstance(segment, Mapping) else {}
    return (
        at,
        _string(boundary.get("logicalParentUuid")),
        _strings(metadata.get("groupUuids")),
        metadata.get("replacementHistory") is True,
        kept,
        _string(ends.get("headUuid")),
        _string(ends.get("tailUuid")),
        _anchor(metadata),
    )


def _anchor(metadata: Mapping[str, Any]) -> str:
    for key in ("preservedMessages", "preservedSegment"):
        part = metadata.get(key)
        if isinstance(part, Mapping) and (anchor := _string(part.get("anchorUuid"))):
            return anchor
    return ""


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _strings(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
