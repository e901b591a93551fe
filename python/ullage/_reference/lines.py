"""A JSONL file that other programs write, read again by the line. The twin of `rust/python/src/lines.rs`.

Each line is compared with what the index was made of: a file that was cut off or written over is an error.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from io import FileIO
from pathlib import Path

from ullage._engine.transcript_lines import transcript_changed
from ullage.exceptions import InvalidTranscript, StoreError

__all__ = ["FiledLines"]


class FiledLines:
    """An open file with what tells whether its lines are still those that were indexed."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = _open(path)
        self._sums: list[int] = []
        self._tail, self._tail_at = b"", 0

    def __del__(self) -> None:
        if file := getattr(self, "_file", None):
            file.close()

    def read(self) -> bytes:
        """The file up to the end that it had when it was opened."""
        try:
            before = os.fstat(self._file.fileno())
            data = _exactly(self._file, before.st_size)
            after = os.fstat(self._file.fileno())
            same = (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)
            if len(data) == before.st_size and not same:
                self._file.seek(0)
                same = _exactly(self._file, before.st_size) == data
        except OSError as exc:
            raise _store_error(exc, self._path) from exc
        if len(data) < before.st_size or not same:
            raise transcript_changed(self._path)
        return data

    def remember(self, data: bytes, places: Sequence[tuple[int, int]]) -> None:
        """Keeps what tells of each line (offset, length) whether it is still there, and the last one itself."""
        self._tail_at = data.rfind(b"\n") + 1
        # A writer may take back a line that it could not finish.
        self._tail = data[self._tail_at :]
        self._sums = [hash(data[offset : offset + length]) for offset, length in places]

    def line(self, index: int, offset: int, length: int, number: int) -> bytes:
        """The bytes of a line, as they were indexed."""
        if offset >= self._tail_at:
            start = offset - self._tail_at
            return self._tail[start : start + length]
        try:
            self._file.seek(offset)
            found = _exactly(self._file, length)
        except OSError as exc:
            raise _store_error(exc, self._path) from exc
        if hash(found) != self._sums[index]:
            raise transcript_changed(self._path, number, offset)
        return found


def _exactly(file: FileIO, length: int) -> bytes:
    """So many bytes, fewer only at the end of the file."""
    parts = []
    while length > 0 and (part := file.read(length)):
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


def _open(path: str) -> FileIO:
    """A regular file; a pipe that stands in its place does not stop the caller."""
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    try:
        _refuse(Path(path).stat().st_mode, path)
        file = FileIO(os.open(path, flags | getattr(os, "O_NONBLOCK", 0)), "r")
        try:
            _refuse(os.fstat(file.fileno()).st_mode, path)
        except BaseException:
            file.close()
            raise
    except OSError as exc:
        raise _store_error(exc, path) from exc
    return file


def _refuse(mode: int, path: str) -> None:
    if not stat.S_ISREG(mode):
        kind = "is a directory" if stat.S_ISDIR(mode) else "is not a regular file"
        raise InvalidTranscript(kind, path=path)


def _store_error(exc: OSError, path: str) -> StoreError:
    return StoreError((exc.strerror or str(exc)).lower(), path=path)
