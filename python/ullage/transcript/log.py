"""The append-only log (LOG-1, LOG-4)."""

from __future__ import annotations

import json
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import accumulate
from typing import Any, Literal

import orjson

from ullage.exceptions import InvalidMessage, InvalidPolicy
from ullage.messages import BOUNDARY, Item
from ullage.transcript.conversation import Conversation
from ullage.transcript.index import Transcript
from ullage.transcript.log_bytes import LogBytes
from ullage.transcript.logfile import LogFile

__all__ = ["CARRIED", "Durability", "TranscriptLog", "iso_of", "line_of"]

Durability = Literal["none", "flush", "fsync"]

_DURABILITY = ("none", "flush", "fsync")
_TREE_TYPES = ("user", "assistant", "system", "attachment", "progress")
# Carried over from the newest entry, so that each line has the same fields as the last.
CARRIED = ("sessionId", "cwd", "gitBranch", "version", "userType", "slug", "entrypoint")
# A session without any of these is one that Ullage began.
_FRESH = {"userType": "external", "version": "2.1.232"}


def _new_id() -> str:
    return str(uuid.uuid4())


def _now() -> int:
    return time.time_ns() // 1_000_000


class TranscriptLog:
    """A transcript that this process writes, in Claude Code's own format.

    Each call writes its records with one system call, whole or not at all. One writer at a time;
    readers at any time. An incomplete last line stays in the file.

    Attributes:
        one_writer: Held by each write; hold it to look and write without another thread in between.

    Example:
        >>> import tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "session.jsonl"
        >>> with TranscriptLog.open(path) as log:
        ...     entry = log.append({"role": "user", "content": "hi"})
        ...     log.resume().messages
        [{'role': 'user', 'content': 'hi'}]
    """

    def __init__(
        self,
        file: LogBytes,
        *,
        durability: Durability = "flush",
        ids: Callable[[], str] = _new_id,
        clock: Callable[[], int] = _now,
        envelope: Mapping[str, Any] | None = None,
    ) -> None:
        if durability not in _DURABILITY:
            raise InvalidPolicy("durability", durability, "must be none, flush or fsync")
        self._file = file
        self._durability = durability
        self._ids = ids
        self._clock = clock
        self._given = dict(envelope or {})
        self._leaf: str | None = None
        self._envelope: dict[str, Any] = {}
        self.one_writer = threading.RLock()
        self._read_tail()

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        create: bool = True,
        lock: bool = True,
        durability: Durability = "flush",
        ids: Callable[[], str] = _new_id,
        clock: Callable[[], int] = _now,
        envelope: Mapping[str, Any] | None = None,
    ) -> TranscriptLog:
        """Opens a transcript to append to it.

        Args:
            path: The JSONL file.
            create: Whether a missing file is created.
            lock: Whether other writers are kept out while it is open.
            durability: `fsync`: every append waits for the disk. `flush`: appends are handed to the
                system, and a compaction waits for the disk. `none`: nothing waits.
            ids: Where uuids come from.
            clock: Milliseconds since the epoch.
            envelope: Fields for every entry, such as `sessionId`, `cwd`, `gitBranch`, `version`;
                what is not given is carried over from the newest entry in the file.

        Raises:
            LogConflict: Another writer holds it.
            StoreError: It cannot be opened or read.
            InvalidPolicy: `durability` is none of the three.
        """
        file = LogFile(os.fspath(path), create=create, lock=lock)
        try:
            return cls(file, durability=durability, ids=ids, clock=clock, envelope=envelope)
        except BaseException:
            file.close()
            raise

    # ---- state -------------------------------------------------------------------------------

    @property
    def path(self) -> str:
        """The file; empty: the log is in a store that is not one."""
        return self._file.path

    @property
    def name(self) -> str:
        """What errors call it: the file, or its name in a store."""
        return self._file.name

    @property
    def leaf(self) -> str | None:
        """Uuid of the newest entry, the parent of the next; `None` in an empty log."""
        return self._leaf

    @property
    def begun(self) -> bool:
        """Whether it holds anything."""
        return self._file.end > 0

    @property
    def session_id(self) -> str:
        """The session that new entries belong to."""
        session: str = self._envelope["sessionId"]
        return session

    @property
    def torn(self) -> tuple[int, int] | None:
        """(offset, length) of an incomplete last line found when opening, or `None`."""
        return self._file.torn

    def __repr__(self) -> str:
        return f"TranscriptLog({self.name}, {self._file.end} bytes)"

    def __enter__(self) -> TranscriptLog:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file and release the lock; the log can be opened again."""
        self._file.close()

    def sync(self) -> None:
        """Waits until all that was appended is on the disk, unless durability is `none`.

        Raises:
            StoreError: The system reports a fault.
        """
        if self._durability != "none":
            self._file.sync()

    def transcript(self) -> Transcript:
        """The log as it is now, indexed."""
        if self.path:
            return Transcript.open(self.path)
        return Transcript.from_bytes(self._file.head(self._file.end))

    def resume(self) -> Conversation:
        """What the model was shown last, according to the file as it is now."""
        return self.transcript().conversation

    # ---- writing -----------------------------------------------------------------------------

    def append(self, item: Item) -> dict[str, Any]:
        """Appends one entry.

        Args:
            item: A bare message, an entry, or a record of `ullage.transcript.records`. What its
                envelope lacks is filled in; what it has stays. It is not changed.

        Returns:
            The entry as written.

        Raises:
            InvalidMessage: It is neither a message nor an entry, or cannot be written as JSON.
            LogConflict: Another process changed the file; nothing was written.
            StoreError: The disk is full, or another fault; the file is as it was.
        """
        return self.extend([item])[0]

    def extend(self, items: Iterable[Item]) -> list[dict[str, Any]]:
        """Appends entries with one write: after a crash all of them are there, or an incomplete part.

        Args:
            items: See `append`; each follows the one before.

        Returns:
            The entries as written.

        Raises:
            InvalidMessage: See `append`; nothing was written.
            LogConflict: See `append`.
            StoreError: See `append`.
        """
        with self.one_writer:
            leaf = self._leaf
            entries = []
            for index, item in enumerate(items):
                entry = self.entry(item, parent=leaf, index=index)
                leaf = _next_leaf(entry, leaf)
                entries.append(entry)
            self.write(entries)
        return entries

    def entry(self, item: Item, *, parent: str | None, index: int | None = None) -> dict[str, Any]:
        """The entry that an item becomes, not written.

        Args:
            item: See `append`.
            parent: Uuid for `parentUuid`, where the item has none.
            index: For errors: position in the list that was passed.

        Raises:
            InvalidMessage: See `append`.
        """
        found = _as_entry(item, index)
        if found["type"] not in _TREE_TYPES:
            session = found.get("sessionId") or self._envelope["sessionId"]
            return {**found, "sessionId": session}
        cut = found.get("subtype") == BOUNDARY
        head: dict[str, Any] = {"parentUuid": None if cut else parent}
        if cut:
            head["logicalParentUuid"] = parent
        tail = {} if "uuid" in found else {"uuid": self._ids()}
        if "timestamp" not in found:
            tail["timestamp"] = iso_of(self._clock())
        return {**head, "isSidechain": False, **self._envelope, **found, **tail}

    def write(
        self,
        entries: Sequence[Mapping[str, Any]],
        last: Callable[[Sequence[bytes]], Sequence[bytes]] | None = None,
    ) -> list[int]:
        """Writes finished entries as they are, with one write.

        Args:
            entries: In order.
            last: Given the lines of these, returns those that follow in the same write; `None`: none do.

        Returns:
            Where each line begins, in bytes from the file's beginning.

        Raises:
            InvalidMessage: One of them cannot be written as JSON.
            LogConflict: See `append`.
            StoreError: See `append`.
        """
        if not entries:
            return []
        lines = [line_of(entry, at) for at, entry in enumerate(entries)]
        with self.one_writer:
            lines += last(lines) if last is not None else ()
            self._file.append(b"".join(lines))
            ends = [*accumulate(map(len, lines))]
            start = self._file.end - ends[-1]
            for entry in entries:
                self._leaf = _next_leaf(entry, self._leaf)
        if self._durability == "fsync":
            self._file.sync()
        return [start, *(start + end for end in ends[:-1])]

    # ---- reading -----------------------------------------------------------------------------

    def lines(self) -> Iterator[bytes]:
        """All lines as they are, line ends included.

        Raises:
            StoreError: The file cannot be read.
        """
        return self._file.lines()

    def line_at(self, offset: int) -> bytes:
        """The line that begins at an offset in bytes; empty: there is none.

        Raises:
            StoreError: The file cannot be read.
        """
        return self._file.line_at(offset)

    def head(self, stop: int) -> bytes:
        """What stands before an offset in bytes.

        Raises:
            StoreError: The file cannot be read.
        """
        return self._file.head(stop)

    def _read_tail(self) -> None:
        """Finds the newest entry, and the envelope that new ones carry over."""
        leaf, carried = None, {}
        for _, line, _ in self._file.lines_backwards():
            entry = _parse(line)
            if not isinstance(entry.get("uuid"), str) or entry.get("isSidechain") is True:
                continue
            leaf = entry["uuid"]
            carried = {key: entry[key] for key in CARRIED if key in entry}
            break
        fresh = {**_FRESH, "sessionId": "", "cwd": "", **carried, **self._given}
        if not fresh["sessionId"]:
            fresh["sessionId"] = self._ids()
        self._leaf, self._envelope = leaf, fresh


def _next_leaf(entry: Mapping[str, Any], leaf: str | None) -> str | None:
    if entry.get("type") not in _TREE_TYPES or entry.get("isSidechain") is True:
        return leaf
    found = entry.get("uuid")
    return found if isinstance(found, str) else leaf


def _as_entry(item: Item, index: int | None) -> dict[str, Any]:
    if not isinstance(item, Mapping):
        raise InvalidMessage("must be a mapping", index=index, got=type(item).__name__)
    if "role" not in item or "message" in item:
        return _checked(dict(item), index)
    role = item["role"]
    if role not in ("user", "assistant"):
        raise InvalidMessage(
            "a transcript holds user and assistant messages",
            index=index,
            field="role",
            got=repr(role),
        )
    return _checked({"type": role, "message": dict(item)}, index)


def _checked(entry: dict[str, Any], index: int | None) -> dict[str, Any]:
    kind = entry.get("type")
    if not isinstance(kind, str) or not kind:
        raise InvalidMessage("an entry needs a type", index=index, field="type", got=repr(kind))
    if kind in ("user", "assistant"):
        message = entry.get("message")
        content = message.get("content") if isinstance(message, Mapping) else None
        if not isinstance(content, str | list):
            raise InvalidMessage(
                "must be a string or a list of blocks",
                index=index,
                field="message.content",
                got=type(content).__name__,
            )
    return entry


def line_of(entry: Mapping[str, Any], index: int) -> bytes:
    """An entry as a line of a file, its end included.

    Args:
        entry: An entry, or a line of another tool's log.
        index: Its position among those written, for the error.

    Raises:
        InvalidMessage: JSON cannot hold it; names the position.
    """
    try:
        return orjson.dumps(entry, option=orjson.OPT_APPEND_NEWLINE)
    except orjson.JSONEncodeError:
        return _plain_line(entry, index)


def _plain_line(entry: Mapping[str, Any], index: int) -> bytes:
    """For values that orjson refuses although JSON can hold them: lone surrogates, integers over 64 bits."""
    try:
        text = json.dumps(entry, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as exc:
        raise InvalidMessage(f"cannot be written as JSON: {exc}", index=index) from exc
    return text.encode() + b"\n"


def _parse(line: bytes) -> Mapping[str, Any]:
    try:
        entry = orjson.loads(line)
    except orjson.JSONDecodeError:
        return {}
    return entry if isinstance(entry, dict) else {}


def iso_of(milliseconds: int) -> str:
    """A time in milliseconds since the epoch as a transcript writes it."""
    moment = datetime.fromtimestamp(milliseconds / 1000, tz=UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
