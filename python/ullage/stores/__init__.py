"""Stores shared by many workers: any worker picks up any conversation, a retry doubles nothing, a crash loses nothing.

- `Worker`: checks conversations out of a store, with a lease, and gives each a `ContextManager`;
- `FolderStore`, `SqliteStore`: stores without a server; `PostgresStore`, `RedisStore`, `BucketStore`: stores on a server;
- `open_store`: a store by its address;
- `AsyncWorker`, `AsyncPostgresStore`: the same in an event loop;
- `SharedSummaries`: a summary that one worker writes and another installs;
- `AgentSessions`: sessions of the Claude Agent SDK in a store;
- `OffloadedResults`: large tool results in a store, by content;
- `StoredNotes`: the notes of `ullage.memory.session` in a store;
- `ConversationStore`: the protocol of a store, for your own, which `ullage.testing.stores` checks.

A log in a store is the transcript that a file would hold, byte for byte.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ullage._start import on_first_use

if TYPE_CHECKING:
    from ullage.stores.bucket_store import BucketStore
    from ullage.stores.folder_store import FolderStore, OffloadedResults as OffloadedResults
    from ullage.stores.redis_store import RedisStore
    from ullage.stores.sql_store import AsyncPostgresStore, PostgresStore, SqliteStore
    from ullage.stores.store_protocols import (
        AsyncLogStore as AsyncLogStore,
        ConversationStore,
        DocumentStore as DocumentStore,
        Lease as Lease,
        LogStore as LogStore,
        StoredDocument as StoredDocument,
        open_store,
    )
    from ullage.stores.stored_log import (
        AgentSessions,
        SharedSummaries,
        StoredLog as StoredLog,
        StoredNotes,
    )
    from ullage.stores.worker import (
        AsyncCheckout as AsyncCheckout,
        AsyncWorker,
        Checkout as Checkout,
        Worker,
    )

__all__ = [
    "AgentSessions",
    "AsyncPostgresStore",
    "AsyncWorker",
    "BucketStore",
    "ConversationStore",
    "FolderStore",
    "PostgresStore",
    "RedisStore",
    "SharedSummaries",
    "SqliteStore",
    "StoredNotes",
    "Worker",
    "open_store",
]

__getattr__, __dir__ = on_first_use(
    __name__,
    {
        "bucket_store": "BucketStore",
        "folder_store": "FolderStore OffloadedResults",
        "redis_store": "RedisStore",
        "sql_store": "AsyncPostgresStore PostgresStore SqliteStore",
        "store_protocols": "AsyncLogStore ConversationStore DocumentStore Lease LogStore StoredDocument open_store",
        "stored_log": "AgentSessions SharedSummaries StoredLog StoredNotes",
        "worker": "AsyncCheckout AsyncWorker Checkout Worker",
    },
)
