"""Conversations as files in a folder, on one machine or a shared drive with working locks."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import orjson

from ullage.exceptions import LeaseExpired, LeaseHeld, LogConflict, StoreError
from ullage.messages import now_in_ms
from ullage.recall.store import digest_of, write_whole
from ullage.stores.store_protocols import (
    ConversationStore,
    Lease,
    StoredDocument,
    checked_blob,
    checked_name,
    document_conflict,
    log_conflict,
)
from ullage.transcript.log import LogFile, locked, reported

_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-_")
_LOG, _LEASE, _LAST, _LOCK = "log.jsonl", "lease.json", "last.json", ".lock"


def safe_name(name: str) -> str:
    """A name as a file name or object key: distinct names stay distinct, even where case is ignored."""
    # Device names of Windows are harmless after a dot.
    return "c." + "".join(chr(b) if b in _PLAIN else f"%{b:02x}" for b in name.encode())


def unsafe_name(safe: str) -> str:
    """The inverse of `safe_name`."""
    return unquote(safe.removeprefix("c."))


class FolderStore:
    """A `ConversationStore` in a folder.

    A conversation is a folder with the transcript `log.jsonl`, which other tools can read. Every call holds
    the lock of its conversation; the lock ends with the process.

    Args:
        folder: Created if it is missing.

    Raises:
        StoreError: It cannot be created.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        with reported(self.folder):
            for name in ("conversations", "blobs", "references"):
                (self.folder / name).mkdir(parents=True, exist_ok=True, mode=0o700)

    def __repr__(self) -> str:
        return f"FolderStore({str(self.folder)!r})"

    def close(self) -> None:
        """See `ConversationStore.close`; nothing is open between calls."""

    def read(self, conversation: str, start: int = 0) -> bytes:
        """See `LogStore.read`."""
        path = self._of(conversation) / _LOG
        with reported(path):
            if not path.exists():
                return b""
            with path.open("rb") as file:
                file.seek(start)
                return file.read()

    def end(self, conversation: str) -> int:
        """See `LogStore.end`."""
        return _size(self._of(conversation) / _LOG)

    def append(
        self, conversation: str, data: bytes, *, at: int, write_id: str, lease: Lease | None = None
    ) -> int:
        """See `LogStore.append`."""
        with self._locked(conversation) as folder:
            path = folder / _LOG
            last = _json(folder / _LAST)
            size = _size(path)
            if last.get("id") == write_id and last.get("at") == at and size >= at + len(data):
                return int(last["end"])
            if lease is not None and _json(folder / _LEASE).get("token") != lease.token:
                raise LeaseExpired(conversation, lease.owner)
            if size != at:
                raise log_conflict(conversation, size, at)
            file = LogFile(str(path), lock=False)
            try:
                file.append(data)
                file.sync()
            finally:
                file.close()
            # Only the caller's own retry needs it, and a caller that died does not retry.
            _put(folder / _LAST, {"id": write_id, "at": at, "end": file.end})
            return file.end

    def acquire(self, conversation: str, owner: str, seconds: float) -> Lease:
        """See `LogStore.acquire`."""
        with self._locked(conversation) as folder:
            held = _json(folder / _LEASE)
            if held.get("owner") not in (owner, "", None) and held["until_ms"] > now_in_ms():
                raise LeaseHeld(conversation, held["owner"])
            token = max(int(held.get("token", 0)) + 1, time.time_ns())
            return self._leased(folder, Lease(conversation, owner, token, _until(seconds)))

    def renew(self, lease: Lease, seconds: float) -> Lease:
        """See `LogStore.renew`."""
        with self._locked(lease.conversation) as folder:
            held = _json(folder / _LEASE)
            if (held.get("token"), held.get("owner")) != (lease.token, lease.owner):
                raise LeaseExpired(lease.conversation, lease.owner)
            return self._leased(folder, replace(lease, until_ms=_until(seconds)))

    def release(self, lease: Lease) -> None:
        """See `LogStore.release`."""
        with self._locked(lease.conversation) as folder:
            if _json(folder / _LEASE).get("token") == lease.token:
                self._leased(folder, replace(lease, owner="", until_ms=0))

    @staticmethod
    def _leased(folder: Path, lease: Lease) -> Lease:
        stored = {"owner": lease.owner, "token": lease.token, "until_ms": lease.until_ms}
        _put(folder / _LEASE, stored)
        return lease

    def load(self, conversation: str, name: str) -> StoredDocument | None:
        """See `DocumentStore.load`."""
        path = self._document(conversation, name)
        with reported(path):
            if not path.exists():
                return None
            version, _, data = path.read_bytes().partition(b"\n")
        if not version.isdigit():
            raise StoreError("is not a document of this store", path=str(path))
        return StoredDocument(data, int(version))

    def save(self, conversation: str, name: str, data: bytes, *, after: int) -> int:
        """See `DocumentStore.save`."""
        path = self._document(conversation, name)
        with self._locked(conversation):
            stored = self.load(conversation, name)
            if (stored.version if stored else 0) != after:
                raise document_conflict(conversation, name, after)
            with reported(path):
                write_whole(path, b"%d\n" % (after + 1) + data)
        return after + 1

    def _document(self, conversation: str, name: str) -> Path:
        return self._of(conversation) / f"{safe_name(checked_name(name, 'name'))}.document"

    def put_blob(self, conversation: str, data: bytes) -> str:
        """See `ConversationStore.put_blob`."""
        name, digest = safe_name(checked_name(conversation)), hashlib.sha256(data).hexdigest()
        path = self.folder / "blobs" / digest
        with locked(self.folder / _LOCK), reported(path):
            folder = self.folder / "references" / digest
            folder.mkdir(exist_ok=True, mode=0o700)
            (folder / name).touch(mode=0o600)
            if _size(path) == len(data):
                os.utime(path)
            else:
                write_whole(path, data)
        return digest

    def blob(self, digest: str) -> bytes | None:
        """See `ConversationStore.blob`."""
        path = self.folder / "blobs" / safe_name(digest).removeprefix("c.")
        with reported(path):
            data = path.read_bytes() if path.exists() else None
        return checked_blob(digest, data)

    def collect(self, *, unused_seconds: float = 3600) -> int:
        """See `ConversationStore.collect`."""
        latest, freed_bytes = time.time() - unused_seconds, 0
        with locked(self.folder / _LOCK), reported(self.folder):
            for path in (self.folder / "blobs").iterdir():
                folder = self.folder / "references" / path.name
                used = folder.is_dir() and any(folder.iterdir())
                if used or path.stat().st_mtime > latest:
                    continue
                path.unlink()
                freed_bytes += 1
                with suppress(FileNotFoundError):
                    folder.rmdir()
        return freed_bytes

    def conversations(self) -> Iterator[str]:
        """See `ConversationStore.conversations`."""
        with reported(self.folder):
            names = {path.name for path in (self.folder / "conversations").iterdir()}
            names |= {path.name for path in (self.folder / "references").glob("*/c.*")}
        yield from map(unsafe_name, sorted(names))

    def holds(self, conversation: str, name: str) -> bool:
        """Whether a document of this name exists, without reading it."""
        return self._document(conversation, name).exists()

    def usage(self, conversation: str) -> tuple[float, int]:
        """When a conversation last changed, in seconds since the epoch, and its bytes; 0 and 0 if it does not exist."""
        folder = self._of(conversation)
        with reported(folder):
            stats = [path.stat() for path in folder.iterdir()] if folder.is_dir() else []
        changed = max((stat.st_mtime for stat in stats), default=0.0)
        return changed, sum(stat.st_size for stat in stats)

    def forget(self, conversation: str) -> None:
        """See `ConversationStore.forget`."""
        folder = self._of(conversation)
        with locked(self.folder / _LOCK), reported(folder):
            for path in (self.folder / "references").glob(f"*/{safe_name(conversation)}"):
                path.unlink()
            if folder.is_dir():
                with self._locked(conversation):
                    for path in folder.iterdir():
                        if path.name != _LOCK:
                            path.unlink()

    def _of(self, conversation: str) -> Path:
        return self.folder / "conversations" / safe_name(checked_name(conversation))

    @contextmanager
    def _locked(self, conversation: str) -> Iterator[Path]:
        folder = self._of(conversation)
        with locked(folder / _LOCK):
            try:
                yield folder
            finally:
                # Without a file it is no conversation, such as one that was forgotten before its lease was released.
                with suppress(OSError):  # another worker begins it
                    if [path.name for path in folder.iterdir()] == [_LOCK]:
                        (folder / _LOCK).unlink()
                        folder.rmdir()


def _size(path: Path) -> int:
    with reported(path):
        try:
            return path.stat().st_size
        except FileNotFoundError:
            return 0


def _json(path: Path) -> dict[str, Any]:
    with reported(path):
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return {}
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as exc:
        raise StoreError(f"cannot be read: {exc}", path=str(path)) from exc
    return value if isinstance(value, dict) else {}


def _put(path: Path, value: dict[str, Any]) -> None:
    with reported(path):
        write_whole(path, orjson.dumps(value), sync=False)


def _until(seconds: float) -> int:
    return now_in_ms() + round(seconds * 1000)


_PREFIX = "blob:"
_TRIES = 16


class OffloadedResults:
    """A conversation's results, readable by any worker; each text is stored once for all conversations.

    Args:
        store: The shared store; its `forget` and `collect` delete what only this conversation refers to.
        conversation: Its name.

    Example:
        >>> import tempfile
        >>> from ullage.stores import FolderStore
        >>> results = OffloadedResults(FolderStore(tempfile.mkdtemp()), "one")
        >>> results.get(results.put("call_1", "a long text"))
        'a long text'
    """

    def __init__(self, store: ConversationStore, conversation: str) -> None:
        self._store, self._conversation = store, checked_name(conversation)

    def put(self, name: str, text: str, *, suffix: str = ".txt") -> str:
        """Keep a text; returns its place. The suffix has no meaning here.

        Raises:
            StoreError: The store fails; the text may be stored, but not under its id.
        """
        del suffix
        digest = self._store.put_blob(self._conversation, text.encode("utf-8", "surrogatepass"))
        document = _document(name)
        for _ in range(_TRIES):
            digests, version = self._digests(document)
            if digest in digests:
                return _PREFIX + digest
            listed = "\n".join([*digests, digest]).encode()
            # Another worker may add a text under the same id at the same time.
            with suppress(LogConflict):
                self._store.save(self._conversation, document, listed, after=version)
                return _PREFIX + digest
        raise StoreError(f"result {name!r}: other workers replaced its list {_TRIES} times")

    def get(self, name: str) -> str | None:
        """The text at a place that `put` returned, or under an id that has only one text. Else `None`.

        Raises:
            StoreError: The store fails.
        """
        if name.startswith(_PREFIX):
            return self._text(name.removeprefix(_PREFIX))
        digests, _ = self._digests(_document(name))
        return self._text(digests[0]) if len(digests) == 1 else None

    def _digests(self, document: str) -> tuple[list[str], int]:
        """The texts under an id, one digest a line, and the version of their list."""
        stored = self._store.load(self._conversation, document)
        return (stored.data.decode().split(), stored.version) if stored else ([], 0)

    def _text(self, digest: str) -> str | None:
        data = self._store.blob(digest)
        return None if data is None else data.decode("utf-8", "surrogatepass")


def _document(name: str) -> str:
    return f"result-{digest_of(name)}"
