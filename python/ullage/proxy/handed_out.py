"""Opaque compaction items that the gateway gave to a client, and the messages that they stand for.

The item holds its messages itself, packed, so no store is needed and a restart loses nothing. It is no secret and proves
nothing: a client could have written the same messages in the open.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

__all__ = ["MARK", "item_of", "opened"]

MARK = "ullage1."
"""How the content of our items begins; any other item is the provider's own."""

_TYPES = ("compaction", "compaction_summary", "context_compaction")
_MOST_BYTES = 64 * 1024 * 1024
"""Largest unpacked content: a small item cannot fill the memory."""


def item_of(messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """An item in the provider's form that stands for these items of a conversation."""
    packed = zlib.compress(orjson.dumps(list(messages)), 6)
    body = MARK + base64.urlsafe_b64encode(packed).decode("ascii")
    name = f"cmp_ullage{zlib.crc32(packed):08x}"
    return {"type": "compaction", "id": name, "encrypted_content": body}


def opened(items: Sequence[Any]) -> list[Any] | None:
    """A conversation with our items turned back into messages; `None`: it has none.

    An item that cannot be read stays, for the provider to refuse.
    """
    found = [_messages(item) for item in items]
    if all(each is None for each in found):
        return None
    made: list[Any] = []
    for item, messages in zip(items, found, strict=True):
        made += [item] if messages is None else messages
    return made


def _messages(item: object) -> list[Any] | None:
    if not isinstance(item, Mapping) or item.get("type") not in _TYPES:
        return None
    body = item.get("encrypted_content")
    if not isinstance(body, str) or not body.startswith(MARK):
        return None
    try:
        packed = base64.urlsafe_b64decode(body.removeprefix(MARK))
        unpacked = zlib.decompressobj().decompress(packed, _MOST_BYTES)
        read = orjson.loads(unpacked)
    except (binascii.Error, zlib.error, ValueError):
        return None
    return read if isinstance(read, list) and all(isinstance(each, dict) for each in read) else None
