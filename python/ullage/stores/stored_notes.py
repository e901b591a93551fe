"""Session notes in a store that workers share: any of them updates the notes of any conversation, one at a time."""

from __future__ import annotations

import time
import uuid
from contextlib import suppress
from functools import partial
from pathlib import Path

import orjson

from ullage.exceptions import LogConflict, StoreError, UllageError
from ullage.memory.session.notes_place import (
    MAX_BYTES,
    NOTES,
    PREVIOUS,
    STATE,
    Lock,
    Notes,
    digest_of_notes,
)
from ullage.stores.store_protocols import DocumentStore, StoredDocument, checked_name

__all__ = ["StoredNotes"]

_LOCK = "lock"


class StoredNotes:
    """A place for `SessionMemory`: notes, their record and the text before, as documents of the conversation.

    No lease is needed: what another worker wrote meanwhile is seen by its version, and the update is made again. The lock only keeps
    two workers from asking a model for the same.

    Args:
        store: Shared by all workers.
        conversation: Its name; `forget` deletes the notes with it.
        busy_seconds: How long an updater that died keeps others out, by the workers' clocks.

    Example:
        >>> import tempfile
        >>> from ullage.memory.session import SessionMemory
        >>> from ullage.stores import FolderStore
        >>> store = FolderStore(tempfile.mkdtemp())
        >>> one, two = (SessionMemory(StoredNotes(store, "c"), mode="inline") for _ in range(2))
        >>> one.update([{"role": "user", "content": "Fix the login page"}]).outcome.value
        'updated'
        >>> "Fix the login page" in two.notes()
        True
    """

    def __init__(
        self, store: DocumentStore, conversation: str, *, busy_seconds: float = 600
    ) -> None:
        self._store, self._conversation = store, checked_name(conversation)
        self._busy_ms = round(busy_seconds * 1000)
        self._record_version = 0

    def __repr__(self) -> str:
        return f"StoredNotes({self._conversation!r})"

    @property
    def notes_path(self) -> Path:
        """See `NotesPlace.notes_path`."""
        return Path("session-memory") / NOTES

    def read(self) -> Notes:
        """See `NotesPlace.read`."""
        return Notes.of(self.read_bytes(NOTES), self._named(NOTES))

    def read_bytes(self, name: str, *, inside: str = "") -> bytes | None:
        """See `NotesPlace.read_bytes`; the document is called `notes/NAME` or `notes/FOLDER/NAME`."""
        found = self._load("/".join(filter(None, (inside, name))))
        if found is not None and len(found.data) > MAX_BYTES:
            limit = f"has {len(found.data):,} bytes, at most {MAX_BYTES:,}"
            raise StoreError(limit, path=self._named(name))
        return None if found is None else found.data

    def commit(self, text: str, *, based_on: str, lock: Lock) -> bool:
        """See `NotesPlace.commit`."""
        self._check(lock)
        now = self._load(NOTES)
        if digest_of_notes(now.data if now else None) != based_on:
            return False
        if now is not None:
            before = self._load(PREVIOUS)
            with suppress(LogConflict):  # then the notes have another version, too
                self._save(PREVIOUS, now.data, before)
        try:
            self._save(NOTES, text.encode("utf-8", "replace"), now)
        except LogConflict:
            return False
        return True

    def save(self, data: bytes, *, lock: Lock) -> None:
        """See `NotesPlace.save`."""
        self._check(lock)
        self._record_version = self._store.save(
            self._conversation, _document(STATE), data, after=self._record_version
        )

    def lock(self) -> Lock:
        """See `NotesPlace.lock`."""
        found, now = self._load(_LOCK), _now_ms()
        if found is not None and _until(found) > now:
            raise LogConflict(f"{self._named(_LOCK)}: another update is running")
        owner = uuid.uuid4().hex
        held = orjson.dumps({"owner": owner, "from_ms": now, "until_ms": now + self._busy_ms})
        version = self._save(_LOCK, held, found)
        record = self._load(STATE)
        self._record_version = record.version if record else 0
        return Lock(partial(self._let_go, version))

    def busy_seconds(self) -> float | None:
        """See `NotesPlace.busy_seconds`."""
        with suppress(StoreError):
            found, now = self._load(_LOCK), _now_ms()
            if found is not None and _until(found) > now:
                return max(0.0, (now - int(orjson.loads(found.data)["from_ms"])) / 1000)
        return None

    def _let_go(self, version: int) -> None:
        with suppress(UllageError):  # it ends by itself
            self._store.save(self._conversation, _document(_LOCK), b"", after=version)

    def _check(self, lock: Lock) -> None:
        if not lock.held:
            raise LogConflict(f"{self._named(_LOCK)}: the update was given up as stuck")

    def _load(self, name: str) -> StoredDocument | None:
        return self._store.load(self._conversation, _document(name))

    def _save(self, name: str, data: bytes, before: StoredDocument | None) -> int:
        after = before.version if before is not None else 0
        return self._store.save(self._conversation, _document(name), data, after=after)

    def _named(self, name: str) -> str:
        return f"conversation {self._conversation!r}, {_document(name)}"


def _document(name: str) -> str:
    return f"notes/{name}"


def _until(held: StoredDocument) -> int:
    return int(orjson.loads(held.data)["until_ms"]) if held.data else 0


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
