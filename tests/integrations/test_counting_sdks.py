"""The remote counter through the official SDKs, against the loopback server."""

from __future__ import annotations

import asyncio

import pytest

from tests.oracle.server import OracleServer
from ullage.requests import RemoteCounter, count_request
from ullage.testing import scenario

anthropic = pytest.importorskip("anthropic")
openai = pytest.importorskip("openai")

MADE = scenario(2, tokens=6_000)


def ask(counter):
    return counter.count(MADE.messages, system=MADE.system, tools=MADE.tools)


def test_anthropic_counts_what_would_be_sent():
    with (
        OracleServer() as server,
        anthropic.Anthropic(base_url=server.url, api_key="test") as client,
    ):
        counter = RemoteCounter(client, model=MADE.model)
        direct = client.messages.count_tokens(
            model=MADE.model, messages=MADE.messages, system=MADE.system, tools=list(MADE.tools)
        )
        found = ask(counter)
    assert (found.tokens, found.source) == (direct.input_tokens, "remote")


def test_anthropic_counts_asynchronously():
    async def main(server):
        async with anthropic.AsyncAnthropic(base_url=server.url, api_key="test") as client:
            counter = RemoteCounter(client, model=MADE.model)
            return await counter.acount(MADE.messages, system=MADE.system, tools=MADE.tools)

    with OracleServer() as server:
        assert asyncio.run(main(server)).source == "remote"


def test_openai_counts_what_would_be_sent():
    with (
        OracleServer() as server,
        openai.OpenAI(base_url=server.openai_url, api_key="test") as client,
    ):
        found = RemoteCounter(client, model="gpt-5").count(MADE.messages, system="Be brief.")
    assert found.source == "remote", found.why
    assert found.tokens > 1_000


def test_a_server_that_is_down_gives_the_estimate():
    with OracleServer() as server:
        url = server.url
    with anthropic.Anthropic(base_url=url, api_key="test") as client:
        found = ask(RemoteCounter(client, model=MADE.model, timeout_seconds=1))
    expected = count_request(MADE.messages, model=MADE.model, system=MADE.system, tools=MADE.tools)
    assert (found.tokens, found.source) == (expected.tokens, "estimate")
    assert found.why.startswith("APIConnectionError")
