"""The append-only log (LOG-1, LOG-4)."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import lru_cache
from io import FileIO
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

from ullage._start import json, orjson, uuid
from ullage.exceptions import InvalidMessage, InvalidPolicy, LogConflict, StoreError
from ullage.messages import BOUNDARY, Item, now_in_ms
from ullage.transcript.conversation import Conversation, FilePin
from ullage.transcript.index import Transcript


class LogBytes(Protocol):
    """What a log is written to and read from: an append-only run of lines, with one writer.

    `LogFile` is one, and says what each method does; `ullage.stores.StoredLog`, a log in a store that many workers share, is another.
    """

    @property
    def path(self) -> str:
        """The file; empty: there is none that others could read."""

    @property
    def name(self) -> str:
        """What errors call it."""

    @property
    def end(self) -> int:
        """Where the next write goes, in bytes."""

    @property
    def unfinished(self) -> tuple[int, int] | None:
        """(offset, length) of an incomplete last line found when opening, or `None`."""

    def append(self, data: bytes) -> None:
        """Writes whole lines at the end, all of them or none; errors as of `LogFile.append`."""

    def sync(self) -> None:
        """Waits until all that was written is durable."""

    def close(self) -> None:
        """Gives up writing."""

    def lines(self) -> Iterator[bytes]:
        """Lines from the first to the last, line ends included."""

    def lines_backwards(self) -> Iterator[tuple[int, bytes, bool]]:
        """Lines from the last to the first: offset, bytes, and whether a line end follows."""

    def line_at(self, offset: int) -> bytes:
        """The line that begins at an offset in bytes; empty: there is none."""

    def head(self, stop: int) -> bytes:
        """What stands before an offset in bytes."""


# ---- one file: a lock, whole writes or none, a clean start after an incomplete last line -------

_BOM = b"\xef\xbb\xbf"
_CHUNK = 1 << 16
# Far beyond any transcript: Windows locks byte ranges, and readers must not run into it.
_LOCK_AT = 1 << 40

Write = Callable[[int, bytes | bytearray | memoryview], int]


class LogFile:
    """A file that this process alone appends to; the lock belongs to the open file, and so ends with the process.

    Attributes:
        end: Where the next write goes, in bytes.
        unfinished: (offset, length) of a last line without line end that is not a JSON object, or `None`.

    Raises:
        LogConflict: Another writer holds the file.
        StoreError: It cannot be opened.
    """

    def __init__(
        self, path: str, *, create: bool = True, lock: bool = True, write: Write = os.write
    ) -> None:  # `write` is replaced by tests
        self.path = self.name = path
        self._write = write
        self._is_new = create and not Path(path).exists()
        flags = os.O_RDWR | os.O_APPEND | getattr(os, "O_BINARY", 0)
        with reported(path):
            # Transcripts hold what a user said: for the owner's eyes, as Claude Code has it.
            fd = os.open(path, flags | os.O_CREAT if create else flags, 0o600)
            self._file = FileIO(fd, "r+")
        try:
            if lock:
                lock_file(self._file.fileno(), path)
            opened = os.fstat(self._file.fileno())
            self._identity = opened.st_ino, opened.st_dev
            self.refresh()
        except BaseException:
            self._file.close()
            raise

    def refresh(self) -> None:
        """Read the current state of the file: its end, and a last line without a line end."""
        with reported(self.path):
            self.end = os.fstat(self._file.fileno()).st_size
            last = next(self.lines_backwards(), None)
        offset, line, ended = last or (0, b"", True)
        self.unfinished = None if ended or _is_object(line) else (offset, len(line))
        # A line end is written before the next record, which leaves incomplete bytes in the file, as a line
        # of their own that readers report: nothing is cut off that somebody may have read.
        self._repair = b"" if ended else b"\n"

    def append(self, data: bytes, pin: FilePin | None = None) -> None:
        """Writes whole lines at the end, all of them or none.

        A program that takes no lock may write at any time. If its bytes come between the look at the file and this
        write, what was written here is blanked out again: nothing of theirs is touched.

        Args:
            data: The lines.
            pin: What the file must still be, looked at directly before the write; `None`: what this writer left.

        Raises:
            LogConflict: Another process changed, moved or deleted the file.
            StoreError: The disk is full, or another fault; the file is as it was before.
        """
        self._check(pin)
        data = self._repair + data
        spans: list[tuple[int, int]] = []
        try:
            self._write_all(data, spans)
        except BaseException as exc:
            self._roll_back(data, spans)
            if isinstance(exc, OSError):
                raise StoreError(_reason(exc), path=self.path) from exc
            raise
        self.end += len(data)
        self._repair = b""

    def sync(self) -> None:
        """Waits until all that was written is on the disk; after an error it may not be durable."""
        with reported(self.path):
            os.fsync(self._file.fileno())
            if self._is_new:
                sync_folder(self.path)
                self._is_new = False

    def close(self) -> None:
        """Close the file and release the lock."""
        self._file.close()

    def lines(self) -> Iterator[bytes]:
        """Lines from the first to the last, line ends included."""
        with reported(self.path), Path(self.path).open("rb") as file:
            yield from file

    def line_at(self, offset: int) -> bytes:
        """The line that begins at an offset in bytes; empty: there is none."""
        with reported(self.path), Path(self.path).open("rb") as file:
            file.seek(offset)
            return file.readline()

    def head(self, stop: int) -> bytes:
        """What stands before an offset in bytes."""
        with reported(self.path), Path(self.path).open("rb") as file:
            return file.read(stop)

    def lines_backwards(self) -> Iterator[tuple[int, bytes, bool]]:
        """Lines from the last to the first: offset, bytes, and whether a line end follows."""
        with Path(self.path).open("rb") as file:
            at, tail, ended = self.end, b"", False
            while at > 0:
                # As much again as one long line has taken so far, or it would cost its square.
                start = max(0, at - max(_CHUNK, len(tail)))
                file.seek(start)
                part = file.read(at - start)
                if len(part) < at - start:
                    raise LogConflict(f"{self.path}: the log was cut off while it was read")
                head, *lines = (part + tail).split(b"\n")
                offset = start + len(head) + 1 + sum(len(line) + 1 for line in lines)
                for line in reversed(lines):
                    offset -= len(line) + 1
                    if line or ended:
                        yield offset, line, ended
                    ended = True
                at, tail = start, head
            # A byte-order mark belongs to the file, not to its first line.
            first = tail.removeprefix(_BOM)
            if first:
                yield len(tail) - len(first), first, ended

    def _check(self, pin: FilePin | None) -> None:
        if self._file.closed:
            raise StoreError("the log is closed", path=self.path)
        # One system call before every write: an open file keeps its number, so that of the path says whether it is still this one.
        try:
            there = os.stat(self.path)  # noqa: PTH116
        except OSError as exc:
            raise LogConflict(f"{self.path}: the log was moved or deleted") from exc
        if (there.st_ino, there.st_dev) != self._identity:
            raise LogConflict(f"{self.path}: another file has replaced the log")
        if pin is not None:
            pin.check(there, self.path)
        if there.st_size != self.end:
            raise LogConflict(
                f"{self.path}: the log has {there.st_size} bytes, its writer left {self.end}",
                hint="call reload() to go on from what is there",
            )

    def _write_all(self, data: bytes, spans: list[tuple[int, int]]) -> None:
        fd, left, at = self._file.fileno(), data, self.end
        while left:
            # A short write is how a disk that fills up, or a size limit, shows itself first.
            written = self._write(fd, left)
            if written <= 0:
                raise OSError("nothing was written")
            stop = os.lseek(fd, 0, os.SEEK_CUR)  # an appending write leaves the file there
            spans.append((stop - written, stop))
            if stop - written != at:
                raise LogConflict(
                    f"{self.path}: another program wrote to the log at the same time",
                    hint="call reload() to go on from what is there: nothing of this write counts",
                )
            left, at = left[written:], stop

    def _roll_back(self, data: bytes, spans: list[tuple[int, int]]) -> None:
        try:
            self._find(data, spans)
            if not spans:
                return
            stop = self.end + sum(stop - start for start, stop in spans)
            if stop == spans[-1][1] == os.fstat(self._file.fileno()).st_size:  # nothing else came
                os.ftruncate(self._file.fileno(), self.end)
            else:
                self._blank(data, spans)
        except OSError:
            # Then what was written stays, as an incomplete line that the next write closes; or, if not even
            # that can be found out, the next write sees a file that changed.
            with suppress(StoreError):
                self.refresh()

    def _find(self, data: bytes, spans: list[tuple[int, int]]) -> None:
        """Adds what a write that was interrupted put into the file after all."""
        fd = self._file.fileno()
        at = spans[-1][1] if spans else self.end
        stop = os.lseek(fd, 0, os.SEEK_CUR)
        tail = data[sum(end - start for start, end in spans) :]
        if at < stop <= at + len(tail):
            os.lseek(fd, at, os.SEEK_SET)
            if os.read(fd, stop - at) == tail[: stop - at]:
                spans.append((at, stop))

    def _blank(self, data: bytes, spans: list[tuple[int, int]]) -> None:
        """Blank what was written here, and nothing else: others appended after it."""
        # One that appends cannot write elsewhere.
        fd = os.open(self.path, os.O_WRONLY | getattr(os, "O_BINARY", 0))
        try:
            if not os.path.samestat(os.fstat(fd), os.fstat(self._file.fileno())):
                return
            for start, stop in spans:
                part, data = data[: stop - start], data[stop - start :]
                os.lseek(fd, start, os.SEEK_SET)
                os.write(fd, bytes(10 if byte == 10 else 32 for byte in part))
        finally:
            os.close(fd)


@contextmanager
def reported(path: str | os.PathLike[str]) -> Iterator[None]:
    """Faults of the system as `StoreError`."""
    try:
        yield
    except StoreError:
        raise
    except OSError as exc:
        raise StoreError(_reason(exc), path=os.fspath(path)) from exc


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(orjson.loads(line), dict)
    except orjson.JSONDecodeError:
        return False


def _reason(exc: OSError) -> str:
    return (exc.strerror or str(exc)).lower()


def sync_folder(path: str) -> None:
    """Makes the name of a new file durable; only POSIX systems need and have it."""
    if sys.platform == "win32":
        return
    fd = os.open(Path(path).parent, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


def lock_file(fd: int, path: str, *, wait: bool = False) -> None:
    """Keep other writers out of an open file, until it is closed or the process ends.

    With `wait` this waits for the other writer, on Windows ten seconds.

    Raises:
        LogConflict: Another writer holds it.
        StoreError: The system has no locks there.
    """
    busy = f"{path}: another writer holds the log"
    if sys.platform == "win32":
        os.lseek(fd, _LOCK_AT, os.SEEK_SET)
        try:
            msvcrt.locking(fd, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
        except OSError as exc:
            raise LogConflict(busy) from exc
        return
    # flock, not lockf: it belongs to the open file, so a second writer in this process is kept
    # out too, and closing a reader does not drop it.
    try:
        fcntl.flock(fd, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as exc:
        raise LogConflict(busy) from exc
    except OSError as exc:
        raise StoreError(_reason(exc), path=path) from exc


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock that is a file of its own, made with its folder if it is missing, until the block or the process ends; waits for others.

    Raises:
        StoreError: It cannot be opened, or the system has no locks there.
    """
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    for _ in range(_LOCK_TRIES):
        with reported(path):
            with suppress(FileExistsError):
                path.parent.mkdir(mode=0o700)
            try:
                fd = os.open(path, flags, 0o600)
            except FileNotFoundError:
                if path.parent.is_symlink():  # that leads nowhere
                    raise
                continue  # the folder was removed since
        try:
            lock_file(fd, str(path), wait=True)
            # Who held it before may have removed it: such a lock keeps nobody out.
            if _is_at(path, fd):
                yield
                return
        finally:
            os.close(fd)
    raise StoreError("was removed each time it was opened", path=str(path), hint="try again later")


_LOCK_TRIES = 1_000  # each follows a removal by somebody else


def _is_at(path: Path, fd: int) -> bool:
    """Whether an open file is the one that a path names."""
    with reported(path), suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(fd), path.stat())
    return False


Durability = Literal["none", "flush", "fsync"]

_TREE_TYPES = ("user", "assistant", "system", "attachment", "progress")
# Carried over from the newest entry, so that each line has the same fields as the last.
CARRIED = ("sessionId", "cwd", "gitBranch", "version", "userType", "slug", "entrypoint")
# A session without any of these is one that Ullage began.
_FRESH = {"userType": "external", "version": "2.1.232"}


def _new_id() -> str:
    return str(uuid.uuid4())


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
        clock: Callable[[], int] = now_in_ms,
        envelope: Mapping[str, Any] | None = None,
    ) -> None:
        if isinstance(file, str | bytes | os.PathLike):
            hint = "TranscriptLog.open(path)"
            raise InvalidPolicy("file", file, "is a path, not an open file", hint=hint)
        if durability not in get_args(Durability):
            raise InvalidPolicy("durability", durability, "must be none, flush or fsync")
        self._file = file
        self._durability = durability
        self._ids = ids
        self._clock = clock
        self.one_writer = threading.RLock()
        self._leaf: str | None = None
        carried: dict[str, Any] = {}
        for _, line, _ in file.lines_backwards():
            entry = entry_in(line)
            if isinstance(entry.get("uuid"), str) and entry.get("isSidechain") is not True:
                self._leaf = entry["uuid"]
                carried = {key: entry[key] for key in CARRIED if key in entry}
                break
        self._envelope = {**_FRESH, "sessionId": "", "cwd": "", **carried, **(envelope or {})}
        if not self._envelope["sessionId"]:
            self._envelope["sessionId"] = ids()

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        create: bool = True,
        lock: bool = True,
        durability: Durability = "flush",
        ids: Callable[[], str] = _new_id,
        clock: Callable[[], int] = now_in_ms,
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
    def unfinished(self) -> tuple[int, int] | None:
        """(offset, length) of an incomplete last line found when opening, or `None`."""
        return self._file.unfinished

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
        """`append` of several with one write, each after the one before: after a crash all of them are there, or an incomplete part."""
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
        entry = _as_entry(item, index)
        if entry["type"] not in _TREE_TYPES:
            session = entry.get("sessionId") or self._envelope["sessionId"]
            return {**entry, "sessionId": session}
        cut = entry.get("subtype") == BOUNDARY
        head: dict[str, Any] = {"parentUuid": None if cut else parent}
        if cut:
            head["logicalParentUuid"] = parent
        tail = {} if "uuid" in entry else {"uuid": self._ids()}
        if "timestamp" not in entry:
            tail["timestamp"] = iso_of(self._clock())
        return {**head, "isSidechain": False, **self._envelope, **entry, **tail}

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
            data = b"".join(lines)
            self._file.append(data)
            start = self._file.end - len(data)
            for entry in entries:
                self._leaf = _next_leaf(entry, self._leaf)
        if self._durability == "fsync":
            self._file.sync()
        return [*accumulate(map(len, lines[:-1]), initial=start)]

    def put(self, entry: Mapping[str, Any]) -> int:
        """`write` of one entry; returns where its line begins."""
        line, file = line_of(entry, 0), self._file
        with self.one_writer:
            file.append(line)
            start = file.end - len(line)
            self._leaf = _next_leaf(entry, self._leaf)
        if self._durability == "fsync":
            file.sync()
        return start

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


def _next_leaf(entry: Mapping[str, Any], leaf: str | None) -> str | None:
    if entry.get("type") not in _TREE_TYPES or entry.get("isSidechain") is True:
        return leaf
    uuid = entry.get("uuid")
    return uuid if isinstance(uuid, str) else leaf


def _as_entry(item: Item, index: int | None) -> dict[str, Any]:
    if not isinstance(item, Mapping):
        raise InvalidMessage("must be a mapping", index=index, got=type(item).__name__)
    entry = dict(item)
    if "role" in item and "message" not in item:
        role = item["role"]
        if role not in ("user", "assistant"):
            reason = "a transcript holds user and assistant messages"
            raise InvalidMessage(reason, index=index, field="role", got=repr(role))
        entry = {"type": role, "message": entry}
    kind = entry.get("type")
    if not isinstance(kind, str) or not kind:
        raise InvalidMessage("an entry needs a type", index=index, field="type", got=repr(kind))
    if kind in ("user", "assistant"):
        message = entry.get("message")
        content = message.get("content") if isinstance(message, Mapping) else None
        if not isinstance(content, str | list):
            reason, got = "must be a string or a list of blocks", type(content).__name__
            raise InvalidMessage(reason, index=index, field="message.content", got=got)
    return entry


def line_of(entry: Mapping[str, Any], index: int) -> bytes:
    """An entry, or a line of another tool's log, as a line of a file, its end included.

    Raises:
        InvalidMessage: JSON cannot hold it; names the position among those written.
    """
    try:
        return orjson.dumps(entry, option=orjson.OPT_APPEND_NEWLINE)
    except orjson.JSONEncodeError:
        pass
    # orjson refuses what JSON can hold: lone surrogates, integers over 64 bits.
    try:
        text = json.dumps(entry, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as exc:
        raise InvalidMessage(f"cannot be written as JSON: {exc}", index=index) from exc
    return text.encode() + b"\n"


def entry_in(line: bytes) -> dict[str, Any]:
    """The object that a line holds; empty where it holds none."""
    try:
        entry = orjson.loads(line)
    except orjson.JSONDecodeError:
        return {}
    return entry if isinstance(entry, dict) else {}


def iso_of(milliseconds: int) -> str:
    """A time in milliseconds since the epoch as a transcript writes it."""
    whole = int(milliseconds)
    return f"{_second(whole // 1000)}.{whole % 1000:03}Z"


@lru_cache(maxsize=1)  # lines that follow each other mostly share it
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, tz=UTC).isoformat(timespec="seconds")[:-6]
