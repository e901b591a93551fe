"""One append-only file: a lock, whole writes or none, and a clean start after a torn tail.

Everything that touches the disk is here; what is written is the business of `log.py`.
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

__all__ = ["LogFile"]

_BOM = b"\xef\xbb\xbf"
_CHUNK = 1 << 16
# Far beyond any transcript: Windows locks byte ranges, and readers must not run into it.
_LOCK_AT = 1 << 40

Write = Callable[[int, Any], int]


class LogFile:
    """A file that this process alone appends to.

    Args:
        path: The file; made if it is missing, unless `create` is false.
        create: Whether a missing file is made.
        lock: Whether other writers are kept out. The lock belongs to the open file, so that it
            ends with the process, however that ends.
        write: For tests: stands for `os.write`.

    Attributes:
        end: Where the next write goes, in bytes.
        torn: (offset, length) of a last line without line end that is no JSON object, or `None`.

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
                _lock(self._file.fileno(), path)
            self.refresh()
        except BaseException:
            self._file.close()
            raise

    def refresh(self) -> None:
        """Takes the file as it is now: its end, and a last line that lacks its line end."""
        with _reported(self.path):
            self.end = os.fstat(self._file.fileno()).st_size
            last = next(self.lines_backwards(), None)
        offset, line, ended = last or (0, b"", True)
        self.torn = None if ended or _is_object(line) else (offset, len(line))
        # A line end goes in front of the next record, which leaves torn bytes in the file, as a line
        # of their own that readers report: nothing is cut off under a reader's map.
        self._repair = b"" if ended else b"\n"

    def append(self, data: bytes) -> None:
        """Writes bytes at the end, all of them or none.

        Raises:
            LogConflict: Somebody else changed, moved or deleted the file.
            StoreError: The disk is full, or another fault; the file is as it was before.
        """
        self._check()
        data = self._repair + data
        try:
            self._write_all(data)
        except BaseException as exc:
            self._roll_back()
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
                _sync_folder(self.path)
                self._made = False

    def close(self) -> None:
        """Gives up the file and the lock."""
        self._file.close()

    @property
    def closed(self) -> bool:
        """Whether the file was given up."""
        return self._file.closed

    def lines_backwards(self) -> Iterator[tuple[int, bytes, bool]]:
        """Lines from the last to the first: offset, bytes, and whether a line end follows."""
        with Path(self.path).open("rb") as file:
            at, tail, ended = self.end, b"", False
            while at > 0:
                # As much again as one long line has taken so far, or it would cost its square.
                start = max(0, at - max(_CHUNK, len(tail)))
                file.seek(start)
                head, *rest = (file.read(at - start) + tail).split(b"\n")
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

    def _check(self) -> None:
        if self._file.closed:
            raise StoreError("the log is closed", path=self.path)
        with _reported(self.path):
            here = os.fstat(self._file.fileno())
        try:
            there = os.stat(self.path)  # noqa: PTH116 - one system call before every write
        except OSError as exc:
            raise LogConflict(f"{self.path}: the log was moved or deleted") from exc
        if not os.path.samestat(here, there):
            raise LogConflict(f"{self.path}: another file stands in the log's place")
        if here.st_size != self.end:
            raise LogConflict(
                f"{self.path}: the log has {here.st_size} bytes, its writer left {self.end}",
                hint="call reload() to go on from what is there",
            )

    def _write_all(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            # A short write is how a disk that fills up, or a size limit, shows itself first.
            written = self._write(self._file.fileno(), rest)
            if written <= 0:
                raise OSError("nothing was written")
            rest = rest[written:]

    def _roll_back(self) -> None:
        try:
            os.ftruncate(self._file.fileno(), self.end)
        except OSError:
            # Then what was written stays, as a torn line that the next write closes; or, if not even
            # that can be found out, the next write sees a file that changed.
            with suppress(StoreError):
                self.refresh()


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
    # Transcripts hold what a person said: for the owner's eyes, as Claude Code has it.
    with _reported(path):
        fd = os.open(path, flags, 0o600)
        return FileIO(fd, "r+")


def _sync_folder(path: str) -> None:
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

    def _lock(fd: int, path: str) -> None:
        os.lseek(fd, _LOCK_AT, os.SEEK_SET)
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except OSError as exc:
            raise LogConflict(f"{path}: another writer holds the log") from exc

else:
    import fcntl

    def _lock(fd: int, path: str) -> None:
        # flock, not lockf: it belongs to the open file, so a second writer in this process is kept
        # out too, and closing a reader does not drop it.
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            raise LogConflict(f"{path}: another writer holds the log") from exc
        except OSError as exc:
            raise StoreError(_reason(exc), path=path) from exc
