"""A request as it arrives: bounded in size and time, and whether its client is still there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any

from ullage.proxy.endpoints import GatewayError
from ullage.proxy.proxy_settings import ProxySettings

__all__ = ["ClientLeft", "Incoming", "Message", "Receive", "Scope", "Send"]

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class ClientLeft(Exception):
    """The client closed its connection before its request had arrived."""


class Incoming:
    """One request of a client.

    Args:
        scope: Of ASGI.
        receive: Of ASGI.
        settings: For the limits.

    Attributes:
        method: Of HTTP.
        target: Path and query exactly as they were sent.
        headers: Names in lower case, values as they were sent, in order.
        failure: Why the rest of the body will not come; `None`: it came, or still may.

    Raises:
        GatewayError: Its headers are too large, or say that the body will be.
    """

    def __init__(self, scope: Scope, receive: Receive, settings: ProxySettings) -> None:
        self.method: str = scope["method"]
        self.headers: list[tuple[bytes, bytes]] = list(scope["headers"])
        path: bytes = scope.get("raw_path") or scope["path"].encode()
        query: bytes = scope.get("query_string", b"")
        self.path = path.decode("latin-1")
        self.target = self.path + (f"?{query.decode('latin-1')}" if query else "")
        self._receive, self._settings = receive, settings
        self._arrived = asyncio.Event()
        self.failure: Exception | None = None
        self._check()

    def header(self, name: bytes) -> str:
        """A header's value; empty if it is not there."""
        return next((value.decode("latin-1") for key, value in self.headers if key == name), "")

    def _check(self) -> None:
        limit = self._settings.max_header_bytes
        if sum(len(name) + len(value) for name, value in self.headers) > limit:
            raise GatewayError(431, "invalid_request_error", f"headers are over {limit} bytes")
        length = self.header(b"content-length")
        if length.isdecimal() and int(length) > self._settings.max_body_bytes:
            raise self._too_large()

    def _too_large(self) -> GatewayError:
        limit = self._settings.max_body_bytes
        return GatewayError(413, "request_too_large", f"the request is over {limit} bytes")

    @property
    def has_body(self) -> bool:
        """Whether a body follows the headers."""
        return self.header(b"content-length") not in ("", "0") or bool(
            self.header(b"transfer-encoding")
        )

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives.

        Raises:
            GatewayError: It is too large, or the client is silent for too long.
            ClientLeft: The rest will not come.
        """
        try:
            async for piece in self._pieces():
                yield piece
        except (GatewayError, ClientLeft) as exc:
            # Whoever sends it on has errors of its own for this.
            self.failure = exc
            raise

    async def _pieces(self) -> AsyncIterator[bytes]:
        total = 0
        while not self._arrived.is_set():
            event = await self._next()
            if event["type"] == "http.disconnect":
                raise ClientLeft
            piece = event.get("body", b"")
            total += len(piece)
            if total > self._settings.max_body_bytes:
                raise self._too_large()
            if not event.get("more_body"):
                self._arrived.set()
            if piece:
                yield piece

    async def _next(self) -> Message:
        seconds = self._settings.read_seconds
        try:
            async with asyncio.timeout(seconds):
                return await self._receive()
        except TimeoutError:
            text = f"the request did not arrive within {seconds:g} s of silence"
            raise GatewayError(408, "invalid_request_error", text) from None

    async def body(self) -> bytes:
        """The whole body."""
        return b"".join([piece async for piece in self.chunks()])

    async def left(self) -> None:
        """Wait until the client closes its connection."""
        await self._arrived.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass
