"""One request from arrival to answer, as an ASGI application."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine

from ullage.proxy.client_answer import ClientAnswer
from ullage.proxy.client_calls import ClientCall
from ullage.proxy.endpoints import GatewayError, endpoint_of
from ullage.proxy.incoming import ClientLeft, Incoming, Receive, Scope, Send
from ullage.proxy.known_calls import KnownCalls
from ullage.proxy.proxy_settings import ProxySettings, host_name, is_loopback
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
            self._check(incoming)
            await _while_connected(self._exchange(incoming, answer), incoming)
        except GatewayError as error:
            await answer.refuse(error)
        except ClientLeft:
            return

    def _check(self, incoming: Incoming) -> None:
        """Refuse what a page in a browser sends: under a name of its own (DNS rebinding), or from another site."""
        host = incoming.header(b"host")
        if host and is_loopback(self.settings.host) and not is_loopback(host_name(host)):
            text = "this gateway serves its own machine only"
            raise GatewayError(421, "invalid_request_error", text)
        if not self._may_ask(host, incoming.header(b"origin"), incoming.header(b"sec-fetch-site")):
            text = "requests of other sites are refused (--allow-origin names those that may ask)"
            raise GatewayError(403, "permission_error", text)
        if incoming.method == "TRACE":  # it would come back with its keys (RFC 9110, 9.3.8)
            raise GatewayError(405, "invalid_request_error", "TRACE is not passed on")

    def _may_ask(self, host: str, origin: str, site: str) -> bool:
        """Whether a request is of no page in a browser, of this gateway's own, or of one that the settings allow."""
        allowed = self.settings.allowed_origins
        if "*" in allowed or (origin and origin in allowed):
            return True
        if site in ("cross-site", "same-site"):
            return False
        return not origin or origin.partition("://")[2] == host

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
