"""The protocols of a store for conversations. Every `…Store` class of `ullage.stores` implements them all."""

from __future__ import annotations

import asyncio
import hashlib
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Protocol, TypeVar

import ullage.stores
from ullage._start import Frozen
from ullage.exceptions import InvalidPolicy, LogConflict, StoreError

LONGEST_NAME = 200  # bytes of a name in UTF-8: escaped, it still fits an object key and a file name


class Lease(Frozen):
    """The right to write to a conversation, for a limited time."""

    conversation: str  # its name
    owner: str  # the worker that holds it
    token: int  # grows whenever the conversation is taken; writes with an older one are refused
    until_ms: int  # when others may take it, in milliseconds since the epoch, by the store's clock


class StoredDocument(Frozen):
    """A value that is replaced whole."""

    data: bytes
    version: int  # from 1; grows by one with each replacement


class LogStore(Protocol):
    """Append-only logs by the name of their conversation, and leases: who may write to which. A missing log counts as empty."""

    def read(self, conversation: str, start: int = 0) -> bytes:
        """The bytes of a log from an offset on, which must be where an append ended."""

    def end(self, conversation: str) -> int:
        """Bytes of a log."""

    def append(
        self, conversation: str, data: bytes, *, at: int, write_id: str, lease: Lease | None = None
    ) -> int:
        """Append whole lines, all or none; they are durable when it returns, as far as the store guarantees.

        Args:
            conversation: Its name.
            data: Not empty; ends with a newline.
            at: Where the log must end now.
            write_id: Unique for this write; repeating it with the same id writes nothing.
            lease: The writer's lease; `None`: only `at` protects the log.

        Returns:
            The new end of the log.

        Raises:
            LeaseExpired: Another worker took the conversation since; nothing was written.
            LogConflict: The log does not end at `at`; nothing was written.
            StoreError: The store fails. Whether it was written is unknown: repeat it with the same id.
        """

    def acquire(self, conversation: str, owner: str, seconds: float) -> Lease:
        """Take a conversation that is free, expired, or already one's own.

        Raises:
            LeaseHeld: Another worker holds it.
        """

    def renew(self, lease: Lease, seconds: float) -> Lease:
        """Extend a lease to this many seconds from now.

        Raises:
            LeaseExpired: Another worker has the conversation, or it was released.
        """

    def release(self, lease: Lease) -> None:
        """Release a conversation; does nothing if another worker has it already."""


class DocumentStore(Protocol):
    """Small values by conversation and name: saved states, notes, summaries."""

    def load(self, conversation: str, name: str) -> StoredDocument | None:
        """A document, or `None`."""

    def save(self, conversation: str, name: str, data: bytes, *, after: int) -> int:
        """Replace a document, unless it changed since it was loaded.

        Args:
            conversation: Its name.
            name: The document's.
            data: The new bytes.
            after: The loaded version; 0: none.

        Returns:
            The new version.

        Raises:
            LogConflict: It has another version; nothing was written.
        """


class ConversationStore(LogStore, DocumentStore, Protocol):
    """Logs, documents, and blobs: large values by content, each stored once for all conversations.

    Safe for threads; a forked process must open its own. Every method raises `StoreError` where the store fails.
    """

    def put_blob(self, conversation: str, data: bytes) -> str:
        """Store bytes for a conversation to refer to; returns their digest (SHA-256, hexadecimal)."""

    def blob(self, digest: str) -> bytes | None:
        """Bytes by their digest, or `None`. `StoreError`, too, where the store holds other bytes under this digest."""

    def collect(self, *, unused_seconds: float = 3600) -> int:
        """Delete unreferenced blobs; returns how many.

        Args:
            unused_seconds: Only those last stored at least this long ago.
        """

    def conversations(self) -> Iterator[str]:
        """Names of all conversations, in no order."""

    def forget(self, conversation: str) -> None:
        """Delete a conversation's log, lease, documents and references; the next `collect` deletes its blobs."""

    def close(self) -> None:
        """Closes connections; the store cannot be used afterwards."""


class AsyncLogStore(Protocol):
    """`LogStore` without blocking the event loop."""

    def read(self, conversation: str, start: int = 0) -> Awaitable[bytes]:
        """See `LogStore.read`."""

    def end(self, conversation: str) -> Awaitable[int]:
        """See `LogStore.end`."""

    def append(
        self, conversation: str, data: bytes, *, at: int, write_id: str, lease: Lease | None = None
    ) -> Awaitable[int]:
        """See `LogStore.append`."""

    def acquire(self, conversation: str, owner: str, seconds: float) -> Awaitable[Lease]:
        """See `LogStore.acquire`."""

    def renew(self, lease: Lease, seconds: float) -> Awaitable[Lease]:
        """See `LogStore.renew`."""

    def release(self, lease: Lease) -> Awaitable[None]:
        """See `LogStore.release`."""


def checked_name(conversation: str, field: str = "conversation") -> str:
    """A name that every store can hold; `InvalidPolicy`: it is empty, too long, or not valid text."""
    limit = f"must be 1 to {LONGEST_NAME} bytes of UTF-8 without NUL"
    try:
        size = len(conversation.encode())
    except (UnicodeEncodeError, AttributeError):
        raise InvalidPolicy(field, conversation, limit) from None
    if not 1 <= size <= LONGEST_NAME or "\0" in conversation:
        raise InvalidPolicy(field, conversation, limit)
    return conversation


def checked_blob(digest: str, data: bytes | None) -> bytes | None:
    """The bytes that a store has under a digest; `StoreError`: they do not match it."""
    if data is not None and hashlib.sha256(data).hexdigest() != digest:
        raise StoreError(f"the bytes of blob {digest} do not match its digest")
    return data


def log_conflict(conversation: str, size: int, at: int) -> LogConflict:
    """For a log that ends elsewhere."""
    return LogConflict(
        f"conversation {conversation!r}: the log has {size} bytes, its writer left {at}",
        hint="check the conversation out again",
    )


def document_conflict(conversation: str, name: str, after: int) -> LogConflict:
    """For a document that has another version."""
    return LogConflict(
        f"conversation {conversation!r}: the document {name!r} is not at version {after}",
        hint="load it again and repeat the change",
    )


# Retries what a lost connection interrupted; everything retried must be safe to do twice.

T = TypeVar("T")

_FIRST, _LONGEST = 0.05, 1.0


def pauses(seconds: float) -> Iterator[float]:
    """Delays before each retry, until the time is up."""
    until, pause = time.monotonic() + seconds, _FIRST
    while (left := until - time.monotonic()) > 0:
        # Jitter, so that not all workers return at once.
        yield min(left, pause * random.uniform(0.5, 1))  # noqa: S311
        pause = min(2 * pause, _LONGEST)


def persist(call: Callable[[], T], lost: tuple[type[Exception], ...], seconds: float) -> T:
    """A call's result, retried for this long while it raises one of these errors."""
    for pause in pauses(seconds):
        try:
            return call()
        except lost:
            time.sleep(pause)
    return call()


async def apersist(
    call: Callable[[], Awaitable[T]], lost: tuple[type[Exception], ...], seconds: float
) -> T:
    """`persist`, without blocking the event loop."""
    for pause in pauses(seconds):
        try:
            return await call()
        except lost:
            await asyncio.sleep(pause)
    return await call()


_KINDS = {
    "": "FolderStore",
    "sqlite": "SqliteStore",
    **dict.fromkeys(("postgresql", "postgres"), "PostgresStore"),
    **dict.fromkeys(("redis", "rediss", "unix"), "RedisStore"),
    **dict.fromkeys(("s3", "gs", "az", "abfss", "file", "memory"), "BucketStore"),
}
"""By the beginning of an address: the class in `ullage.stores`."""


def open_store(address: str) -> ConversationStore:
    """Open a store.

    Args:
        address: A folder; `sqlite:FILE`; `postgresql://…`; `redis://…`, `rediss://…` or `unix://…`; `s3://…`, `gs://…`, `az://…` or
            `file:///…` for obstore. Credentials come from the environment, as the client libraries read them.

    Raises:
        InvalidPolicy: It is not such an address.
        MissingExtra: The client library is not installed.
        StoreError: The store cannot be opened.
    """
    if not address:
        raise InvalidPolicy("store", address, "must be a folder or an address")
    kind, _, place = address.partition(":")
    # A single letter is a drive on Windows.
    if not place or len(kind) == 1 or "/" in kind or "\\" in kind:
        kind = ""
    if kind not in _KINDS:
        raise InvalidPolicy("store", address, "must be a folder or one of " + ", ".join(_KINDS)[2:])
    store_class: Callable[[str], ConversationStore] = getattr(ullage.stores, _KINDS[kind])
    return store_class(place if kind == "sqlite" else address)
