"""litellm with Ullage as a callback and around its functions: on a provider of its own, and over HTTP on the scripted server."""

from __future__ import annotations

import asyncio
import copy
import json
import re
import runpy
import warnings
from collections.abc import Iterable
from dataclasses import astuple
from functools import partial
from pathlib import Path
from typing import Any

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    litellm = pytest.importorskip("litellm", reason="`make integrations` installs it")

from tests.frameworks.generated import COUNTS, SMALL, Tally, short_talks, there_and_back
from tests.oracle.legality import assert_legal as assert_legal_by_oracle
from tests.oracle.server import OracleServer
from ullage import outgoing
from ullage.integrations.conversations import NATIVE, HeldConversations
from ullage.integrations.litellm import UllageLogger
from ullage.testing import ScriptedSummarizer, assert_legal

ROOT = Path(__file__).parents[2]
SUMMARY = ScriptedSummarizer()([{"role": "user", "content": "Look everywhere."}]).text
TIGHT: Any = {"context_window": 6_000, "max_output_tokens": 500}
LARGE: Any = {"context_window": 200_000}
LOOK = {
    "type": "function",
    "function": {
        "name": "look",
        "description": "Looks at a place.",
        "parameters": {"type": "object", "properties": {"place": {"type": "string"}}},
    },
}

pytestmark = pytest.mark.filterwarnings("ignore")


def plain(message: Any) -> dict[str, Any]:
    return message if isinstance(message, dict) else message.model_dump(exclude_none=True)


def size(messages: list[Any]) -> int:
    return sum(len(json.dumps(plain(message))) for message in messages)


class Script(litellm.CustomLLM):
    """Calls `look` twice at once in each of its first answers; refuses what is larger than its window."""

    def __init__(self, rounds: int = 12, window_chars: int = 10**9) -> None:
        super().__init__()
        self.rounds, self.window_chars = rounds, window_chars
        self.sent: list[Any] = []

    def completion(self, *args: Any, **more: Any) -> Any:
        messages = copy.deepcopy(more["messages"])
        if str(plain(messages[-1])["content"]).startswith("<"):
            return self._said({"role": "assistant", "content": SUMMARY}, "stop")
        self.sent.append(messages)
        assert_legal("openai_chat", [plain(each) for each in messages])
        assert_legal_by_oracle("openai_chat", [plain(each) for each in messages])
        if size(messages) > self.window_chars:
            raise litellm.ContextWindowExceededError("too long", "one", "scripted")
        number = sum(size(sent) <= self.window_chars for sent in self.sent)
        if number > self.rounds:
            return self._said({"role": "assistant", "content": "All looked at."}, "stop")
        calls = [
            {
                "id": f"c{number}-{at}",
                "type": "function",
                "function": {"name": "look", "arguments": json.dumps({"place": f"{number}-{at}"})},
            }
            for at in range(2)
        ]
        said = {"role": "assistant", "content": None, "tool_calls": calls}
        return self._said(said, "tool_calls")

    async def acompletion(self, *args: Any, **more: Any) -> Any:
        return self.completion(*args, **more)

    def _said(self, message: dict[str, Any], reason: str) -> Any:
        choice = {"index": 0, "message": message, "finish_reason": reason}
        return litellm.ModelResponse(choices=[choice], model="one")

    @property
    def tries(self) -> str:
        """Each request: `.` for one that was answered, `x` for one that was refused."""
        return "".join("x" if size(sent) > self.window_chars else "." for sent in self.sent)


@pytest.fixture(autouse=True)
def _its_own_callbacks(monkeypatch):
    """litellm copies `litellm.callbacks` into lists of its own, from which nothing takes them out again."""
    monkeypatch.setattr(litellm, "input_callback", [])


@pytest.fixture
def plugged(monkeypatch):
    def plug(script: Script, *callbacks: UllageLogger) -> None:
        provider = {"provider": "scripted", "custom_handler": script}
        monkeypatch.setattr(litellm, "custom_provider_map", [provider])
        monkeypatch.setattr(litellm, "callbacks", list(callbacks))

    return plug


async def looked(ask: Any) -> tuple[str, list[Any]]:
    """A loop over tools as a user of litellm writes it, with the objects of litellm's responses in the list."""
    messages: list[Any] = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Look everywhere."},
    ]
    while True:
        answer = (await ask(messages)).choices[0].message
        if not answer.tool_calls:
            return answer.content, messages
        messages.append(answer)
        for number, call in enumerate(answer.tool_calls):
            text = f"{call.id}: " + "row of the table\n" * 120
            if len(messages) == 6 and number:
                text = "Error: nothing there"
            messages.append({"role": "tool", "tool_call_id": call.id, "content": text})


async def by_callback(messages: list[Any]) -> Any:
    return await litellm.acompletion(model="scripted/one", messages=messages, tools=[LOOK])


# ---- as a callback -----------------------------------------------------------------------------


def test_requests_fit_and_the_callers_list_stays_whole(plugged):
    script = Script()
    plugged(script, UllageLogger(**TIGHT))
    said, messages = asyncio.run(looked(by_callback))
    assert said == "All looked at."
    assert max(map(size, script.sent)) < 30_000
    assert size(messages) > 45_000


def test_a_refusal_makes_the_same_messages_smaller_when_they_come_again(plugged):
    script = Script(window_chars=20_000)
    plugged(script, UllageLogger(**LARGE))

    async def twice(messages: list[Any]) -> Any:
        try:
            return await by_callback(messages)
        except litellm.ContextWindowExceededError:
            return await by_callback(messages)

    said, _ = asyncio.run(looked(twice))
    assert said == "All looked at."
    assert "x" in script.tries
    assert "xx" not in script.tries


def test_a_router_that_falls_back_to_the_same_model_recovers(plugged):
    script = Script(window_chars=20_000)
    plugged(script, UllageLogger(**LARGE))
    models = [{"model_name": n, "litellm_params": {"model": "scripted/one"}} for n in ("a", "b")]
    router = litellm.Router(models, context_window_fallbacks=[{"a": ["b"]}], num_retries=0)

    async def ask(messages: list[Any]) -> Any:
        return await router.acompletion(model="a", messages=messages, tools=[LOOK])

    said, _ = asyncio.run(looked(ask))
    assert said == "All looked at."
    assert "x" in script.tries
    assert "xx" not in script.tries


def test_a_deployment_can_state_its_window(plugged):
    script = Script()
    plugged(script, UllageLogger())
    about = {"max_input_tokens": 6_000, "max_output_tokens": 500}
    deployment = {"model_name": "a", "litellm_params": {"model": "scripted/one"}}
    router = litellm.Router([{**deployment, "model_info": about}])

    async def ask(messages: list[Any]) -> Any:
        return await router.acompletion(model="a", messages=messages, tools=[LOOK])

    asyncio.run(looked(ask))
    assert max(map(size, script.sent)) < 30_000


def test_other_errors_make_no_room(plugged):
    class Down(Script):
        async def acompletion(self, *args: Any, **more: Any) -> Any:
            self.sent.append(copy.deepcopy(more["messages"]))
            raise litellm.InternalServerError("down", "scripted", "one")

    script = Down()
    logger = UllageLogger(**LARGE)
    plugged(script, logger)
    given = [{"role": "user", "content": "Look."}]

    async def often() -> None:
        for ask in (litellm.acompletion, litellm.acompletion, logger.around(litellm.acompletion)):
            with pytest.raises(litellm.InternalServerError):
                await ask(model="scripted/one", messages=given)

    asyncio.run(often())
    assert script.sent == [given] * 3


def test_the_model_in_use_writes_the_summary(plugged):
    script = Script(20)
    plugged(script, UllageLogger(**TIGHT, summarizer="host"))
    asyncio.run(looked(by_callback))
    line = max(SUMMARY.splitlines(), key=len)
    assert any(line in json.dumps([*map(plain, sent)], ensure_ascii=False) for sent in script.sent)


def test_another_process_sends_the_same(plugged):
    script = Script()
    plugged(script, UllageLogger(**TIGHT))
    _, whole = asyncio.run(looked(by_callback))
    stored = json.dumps([plain(each) for each in whole])
    script.sent.clear()
    for _ in range(2):
        plugged(script, UllageLogger(**TIGHT))  # nothing is kept from before
        asyncio.run(by_callback(json.loads(stored)))
    assert script.sent[0] == script.sent[1]


def test_messages_by_position_and_those_that_cannot_be_read_are_reported(plugged, caplog):
    script = Script(0)
    plugged(script, UllageLogger(**TIGHT))
    given = [{"role": "user", "content": "Look."}]
    asyncio.run(litellm.acompletion("scripted/one", given))
    assert script.sent == [given]
    assert "messages= by name" in caplog.text
    odd = {"model": "gpt-5.4", "messages": [{"role": "user", "content": 5}]}
    kind = litellm.types.utils.CallTypes.acompletion
    hook = UllageLogger(**TIGHT).async_pre_call_deployment_hook
    assert asyncio.run(hook(odd, kind)) is None
    assert "cannot be read" in caplog.text


@pytest.mark.parametrize("provider", ["anthropic", "openai_chat", "openai_responses"])
def test_each_kind_of_request_is_made_to_fit(provider):
    call = {
        "anthropic": "anthropic_messages",
        "openai_chat": "acompletion",
        "openai_responses": "aresponses",
    }[provider]
    key = "input" if provider == "openai_responses" else "messages"
    talk = max(short_talks(range(60)), key=size)
    given = outgoing(talk, provider=provider).messages
    before = copy.deepcopy(given)
    request = {"model": "gpt-5.4", key: given}
    kind = litellm.types.utils.CallTypes(call)
    logger = UllageLogger(**SMALL)
    sent = asyncio.run(logger.async_pre_call_deployment_hook(request, kind))
    assert sent is not None
    assert size(sent[key]) < size(given)
    assert_legal(provider, sent[key])
    assert given == before
    kept = {**request, "previous_response_id": "r1"}
    assert asyncio.run(logger.async_pre_call_deployment_hook(kept, kind)) is None


def test_keys_and_sessions_of_the_proxy_are_apart():
    given = [{"role": "user", "content": "Hello."}]
    logger, kind = UllageLogger(**SMALL), litellm.types.utils.CallTypes.acompletion

    def held(**more: Any) -> int:
        asked = {"model": "gpt-5.4", "messages": given, **more}
        asyncio.run(logger.async_pre_call_deployment_hook(asked, kind))
        return len(logger._conversations["openai_chat"]._held)

    one, two = ({"metadata": {"user_api_key_hash": name}} for name in "ab")
    counts = [held(**one), held(**one), held(**two), held(**two, litellm_session_id="s")]
    assert counts == [1, 1, 2, 3]
    assert held(metadata={"user_id": "u"}, litellm_metadata=one["metadata"]) == 3


# ---- around a function -------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["completion", "acompletion"])
@pytest.mark.parametrize("routed", [False, True])
def test_a_refused_call_is_repeated_with_less(plugged, name, routed):
    script = Script(window_chars=20_000)
    logger = UllageLogger(**LARGE)
    plugged(script, logger)  # a callback leaves the call alone
    names = [{"model_name": "scripted/one", "litellm_params": {"model": "scripted/one"}}]
    call = getattr(litellm.Router(names, num_retries=0) if routed else litellm, name)
    made = logger.around(call)

    async def ask(messages: list[Any]) -> Any:
        answer = made("scripted/one", messages, tools=[LOOK])
        return await answer if name == "acompletion" else answer

    said, messages = asyncio.run(looked(ask))
    assert (said, made.__name__) == ("All looked at.", name)
    assert "x" in script.tries
    assert "xx" not in script.tries
    assert size(messages) > 45_000


def test_what_no_room_helps_with_is_raised_in_the_end(plugged):
    script = Script(window_chars=10)
    plugged(script)
    with pytest.raises(litellm.ContextWindowExceededError):
        UllageLogger(**LARGE).around(litellm.completion)(
            model="scripted/one", messages=[{"role": "user", "content": "Look everywhere."}]
        )
    assert len(script.sent) < 5


@pytest.mark.parametrize("name", ["completion", "acompletion"])
def test_the_model_around_which_it_stands_writes_the_summary(plugged, name):
    script = Script(20)
    plugged(script)
    made = UllageLogger(**TIGHT, summarizer="host").around(getattr(litellm, name))

    async def ask(messages: list[Any]) -> Any:
        answer = made(model="scripted/one", messages=messages, tools=[LOOK])
        return await answer if name == "acompletion" else answer

    asyncio.run(looked(ask))
    line = max(SUMMARY.splitlines(), key=len)
    assert any(line in json.dumps([*map(plain, sent)], ensure_ascii=False) for sent in script.sent)


def test_a_mocked_response_comes_back_as_litellm_gives_it():
    completion = UllageLogger().around(litellm.completion)
    given = [{"role": "user", "content": "What is in the cask?"}]
    answer = completion("gpt-4o", given, mock_response="Wine.")
    assert answer.choices[0].message.content == "Wine."
    stream = completion(model="gpt-4o", messages=given, mock_response="Wine.", stream=True)
    assert "".join(piece.choices[0].delta.content or "" for piece in stream) == "Wine."
    with pytest.raises(litellm.RateLimitError):
        completion(model="gpt-4o", messages=given, mock_response="litellm.RateLimitError")


# ---- over HTTP ---------------------------------------------------------------------------------


def talk_of(provider: str) -> list[dict[str, Any]]:
    return outgoing(max(short_talks(range(60)), key=size), provider=provider).messages


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("kind", ["completion", "acompletion", "responses", "aresponses", "anthropic_messages"])  # fmt: skip
def test_a_server_that_refuses_is_sent_less(kind, stream):
    provider, key = {"r": ("openai_responses", "input"), "n": ("anthropic", "messages")}.get(
        kind.removeprefix("a")[0], ("openai_chat", "messages")
    )
    if provider == "anthropic" and stream:
        pytest.importorskip("fastapi", reason="litellm streams this with parts of its proxy")
    made = UllageLogger(**LARGE).around(getattr(litellm, kind))
    given = talk_of(provider)
    with OracleServer(window=4_000) as server:
        base = server.url if provider == "anthropic" else server.openai_url
        model = "anthropic/claude-sonnet-4-5" if provider == "anthropic" else "openai/gpt-5.4"
        more: dict[str, Any] = {"model": model, "api_base": base, "api_key": "k", "max_tokens": 100}
        if provider == "openai_responses":
            del more["max_tokens"]

        async def ask() -> None:
            answer = made(**{key: given}, **more, stream=stream)
            if asyncio.iscoroutine(answer):
                answer = await answer
            if stream and hasattr(answer, "__aiter__") and kind not in ("completion", "responses"):
                assert [piece async for piece in answer]
            elif stream:
                assert list(answer)

        asyncio.run(ask())
        statuses = [recorded.status for recorded in server.requests]
        assert statuses[-1] == 200
        assert set(statuses[:-1]) == {400}
        assert {rule for each in server.requests for rule in each.rules} <= {"O09", "A24"}  # size
        assert not server.errors


@pytest.mark.parametrize("kind", ["acompletion", "responses", "aresponses", "anthropic_messages"])
def test_a_server_is_sent_what_fits(kind, monkeypatch):
    provider, key = {"r": ("openai_responses", "input"), "n": ("anthropic", "messages")}.get(
        kind.removeprefix("a")[0], ("openai_chat", "messages")
    )
    monkeypatch.setattr(litellm, "callbacks", [UllageLogger(**TIGHT)])
    with OracleServer(window=6_000) as server:
        base = server.url if provider == "anthropic" else server.openai_url
        model = "anthropic/claude-sonnet-4-5" if provider == "anthropic" else "openai/gpt-5.4"
        asked = {"model": model, key: talk_of(provider), "api_base": base, "api_key": "k"}

        async def ask() -> None:
            more = {"max_tokens": 100} if provider == "anthropic" else {}
            answer = getattr(litellm, kind)(**asked, **more)
            if asyncio.iscoroutine(answer):
                await answer

        asyncio.run(ask())
        assert [(recorded.status, recorded.rules) for recorded in server.requests] == [(200, ())]


HANDLER = """
from ullage.integrations.litellm import UllageLogger

handler = UllageLogger(context_window=6_000, max_output_tokens=500)
"""
CONFIG = """
model_list:
  - model_name: chat
    litellm_params: {{model: openai/gpt-5.4, api_base: {chat}, api_key: k}}
  - model_name: claude
    litellm_params: {{model: anthropic/claude-sonnet-4-5, api_base: {messages}, api_key: k}}
litellm_settings:
  callbacks: ullage_of_the_proxy.handler
"""


def test_the_proxy_sends_what_fits(tmp_path, monkeypatch):
    pytest.importorskip("backoff", reason="needs litellm[proxy]")
    from litellm.proxy import proxy_server
    from starlette.testclient import TestClient

    monkeypatch.setattr(litellm, "callbacks", [])
    (tmp_path / "ullage_of_the_proxy.py").write_text(HANDLER)
    paths = {
        "/v1/chat/completions": ("openai_chat", "chat", "messages"),
        "/v1/responses": ("openai_responses", "chat", "input"),
        "/v1/messages": ("anthropic", "claude", "messages"),
    }
    with OracleServer(window=6_000) as server:
        config = tmp_path / "config.yaml"
        config.write_text(CONFIG.format(chat=server.openai_url, messages=server.url))
        asyncio.run(proxy_server.initialize(config=str(config)))
        client = TestClient(proxy_server.app)
        for path, (provider, model, key) in paths.items():
            body = {"model": model, key: talk_of(provider), "max_tokens": 100}
            if provider == "openai_responses":
                del body["max_tokens"]
            answer = client.post(path, json=body)
            assert answer.status_code == 200, answer.text
        assert [recorded.status for recorded in server.requests] == [200, 200, 200]
        assert max(len(recorded.body) for recorded in server.requests) < 24_000
        assert not any(recorded.rules for recorded in server.requests)


# ---- messages there and back -------------------------------------------------------------------


def round_trips(seeds: Iterable[int]) -> Tally:
    """A third of them in each form that litellm takes."""
    found, given = Tally(), list(seeds)
    for at, form in enumerate(("openai_chat", "anthropic", "openai_responses")):
        held = HeldConversations[Any](NATIVE, provider=form, **SMALL)
        done = there_and_back(
            given[at::3],
            held,
            "gpt-5.4",
            partial(_native, form),
            partial(assert_legal, form),
        )
        found = Tally(*(a + b for a, b in zip(astuple(found), astuple(done), strict=True)))
    return found


def _native(form: str, talk: list[dict[str, Any]]) -> list[Any]:
    return list(outgoing(talk, provider=form).messages)


@pytest.mark.parametrize("count", COUNTS)
def test_generated_conversations_there_and_back(count):
    round_trips(range(count))


# ---- the page and the example ------------------------------------------------------------------


def test_the_block_of_the_page_runs(monkeypatch):
    monkeypatch.setattr(litellm, "callbacks", [])
    page = (ROOT / "docs" / "integrations.md").read_text(encoding="utf-8")
    section = page.split("## litellm\n")[1].split("\n## ")[0]
    (block,) = re.findall(r"^```python\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    exec(compile(block, "litellm", "exec"), {})


def test_the_example(plugged):
    plugged(Script(0))
    program = runpy.run_path(str(ROOT / "examples" / "frameworks" / "litellm_agent.py"))
    assert program["main"]("scripted/one", "What is in it?") == "All looked at."


def test_a_synchronous_call_that_callbacks_cannot_change_is_named_once(monkeypatch, caplog):
    with OracleServer(window=6_000) as server:
        logger = UllageLogger(**TIGHT)
        monkeypatch.setattr(litellm, "callbacks", [logger])
        asked = {
            "model": "openai/gpt-4o",
            "api_base": server.openai_url,
            "api_key": "k",
            "messages": [{"role": "user", "content": "What is in the cask?"}],
        }
        asyncio.run(litellm.acompletion(**asked))
        logger.around(litellm.completion)(**asked)
        own = "ullage.integrations.litellm"
        assert not [each for each in caplog.records if each.name == own]
        litellm.completion(**asked)
        litellm.completion(**asked)
    texts = [each.getMessage() for each in caplog.records if each.name == own]
    assert len(texts) == 1
    assert "around(litellm.completion)" in texts[0]
