"""Opaque compaction items that the gateway gave to a client, and the messages that they stand for.

An item holds its messages itself, packed. It is no secret, but a code under a key of this gateway shows that it was made here: only
such items are unpacked, and all those of a request share one budget.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import logging
import secrets
import threading
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from ullage.exceptions import LogConflict, StoreError
from ullage.stores import DocumentStore

__all__ = ["MARK", "HandedOut"]

LOG = logging.getLogger("ullage.proxy")

MARK = "ullage2."
"""How the content of our items begins; any other item is the provider's own."""

_KEY_CONVERSATION, _KEY_DOCUMENT = "ullage-gateway", "item-key"
_KEY_BYTES = _CODE_BYTES = 32

_TYPES = ("compaction", "compaction_summary", "context_compaction")

MOST_BYTES = 4 * 1024 * 1024
"""Of the items of one request, unpacked: the text of a window of a million tokens."""

MOST_VALUES = 500_000
"""Commas and opening brackets in them: as many values at most, at up to 100 bytes each."""


@dataclass(slots=True)
class _Budget:
    """What the items of a request may still unpack to."""

    size: int = MOST_BYTES
    values: int = MOST_VALUES


class HandedOut:
    """Makes and opens items.

    Args:
        store: Keeps the key, so that items are read after a restart, and by every gateway with this store; `None`: they are read
            by this process alone.
    """

    def __init__(self, store: DocumentStore | None = None) -> None:
        self._store = store
        self._key, self._lock = b"", threading.Lock()

    def item_of(self, messages: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
        """An item in the provider's form that stands for these items of a conversation; `None`: they are too many to be opened again."""
        plain = orjson.dumps(list(messages))
        if not _allowed(plain, _Budget()):
            return None
        packed = zlib.compress(plain, 6)
        content = base64.urlsafe_b64encode(self._code(packed) + packed).decode("ascii")
        name = f"cmp_ullage{zlib.crc32(packed):08x}"
        return {"type": "compaction", "id": name, "encrypted_content": MARK + content}

    def opened(self, items: Sequence[Any]) -> list[Any] | None:
        """A conversation with our items turned back into messages; `None`: it has none.

        Codex sends its instructions and what users wrote again before an item: a copy of such a message in it is left out. An item
        that was not made here, cannot be read or goes over the budget stays, for the provider to refuse.
        """
        budget = _Budget()
        found = [self._messages(item, budget) for item in items]
        if all(each is None for each in found):
            return None
        made: list[Any] = []
        for item, messages in zip(items, found, strict=True):
            made += [item] if messages is None else _without_copies(messages, made)
        return made

    def _messages(self, item: object, budget: _Budget) -> list[Any] | None:
        content = item.get("encrypted_content") if isinstance(item, Mapping) else None
        if not isinstance(content, str) or not content.startswith(MARK):
            return None
        if not isinstance(item, Mapping) or item.get("type") not in _TYPES:
            return None
        try:
            whole = base64.urlsafe_b64decode(content.removeprefix(MARK))
        except (binascii.Error, ValueError):
            return None
        code, packed = whole[:_CODE_BYTES], whole[_CODE_BYTES:]
        if not hmac.compare_digest(code, self._code(packed)):
            LOG.warning(
                "a compaction item was not made by this gateway: it is left to the provider"
            )
            return None
        return _unpacked(packed, budget)

    def _code(self, packed: bytes) -> bytes:
        with self._lock:
            self._key = self._key or _kept_key(self._store)
        return hmac.digest(self._key, packed, "sha256")


def _without_copies(messages: list[Any], before: list[Any]) -> list[Any]:
    said = [(item.get("role"), item.get("content")) for item in before if _is_message(item)]
    return [
        each
        for each in messages
        if not _is_message(each) or (each.get("role"), each.get("content")) not in said
    ]


def _is_message(item: object) -> bool:
    return isinstance(item, Mapping) and item.get("type", "message") == "message"


def _unpacked(packed: bytes, budget: _Budget) -> list[Any] | None:
    try:
        plain = zlib.decompressobj().decompress(packed, budget.size + 1)
        read = orjson.loads(plain) if _allowed(plain, budget) else None
    except (zlib.error, ValueError):
        return None
    return read if isinstance(read, list) and all(isinstance(each, dict) for each in read) else None


def _allowed(plain: bytes, budget: _Budget) -> bool:
    """Takes a text from the budget, by what it can hold at most, before any of it is made; false: it does not fit."""
    budget.size -= len(plain)
    if budget.size >= 0:
        budget.values -= sum(plain.count(mark) for mark in (b",", b"{", b"["))
    fits = min(budget.size, budget.values) >= 0
    if not fits:
        LOG.warning(
            "compaction items of more than %d bytes or %d values stay packed",
            MOST_BYTES,
            MOST_VALUES,
        )
        budget.size = budget.values = 0
    return fits


def _kept_key(store: DocumentStore | None) -> bytes:
    """The key in the store, made if there is none yet; one for this process where the store fails."""
    made = secrets.token_bytes(_KEY_BYTES)
    if store is None:
        return made
    try:
        if (found := store.load(_KEY_CONVERSATION, _KEY_DOCUMENT)) is None:
            store.save(_KEY_CONVERSATION, _KEY_DOCUMENT, made, after=0)
            return made
        return found.data
    except LogConflict:  # another gateway made one meanwhile
        found = store.load(_KEY_CONVERSATION, _KEY_DOCUMENT)
        return made if found is None else found.data
    except (StoreError, OSError) as exc:
        LOG.warning("the key of compaction items was not kept: %s", type(exc).__name__)
        return made
