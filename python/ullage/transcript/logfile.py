"""One append-only file: a lock, whole writes or none, and a clean start after an incomplete last line.

Everything that touches the disk is here; `log.py` decides what is written.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any

import orjson

from ullage.exceptions import LogConflict, StoreError
from ullage.transcript.pin import FilePin

__all__ = ["LogFile", "lock_file", "sync_folder"]

_BOM = b"\xef\xbb\xbf"
_CHUNK = 1 << 16
# Far beyond any transcript: Windows locks byte ranges, and readers must not run into it.
_LOCK_AT = 1 << 40

Write = Callable[[int, bytes | bytearray | memoryview], int]


class LogFile:
    """A file that this process alone appends to.

    Args:
        path: The file; created if it is missing, unless `create` is false.
        create: Whether a missing file is made.
        lock: Whether other writers are kept out. The lock belongs to the open file, so that it
            ends with the process, however that ends.
        write: For tests: replaces `os.write`.

    Attributes:
        end: Where the next write goes, in bytes.
        torn: (offset, length) of a last line without line end that is not a JSON object, or `None`.

    Raises:
        LogConflict: Another writer holds the file.
        StoreError: It cannot be opened.
    """

    def __init__(
        self, path: str, *, create: bool = True, lock: bool = True, write: Write = os.write
    ) -> None:
        self.path = path
        self._write = write
        self._made = create and not Path(path).exists()
        self._file = _open(path, create=create)
        try:
            if lock:
                lock_file(self._file.fileno(), path)
            self.refresh()
        except BaseException:
            self._file.close()
            raise

    def refresh(self) -> None:
        """Read the current state of the file: its end, and a last line without a line end."""
        with _reported(self.path):
            self.end = os.fstat(self._file.fileno()).st_size
            last = next(self.lines_backwards(), None)
        offset, line, ended = last or (0, b"", True)
        self.torn = None if ended or _is_object(line) else (offset, len(line))
        # A line end is written before the next record, which leaves incomplete bytes in the file, as a line
        # of their own that readers report: nothing is cut off that somebody may have read.
        self._repair = b"" if ended else b"\n"

    def append(self, data: bytes, pin: FilePin | None = None) -> None:
        """Writes bytes at the end, all of them or none.

        A program that takes no lock may write at any time. If its bytes come between the look at the file and this
        write, what was written here is blanked out again: nothing of theirs is touched.

        Args:
            data: Whole lines.
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
            if not self._follows(spans):
                raise LogConflict(
                    f"{self.path}: another program wrote to the log at the same time",
                    hint="call reload() to go on from what is there: nothing of this write counts",
                )
        except BaseException as exc:
            self._roll_back(data, spans)
            if isinstance(exc, OSError):
                raise StoreError(_reason(exc), path=self.path) from exc
            raise
        self.end += len(data)
        self._repair = b""

    def sync(self) -> None:
        """Waits until all that was written is on the disk.

        Raises:
            StoreError: The system reports a fault; what was written may not be durable.
        """
        with _reported(self.path):
            os.fsync(self._file.fileno())
            if self._made:
                sync_folder(self.path)
                self._made = False

    def close(self) -> None:
        """Close the file and release the lock."""
        self._file.close()

    @property
    def name(self) -> str:
        """What errors call it."""
        return self.path

    @property
    def closed(self) -> bool:
        """Whether the file was closed."""
        return self._file.closed

    def lines(self) -> Iterator[bytes]:
        """Lines from the first to the last, line ends included."""
        with _reported(self.path), Path(self.path).open("rb") as file:
            yield from file

    def line_at(self, offset: int) -> bytes:
        """The line that begins at an offset in bytes; empty: there is none."""
        with _reported(self.path), Path(self.path).open("rb") as file:
            file.seek(offset)
            return file.readline()

    def head(self, stop: int) -> bytes:
        """What stands before an offset in bytes."""
        with _reported(self.path), Path(self.path).open("rb") as file:
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
                head, *rest = (part + tail).split(b"\n")
                offset = start + len(head) + 1 + sum(len(line) + 1 for line in rest)
                for line in reversed(rest):
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
        with _reported(self.path):
            here = os.fstat(self._file.fileno())
        try:
            there = os.stat(self.path)  # noqa: PTH116 - one system call before every write
        except OSError as exc:
            raise LogConflict(f"{self.path}: the log was moved or deleted") from exc
        if not os.path.samestat(here, there):
            raise LogConflict(f"{self.path}: another file has replaced the log")
        if pin is not None:
            pin.check(here, self.path)
        if here.st_size != self.end:
            raise LogConflict(
                f"{self.path}: the log has {here.st_size} bytes, its writer left {self.end}",
                hint="call reload() to go on from what is there",
            )

    def _write_all(self, data: bytes, spans: list[tuple[int, int]]) -> None:
        fd, rest = self._file.fileno(), memoryview(data)
        while rest:
            # A short write is how a disk that fills up, or a size limit, shows itself first.
            written = self._write(fd, rest)
            if written <= 0:
                raise OSError("nothing was written")
            stop = os.lseek(fd, 0, os.SEEK_CUR)  # an appending write leaves the file there
            spans.append((stop - written, stop))
            rest = rest[written:]

    def _follows(self, spans: list[tuple[int, int]]) -> bool:
        """Whether each write directly follows what was there before it."""
        at = self.end
        for start, stop in spans:
            if start != at:
                return False
            at = stop
        return True

    def _roll_back(self, data: bytes, spans: list[tuple[int, int]]) -> None:
        try:
            self._find(data, spans)
            if not spans:
                return
            size = os.fstat(self._file.fileno()).st_size
            if self._follows(spans) and size == spans[-1][1]:
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
        rest = data[sum(end - start for start, end in spans) :]
        if at < stop <= at + len(rest):
            os.lseek(fd, at, os.SEEK_SET)
            if os.read(fd, stop - at) == rest[: stop - at]:
                spans.append((at, stop))

    def _blank(self, data: bytes, spans: list[tuple[int, int]]) -> None:
        """Blank what was written here, and nothing else: others appended after it."""
        flags = os.O_WRONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
        fd = os.open(self.path, flags)  # one that appends cannot write elsewhere
        try:
            if not os.path.samestat(os.fstat(fd), os.fstat(self._file.fileno())):
                return
            for start, stop in spans:
                part, data = data[: stop - start], data[stop - start :]
                os.lseek(fd, start, os.SEEK_SET)
                os.write(fd, bytes(10 if byte == 10 else 32 for byte in part))
        finally:
            os.close(fd)


class _reported:
    """Faults of the system as `StoreError`."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, exc: BaseException | None, trace: Any) -> None:
        if isinstance(exc, OSError) and not isinstance(exc, StoreError):
            raise StoreError(_reason(exc), path=self._path) from exc


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(orjson.loads(line), dict)
    except orjson.JSONDecodeError:
        return False


def _reason(exc: OSError) -> str:
    return (exc.strerror or str(exc)).lower()


def _open(path: str, *, create: bool) -> FileIO:
    flags = os.O_RDWR | os.O_APPEND | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    flags |= os.O_CREAT if create else 0
    # Transcripts hold what a user said: for the owner's eyes, as Claude Code has it.
    with _reported(path):
        fd = os.open(path, flags, 0o600)
        return FileIO(fd, "r+")


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

    def lock_file(fd: int, path: str, *, wait: bool = False) -> None:
        """Keep other writers out of an open file, until it is closed or the process ends.

        Args:
            fd: The open file.
            path: For errors.
            wait: Wait for the other writer, on Windows ten seconds.

        Raises:
            LogConflict: Another writer holds it.
            StoreError: The system has no locks there.
        """
        os.lseek(fd, _LOCK_AT, os.SEEK_SET)
        try:
            msvcrt.locking(fd, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
        except OSError as exc:
            raise LogConflict(f"{path}: another writer holds the log") from exc

else:
    import fcntl

    def lock_file(fd: int, path: str, *, wait: bool = False) -> None:
        """Keep other writers out of an open file, until it is closed or the process ends.

        Args:
            fd: The open file.
            path: For errors.
            wait: Wait for the other writer.

        Raises:
            LogConflict: Another writer holds it.
            StoreError: The system has no locks there.
        """
        # flock, not lockf: it belongs to the open file, so a second writer in this process is kept
        # out too, and closing a reader does not drop it.
        try:
            fcntl.flock(fd, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            raise LogConflict(f"{path}: another writer holds the log") from exc
        except OSError as exc:
            raise StoreError(_reason(exc), path=path) from exc
