"""A log in a store, for one worker at a time: what a `TranscriptLog` writes to in place of a file."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import orjson

from ullage.exceptions import LogConflict
from ullage.stores.store_protocols import Lease, LogStore

__all__ = ["DELIVERY", "StoredLog"]

DELIVERY = "ullage-delivery"
"""Type of the lines that say under which key a message came in."""

_DELIVERY_BYTES = f'"{DELIVERY}"'.encode()


class StoredLog:
    """A conversation's log, read once and held in memory (a `LogBytes`).

    Args:
        store: Where each append goes; `None`: everything is held back.
        conversation: Its name.
        data: What the store holds of it.
        lease: The worker's right to write; `None`: only its position in the log protects it.

    Attributes:
        keys: Under which keys messages came in.
        pending: What is in memory only, with the position where it goes.
    """

    path = ""

    def __init__(
        self, store: LogStore | None, conversation: str, data: bytes, lease: Lease | None = None
    ) -> None:
        self.conversation, self.lease = conversation, lease
        self._store, self._data = store, bytearray(data)
        self._closed, self._back = False, store is None
        self._key = ""
        self._stored = len(data)
        self.keys = {key for line in self.lines() if (key := _key(line))}

    @property
    def name(self) -> str:
        """What errors call it."""
        return f"conversation {self.conversation!r}"

    @property
    def end(self) -> int:
        """Where the next write goes, in bytes."""
        return len(self._data)

    @property
    def torn(self) -> tuple[int, int] | None:
        """(offset, length) of an incomplete last line, which only a folder can hold, or `None`."""
        if not self._data or self._data.endswith(b"\n"):
            return None
        start = self._data.rfind(b"\n") + 1
        return start, len(self._data) - start

    @property
    def pending(self) -> tuple[int, bytes]:
        """Position and bytes of what is not in the store yet."""
        return self._stored, bytes(self._data[self._stored :])

    def keyed(self, key: str) -> None:
        """The next append says that it is of a delivery; empty: it does not."""
        self._key = key

    def append(self, data: bytes) -> None:
        """Writes whole lines at the end, all of them or none.

        Raises:
            LeaseExpired: Another worker took the conversation over; nothing was written.
            LogConflict: Another worker wrote to it, or it was given back; nothing was written.
            StoreError: The store fails. What it holds is then read again before anything else is written.
        """
        if self._closed:
            raise LogConflict(
                f"{self.name} was given back", hint="check the conversation out again"
            )
        key = self._key
        if key:
            data = orjson.dumps({"type": DELIVERY, "key": key}) + b"\n" + data
        if self._store is not None and not self._back:
            at, write_id = len(self._data), uuid.uuid4().hex
            end = self._store.append(
                self.conversation, data, at=at, write_id=write_id, lease=self.lease
            )
            # A store that closes an incomplete last line does so in front of what is written.
            data = b"\n" * (end - at - len(data)) + data
            self._stored = end
        self._data += data
        if key:
            self.keys.add(key)
            self._key = ""

    def hold_back(self, whether: bool) -> None:
        """Whether appends stay in memory, for `pending`, from now on."""
        self._back = whether or self._store is None

    def stored(self, end: int) -> None:
        """What was pending is in the store, which ends there now."""
        self._stored = end

    def sync(self) -> None:
        """Nothing to wait for: what the store took is as durable as it makes it."""

    def close(self) -> None:
        """Gives up writing."""
        self._closed = True

    def reopen(self, lease: Lease) -> None:
        """Go on under another lease, where the store holds exactly what is here."""
        self.lease, self._closed = lease, False

    def lines(self) -> Iterator[bytes]:
        """Lines from the first to the last, line ends included."""
        start = 0
        while line := self.line_at(start):
            yield line
            start += len(line)

    def lines_backwards(self) -> Iterator[tuple[int, bytes, bool]]:
        """Lines from the last to the first: offset, bytes, and whether a line end follows."""
        stop = len(self._data)
        while stop > 0:
            ended = self._data[stop - 1] == 10
            start = self._data.rfind(b"\n", 0, stop - 1) + 1
            yield start, bytes(self._data[start : stop - ended]), ended
            stop = start

    def line_at(self, offset: int) -> bytes:
        """The line that begins at an offset in bytes; empty: there is none."""
        stop = self._data.find(b"\n", offset)
        return bytes(self._data[offset : stop + 1 if stop >= 0 else None])

    def head(self, stop: int) -> bytes:
        """What stands before an offset in bytes."""
        return bytes(self._data[:stop])


def _key(line: bytes) -> str:
    if _DELIVERY_BYTES not in line:
        return ""
    try:
        found = orjson.loads(line)
    except orjson.JSONDecodeError:
        return ""
    right = isinstance(found, dict) and found.get("type") == DELIVERY
    return str(found.get("key", "")) if right else ""
