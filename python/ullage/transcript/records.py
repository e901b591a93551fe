"""Records of what was removed from the context, as lines of the transcript (SNIP-4, COL-3), and the fold that replays them.

A builder returns a line without its envelope (`TranscriptLog.append` adds `uuid`, `parentUuid`, `timestamp` where the kind has
them, and the session). The fold is tolerant: a record written by another program, or damaged, gives what can be used of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from ullage._engine.digests import MessageFlag
from ullage._start import NamedTuple
from ullage.messages import BOUNDARY, CLEARED, Item

Record = dict[str, Any]

CONTENT_REPLACEMENT = "content-replacement"
COLLAPSE_COMMIT = "collapse-commit"
COLLAPSE_SNAPSHOT = "collapse-snapshot"
COLLAPSE_EXPAND = "collapse-expand"

COMMIT_TYPES = (COLLAPSE_COMMIT, "marble-origami-commit")
SNAPSHOT_TYPES = (COLLAPSE_SNAPSHOT, "marble-origami-snapshot")

STATE = "ullage-manager"
"""Type of the lines with a manager's state."""

MARK = "ullage"
"""Key of a manager's entry with its position in the history."""

# ---- builders --------------------------------------------------------------------------------


def content_replacement(replaced: Mapping[str, str]) -> Record:
    """The line that makes decisions of the tool-result budget survive a resume: by tool use id, the exact text from now on."""
    items = [
        {"kind": "tool-result", "toolUseId": tool_use_id, "replacement": text}
        for tool_use_id, text in replaced.items()
    ]
    return {"type": CONTENT_REPLACEMENT, "sessionId": "", "replacements": items}


def snip(removed: Sequence[str], *, reason: str = "", freed_tokens: int = 0) -> Record:
    """The line that removes entries from every later request; they stay in the file.

    `freed_tokens` corrects an older usage figure (TOK-4).
    """
    metadata = {"removedUuids": list(removed), "reason": reason, "freedTokens": freed_tokens}
    return _marker("snip_boundary", "Earlier turns removed", {"snipMetadata": metadata})


def microcompact(tool_use_ids: Sequence[str], *, texts: Mapping[str, str] | None = None) -> Record:
    """The line after which the results of these calls are cleared from the context.

    `texts` stand in place of some, by tool use id, where it is not the usual placeholder (MIC-4).
    """
    metadata: Record = {
        "trigger": "auto",
        "preTokens": 0,
        "tokensSaved": 0,
        "compactedToolIds": list(tool_use_ids),
        "clearedAttachmentUUIDs": [],
    }
    if texts:
        metadata["texts"] = dict(texts)
    extra = {"microcompactMetadata": metadata}
    return _marker("microcompact_boundary", "Context microcompacted", extra)


def compact_boundary(metadata: Mapping[str, Any], *, content: str = "") -> Record:
    """The line that separates what was compacted from what follows; `content` is for the user, empty: the default text."""
    content = content or "Conversation compacted"
    return _marker(BOUNDARY, content, {"compactMetadata": dict(metadata)})


def compact_summary(content: str | list[Any]) -> Record:
    """The entry of a summary message."""
    return {
        "type": "user",
        "message": {"role": "user", "content": content},
        "isVisibleInTranscriptOnly": True,
        "isCompactSummary": True,
    }


def _marker(subtype: str, content: str, extra: Mapping[str, Any]) -> Record:
    head = {"type": "system", "subtype": subtype, "content": content}
    return {**head, "isMeta": False, "level": "info", **extra}


# ---- context collapse ------------------------------------------------------------------------


class CollapseCommit(NamedTuple):
    """A span [first, last] of the context that one placeholder message replaces."""

    collapse_id: str
    summary_uuid: str
    content: str  # the placeholder's exact text
    summary: str
    first_uuid: str
    last_uuid: str


_COMMIT_KEYS = (
    "collapseId summaryUuid summaryContent summary firstArchivedUuid lastArchivedUuid".split()
)
"""Of a line, for the fields above in their order, like those below."""

_SPAN_KEYS = ("startUuid", "endUuid", "summary", "risk", "stagedAt")


class StagedSpan(NamedTuple):
    """A span with a summary that is ready, not yet committed."""

    first_uuid: str
    last_uuid: str
    summary: str
    score: float = 0.0
    staged_at: int = 0  # milliseconds since the epoch


class CollapseSnapshot(NamedTuple):
    """State of context collapse between commits; the last one in the file counts."""

    staged: tuple[StagedSpan, ...] = ()
    armed: bool = False
    last_run_tokens: int = 0


def collapse_commit(commit: CollapseCommit) -> Record:
    """The line that commits a collapse; never changed afterwards."""
    return {
        "type": COLLAPSE_COMMIT,
        "sessionId": "",
        **dict(zip(_COMMIT_KEYS, commit, strict=True)),
    }


def parse_collapse_commit(entry: Mapping[str, Any]) -> CollapseCommit | None:
    """The commit in a line, or `None` if its ends or its text are missing."""
    first, last = entry.get("firstArchivedUuid"), entry.get("lastArchivedUuid")
    summary = as_string(entry.get("summary"))
    content = as_string(entry.get("summaryContent")) or summary
    if not (isinstance(first, str) and isinstance(last, str) and content):
        return None
    ids = as_string(entry.get("collapseId")), as_string(entry.get("summaryUuid"))
    return CollapseCommit(*ids, content, summary, first, last)


def collapse_expand(collapse_id: str) -> Record:
    """The line that restores a collapsed span (COL-4)."""
    return {"type": COLLAPSE_EXPAND, "sessionId": "", "collapseId": collapse_id}


def collapse_snapshot(snapshot: CollapseSnapshot) -> Record:
    """The line with the state of context collapse."""
    return {
        "type": COLLAPSE_SNAPSHOT,
        "sessionId": "",
        "staged": [dict(zip(_SPAN_KEYS, span, strict=True)) for span in snapshot.staged],
        "armed": snapshot.armed,
        "lastSpawnTokens": snapshot.last_run_tokens,
    }


def _parse_collapse_snapshot(entry: Item) -> CollapseSnapshot:
    """The state in a snapshot line; spans without both ends are left out."""
    spans = []
    for item in map(as_mapping, as_list(entry.get("staged"))):
        first, last, summary, risk, staged_at = map(item.get, _SPAN_KEYS)
        if isinstance(first, str) and isinstance(last, str):
            score = float(risk) if isinstance(risk, int | float) else 0.0
            spans.append(StagedSpan(first, last, as_string(summary), score, _int(staged_at)))
    tokens = _int(entry.get("lastSpawnTokens"))
    return CollapseSnapshot(tuple(spans), entry.get("armed") is True, tokens)


# ---- values that another program may have written ----------------------------------------------


def as_mapping(value: Any) -> Mapping[str, Any]:
    """A mapping; empty for anything else."""
    return value if isinstance(value, (dict, Mapping)) else {}


def as_list(value: Any) -> list[Any]:
    """A list; empty for anything else."""
    return value if isinstance(value, list) else []


def as_strings(value: Any) -> list[str]:
    """The strings of a list; empty for anything else."""
    return [item for item in as_list(value) if isinstance(item, str)]


def as_string(value: Any) -> str:
    """A string; empty for anything else."""
    return value if isinstance(value, str) else ""


def _int(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


# ---- lines of a transcript -------------------------------------------------------------------


class RowFlag:
    """Facts about a line that the fold needs, bits of `RecordLine.flags`: those of a digest as plain numbers, whose operators make no object."""

    SIDECHAIN = MessageFlag.SIDECHAIN
    SYNTHETIC = MessageFlag.SYNTHETIC
    SUMMARY = MessageFlag.SUMMARY
    PROMPT = MessageFlag.USER_INPUT  # a user's own, of none of the kinds before


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


class BoundaryMark(NamedTuple):
    """What a boundary says of itself, in the order in which `TranscriptIndex.context` takes it."""

    at: int  # its line
    parent: str  # the logical one
    group: list[str]  # uuids that were written together with it
    replaces: bool  # Codex puts the history that is left instead of a summary
    preserved: list[str]
    head: str  # of a kept segment, like `tail`
    tail: str
    anchor: str  # the entry after which what was kept stands


def mark_of(at: int, boundary: Item) -> BoundaryMark:
    """A boundary's mark."""
    metadata = metadata_of(boundary)
    messages = as_mapping(metadata.get("preservedMessages"))
    segment = as_mapping(metadata.get("preservedSegment"))
    return BoundaryMark(
        at,
        as_string(boundary.get("logicalParentUuid")),
        as_strings(metadata.get("groupUuids")),
        metadata.get("replacementHistory") is True,
        as_strings(messages.get("uuids")),
        as_string(segment.get("headUuid")),
        as_string(segment.get("tailUuid")),
        as_string(messages.get("anchorUuid")) or as_string(segment.get("anchorUuid")),
    )


def metadata_of(entry: Item) -> Mapping[str, Any]:
    """What a boundary says of its compaction."""
    return as_mapping(entry.get("compactMetadata"))


# ---- the fold --------------------------------------------------------------------------------

_TALK = frozenset({"user", "assistant", "attachment"})


class Replay:
    """Which entries of a transcript are in the context: a fold over its lines in file order.

    File order is authoritative; links between entries are used only to leave out what the user
    rewound. Parallel calls make the tree branch, compaction cuts it, and links may point forward or
    nowhere, so that walking it from the last leaf would lose results.

    Args:
        rows: All readable lines, in file order.
        load: The entry of a line, by its place.
    """

    def __init__(self, rows: Sequence[RecordLine], load: Callable[[int], Item]) -> None:
        self.context: list[Slot] = []  # what the model was shown last, in its order
        self.boundary: RecordLine | None = None
        self.texts: dict[str, str] = {}  # tool use id: what stands for its result
        self.replaced: dict[str, str] = {}  # of those, the budget's decisions
        self.whole: set[str] = set()  # the budget's decisions to send whole
        self.removed: dict[str, str] = {}  # uuid: why it is not in the context
        self.commits: dict[str, CollapseCommit] = {}
        self.snapshot: CollapseSnapshot | None = None
        self.missing: list[str] = []  # preserved uuids that the file lacks
        self.ignored: list[str] = []  # boundaries that were never completed
        # The newest line that took something out of the context, or put it back.
        self.rewritten = -1
        self._rows, self._load = rows, load
        # Kept messages wait until their anchor has been placed, whatever a client wrote before it.
        self._waiting: list[Slot] = []
        self._anchor = ""
        self._anchored = False  # it is still to come
        self._snipped: set[str] = set()
        self._collapsed: dict[str, tuple[int, int]] = {}  # where, and `rewritten` before it
        counted = self._counted()
        self._places = {row.uuid: row.at for row in counted if row.uuid and row.type in _TALK}
        for row in counted:
            if row.type in _TALK:
                self._talk(row)
            elif handler := _HANDLERS.get(row.subtype if row.type == "system" else row.type):
                handler(self, row, load(row.at))
        self._place_waiting()
        self._explain()

    # ---- what never counts -------------------------------------------------------------------

    def _counted(self) -> list[RecordLine]:
        """Lines that a context may hold: no sub-agents, errors, rewound branches, unfinished compactions."""
        main = []
        for row in self._rows:
            if row.flags & (RowFlag.SIDECHAIN | RowFlag.SYNTHETIC):
                sidechain = row.flags & RowFlag.SIDECHAIN
                self._remove(row, "sidechain" if sidechain else "synthetic")
            else:
                main.append(row)
        # A rewind can take back a compaction, so branches come first.
        if rewound := self._rewound(main):
            main = self._without(main, rewound, "rewound")
        partial, unfinished = self._unfinished(main)
        if partial:
            left_out = {row.at for row in main if row.uuid in partial}
            main = self._without(main, left_out, "unfinished")
        return [row for row in main if row.at not in unfinished] if unfinished else main

    def _without(self, rows: list[RecordLine], left_out: set[int], why: str) -> list[RecordLine]:
        for row in rows:
            if row.at in left_out:
                self._remove(row, why)
        return [row for row in rows if row.at not in left_out]

    def _remove(self, row: RecordLine, reason: str) -> None:
        if row.uuid and row.type in _TALK:
            self.removed[row.uuid] = reason

    def _rewound(self, rows: Sequence[RecordLine]) -> set[int]:
        """A user's prompt that has a later sibling was rewound, with everything that follows from it."""
        newest: dict[tuple[str, int], RecordLine] = {}
        undone = []
        linked = {row.parent for row in rows}
        segment = 0
        for row in rows:
            segment += row.subtype == BOUNDARY
            if row.flags & RowFlag.PROMPT and row.uuid:
                # Roots are siblings within a segment, but only where entries are linked at all.
                key = (row.parent, 0 if row.parent else segment)
                if (older := newest.get(key)) and (row.parent or older.uuid in linked):
                    undone.append(older)
                newest[key] = row
        return self._below(rows, undone) if undone else set()

    def _below(self, rows: Sequence[RecordLine], stack: list[RecordLine]) -> set[int]:
        children: defaultdict[str, list[RecordLine]] = defaultdict(list)
        for row in rows:
            parent = row.parent
            if not parent and row.subtype == BOUNDARY:
                parent = as_string(self._load(row.at).get("logicalParentUuid"))
            if parent:
                children[parent].append(row)
        descendants: set[int] = set()
        while stack:
            row = stack.pop()
            if row.at not in descendants:
                descendants.add(row.at)
                # Once for a uuid, of which a file that was joined from others has many lines.
                stack.extend(children.pop(row.uuid, ()))
        return descendants

    def _unfinished(self, rows: Sequence[RecordLine]) -> tuple[set[str], set[int]]:
        """Of boundaries without a summary, since a crash came between: uuids that were written with them, and their lines."""
        partial: set[str] = set()
        unfinished: set[int] = set()
        uuids = {row.uuid for row in rows if row.uuid}
        has_summary = False
        for row in reversed(rows):
            if row.subtype != BOUNDARY:
                has_summary = has_summary or bool(row.flags & RowFlag.SUMMARY)
                continue
            mark = mark_of(row.at, self._load(row.at))
            if not (has_summary or mark.replaces) or not uuids.issuperset(mark.group):
                unfinished.add(row.at)
                partial.update(mark.group)
                self.ignored.append(row.uuid)
            has_summary = False
        return partial, unfinished

    # ---- what is said ------------------------------------------------------------------------

    def _talk(self, row: RecordLine) -> None:
        if self._waiting and not row.flags & RowFlag.SUMMARY and not self._anchored:
            self._place_waiting()
        if row.uuid not in self._snipped or not row.uuid:
            self.context.append(row)
        if self._waiting and row.uuid == self._anchor:
            self._place_waiting()

    def _place_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        self.context.extend(waiting)

    def _where(self) -> dict[str, int]:
        return {slot.uuid: at for at, slot in enumerate(self.context) if slot.uuid}

    # ---- one function for each kind of record ------------------------------------------------

    def _boundary(self, row: RecordLine, entry: Item) -> None:
        self._place_waiting()
        mark, context, where = mark_of(row.at, entry), self.context, self._where()
        if mark.preserved:
            self._waiting = [context[where[uuid]] for uuid in mark.preserved if uuid in where]
            self.missing.extend(uuid for uuid in mark.preserved if uuid not in where)
        elif mark.head in where and mark.tail in where:
            self._waiting = context[where[mark.head] : where[mark.tail] + 1]
        else:
            ends = (mark.head, mark.tail)
            self.missing.extend(uuid for uuid in ends if uuid and uuid not in where)
        self.context = []
        self.boundary = row
        self._anchor = mark.anchor
        self._anchored = self._places.get(mark.anchor, -1) > row.at
        if mark.anchor == row.uuid:
            self._place_waiting()

    def _snip(self, row: RecordLine, entry: Item) -> None:
        uuids = set(as_strings(as_mapping(entry.get("snipMetadata")).get("removedUuids")))
        self._rewrite(row, {slot.uuid for slot in self.context} & uuids)
        self._snipped |= uuids
        self._drop(uuids, "snipped")
        shown = as_mapping(entry.get("snipMetadata")).get("shownUuids")
        if isinstance(shown, list):  # a rewind past a compaction: these are the context again
            rows = {row.uuid: row for row in self._rows if self._places.get(row.uuid) == row.at}
            self.context = [rows[uuid] for uuid in as_strings(shown) if uuid in rows]
            self.boundary, self.rewritten = None, row.at

    def _clear(self, row: RecordLine, entry: Item) -> None:
        metadata = as_mapping(entry.get("microcompactMetadata"))
        results = as_strings(metadata.get("compactedToolIds"))
        attachments = dict.fromkeys(as_strings(metadata.get("clearedAttachmentUUIDs")))
        texts = as_mapping(metadata.get("texts"))
        self._rewrite(row, results or attachments)
        for tool_use_id in results:
            text = texts.get(tool_use_id)
            self.texts[tool_use_id] = text if isinstance(text, str) else CLEARED
        self._drop(attachments, "cleared")

    def _drop(self, uuids: Collection[str], reason: str) -> None:
        self.removed.update(dict.fromkeys(uuids, reason))
        self._place_waiting()
        self.context = [slot for slot in self.context if slot.uuid not in uuids]

    def _replace(self, row: RecordLine, entry: Item) -> None:
        del row
        self.whole.update(as_strings(entry.get("kept")))
        decided: dict[str, str] = {}
        for item in map(as_mapping, as_list(entry.get("replacements"))):
            tool_use_id, text = item.get("toolUseId"), item.get("replacement")
            if isinstance(tool_use_id, str) and isinstance(text, str):
                decided[tool_use_id] = text
        for tool_use_id, text in decided.items():
            self.replaced.setdefault(tool_use_id, text)
            # What was cleared since then stays cleared.
            self.texts.setdefault(tool_use_id, text)

    def _collapse(self, row: RecordLine, entry: Item) -> None:
        self._place_waiting()
        commit, where = parse_collapse_commit(entry), self._where()
        if commit is None or commit.first_uuid not in where or commit.last_uuid not in where:
            return
        first, last = where[commit.first_uuid], where[commit.last_uuid]
        if first <= last:
            span = tuple(self.context[first : last + 1])
            stand_in = Placeholder(commit.summary_uuid, commit.collapse_id, commit.content, span)
            self.context[first : last + 1] = [stand_in]
            self.commits[commit.collapse_id] = commit
            self._collapsed[commit.collapse_id] = (row.at, self.rewritten)
            self._rewrite(row, span)

    def _rewrite(self, row: RecordLine, removed: Collection[Any]) -> None:
        """Usage from before this line is no longer valid if the line removed anything."""
        if removed:
            self.rewritten = row.at

    def _expand(self, row: RecordLine, entry: Item) -> None:
        collapse_id = as_string(entry.get("collapseId"))
        context: list[Slot] = []
        for slot in self.context:
            if isinstance(slot, Placeholder) and slot.collapse_id == collapse_id:
                context.extend(slot.archived)
            else:
                context.append(slot)
        self.context = context
        self.commits.pop(collapse_id, None)
        at, before = self._collapsed.pop(collapse_id, (-1, -1))
        if at >= 0:
            # If nothing was said in between, what was measured before the collapse is valid again.
            answered_since = any(isinstance(slot, RecordLine) and slot.at > at for slot in context)
            self.rewritten = row.at if answered_since else min(before, self.rewritten)

    def _snapshot(self, row: RecordLine, entry: Item) -> None:
        del row
        self.snapshot = _parse_collapse_snapshot(entry)

    # ---- the end -----------------------------------------------------------------------------

    def _explain(self) -> None:
        """Assign exactly one reason to every entry that is not in the context (P-2)."""
        shown = {slot.uuid for slot in self.context}
        stand_ins = [slot for slot in self.context if isinstance(slot, Placeholder)]
        collapsed = {row.uuid for slot in stand_ins for row in _archived(slot)}
        for row in self._rows:
            if row.uuid and row.type in _TALK:
                if row.uuid in shown:
                    self.removed.pop(row.uuid, None)
                elif row.uuid not in self.removed:
                    self.removed[row.uuid] = "collapsed" if row.uuid in collapsed else "compacted"


_HANDLERS: dict[str, Callable[[Replay, RecordLine, Item], None]] = {
    BOUNDARY: Replay._boundary,
    "microcompact_boundary": Replay._clear,
    "snip_boundary": Replay._snip,
    CONTENT_REPLACEMENT: Replay._replace,
    COLLAPSE_EXPAND: Replay._expand,
    **dict.fromkeys(COMMIT_TYPES, Replay._collapse),
    **dict.fromkeys(SNAPSHOT_TYPES, Replay._snapshot),
}


def _archived(stand_in: Placeholder) -> Iterable[RecordLine]:
    """The lines that a placeholder stands for."""
    for slot in stand_in.archived:
        if isinstance(slot, Placeholder):
            yield from _archived(slot)
        else:
            yield slot
