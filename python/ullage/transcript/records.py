"""Records of what was removed from the context, as lines of the transcript (SNIP-4, COL-3).

Each has a builder, which returns the line without its envelope (`TranscriptLog.append` adds `uuid`,
`parentUuid`, `timestamp` where the kind has them), and a parser, which is tolerant: a record
written by another program, or damaged, gives what can be used of it and never raises.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

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

# ---- tool-result budget ----------------------------------------------------------------------


class Replacements(NamedTuple):
    """Decisions of the tool-result budget: `replaced` by tool use id, `whole`: sent whole for ever."""

    replaced: Mapping[str, str]
    whole: frozenset[str] = frozenset()


def content_replacement(
    replaced: Mapping[str, str], *, kept_ids: Iterable[str] = (), session_id: str = ""
) -> Record:
    """The line that makes decisions of the tool-result budget survive a resume.

    Args:
        replaced: Tool use id to the exact text that replaces its result from now on.
        kept_ids: Tool use ids whose result was sent whole, and so is never replaced later.
        session_id: `""` leaves it to the log.
    """
    items = [
        {"kind": "tool-result", "toolUseId": tool_use_id, "replacement": text}
        for tool_use_id, text in replaced.items()
    ]
    record: Record = {"type": CONTENT_REPLACEMENT, "sessionId": session_id, "replacements": items}
    if kept_ids := list(kept_ids):
        record["kept"] = kept_ids
    return record


def parse_content_replacement(entry: Mapping[str, Any]) -> Replacements:
    """What a `content-replacement` line decides; malformed items are left out."""
    replaced = {}
    for item in _list(entry.get("replacements")):
        if isinstance(item, Mapping):
            tool_use_id, text = item.get("toolUseId"), item.get("replacement")
            if isinstance(tool_use_id, str) and isinstance(text, str):
                replaced[tool_use_id] = text
    return Replacements(replaced, frozenset(as_strings(entry.get("kept"))))


# ---- snip ------------------------------------------------------------------------------------


def snip(removed: Sequence[str], *, reason: str = "", freed_tokens: int = 0) -> Record:
    """The line that removes entries from every later request; they stay in the file.

    Args:
        removed: Uuids of the removed entries.
        reason: Why, as given with the request.
        freed_tokens: What the removal freed, to correct an older usage figure (TOK-4).
    """
    metadata = {"removedUuids": list(removed), "reason": reason, "freedTokens": freed_tokens}
    return _marker("snip_boundary", "Earlier turns removed", {"snipMetadata": metadata})


def parse_snip(entry: Mapping[str, Any]) -> list[str]:
    """Uuids that a snip line removes; empty for any other entry."""
    metadata = entry.get("snipMetadata")
    return as_strings(metadata.get("removedUuids")) if isinstance(metadata, Mapping) else []


# ---- microcompact ----------------------------------------------------------------------------


class Microcompact(NamedTuple):
    """Tool results and attachments that were cleared, with the text left instead of some."""

    tool_use_ids: tuple[str, ...]
    attachment_uuids: tuple[str, ...]
    texts: Mapping[str, str]


def microcompact(
    tool_use_ids: Sequence[str],
    *,
    trigger: str = "auto",
    pre_tokens: int = 0,
    tokens_saved: int = 0,
    attachment_uuids: Sequence[str] = (),
    texts: Mapping[str, str] | None = None,
) -> Record:
    """The line after which the named tool results are cleared from the context.

    Args:
        tool_use_ids: Calls whose results are cleared.
        trigger: `auto` or `manual`.
        pre_tokens: Size of the context before.
        tokens_saved: What was freed.
        attachment_uuids: Attachment entries that were removed as well.
        texts: What stands instead of a result, by tool use id, where it is not the usual
            placeholder (MIC-4).
    """
    metadata: Record = {
        "trigger": trigger,
        "preTokens": pre_tokens,
        "tokensSaved": tokens_saved,
        "compactedToolIds": list(tool_use_ids),
        "clearedAttachmentUUIDs": list(attachment_uuids),
    }
    if texts:
        metadata["texts"] = dict(texts)
    return _marker(
        "microcompact_boundary", "Context microcompacted", {"microcompactMetadata": metadata}
    )


def parse_microcompact(entry: Mapping[str, Any]) -> Microcompact:
    """What a `microcompact_boundary` line clears."""
    metadata = entry.get("microcompactMetadata")
    fields = metadata if isinstance(metadata, Mapping) else {}
    texts = fields.get("texts")
    pairs = texts.items() if isinstance(texts, Mapping) else ()
    return Microcompact(
        tuple(as_strings(fields.get("compactedToolIds"))),
        tuple(as_strings(fields.get("clearedAttachmentUUIDs"))),
        {key: text for key, text in pairs if isinstance(text, str)},
    )


# ---- context collapse ------------------------------------------------------------------------


class CollapseCommit(NamedTuple):
    """A span [first, last] of the context that one placeholder message replaces."""

    collapse_id: str
    summary_uuid: str
    content: str  # the placeholder's exact text
    summary: str
    first_uuid: str
    last_uuid: str


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


def collapse_commit(commit: CollapseCommit, *, session_id: str = "") -> Record:
    """The line that commits a collapse; never changed afterwards."""
    return {
        "type": COLLAPSE_COMMIT,
        "sessionId": session_id,
        "collapseId": commit.collapse_id,
        "summaryUuid": commit.summary_uuid,
        "summaryContent": commit.content,
        "summary": commit.summary,
        "firstArchivedUuid": commit.first_uuid,
        "lastArchivedUuid": commit.last_uuid,
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


def collapse_expand(collapse_id: str, *, session_id: str = "") -> Record:
    """The line that restores a collapsed span (COL-4)."""
    return {"type": COLLAPSE_EXPAND, "sessionId": session_id, "collapseId": collapse_id}


def parse_collapse_expand(entry: Mapping[str, Any]) -> str:
    """The collapse id that a `collapse-expand` line takes back; empty if it names none."""
    return as_string(entry.get("collapseId"))


def collapse_snapshot(snapshot: CollapseSnapshot, *, session_id: str = "") -> Record:
    """The line with the state of context collapse."""
    staged = [
        {
            "startUuid": span.first_uuid,
            "endUuid": span.last_uuid,
            "summary": span.summary,
            "risk": span.score,
            "stagedAt": span.staged_at,
        }
        for span in snapshot.staged
    ]
    return {
        "type": COLLAPSE_SNAPSHOT,
        "sessionId": session_id,
        "staged": staged,
        "armed": snapshot.armed,
        "lastSpawnTokens": snapshot.last_run_tokens,
    }


def parse_collapse_snapshot(entry: Mapping[str, Any]) -> CollapseSnapshot:
    """The state in a snapshot line; spans without both ends are left out."""
    spans = [_staged(item) for item in _list(entry.get("staged")) if isinstance(item, Mapping)]
    return CollapseSnapshot(
        tuple(span for span in spans if span is not None),
        entry.get("armed") is True,
        _int(entry.get("lastSpawnTokens")),
    )


def _staged(item: Mapping[str, Any]) -> StagedSpan | None:
    first, last = item.get("startUuid"), item.get("endUuid")
    if not (isinstance(first, str) and isinstance(last, str)):
        return None
    risk = item.get("risk")
    score = float(risk) if isinstance(risk, int | float) else 0.0
    return StagedSpan(
        first, last, as_string(item.get("summary")), score, _int(item.get("stagedAt"))
    )


# ---- compaction ------------------------------------------------------------------------------


def compact_boundary(metadata: Mapping[str, Any], *, content: str = "") -> Record:
    """The line that separates what was compacted from what follows.

    Args:
        metadata: `compactMetadata`, such as `trigger`, `preTokens`, `messagesSummarized`.
        content: The text for the user; empty: the default text.
    """
    extra = {"compactMetadata": dict(metadata)}
    return _marker(BOUNDARY, content or "Conversation compacted", extra)


def compact_summary(content: str | list[Any]) -> Record:
    """The entry of a summary message."""
    return {
        "type": "user",
        "message": {"role": "user", "content": content},
        "isVisibleInTranscriptOnly": True,
        "isCompactSummary": True,
    }


# ---- session metadata ------------------------------------------------------------------------


def session_metadata(kind: str, *, session_id: str = "", **fields: Any) -> Record:
    """A line about the session, such as `session_metadata("custom-title", customTitle="...")`."""
    return {"type": kind, **fields, "sessionId": session_id}


def _marker(subtype: str, content: str, extra: Mapping[str, Any]) -> Record:
    head = {"type": "system", "subtype": subtype, "content": content}
    return {**head, "isMeta": False, "level": "info", **extra}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def as_strings(value: Any) -> list[str]:
    """The strings of a list; empty for anything else."""
    return [item for item in _list(value) if isinstance(item, str)]


def as_string(value: Any) -> str:
    """A string; empty for anything else."""
    return value if isinstance(value, str) else ""


def _int(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


# Which entries of a transcript are in the context: a fold over its lines in file order.
#
# File order is authoritative; links between entries are used only to leave out what the user
# rewound. Parallel calls make the tree branch, compaction cuts it, and links may point forward or
# nowhere, so that walking it from the last leaf would lose results.


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
    whole: set[str] = field(default_factory=set)  # the budget's decisions to send whole
    removed: dict[str, str] = field(default_factory=dict)  # uuid: why it is not in the context
    commits: dict[str, CollapseCommit] = field(default_factory=dict)
    snapshot: CollapseSnapshot | None = None
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
    others = [row for row in main if row.at not in rewound]
    return out | rewound | _unfinished(others, source, state)


def _remove(state: Replay, row: RecordLine, reason: str) -> None:
    if row.uuid and row.type in _TALK:
        state.removed[row.uuid] = reason


def _rewound(rows: Sequence[RecordLine], source: RecordSource) -> set[int]:
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
    return _below(rows, undone, source) if undone else set()


def _below(
    rows: Sequence[RecordLine], tops: Iterable[RecordLine], source: RecordSource
) -> set[int]:
    stack = list(tops)
    children: defaultdict[str, list[RecordLine]] = defaultdict(list)
    for row in rows:
        parent = row.parent
        if not parent and row.subtype == BOUNDARY:
            parent = as_string(source.load(row.at).get("logicalParentUuid"))
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


def _unfinished(rows: Sequence[RecordLine], source: RecordSource, state: Replay) -> set[int]:
    """Boundaries without a summary, and what was written with them: a crash came between."""
    out: set[int] = set()
    uuids = {row.uuid for row in rows if row.uuid}
    has_summary = False
    partial: set[str] = set()
    for row in reversed(rows):
        if row.subtype != BOUNDARY:
            has_summary = has_summary or bool(row.flags & RowFlag.SUMMARY)
            continue
        entry = source.load(row.at)
        group = _group(entry)
        # Codex puts the history that is left instead of a summary.
        complete = has_summary or metadata_of(entry).get("replacementHistory") is True
        if not complete or not group <= uuids:
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
    return set(as_strings(metadata_of(entry).get("groupUuids")))


def metadata_of(entry: Item) -> Mapping[str, Any]:
    """What a boundary says of its compaction."""
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
                self._apply(row)
        self._place_waiting()
        self._explain(rows)

    def _apply(self, row: RecordLine) -> None:
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
        metadata = metadata_of(entry)
        preserved = self._preserved(metadata)
        self._state.context = []
        self._state.boundary = row
        self._waiting, self._anchor = preserved, _anchor(metadata)
        self._anchored = self._places.get(self._anchor, -1) > row.at
        if self._anchor == row.uuid:
            self._place_waiting()

    def _preserved(self, metadata: Mapping[str, Any]) -> list[Slot]:
        context = self._state.context
        where = {slot.uuid: at for at, slot in enumerate(context) if slot.uuid}
        messages = metadata.get("preservedMessages")
        if isinstance(messages, Mapping) and (uuids := as_strings(messages.get("uuids"))):
            self._state.missing.extend(uuid for uuid in uuids if uuid not in where)
            return [context[where[uuid]] for uuid in uuids if uuid in where]
        segment = metadata.get("preservedSegment")
        if not isinstance(segment, Mapping):
            return []
        head, tail = as_string(segment.get("headUuid")), as_string(segment.get("tailUuid"))
        if head not in where or tail not in where:
            self._state.missing.extend(uuid for uuid in (head, tail) if uuid and uuid not in where)
            return []
        return context[where[head] : where[tail] + 1]

    def _snip(self, row: RecordLine, entry: Item) -> None:
        uuids = set(parse_snip(entry))
        self._rewrite(row, {slot.uuid for slot in self._state.context} & uuids)
        self._snipped |= uuids
        self._state.removed.update((uuid, "snipped") for uuid in uuids)
        self._drop(uuids)
        shown = (entry.get("snipMetadata") or {}).get("shownUuids")
        if isinstance(shown, list):  # a rewind past a compaction: these are the context again
            rows = {
                row.uuid: row for row in self._source.rows() if self._places.get(row.uuid) == row.at
            }
            self._state.context = [rows[uuid] for uuid in as_strings(shown) if uuid in rows]
            self._state.boundary, self._state.rewritten = None, row.at

    def _clear(self, row: RecordLine, entry: Item) -> None:
        cleared = parse_microcompact(entry)
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
        decided = parse_content_replacement(entry)
        self._state.whole |= decided.whole
        for tool_use_id, text in decided.replaced.items():
            self._state.replaced.setdefault(tool_use_id, text)
            # What was cleared since then stays cleared.
            self._state.texts.setdefault(tool_use_id, text)

    def _collapse(self, row: RecordLine, entry: Item) -> None:
        self._place_waiting()
        commit = parse_collapse_commit(entry)
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

    def _rewrite(self, row: RecordLine, removed: Iterable[Any]) -> None:
        """Usage from before this line is no longer valid if the line removed anything."""
        if any(True for _ in removed):
            self._state.rewritten = row.at

    def _expand(self, row: RecordLine, entry: Item) -> None:
        collapse_id = parse_collapse_expand(entry)
        context: list[Slot] = []
        for slot in self._state.context:
            is_collapse = isinstance(slot, Placeholder) and slot.collapse_id == collapse_id
            context.extend(
                slot.archived if is_collapse and isinstance(slot, Placeholder) else [slot]
            )
        self._state.context = context
        self._state.commits.pop(collapse_id, None)
        at, before = self._collapsed.pop(collapse_id, (-1, -1))
        if at >= 0:
            # If nothing was said in between, what was measured before the collapse is valid again.
            answered_since = any(isinstance(slot, RecordLine) and slot.at > at for slot in context)
            self._state.rewritten = row.at if answered_since else min(before, self._state.rewritten)

    def _snapshot(self, row: RecordLine, entry: Item) -> None:
        del row
        self._state.snapshot = parse_collapse_snapshot(entry)

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
    CONTENT_REPLACEMENT: _Fold._replace,
    COLLAPSE_EXPAND: _Fold._expand,
    **dict.fromkeys(COMMIT_TYPES, _Fold._collapse),
    **dict.fromkeys(SNAPSHOT_TYPES, _Fold._snapshot),
}


def _rows_in(slot: Slot) -> Iterable[RecordLine]:
    if isinstance(slot, Placeholder):
        for inner in slot.archived:
            yield from _rows_in(inner)
    else:
        yield slot


def kept_uuids(boundary: Item) -> set[str]:
    """Uuids that a boundary says were kept, as far as it names each."""
    messages = metadata_of(boundary).get("preservedMessages")
    return set(as_strings(messages.get("uuids"))) if isinstance(messages, Mapping) else set()


GivenMark = tuple[int, str, list[str], bool, list[str], str, str, str]
"""What a boundary says of itself, for `TranscriptIndex.context`: its line, logical parent, group, whether it needs no summary,
kept entries, head and tail of a kept segment, anchor."""


def mark_of(at: int, boundary: Item) -> GivenMark:
    """A boundary's mark, as the engine takes it."""
    metadata = metadata_of(boundary)
    messages, segment = metadata.get("preservedMessages"), metadata.get("preservedSegment")
    uuids = as_strings(messages.get("uuids")) if isinstance(messages, Mapping) else []
    ends = segment if isinstance(segment, Mapping) else {}
    return (
        at,
        as_string(boundary.get("logicalParentUuid")),
        as_strings(metadata.get("groupUuids")),
        metadata.get("replacementHistory") is True,
        uuids,
        as_string(ends.get("headUuid")),
        as_string(ends.get("tailUuid")),
        _anchor(metadata),
    )


def _anchor(metadata: Mapping[str, Any]) -> str:
    for key in ("preservedMessages", "preservedSegment"):
        part = metadata.get(key)
        if isinstance(part, Mapping) and (anchor := as_string(part.get("anchorUuid"))):
            return anchor
    return ""
