"""Compaction by the provider: what comes back stays verbatim, and a summary of our own comes after it."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

import orjson
import pytest

from tests.oracle.legality import assert_legal
from tests.oracle.server import OracleServer
from ullage.compaction import Outcome, acompact, compact
from ullage.exceptions import CompactionError
from ullage.facts.sections import OPENING
from ullage.legality.repairs import repair
from ullage.policy import Policy
from ullage.providers import openai_responses
from ullage.summarizers import AnthropicCompaction, OpenAICompaction
from ullage.summarizers.protocol import without_thinking
from ullage.testing import Step, scenario

anthropic = pytest.importorskip("anthropic")
openai = pytest.importorskip("openai")

MADE = scenario(1, tokens=8_000)
FRAME = {"system": MADE.system, "tools": list(MADE.tools)}
KEY = {"api_key": "test", "max_retries": 0}
BETA = "compact-2026-09-04"


@pytest.fixture
def server():
    with OracleServer() as running:
        yield running
        assert running.errors == []


def talk() -> list[Any]:
    last = max(at for at, message in enumerate(MADE.messages) if message["role"] == "user")
    return copy.deepcopy(list(MADE.messages[: last + 1]))


def ask(**more: Any) -> dict[str, Any]:
    return {"model": MADE.model, "max_tokens": 9000, **FRAME, "messages": talk(), **more}


@pytest.fixture
def claude(server):
    with anthropic.Anthropic(base_url=server.url, **KEY) as client:
        yield client


@pytest.fixture
def gpt(server):
    with openai.OpenAI(base_url=server.openai_url, **KEY) as client:
        yield client


# ---- Anthropic -------------------------------------------------------------------------------


def test_the_block_comes_first_and_verbatim(server, claude):
    last = ask(
        thinking={"type": "adaptive"}, stop_sequences=["END"], output_config={"effort": "low"}
    )
    writer = AnthropicCompaction(MADE.model, client=claude, last_request=last)
    items = talk()
    result = compact(items, summarizer=writer, keep=2_000)
    assert result.report.summarizer == f"anthropic-compaction:{MADE.model}"
    asked = server.requests[0]
    assert BETA in asked.betas
    assert asked.json["compaction"] == {"type": "summarize"}
    assert asked.json["system"] == MADE.system
    assert "stop_sequences" not in asked.json
    removed = len(result.report.removed)
    assert asked.json["messages"] == orjson.loads(orjson.dumps(items[:removed]))
    block = result.messages[0]["content"][0]
    assert block["type"] == "compaction"
    assert block["signature"] == block["encrypted_content"]
    assert result.messages[1]["content"].startswith(OPENING)
    assert all(a is b for a, b in zip(result.kept, items[removed:], strict=True))
    assert f"needs_beta:{BETA}" in result.report.warnings


def goes_on(claude: Any, messages: Any) -> Any:
    sent = repair(
        list(messages), model=MADE.model, system=MADE.system, tools=FRAME["tools"]
    ).messages
    assert_legal("anthropic", list(sent), model=MADE.model, betas=[BETA], **FRAME)
    frame = {"model": MADE.model, "max_tokens": 9000, **FRAME}
    return claude.beta.messages.create(messages=list(sent), betas=[BETA], **frame)


def test_the_conversation_goes_on_and_is_compacted_again(server, claude):
    writer = AnthropicCompaction(MADE.model, client=claude)
    first = compact(talk(), summarizer=writer, keep=0)
    goes_on(claude, [*first.messages, {"role": "user", "content": "go on"}])
    later = without_thinking(MADE.messages[: len(MADE.messages) // 2])
    more = [*first.messages, *later]
    second = compact(more, summarizer=writer, keep=0)
    assert server.requests[-1].json["messages"][0]["content"][0]["type"] == "compaction"
    assert second.compacted
    blocks = [b for m in second.messages if isinstance(m["content"], list) for b in m["content"]]
    assert [b["type"] for b in blocks].count("compaction") == 1
    goes_on(claude, [*second.messages, {"role": "user", "content": "go on"}])


def test_another_summarizer_can_read_on(server, claude):
    writer = AnthropicCompaction(MADE.model, client=claude)
    first = compact(talk(), summarizer=writer, keep=0)
    again = compact([*first.messages, *MADE.messages], keep=0)
    users = [
        m["content"] for m in MADE.messages if m["role"] == "user" and isinstance(m["content"], str)
    ]
    assert users[0][:60] in again.summary_messages[-1]["content"]


def test_instructions_replace_the_servers_prompt(server, claude):
    writer = AnthropicCompaction(MADE.model, client=claude)
    compact(talk(), summarizer=writer, keep=0, instructions="mind the zebra")
    told = server.requests[0].json["compaction"]["instructions"]
    assert "mind the zebra" in told
    assert len(told) <= 16_384


def test_asynchronous(server):
    async def run() -> Any:
        async with anthropic.AsyncAnthropic(base_url=server.url, **KEY) as client:
            writer = AnthropicCompaction(MADE.model, async_client=client)
            return await acompact(talk(), summarizer=writer, keep=0)

    result = asyncio.run(run())
    assert result.messages[0]["content"][0]["type"] == "compaction"


@pytest.mark.parametrize("kind", ["auth", "overflow", "cut_stream"])
def test_a_failure_is_named_and_changes_nothing(server, claude, kind):
    server.script.push(Step(kind, times=0))
    items = talk()
    policy = Policy().change({"summary.retries": 0})
    writer = AnthropicCompaction(MADE.model, client=claude)
    with pytest.raises(CompactionError) as caught:
        compact(items, summarizer=writer, keep=0, policy=policy)
    assert caught.value.code == ("prompt_too_long" if kind == "overflow" else "api_error")
    assert items == talk()
    assert len(server.requests) == 1
    automatic = compact(items, summarizer=writer, keep=0, policy=policy, trigger="auto")
    assert (automatic.outcome, automatic.report.summarizer) == (Outcome.COMPACTED, "extractive")


def test_entries_have_no_form_for_it(claude):
    entries = [
        {"type": m["role"], "uuid": f"u{n}", "parentUuid": f"u{n - 1}" if n else None, "message": m}
        for n, m in enumerate(talk())
    ]
    writer = AnthropicCompaction(MADE.model, client=claude)
    with pytest.raises(CompactionError, match="no call mode for this conversation"):
        compact(entries, summarizer=writer, keep=0)


# ---- OpenAI ----------------------------------------------------------------------------------


def test_openai_compacts_and_takes_its_own_items_back(server, gpt):
    items = talk()
    result = compact(items, summarizer=OpenAICompaction("gpt-5.2", client=gpt), keep=2_000)
    assert server.requests[0].path == "/v1/responses/compact"
    assert result.report.summarizer == "openai-compaction:gpt-5.2"
    assert result.summary_messages[-1]["content"].startswith(OPENING)
    sent = openai_responses.to_provider([*result.messages, {"role": "user", "content": "go on"}])
    made = orjson.loads(orjson.dumps(sent.parts["input"]))
    opaque = [item for item in made if item.get("type") == "compaction"]
    assert len(opaque) == 1
    assert opaque[0]["encrypted_content"]
    # The server knows its own item again.
    gpt.responses.create(model="gpt-5.2", store=False, **sent.parts)
    opaque[0]["encrypted_content"] += "x"
    with pytest.raises(openai.BadRequestError):
        gpt.responses.create(model="gpt-5.2", store=False, input=made)


def test_openai_asynchronous(server):
    async def run() -> Any:
        async with openai.AsyncOpenAI(base_url=server.openai_url, **KEY) as client:
            writer = OpenAICompaction("gpt-5.2", async_client=client)
            return await acompact(talk(), summarizer=writer, keep=0)

    assert asyncio.run(run()).compacted


def test_openai_failures_are_named(server, gpt):
    server.script.push(Step("auth", times=0))
    with pytest.raises(CompactionError) as caught:
        compact(talk(), summarizer=OpenAICompaction("gpt-5.2", client=gpt), keep=0)
    assert caught.value.code == "api_error"
