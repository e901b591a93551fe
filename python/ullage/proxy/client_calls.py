"""A call of a client that may be changed or answered here: its bytes, and what they say."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any

import orjson

from ullage.proxy.endpoints import Endpoint
from ullage.proxy.incoming import Incoming

__all__ = ["ClientCall"]

_LOOKED_AT = ("messages", "chat", "responses", "compact", "count")

_MODEL = re.compile(rb'"model"\s*:\s*"([^"\\]{1,200})"')
_HEAD = 512
"""Bytes in which clients name the model; a name further on may be part of a message."""


class ClientCall:
    """One call.

    Args:
        endpoint: What it is for.
        incoming: For its headers.
        raw: Its body, exactly as it came.
    """

    def __init__(self, endpoint: Endpoint, incoming: Incoming, raw: bytes) -> None:
        self.endpoint, self.incoming, self.raw = endpoint, incoming, raw

    @staticmethod
    def can_be_read(endpoint: Endpoint, incoming: Incoming) -> bool:
        """Whether such a call is looked at: a known one, and not compressed."""
        packed = incoming.header(b"content-encoding") not in ("", "identity")
        return endpoint.kind in _LOOKED_AT and not packed

    @cached_property
    def body(self) -> dict[str, Any] | None:
        """The body as an object; `None`: not JSON (or with lone surrogates), so that it can only be passed on."""
        try:
            found = orjson.loads(self.raw)
        except orjson.JSONDecodeError:
            return None
        return found if isinstance(found, dict) else None

    @property
    def list_key(self) -> str:
        """What the API calls the conversation."""
        return "input" if self.endpoint.provider == "openai_responses" else "messages"

    @cached_property
    def items(self) -> list[Any] | None:
        """The conversation; `None`: there is none, or it is not a list."""
        found = (self.body or {}).get(self.list_key)
        return found if isinstance(found, list) and found else None

    @cached_property
    def model(self) -> str:
        """The model's name; empty if there is none."""
        early = _MODEL.search(self.raw, 0, _HEAD)
        if early is not None:
            return early[1].decode("utf-8", "replace")
        named = (self.body or {}).get("model")
        return named if isinstance(named, str) else ""

    @property
    def streams(self) -> bool:
        """Whether the answer is to be a stream."""
        return (self.body or {}).get("stream") is True

    def with_items(self, items: list[Any], **others: object) -> bytes:
        """The body with another conversation; everything else as it came, in the same order."""
        return orjson.dumps({**(self.body or {}), self.list_key: items, **others})
