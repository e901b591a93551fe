"""The state of a file when it was read, which a compaction compares before it writes, since others may write too."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

from ullage.exceptions import InvalidTranscript, LogConflict, StoreError

__all__ = ["FilePin", "open_regular"]

_CHANGED = "open it again and compact that: nothing was written"


@dataclass(frozen=True, slots=True)
class FilePin:
    """A file as it was read.

    Attributes:
        device: With `inode`, which file it is, whatever its name.
        inode: See `device`.
        size: Bytes that were read, from its start.
        modified: When it was written to last, in nanoseconds since the epoch.
    """

    device: int
    inode: int
    size: int
    modified: int

    @classmethod
    def of(cls, before: os.stat_result, after: os.stat_result, size: int) -> FilePin:
        """The pin of a file of which so many bytes were read between two looks at it."""
        # What was appended meanwhile was not read, and makes the pin differ from the file.
        look = before if before.st_size == size else after
        return cls(look.st_dev, look.st_ino, size, look.st_mtime_ns)

    def check(self, now: os.stat_result, path: str) -> None:
        """Compares the file with what was read.

        Args:
            now: A look at the file now.
            path: For the error.

        Raises:
            LogConflict: It grew, was truncated or overwritten, or is another file.
        """
        if (now.st_dev, now.st_ino) != (self.device, self.inode):
            raise LogConflict(f"{path}: another file has replaced it", hint=_CHANGED)
        if now.st_size != self.size:
            raise LogConflict(
                f"{path}: the file changed since it was opened: it has {now.st_size:,} bytes, {self.size:,} were read",
                hint=_CHANGED,
            )
        if now.st_mtime_ns != self.modified:
            raise LogConflict(f"{path}: the file was written to since it was opened", hint=_CHANGED)


def open_regular(path: str) -> FileIO:
    """Open a regular file for reading; a pipe in its place does not block the caller.

    Raises:
        InvalidTranscript: It is not a regular file.
        StoreError: It is missing or cannot be read.
    """
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    try:
        _refuse(Path(path).stat().st_mode, path)  # devices can do something when they are opened
        file = FileIO(os.open(path, flags | getattr(os, "O_NONBLOCK", 0)), "r")
    except OSError as exc:
        raise StoreError(f"cannot be read: {exc.strerror or exc}", path=path) from exc
    try:
        _refuse(os.fstat(file.fileno()).st_mode, path)
    except BaseException:
        file.close()
        raise
    return file


def _refuse(mode: int, path: str) -> None:
    if stat.S_ISDIR(mode):
        raise InvalidTranscript("is a directory", path=path, hint="name one file of it")
    if not stat.S_ISREG(mode):
        raise InvalidTranscript("is not a regular file", path=path)
