"""Every row of `classify` through the official SDKs, and what every plan leaves accepted by the loopback server."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.attack.plans import PADDED, PADDING, PLANS
from tests.attack.talks import TOOLS, form, talk
from tests.oracle.server import OracleServer
from ullage.exceptions import ContextTooLarge
from ullage.legality import Originals
from ullage.legality.incremental import Repairer
from ullage.legality.repairs import repair
from ullage.providers import anthropic as to_anthropic, classify, openai_chat, openai_responses
from ullage.testing import Step
from ullage.testing.generator import sign_thinking
from ullage.testing.script import Failure

anthropic = pytest.importorskip("anthropic")
openai = pytest.importorskip("openai")

DATA = Path(__file__).parent.parent / "providers" / "data" / "provider_errors.json"
ROWS = [row for rows in json.loads(DATA.read_text("utf-8")).values() for row in rows]
ASK = [{"role": "user", "content": "hello"}]
CODES = {"string_above_max_length", "context_length_exceeded"}


def refusal(row: dict[str, Any]) -> Failure:
    return Failure(400, "invalid_request_error", row["text"])


def told_plainly(row: dict[str, Any]) -> tuple[Any, ...]:
    """What the words alone say, with the status that they come with."""
    found = classify({"status": 400, "error": {"message": row["text"]}})
    return found.kind, found.used_tokens, found.limit_tokens, found.gap_tokens


def told(error: Exception) -> tuple[Any, ...]:
    found = classify(error)
    assert found.status == 400
    return found.kind, found.used_tokens, found.limit_tokens, found.gap_tokens


@contextlib.contextmanager
def serving(rows: list[dict[str, Any]]) -> Iterator[OracleServer]:
    steps = [Step("refuse", failure=refusal(row)) for row in rows]
    with OracleServer(*steps) as server:
        yield server


def options(url: str) -> dict[str, Any]:
    return {"base_url": url, "api_key": "k", "max_retries": 0, "timeout": 20}


def test_rows_are_what_classify_knows():
    assert len(ROWS) >= 130
    kinds = {row.get("kind") for row in ROWS}
    assert {"overflow_tokens", "overflow_bytes", "thinking_binding", "tool_pairing"} <= kinds
    for row in ROWS:
        if "kind" in row and row["kind"] != "rate_limit":
            assert told_plainly(row)[0] == row["kind"], row["text"]


@pytest.mark.slow
def test_every_row_through_anthropics_client():
    with serving(ROWS) as server, anthropic.Anthropic(**options(server.url)) as client:
        for row in ROWS:
            with pytest.raises(anthropic.APIStatusError) as caught:
                client.messages.create(model="claude-opus-4-6", max_tokens=9, messages=ASK)
            assert told(caught.value) == told_plainly(row), row["text"]


@pytest.mark.slow
def test_every_row_through_openais_client_chat_and_responses():
    rows = [row for row in ROWS for _ in range(2)]
    with serving(rows) as server, openai.OpenAI(**options(server.openai_url)) as client:
        for row in ROWS:
            with pytest.raises(openai.APIStatusError) as caught:
                client.chat.completions.create(model="gpt-5.2", messages=ASK)
            assert told(caught.value) == told_plainly(row), row["text"]
            with pytest.raises(openai.APIStatusError) as caught:
                client.responses.create(model="gpt-5.2", input="hello")
            assert told(caught.value) == told_plainly(row), row["text"]


@pytest.mark.slow
def test_every_row_through_the_asynchronous_clients():
    async def run(server: OracleServer) -> None:
        async with (
            anthropic.AsyncAnthropic(**options(server.url)) as claude,
            openai.AsyncOpenAI(**options(server.openai_url)) as gpt,
        ):
            for row in ROWS:
                with pytest.raises(anthropic.APIStatusError) as caught:
                    await claude.messages.create(
                        model="claude-opus-4-6", max_tokens=9, messages=ASK
                    )
                assert told(caught.value) == told_plainly(row), row["text"]
                with pytest.raises(openai.APIStatusError) as caught:
                    await gpt.chat.completions.create(model="gpt-5.2", messages=ASK)
                assert told(caught.value) == told_plainly(row), row["text"]

    with serving([row for row in ROWS for _ in range(2)]) as server:
        asyncio.run(run(server))


# ---- what we emit is accepted --------------------------------------------------------------------

MODEL = "claude-opus-5-5"
DEFINED = [{"name": t["name"], "input_schema": {"type": "object"}} for t in TOOLS[:2]]
DEFINED.append({"type": "web_search_20250305", "name": "web_search"})


def left_by(plan: str, seed: int) -> list[Any]:
    """A conversation after a plan, repaired as every request is."""
    rng = random.Random(f"{plan}:{seed}")
    unsigned = form("anthropic", talk(rng), MODEL)
    padded = [*PADDING, *unsigned] if plan in PADDED else unsigned
    items = sign_thinking(padded, model=MODEL, tools=DEFINED)
    try:
        left = PLANS[plan](rng, items, MODEL)
    except ContextTooLarge:  # what must stay does not fit: nothing was sent
        left = items
    done = repair(
        list(left), model=MODEL, tools=DEFINED, original=Originals.of(items, tools=DEFINED)
    )
    assert done.ok
    return list(done.messages)


# The manager signs for tools of its own; the attack looks at its requests.
@pytest.fixture(scope="module")
def sent() -> list[tuple[str, list[Any]]]:
    plans = sorted(PLANS.keys() - {"manager"})
    return [(plan, left_by(plan, seed)) for plan in plans for seed in range(2)]


def wire(messages: list[Any]) -> dict[str, Any]:
    return {**to_anthropic.to_provider(messages).parts, "tools": DEFINED}


@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "stream"])
def test_anthropics_client_sends_what_any_plan_leaves(streamed, sent):
    with OracleServer() as server, anthropic.Anthropic(**options(server.url)) as client:
        for plan, messages in sent[:: 3 if streamed else 1]:
            body = {"model": MODEL, "max_tokens": 8192, **wire(messages)}
            if streamed:
                with client.messages.stream(**body) as stream:
                    answer = stream.get_final_message()
            else:
                answer = client.messages.create(**body)
            assert answer.stop_reason == "end_turn", plan


@pytest.mark.slow
def test_openais_client_sends_what_any_plan_leaves(sent):
    with OracleServer() as server, openai.OpenAI(**options(server.openai_url)) as client:
        for plan, messages in sent:
            chat = openai_chat.to_provider(messages).parts["messages"]
            made = client.chat.completions.create(model="gpt-5.2", messages=chat)
            assert made.choices[0].finish_reason == "stop", plan
            items = openai_responses.to_provider(messages).parts["input"]
            assert client.responses.create(model="gpt-5.2", input=items).status == "completed", plan


def test_the_asynchronous_clients_send_what_any_plan_leaves(sent):
    async def run(server: OracleServer) -> None:
        async with (
            anthropic.AsyncAnthropic(**options(server.url)) as claude,
            openai.AsyncOpenAI(**options(server.openai_url)) as gpt,
        ):
            for plan, messages in sent[::2]:
                answer = await claude.messages.create(
                    model=MODEL, max_tokens=8192, **wire(messages)
                )
                assert answer.stop_reason == "end_turn", plan
                chat = openai_chat.to_provider(messages).parts["messages"]
                made = await gpt.chat.completions.create(model="gpt-5.2", messages=chat)
                assert made.choices[0].finish_reason == "stop", plan

    with OracleServer() as server:
        asyncio.run(run(server))


# ---- the one retry -------------------------------------------------------------------------------


def test_a_binding_error_is_classified_and_the_one_retry_is_accepted():
    """The server says no to thinking after another prefix; without it the request goes through."""
    signed = sign_thinking(
        [
            {"role": "user", "content": "q"},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": ""},
                    {"type": "text", "text": "a"},
                ],
            },
            {"role": "user", "content": "more"},
        ],
        model=MODEL,
    )
    moved = [{"role": "user", "content": "another beginning"}, *signed[1:]]
    repairer = Repairer(model=MODEL)
    with OracleServer() as server, anthropic.Anthropic(**options(server.url)) as client:
        ask = {"model": MODEL, "max_tokens": 64}
        with pytest.raises(anthropic.BadRequestError) as caught:
            client.messages.create(**ask, messages=repairer.repair(moved).messages)
        assert classify(caught.value).kind == "thinking_binding"
        repairer.drop_thinking()
        assert client.messages.create(**ask, messages=repairer.repair(moved).messages).content
        by_hand = repair(moved, model=MODEL, drop_thinking=True)
        assert client.messages.create(**ask, messages=by_hand.messages).content
