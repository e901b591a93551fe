"""What the gateway shows of itself: a page for people, figures for Prometheus, and what left a conversation."""

from __future__ import annotations

import dataclasses
import hmac
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Match, Route
from starlette.types import Scope

from ullage.exceptions import UllageError
from ullage.proxy.accounts import CallAccounts
from ullage.proxy.client_list import ClientLine, ClientLines
from ullage.proxy.proxy_settings import host_name, is_loopback
from ullage.sessions.find import age

_HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
"""Nothing is loaded from anywhere, and no other page may show this one."""

Endpoint = Callable[[Request], Awaitable[Response]]


_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
"""All are answered here: what is asked of these paths is never the provider's."""


def page_routes(accounts: CallAccounts, lines: ClientLines | None, token: str) -> list[Route]:
    """The routes of the page, the metrics, and what left.

    Args:
        accounts: What is shown.
        lines: Conversations in memory; `None`: levels are off.
        token: See `ProxySettings.page_token`.
    """
    page = Environment(autoescape=True).from_string(
        (Path(__file__).parent / "page.html").read_text(encoding="utf-8")
    )
    registry = CollectorRegistry()
    registry.register(_Figures(accounts, lines))

    async def show(request: Request) -> Response:
        token_given = request.query_params.get("token")
        query = urlencode({"token": token_given}) if token_given else ""
        shown = {
            "accounts": list(accounts),
            "totals": accounts.totals,
            "n": "{:,}".format,
            "age": age,
        }
        return HTMLResponse(page.render(shown, query=query), headers=_HEADERS)

    async def metrics(request: Request) -> Response:
        return Response(generate_latest(registry), media_type="text/plain; version=0.0.4")

    async def removed(request: Request) -> Response:
        return _removed(lines, request.path_params)

    async def nothing(request: Request) -> Response:
        return PlainTextResponse("not a page of this gateway\n", 404)

    shown: dict[str, Endpoint] = {
        "/ullage": show,
        "/ullage/": show,
        "/metrics": metrics,
        "/metrics/": metrics,
        "/ullage/{name}/{number:int}": removed,
        "/ullage/{name}/{number:int}/{handle}": removed,
        "/ullage/{rest:path}": nothing,
    }
    pages = [
        Route(path, _guarded(handler, token), methods=_METHODS) for path, handler in shown.items()
    ]
    return [
        *pages,
        _ForBrowsers("/", _to_page, methods=["GET"]),
        Route("/health", _healthy, methods=["GET"]),
    ]


class _ForBrowsers(Route):
    """What a browser opens; to a client of the API the path is the provider's."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """As of `Route`, where a page is asked for."""
        wanted = scope["type"] == "http" and "text/html" in Headers(scope=scope).get("accept", "")
        return super().matches(scope) if wanted else (Match.NONE, {})


async def _to_page(request: Request) -> Response:
    query = request.url.query
    return RedirectResponse(f"/ullage?{query}" if query else "/ullage")


async def _healthy(request: Request) -> Response:
    """For whoever keeps the process running; says nothing of what it holds, so that it needs no token."""
    return PlainTextResponse("ok\n")


def _guarded(endpoint: Endpoint, token: str) -> Endpoint:
    async def answer(request: Request) -> Response:
        if not _may_see(request, token):
            text = "for callers on this machine, or with the token that was printed at the start\n"
            return PlainTextResponse(text, 403)
        if request.method not in ("GET", "HEAD"):
            return PlainTextResponse("can only be read\n", 405, headers={"allow": "GET, HEAD"})
        return await endpoint(request)

    return answer


def _may_see(request: Request, token: str) -> bool:
    """Whether a caller is on this machine, and calls it by a name of it: a page in a browser may have a name of its own for it."""
    bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
    token_sent = request.query_params.get("token", bearer)
    if token and hmac.compare_digest(token_sent.encode(), token.encode()):
        return True
    caller = "" if request.client is None else request.client.host
    return is_loopback(caller) and is_loopback(host_name(request.headers.get("host", "")))


def _removed(lines: ClientLines | None, place: dict[str, Any]) -> Response:
    """What left a line, as a list; or, under its handle, as it was."""
    matching = (line for line in lines or () if (line.name, line.number) == _key(place))
    line = next(matching, None)
    if line is None:
        return PlainTextResponse("not in memory; the client's own transcript has it\n", 404)
    text, status = _recalled(line, place.get("handle"))
    return PlainTextResponse(text, status, headers=_HEADERS)


def _key(place: dict[str, Any]) -> tuple[str, int]:
    return place["name"], place["number"]


def _recalled(line: ClientLine, handle: str | None) -> tuple[str, int]:
    if handle is None:
        return line.manager.recall.call({}).text + "\n", 200
    try:
        return line.manager.recall.get(handle).text, 200
    except UllageError as exc:
        return f"{exc}\n", 404


class _Figures:
    """The sums for Prometheus, read when they are asked for."""

    def __init__(self, accounts: CallAccounts, lines: ClientLines | None) -> None:
        self._accounts, self._lines = accounts, lines

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        for name, value in dataclasses.asdict(self._accounts.totals).items():
            yield CounterMetricFamily(f"ullage_proxy_{name}", _WORDS[name], value=value)
        shown = GaugeMetricFamily(
            "ullage_proxy_conversations", "Conversations that are shown", value=len(self._accounts)
        )
        yield shown
        held = sum(1 for _ in self._lines or ())
        yield GaugeMetricFamily("ullage_proxy_lines", "Lines in memory", value=held)


_WORDS = {
    "calls": "Calls of the known APIs",
    "answered": "Calls answered here without a model",
    "changed": "Calls made smaller by the levels",
    "recovered": "Calls sent again after a refusal as too large",
    "prompt": "Prompt tokens reported by the provider, cached parts included",
    "cache_read": "Prompt tokens read from the provider's cache",
    "cache_write": "Prompt tokens written to the provider's cache",
    "output": "Output tokens reported by the provider",
    "predicted_read": "Cache reads that were predicted",
    "compared_read": "Cache reads reported for the calls with a prediction",
    "saved_tokens": "Tokens not sent, by their bytes",
    "saved_nanodollars": "Price of these tokens as read from a cache, in nanodollars",
}
