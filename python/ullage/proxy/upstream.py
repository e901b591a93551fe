"""The connection to the provider: requests leave and responses return byte for byte."""

from __future__ import annotations

import asyncio
import ssl
import sys
import zlib
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
)
from typing import Any, Literal

import aiohttp
import orjson
from yarl import URL

from ullage._start import NamedTuple
from ullage.exceptions import InvalidPolicy
from ullage.observe.cache_monitor import CacheUse, reported_use
from ullage.proxy.proxy_settings import ANTHROPIC, OPENAI, ProxySettings

# Which path means which API, and errors in the APIs' own form.


Kind = Literal["messages", "count", "chat", "responses", "compact", "other"]


class Endpoint(NamedTuple):
    """The meaning of a path."""

    kind: Kind  # which call of the API; `other`: relayed unread
    provider: str  # whose API: `anthropic`, `openai_chat`, `openai_responses`


_ENDPOINTS = {
    "/messages": Endpoint("messages", "anthropic"),
    "/messages/count_tokens": Endpoint("count", "anthropic"),
    "/chat/completions": Endpoint("chat", "openai_chat"),
    "/responses": Endpoint("responses", "openai_responses"),
    "/responses/compact": Endpoint("compact", "openai_responses"),
}


def endpoint_of(method: str, path: str, headers: Iterable[tuple[bytes, bytes]]) -> Endpoint:
    """What a request asks for, by the end of its path, since a base URL may add a prefix.

    `headers`: names in lower case; Anthropic's clients send their API's version in one.
    """
    ending = path.rstrip("/")
    anthropic = any(name.startswith(b"anthropic-") for name, _ in headers)
    # OpenAI has messages of its own, below a thread or a stored completion: its key goes to nobody else.
    openai = not anthropic and any(part in path for part in ("/threads/", "/chat/completions/"))
    for suffix in sorted(_ENDPOINTS, key=len, reverse=True):
        if method == "POST" and ending.endswith(suffix) and not (openai and "messages" in suffix):
            return _ENDPOINTS[suffix]
    ours = anthropic or ("/messages" in path and not openai)
    return Endpoint("other", "anthropic" if ours else "openai_chat")


class GatewayError(Exception):
    """An error of the gateway itself, in a form that the clients of both APIs read."""

    def __init__(self, status: int, kind: str, text: str) -> None:
        super().__init__(text)
        self.status, self.kind, self.text = status, kind, text


def error_body(refused: GatewayError) -> bytes:
    """One body with the fields that Anthropic's and OpenAI's clients look for."""
    error = {"type": refused.kind, "message": f"ullage proxy: {refused.text}"}
    return orjson.dumps({"type": "error", "error": {**error, "param": None, "code": None}})


_HOP_BY_HOP = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding upgrade".split()
)
"""Headers about one connection only (RFC 9110, 7.6.1)."""

_OURS = frozenset((b"host", b"expect"))
"""`Host` names another server upstream; `Expect` was answered when the body was read."""

_HEADER_LINE = 64 * 1024


def end_to_end(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The headers that a gateway passes on, in order, without those of the hop, which `Connection` may list too."""
    pairs = [(name, value) for name, value in headers]
    listed = [value for name, value in pairs if name.lower() == b"connection"]
    named = {part.strip().lower() for value in listed for part in value.split(b",")}
    dropped = _HOP_BY_HOP | named
    return [(name, value) for name, value in pairs if name.lower() not in dropped]


class Upstream:
    """A pool of connections to the provider.

    Raises:
        InvalidPolicy: The certificates cannot be read.
    """

    def __init__(self, settings: ProxySettings) -> None:
        self._settings = settings
        # True: aiohttp's own, which it makes when it is imported. Reading the system's certificates takes 40 ms.
        self._verified: ssl.SSLContext | Literal[True] = True
        if settings.ca_file is not None:
            try:
                self._verified = ssl.create_default_context(cafile=settings.ca_file)
            except OSError as exc:
                reason = f"cannot be read: {exc}"
                raise InvalidPolicy("ca_file", str(settings.ca_file), reason) from exc
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
            # What aiohttp would add on its own.
            skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
            max_line_size=_HEADER_LINE,
            max_field_size=_HEADER_LINE,
        )

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

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
        own = ANTHROPIC if endpoint.provider == "anthropic" else OPENAI
        url = URL((self._settings.upstream or own).rstrip("/") + target, encoded=True)
        sent = _headers(headers, body)
        try:
            return await self._session.request(
                method, url, headers=sent, data=body, allow_redirects=False
            )
        except TimeoutError as exc:
            raise GatewayError(504, "timeout_error", f"no answer from {url.host} in time") from exc
        except aiohttp.ClientError as exc:
            # The class says what failed; the text may repeat what was sent.
            text = f"{url.host} cannot be reached ({type(exc).__name__})"
            raise GatewayError(502, "api_error", text) from exc


def _headers(headers: Iterable[tuple[bytes, bytes]], body: object) -> list[tuple[str, str]]:
    left_out = _OURS | {b"content-length"} if isinstance(body, bytes) else _OURS
    passed = []
    for name, value in end_to_end(headers):
        if name.lower() in left_out:
            continue
        try:
            passed.append((name.decode("ascii"), value.decode()))
        except UnicodeDecodeError as exc:  # the library that sends it writes UTF-8 only
            text = f"the header {name.decode('ascii')} is not in UTF-8"
            raise GatewayError(400, "invalid_request_error", text) from exc
    return passed


# A request as it arrives: bounded in size and time, and whether its client is still there.


Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class ClientLeft(Exception):
    """The client closed its connection before its request had arrived."""


class Incoming:
    """One request of a client.

    `target`: path and query exactly as they were sent. `headers`: names in lower case, values as they were sent, in order. `failure`:
    why the remaining body will not come; `None`: it came, or still may.

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
        limit = settings.max_header_bytes
        if sum(len(name) + len(value) for name, value in self.headers) > limit:
            raise GatewayError(431, "invalid_request_error", f"headers are over {limit} bytes")
        length = self.header(b"content-length")
        if length.isdecimal() and int(length) > settings.max_body_bytes:
            raise self._too_large()

    def header(self, name: bytes) -> str:
        """A header's value; empty if it is not there."""
        return next((value.decode("latin-1") for key, value in self.headers if key == name), "")

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
            # The sender has its own errors for this.
            self.failure = exc
            raise

    async def _pieces(self) -> AsyncIterator[bytes]:
        total = 0
        while not self._arrived.is_set():
            try:
                async with asyncio.timeout(self._settings.read_seconds):
                    event = await self._receive()
            except TimeoutError:
                seconds = self._settings.read_seconds
                text = f"the request did not arrive within {seconds:g} s of silence"
                raise GatewayError(408, "invalid_request_error", text) from None
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

    async def body(self) -> bytes:
        """The whole body."""
        return b"".join([piece async for piece in self.chunks()])

    async def left(self) -> None:
        """Wait until the client closes its connection."""
        await self._arrived.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass


# A relayed answer's message and the provider's token counts. Read after it was passed on, never changed.


def events_of(data: bytes) -> Iterator[dict[str, Any]]:
    """The JSON objects of server-sent events, in order; anything else is skipped."""
    for block in data.replace(b"\r\n", b"\n").split(b"\n\n"):
        lines = [line[5:].strip() for line in block.split(b"\n") if line.startswith(b"data:")]
        try:
            event = orjson.loads(b"\n".join(lines)) if lines else None
        except orjson.JSONDecodeError:
            continue
        if isinstance(event, dict):
            yield event


def message_in(headers: Mapping[str, str], body: bytes) -> dict[str, Any] | None:
    """The response object of a whole answer, plain or streamed; `None` if there is none, or it broke off."""
    data = decoded(headers.get("content-encoding", ""), body)
    if data is None:
        return None
    if not headers.get("content-type", "").startswith("text/event-stream"):
        try:
            value = orjson.loads(data)
        except orjson.JSONDecodeError:
            return None
        return value if isinstance(value, dict) else None
    message: dict[str, Any] | None = None
    for event in events_of(data):
        message = _with_event(message, event)
    return message


def _with_event(message: dict[str, Any] | None, event: Mapping[str, Any]) -> dict[str, Any] | None:
    """A response with one more event of its stream; those of Anthropic add up, OpenAI's end with the whole or with the usage."""
    kind, delta = event.get("type"), event.get("delta")
    if kind == "content_block_delta" and message is not None:
        text = delta.get("text") if isinstance(delta, dict) else None
        if message["content"] and isinstance(text, str):
            block = message["content"][-1]
            block["text"] = str(block.get("text") or "") + text
    elif kind == "content_block_start" and message is not None:
        if isinstance(event.get("content_block"), dict):
            message["content"].append(dict(event["content_block"]))
    elif kind == "message_delta" and message is not None and isinstance(delta, dict):
        usage = {**(message.get("usage") or {}), **(event.get("usage") or {})}
        return {**message, **delta, "usage": usage}
    elif kind == "message_start" and isinstance(event.get("message"), dict):
        return {**event["message"], "content": []}
    elif kind in ("response.completed", "response.incomplete"):
        response = event.get("response")
        return response if isinstance(response, dict) else message
    elif event.get("object") == "chat.completion.chunk":
        reported = event.get("usage") or (message or {}).get("usage")
        return {"object": "chat.completion", "model": event.get("model"), "usage": reported}
    return message


def tokens_in(message: Mapping[str, Any] | None) -> CacheUse | None:
    """The usage of a response of either API; `None` if it has none."""
    usage = (message or {}).get("usage")
    return reported_use(usage) if isinstance(usage, Mapping) else None


# Decompresses an answer to read it here; it is passed on compressed as it came.


_MOST_BYTES = 64 * 1024 * 1024
"""Largest answer to decompress."""


def decoded(encoding: str, data: bytes) -> bytes | None:
    """The content of a body, up to where it was cut off; `None` for an unknown compression.

    `encoding`: of the header `Content-Encoding`: one name, or empty.
    """
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return data
    unpack = _UNPACK.get(name)
    try:
        return None if unpack is None else unpack(data)
    except Exception:  # each library has an error of its own for damaged data, and may be missing
        return None


def _deflated(data: bytes) -> bytes:
    return zlib.decompressobj(wbits=47).decompress(data, _MOST_BYTES)


def _brotli(data: bytes) -> bytes:
    import brotli

    return bytes(brotli.Decompressor().process(data, output_buffer_limit=_MOST_BYTES))


def _zstd(data: bytes) -> bytes:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return bytes(zstd.ZstdDecompressor().decompress(data, _MOST_BYTES))


_UNPACK: Mapping[str, Callable[[bytes], bytes]] = {
    "gzip": _deflated,
    "x-gzip": _deflated,
    "deflate": _deflated,
    "br": _brotli,
    "zstd": _zstd,
}
