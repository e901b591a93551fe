"""A store by its address, for command lines and settings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ullage.exceptions import InvalidPolicy
from ullage.stores.store_protocols import ConversationStore

__all__ = ["open_store"]


def open_store(address: str) -> ConversationStore:
    """Opens a store.

    Args:
        address: A folder, or `sqlite:FILE`.

    Raises:
        InvalidPolicy: It is no such address.
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
        raise InvalidPolicy("store", address, "must be a folder or sqlite:FILE")
    return opened(address)


def _folder(address: str) -> ConversationStore:
    from ullage.stores.folder_store import FolderStore

    return FolderStore(Path(address))


def _sqlite(address: str) -> ConversationStore:
    from ullage.stores.sqlite_store import SqliteStore

    return SqliteStore(address.partition(":")[2])


_KINDS: dict[str, Callable[[str], ConversationStore]] = {
    "": _folder,
    "sqlite": _sqlite,
}
