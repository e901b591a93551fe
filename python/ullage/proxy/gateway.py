"""One request from arrival to answer, as an ASGI application."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Mapping

from ullage.proxy.client_answer import ClientAnswer
from ullage.proxy.client_calls import ClientCall
from ullage.proxy.endpoints import GatewayError, endpoint_of
from ullage.proxy.incoming import ClientLeft, Incoming, Receive, Scope, Send
from ullage.proxy.known_calls import KnownCalls
from ullage.proxy.proxy_settings import ProxySettings, is_loopback
from ullage.proxy.upstream import Upstream

__all__ = ["Gateway"]


class Gateway:
    """Relays each request to the provider and its response to the client.

    Args:
        settings: Of the gateway.
    """

    def __init__(self, settings: ProxySettings) -> None:
        self.settings = settings
        self.upstream = Upstream(settings)
        self.known = KnownCalls(settings, self.upstream)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        answer = ClientAnswer(send)
        try:
            incoming = Incoming(scope, receive, self.settings)
            if not self.serves({"host": incoming.header(b"host")}):
                text = "this gateway serves its own machine only"
                raise GatewayError(421, "invalid_request_error", text)
            await _while_connected(self._exchange(incoming, answer), incoming)
        except GatewayError as error:
            await answer.refuse(error)
        except ClientLeft:
            return

    def serves(self, headers: Mapping[str, str]) -> bool:
        """Whether a request is for this machine: on loopback, a page in a browser must not get in under a name of its own (DNS rebinding)."""
        host = headers.get("host", "")
        name, _, port = host.rpartition(":")
        given = name if port.isdecimal() else host
        return not given or not is_loopback(self.settings.host) or is_loopback(given)

    async def _exchange(self, incoming: Incoming, answer: ClientAnswer) -> None:
        endpoint = endpoint_of(incoming.method, incoming.path, incoming.headers)
        if ClientCall.can_be_read(endpoint, incoming):
            await self.known.answer(ClientCall(endpoint, incoming, await incoming.body()), answer)
            return
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
