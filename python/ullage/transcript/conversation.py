"""The context that the model saw last according to a transcript, with the origin of each part."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from io import FileIO
from pathlib import Path
from typing import Any

from ullage._start import Frozen, NamedTuple
from ullage.exceptions import InvalidTranscript, LogConflict, StoreError
from ullage.messages import Item, is_summary, message_of
from ullage.transcript import records
from ullage.transcript.records import (
    Placeholder,
    RecordLine,
    Replay,
    RowFlag,
    as_mapping,
    as_string,
    mark_of,
)
from ullage.transcript.render import messages_of, project, rendered


class ResumeReport(Frozen):
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
    unfinished: tuple[int, int] | None = None
    """(offset, length) of an unfinished last line."""
    bad: tuple[tuple[int, str], ...] = ()
    """(line number, reason) of lines that could not be read, or not as they should be."""

    def __repr__(self) -> str:
        return (
            f"ResumeReport(removed={len(self.removed)}, orphans={len(self.orphans)}, "
            f"missing={len(self.missing)}, ignored={len(self.ignored)}, "
            f"unfinished={self.unfinished}, bad={len(self.bad)})"
        )


class Conversation(Frozen):
    """What the model was shown last.

    Attributes:
        messages: As they go to the API: `role` and `content` only.
        sources: For each message the uuids of the entries that it was made of.
        entries: Entries in the order of the context, one per line of the transcript, attachments as
            the user text that they become, what a compaction kept without its usage figures (they are
            of the context before it); what needed no change is the stored object.
        boundary: The newest compact boundary that counts, or `None`.
        replaced: Tool use id to the text that the tool-result budget put instead of its result.
        whole: Tool use ids whose result the budget decided to send whole.
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
    whole: frozenset[str] = frozenset()
    cleared: Mapping[str, str] = field(default_factory=dict)
    commits: Mapping[str, records.CollapseCommit] = field(default_factory=dict)
    snapshot: records.CollapseSnapshot | None = None
    report: ResumeReport = field(default_factory=ResumeReport)

    def __repr__(self) -> str:
        compacted = ", after a boundary" if self.boundary is not None else ""
        return (
            f"Conversation({len(self.messages)} messages, {len(self.entries)} entries{compacted})"
        )


QUEUED = "queued"
"""Where the entry came from that stands for a message typed while the agent worked."""


def row_of(at: int, item: Item) -> RecordLine:
    """The row of an entry; a bare message counts as an entry of its role."""
    kind = as_string(item.get("type"))
    if "role" in item and "message" not in item:
        kind = as_string(item.get("role"))
    message, flags = message_of(item) or {}, 0
    if item.get("isSidechain") is True:
        flags |= RowFlag.SIDECHAIN
    if item.get("isApiErrorMessage") is True or message.get("model") == "<synthetic>":
        flags |= RowFlag.SYNTHETIC
    if is_summary(item):
        flags |= RowFlag.SUMMARY
    # What was sent along from the queue does not take back what was asked before it: several of them follow one entry.
    asked = item.get("isMeta") is not True and item.get("promptSource") != QUEUED
    if kind == "user" and not flags and asked and _says(message.get("content")):
        flags |= RowFlag.PROMPT
    subtype, uuid, parent = (as_string(item.get(key)) for key in ("subtype", "uuid", "parentUuid"))
    return RecordLine(at, kind, subtype, uuid, parent, flags)


def _says(content: object) -> bool:
    """Whether it holds more than results of tools."""
    if not isinstance(content, list):
        return isinstance(content, str)
    return any(as_mapping(block).get("type") != "tool_result" for block in content)


# ---- from the fold to messages ---------------------------------------------------------------


def converse(
    rows: Sequence[RecordLine],
    load: Callable[[int], Item],
    *,
    unfinished: tuple[int, int] | None = None,
    bad: Sequence[tuple[int, str]] = (),
) -> Conversation:
    """Replays lines in file order and builds the messages of their context; the report takes over what could not be read.

    `bad` may grow while lines are loaded.
    """
    state = Replay(rows, load)
    entries = list(_entries(state, load))
    if snipped := {uuid for uuid, reason in state.removed.items() if reason == "snipped"}:
        parents = {row.uuid: row.parent for row in rows if row.uuid in snipped}
        entries = [_relinked(entry, parents) for entry in entries]
    view = messages_of(entries)
    return Conversation(
        view.messages,
        view.sources,
        entries,
        boundary=load(state.boundary.at) if state.boundary else None,
        replaced=state.replaced,
        whole=frozenset(state.whole),
        cleared={key: text for key, text in state.texts.items() if state.replaced.get(key) != text},
        commits=state.commits,
        snapshot=state.snapshot,
        report=ResumeReport(
            state.removed,
            tuple(view.orphans),
            tuple(state.missing),
            tuple(state.ignored),
            unfinished,
            tuple(bad),
        ),
    )


def _entries(state: Replay, load: Callable[[int], Item]) -> Iterator[Item]:
    unmeasured = _unmeasured_lines(state, load)
    for slot in state.context:
        if isinstance(slot, Placeholder):
            stand_in = {"role": "user", "content": slot.text}
            yield {"type": "user", "uuid": slot.uuid, "isMeta": True, "message": stand_in}
            continue
        entry = rendered(load(slot.at))
        if entry is not None:
            message = entry.get("message") if slot.at in unmeasured else None
            if isinstance(message, Mapping) and "usage" in message:
                others = {key: message[key] for key in message if key != "usage"}
                entry = {**entry, "message": others}
            yield project(entry, state.texts) if state.texts else entry
        elif slot.uuid:
            state.removed[slot.uuid] = "not shown"


def _unmeasured_lines(state: Replay, load: Callable[[int], Item]) -> set[int]:
    """Lines of the context whose usage is of another context than this one.

    Those that stand before the newest boundary, or that it says were kept; and those before the line that removed something last,
    if there is no newer figure (TOK-4).
    """
    lines: set[int] = set()
    rows = [slot for slot in state.context if isinstance(slot, RecordLine)]
    if state.boundary is not None:
        at = state.boundary.at
        names = set(mark_of(at, load(at)).preserved)
        lines = {row.at for row in rows if row.at < at or row.uuid in names}
    if state.rewritten >= 0:
        newer = (row for row in rows if row.at > state.rewritten and row.type == "assistant")
        if not any((message_of(load(row.at)) or {}).get("usage") for row in newer):
            lines |= {row.at for row in rows if row.at < state.rewritten}
    return lines


def _relinked(entry: Item, snipped: Mapping[str, str]) -> Item:
    """The entry, its parent link past snipped ones (by uuid, with their parents) to the nearest ancestor that remains (SNIP-4)."""
    parent = entry.get("parentUuid")
    if not isinstance(parent, str) or parent not in snipped:
        return entry
    seen = set()
    while parent in snipped and parent not in seen:  # a damaged file may link in circles
        seen.add(parent)
        parent = snipped[parent]
    return {**entry, "parentUuid": None if parent in seen else parent or None}


# The state of a file when it was read, which a compaction compares before it writes, since others may write too.

_CHANGED = "open it again and compact that: nothing was written"


class FilePin(NamedTuple):
    """A file as it was read.

    Attributes:
        device: With `inode`, which file it is, whatever its name.
        inode: See `device`.
        size: Bytes that were read, from its start.
        modified: When it was written to last, in nanoseconds since the epoch.
    """

    device: int
    inode: int
    size: int
    modified: int

    @classmethod
    def of(cls, before: os.stat_result, after: os.stat_result, size: int) -> FilePin:
        """The pin of a file of which so many bytes were read between two looks at it."""
        # What was appended meanwhile was not read, and makes the pin differ from the file.
        look = before if before.st_size == size else after
        return cls(look.st_dev, look.st_ino, size, look.st_mtime_ns)

    def check(self, now: os.stat_result, path: str) -> None:
        """Compares a look at the file now with what was read.

        Raises:
            LogConflict: It grew, was truncated or overwritten, or is another file.
        """
        if (now.st_dev, now.st_ino) != (self.device, self.inode):
            raise LogConflict(f"{path}: another file has replaced it", hint=_CHANGED)
        if now.st_size != self.size:
            raise LogConflict(
                f"{path}: the file changed since it was opened: it has {now.st_size:,} bytes, {self.size:,} were read",
                hint=_CHANGED,
            )
        if now.st_mtime_ns != self.modified:
            raise LogConflict(f"{path}: the file was written to since it was opened", hint=_CHANGED)


def open_regular(path: str) -> FileIO:
    """Open a regular file for reading; a pipe in its place does not block the caller.

    Raises:
        InvalidTranscript: It is not a regular file.
        StoreError: It is missing or cannot be read.
    """
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        _refuse(Path(path).stat().st_mode, path)  # devices can do something when they are opened
        file = FileIO(os.open(path, flags), "r")
    except OSError as exc:
        raise StoreError(f"cannot be read: {exc.strerror or exc}", path=path) from exc
    try:
        _refuse(os.fstat(file.fileno()).st_mode, path)
    except BaseException:
        file.close()
        raise
    return file


def _refuse(mode: int, path: str) -> None:
    if stat.S_ISDIR(mode):
        raise InvalidTranscript("is a directory", path=path, hint="name one file of it")
    if not stat.S_ISREG(mode):
        raise InvalidTranscript("is not a regular file", path=path)
