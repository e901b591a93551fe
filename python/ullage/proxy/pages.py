"""What the page and the metrics show: for each conversation what was sent, what the provider counted, and what left."""

from __future__ import annotations

import hmac
import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field, fields
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Match, Route
from starlette.types import Scope

from ullage.counting.models import ModelTable
from ullage.exceptions import UllageError
from ullage.observe.cache_monitor import CacheUse
from ullage.proxy.client_calls import ClientCall, ClientLines
from ullage.proxy.fitter import FittedCall
from ullage.proxy.proxy_settings import host_name, is_loopback

if TYPE_CHECKING:
    from jinja2 import Template
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily


def _sum(words: str) -> Any:
    return field(default=0, metadata={"words": words})


@dataclass(slots=True, eq=False, repr=False)
class CallTotals:
    """Sums over calls, with the words of their metrics; tokens are the provider's figures."""

    calls: int = _sum("Calls of the known APIs")
    answered: int = _sum("Calls answered here without a model")
    changed: int = _sum("Calls shortened by the levels")
    recovered: int = _sum("Calls sent again after a refusal as too large")
    prompt: int = _sum("Prompt tokens reported by the provider, cached parts included")
    cache_read: int = _sum("Prompt tokens read from the provider's cache")
    cache_write: int = _sum("Prompt tokens written to the provider's cache")
    output: int = _sum("Output tokens reported by the provider")
    predicted_read: int = _sum("Cache reads that were predicted")
    compared_read: int = _sum("Cache reads reported for the calls with a prediction")
    saved_tokens: int = _sum("Tokens not sent, by their bytes")
    # The least that they would have cost.
    saved_nanodollars: int = _sum("Price of these tokens as read from a cache, in nanodollars")


@dataclass(slots=True, eq=False, repr=False)
class ConversationAccount:
    """One conversation."""

    name: str
    provider: str
    model: str = ""  # of the newest call
    totals: CallTotals = field(default_factory=CallTotals)
    fill_tokens: int = 0  # prompt of the newest call, by the provider; 0: unknown
    window_tokens: int = 0
    compacts_at: int = 0  # tokens from which the levels compact; 0: unknown
    title: str = ""  # how the user's first words begin; empty: none were read
    has_tools: bool = False  # whether the title is of a call with tools, not of a side query
    # Prompt of each of the newest calls, and whether a level acted in it.
    fills: deque[tuple[int, bool]] = field(default_factory=lambda: deque(maxlen=60))
    # What levels did, the newest: level, freed tokens by estimate, why.
    acts: deque[tuple[str, int, str]] = field(default_factory=lambda: deque(maxlen=20))
    # Number of each line that levels look at, newest last.
    lines: list[int] = field(default_factory=list)
    used_at: float = 0.0  # time of the newest call, in seconds since the epoch
    cached: dict[int, int] = field(default_factory=dict)  # by line: tokens that lie in the cache

    def share(self, tokens: int) -> int:
        """So many tokens in percent of the window."""
        return 100 * tokens // self.window_tokens if self.window_tokens else 0


class CallAccounts:
    """All conversations of this process."""

    def __init__(self) -> None:
        self.totals = CallTotals()
        self._by_name: OrderedDict[str, ConversationAccount] = OrderedDict()

    def __iter__(self) -> Iterator[ConversationAccount]:
        """The conversations, newest first."""
        return iter(tuple(reversed(self._by_name.values())))

    def __len__(self) -> int:
        return len(self._by_name)

    def note(
        self,
        name: str,
        call: ClientCall,
        *,
        fitted: FittedCall | None = None,
        reported: CacheUse | None = None,
        answered: bool = False,
        recovered: bool = False,
    ) -> None:
        """Note a call that has ended.

        `call`: as the client sent it. `fitted`: what was sent in its place; `None`: it was not looked at. `reported`: what the
        provider counted; `None`: unknown. `answered`: it was answered here. `recovered`: it was sent again after a refusal.
        """
        account = self._account(name, call)
        # The title is from one of the first calls, of the main conversation if it is among them: clients begin a session
        # with side queries, which have no tools.
        if not account.has_tools and account.totals.calls < 5:
            account.has_tools = bool((call.body or {}).get("tools"))
            if account.has_tools or not account.title:
                from ullage.sessions.inspected import first_words  # the client has its answer now

                items = [item for item in call.items or () if isinstance(item, dict)]
                account.title = first_words(items) or account.title
        for totals in (self.totals, account.totals):
            totals.calls += 1
            totals.answered += answered
            totals.recovered += recovered
        if fitted is not None:
            self._note_fitted(account, call, fitted)
        if reported is not None:
            self._note_reported(account, fitted, reported)

    def _account(self, name: str, call: ClientCall) -> ConversationAccount:
        account = self._by_name.setdefault(name, ConversationAccount(name, call.endpoint.provider))
        self._by_name.move_to_end(name)
        while len(self._by_name) > 200:  # as many as the page shows
            self._by_name.popitem(last=False)
        row = ModelTable.builtin().find(call.model)
        account.model, account.used_at = call.model, time.time()
        account.window_tokens = 200_000 if row is None else row.context_window
        return account

    def _note_fitted(
        self, account: ConversationAccount, call: ClientCall, fitted: FittedCall
    ) -> None:
        number = fitted.line.number
        account.compacts_at = fitted.line.manager.window.threshold
        if number not in account.lines:
            account.lines.append(number)
        for report in fitted.reports:
            account.acts.append((report.stage, report.freed, report.why))
        # Nobody counts what was not sent: roughly four bytes are a token.
        saved = max(0, len(call.raw) - len(fitted.raw)) // 4
        row = ModelTable.builtin().find(call.model)
        price = 0 if row is None or row.prices is None else row.prices.cache_read
        for totals in (self.totals, account.totals):
            totals.changed += fitted.raw is not call.raw
            totals.saved_tokens += saved
            # Integers: a day's sums in floats would lose the fractions of a cent that a call saves.
            totals.saved_nanodollars += round(saved * price * 1_000)  # dollars for a million tokens

    def _note_reported(
        self, account: ConversationAccount, fitted: FittedCall | None, reported: CacheUse
    ) -> None:
        account.fill_tokens = reported.prompt
        account.fills.append((reported.prompt, fitted is not None and bool(fitted.reports)))
        before = None
        if fitted is not None:
            number = fitted.line.number
            # A level that acts breaks the cached prefix on purpose, so there is nothing to predict.
            before = None if fitted.reports else account.cached.get(number)
            account.cached[number] = reported.read + reported.written
        for totals in (self.totals, account.totals):
            totals.prompt += reported.prompt
            totals.cache_read += reported.read
            totals.cache_write += reported.written
            totals.output += reported.output
            if before is not None:
                totals.predicted_read += before
                totals.compared_read += reported.read


_HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
"""Nothing is loaded from anywhere, and no other page may show this one."""

Endpoint = Callable[[Request], Awaitable[Response]]


_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
"""All are answered here: these paths never go to the provider."""


@cache
def _page() -> Template:
    """Compiled when it is first shown: most gateways are started for requests alone, and load no library of pages or metrics."""
    from jinja2 import Environment

    page = (Path(__file__).parent / "page.html").read_text(encoding="utf-8")
    return Environment(autoescape=True).from_string(page)


def page_routes(accounts: CallAccounts, lines: ClientLines | None, token: str) -> list[Route]:
    """The routes of the page, the metrics, and what left.

    `lines`: conversations in memory; `None`: levels are off. `token`: see `ProxySettings.page_token`.
    """

    async def show(request: Request) -> Response:
        from ullage.sessions.inspected import age

        token_given = request.query_params.get("token")
        query = urlencode({"token": token_given}) if token_given else ""
        shown = {"accounts": list(accounts), "totals": accounts.totals, "n": "{:,}".format}
        return HTMLResponse(_page().render(shown, age=age, query=query), headers=_HEADERS)

    async def metrics(request: Request) -> Response:
        from prometheus_client import generate_latest

        # Read on demand: Prometheus asks a registry for no more than this.
        registry = SimpleNamespace(collect=partial(_figures, accounts, lines))
        text = generate_latest(registry)
        return Response(text, media_type="text/plain; version=0.0.4")

    async def removed(request: Request) -> Response:
        """What left a line, as a list, or in full by its handle."""
        place = request.path_params
        key, handle = (place["name"], place["number"]), place.get("handle")
        line = next((line for line in lines or () if (line.name, line.number) == key), None)
        if line is None:
            return PlainTextResponse("not in memory; the client's own transcript has it\n", 404)
        recall, status = line.manager.recall, 200
        try:
            text = recall.call({}).text + "\n" if handle is None else recall.get(handle).text
        except UllageError as exc:
            text, status = f"{exc}\n", 404
        return PlainTextResponse(text, status, headers=_HEADERS)

    async def healthy(request: Request) -> Response:
        """A health check; it reveals nothing, so it needs no token."""
        return PlainTextResponse("ok\n")

    async def to_page(request: Request) -> Response:
        query = request.url.query
        return RedirectResponse(f"/ullage?{query}" if query else "/ullage")

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
    return [
        *(Route(path, _guarded(page, token), methods=_METHODS) for path, page in shown.items()),
        _ForBrowsers("/", to_page, methods=["GET"]),
        Route("/health", healthy, methods=["GET"]),
    ]


class _ForBrowsers(Route):
    """Matches only browsers; for API clients the path is the provider's."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match like `Route`, if the client accepts HTML."""
        wanted = scope["type"] == "http" and "text/html" in Headers(scope=scope).get("accept", "")
        return super().matches(scope) if wanted else (Match.NONE, {})


def _guarded(endpoint: Endpoint, token: str) -> Endpoint:
    async def answer(request: Request) -> Response:
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        token_sent = request.query_params.get("token", bearer)
        if not (token and hmac.compare_digest(token_sent.encode(), token.encode())):
            # A caller on this machine uses one of its names: a web page may have another for it.
            places = [host_name(request.headers.get("host", ""))]
            places.append("" if request.client is None else request.client.host)
            if not all(map(is_loopback, places)):
                text = (
                    "for callers on this machine, or with the token that was printed at the start\n"
                )
                return PlainTextResponse(text, 403)
        if request.method not in ("GET", "HEAD"):
            return PlainTextResponse("can only be read\n", 405, headers={"allow": "GET, HEAD"})
        return await endpoint(request)

    return answer


def _figures(
    accounts: CallAccounts, lines: ClientLines | None
) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
    """The sums for Prometheus."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    totals = accounts.totals
    for total in fields(totals):
        words, value = total.metadata["words"], getattr(totals, total.name)
        yield CounterMetricFamily(f"ullage_proxy_{total.name}", words, value=value)
    for name, words, count in (
        ("conversations", "Conversations that are shown", len(accounts)),
        ("lines", "Lines in memory", len(list(lines or ()))),
    ):
        yield GaugeMetricFamily(f"ullage_proxy_{name}", words, value=count)
