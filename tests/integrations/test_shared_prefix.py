"""The shared prefix, proved against the bytes that the SDKs put on the wire."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import orjson
import pytest

from tests.oracle.server import OracleServer
from ullage import ContextManager
from ullage.compaction import acompact, compact
from ullage.providers import openai_chat, openai_responses
from ullage.summarizers.anthropic import AnthropicSummarizer
from ullage.summarizers.openai import OpenAISummarizer
from ullage.testing import scenario

anthropic = pytest.importorskip("anthropic")
openai = pytest.importorskip("openai")

MADE = scenario(1, tokens=8_000)
KEY = {"api_key": "test", "max_retries": 0}


@pytest.fixture
def server():
    with OracleServer() as running:
        yield running
        assert running.errors == []


def marked(messages: list[Any]) -> list[Any]:
    """With a cache marker on the last block, as hosts send it."""
    *rest, last = messages
    content = last["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
    blocks[-1] = {**blocks[-1], "cache_control": {"type": "ephemeral"}}
    return [*rest, {**last, "content": blocks}]


def ask(messages: list[Any], **more: Any) -> dict[str, Any]:
    system = [{"type": "text", "text": MADE.system, "cache_control": {"type": "ephemeral"}}]
    frame = {"model": MADE.model, "max_tokens": 9000, "system": system, "tools": list(MADE.tools)}
    return {**frame, "messages": marked(messages), **more}


def up_to_user(messages: list[Any]) -> list[Any]:
    """The conversation up to its newest user message: what a main loop sends."""
    last = max(at for at, message in enumerate(messages) if message["role"] == "user")
    return list(messages[: last + 1])


_LIMIT = rb'"max_(?:completion_|output_)?tokens": ?\d+'


def assert_extends(before: bytes, after: bytes, key: str, prompt: str) -> None:
    """`after` is `before` with messages appended, the last of them the prompt, and else the same bytes.

    The limit of the answer is the summary's own: no provider caches by it.
    """
    limit = re.search(_LIMIT, after)
    before = before if limit is None else re.sub(_LIMIT, limit[0], before)
    old, new = orjson.loads(before), orjson.loads(after)
    assert {k: v for k, v in old.items() if k != key} == {k: v for k, v in new.items() if k != key}
    assert new[key][: len(old[key])] == old[key]
    assert prompt in orjson.dumps(new[key][-1]).decode()
    added = new[key][len(old[key]) :]
    end = _end_of_list(before, key, len(old[key]))
    assert after[:end] == before[:end]
    # What follows the list has the same length, whatever order an SDK's helper gives the keys there.
    middle = after[end : len(after) - len(before[end:])]
    assert orjson.loads(b"[" + middle.lstrip(b", ") + b"]") == added
    assert after[end + len(middle) : end + len(middle) + 1] == b"]"


def _end_of_list(body: bytes, key: str, count: int) -> int:
    """Where the bracket stands that closes the list of messages: found by the JSON, not by its notation."""
    start = body.index(b'"%b":' % key.encode()) + len(key) + 3
    at = start
    while (at := body.find(b"]", at)) >= 0:
        try:
            found = orjson.loads(body[start : at + 1])
        except orjson.JSONDecodeError:
            at += 1
            continue
        assert len(found) == count
        return at
    raise AssertionError(f"no list {key}")


PROMPT = "Answer with text only."


@pytest.mark.parametrize("thinking", [None, {"type": "adaptive"}], ids=["", "thinking"])
def test_anthropic(server, thinking):
    more = {"thinking": thinking} if thinking else {}
    talk = up_to_user(MADE.messages)
    last = ask(talk, **more)
    with anthropic.Anthropic(base_url=server.url, **KEY) as client:
        with client.messages.stream(**last) as stream:
            stream.get_final_message()
        writer = AnthropicSummarizer(MADE.model, client=client, last_request=last)
        result = compact(talk, summarizer=writer, keep=0)
    assert result.report.attempts == 1
    before, after = server.requests
    assert_extends(before.body, after.body, "messages", PROMPT)
    # The markers are the main loop's own: what it wrote into the cache is read.
    assert before.body.count(b"cache_control") == after.body.count(b"cache_control") == 2
    same = {k: v for k, v in before.headers.items() if k.startswith("anthropic")}
    assert same == {k: v for k, v in after.headers.items() if k.startswith("anthropic")}


def test_the_cache_is_read(server):
    usage: list[Any] = []

    class Spy(AnthropicSummarizer):
        def summarize(self, request: Any) -> Any:
            reply = super().summarize(request)
            usage.append(reply.usage)
            return reply

    talk = up_to_user(MADE.messages)
    last = ask(talk)
    with anthropic.Anthropic(base_url=server.url, **KEY) as client:
        first = client.messages.create(**last)
        compact(talk, summarizer=Spy(MADE.model, client=client, last_request=last), keep=0)
    written = first.usage.cache_creation_input_tokens
    assert usage[0]["cache_read_input_tokens"] == written > 1_000
    assert usage[0]["input_tokens"] < 2_000  # the prompt alone


def test_what_has_come_since_stands_between(server):
    talk = up_to_user(MADE.messages)
    last = ask(talk)
    newer = [
        *talk,
        {"role": "assistant", "content": [{"type": "text", "text": "Done with that."}]},
        {"role": "user", "content": "One more thing: rename it."},
    ]
    with anthropic.Anthropic(base_url=server.url, **KEY) as client:
        with client.messages.stream(**last) as stream:
            stream.get_final_message()
        writer = AnthropicSummarizer(MADE.model, client=client, last_request=lambda: last)
        compact(newer, summarizer=writer, keep=0)
    before, after = server.requests
    assert_extends(before.body, after.body, "messages", PROMPT)
    assert orjson.loads(after.body)["messages"][-3:-1] == newer[-2:]


def test_the_beta_endpoint_and_its_headers_stay(server):
    talk = up_to_user(MADE.messages)
    last = ask(talk, betas=["context-management-2025-06-27"])
    with anthropic.Anthropic(base_url=server.url, **KEY) as client:
        with client.beta.messages.stream(**last) as stream:
            stream.get_final_message()
        writer = AnthropicSummarizer(MADE.model, client=client, last_request=last)
        compact(talk, summarizer=writer, keep=0)
    before, after = server.requests
    assert before.path == after.path
    assert before.betas == after.betas == ("context-management-2025-06-27",)
    assert_extends(before.body, after.body, "messages", PROMPT)


def test_anthropic_asynchronous(server):
    talk = up_to_user(MADE.messages)
    last = ask(talk)

    async def run() -> None:
        async with anthropic.AsyncAnthropic(base_url=server.url, **KEY) as client:
            async with client.messages.stream(**last) as stream:
                await stream.get_final_message()
            writer = AnthropicSummarizer(MADE.model, async_client=client, last_request=last)
            await acompact(talk, summarizer=writer, keep=0)

    asyncio.run(run())
    before, after = server.requests
    assert_extends(before.body, after.body, "messages", PROMPT)


@pytest.mark.parametrize("own", [True, False], ids=["chat items", "internal items"])
def test_openai_chat(server, own):
    talk = up_to_user(MADE.messages)
    parts = openai_chat.to_provider(talk, system=MADE.system, tools=list(MADE.tools)).parts
    last = {"model": "gpt-5.2", **parts, "max_completion_tokens": 9000, "stream": True}
    with openai.OpenAI(base_url=server.openai_url, **KEY) as client:
        list(client.chat.completions.create(**last))
        writer = OpenAISummarizer("gpt-5.2", client=client, last_request=last)
        compact(parts["messages"] if own else talk, summarizer=writer, keep=0)
    before, after = server.requests
    assert_extends(before.body, after.body, "messages", PROMPT)


def test_openai_responses(server):
    talk = up_to_user(MADE.messages)
    parts = openai_responses.to_provider(talk, system=MADE.system, tools=list(MADE.tools)).parts
    last = {"model": "gpt-5.2", **parts, "store": False, "stream": True}
    with openai.OpenAI(base_url=server.openai_url, **KEY) as client:
        list(client.responses.create(**last))
        writer = OpenAISummarizer("gpt-5.2", api="responses", client=client, last_request=last)
        compact(talk, summarizer=writer, keep=0)
    before, after = server.requests
    assert_extends(before.body, after.body, "input", PROMPT)


# ---- what a manager sent is repeated by default ------------------------------------------------


def test_a_manager_hands_over_its_last_request(server):
    system = [{"type": "text", "text": MADE.system, "cache_control": {"type": "ephemeral"}}]
    with anthropic.Anthropic(base_url=server.url, **KEY) as client:
        writer = AnthropicSummarizer(MADE.model, client=client)
        manager = ContextManager(
            model=MADE.model, system=system, tools=list(MADE.tools), summarizer=writer
        )
        for message in up_to_user(MADE.messages):
            manager.add(message)
        request = manager.prepare()
        client.messages.create(
            model=MADE.model, max_tokens=9000, stream=True, **request.body
        ).close()
        manager.add({"role": "assistant", "content": "I looked at it."})
        assert manager.compact(keep=0).report.attempts == 1
    before, after = (orjson.loads(each.body) for each in server.requests)
    shared = ("model", "system", "tools")
    assert {key: before[key] for key in shared} == {key: after[key] for key in shared}
    assert after["messages"][: len(before["messages"])] == before["messages"]
    assert writer.modes == ("plain",)  # the caller's own is as it was


def test_a_manager_of_chat_completions_does_too(server):
    talk = openai_chat.to_provider(up_to_user(MADE.messages)).parts["messages"]
    with openai.OpenAI(base_url=server.openai_url, **KEY) as client:
        manager = ContextManager(
            model="gpt-5.2",
            provider="openai_chat",
            system=MADE.system,
            summarizer=OpenAISummarizer("gpt-5.2", client=client),
        )
        for message in talk:
            manager.add(message)
        list(client.chat.completions.create(model="gpt-5.2", stream=True, **manager.prepare().body))
        manager.compact(keep=0)
    before, after = (orjson.loads(each.body)["messages"] for each in server.requests)
    assert after[: len(before)] == before


@pytest.mark.parametrize("why", ["another model", "nothing was sent"])
def test_a_manager_has_nothing_to_hand_over(server, why):
    model = "claude-haiku-4-5" if why == "another model" else MADE.model
    with anthropic.Anthropic(base_url=server.url, **KEY) as client:
        writer = AnthropicSummarizer(model, client=client)
        manager = ContextManager(model=MADE.model, system=MADE.system, summarizer=writer)
        for message in up_to_user(MADE.messages):
            manager.add(message)
        if why == "another model":
            manager.prepare()
        manager.compact(keep=0)
    (only,) = server.requests
    assert MADE.system not in only.body.decode()


# ---- when it can't be shared -----------------------------------------------------------------


def modes(server: OracleServer, last: Any, talk: list[Any], **options: Any) -> list[str]:
    with anthropic.Anthropic(base_url=server.url, **KEY) as client:
        writer = AnthropicSummarizer(MADE.model, client=client, last_request=last)
        compact(talk, summarizer=writer, keep=0, **options)
    return ["shared" if MADE.system in r.body.decode() else "plain" for r in server.requests]


def test_another_conversation_is_called_plainly(server):
    talk = up_to_user(MADE.messages)
    other = ask([{"role": "user", "content": "something else"}])
    assert modes(server, other, talk) == ["plain"]


def test_before_the_first_request_it_is_called_plainly(server):
    assert modes(server, lambda: None, up_to_user(MADE.messages)) == ["plain"]


def test_no_text_from_the_shared_call_leads_to_the_plain_one(server):
    server.script.push("empty")
    talk = up_to_user(MADE.messages)
    last = ask(talk)
    with anthropic.Anthropic(base_url=server.url, **KEY) as client:
        writer = AnthropicSummarizer(MADE.model, client=client, last_request=last)
        compact(talk, summarizer=writer, keep=0)
    shared, plain = (orjson.loads(r.body) for r in server.requests)
    assert shared["system"][0]["text"] == MADE.system
    assert plain["system"] != MADE.system
    assert "cache_control" not in orjson.dumps(plain).decode()
    assert "thinking" not in {
        b["type"] for m in plain["messages"] if isinstance(m["content"], list) for b in m["content"]
    }


def test_a_redaction_that_finds_something_keeps_the_prefix_to_itself(server):
    talk = up_to_user(MADE.messages)
    words = next(m["content"] for m in talk if isinstance(m["content"], str))[:12]
    found = modes(server, ask(talk), talk, redact=lambda text: text.replace(words, "[secret]"))
    assert found == ["plain"]
    assert words not in server.requests[0].body.decode()


def test_a_partial_compaction_is_called_plainly(server):
    talk = up_to_user(MADE.messages)
    assert modes(server, ask(talk), talk, direction="up_to", at=len(talk) - 1) == ["plain"]
