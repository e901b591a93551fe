"""Where large tool results go: a store with two methods, files by default."""

from __future__ import annotations

import hashlib
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from ullage.exceptions import StoreError

__all__ = ["FileStore", "MemoryStore", "OffloadStore"]

_SAFE = re.compile(r"[A-Za-z0-9_-]{1,100}\Z")


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
    if _SAFE.match(name):
        return name
    return "id-" + hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]


class FileStore:
    """One file per id in a folder, written whole or not at all.

    Args:
        folder: Made when the first text comes.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)

    def put(self, name: str, text: str, *, suffix: str = ".txt") -> str:
        """Keep a text.

        Raises:
            StoreError: The folder or the file cannot be written; nothing was kept.
        """
        target = self.folder / (file_stem(name) + suffix)
        if target.exists():
            return str(target)
        draft = self.folder / f".{target.name}.{os.getpid()}.part"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            draft.write_bytes(text.encode("utf-8", "surrogatepass"))
            draft.replace(target)
        except OSError as exc:
            with suppress(OSError):
                draft.unlink(missing_ok=True)
            raise StoreError(exc.strerror or str(exc), path=str(target)) from exc
        return str(target)

    def get(self, name: str) -> str | None:
        """The text kept under an id, or `None`."""
        for suffix in (".txt", ".json"):
            path = self.folder / (file_stem(name) + suffix)
            if path.is_file():
                return path.read_bytes().decode("utf-8", "surrogatepass")
        return None


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
