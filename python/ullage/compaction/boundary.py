"""Boundary, summary and attachments as entries of a transcript, made before anything is written.

Ids and times come from the input, so that the same conversation yields the same entries in every
process; a log that writes them keeps the ids.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from ullage.messages import Item, StoredEntry, message_of
from ullage.transcript import records
from ullage.transcript.write import BoundaryInfo, Kept, boundary_links

__all__ = ["BoundaryEntries", "stable_uuid"]


_NAMESPACE = uuid.UUID("5b0e5f5c-9f0e-5d0a-8f7a-6f0f6c1b7a11")
_COPIED = ("userType", "cwd", "sessionId", "version", "gitBranch", "slug", "entrypoint")


def stable_uuid(*parts: str) -> str:
    """The same id for the same parts, in every process."""
    return str(uuid.uuid5(_NAMESPACE, "\x1f".join(parts)))


class BoundaryEntries:
    """Makes the entries of one compaction.

    Args:
        context: Entries that the model saw; what they share (session, folder, branch, newest time) is
            carried over.
        last: Uuid of the last message before the boundary; empty: it has none.
    """

    def __init__(self, context: Sequence[Item], last: str) -> None:
        self._shared = _shared(context)
        self._last = last

    def summary(self, content: str | list[Any], *, behind: str = "") -> StoredEntry:
        """The summary message; its parent is the boundary, or the entry before it."""
        text = content if isinstance(content, str) else str(content[0]["text"])
        name = stable_uuid("summary", self._last, text)
        parent = behind or stable_uuid("boundary", self._last, name)
        return {
            **self._shared,
            "parentUuid": parent,
            "uuid": name,
            **records.compact_summary(content),
        }

    def carried(self, messages: Sequence[Item], summary: Item) -> tuple[StoredEntry, ...]:
        """The entries between boundary and summary: an item that only its provider can write, and standing texts of the host."""
        entries = []
        parent = stable_uuid("boundary", self._last, str(summary["uuid"]))
        for at, message in enumerate(messages):
            said = dict(message_of(message) or {})
            name = stable_uuid("carried", str(summary["uuid"]), *([str(at)] if at else []))
            kind = "assistant" if said.get("role") == "assistant" else "user"
            head = {"parentUuid": parent, "uuid": name, "type": kind}
            entries.append({**self._shared, **head, "message": said})
            parent = name
        return tuple(entries)

    def following(self, attachments: Sequence[Mapping[str, Any]], parent: str) -> list[StoredEntry]:
        """Attachments as entries, each the child of the one before."""
        entries = []
        for at, attachment in enumerate(attachments):
            name = stable_uuid("attachment", parent, str(at))
            entry = {**self._shared, "parentUuid": parent, "uuid": name}
            entries.append({**entry, "type": "attachment", "attachment": dict(attachment)})
            parent = name
        return entries

    def boundary(
        self, info: BoundaryInfo, summary: Item, follow: Sequence[Item], kept: Kept
    ) -> StoredEntry:
        """The boundary: what was done, and what belongs to it."""
        anchor = str(summary["uuid"])
        mark = stable_uuid("boundary", self._last, anchor)
        entry = records.compact_boundary(info.metadata())
        uuids = [anchor, *(str(item["uuid"]) for item in follow)]
        entry["compactMetadata"].update(boundary_links(mark, anchor, uuids, kept))
        head = {"parentUuid": None, "logicalParentUuid": self._last or None, "uuid": mark}
        return {**self._shared, **head, **entry}


def _shared(context: Sequence[Item]) -> StoredEntry:
    shared: StoredEntry = {"isSidechain": False}
    for item in reversed(context):
        if isinstance(item.get("message"), Mapping) and item.get("sessionId"):
            shared.update({key: item[key] for key in _COPIED if item.get(key) is not None})
            break
    stamps = [item["timestamp"] for item in context if isinstance(item.get("timestamp"), str)]
    if stamps:
        shared["timestamp"] = _after(max(stamps))
    return shared


def _after(stamp: str) -> str:
    """One millisecond later, so that usage of what is kept is known to be of the context before."""
    try:
        moment = datetime.fromisoformat(stamp) + timedelta(milliseconds=1)
    except (ValueError, OverflowError):
        return stamp
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
