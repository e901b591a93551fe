"""The methods of the SQL stores: each runs one flow as one transaction."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import TypeVar

from ullage.stores import sql_flows
from ullage.stores.sql_schema import Sql
from ullage.stores.store_protocols import Lease, StoredDocument

__all__ = ["SqlStore"]

T = TypeVar("T")


class SqlStore(ABC):
    """A `ConversationStore` over some database; see there for what the methods do."""

    _at_once = False
    """Whether the database changes two tables in one statement."""

    @abstractmethod
    def _run(self, make: Callable[[], Sql[T]]) -> T:
        """Runs one transaction, whole or nothing of it; again from the start if the connection is lost."""

    def read(self, conversation: str, start: int = 0) -> bytes:
        """See `LogStore.read`."""
        return self._run(lambda: sql_flows.read(conversation, start))

    def end(self, conversation: str) -> int:
        """See `LogStore.end`."""
        return self._run(lambda: sql_flows.end(conversation))

    def append(
        self, conversation: str, data: bytes, *, at: int, write_id: str, lease: Lease | None = None
    ) -> int:
        """See `LogStore.append`."""
        return self._run(
            lambda: sql_flows.append(
                conversation, data, at=at, write_id=write_id, lease=lease, at_once=self._at_once
            )
        )

    def acquire(self, conversation: str, owner: str, seconds: float) -> Lease:
        """See `LeaseStore.acquire`."""
        return self._run(lambda: sql_flows.acquire(conversation, owner, seconds))

    def renew(self, lease: Lease, seconds: float) -> Lease:
        """See `LeaseStore.renew`."""
        return self._run(lambda: sql_flows.renew(lease, seconds))

    def release(self, lease: Lease) -> None:
        """See `LeaseStore.release`."""
        self._run(lambda: sql_flows.release(lease))

    def load(self, conversation: str, name: str) -> StoredDocument | None:
        """See `DocumentStore.load`."""
        return self._run(lambda: sql_flows.load(conversation, name))

    def save(self, conversation: str, name: str, data: bytes, *, after: int) -> int:
        """See `DocumentStore.save`."""
        write_id = uuid.uuid4().hex
        return self._run(
            lambda: sql_flows.save(conversation, name, data, after=after, write_id=write_id)
        )

    def put_blob(self, conversation: str, data: bytes) -> str:
        """See `BlobStore.put_blob`."""
        return self._run(lambda: sql_flows.put_blob(conversation, data))

    def blob(self, digest: str) -> bytes | None:
        """See `BlobStore.blob`."""
        return self._run(lambda: sql_flows.blob(digest))

    def collect(self, *, unused_seconds: float = 3600) -> int:
        """See `BlobStore.collect`."""
        return self._run(lambda: sql_flows.collect(unused_seconds=unused_seconds))

    def conversations(self) -> Iterator[str]:
        """See `ConversationStore.conversations`."""
        yield from self._run(sql_flows.conversations)

    def forget(self, conversation: str) -> None:
        """See `ConversationStore.forget`."""
        self._run(lambda: sql_flows.forget(conversation))
