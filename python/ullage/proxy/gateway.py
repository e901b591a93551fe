"""One request from arrival to answer, as an ASGI application."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import gc
import logging
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from http import HTTPStatus
from typing import Any

import aiohttp
import orjson
import uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Mount
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ullage.exceptions import InvalidPolicy
from ullage.proxy.client_calls import AskedCompaction, ClientCall, asked_compaction, name_of
from ullage.proxy.compaction_answers import (
    BROKEN,
    MARK,
    ClientAnswer,
    HandedOut,
    answer_by_code,
    completed,
    with_opened_items,
)
from ullage.proxy.fitter import FittedCall, Fitter, LineStates
from ullage.proxy.pages import CallAccounts, page_routes
from ullage.proxy.proxy_settings import ProxySettings, host_name, is_loopback
from ullage.proxy.upstream import (
    ClientLeft,
    GatewayError,
    Incoming,
    Receive,
    Scope,
    Send,
    Upstream,
    decoded,
    endpoint_of,
    error_body,
    events_of,
    message_in,
    tokens_in,
)


class Gateway:
    """Relays each request to the provider and its response to the client.

    `fitter`: runs the levels; `None`: they are off. `accounts`: what the page shows. `states`: where lines are kept over a restart.
    """

    def __init__(self, settings: ProxySettings) -> None:
        self.settings, self.upstream, self.accounts = settings, Upstream(settings), CallAccounts()
        self._handed_out = HandedOut(settings.store)
        self.states = LineStates(settings)
        self.fitter = Fitter(settings, self.states) if settings.levels else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        answer = ClientAnswer(scope, receive, send)
        try:
            incoming = Incoming(scope, receive, self.settings)
            self._check(incoming)
            await _while_connected(self._exchange(incoming, answer), incoming)
        except GatewayError as error:
            await answer.refuse(error)
        except ClientLeft:
            return

    def _check(self, incoming: Incoming) -> None:
        """Refuse requests of pages in a browser, under their own host name (DNS rebinding) or from another site."""
        host = incoming.header(b"host")
        if host and is_loopback(self.settings.host) and not is_loopback(host_name(host)):
            text = "this gateway serves only its own machine"
            raise GatewayError(421, "invalid_request_error", text)
        origin, allowed = incoming.header(b"origin"), self.settings.allowed_origins
        if "*" not in allowed and not (origin and origin in allowed):
            elsewhere = incoming.header(b"sec-fetch-site") in ("cross-site", "same-site")
            if elsewhere or (origin and origin.partition("://")[2] != host):
                text = "requests from other sites are refused; allow one with --allow-origin"
                raise GatewayError(403, "permission_error", text)
        if incoming.method == "TRACE":  # the answer would contain the keys (RFC 9110, 9.3.8)
            raise GatewayError(405, "invalid_request_error", "TRACE is not passed on")

    async def _exchange(self, incoming: Incoming, answer: ClientAnswer) -> None:
        endpoint = endpoint_of(incoming.method, incoming.path, incoming.headers)
        if ClientCall.can_be_read(endpoint, incoming):
            await self._answer(ClientCall(endpoint, incoming, await incoming.body()), answer)
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

    # ---- calls of the known APIs -------------------------------------------------------------

    async def _answer(self, call: ClientCall, answer: ClientAnswer) -> None:
        if call.endpoint.provider == "openai_responses" and MARK.encode() in call.raw:
            call = await asyncio.to_thread(with_opened_items, call, self._handed_out)
        mode = self.settings.compaction
        asked = None if mode == "pass" else asked_compaction(call)
        local = await self._by_code(asked, call) if asked and mode == "extractive" else None
        if local is not None:
            await answer.give(local)
            self.accounts.note(name_of(call), call, answered=True)
        elif asked and mode == "repair" and asked.client == "claude_code":  # others' are sealed
            await self._complete(asked, call, answer)
        elif self.fitter is None:
            with contextlib.closing(await self._send(call, call.raw)) as response:
                await answer.relay(response)
                self._account(call, response, answer)
        else:
            await self._fit(self.fitter, call, answer)

    async def _by_code(self, asked: AskedCompaction, call: ClientCall) -> Response | None:
        own, keep = self._handed_out, self.settings.hand_over
        try:
            return await asyncio.to_thread(answer_by_code, asked, call, own, keep_for_hook=keep)
        except Exception:  # whatever a client sends, its provider can still answer
            LOG.exception("a compaction failed; asking the provider")
            return None

    async def _send(self, call: ClientCall, raw: bytes) -> aiohttp.ClientResponse:
        incoming = call.incoming
        return await self.upstream.request(
            call.endpoint, incoming.method, incoming.target, incoming.headers, raw
        )

    async def _fit(self, fitter: Fitter, call: ClientCall, answer: ClientAnswer) -> None:
        due = fitter.may_be_due(call)
        fitted = await fitter.fit(call) if due else None
        raw = call.raw if fitted is None else fitted.raw
        with contextlib.closing(await self._send(call, raw)) as response:
            held, error = await _refusal(call, response, due=due)
            again = None if error is None else await _smaller(fitter, call, fitted, error)
            if again is None:
                await answer.relay(response, held)
                self._account(call, response, answer, fitted)
                return
        with contextlib.closing(await self._send(call, again.raw)) as second:
            await answer.relay(second)
            # Only once: after a second refusal the client sees the provider's words.
            self._account(call, second, answer, again, recovered=True)

    def _account(
        self,
        call: ClientCall,
        response: aiohttp.ClientResponse,
        answer: ClientAnswer,
        fitted: FittedCall | None = None,
        *,
        recovered: bool = False,
    ) -> None:
        """Account for a finished call, never raising."""
        if call.endpoint.kind == "count":
            return
        try:
            reported = tokens_in(message_in(response.headers, answer.noted()))
            name = name_of(call) if fitted is None else fitted.line.name
            self.accounts.note(name, call, fitted=fitted, reported=reported, recovered=recovered)
        except Exception:
            LOG.exception("a call was not accounted for")

    async def _complete(
        self, asked: AskedCompaction, call: ClientCall, answer: ClientAnswer
    ) -> None:
        """Wait for a whole summary and pass it on with what it lost; pass on an error or an incomplete answer unchanged."""
        with contextlib.closing(await self._send(call, call.raw)) as response:
            if response.status != 200:
                await answer.relay(response)
                return
            data = await _read(response, None)
            heads, streams = response.headers, call.streams
            local = await asyncio.to_thread(completed, asked, heads, data, stream=streams)
            if local is None:
                await answer.relay(response, data)
            else:
                await answer.give(local)


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


# Limits before a request's headers are complete, which uvicorn lacks, and requests that offer another protocol.


class _BoundedHeads(HttpToolsProtocol):
    """One connection of a client."""

    most_bytes: int  # maximum size of a request's head; more gets 431 at once
    seconds: float  # for a complete head, from its first byte or the connection's start; then 408

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override, unused-ignore]
        super().connection_made(transport)
        self._in_message = self._in_head = self._offers_protocol = False
        self._received = b""  # since the connection was last idle, until a head is complete
        self._begun = 0  # requests of this connection
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
        has_body = not names.isdisjoint((b"content-length", b"transfer-encoding"))
        self._offers_protocol = self.parser.should_upgrade() and has_body
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
        """Answer and close; during another answer, only close."""
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
        """`Upgrade` may be ignored (RFC 9110, 7.8), but this parser drops the body of such a request, so another one reads it."""
        if self._begun > 1 or self._answering:
            self._refuse(400, "Upgrade in a request that was sent before another was answered")
            return
        from uvicorn.protocols.http.h11_impl import H11Protocol

        other = H11Protocol(self.config, self.server_state, self.app_state, self.loop)
        # One request: the next one's headers would have no time limit.
        other.on_response_complete = self.transport.close
        self._stop_timer()
        self.connections.discard(self)
        other.connection_made(self.transport)
        self.transport.set_protocol(other)
        other.data_received(self._received)


# The listening server.


def make_app(settings: ProxySettings | None = None) -> Starlette:
    """The gateway as an ASGI application, for a server of your own.

    Args:
        settings: `None`: the defaults.
    """
    gateway = Gateway(settings or ProxySettings())

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        await gateway.upstream.open()
        await asyncio.to_thread(gateway.states.sweep)
        try:
            yield
        finally:
            await gateway.upstream.close()

    lines = None if gateway.fitter is None else gateway.fitter.lines
    shown = page_routes(gateway.accounts, lines, gateway.settings.page_token)
    return Starlette(routes=[*shown, Mount("/", app=gateway)], lifespan=lifespan)


_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEPT_BYTES = 16 * 1024 * 1024
"""Freed memory that the process keeps. Otherwise glibc returns the copies of each large body to the system, and the next request takes a
page fault for each 4 KiB: half the processor time of relaying it."""


def config_of(settings: ProxySettings) -> uvicorn.Config:
    """Settings of uvicorn: add nothing to responses, trust no forwarding header, log no request."""
    limits = {"most_bytes": settings.max_header_bytes, "seconds": settings.read_seconds}
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
        http=type("BoundedHeads", (_BoundedHeads,), limits),
        ws="none",
        timeout_keep_alive=75,  # longer than clients keep an idle connection: it is they who close it
    )


def serve(settings: ProxySettings, started: Callable[[str], None] | None = None) -> None:
    """Serve until interrupted.

    Args:
        settings: Of the gateway.
        started: Called with the URL once the port is open; `None`: not called.

    Raises:
        InvalidPolicy: The certificates cannot be read, or the port is in use.
        OSError: The port cannot be opened.
    """
    server = uvicorn.Server(config_of(settings))
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        opened = socket.create_server((settings.host, settings.port), family=family)
    except OSError as exc:
        if exc.errno != errno.EADDRINUSE:
            raise
        hint = "another gateway may be running; `--port 0` picks a free port"
        raise InvalidPolicy("port", settings.port, "is in use", hint=hint) from exc
    with opened as listening:
        if started is not None:
            started(url_of(listening))
        _own_process()
        server.run(sockets=[listening])


def _own_process() -> None:
    """Tune this process, which does nothing else, for large requests."""
    gc.freeze()  # what was imported lives as long as the server
    # A request of 150,000 tokens is a few thousand objects, freed without a collection as soon as it is answered; by
    # Python's thresholds each would start several over everything that the managers hold.
    gc.set_threshold(50_000, 20, 20)
    with contextlib.suppress(AttributeError, OSError, TypeError):  # another C library than glibc
        own = ctypes.CDLL(None)
        own.mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
        own.mallopt(_M_MMAP_THRESHOLD, _KEPT_BYTES)


def url_of(listening: socket.socket) -> str:
    """Base URL of an open port."""
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


LOG = logging.getLogger("ullage.proxy")

_REFUSED = (400, 413)
"""Statuses of a request that is too large."""

_LONGEST_ERROR = 256 * 1024
"""Maximum bytes of an API's error."""


async def _smaller(
    fitter: Fitter, call: ClientCall, fitted: FittedCall | None, error: object
) -> FittedCall | None:
    """A refused call, made smaller; `None` if it was refused for another reason, or nothing helps."""
    from ullage.providers import classify  # with the errors of all providers

    refusal = classify(error, provider=call.endpoint.provider)
    if not (refusal.is_overflow or refusal.kind == "output_budget"):
        return None
    fitted = fitted or await fitter.fit(call)
    return None if fitted is None else await fitter.recovered(fitted, error)


async def _refusal(
    call: ClientCall, response: aiohttp.ClientResponse, *, due: bool
) -> tuple[bytes, object]:
    """The part of a response read to see whether it is a refusal, and the refusal, or `None`.

    A stream of the Responses API says so in its first substantial event, so for a large call we wait for these few events.
    """
    if response.status in _REFUSED:
        held = await _read(response, _LONGEST_ERROR)
        plain = decoded(response.headers.get("content-encoding", ""), held)
        if plain is None:
            return held, None
        try:
            return held, (response.status, orjson.loads(plain))
        except orjson.JSONDecodeError:
            return held, (response.status, plain.decode("utf-8", "replace"))
    if not (due and call.endpoint.kind == "responses" and call.streams):
        return b"", None
    held = await _read(response, _LONGEST_ERROR, until=lambda held: _substance(held) is not None)
    first = _substance(held)
    return held, first if first is not None and first.get("type") == "response.failed" else None


def _substance(held: bytes) -> Mapping[str, Any] | None:
    """The first event that is more than an announcement; `None` if it has not come yet, or cannot be read."""
    held = held.replace(b"\r\n", b"\n")
    whole = held[: held.rfind(b"\n\n") + 2]
    announced = ("response.created", "response.queued", "response.in_progress")
    return next((e for e in events_of(whole) if e.get("type") not in announced), None)


async def _read(
    response: aiohttp.ClientResponse,
    most: int | None,
    until: Callable[[bytes], bool] | None = None,
) -> bytes:
    """A response up to where it breaks off, to a limit or to the awaited event; the remainder can still be relayed."""
    held = bytearray()
    with contextlib.suppress(*BROKEN):
        async for piece in response.content.iter_any():
            held += piece
            if most is not None and len(held) >= most:
                break
            if until is not None and until(bytes(held)):
                break
    return bytes(held)
