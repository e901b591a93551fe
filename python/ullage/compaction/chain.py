"""Kept entries on one chain of parents, for readers that walk a Claude Code file from its newest entry to the oldest.

Results of parallel calls branch off that chain. Where the kept part has such branches, it is written again after the
summary, each entry the child of the one before; both ways of reading then find the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ullage.compaction.boundary import stable_uuid
from ullage.compaction.compaction_result import CompactionResult
from ullage.messages import COPY_OF, Item
from ullage.transcript import Transcript
from ullage.transcript.apply_records import RecordLine

__all__ = ["Copies", "entries_to_write", "on_one_chain"]


def on_one_chain(result: CompactionResult, transcript: Transcript) -> CompactionResult:
    """The result, with copies of what is kept if a walk along the parents would miss some of it.

    Args:
        result: Of entries that stand in the file, with its own lines as they will be written.
        transcript: The file before the compaction.
    """
    places = {row.uuid: row for row in transcript.rows() if row.uuid}
    uuids = [str(name) for name in result.report.kept]
    known = result.kept and all(name in places for name in uuids)
    # No other program finds a message that stands in the queue only.
    found = known and not any(transcript.is_queued(places[name].at) for name in uuids)
    if result.boundary is None or not known or (found and _linked(uuids, places)):
        return result
    # As the file holds them: what may not be sent of them is left out of each request, not of the log.
    whole = [transcript.load(places[name].at) for name in uuids]
    return _copied(result, result.boundary, whole)


def entries_to_write(result: CompactionResult) -> Sequence[Item]:
    """What is appended to the file: kept entries stay where they are, unless they were copied."""
    links = (result.boundary or {}).get("compactMetadata", {})
    copied = result.kept and "preservedMessages" not in links
    return result.messages if copied else result.new_entries


def _linked(uuids: Sequence[str], places: Mapping[str, RecordLine]) -> bool:
    """Whether the walk from the last to the first passes all of them."""
    left, at, passed = set(uuids), uuids[-1], set[str]()
    while at in places and at not in passed:
        passed.add(at)
        left.discard(at)
        if at == uuids[0]:
            break
        at = places[at].parent
    return not left


def _copied(result: CompactionResult, boundary: Item, whole: Sequence[Item]) -> CompactionResult:
    parent = str(boundary["uuid"])
    copies = Copies(parent)
    kept = {id(item) for item in result.kept}
    order = list(result.messages[1:])
    place = next(at for at, item in enumerate(order) if id(item) in kept)
    rest = [item for item in order if id(item) not in kept]
    made: dict[int, dict[str, Any]] = {}
    for item in [*rest[:place], *whole, *rest[place:]]:
        entry = {**item, "parentUuid": parent}
        if place <= len(made) < place + len(whole):
            entry = copies.of(item, parent)
        made[id(item)] = entry
        parent = str(entry["uuid"])
    metadata = {
        key: value
        for key, value in boundary["compactMetadata"].items()
        if key not in ("preservedSegment", "preservedMessages")
    }
    metadata["groupUuids"] = [entry["uuid"] for entry in made.values()]
    cut = {**boundary, "compactMetadata": metadata}

    def new(items: Sequence[Item]) -> tuple[Item, ...]:
        return tuple(made[id(item)] for item in items)

    return replace(
        result,
        messages=(cut, *made.values()),
        boundary=cut,
        summary_messages=new(result.summary_messages),
        kept=new(whole),
        attachments=new(result.attachments),
        hook_results=new(result.hook_results),
    )


class Copies:
    """Copies of entries under ids of their own: Claude Code merges entries that share an id with their originals.

    Args:
        mark: Uuid of the boundary that they follow.
    """

    def __init__(self, mark: str) -> None:
        self._mark = mark
        self._uuids: dict[str, str] = {}

    def of(self, item: Item, parent: str) -> dict[str, Any]:
        """A copy, without usage, which would be counted twice and is of the context before.

        Args:
            item: An entry with a uuid.
            parent: Uuid of the entry before it.
        """
        old = str(item["uuid"])
        own = self._uuids[old] = stable_uuid("kept", self._mark, old)
        entry = {**item, "parentUuid": parent, "uuid": own, COPY_OF: item.get(COPY_OF) or old}
        if isinstance(item.get("message"), Mapping):
            entry["message"] = self._message(item["message"])
        caller = item.get("sourceToolAssistantUUID")
        if caller in self._uuids:
            entry["sourceToolAssistantUUID"] = self._uuids[caller]
        return entry

    def _message(self, message: Mapping[str, Any]) -> dict[str, Any]:
        rest = {key: value for key, value in message.items() if key != "usage"}
        if isinstance(rest.get("id"), str):
            rest["id"] = "msg_" + stable_uuid("response", self._mark, rest["id"]).replace("-", "")
        return rest
