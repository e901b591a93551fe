"""Where the notes of a session are kept: what a place does, a folder or a store."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol

from ullage.exceptions import StoreError

__all__ = [
    "CONFIG",
    "MAX_BYTES",
    "NOTES",
    "PREVIOUS",
    "STATE",
    "Lock",
    "Notes",
    "NotesPlace",
    "digest_of_notes",
]

NOTES = "summary.md"
PREVIOUS = "previous.md"
STATE = "state.json"
CONFIG = "config"

MAX_BYTES = 1 << 20
"""Notes above this are not read: some twenty times what the limits allow."""


class Notes(NamedTuple):
    r"""The notes as they were read.

    Attributes:
        text: With `\n` at line ends; empty if there are none.
        digest: Of the bytes; empty if there are none.
    """

    text: str
    digest: str

    @property
    def exists(self) -> bool:
        """Whether there are notes."""
        return bool(self.digest)

    @classmethod
    def of(cls, data: bytes | None, path: str) -> Notes:
        """Of the bytes that a place holds; `None`: it holds none.

        Raises:
            StoreError: They are not UTF-8; `path` says where.
        """
        if data is None:
            return cls("", "")
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as exc:
            raise StoreError("is not UTF-8 text", path=path) from exc
        return cls(text.replace("\r\n", "\n").replace("\r", "\n"), digest_of_notes(data))


class Lock:
    """Held by the one updater of a session.

    Args:
        let_go: Called once, when it is given up.
    """

    def __init__(self, let_go: Callable[[], None]) -> None:
        self._let_go: Callable[[], None] | None = let_go

    @property
    def held(self) -> bool:
        """Whether it is still held: a stuck updater can be put out."""
        return self._let_go is not None

    def release(self) -> None:
        """Give it up; twice is harmless."""
        let_go, self._let_go = self._let_go, None
        if let_go is not None:
            let_go()

    def __del__(self) -> None:
        # An update that is cancelled while the lock is being taken never gets to hold it.
        self.release()


class NotesPlace(Protocol):
    """What `SessionMemory` asks of the place of its notes: `NotesFolder` has it on disk, `ullage.stores.StoredNotes` in a store."""

    @property
    def notes_path(self) -> Path:
        """What the notes are called, in prompts and errors."""
        ...

    def read(self) -> Notes:
        """The notes as they are now.

        Raises:
            StoreError: They cannot be read, are too large, or are not UTF-8.
        """
        ...

    def read_bytes(self, name: str, *, inside: str = "") -> bytes | None:
        """Something else that is kept there, by one of the fixed names; `None` if it is not there.

        Args:
            name: Its name.
            inside: Name of a folder that it is in.

        Raises:
            StoreError: It cannot be read, or is too large.
        """
        ...

    def commit(self, text: str, *, based_on: str, lock: Lock) -> bool:
        """Replace the notes from which these were made; the earlier text is kept.

        Args:
            text: The new notes.
            based_on: Digest of the notes as they were read.
            lock: Of the caller.

        Returns:
            False if other notes stand there now: nothing was written.

        Raises:
            LogConflict: The lock was taken away: the caller was considered stuck.
            StoreError: They cannot be written; the earlier ones are intact.
        """
        ...

    def save(self, data: bytes, *, lock: Lock) -> None:
        """Write the record next to the notes, whole or not at all.

        Raises:
            LogConflict: The lock was taken away.
            StoreError: It cannot be written.
        """
        ...

    def lock(self) -> Lock:
        """Become the one updater of this session.

        Raises:
            LogConflict: There is another.
            StoreError: The place cannot be written to.
        """
        ...

    def busy_seconds(self) -> float | None:
        """Seconds for which another updater has been running; `None`: there is none."""
        ...


def digest_of_notes(data: bytes | None) -> str:
    """By which notes are compared; empty: there are none."""
    return "" if data is None else hashlib.sha256(data).hexdigest()
