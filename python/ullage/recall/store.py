"""Where large tool results go: a store with two methods, files by default.

A text is kept under its id and a hash of itself, since ids repeat: between conversations that share a store, after restarts, and
where a provider gives none. What `put` answers names that very text for ever; an id names it only while nothing else was kept under it.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from ullage.exceptions import InvalidPolicy, StoreError

__all__ = ["FileStore", "MemoryStore", "OffloadStore", "digest_of", "file_stem"]

_SAFE = re.compile(r"[A-Za-z0-9_-]{1,100}\Z")
_RESERVED = re.compile(r"(?:con|prn|aux|nul|clock\$|com\d|lpt\d)\Z", re.IGNORECASE)
"""Names of devices on Windows, with any ending."""

_PLACE = re.compile(r"([A-Za-z0-9_-]{1,100})\.([0-9a-f]{32})\.[a-z]{1,8}")
"""What a store's file is called: stem, hash of the text, ending."""

_SUFFIX = re.compile(r"\.[a-z]{1,8}\Z")
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


class OffloadStore(Protocol):
    """Keeps texts. Two different texts under one id are two texts: none is ever given for the other."""

    def put(self, name: str, text: str, *, suffix: str = ".txt") -> str:
        """Keep a text; returns where it lies, in words that a model or a person can use."""
        ...

    def get(self, name: str) -> str | None:
        """The text at a place that `put` gave; or under an id, if only one is kept under it. Else `None`."""
        ...


def digest_of(text: str) -> str:
    """What tells a text from others under the same id: 32 hexadecimal digits."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def file_stem(name: str) -> str:
    """A file name for any id: the id itself where it is plain, else a hash of it.

    Ids come from models and servers; none may name a place outside of the store's folder.
    """
    if _SAFE.match(name) and not _RESERVED.match(name):
        return name
    return "id-" + hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def file_name(name: str, text: str, suffix: str) -> str:
    """The file name of a text: equal only for the same text under the same id. A stem holds no dot."""
    return f"{file_stem(name)}.{digest_of(text)}{suffix}"


class FileStore:
    """One file per text in a folder, written whole or not at all, on the disk before its place is told.

    A link that somebody put in a file's place is never followed.

    Args:
        folder: Made when the first text comes. Conversations may share it.
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
        target = self.folder / file_name(name, text, suffix)
        data = text.encode("utf-8", "surrogatepass")
        draft = self.folder / f".{target.name}.{os.getpid()}-{threading.get_ident()}.part"
        try:
            # What somebody cut or changed is written anew.
            if _is_own(target) and target.read_bytes() == data:
                return str(target)
            self.folder.mkdir(parents=True, exist_ok=True)
            _write(draft, data)
            draft.replace(target)
            _sync(self.folder)
        except OSError as exc:
            with suppress(OSError):
                draft.unlink(missing_ok=True)
            raise StoreError(exc.strerror or str(exc), path=str(target)) from exc
        return str(target)

    def get(self, name: str) -> str | None:
        """The text at a place that `put` gave; or under an id, if only one is kept under it. Else `None`."""
        place = Path(name).name if "\0" not in name else ""
        if (found := _PLACE.fullmatch(place)) and name in (place, str(self.folder / place)):
            text = self._read(self.folder / place)
            return text if text is not None and digest_of(text) == found[2] else None
        kept = (self._read(path) for path in self._under(name))
        texts = {text for text in kept if text is not None}
        return texts.pop() if len(texts) == 1 else None

    def _under(self, name: str) -> Iterator[Path]:
        """Files of an id; those without a hash are of older versions."""
        stem = file_stem(name)
        with suppress(OSError):
            for path in self.folder.iterdir():
                found = _PLACE.fullmatch(path.name)
                if found is None and path.name in (f"{stem}.txt", f"{stem}.json"):
                    yield path
                elif found is not None and found[1] == stem:
                    yield path

    def _read(self, path: Path) -> str | None:
        return path.read_bytes().decode("utf-8", "surrogatepass") if _is_own(path) else None


def _is_own(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


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
    """Keeps texts in memory; for tests and for hosts without a disk.

    Attributes:
        texts: By place, as `put` gave it.
    """

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self._under: dict[str, set[str]] = {}

    def put(self, name: str, text: str, *, suffix: str = ".txt") -> str:
        """Keep a text."""
        place = f"memory:{file_name(name, text, suffix)}"
        self.texts[place] = text
        self._under.setdefault(name, set()).add(place)
        return place

    def get(self, name: str) -> str | None:
        """The text at a place that `put` gave; or under an id, if only one is kept under it. Else `None`."""
        if name in self.texts:
            return self.texts[name]
        found = {self.texts[place] for place in self._under.get(name, ())}
        return found.pop() if len(found) == 1 else None
