"""Writes a compaction into the log, in Claude Code's own format (POST-1, POST-2, POST-5)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, pairwise
from typing import Any, Literal, NamedTuple

from ullage.exceptions import StoreError
from ullage.messages import COPY_OF, Item, StoredEntry
from ullage.transcript import records
from ullage.transcript.index import Transcript
from ullage.transcript.log import CARRIED, TranscriptLog
from ullage.transcript.records import MARK, RowFlag

# What every line of another program's log carries, continued as that program continues it (LOG-7).
#
# Codex numbers its lines and opens no session whose newest line has no number. Which fields a version writes is read from
# the file itself, so that a field of a newer version is continued as well, or the write is refused.


NEWEST_LINES = 40
"""So many lines at the end of a file say what all carry: enough to hold lines of every frequent kind."""


def continued(
    lines: Iterable[Item],
    newest: Sequence[Item],
    own: Iterable[str],
    path: str,
) -> list[dict[str, Any]]:
    """Lines with the fields that the lines of a log share besides those that a writer sets itself.

    Args:
        lines: What is appended.
        newest: The newest lines of the log, oldest first; of one type, they say nothing.
        own: Fields that the writer sets on each line.
        path: Of the file, for the error.

    Raises:
        StoreError: The lines share a field whose next value is unknown; names it.
    """
    numbers: dict[str, int] = {}
    same: dict[str, Any] = {}
    # What lines of one type share may be that type's own.
    several = len({str(line.get("type")) for line in newest}) > 1
    shared = set.intersection(*map(set, newest)) if several else set()
    for name in sorted(shared.difference(own)):
        values = [line[name] for line in newest]
        before, last = values[-2:]
        are_whole = all(type(value) is int for value in values)
        if before == last and type(before) is type(last):
            same[name] = last
        elif are_whole and all(a < b for a, b in pairwise(values)):
            numbers[name] = last
        else:
            reason = f"cannot be continued: each of its lines carries {name!r}, and what follows {str(last)[:40]!r} is unknown"
            hint = "nothing was written; `ullage compact FILE --output OTHER --format claude-code` writes another file"
            raise StoreError(reason, path=path, hint=hint)
    # Numbers go on from the newest, also over lines that came with one.
    return [
        {**same, **line, **{name: number + at for name, number in numbers.items()}}
        for at, line in enumerate(lines, 1)
    ]


_OWN = (*CARRIED, "parentUuid", "uuid", "timestamp", "isSidechain", "type", "message", COPY_OF)
"""What is set on each entry, or carried over from the newest."""

_TYPICAL = ("user", "assistant", "attachment", "system")
_OF_EACH = 10
"""So many of the newest entries of each type say what all entries carry."""


def boundary_metadata(
    trigger: Literal["auto", "manual"] = "auto",
    pre_tokens: int = 0,
    *,
    post_tokens: int | None = None,
    messages_summarized: int | None = None,
    discovered_tools: Sequence[str] = (),
) -> StoredEntry:
    """`compactMetadata` without what is known only when the log is written; `None`, and no tools, leave a field out."""
    fields = {
        "trigger": trigger,
        "preTokens": pre_tokens,
        "postTokens": post_tokens,
        "messagesSummarized": messages_summarized,
        "preCompactDiscoveredTools": list(discovered_tools) or None,
    }
    return {key: value for key, value in fields.items() if value is not None}


class KeptEntries(NamedTuple):
    """Entries that survive verbatim; they stay where they are in the file.

    Attributes:
        uuids: Their uuids, in the order of the context.
        before_summary: `False`: the newest part was kept and follows the summary. `True`: the oldest
            part was kept and comes before it.
    """

    uuids: tuple[str, ...] = ()
    before_summary: bool = False


def compaction_lines(
    log: TranscriptLog,
    metadata: StoredEntry,
    summaries: Sequence[Item],
    *,
    parent: str | None,
    kept_entries: KeptEntries,
    attachments: Sequence[Item] = (),
) -> list[StoredEntry]:
    """The lines of a compaction, not written: the boundary, the summaries and the attachments.

    With one write of them a crash leaves the log before the compaction or after it: the boundary names what was
    written with it, and counts only if all of that is there.

    Args:
        log: The open log.
        metadata: What the boundary says, see `boundary_metadata`.
        summaries: Summary messages, bare or as entries; at least one. A message of the assistant among them is
            the provider's own compaction item, which is unchanged.
        parent: Uuid of the entry that the boundary follows, if there is one.
        kept_entries: Entries of the log that survive verbatim.
        attachments: Entries of type `attachment`, and hook results, in the order of the context.

    Raises:
        InvalidMessage: A summary or attachment is not a message or entry.
        ValueError: There is no summary.
    """
    if not summaries:
        raise ValueError("a compaction needs a summary")
    mark = log.entry(records.compact_boundary(metadata), parent=parent)
    link = str(mark["uuid"])
    follow: list[StoredEntry] = []
    for at, item in enumerate([*map(_as_summary, summaries), *attachments]):
        follow.append(log.entry(item, parent=link, index=at))
        link = str(follow[-1]["uuid"])
    anchor = str(follow[len(summaries) - 1]["uuid"])
    written = [str(entry["uuid"]) for entry in follow]
    mark["compactMetadata"].update(boundary_links(str(mark["uuid"]), anchor, written, kept_entries))
    return [mark, *follow]


def without_ids(item: Item) -> StoredEntry:
    """The entry without what only the log assigns: ids, parents and times."""
    own = ("uuid", "parentUuid", "timestamp")
    return {key: value for key, value in item.items() if key not in own}


def is_managers(entries: Iterable[Item]) -> bool:
    """Whether they are of the log of a `ContextManager`, which goes on from lines and marks of its own."""
    return any(MARK in entry for entry in entries)


def refuse_managers(entries: Iterable[Item], path: str) -> None:
    """Append nothing to the log of a `ContextManager` (`StoreError`): what it did not write counts as never written."""
    if is_managers(entries):
        reason = "is the log of a ContextManager, which alone writes to it"
        hint = "`ContextManager.resume(path)` and its methods change it; `ullage compact` can write another file"
        raise StoreError(reason, path=path, hint=hint)


def lines_to_append(transcript: Transcript, entries: Iterable[Item], path: str) -> list[Item]:
    """Entries with what all entries of a Claude Code file carry besides the fields that are set on each, and the session's lines again.

    Raises:
        StoreError: Its entries share a field that cannot be continued, or a `ContextManager` writes to it.
    """
    newest: dict[str, list[int]] = {kind: [] for kind in _TYPICAL}
    for row in reversed(transcript.rows()):
        places = newest.get(row.type)
        if places is not None and len(places) < _OF_EACH and not row.flags & RowFlag.SIDECHAIN:
            places.append(row.at)
    lines = [transcript.load(at) for at in sorted(chain(*newest.values()))]
    refuse_managers(lines, path)
    written = continued(entries, lines, _OWN, path)
    return [*written, *session_lines(transcript, written)]


def session_lines(transcript: Transcript, written: Sequence[Item]) -> list[Item]:
    """The newest line of each type about the session, to be repeated after a compaction, and where to go on.

    Lists of sessions only read the last part of a file; Claude Code goes on from the entry that `last-prompt` names: the last written.
    """
    leaf = written[-1]["uuid"]
    return [
        {**line, "leafUuid": leaf} if kind == "last-prompt" else line
        for kind, line in transcript.metadata.items()
    ]


def _as_summary(item: Item) -> Item:
    """A bare message of the user as a summary. An entry says itself what it is: a standing text of the host comes before the summary as it was."""
    if "message" in item or item.get("role") == "assistant":  # the provider's own item
        return item
    return records.compact_summary(item.get("content", ""))


def boundary_links(
    mark: str, anchor: str, follow: Sequence[str], preserved: KeptEntries
) -> StoredEntry:
    """Metadata that ties a boundary to what belongs to it.

    `mark` and `anchor` are the uuids of the boundary and of its last summary; it counts only if all of `follow` are there.
    """
    links: StoredEntry = {"groupUuids": list(follow)}
    if uuids := list(preserved.uuids):
        anchor = mark if preserved.before_summary else anchor
        ends = {"headUuid": uuids[0], "anchorUuid": anchor, "tailUuid": uuids[-1]}
        links["preservedSegment"] = ends
        links["preservedMessages"] = {"anchorUuid": anchor, "uuids": uuids, "allUuids": uuids}
    return links
