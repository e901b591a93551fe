"""The connection to the provider: requests leave and responses return byte for byte."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
from yarl import URL

from ullage.exceptions import InvalidPolicy
from ullage.proxy.endpoints import GatewayError
from ullage.proxy.proxy_settings import ANTHROPIC, OPENAI, ProxySettings

if TYPE_CHECKING:
    from ullage.proxy.endpoints import Endpoint

__all__ = ["Upstream", "end_to_end"]

_HOP_BY_HOP = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding upgrade".split()
)
"""Headers about one connection only (RFC 9110, 7.6.1)."""

_OURS = frozenset((b"host", b"expect"))
"""`Host` names another server upstream; `Expect` was answered when the body was read."""

_ADDED = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
"""What aiohttp would add on its own."""

_HEADER_LINE = 64 * 1024


def end_to_end(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The headers that a gateway passes on, in order; names listed in `Connection` are of the hop too."""
    given = [(name, value) for name, value in headers]
    listed = [value for name, value in given if name.lower() == b"connection"]
    named = {part.strip().lower() for value in listed for part in value.split(b",")}
    dropped = _HOP_BY_HOP | named
    return [(name, value) for name, value in given if name.lower() not in dropped]


class Upstream:
    """A pool of connections to the provider.

    Args:
        settings: For the URL, the certificates and the time limits.

    Raises:
        InvalidPolicy: The certificates cannot be read.
    """

    def __init__(self, settings: ProxySettings) -> None:
        self._settings = settings
        self._verified = _verified(settings.ca_file)
        self._session: aiohttp.ClientSession | None = None

    async def open(self) -> None:
        """Open the pool; in the event loop that will use it."""
        times = aiohttp.ClientTimeout(
            total=None,
            sock_connect=self._settings.connect_seconds,
            sock_read=self._settings.silence_seconds,
        )
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=self._verified),
            timeout=times,
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=_ADDED,
            max_line_size=_HEADER_LINE,
            max_field_size=_HEADER_LINE,
        )

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    def base(self, endpoint: Endpoint) -> str:
        """The base URL for a request."""
        own = ANTHROPIC if endpoint.provider == "anthropic" else OPENAI
        return (self._settings.upstream or own).rstrip("/")

    async def request(
        self,
        endpoint: Endpoint,
        method: str,
        target: str,
        headers: Iterable[tuple[bytes, bytes]],
        body: bytes | AsyncIterator[bytes] | None,
    ) -> aiohttp.ClientResponse:
        """Send a request; returns when the response's headers have arrived.

        Raises:
            GatewayError: The provider cannot be reached, or is silent for too long.
        """
        assert self._session is not None  # noqa: S101 - `open` ran when the server started
        url = URL(self.base(endpoint) + target, encoded=True)
        sent = _headers(headers, body)
        try:
            return await self._session.request(
                method, url, headers=sent, data=body, allow_redirects=False
            )
        except TimeoutError as exc:
            raise GatewayError(504, "timeout_error", f"no answer from {url.host} in time") from exc
        except aiohttp.ClientError as exc:
            # The class says what failed; its text may repeat what was sent.
            text = f"{url.host} cannot be reached ({type(exc).__name__})"
            raise GatewayError(502, "api_error", text) from exc


def _verified(ca_file: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as exc:
        raise InvalidPolicy("ca_file", str(ca_file), f"cannot be read: {exc}") from exc


def _headers(given: Iterable[tuple[bytes, bytes]], body: object) -> list[tuple[str, str]]:
    left_out = _OURS | {b"content-length"} if isinstance(body, bytes) else _OURS
    kept = [pair for pair in end_to_end(given) if pair[0].lower() not in left_out]
    return [(name.decode("ascii"), _text(name, value)) for name, value in kept]


def _text(name: bytes, value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as exc:  # the library that sends it writes UTF-8 only
        text = f"the header {name.decode('ascii')} is not in UTF-8"
        raise GatewayError(400, "invalid_request_error", text) from exc
