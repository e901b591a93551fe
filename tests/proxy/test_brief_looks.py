"""Which looks at a call run where it arrived, and which in a thread; both find the same."""

from __future__ import annotations

import asyncio

import orjson
import pytest

pytest.importorskip("aiohttp")

from ullage.proxy import fitter as fitter_module
from ullage.proxy.client_calls import ClientCall
from ullage.proxy.fitter import Fitter, LineStates
from ullage.proxy.proxy_settings import ProxySettings
from ullage.proxy.upstream import Incoming, endpoint_of
from ullage.testing import conversation

HEADERS = [(b"x-claude-code-session-id", b"s")]


def call_of(messages):
    raw = orjson.dumps({"model": "claude-opus-4-5", "max_tokens": 9, "messages": messages})
    scope = {"method": "POST", "headers": HEADERS, "path": "/v1/messages"}
    incoming = Incoming(scope, None, ProxySettings())
    return ClientCall(endpoint_of("POST", "/v1/messages", HEADERS), incoming, raw)


def looks(monkeypatch, lists, last_trigger=0):
    """For each list the body to send, and whether a thread was used; `last_trigger`: tokens at which a summary is due at the last."""
    threads = []

    async def counted(function, *args):
        threads.append(function.__name__)
        return function(*args)

    monkeypatch.setattr(fitter_module.asyncio, "to_thread", counted)
    fitter = Fitter(ProxySettings(), LineStates(ProxySettings()))
    found = []
    for messages in lists:
        threads.clear()
        if last_trigger and messages is lists[-1]:
            due = property(lambda _: last_trigger)
            monkeypatch.setattr("ullage.counting.window.Window.threshold", due, raising=False)
        fitted = asyncio.run(fitter.fit(call_of(messages)))
        found.append((fitted.raw, "_fitted" in threads))
    return found


def grown():
    """A session of 120,000 tokens as its client sends it, turn after turn."""
    items = conversation(5, tokens=120_000)
    ends = [at for at in range(1, len(items)) if items[at]["role"] == "assistant"]
    return [items[:end] for end in ends[-8:]]


def test_what_only_grew_a_little_needs_no_thread(monkeypatch):
    lists = grown()
    found = looks(monkeypatch, lists)
    assert [thread for _, thread in found] == [True, *[False] * (len(lists) - 1)]
    monkeypatch.setattr(fitter_module, "_BRIEF_BYTES", -1)
    in_threads = looks(monkeypatch, lists)
    assert all(thread for _, thread in in_threads)
    assert [raw for raw, _ in found] == [raw for raw, _ in in_threads]


def test_what_may_take_long_runs_in_a_thread(monkeypatch):
    *_, last = grown()
    more = {"role": "assistant", "content": "done"}
    large = [*last, more, {"role": "user", "content": "rows of it " * 9_000}]
    many = [*last, *[more, {"role": "user", "content": "go on"}] * 12]
    full = [*last, more, {"role": "user", "content": "go on"}]
    cut = last[:-2]
    for lists in ([last, large], [last, many], [last, cut]):
        assert looks(monkeypatch, lists)[-1][1], len(lists[-1])
    assert not looks(monkeypatch, [last, full])[-1][1]
    assert looks(monkeypatch, [last, full], last_trigger=20_000)[-1][1]
