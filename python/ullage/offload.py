"""Where large tool results go: a store with two methods, files by default."""

from __future__ import annotations

import hashlib
import os
import re
import threading
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from ullage.exceptions import InvalidPolicy, StoreError

__all__ = ["FileStore", "MemoryStore", "OffloadStore"]

_SAFE = re.compile(r"[A-Za-z0-9_-]{1,100}\Z")
_RESERVED = re.compile(r"(?:con|prn|aux|nul|clock\$|com\d|lpt\d)\Z", re.IGNORECASE)
"""Names of devices on Windows, with any ending."""

_SUFFIX = re.compile(r"\.[a-z]{1,8}\Z")
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


class OffloadStore(Protocol):
    """Keeps texts by id. Putting the same id twice keeps the first text: results never change."""

    def put(self, name: str, text: str, *, suffix: str = ".txt") -> str:
        """Keep a text; returns where it lies, in words that a model or a person can use."""
        ...

    def get(self, name: str) -> str | None:
        """The text kept under an id, or `None`."""
        ...


def file_stem(name: str) -> str:
    """A file name for any id: the id itself where it is plain, else a hash of it.

    Ids come from models and servers; none may name a place outside of the store's folder.
    """
    if _SAFE.match(name) and not _RESERVED.match(name):
        return name
    return "id-" + hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]


class FileStore:
    """One file per id in a folder, written whole or not at all, on the disk before its place is told.

    A link that somebody put in a file's place is never followed.

    Args:
        folder: Made when the first text comes.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)

    def put(self, name: str, text: str, *, suffix: str = ".txt") -> str:
        """Keep a text.

        Raises:
            InvalidPolicy: The suffix is none.
            StoreError: The folder or the file cannot be written; nothing was kept.
        """
        if not _SUFFIX.match(suffix):
            raise InvalidPolicy("suffix", suffix, "must be a dot and up to 8 small letters")
        target = self.folder / (file_stem(name) + suffix)
        if target.is_file() and not target.is_symlink():
            return str(target)
        draft = self.folder / f".{target.name}.{os.getpid()}-{threading.get_ident()}.part"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            _write(draft, text.encode("utf-8", "surrogatepass"))
            draft.replace(target)
            _sync(self.folder)
        except OSError as exc:
            with suppress(OSError):
                draft.unlink(missing_ok=True)
            raise StoreError(exc.strerror or str(exc), path=str(target)) from exc
        return str(target)

    def get(self, name: str) -> str | None:
        """The text kept under an id, or `None`."""
        for suffix in (".txt", ".json"):
            path = self.folder / (file_stem(name) + suffix)
            if path.is_file() and not path.is_symlink():
                return path.read_bytes().decode("utf-8", "surrogatepass")
        return None


def _write(path: Path, data: bytes) -> None:
    """A new file with these bytes, on the disk; what a killed process left under the name goes first."""
    path.unlink(missing_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK, 0o600)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(fd, rest) :]
        os.fsync(fd)
    finally:
        os.close(fd)


def _sync(folder: Path) -> None:
    """Makes a new name durable; only POSIX systems need and have it."""
    if os.name != "posix":
        return
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


class MemoryStore:
    """Keeps texts in memory; for tests and for hosts without a disk."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def put(self, name: str, text: str, *, suffix: str = ".txt") -> str:
        """Keep a text."""
        self.texts.setdefault(name, text)
        return f"memory:{file_stem(name)}{suffix}"

    def get(self, name: str) -> str | None:
        """The text kept under an id, or `None`."""
        return self.texts.get(name)
