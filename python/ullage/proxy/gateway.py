"""One request from arrival to answer, as an ASGI application."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import gc
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from http import HTTPStatus

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ullage.exceptions import InvalidPolicy
from ullage.proxy.client_calls import ClientCall
from ullage.proxy.compaction_answers import ClientAnswer
from ullage.proxy.known_calls import KnownCalls
from ullage.proxy.pages import page_routes
from ullage.proxy.proxy_settings import ProxySettings, host_name, is_loopback
from ullage.proxy.upstream import (
    ClientLeft,
    GatewayError,
    Incoming,
    Receive,
    Scope,
    Send,
    Upstream,
    endpoint_of,
    error_body,
)


class Gateway:
    """Relays each request to the provider and its response to the client.

    Args:
        settings: Of the gateway.
    """

    def __init__(self, settings: ProxySettings) -> None:
        self.settings = settings
        self.upstream = Upstream(settings)
        self.calls = KnownCalls(settings, self.upstream)

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
            await self.calls.answer(ClientCall(endpoint, incoming, await incoming.body()), answer)
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


# Limits that hold before a request's headers are complete, which uvicorn does not have, and requests that offer another protocol.


def protocol_of(settings: ProxySettings) -> type[asyncio.Protocol]:
    """The protocol of a connection, with the limits of a gateway."""
    limits = {"most_bytes": settings.max_header_bytes, "seconds": settings.read_seconds}
    return type("BoundedHeads", (_BoundedHeads,), limits)


class _BoundedHeads(HttpToolsProtocol):
    """One connection of a client.

    Attributes:
        most_bytes: Of a request's head; more is answered 431 as soon as it is there.
        seconds: In which a head must be complete, from its first byte, or from the connection's beginning; then 408.
    """

    most_bytes: int
    seconds: float

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override, unused-ignore]
        super().connection_made(transport)
        self._in_message = self._in_head = self._offers_protocol = False
        self._received = b""  # since the connection was last idle, until a head is complete
        self._begun = 0  # requests that began in it
        self._timer: asyncio.TimerHandle | None = None
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if not self._in_message:
            self._received, self._begun = data, 0
        elif self._in_head:
            self._received += data
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._offers_protocol:
            self._go_on_without_offer()
        elif self._in_head and len(self._received) > self.most_bytes:
            self._refuse(431, f"headers are over {self.most_bytes} bytes")
        elif self._timer is None and (self._in_head or not (self._in_message or self._begun)):
            self._start_timer()

    # ---- what the parser reports ----

    def on_message_begin(self) -> None:
        self._in_message = self._in_head = True
        self._begun += 1
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._stop_timer()
        names = {name for name, value in self.headers if value != b"0"}
        self._offers_protocol = self.parser.should_upgrade() and bool(
            names & {b"content-length", b"transfer-encoding"}
        )
        if self._offers_protocol:
            return
        super().on_headers_complete()
        self._received = b""
        if self.parser.should_upgrade():
            self.cycle.keep_alive = False  # the parser reads nothing more

    def on_message_complete(self) -> None:
        self._in_message = False
        if not self._offers_protocol:
            super().on_message_complete()

    # ---- limits ----

    def _start_timer(self) -> None:
        self._timer = self.loop.call_later(self.seconds, self._too_late)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None

    @property
    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _too_late(self) -> None:
        self._timer = None
        if self._answering:
            self._start_timer()
        elif self._in_head:
            self._refuse(408, f"the headers did not arrive within {self.seconds:g} s")
        else:
            self.transport.close()

    def _refuse(self, status: int, text: str) -> None:
        """Answers and closes; amid another answer it only closes."""
        if not self._answering:
            body = error_body(GatewayError(status, "invalid_request_error", text))
            head = (
                f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ncontent-type: application/json\r\n"
                f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
            )
            self.transport.write(head.encode() + body)
        self.transport.close()

    # ---- Upgrade ----

    def _go_on_without_offer(self) -> None:
        """`Upgrade` may be ignored (RFC 9110, 7.8), but this parser drops the body of such a request: another one reads it."""
        if self._begun > 1 or self._answering:
            self._refuse(400, "Upgrade in a request that was sent before another was answered")
            return
        other = _OneRequest(self.config, self.server_state, self.app_state, self.loop)
        self._stop_timer()
        self.connections.discard(self)
        other.connection_made(self.transport)
        self.transport.set_protocol(other)
        other.data_received(self._received)


class _OneRequest(H11Protocol):
    """Closes after its answer, since it has no time limit for the headers of a next request."""

    def on_response_complete(self) -> None:
        self.transport.close()
        super().on_response_complete()


# The listening server.


_KEEP_ALIVE_SECONDS = 75
"""Longer than clients keep an idle connection, so that they close it and never meet a closed one."""


def make_app(settings: ProxySettings | None = None) -> Starlette:
    """The gateway as an ASGI application, for a server of your own.

    Args:
        settings: `None`: the defaults.
    """
    gateway = Gateway(settings or ProxySettings())

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        await gateway.upstream.open()
        await asyncio.to_thread(gateway.calls.states.sweep)
        try:
            yield
        finally:
            await gateway.upstream.close()

    fitter = gateway.calls.fitter
    lines = None if fitter is None else fitter.lines
    shown = page_routes(gateway.calls.accounts, lines, gateway.settings.page_token)
    return Starlette(routes=[*shown, Mount("/", app=gateway)], lifespan=lifespan)


_COLLECT = (50_000, 20, 20)
"""New objects before a search for dead cycles. A request of 150,000 tokens is a few thousand objects, dead without a search as soon as it is
answered; by Python's own thresholds each one would start several, over everything that the managers hold."""


_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEPT_BYTES = 16 * 1024 * 1024
"""Freed memory that stays with the process. Otherwise glibc gives the copies of each large body back, and the next request takes a
page fault for each 4 KiB of it: half of the processor time of relaying it."""


def config_of(settings: ProxySettings) -> uvicorn.Config:
    """How uvicorn serves it: adds nothing to responses, trusts no forwarding header, logs no request."""
    return uvicorn.Config(
        make_app(settings),
        host=settings.host,
        port=settings.port,
        access_log=False,
        log_config=None,
        log_level="critical",
        server_header=False,
        date_header=False,
        proxy_headers=False,
        http=protocol_of(settings),
        ws="none",
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
    )


def serve(settings: ProxySettings, started: Callable[[str], None] | None = None) -> None:
    """Serve until interrupted.

    Args:
        settings: Of the gateway.
        started: Called with the URL once the port is open; `None`: nothing is.

    Raises:
        InvalidPolicy: The certificates cannot be read, or the port is in use.
        OSError: The port cannot be opened.
    """
    server = uvicorn.Server(config_of(settings))
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with _listening(settings, family) as listening:
        if started is not None:
            started(url_of(listening))
        _own_process()
        server.run(sockets=[listening])


def _listening(settings: ProxySettings, family: socket.AddressFamily) -> socket.socket:
    try:
        return socket.create_server((settings.host, settings.port), family=family)
    except OSError as exc:
        if exc.errno != errno.EADDRINUSE:
            raise
        hint = "another gateway may be running; `--port 0` takes a free port"
        raise InvalidPolicy("port", settings.port, "is in use", hint=hint) from exc


def _own_process() -> None:
    """Sets this process, which does nothing else, to large requests."""
    gc.collect()
    gc.freeze()  # what was imported lives as long as the server
    gc.set_threshold(*_COLLECT)
    with contextlib.suppress(AttributeError, OSError, TypeError):  # another C library than glibc
        own = ctypes.CDLL(None)
        own.mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
        own.mallopt(_M_MMAP_THRESHOLD, _KEPT_BYTES)


def url_of(listening: socket.socket) -> str:
    """Base URL of an open port."""
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"
