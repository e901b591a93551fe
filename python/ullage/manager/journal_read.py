"""What a log tells of a context manager: its state, the history, and what came after the newest line of the state."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

import orjson

from ullage.exceptions import InvalidTranscript
from ullage.manager.delta import patch
from ullage.manager.journal import ITEM, MARK, STATE
from ullage.manager.saved_state import FORMAT
from ullage.messages import Item
from ullage.transcript.index import Transcript
from ullage.transcript.log import TranscriptLog

__all__ = ["Added", "Found", "ms_of", "read_journal", "read_message", "uuids_of"]


class Added(NamedTuple):
    """A message as it was added, and what the log calls it."""

    item: Item
    uuid: str
    timestamp: str
    offset: int = -1  # of its line; negative: it has none of its own


@dataclass(slots=True)
class Found:
    """What was read.

    Attributes:
        state: As `Journal.state`; empty: no manager has written to this log.
        history: Of that state.
        later: Messages that were added after it.
        torn: Uuids of entries that an unfinished write left: they count as never written.
        reports: Of all levels so far, as they were dumped.
        records: Of all requests so far.
        let_go: What the account does not hold: as in `Machine`.
    """

    state: dict[str, Any] = field(default_factory=dict)
    history: list[Added] = field(default_factory=list)
    later: list[Added] = field(default_factory=list)
    torn: list[str] = field(default_factory=list)
    reports: list[Any] = field(default_factory=list)
    records: list[Any] = field(default_factory=list)
    let_go: Any = (0, 0)


def read_journal(log: TranscriptLog) -> Found:
    """Read a log; one that no manager wrote to has no state.

    Raises:
        InvalidTranscript: A line of a manager's state cannot be read, or is of a newer form; names the line.
        StoreError: The file cannot be read.
    """
    found = Found()
    waiting: dict[int, Added] = {}
    for number, (start, line) in enumerate(_lines(log), 1):
        if MARK_BYTES not in line and STATE_BYTES not in line:
            continue
        entry = _parsed(line)
        if entry.get("type") == STATE:
            try:
                _take_state(found, waiting, entry, log, start)
            except (KeyError, TypeError, ValueError, AttributeError) as exc:
                why = (
                    str(exc)
                    if isinstance(exc, ValueError)
                    else "a part is missing or of another type"
                )
                raise InvalidTranscript(
                    f"the manager's state cannot be read: {why}", path=log.name, line=number,
                    hint="resume the transcript without it: ullage.resume",
                ) from exc  # fmt: skip
        elif isinstance(entry.get(MARK), dict) and "at" in entry[MARK]:
            _take_message(found, waiting, entry, start)
    found.torn = [each.uuid for each in waiting.values()]
    return found


MARK_BYTES, STATE_BYTES = f'"{MARK}":'.encode(), f'"{STATE}"'.encode()


def _take_state(
    found: Found,
    waiting: dict[int, Added],
    entry: Mapping[str, Any],
    log: TranscriptLog,
    start: int,
) -> None:
    if entry["format"] != FORMAT:
        raise ValueError(f"its form is {entry['format']!r}, this version reads {FORMAT}")
    found.state = patch(found.state, entry["state"], in_place=True)
    if entry.get("base"):
        found.history = base_of(log, start)
    # Not copied: each turn has a line like this.
    known = found.history
    known += found.later
    for at in sorted(waiting):
        if at == len(known):
            known.append(waiting[at])
    waiting.clear()
    count = found.state["count"]
    if len(known) < count:
        raise ValueError(f"{count - len(known)} of {count} messages are missing")
    del known[count:]
    found.later = []
    found.reports += entry.get("reports", ())
    found.records += entry.get("records", ())
    found.let_go = entry.get("let_go", found.let_go)


def read_message(log: TranscriptLog, offset: int) -> Added:
    """The message in the line at an offset, in bytes.

    Raises:
        InvalidTranscript: There is none.
        StoreError: The log cannot be read.
    """
    entry = _parsed(log.line_at(offset))
    if not isinstance(entry.get(MARK), dict):
        raise InvalidTranscript(
            f"no message of the conversation is at byte {offset}", path=log.name,
            hint="the log was changed: ullage.resume shows what is left",
        )  # fmt: skip
    return _added(entry, offset)


def _added(entry: Mapping[str, Any], offset: int) -> Added:
    stamp, uuid = entry.get("timestamp"), str(entry.get("uuid", ""))
    return Added(_item(entry, entry[MARK]), uuid, stamp if isinstance(stamp, str) else "", offset)


def _take_message(
    found: Found, waiting: dict[int, Added], entry: Mapping[str, Any], start: int
) -> None:
    mark, made = entry[MARK], _added(entry, start)
    if mark.get("waits"):
        waiting[mark["at"]] = made
    elif mark["at"] == len(found.history) + len(found.later):
        found.later.append(made)


def _item(entry: Mapping[str, Any], mark: Mapping[str, Any]) -> Item:
    if entry["type"] == ITEM:
        item: Item = entry["item"]
        return item
    keys = mark.get("keys")
    if keys is None:
        message: Item = entry["message"]
        return message
    return {key: entry[key] for key in keys if key in entry}


def base_of(log: TranscriptLog, stop: int) -> list[Added]:
    """The context of a transcript that a manager began with, as the log was up to a place."""
    return [
        Added(entry, str(entry.get("uuid", "")), str(entry.get("timestamp", "")))
        for entry in Transcript.from_bytes(log.head(stop)).conversation.entries
    ]


def _lines(log: TranscriptLog) -> Iterator[tuple[int, bytes]]:
    """Whole lines with the position where each begins; an incomplete last line does not count."""
    start = 0
    for line in log.lines():
        # Whole but for its end: the next write gives it one.
        if line.endswith(b"\n") or _parsed(line):
            yield start, line
        start += len(line)


def _parsed(line: bytes) -> Mapping[str, Any]:
    try:
        entry = orjson.loads(line)
    except orjson.JSONDecodeError:
        try:
            entry = json.loads(line)  # lone surrogates
        except ValueError:
            return {}
    return entry if isinstance(entry, dict) else {}


def uuids_of(history: Sequence[Added]) -> dict[int, str]:
    """By position: the uuids of lines whose messages have none of their own."""
    return {
        at: each.uuid
        for at, each in enumerate(history)
        if each.uuid and not isinstance(each.item.get("uuid"), str)
    }


def ms_of(timestamp: str) -> int | None:
    """Milliseconds since the epoch; `None`: it is no time."""
    try:
        moment = datetime.fromisoformat(timestamp.replace("Z", "+00:00"))
    except ValueError:
        return None
    return round(moment.timestamp() * 1000)
