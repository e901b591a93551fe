"""A store by its address, for command lines and settings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ullage.exceptions import InvalidPolicy
from ullage.stores.store_protocols import ConversationStore


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
    kind, _, rest = address.partition(":")
    # One letter is a drive on Windows.
    if not rest or len(kind) == 1 or "/" in kind or "\\" in kind:
        kind = ""
    opened = _KINDS.get(kind)
    if opened is None:
        raise InvalidPolicy("store", address, "must be a folder or one of " + ", ".join(_KINDS)[2:])
    return opened(address)


def _folder(address: str) -> ConversationStore:
    from ullage.stores.folder_store import FolderStore

    return FolderStore(Path(address))


def _sqlite(address: str) -> ConversationStore:
    from ullage.stores.sqlite_store import SqliteStore

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
