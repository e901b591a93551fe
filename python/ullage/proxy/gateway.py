"""One request from arrival to answer, as an ASGI application."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Coroutine

import aiohttp

from ullage.proxy.endpoints import GatewayError, endpoint_of, error_body
from ullage.proxy.incoming import ClientLeft, Incoming, Receive, Scope, Send
from ullage.proxy.proxy_settings import ProxySettings, is_loopback
from ullage.proxy.upstream import Upstream, end_to_end

__all__ = ["Gateway"]

LOG = logging.getLogger("ullage.proxy")


class Gateway:
    """Relays each request to the provider and its response to the client.

    Args:
        settings: Of the gateway.
    """

    def __init__(self, settings: ProxySettings) -> None:
        self.settings = settings
        self.upstream = Upstream(settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        answer = _Answer(send)
        try:
            incoming = Incoming(scope, receive, self.settings)
            _check_host(incoming, self.settings)
            await _while_connected(self._exchange(incoming, answer), incoming)
        except GatewayError as error:
            await answer.refuse(error)
        except ClientLeft:
            return

    async def _exchange(self, incoming: Incoming, answer: _Answer) -> None:
        endpoint = endpoint_of(incoming.method, incoming.path, incoming.headers)
        body = incoming.chunks() if incoming.has_body else None
        if body is None:
            await incoming.body()
        try:
            response = await self.upstream.request(
                endpoint, incoming.method, incoming.target, incoming.headers, body
            )
        except GatewayError as error:
            raise incoming.failure or error from None
        with contextlib.closing(response):
            await answer.relay(response)


async def _while_connected(exchange: Coroutine[None, None, None], incoming: Incoming) -> None:
    """Run an exchange, and cancel it when the client closes its connection."""
    work = asyncio.ensure_future(exchange)
    watch = asyncio.ensure_future(incoming.left())
    try:
        await asyncio.wait({work, watch}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (work, watch):
            if not task.done():
                task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watch
    with contextlib.suppress(asyncio.CancelledError):
        await work


class _Answer:
    """What goes back to the client."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.begun = False

    async def relay(self, response: aiohttp.ClientResponse) -> None:
        """Pass a response on as it arrives; the sender waits for a slow reader.

        A response that breaks off is left incomplete, so that the client sees that it does.
        """
        await self._start(response.status, end_to_end(response.raw_headers))
        try:
            async for piece in response.content.iter_any():
                await self._body(piece, more=True)
        except (aiohttp.ClientError, TimeoutError, OSError) as exc:
            LOG.warning("the upstream's response broke off: %s", type(exc).__name__)
            return
        await self._body(b"", more=False)

    async def refuse(self, refused: GatewayError) -> None:
        """An error of the gateway itself."""
        if self.begun:
            return
        body = error_body(refused)
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
        ]
        await self._start(refused.status, headers)
        await self._body(body, more=False)

    async def _start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self.begun = True
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def _body(self, piece: bytes, *, more: bool) -> None:
        await self._send({"type": "http.response.body", "body": piece, "more_body": more})


def _check_host(incoming: Incoming, settings: ProxySettings) -> None:
    """On loopback, a page in a browser must not reach the gateway under a name of its own (DNS rebinding)."""
    if not is_loopback(settings.host):
        return
    host = incoming.header(b"host")
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
    if name and not is_loopback(name):
        raise GatewayError(421, "invalid_request_error", "this gateway serves its own machine only")
