"""The context that the model saw last according to a transcript, with the origin of each part."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ullage.messages import Item, is_summary, listed, message_of
from ullage.transcript import records
from ullage.transcript.apply_records import (
    Placeholder,
    RecordLine,
    RecordSource,
    Replay,
    RowFlag,
    kept_uuids,
    replay,
)
from ullage.transcript.parents import mended
from ullage.transcript.render import project, rendered, to_messages

__all__ = ["Conversation", "Entries", "ResumeReport", "converse", "row_of"]


@dataclass(frozen=True, slots=True)
class ResumeReport:
    """What a resume left out, repaired or could not find."""

    removed: Mapping[str, str] = field(default_factory=dict)
    """Uuid of each entry that is not in the context: `compacted`, `collapsed`, `snipped`, `cleared`,
    `sidechain`, `synthetic`, `rewound`, `unfinished`, or `not shown` (an attachment without text)."""
    orphans: tuple[tuple[str, str], ...] = ()
    """(uuid, tool use id) of results without a call in the context, or a second for the same call."""
    missing: tuple[str, ...] = ()
    """Uuids that a boundary says were kept and that the file does not hold."""
    ignored: tuple[str, ...] = ()
    """Uuids of boundaries that have no effect, since their group of lines is incomplete."""
    torn: tuple[int, int] | None = None
    """(offset, length) of an unfinished last line."""
    bad: tuple[tuple[int, str], ...] = ()
    """(line number, reason) of lines that could not be read, or not as they should be."""

    def __repr__(self) -> str:
        return (
            f"ResumeReport(removed={len(self.removed)}, orphans={len(self.orphans)}, "
            f"missing={len(self.missing)}, ignored={len(self.ignored)}, "
            f"torn={self.torn}, bad={len(self.bad)})"
        )


@dataclass(frozen=True, slots=True)
class Conversation:
    """What the model was shown last.

    Attributes:
        messages: As they go to the API: `role` and `content` only.
        sources: For each message the uuids of the entries that it was made of.
        entries: Entries in the order of the context, one per line of the transcript, attachments as
            the user text that they become, what a compaction kept without its usage figures (they are
            of the context before it); what needed no change is the stored object.
        boundary: The newest compact boundary that counts, or `None`.
        replaced: Tool use id to the text that the tool-result budget put instead of its result.
        kept: Tool use ids whose result the budget decided to send whole.
        cleared: Tool use id to the text that microcompaction put instead of its result.
        commits: Collapsed spans in the context, by collapse id.
        snapshot: State of context collapse, or `None`.
        report: What was left out.
    """

    messages: list[dict[str, Any]]
    sources: list[tuple[str, ...]]
    entries: list[Item]
    boundary: Item | None = None
    replaced: Mapping[str, str] = field(default_factory=dict)
    kept: frozenset[str] = frozenset()
    cleared: Mapping[str, str] = field(default_factory=dict)
    commits: Mapping[str, records.CollapseCommit] = field(default_factory=dict)
    snapshot: records.CollapseSnapshot | None = None
    report: ResumeReport = field(default_factory=ResumeReport)

    def __repr__(self) -> str:
        compacted = ", after a boundary" if self.boundary is not None else ""
        return (
            f"Conversation({len(self.messages)} messages, {len(self.entries)} entries{compacted})"
        )


class Entries:
    """Entries or bare messages in memory, as a source for the replay."""

    def __init__(self, items: Iterable[Item]) -> None:
        self._items = listed(items)

    def rows(self) -> Sequence[RecordLine]:
        """One row for each item."""
        return [row_of(at, item) for at, item in enumerate(self._items)]

    def load(self, at: int) -> Item:
        """The item itself."""
        return self._items[at]


def row_of(at: int, item: Item) -> RecordLine:
    """The row of an entry; a bare message counts as an entry of its role."""
    kind = _text(item.get("type"))
    if "role" in item and "message" not in item:
        kind = _text(item.get("role"))
    subtype, uuid, parent = (_text(item.get(key)) for key in ("subtype", "uuid", "parentUuid"))
    return RecordLine(at, kind, subtype, uuid, parent, _flags(kind, item))


def _flags(kind: str, item: Item) -> int:
    message = message_of(item) or {}
    flags = 0
    if item.get("isSidechain") is True:
        flags |= RowFlag.SIDECHAIN
    if item.get("isApiErrorMessage") is True or message.get("model") == "<synthetic>":
        flags |= RowFlag.SYNTHETIC
    if is_summary(item):
        flags |= RowFlag.SUMMARY
    if kind == "user" and not flags and item.get("isMeta") is not True and _says(message):
        flags |= RowFlag.PROMPT
    return flags


def _says(message: Mapping[str, Any]) -> bool:
    content = message.get("content")
    if not isinstance(content, list):
        return isinstance(content, str)
    kinds = [block.get("type") if isinstance(block, Mapping) else None for block in content]
    return any(kind != "tool_result" for kind in kinds)


# ---- from the fold to messages ---------------------------------------------------------------


def converse(
    source: RecordSource,
    *,
    torn: tuple[int, int] | None = None,
    bad: Sequence[tuple[int, str]] = (),
) -> Conversation:
    """Replays a source and builds the messages of its context.

    Args:
        source: Lines in file order.
        torn: For the report: an unfinished last line.
        bad: For the report: unreadable lines.
    """
    state = replay(source)
    entries = mended(list(_entries(state, source)), _snipped_parents(state, source))
    view = to_messages(entries)
    return Conversation(
        view.messages,
        view.sources,
        entries,
        boundary=source.load(state.boundary.at) if state.boundary else None,
        replaced=state.replaced,
        kept=frozenset(state.kept),
        cleared={key: text for key, text in state.texts.items() if state.replaced.get(key) != text},
        commits=state.commits,
        snapshot=state.snapshot,
        report=ResumeReport(
            state.removed,
            tuple(view.orphans),
            tuple(state.missing),
            tuple(state.ignored),
            torn,
            tuple(bad),
        ),
    )


def _snipped_parents(state: Replay, source: RecordSource) -> dict[str, str]:
    """For each snipped entry its parent."""
    snipped = {uuid for uuid, reason in state.removed.items() if reason == "snipped"}
    return {row.uuid: row.parent for row in source.rows() if row.uuid in snipped} if snipped else {}


def _entries(state: Replay, source: RecordSource) -> Iterable[Item]:
    kept = _kept(state, source) | _stale(state, source)
    for slot in state.context:
        if isinstance(slot, Placeholder):
            yield _stand_in(slot)
            continue
        entry = rendered(source.load(slot.at))
        if entry is not None:
            entry = _unmeasured(entry) if slot.at in kept else entry
            yield project(entry, state.texts)
        elif slot.uuid:
            state.removed[slot.uuid] = "not shown"


def _kept(state: Replay, source: RecordSource) -> set[int]:
    """Lines of the context that stand before the newest boundary, or that it says were kept."""
    if state.boundary is None:
        return set()
    at, names = state.boundary.at, kept_uuids(source.load(state.boundary.at))
    rows = [slot for slot in state.context if isinstance(slot, RecordLine)]
    return {row.at for row in rows if row.at < at or row.uuid in names}


def _stale(state: Replay, source: RecordSource) -> set[int]:
    """Lines whose usage belongs to a context from which something was removed since, if there is no newer figure (TOK-4)."""
    rows = [slot for slot in state.context if isinstance(slot, RecordLine)]
    newer = (row for row in rows if row.at > state.rewritten and row.type == "assistant")
    if state.rewritten < 0 or any(_is_measured(source.load(row.at)) for row in newer):
        return set()
    return {row.at for row in rows if row.at < state.rewritten}


def _is_measured(entry: Item) -> bool:
    return bool((message_of(entry) or {}).get("usage"))


def _unmeasured(entry: Item) -> Item:
    """The entry without its usage: that was of the context before a boundary or removal, not of this one."""
    message = entry.get("message")
    if not isinstance(message, Mapping) or "usage" not in message:
        return entry
    return {**entry, "message": {key: message[key] for key in message if key != "usage"}}


def _stand_in(slot: Placeholder) -> Item:
    message = {"role": "user", "content": slot.text}
    return {"type": "user", "uuid": slot.uuid, "isMeta": True, "message": message}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
