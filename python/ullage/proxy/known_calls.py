"""Calls of the known APIs: answered here, changed to fit, repeated once after a refusal, or passed on as they came."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from typing import Any

import aiohttp
import orjson

from ullage.providers import classify
from ullage.proxy.accounts import CallAccounts
from ullage.proxy.client_calls import ClientCall
from ullage.proxy.client_list import AskedCompaction, name_of
from ullage.proxy.compaction_answers import (
    BROKEN,
    ClientAnswer,
    ClientCompactions,
    HandedOut,
    completed,
)
from ullage.proxy.fitter import FittedCall, Fitter, LineStates, gateway_policy
from ullage.proxy.proxy_settings import ProxySettings
from ullage.proxy.upstream import Upstream, decoded, events_of, message_in, tokens_in

LOG = logging.getLogger("ullage.proxy")

_REFUSED = (400, 413)
"""Statuses of a request that is too large."""

_ANNOUNCED = ("response.created", "response.queued", "response.in_progress")

_LONGEST_ERROR = 256 * 1024
"""Bytes; a longer answer is no error of an API."""


class KnownCalls:
    """Answers calls of the known APIs.

    Args:
        settings: Of the gateway.
        upstream: Where calls go.

    Attributes:
        fitter: Runs the levels; `None`: they are off.
        accounts: What the page shows.
        states: Where lines are kept over a restart.
    """

    def __init__(self, settings: ProxySettings, upstream: Upstream) -> None:
        self._upstream, self.accounts = upstream, CallAccounts()
        self._compactions = ClientCompactions(
            settings.compaction, HandedOut(settings.store), hand_over=settings.hand_over
        )
        days, most = settings.state_days, settings.state_bytes
        store = settings.store if settings.keep_text else None
        self.states = LineStates(store, days=days, most_bytes=most, swept=settings.store)
        policy = gateway_policy(settings.policy)
        self.fitter = Fitter(policy, self.states, settings.record) if settings.levels else None

    async def answer(self, call: ClientCall, answer: ClientAnswer) -> None:
        """Answer one call."""
        call = await self._compactions.with_opened_items(call)
        local = await self._compactions.answer(call)
        if local is not None:
            await answer.give(local)
            self.accounts.note(name_of(call), call, answered=True)
            return
        to_complete = self._compactions.to_complete(call)
        if to_complete is not None:
            await self._complete(to_complete, call, answer)
        elif self.fitter is None:
            with contextlib.closing(await self._send(call, call.raw)) as response:
                await answer.relay(response)
                self._account(call, response, answer)
        else:
            await self._fit(self.fitter, call, answer)

    async def _send(self, call: ClientCall, raw: bytes) -> aiohttp.ClientResponse:
        incoming = call.incoming
        return await self._upstream.request(
            call.endpoint, incoming.method, incoming.target, incoming.headers, raw
        )

    # ---- made to fit -------------------------------------------------------------------------

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
            # Once only: a call that is refused twice is refused for what it holds, and the client sees the provider's words.
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
        """Note a call that is over. What it says of itself is never worth an error."""
        if call.endpoint.kind == "count":
            return
        try:
            kind = response.headers.get("content-type", "")
            plain = decoded(response.headers.get("content-encoding", ""), bytes(answer.passed))
            reported = tokens_in(None if plain is None else message_in(kind, plain))
            name = name_of(call) if fitted is None else fitted.line.name
            self.accounts.note(name, call, fitted=fitted, reported=reported, recovered=recovered)
        except Exception:
            LOG.exception("a call was not accounted for")

    # ---- completed ---------------------------------------------------------------------------

    async def _complete(
        self, asked: AskedCompaction, call: ClientCall, answer: ClientAnswer
    ) -> None:
        """Wait for a summary as a whole, and pass it on with what it lost; an error, or one that breaks off, as it came."""
        with contextlib.closing(await self._send(call, call.raw)) as response:
            if response.status != 200:
                await answer.relay(response)
                return
            data = await _read(response, None)
            kind = response.headers.get("content-type", "")
            packed = response.headers.get("content-encoding", "")
            local = await asyncio.to_thread(
                completed, asked, kind, packed, data, stream=call.streams
            )
            if local is None:
                await answer.relay(response, data)
            else:
                await answer.give(local)


async def _smaller(
    fitter: Fitter, call: ClientCall, fitted: FittedCall | None, error: object
) -> FittedCall | None:
    """A refused call, made smaller; `None`: it was refused for another reason, or nothing helps."""
    refusal = classify(error, provider=call.endpoint.provider)
    if not (refusal.is_overflow or refusal.kind == "output_budget"):
        return None
    fitted = fitted or await fitter.fit(call)
    return None if fitted is None else await fitter.recovered(fitted, call, error)


async def _refusal(
    call: ClientCall, response: aiohttp.ClientResponse, *, due: bool
) -> tuple[bytes, object]:
    """What was read of a response to see whether it is a refusal, and the refusal; `None`: it is none.

    A stream of the Responses API says so in its first event of substance: of a large call these few events are waited for.
    """
    if response.status in _REFUSED:
        held = await _read(response, _LONGEST_ERROR)
        plain = decoded(response.headers.get("content-encoding", ""), held)
        return held, None if plain is None else (response.status, _error_of(plain))
    if not (due and call.endpoint.kind == "responses" and call.streams):
        return b"", None
    held = await _read(response, _LONGEST_ERROR, until=lambda held: _substance(held) is not None)
    first = _substance(held)
    return held, first if first is not None and first.get("type") == "response.failed" else None


def _substance(held: bytes) -> Mapping[str, Any] | None:
    """The first event that is more than an announcement; `None`: it has not come yet, or cannot be read."""
    whole = held[: held.rfind(b"\n\n") + 2]
    return next((e for e in events_of(whole) if e.get("type") not in _ANNOUNCED), None)


async def _read(
    response: aiohttp.ClientResponse,
    most: int | None,
    until: Callable[[bytes], bool] | None = None,
) -> bytes:
    """What a response holds, up to where it breaks off, to a limit or to what is waited for; the rest can still be relayed."""
    held = bytearray()
    with contextlib.suppress(*BROKEN):
        async for piece in response.content.iter_any():
            held += piece
            if most is not None and len(held) >= most:
                break
            if until is not None and until(bytes(held)):
                break
    return bytes(held)


def _error_of(plain: bytes) -> Any:
    """An error as an object, or as text."""
    try:
        return orjson.loads(plain)
    except orjson.JSONDecodeError:
        return plain.decode("utf-8", "replace")
