"""The official clients, plain and streamed, get the same with the gateway and without."""

from __future__ import annotations

import pytest

pytest.importorskip("uvicorn")
pytest.importorskip("aiohttp")
pytest.importorskip("starlette")

import anthropic
import openai

from tests.oracle.server import OracleServer
from tests.proxy.kit import Proxy

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
