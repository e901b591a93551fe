"""A compaction in the words of the tool that wrote the file: one more line, from which that tool goes on too.

Codex reads a `compacted` line with the whole new history in it. pi reads a `compaction` line with the summary and the
place from which on its lines stay. Whether the file, read again, shows the model what was compacted is for the caller to check:
pi's line has no words for everything.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from ullage.facts.compaction_items import newest_item
from ullage.messages import Item, as_blocks, is_summary
from ullage.providers._responses_out import ResponsesWriter
from ullage.transcript.envelope import NEWEST_LINES, Envelope
from ullage.transcript.formats import OpenedFile
from ullage.transcript.formats._model import iso

__all__ = ["APPENDED", "continued", "lines_of", "replaced_history", "shown"]

APPENDED = ("codex", "pi")
"""Formats with a line of their own for a compaction."""

Line = dict[str, Any]

_OWN = {
    "codex": ("timestamp", "type", "payload"),
    "pi": ("timestamp", "type", "id", "parentId"),
}
"""What is set on each line here; what else all lines of a file carry is continued."""


def lines_of(
    kind: str, source: OpenedFile, entries: Sequence[Item], messages: Sequence[Item]
) -> list[Line]:
    """What is appended to the file.

    Args:
        kind: One of `APPENDED`.
        source: The file as it is now.
        entries: Boundary and summary, from `CompactionResult.new_entries`.
        messages: The context after the compaction.

    Returns:
        Lines; none if the format has no words for this compaction.
    """
    return _codex(source, entries, messages) if kind == "codex" else _pi(source, entries)


def continued(kind: str, source: OpenedFile, lines: Sequence[Line], path: str) -> list[Line]:
    """Lines with what the newest lines of a file carry, such as Codex' `ordinal`.

    Args:
        kind: One of `APPENDED`.
        source: The file as it is now.
        lines: What is to be appended.
        path: Of the session, for the error.

    Raises:
        StoreError: Its lines share a field that cannot be continued.
    """
    # Ullage 0.1 wrote such lines without a number, so they say nothing about those of Codex.
    typical = None if kind == "pi" else _is_of_codex
    newest, first = source.newest(NEWEST_LINES), source.head[:1]
    newest = newest if newest[:1] == first else first + newest  # it is of another type than most
    return Envelope(newest, _OWN[kind], path, typical).over(lines)


def _is_of_codex(line: Item) -> bool:
    payload = line.get("payload")
    event = payload.get("type") if isinstance(payload, Mapping) else None
    return line.get("type") != "compacted" and event != _COMPACTED


def shown(kind: str, messages: Sequence[Item]) -> list[Any]:
    """What the model is shown of messages, in the format's own form, to be compared."""
    if kind == "codex":
        return _items(messages)
    return [(message["role"], as_blocks(message["content"])) for message in messages]


# ---- Codex -----------------------------------------------------------------------------------

_COMPACTED = "context_compacted"


def _codex(source: OpenedFile, entries: Sequence[Item], messages: Sequence[Item]) -> list[Line]:
    stamp = _stamp(entries)
    payload: Line = {
        "message": _text(_summary(entries)["content"]),
        "replacement_history": _items(messages),
        **_window(source, str(_entry(entries)["uuid"])),
    }
    return [
        {"timestamp": stamp, "type": "compacted", "payload": payload},
        {"timestamp": stamp, "type": "event_msg", "payload": {"type": _COMPACTED}},
    ]


def replaced_history(source: OpenedFile, messages: Sequence[Item], **more: str) -> list[Line]:
    """The lines after which Codex goes on from these messages, whatever stands before them.

    Args:
        source: The file as it is now.
        messages: The context that is to hold.
        **more: Further keys of the line, which Codex passes over.
    """
    stamp = iso(time.time_ns() // 1_000_000)
    window = _window(source, str(uuid.uuid4()))
    payload: Line = {"message": "", "replacement_history": _items(messages), **window, **more}
    return [{"timestamp": stamp, "type": "compacted", "payload": payload}]


def _items(messages: Sequence[Item]) -> list[Line]:
    """Items as Codex reads them back: messages say their type, and their content is a list of parts."""
    return [_item(item) for item in ResponsesWriter(messages).items(messages)]


def _item(item: Mapping[str, Any]) -> Line:
    if "role" not in item:
        return dict(item)
    content = item.get("content")
    if isinstance(content, str):
        kind = "output_text" if item["role"] == "assistant" else "input_text"
        content = [{"type": kind, "text": content}]
    return {**item, "type": "message", "content": content}


def _window(source: OpenedFile, new: str) -> Line:
    """Codex numbers its windows since some version; a file without numbers gets none."""
    number: Any = 0
    first = last = ""
    for _, line in source.lines():
        payload = line.get("payload")
        if line.get("type") == "session_meta" and isinstance(payload, Mapping) and not last:
            opened = payload.get("context_window")
            first = last = _id(opened) if isinstance(opened, Mapping) else ""
        elif line.get("type") == "compacted" and isinstance(payload, Mapping):
            number, last = payload.get("window_number"), _id(payload)
            first = str(payload.get("first_window_id") or first or last)
    if not isinstance(number, int) or not last:
        return {}
    return {
        "window_number": number + 1,
        "first_window_id": first,
        "previous_window_id": last,
        "window_id": new,
    }


def _id(window: Mapping[str, Any]) -> str:
    name = window.get("window_id")
    return name if isinstance(name, str) else ""


# ---- pi --------------------------------------------------------------------------------------


def _pi(source: OpenedFile, entries: Sequence[Item]) -> list[Line]:
    if any(_is_item(entry) for entry in entries):
        return []  # a summary is all that pi's line holds
    metadata = entries[0].get("compactMetadata") or {}
    kept = (metadata.get("preservedMessages") or {}).get("uuids") or []
    lines = list(source.lines())
    place = _place(lines, str(kept[0])) if kept else len(lines)
    if place is None:
        return []
    last = lines[-1][1]
    linked = isinstance(last.get("id"), str) and last.get("type") != "session"
    said: Line = {"type": "compaction"}
    if linked:
        said |= {"id": _unused(lines, str(_entry(entries)["uuid"])), "parentId": last["id"]}
    said |= {
        "timestamp": _stamp(entries),
        "summary": _text(_summary(entries)["content"]),
        "tokensBefore": metadata.get("preTokens") or 0,
    }
    if linked and place < len(lines):
        said["firstKeptEntryId"] = lines[place][1].get("id")
    else:
        said["firstKeptEntryIndex"] = place
    return [said]


def _unused(lines: Sequence[tuple[int, Mapping[str, Any]]], uuid: str) -> str:
    """Eight digits, as pi's ids are: a compaction that was taken back and made again has the uuid that it had."""
    taken = {line.get("id") for _, line in lines}
    digits = uuid.replace("-", "")
    parts = (digits[at : at + 8] for at in range(0, len(digits), 8))
    return next((part for part in parts if part not in taken), None) or os.urandom(4).hex()


def _place(lines: Sequence[tuple[int, Mapping[str, Any]]], uuid: str) -> int | None:
    """Which line an entry was read from: its number ends the id that the reader gave it."""
    number = uuid.rpartition("-")[2]
    return next((at for at, (line, _) in enumerate(lines) if str(line) == number), None)


# ---- both ------------------------------------------------------------------------------------


def _entry(entries: Sequence[Item]) -> Item:
    return next(entry for entry in entries if is_summary(entry))


def _is_item(entry: Item) -> bool:
    """Whether an entry carries a compaction item that only its provider can write."""
    return newest_item([entry]) is not None


def _stamp(entries: Sequence[Item]) -> str:
    """When the newest entry was made; now, where the file has no times."""
    return str(entries[0].get("timestamp") or iso(time.time_ns() // 1_000_000))


def _summary(entries: Sequence[Item]) -> Mapping[str, Any]:
    message: Mapping[str, Any] = _entry(entries)["message"]
    return message


def _text(content: Any) -> str:
    return "\n\n".join(str(part.get("text", "")) for part in as_blocks(content))
