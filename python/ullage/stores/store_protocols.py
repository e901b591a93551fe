"""What a store for conversations does. Every class of `ullage.stores` that ends in `Store` does all of it."""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from ullage.exceptions import InvalidPolicy, LogConflict, StoreError

LONGEST_NAME = 200
"""Bytes of a name in UTF-8: escaped, it still fits an object key and a file name."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to write to a conversation, for a time.

    Attributes:
        conversation: Its name.
        owner: The worker that holds it.
        token: Grows whenever the conversation is taken; a write under an older one is refused.
        until_ms: When others may take it, in milliseconds since the epoch, by the store's clock.
    """

    conversation: str
    owner: str
    token: int
    until_ms: int


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A value that is replaced whole.

    Attributes:
        data: Its bytes.
        version: From 1; grows by one with each replacement.
    """

    data: bytes
    version: int


class LogStore(Protocol):
    """Append-only logs by the name of their conversation. A missing log is an empty one."""

    def read(self, conversation: str, start: int = 0) -> bytes:
        """What stands in a log from an offset on, which must be where an append ended.

        Raises:
            StoreError: The store cannot be reached, or fails.
        """
        ...

    def end(self, conversation: str) -> int:
        """Bytes of a log.

        Raises:
            StoreError: See `read`.
        """
        ...

    def append(
        self,
        conversation: str,
        data: bytes,
        *,
        at: int,
        write_id: str,
        lease: Lease | None = None,
    ) -> int:
        """Appends whole lines, all of them or none; they are as durable as the store makes them when it returns.

        Args:
            conversation: Its name.
            data: Not empty; ends with a line end.
            at: Where the log must end now.
            write_id: Unique for this write. Repeated with the same id it is not written again.
            lease: The writer's; `None`: only `at` protects it.

        Returns:
            Where the log ends now.

        Raises:
            LeaseExpired: Another worker took the conversation since; nothing was written.
            LogConflict: The log does not end at `at`; nothing was written.
            StoreError: The store fails. Whether it was written is unknown: repeat it with the same id.
        """
        ...


class LeaseStore(Protocol):
    """Who may write to which conversation."""

    def acquire(self, conversation: str, owner: str, seconds: float) -> Lease:
        """Takes a free conversation, one whose lease is over, or one's own again.

        Raises:
            LeaseHeld: Another worker holds it.
            StoreError: The store fails.
        """
        ...

    def renew(self, lease: Lease, seconds: float) -> Lease:
        """The same lease, from now on for so long.

        Raises:
            LeaseExpired: Another worker has the conversation, or it was given back.
            StoreError: The store fails.
        """
        ...

    def release(self, lease: Lease) -> None:
        """Gives a conversation back; nothing happens if another worker has it already.

        Raises:
            StoreError: The store fails.
        """
        ...


class DocumentStore(Protocol):
    """Small values by conversation and name: saved states, notes, summaries."""

    def load(self, conversation: str, name: str) -> StoredDocument | None:
        """A document; `None`: there is none.

        Raises:
            StoreError: The store fails.
        """
        ...

    def save(self, conversation: str, name: str, data: bytes, *, after: int) -> int:
        """Replaces a document if nobody did since it was loaded.

        Args:
            conversation: Its name.
            name: The document's.
            data: The new bytes.
            after: The version that was loaded; 0: there was none.

        Returns:
            The new version.

        Raises:
            LogConflict: It has another version; nothing was written.
            StoreError: The store fails.
        """
        ...


class BlobStore(Protocol):
    """Large values by their contents, each stored once however many conversations refer to it."""

    def put_blob(self, conversation: str, data: bytes) -> str:
        """Stores bytes, on which the conversation refers from then on; returns their digest (SHA-256, hexadecimal).

        Raises:
            StoreError: The store fails.
        """
        ...

    def blob(self, digest: str) -> bytes | None:
        """Bytes by their digest; `None`: there are none.

        Raises:
            StoreError: The store fails, or holds other bytes under this digest.
        """
        ...

    def collect(self, *, unused_seconds: float = 3600) -> int:
        """Deletes blobs to which no conversation refers; returns how many.

        Args:
            unused_seconds: Only those that were last stored so long ago.

        Raises:
            StoreError: The store fails.
        """
        ...


class ConversationStore(LogStore, LeaseStore, DocumentStore, BlobStore, Protocol):
    """All of it, for any number of threads; a process that forks opens its own."""

    def conversations(self) -> Iterator[str]:
        """Names of all conversations, in no order.

        Raises:
            StoreError: The store fails.
        """
        ...

    def forget(self, conversation: str) -> None:
        """Deletes a conversation's log, lease, documents and references; its blobs go with the next `collect`.

        Raises:
            StoreError: The store fails.
        """
        ...

    def close(self) -> None:
        """Closes connections; the store cannot be used afterwards."""
        ...


class AsyncLogStore(Protocol):
    """`LogStore` and `LeaseStore` without blocking the event loop."""

    def read(self, conversation: str, start: int = 0) -> Awaitable[bytes]:
        """See `LogStore.read`."""
        ...

    def end(self, conversation: str) -> Awaitable[int]:
        """See `LogStore.end`."""
        ...

    def append(
        self,
        conversation: str,
        data: bytes,
        *,
        at: int,
        write_id: str,
        lease: Lease | None = None,
    ) -> Awaitable[int]:
        """See `LogStore.append`."""
        ...

    def acquire(self, conversation: str, owner: str, seconds: float) -> Awaitable[Lease]:
        """See `LeaseStore.acquire`."""
        ...

    def renew(self, lease: Lease, seconds: float) -> Awaitable[Lease]:
        """See `LeaseStore.renew`."""
        ...

    def release(self, lease: Lease) -> Awaitable[None]:
        """See `LeaseStore.release`."""
        ...


def checked_name(conversation: str, field: str = "conversation") -> str:
    """A name that every store can hold.

    Raises:
        InvalidPolicy: It is empty, too long, or no valid text.
    """
    limit = f"must be 1 to {LONGEST_NAME} bytes of UTF-8 without NUL"
    try:
        size = len(conversation.encode())
    except (UnicodeEncodeError, AttributeError):
        raise InvalidPolicy(field, conversation, limit) from None
    if not 1 <= size <= LONGEST_NAME or "\0" in conversation:
        raise InvalidPolicy(field, conversation, limit)
    return conversation


def checked_blob(digest: str, data: bytes | None) -> bytes | None:
    """The bytes that a store has under a digest.

    Raises:
        StoreError: They are others.
    """
    if data is not None and hashlib.sha256(data).hexdigest() != digest:
        raise StoreError(f"blob {digest} holds other bytes than its digest names")
    return data


def log_conflict(conversation: str, size: int, at: int) -> LogConflict:
    """The log ends elsewhere."""
    return LogConflict(
        f"conversation {conversation!r}: the log has {size} bytes, its writer left {at}",
        hint="check the conversation out again",
    )


def document_conflict(conversation: str, name: str, after: int) -> LogConflict:
    """The document has another version."""
    return LogConflict(
        f"conversation {conversation!r}: the document {name!r} is not at version {after}",
        hint="load it again, and decide again",
    )


# Does again what a lost connection interrupted; everything that is done so may be done twice.


T = TypeVar("T")

_FIRST, _LONGEST = 0.05, 1.0


def pauses(seconds: float) -> Iterator[float]:
    """How long to wait before each further try, until so much time is over."""
    until, pause = time.monotonic() + seconds, _FIRST
    while (left := until - time.monotonic()) > 0:
        # Not all workers at once, when a server comes back.
        yield min(left, pause * random.uniform(0.5, 1))  # noqa: S311
        pause = min(2 * pause, _LONGEST)


def persist(call: Callable[[], T], lost: tuple[type[Exception], ...], seconds: float) -> T:
    """What a call returns, tried again for so long while it raises that the connection is lost.

    Raises:
        Exception: The last of them, or another one at once.
    """
    for pause in pauses(seconds):
        try:
            return call()
        except lost:
            time.sleep(pause)
    return call()


# A store by its address, for command lines and settings.


def open_store(address: str) -> ConversationStore:
    """Opens a store.

    Args:
        address: A folder; `sqlite:FILE`; `postgresql://…`; `redis://…`, `rediss://…` or `unix://…`; `s3://…`, `gs://…`, `az://…` or
            `file:///…` for obstore. Credentials come from the environment, as the client libraries read them.

    Raises:
        InvalidPolicy: It is no such address.
        MissingExtra: The client library is not installed.
        StoreError: The store cannot be opened.
    """
    if not address:
        raise InvalidPolicy("store", address, "must be a folder or an address")
    kind, _, place = address.partition(":")
    # One letter is a drive on Windows.
    if not place or len(kind) == 1 or "/" in kind or "\\" in kind:
        kind = ""
    opened = _KINDS.get(kind)
    if opened is None:
        raise InvalidPolicy("store", address, "must be a folder or one of " + ", ".join(_KINDS)[2:])
    return opened(address)


def _folder(address: str) -> ConversationStore:
    from ullage.stores.folder_store import FolderStore

    return FolderStore(Path(address))


def _sqlite(address: str) -> ConversationStore:
    from ullage.stores.sql_store import SqliteStore

    return SqliteStore(address.partition(":")[2])


def _postgres(address: str) -> ConversationStore:
    from ullage.stores.postgres_store import PostgresStore

    return PostgresStore(address)


def _redis(address: str) -> ConversationStore:
    from ullage.stores.redis_store import RedisStore

    return RedisStore(address)


def _bucket(address: str) -> ConversationStore:
    from ullage.stores.bucket_store import BucketStore

    return BucketStore(address)


_KINDS: dict[str, Callable[[str], ConversationStore]] = {
    "": _folder,
    "sqlite": _sqlite,
    **dict.fromkeys(("postgresql", "postgres"), _postgres),
    **dict.fromkeys(("redis", "rediss", "unix"), _redis),
    **dict.fromkeys(("s3", "gs", "az", "abfss", "file", "memory"), _bucket),
}
