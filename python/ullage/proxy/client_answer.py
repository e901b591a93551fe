"""What goes back to the client."""

from __future__ import annotations

import logging

import aiohttp

from ullage.proxy.endpoints import GatewayError, error_body
from ullage.proxy.incoming import Send
from ullage.proxy.local_answers import LocalAnswer
from ullage.proxy.upstream import end_to_end

__all__ = ["BROKEN", "ClientAnswer"]

BROKEN = (aiohttp.ClientError, TimeoutError, OSError)
"""What a response raises that ends too early."""

_MOST_NOTED = 2 * 1024 * 1024
"""Bytes of an answer that are kept to be read."""

LOG = logging.getLogger("ullage.proxy")


class ClientAnswer:
    """What goes back to the client.

    Attributes:
        begun: Whether anything was sent.
        passed: What was relayed, to be read when it is over; empty if it is too long for that.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self.begun = False
        self.passed = bytearray()

    async def relay(self, response: aiohttp.ClientResponse, held: bytes = b"") -> None:
        """Pass a response on as it arrives; the sender waits for a slow reader.

        A response that breaks off is left incomplete, so that the client sees that it does.

        Args:
            response: Of the upstream.
            held: What was read of it already.
        """
        await self._start(response.status, end_to_end(response.raw_headers))
        try:
            if held:
                await self._body(held, more=True)
                self._note(held)
            async for piece in response.content.iter_any():
                await self._body(piece, more=True)
                self._note(piece)
        except BROKEN as exc:
            LOG.warning("the upstream's response broke off: %s", type(exc).__name__)
            return
        await self._body(b"", more=False)

    def _note(self, piece: bytes) -> None:
        """Streams tell their usage at the beginning and the end; an answer of megabytes is not kept for it."""
        if len(self.passed) + len(piece) <= _MOST_NOTED:
            self.passed += piece

    async def give(self, made: LocalAnswer) -> None:
        """An answer that was written here."""
        await self._start(200, made.headers)
        await self._body(made.body, more=False)

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
