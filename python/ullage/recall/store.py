"""Stores for large tool results: an interface with two methods, files by default.

A text is stored under its id and its hash, since ids repeat: between conversations that share a store, after restarts, and
where a provider sends none. The place that `put` returns names that text for ever; an id names it only while no other text has the same id.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Protocol

from ullage._late import hashlib, pathlib, pattern
from ullage.exceptions import InvalidPolicy, StoreError

__all__ = ["FileStore", "MemoryStore", "OffloadStore", "digest_of", "file_stem", "write_whole"]

_SAFE = pattern(r"[A-Za-z0-9_-]{1,100}\Z")
_RESERVED = pattern(r"(?:con|prn|aux|nul|clock\$|com\d|lpt\d)\Z", re.IGNORECASE)
"""Device names on Windows, with any suffix."""

_PLACE = pattern(r"([A-Za-z0-9_-]{1,100})\.([0-9a-f]{32})\.[a-z]{1,8}")
"""The name of a store's file: stem, hash of the text, suffix."""

_SUFFIX = pattern(r"\.[a-z]{1,8}\Z")
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


class OffloadStore(Protocol):
    """Keeps texts. Two different texts under one id stay separate: neither is ever returned for the other."""

    def put(self, name: str, text: str, *, suffix: str = ".txt") -> str:
        """Store a text; returns its place, readable for a model or a user."""
        ...

    def get(self, name: str) -> str | None:
        """The text at a place that `put` returned, or under an id that has only one text. Else `None`."""
        ...


def digest_of(text: str) -> str:
    """Distinguishes a text from others under the same id: 32 hexadecimal digits."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def file_stem(name: str) -> str:
    """A file name for any id: the id itself where it is plain, else a hash of it.

    Ids come from models and servers; none may lead out of the store's folder.
    """
    if _SAFE.match(name) and not _RESERVED.match(name):
        return name
    return "id-" + hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def file_name(name: str, text: str, suffix: str) -> str:
    """The file name of a text: equal only for the same text under the same id. A stem holds no dot."""
    return f"{file_stem(name)}.{digest_of(text)}{suffix}"


class FileStore:
    """One file per text in a folder, written whole or not at all, on the disk before its place is returned.

    A symbolic link in a file's place is never followed.

    Args:
        folder: Created with the first text. Conversations may share it.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = pathlib.Path(folder)

    def put(self, name: str, text: str, *, suffix: str = ".txt") -> str:
        """Keep a text.

        Raises:
            InvalidPolicy: The suffix is invalid.
            StoreError: The folder or the file cannot be written; nothing was stored.
        """
        if not _SUFFIX.match(suffix):
            raise InvalidPolicy("suffix", suffix, "must be a dot and up to 8 small letters")
        target = self.folder / file_name(name, text, suffix)
        data = text.encode("utf-8", "surrogatepass")
        try:
            # A file that was truncated or changed is written again.
            if _is_own(target) and target.read_bytes() == data:
                return str(target)
            self.folder.mkdir(parents=True, exist_ok=True)
            write_whole(target, data)
        except OSError as exc:
            raise StoreError(exc.strerror or str(exc), path=str(target)) from exc
        return str(target)

    def get(self, name: str) -> str | None:
        """The text at a place that `put` returned, or under an id that has only one text. Else `None`."""
        place = pathlib.Path(name).name if "\0" not in name else ""
        if (found := _PLACE.fullmatch(place)) and name in (place, str(self.folder / place)):
            text = self._read(self.folder / place)
            return text if text is not None and digest_of(text) == found[2] else None
        kept = (self._read(path) for path in self._under(name))
        texts = {text for text in kept if text is not None}
        return texts.pop() if len(texts) == 1 else None

    def _under(self, name: str) -> Iterator[pathlib.Path]:
        """Files of an id; those without a hash were written by older versions."""
        stem = file_stem(name)
        with suppress(OSError):
            for path in self.folder.iterdir():
                found = _PLACE.fullmatch(path.name)
                if found is None and path.name in (f"{stem}.txt", f"{stem}.json"):
                    yield path
                elif found is not None and found[1] == stem:
                    yield path

    def _read(self, path: pathlib.Path) -> str | None:
        return path.read_bytes().decode("utf-8", "surrogatepass") if _is_own(path) else None


def _is_own(path: pathlib.Path) -> bool:
    return path.is_file() and not path.is_symlink()


def write_whole(path: pathlib.Path, data: bytes, *, sync: bool = True) -> None:
    """Writes a file whole or not at all, for its owner only.

    Args:
        path: In a folder that exists.
        data: Its bytes.
        sync: Wait for the disk.

    Raises:
        OSError: It cannot be written; what was there is still there.
    """
    draft = path.parent / f".{path.name}.{os.getpid()}-{threading.get_ident()}.part"
    try:
        _write(draft, data, sync=sync)
        draft.replace(path)
        if sync:
            _sync(path.parent)
    except OSError:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise


def _write(path: pathlib.Path, data: bytes, *, sync: bool) -> None:
    """Write a new file; a leftover of a killed process under its name is removed first."""
    path.unlink(missing_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK, 0o600)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(fd, rest) :]
        if sync:
            os.fsync(fd)
    finally:
        os.close(fd)


def _sync(folder: pathlib.Path) -> None:
    """Make a new name durable; only POSIX systems need and have this."""
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
        texts: Texts by the place that `put` returned.
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
        """The text at a place that `put` returned, or under an id that has only one text. Else `None`."""
        if name in self.texts:
            return self.texts[name]
        found = {self.texts[place] for place in self._under.get(name, ())}
        return found.pop() if len(found) == 1 else None
