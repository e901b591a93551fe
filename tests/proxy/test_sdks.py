"""The official clients, plain and streamed, get the same with the gateway and without."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("uvicorn")
pytest.importorskip("aiohttp")
pytest.importorskip("starlette")

import anthropic
import openai

from tests.oracle.server import OracleServer
from tests.proxy.kit import Proxy, asks
from tests.proxy.test_levels_through import SMALL, WINDOW, talk

ASKED = [{"role": "user", "content": "Where is the parser?"}]


def _messages(url):
    client = anthropic.Anthropic(base_url=url, api_key="k", max_retries=0)
    asked = {"model": "claude-opus-5-5", "max_tokens": 2000, "messages": ASKED}
    yield client.messages.create(**asked).model_dump()
    with client.messages.stream(**asked) as stream:
        yield [event.type for event in stream]
        yield stream.get_final_message().model_dump()
    yield client.messages.count_tokens(model="claude-opus-5-5", messages=ASKED).model_dump()
    client.close()


def _openai(url):
    client = openai.OpenAI(base_url=url, api_key="k", max_retries=0)
    yield client.chat.completions.create(model="gpt-6", messages=ASKED).model_dump()
    stream = client.chat.completions.create(model="gpt-6", messages=ASKED, stream=True)
    yield [chunk.model_dump() for chunk in stream]
    yield client.responses.create(model="gpt-6", input=ASKED).model_dump()
    with client.responses.stream(model="gpt-6", input=ASKED) as stream:
        yield [event.type for event in stream]
        yield stream.get_final_response().model_dump()
    client.close()


@pytest.mark.parametrize("calls", [_messages, _openai])
def test_the_official_client_sees_no_difference(calls):
    with OracleServer() as server:
        direct = list(calls(server.url if calls is _messages else server.openai_url))
    plain = server.requests
    with OracleServer() as server, Proxy(server.url) as proxy:
        through = list(calls(proxy.url if calls is _messages else proxy.openai_url))
    assert through == direct
    assert [each.body for each in server.requests] == [each.body for each in plain]
    assert [each.path for each in server.requests] == [each.path for each in plain]


@pytest.mark.parametrize("calls", [_messages, _openai])
def test_the_official_client_raises_the_same_error(calls):
    raised = []
    for through in (False, True):
        with OracleServer(after="rate_limit") as server, Proxy(server.url) as proxy:
            base = proxy if through else server
            with pytest.raises((anthropic.RateLimitError, openai.RateLimitError)) as found:
                list(calls(base.url if calls is _messages else base.openai_url))
        raised.append((type(found.value), found.value.body, found.value.status_code))
    assert raised[0] == raised[1]


def _long(form):
    """Requests of a session that outgrows its window, as a client that keeps its whole list makes them."""
    items = talk(form, tokens=40_000)
    counts = asks(items)
    return [items[:count] for count in counts[:: max(1, len(counts) // 10)]] + [items]


def _asked(client, form, items, *, stream):
    if form == "anthropic":
        asked = {"model": SMALL, "max_tokens": 1000, "messages": items}
        if not stream:
            return client.messages.create(**asked).content
        with client.messages.stream(**asked) as events:
            return events.get_final_message().content
    if form == "openai_chat":
        asked = {"model": SMALL, "messages": items}
        if not stream:
            return client.chat.completions.create(**asked).choices
        return [
            each for each in client.chat.completions.create(**asked, stream=True) if each.choices
        ]
    if not stream:
        return client.responses.create(model=SMALL, input=items).output
    with client.responses.stream(model=SMALL, input=items) as events:
        return events.get_final_response().output


@pytest.mark.parametrize("form", ["anthropic", "openai_chat", "openai_responses"])
def test_levels_act_and_no_request_of_an_official_client_is_illegal(form):
    """The server refuses what its own checker finds illegal, and what is larger than the window."""
    with OracleServer(window=WINDOW) as server, Proxy(server.url) as proxy:
        made = anthropic.Anthropic if form == "anthropic" else openai.OpenAI
        url = proxy.url if form == "anthropic" else proxy.openai_url
        with made(base_url=url, api_key="k", max_retries=0) as client:
            for number, items in enumerate(_long(form)):
                assert _asked(client, form, items, stream=number % 2 == 0)
        key = "input" if form == "openai_responses" else "messages"
        sizes = [len(json.loads(each.body)[key]) for each in server.requests]
        assert all(each.status == 200 and not each.rules for each in server.requests)
        last = json.loads(server.requests[-1].body)[key]
    assert len(sizes) == len(_long(form))
    assert len(json.dumps(last)) < len(json.dumps(_long(form)[-1])) * 3 // 4
