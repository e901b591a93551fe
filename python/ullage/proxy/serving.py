"""The listening server."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import gc
import socket
from collections.abc import AsyncIterator, Callable

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount

from ullage.exceptions import InvalidPolicy
from ullage.proxy.gateway import Gateway
from ullage.proxy.pages import page_routes
from ullage.proxy.proxy_settings import ProxySettings
from ullage.proxy.request_heads import protocol_of

__all__ = ["config_of", "make_app", "serve", "url_of"]

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
        await asyncio.to_thread(gateway.known.states.sweep)
        try:
            yield
        finally:
            await gateway.upstream.close()

    fitter = gateway.known.fitter
    lines = None if fitter is None else fitter.lines
    shown = page_routes(gateway.known.accounts, lines, gateway.settings.page_token)
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
