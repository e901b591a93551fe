"""Conversations in a bucket (S3, Google Cloud Storage, Azure) through obstore. No server to run; a write takes tens of milliseconds."""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from ullage._start import extra_module
from ullage.exceptions import LeaseExpired, LeaseHeld, LogConflict, StoreError
from ullage.messages import now_in_ms
from ullage.stores.folder_store import safe_name, unsafe_name
from ullage.stores.store_protocols import (
    Lease,
    StoredDocument,
    checked_blob,
    checked_name,
    document_conflict,
    log_conflict,
)

_READERS = 16
_MOST_KNOWN = 10_000
_OLDER_VERSIONS_STAY = timedelta(minutes=10)
"""How long an older version of a document stays; longer than a request with its retries."""

_WRITE = 33  # bytes of a write's id, hexadecimal, and the line end after it


class BucketStore:
    """A `ConversationStore` in a bucket.

    The bucket must be able to create an object only if it does not exist (`If-None-Match: *`). Each append is an object, and so
    is each version of a document. Leases use the workers' clocks, which must agree to within seconds. With
    `checkout(…, at_end=True)` a turn is one object.

    Args:
        address: `s3://bucket/prefix`, `gs://…`, `az://…`, `file:///folder`, `memory:///`, with credentials and settings from
            the environment (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT`, …); or an open store of obstore.

    Raises:
        MissingExtra: obstore is not installed.
        StoreError: The address is malformed, or the bucket does not exist or cannot be read.
    """

    def __init__(self, address: object) -> None:
        self._lib: Any = extra_module("obstore", "objects")
        self._errors: Any = extra_module("obstore.exceptions", "objects")
        opened: Any = extra_module("obstore.store", "objects")
        self.place = address.partition("?")[0] if isinstance(address, str) else repr(address)
        try:
            self._store: Any = opened.from_url(address) if isinstance(address, str) else address
        except (self._errors.BaseError, ValueError) as exc:
            raise StoreError(_words_of(exc), path=self.place) from exc
        self._ends: dict[str, int] = {}
        self._pool = ThreadPoolExecutor(_READERS, thread_name_prefix="ullage-bucket")
        try:
            list(self._under("format"))
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return f"BucketStore({self.place!r})"

    def close(self) -> None:
        """See `ConversationStore.close`."""
        self._pool.shutdown()

    def read(self, conversation: str, start: int = 0) -> bytes:
        """See `LogStore.read`."""
        folder, at = self._folder("logs", conversation), start
        chosen = []
        for place, size in self._chunks(folder):
            if place == at:
                chosen.append(_numbered(folder, place))
                at += size
        parts = list(self._pool.map(self._get, chosen))
        if None in parts:
            raise StoreError("the log was deleted while it was read", path=folder)
        self._know(conversation, at)
        return b"".join(part[_WRITE:] for part in parts if part is not None)

    def end(self, conversation: str) -> int:
        """See `LogStore.end`."""
        end = 0
        for place, size in self._chunks(self._folder("logs", conversation)):
            end += size if place == end else 0
        self._know(conversation, end)
        return end

    def append(
        self, conversation: str, data: bytes, *, at: int, write_id: str, lease: Lease | None = None
    ) -> int:
        """See `LogStore.append`."""
        folder = self._folder("logs", conversation)
        fits = self._ends.get(conversation) == at or self.end(conversation) == at
        # A worker that took over without a release also marked the end of the log.
        lost = lease is not None and not self._is_held(lease)
        body = _write_id(write_id) + data
        chunk = _numbered(folder, at)
        created = fits and not lost and self._created(chunk, body)
        if created or self._get(chunk) == body:
            self._know(conversation, at + len(data))
            return at + len(data)
        self._ends.pop(conversation, None)
        if lease is not None and (lost or not self._is_held(lease)):
            raise LeaseExpired(conversation, lease.owner)
        raise log_conflict(conversation, self.end(conversation), at)

    def _chunks(self, folder: str) -> list[tuple[int, int]]:
        """(offset, bytes) of each part."""
        sizes = ((entry["path"], entry["size"]) for entry in self._under(folder))
        return sorted((int(path.rpartition("/")[2]), size - _WRITE) for path, size in sizes)

    def _know(self, conversation: str, end: int) -> None:
        if len(self._ends) >= _MOST_KNOWN:
            self._ends.clear()
        self._ends[conversation] = end

    def acquire(self, conversation: str, owner: str, seconds: float) -> Lease:
        """See `LogStore.acquire`."""
        folder = self._folder("leases", conversation)
        while True:
            held = self._newest_lease(folder, conversation)
            if held is not None and held.owner not in ("", owner) and held.until_ms > now_in_ms():
                raise LeaseHeld(conversation, held.owner)
            token = max(time.time_ns(), held.token + 1 if held is not None else 0)
            lease = Lease(conversation, owner, token, now_in_ms() + round(seconds * 1000))
            if not self._created(_numbered(folder, token), _dumped(lease)):
                continue  # another worker was as fast
            newest = self._newest_lease(folder, conversation)
            if newest is not None and newest.token == token:
                break
        if held is not None:
            self._delete([_numbered(folder, held.token)])
            if held.owner:
                self._mark(conversation)
        return lease

    def renew(self, lease: Lease, seconds: float) -> Lease:
        """See `LogStore.renew`."""
        renewed = replace(lease, until_ms=now_in_ms() + round(seconds * 1000))
        self._replace(lease, renewed)
        return renewed

    def release(self, lease: Lease) -> None:
        """See `LogStore.release`."""
        with suppress(LeaseExpired):
            self._replace(lease, replace(lease, owner="", until_ms=0))

    def _replace(self, lease: Lease, renewed: Lease) -> None:
        folder = self._folder("leases", lease.conversation)
        newest = self._newest_lease(folder, lease.conversation)
        if newest is None or (newest.token, newest.owner) != (lease.token, lease.owner):
            raise LeaseExpired(lease.conversation, lease.owner)
        # Nobody else writes to an object of this token; the next owner creates a new one.
        self._call(self._lib.put, self._store, _numbered(folder, lease.token), _dumped(renewed))

    def _is_held(self, lease: Lease) -> bool:
        folder = self._folder("leases", lease.conversation)
        try:
            self._call(self._lib.head, self._store, _numbered(folder, lease.token))
        except FileNotFoundError:
            return False
        return True

    def _newest_lease(self, folder: str, conversation: str) -> Lease | None:
        newest = self._newest(folder)
        if newest is None:
            return None
        held = orjson.loads(newest[1])
        return Lease(conversation, held["owner"], held["token"], held["until_ms"])

    def _mark(self, conversation: str) -> None:
        """An empty line, so that a write of the previous worker finds its place taken."""
        folder, line = self._folder("logs", conversation), _write_id(uuid.uuid4().hex) + b"\n"
        while not self._created(_numbered(folder, self.end(conversation)), line):
            continue  # it wrote just now
        self._ends.pop(conversation, None)

    def load(self, conversation: str, name: str) -> StoredDocument | None:
        """See `DocumentStore.load`."""
        newest = self._newest(self._document(conversation, name))
        return None if newest is None else StoredDocument(newest[1][_WRITE:], newest[0])

    def save(self, conversation: str, name: str, data: bytes, *, after: int) -> int:
        """See `DocumentStore.save`."""
        folder = self._document(conversation, name)
        looked = now_in_ms()
        there = sorted((entry["path"], entry["last_modified"]) for entry in self._under(folder))
        newest = int(there[-1][0].rpartition("/")[2]) if there else 0
        body = _write_id(uuid.uuid4().hex) + data
        if newest != after or not self._created(_numbered(folder, after + 1), body):
            raise document_conflict(conversation, name, after)
        # Half of it: clocks differ.
        if now_in_ms() - looked > _OLDER_VERSIONS_STAY.total_seconds() * 500:
            raise StoreError(
                f"saving the document {name!r} took too long: another may have been saved meanwhile",
                path=self.place,
                hint="load it again and repeat the change",
            )
        # Older versions stay a while: a slow writer must find its place taken.
        latest = datetime.now(UTC) - _OLDER_VERSIONS_STAY
        self._delete(path for path, at in there[:-1] if at < latest)
        return after + 1

    def put_blob(self, conversation: str, data: bytes) -> str:
        """See `ConversationStore.put_blob`."""
        digest, safe = hashlib.sha256(data).hexdigest(), safe_name(checked_name(conversation))
        # References first, so that a collection keeps the blob, or restores it.
        self._call(self._lib.put, self._store, f"blobs-of/{safe}/{digest}", b"")
        self._call(self._lib.put, self._store, f"users/{digest}/{safe}", b"")
        self._call(self._lib.put, self._store, f"blobs/{digest}", data)
        return digest

    def blob(self, digest: str) -> bytes | None:
        """See `ConversationStore.blob`."""
        return checked_blob(digest, self._get(f"blobs/{safe_name(digest).removeprefix('c.')}"))

    def collect(self, *, unused_seconds: float = 3600) -> int:
        """See `ConversationStore.collect`."""
        latest, freed_bytes = datetime.now(UTC) - timedelta(seconds=unused_seconds), 0
        for entry in self._under("blobs"):
            path: str = entry["path"]
            users = f"users/{path.rpartition('/')[2]}"
            if entry["last_modified"] > latest or any(self._under(users)):
                continue
            data = self._get(path)
            self._delete([path])
            if data is not None and any(self._under(users)):
                self._call(self._lib.put, self._store, path, data)
            else:
                freed_bytes += 1
        return freed_bytes

    def conversations(self) -> Iterator[str]:
        """See `ConversationStore.conversations`."""
        kinds = ("logs", "leases", "documents", "blobs-of")
        names = {entry["path"].split("/")[1] for kind in kinds for entry in self._under(kind)}
        yield from map(unsafe_name, sorted(names))

    def forget(self, conversation: str) -> None:
        """See `ConversationStore.forget`."""
        safe = safe_name(checked_name(conversation))
        for kind in ("leases", "logs", "documents", "blobs-of"):
            paths = [entry["path"] for entry in self._under(f"{kind}/{safe}")]
            if kind == "blobs-of":
                paths += [f"users/{path.rpartition('/')[2]}/{safe}" for path in paths]
            self._delete(paths)
        self._ends.pop(conversation, None)

    def _folder(self, kind: str, conversation: str) -> str:
        return f"{kind}/{safe_name(checked_name(conversation))}"

    def _document(self, conversation: str, name: str) -> str:
        return f"{self._folder('documents', conversation)}/{safe_name(checked_name(name, 'name'))}"

    def _under(self, folder: str) -> Iterator[Any]:
        stream = self._call(self._lib.list, self._store, f"{folder}/", chunk_size=1000)
        while part := self._call(next, stream, None):
            yield from part

    def _newest(self, folder: str) -> tuple[int, bytes] | None:
        """The number and the bytes of the last object; it is looked for again if it was deleted meanwhile."""
        while paths := sorted(entry["path"] for entry in self._under(folder)):
            if (data := self._get(paths[-1])) is not None:
                return int(paths[-1].rpartition("/")[2]), data
        return None

    def _get(self, path: str) -> bytes | None:
        try:
            return bytes(self._call(lambda: self._lib.get(self._store, path).bytes()))
        except FileNotFoundError:
            return None

    def _created(self, path: str, data: bytes) -> bool:
        """Whether the object was new. A retry after a lost answer finds its own object, so compare it."""
        try:
            self._call(self._lib.put, self._store, path, data, mode="create")
        except LogConflict:
            return self._get(path) == data
        return True

    def _delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            with suppress(FileNotFoundError):
                self._call(self._lib.delete, self._store, path)

    def _call(self, call: Callable[..., Any], *args: object, **options: object) -> Any:
        errors = self._errors
        try:
            return call(*args, **options)
        except (FileNotFoundError, errors.NotFoundError) as exc:
            if "NoSuchBucket" in str(exc):
                raise StoreError("there is no such bucket", path=self.place) from exc
            raise FileNotFoundError(self.place) from exc
        except (FileExistsError, errors.AlreadyExistsError, errors.PreconditionError) as exc:
            raise LogConflict(f"{self.place}: the object exists") from exc
        except (errors.BaseError, OSError) as exc:
            raise StoreError(_words_of(exc), path=self.place) from exc


def _numbered(folder: str, number: int) -> str:
    # As many digits as the largest number, so that names sort numerically.
    return f"{folder}/{number:019}"


def _write_id(write_id: str) -> bytes:
    """A fixed length for any id of a caller."""
    return hashlib.sha256(write_id.encode()).hexdigest()[: _WRITE - 1].encode() + b"\n"


def _dumped(lease: Lease) -> bytes:
    return orjson.dumps({"owner": lease.owner, "token": lease.token, "until_ms": lease.until_ms})


def _words_of(exc: Exception) -> str:
    return str(exc).strip().split("\n")[0][:300]
