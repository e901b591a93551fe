"""Limits that hold before a request's headers are complete, which uvicorn does not have, and requests that offer another protocol."""

from __future__ import annotations

import asyncio
from http import HTTPStatus

from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ullage.proxy.endpoints import GatewayError, error_body
from ullage.proxy.proxy_settings import ProxySettings

__all__ = ["protocol_of"]


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
