"""The notes on disk: one folder, fixed names, whole writes, no links followed (SM-1, SM-3).

Names of files never come from a model or a message. Folder and files are opened without following links, and
all work is done relative to the open folder, so that one put in its place afterwards changes nothing.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol

from ullage.exceptions import LogConflict, StoreError
from ullage.recall.store import write_whole
from ullage.transcript.log import lock_file, reported

NOTES = "summary.md"
PREVIOUS = "previous.md"
STATE = "state.json"
CONFIG = "config"

MAX_BYTES = 1 << 20  # notes above this are not read: some twenty times what the limits allow


class Notes(NamedTuple):
    r"""The notes as they were read."""

    text: str  # with `\n` at line ends; empty if there are none
    digest: str  # of the bytes; empty if there are none

    @property
    def exists(self) -> bool:
        """Whether there are notes."""
        return bool(self.digest)

    @classmethod
    def of(cls, data: bytes | None, path: str) -> Notes:
        """Of the bytes that a place holds; `None`: it holds none. `StoreError`: they are not UTF-8; `path` says where."""
        if data is None:
            return cls("", "")
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as exc:
            raise StoreError("is not UTF-8 text", path=path) from exc
        return cls(text.replace("\r\n", "\n").replace("\r", "\n"), digest_of_notes(data))


class Lock:
    """Held by the one updater of a session; `unlock` is called once, when it is given up."""

    def __init__(self, unlock: Callable[[], None]) -> None:
        self._unlock: Callable[[], None] | None = unlock

    @property
    def held(self) -> bool:
        """Whether it is still held: a stuck updater can be put out."""
        return self._unlock is not None

    def check(self, place: object) -> None:
        """Raise `LogConflict`, in the name of this place, if it is not held any more."""
        if not self.held:
            raise LogConflict(f"{place}: the update was given up as stuck")

    def release(self) -> None:
        """Give it up; twice is harmless."""
        unlock, self._unlock = self._unlock, None
        if unlock is not None:
            unlock()

    def __del__(self) -> None:
        # An update that is cancelled while the lock is being taken never gets to hold it.
        self.release()


class NotesPlace(Protocol):
    """What `SessionMemory` asks of the place of its notes: `NotesFolder` has it on disk, `ullage.stores.StoredNotes` in a store."""

    @property
    def notes_path(self) -> Path:
        """What the notes are called, in prompts and errors."""

    def read(self) -> Notes:
        """See `NotesFolder.read`."""

    def read_bytes(self, name: str, *, inside: str = "") -> bytes | None:
        """See `NotesFolder.read_bytes`."""

    def commit(self, text: str, *, based_on: str, lock: Lock) -> bool:
        """See `NotesFolder.commit`."""

    def save(self, data: bytes, *, lock: Lock) -> None:
        """See `NotesFolder.save`."""

    def lock(self) -> Lock:
        """See `NotesFolder.lock`."""

    def busy_seconds(self) -> float | None:
        """See `NotesFolder.busy_seconds`."""


def digest_of_notes(data: bytes | None) -> str:
    """By which notes are compared; empty: there are none."""
    return "" if data is None else hashlib.sha256(data).hexdigest()


_LOCK = ".lock"
_PART = ".part"

_DIR_FD = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")
_COMMON = getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)


class NotesFolder:
    """The folder of one session's notes.

    Args:
        path: Usually `…/session-memory`; made when the first notes are written.
        guarded: Parent folders that must not be links either.
    """

    def __init__(self, path: str | os.PathLike[str], *, guarded: Iterable[Path] = ()) -> None:
        self.path = Path(path).absolute()
        self._guarded = (*guarded, self.path)

    @property
    def notes_path(self) -> Path:
        """The file of the notes."""
        return self.path / NOTES

    def __repr__(self) -> str:
        return f"NotesFolder({str(self.path)!r})"

    def read(self) -> Notes:
        """The notes as they are now.

        Raises:
            StoreError: It is a link, a folder, has hard links, is too large, or is not UTF-8.
        """
        return Notes.of(self.read_bytes(NOTES), str(self.notes_path))

    def read_bytes(self, name: str, *, inside: str = "") -> bytes | None:
        """A file of the folder, by one of the fixed names, or of a folder inside it; `None` if it is not there.

        Raises:
            StoreError: It is not a regular file, or too large.
        """
        with self._opened(inside) as folder:
            return None if folder is None else folder.read(name)

    def commit(self, text: str, *, based_on: str, lock: Lock) -> bool:
        """Replace the notes from which these were made, by their digest as they were read; these are kept as `previous.md`.

        Returns:
            False if other notes stand there now: nothing was written.

        Raises:
            LogConflict: The lock was taken away: the caller was considered stuck.
            StoreError: It cannot be written; the old file is intact.
        """
        with self._opened_new() as folder:
            lock.check(self.path)
            now = folder.read(NOTES)
            if digest_of_notes(now) != based_on:
                return False
            if now is not None:
                folder.write(PREVIOUS, now)
            lock.check(self.path)
            folder.write(NOTES, text.encode("utf-8", "replace"))
        return True

    def save(self, data: bytes, *, lock: Lock) -> None:
        """Write the record next to the notes, whole or not at all.

        Raises:
            LogConflict: The lock was taken away.
            StoreError: It cannot be written.
        """
        with self._opened_new() as folder:
            lock.check(self.path)
            folder.write(STATE, data)

    def lock(self) -> Lock:
        """Become the one updater of this session.

        Raises:
            LogConflict: There is another.
            StoreError: The folder cannot be made or opened.
        """
        with self._opened_new() as folder:
            lock = Lock(partial(os.close, folder.locked()))
            folder.sweep()
            return lock

    def busy_seconds(self) -> float | None:
        """Seconds for which another updater has been running; `None`: there is none."""
        with suppress(StoreError), self._opened() as folder:
            if folder is not None:
                return folder.busy_seconds()
        return None

    @contextmanager
    def _opened_new(self) -> Iterator[_Folder]:
        with reported(self.path):
            for guarded in self._guarded:
                _refuse_link(guarded)
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            with closing(_Folder(self.path)) as folder:
                yield folder

    @contextmanager
    def _opened(self, inside: str = "") -> Iterator[_Folder | None]:
        place = self.path / inside if inside else self.path
        with reported(place):
            for guarded in self._guarded:
                _refuse_link(guarded)
            try:
                folder = _Folder(place)
            except FileNotFoundError:
                yield None
                return
            with closing(folder):
                yield folder


class _Folder:
    """An open folder; on systems without such handles, its path."""

    def __init__(self, path: Path) -> None:
        self.path = path
        _refuse_link(path)
        flags = os.O_RDONLY | _COMMON | getattr(os, "O_DIRECTORY", 0)
        self._fd = os.open(path, flags) if _DIR_FD else None
        if self._fd is None and not path.is_dir():
            raise FileNotFoundError(str(path))

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)

    def _open(self, name: str, flags: int) -> int:
        if self._fd is None:
            _refuse_link(self.path / name)
            name = self._named(name)
        return os.open(name, flags | _COMMON, 0o600, dir_fd=self._fd)

    def _named(self, name: str) -> str:
        """Relative to the open folder, where there are such handles."""
        return str(self.path / name) if self._fd is None else name

    def read(self, name: str) -> bytes | None:
        try:
            # Without waiting: a pipe in the file's place must not hold the reader up.
            fd = self._open(name, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        except FileNotFoundError:
            return None
        path, data = str(self.path / name), b""
        try:
            info = os.fstat(fd)
            if not stat.S_ISREG(info.st_mode):
                raise StoreError("is not a regular file", path=path)
            if info.st_nlink > 1:
                raise StoreError("has hard links; refusing to use it", path=path)
            if info.st_size > MAX_BYTES:
                raise StoreError(f"has {info.st_size:,} bytes, at most {MAX_BYTES:,}", path=path)
            while part := os.read(fd, MAX_BYTES + 1 - len(data)):
                data += part
                if len(data) > MAX_BYTES:
                    raise StoreError(f"has more than {MAX_BYTES:,} bytes", path=path)
            return data
        finally:
            os.close(fd)

    def write(self, name: str, data: bytes) -> None:
        write_whole(Path(self._named(name)), data, folder=self._fd)

    def sweep(self) -> None:
        """Remove drafts that a killed process left; only the holder of the lock may."""
        names = os.listdir(self.path if self._fd is None else self._fd)  # noqa: PTH208 - by handle
        for name in names:
            if name.startswith(".") and name.endswith(_PART):
                with suppress(OSError):
                    os.unlink(self._named(name), dir_fd=self._fd)

    def locked(self) -> int:
        fd = self._open(_LOCK, os.O_RDWR | os.O_CREAT)
        try:
            lock_file(fd, str(self.path))
            os.utime(fd if os.utime in os.supports_fd else self.path / _LOCK)
        except BaseException as exc:
            os.close(fd)
            if isinstance(exc, LogConflict):
                raise LogConflict(f"{self.path}: another update is running") from exc
            raise
        return fd

    def busy_seconds(self) -> float | None:
        try:
            fd = self._open(_LOCK, os.O_RDWR)
        except FileNotFoundError:
            return None
        try:
            lock_file(fd, str(self.path))
        except LogConflict:
            return max(time.time() - os.fstat(fd).st_mtime, 0.0)
        else:
            return None
        finally:
            os.close(fd)


def _refuse_link(path: Path) -> None:
    is_junction: Callable[[], bool] = getattr(path, "is_junction", lambda: False)
    if path.is_symlink() or is_junction():
        raise StoreError("is a link, which is not followed", path=str(path))
