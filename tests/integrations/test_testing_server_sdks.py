"""The official SDKs, unmodified, against the loopback server."""

from __future__ import annotations

import asyncio

import pytest

from tests.oracle.server import OracleServer
from ullage.manager import ContextManager
from ullage.policy import Policy
from ullage.providers.errors import classify
from ullage.testing import Step, scenario

anthropic = pytest.importorskip("anthropic")
openai = pytest.importorskip("openai")

MADE = scenario(1, tokens=12_000)
REQUEST = {
    "model": MADE.model,
    "max_tokens": 4096,
    "system": MADE.system,
    "tools": list(MADE.tools),
    "messages": MADE.messages,
}
ASK = [{"role": "user", "content": "hello"}]


def claude(server, **options):
    options = {"max_retries": 0, "timeout": 10, **options}
    return anthropic.Anthropic(base_url=server.url, api_key="test", **options)


def gpt(server, **options):
    options = {"max_retries": 0, "timeout": 10, **options}
    return openai.OpenAI(base_url=server.openai_url, api_key="test", **options)


def ask(client, streamed):
    if not streamed:
        return client.messages.create(**REQUEST)
    with client.messages.stream(**REQUEST) as stream:
        return stream.get_final_message()


def as_params(message):
    content = [block.model_dump(exclude_none=True) for block in message.content]
    return {"role": "assistant", "content": content}


def test_clearing_by_the_provider_is_asked_for_and_read_back():
    policy = Policy.buffered().change(
        {
            "micro.by_provider": True,
            "micro.provider_trigger_tokens": 5_000,
            "micro.provider_clear_tokens": 100,
            "micro.provider_thinking": "all",
        }
    )
    manager = ContextManager(model=MADE.model, policy=policy, system=MADE.system, tools=MADE.tools)
    for message in MADE.messages:
        manager.add(message)
    made = manager.prepare()
    with OracleServer() as server, claude(server) as client:
        answer = client.beta.messages.create(
            **{**REQUEST, "messages": made.messages},
            extra_headers=made.headers,
            **made.params,
        )
    edits = answer.context_management.applied_edits
    assert edits[0].cleared_tool_uses > 0
    manager.observe(answer.model_dump(mode="json"))
    manager.add({"role": "user", "content": "go on"})
    (report,) = [each for each in manager.prepare().reports if each.stage == "provider_clearing"]
    assert len(report.tool_use_ids) == edits[0].cleared_tool_uses
    assert report.freed > 0


def test_a_generated_session_goes_on_with_bound_thinking():
    with OracleServer() as server, claude(server) as client:
        first = client.messages.create(**REQUEST, thinking={"type": "adaptive"})
        assert [block.type for block in first.content] == ["thinking", "text"]
        talk = [*MADE.messages, as_params(first), {"role": "user", "content": "go on"}]
        with client.messages.stream(**{**REQUEST, "messages": talk}) as stream:
            second = stream.get_final_message()
        assert second.stop_reason == "end_turn"
        counted = client.messages.count_tokens(
            model=MADE.model, system=MADE.system, tools=list(MADE.tools), messages=talk
        )
        assert counted.input_tokens > 10_000
        with pytest.raises(anthropic.BadRequestError) as caught:
            client.messages.create(**{**REQUEST, "messages": talk, "system": "other"})
        assert classify(caught.value).kind == "thinking_binding"


@pytest.mark.parametrize(
    ("step", "error", "kind"),
    [
        ("overloaded", "APIStatusError", "overloaded"),
        (Step("rate_limit", retry_after=3), "RateLimitError", "rate_limit"),
        ("server_error", "InternalServerError", None),
        (Step("overflow"), "BadRequestError", "overflow_tokens"),
        (Step("overflow", provider="anthropic_bytes"), "APIStatusError", "overflow_bytes"),
        ("html_413", "APIStatusError", "overflow_bytes"),
        ("auth", "AuthenticationError", "auth"),
        ("drop", "APIConnectionError", None),
    ],
    ids=range(8),
)
@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "stream"])
def test_anthropic_raises_what_we_classify(step, error, kind, streamed):
    with OracleServer(step) as server, claude(server) as client:
        with pytest.raises(getattr(anthropic, error)) as caught:
            ask(client, streamed)
        if kind:
            assert classify(caught.value).kind == kind


@pytest.mark.parametrize(
    ("step", "error", "kind"),
    [
        ("overloaded", "APIStatusError", "overloaded"),
        ("rate_limit", "RateLimitError", "rate_limit"),
        (Step("overflow", provider="openai"), "BadRequestError", "overflow_tokens"),
        (Step("overflow", provider="openai_new"), "BadRequestError", "overflow_tokens"),
        ("drop", "APIConnectionError", None),
    ],
    ids=range(5),
)
def test_openai_raises_what_we_classify(step, error, kind):
    with OracleServer(step, step) as server, gpt(server) as client:
        with pytest.raises(getattr(openai, error)) as caught:
            client.chat.completions.create(model="gpt-5.2", messages=ASK)
        if kind:
            assert classify(caught.value).kind == kind
        with pytest.raises(getattr(openai, error)):
            client.responses.create(model="gpt-5.2", input="hello")


def test_the_sdks_retry_as_they_do_in_earnest():
    with OracleServer(Step("rate_limit", retry_after=0.01), "overloaded") as server:
        with claude(server, max_retries=3) as client:
            assert client.messages.create(**REQUEST).stop_reason == "end_turn"
        assert [seen.status for seen in server.requests] == [429, 529, 200]
        assert len({seen.body for seen in server.requests}) == 1


def test_a_stalled_stream_times_out():
    with OracleServer(Step("stall", seconds=20)) as server, claude(server, timeout=0.3) as client:
        with pytest.raises(Exception, match=r"(?i)time"):
            ask(client, streamed=True)


@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "stream"])
def test_compaction_through_the_beta_client(streamed):
    with OracleServer() as server, claude(server) as client:
        options = {**REQUEST, "compaction": {"type": "summarize"}, "betas": ["compact-2026-09-04"]}
        if streamed:
            with client.beta.messages.stream(**options) as stream:
                answer = stream.get_final_message()
        else:
            answer = client.beta.messages.create(**options)
        assert answer.stop_reason == "compaction"
        assert "9. Optional Next Step" in answer.content[0].content
        after = [as_params(answer), {"role": "user", "content": "go on"}]
        client.beta.messages.create(**{**REQUEST, "messages": after}, betas=["compact-2026-09-04"])


def test_openai_chat_and_its_stream():
    with OracleServer("good", "good", "tool_call", "refusal") as server, gpt(server) as client:
        plain = client.chat.completions.create(model="gpt-5.2", messages=ASK)
        text, last = "", None
        for last in client.chat.completions.create(
            model="gpt-5.2", messages=ASK, stream=True, stream_options={"include_usage": True}
        ):
            text += "".join(choice.delta.content or "" for choice in last.choices)
        assert text == plain.choices[0].message.content
        assert last.usage == plain.usage
        called = client.chat.completions.create(model="gpt-5.2", messages=ASK).choices[0]
        assert called.finish_reason == "tool_calls"
        assert called.message.tool_calls[0].function.name == "Read"
        refused = client.chat.completions.create(model="gpt-5.2", messages=ASK).choices[0]
        assert refused.message.refusal


def test_openai_responses_stream_chain_compact_and_count():
    with OracleServer() as server, gpt(server) as client:
        first = client.responses.create(model="gpt-5.2", input="hello", reasoning={"effort": "low"})
        assert [item.type for item in first.output] == ["reasoning", "message"]
        with client.responses.stream(model="gpt-5.2", input="hello") as stream:
            for _ in stream:
                pass
            final = stream.get_final_response()
        assert final.output_text == first.output_text
        chained = client.responses.create(
            model="gpt-5.2", input="go", previous_response_id=first.id
        )
        assert chained.usage.input_tokens > first.usage.input_tokens
        items = [item.model_dump(exclude_none=True) for item in first.output]
        talk = [{"role": "user", "content": "hello"}, *items]
        made = client.responses.compact(model="gpt-5.2", input=talk)
        assert [item.type for item in made.output] == ["message", "compaction"]
        counted = client.responses.input_tokens.count(model="gpt-5.2", input="x" * 400)
        assert counted.input_tokens == 100


def test_an_overflow_that_a_stream_tells():
    step = Step("overflow", provider="openai_new")
    with OracleServer(step) as server, gpt(server) as client:
        events = list(client.responses.create(model="gpt-5.2", input="hello", stream=True))
        assert events[-1].type == "response.failed"
        assert events[-1].response.error.code == "context_length_exceeded"
        assert classify(events[-1]).kind == "overflow_tokens"


def test_async_clients():
    async def run():
        with OracleServer("good", "overloaded", "good") as server:
            options = {"api_key": "k", "max_retries": 0}
            async with anthropic.AsyncAnthropic(base_url=server.url, **options) as client:
                answer = await client.messages.create(**REQUEST)
                with pytest.raises(anthropic.APIStatusError):
                    await client.messages.create(**REQUEST)
            async with openai.AsyncOpenAI(base_url=server.openai_url, **options) as client:
                chat = await client.chat.completions.create(model="gpt-5.2", messages=ASK)
        return answer.stop_reason, chat.choices[0].finish_reason

    assert asyncio.run(run()) == ("end_turn", "stop")
