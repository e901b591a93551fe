"""Conversations in Redis or Valkey, for short-lived ones or an existing server."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar

from ullage._start import extra_module, table
from ullage.exceptions import LeaseExpired, LeaseHeld, StoreError
from ullage.stores.store_protocols import (
    Lease,
    StoredDocument,
    checked_blob,
    checked_name,
    document_conflict,
    log_conflict,
    persist,
)

T = TypeVar("T")

_AT_ONCE = 256  # parts of a log read by one call


class RedisStore:
    """A `ConversationStore` in Redis 5 or later, or Valkey.

    A write is as durable as the server makes it: with `appendfsync everysec`, the default for append-only files, a killed server
    loses up to a second; without append-only files, everything. All keys share one slot of a cluster.

    Args:
        address: `redis://`, `rediss://` or `unix://`.
        prefix: Prefix of all keys.
        retry_seconds: How long a lost server is waited for.

    Raises:
        MissingExtra: redis is not installed.
        StoreError: The server cannot be reached, or refuses.
    """

    def __init__(self, address: str, *, prefix: str = "ullage", retry_seconds: float = 30) -> None:
        redis: Any = extra_module("redis", "redis")
        self._prefix, self._retry, self._errors = "{" + prefix + "}:", 0.0, redis.exceptions
        try:
            self._client: Any = redis.Redis.from_url(address)
        except ValueError as exc:
            raise StoreError(str(exc), path="redis") from exc
        settings = self._client.connection_pool.connection_kwargs
        host, port = settings.get("host", ""), settings.get("port", "")
        self.place = f"redis://{host}:{port}/{settings.get('db', 0)}"
        self._call(self._client.ping)
        self._retry = retry_seconds
        scripts = table(__file__, "redis_scripts.toml")
        begin = scripts.pop("begin")
        self._scripts = {
            name: self._client.register_script(begin + text) for name, text in scripts.items()
        }

    def __repr__(self) -> str:
        return f"RedisStore({self.place!r})"

    def close(self) -> None:
        """See `ConversationStore.close`."""
        self._client.close()

    def read(self, conversation: str, start: int = 0) -> bytes:
        """See `LogStore.read`."""
        key = self._key("log", conversation)
        positions = map(int, self._call(self._client.hkeys, key))
        starts = sorted(at for at in positions if at >= start)
        parts: list[bytes | None] = []
        for first in range(0, len(starts), _AT_ONCE):
            parts += self._call(self._client.hmget, key, starts[first : first + _AT_ONCE])
        return b"".join(part.partition(b"\n")[2] for part in parts if part is not None)

    def end(self, conversation: str) -> int:
        """See `LogStore.end`."""
        key = self._key("head", conversation)
        return int(self._call(self._client.hget, key, "end") or 0)

    def append(
        self, conversation: str, data: bytes, *, at: int, write_id: str, lease: Lease | None = None
    ) -> int:
        """See `LogStore.append`."""
        token = "" if lease is None else str(lease.token)
        outcome, end = self._script("append", conversation, data, at, write_id, token)
        if outcome == b"lost" and lease is not None:
            raise LeaseExpired(conversation, lease.owner)
        if outcome == b"moved":
            raise log_conflict(conversation, int(end), at)
        return int(end)

    def acquire(self, conversation: str, owner: str, seconds: float) -> Lease:
        """See `LogStore.acquire`."""
        outcome, token, until = self._script("acquire", conversation, owner, round(seconds * 1000))
        if outcome != b"yes":
            raise LeaseHeld(conversation, token.decode())
        return Lease(conversation, owner, int(token), int(until))

    def renew(self, lease: Lease, seconds: float) -> Lease:
        """See `LogStore.renew`."""
        until = self._script("renew", lease.conversation, lease.token, round(seconds * 1000))
        if until is None:
            raise LeaseExpired(lease.conversation, lease.owner)
        return Lease(lease.conversation, lease.owner, lease.token, int(until))

    def release(self, lease: Lease) -> None:
        """See `LogStore.release`."""
        self._script("release", lease.conversation, lease.token)

    def load(self, conversation: str, name: str) -> StoredDocument | None:
        """See `DocumentStore.load`."""
        key, field = self._key("documents", conversation), checked_name(name, "name")
        stored = self._call(self._client.hget, key, field)
        if stored is None:
            return None
        version, _, data = stored.partition(b"\n")
        return StoredDocument(data.partition(b"\n")[2], int(version))

    def save(self, conversation: str, name: str, data: bytes, *, after: int) -> int:
        """See `DocumentStore.save`."""
        field = checked_name(name, "name")
        version = self._script("save", conversation, field, data, after, uuid.uuid4().hex)
        if version is None:
            raise document_conflict(conversation, name, after)
        return int(version)

    def put_blob(self, conversation: str, data: bytes) -> str:
        """See `ConversationStore.put_blob`."""
        digest = hashlib.sha256(data).hexdigest()
        self._script("put_blob", conversation, digest, data)
        return digest

    def blob(self, digest: str) -> bytes | None:
        """See `ConversationStore.blob`."""
        key = f"{self._prefix}blob:{digest}"
        return checked_blob(digest, self._call(self._client.get, key))

    def collect(self, *, unused_seconds: float = 3600) -> int:
        """See `ConversationStore.collect`."""
        return int(self._script("collect", "-", round(unused_seconds * 1000)))

    def conversations(self) -> Iterator[str]:
        """See `ConversationStore.conversations`."""
        key = f"{self._prefix}names"
        yield from (name.decode() for name in self._call(self._client.smembers, key))

    def forget(self, conversation: str) -> None:
        """See `ConversationStore.forget`."""
        self._script("forget", conversation)

    def _key(self, kind: str, conversation: str) -> str:
        return f"{self._prefix}{kind}:{checked_name(conversation)}"

    def _script(self, name: str, conversation: str, *values: object) -> Any:
        arguments = [checked_name(conversation), *values]
        return self._call(self._scripts[name], [self._prefix], arguments)

    def _call(self, call: Callable[..., T], *args: object) -> T:
        errors = self._errors
        # A server that starts refuses for a moment.
        lost = (errors.ConnectionError, errors.TimeoutError, errors.BusyLoadingError)
        try:
            return persist(partial(call, *args), lost, self._retry)
        except errors.RedisError as exc:
            raise StoreError(str(exc), path=self.place) from exc
