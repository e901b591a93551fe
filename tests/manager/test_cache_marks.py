"""Request bodies carry cache marks, by which a provider reads nearly all of each prompt from its cache."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.manager.test_context_providers import items_of
from tests.oracle.server import OracleServer
from ullage import ContextManager, validate
from ullage.levels.view import StageReport
from ullage.manager.request_writer import MOST_MARKS, CacheMarks
from ullage.testing import conversation, scenario

MARK = {"type": "ephemeral"}
SYSTEM = "You are careful. " * 400


def marks_of(body: Any) -> list[str]:
    """Where marks stand, as paths."""
    found: list[str] = []

    def look(value: Any, at: str) -> None:
        if isinstance(value, dict):
            if "cache_control" in value or "cachePoint" in value:
                found.append(at)
            for key, part in value.items():
                look(part, f"{at}.{key}")
        elif isinstance(value, list):
            for number, part in enumerate(value):
                look(part, f"{at}.{number}")

    look(body, "")
    return found


def bare(value: Any) -> Any:
    """Without marks; a text that a mark made a block is a text again where `value` has no other block."""
    if isinstance(value, dict):
        return {key: bare(part) for key, part in value.items() if key != "cache_control"}
    if isinstance(value, list):
        return [bare(part) for part in value if part != {"cachePoint": {"type": "default"}}]
    return value


def filled(provider: str | None, model: str, **given: Any) -> ContextManager:
    manager = ContextManager(model=model, provider=provider, system=SYSTEM, **given)
    for item in items_of(conversation(3, tokens=9_000, ending="loop"), provider or "anthropic"):
        manager.add(item)
    return manager


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_nine_tenths_of_the_prompts_of_a_long_loop_are_read_from_the_cache():
    anthropic = pytest.importorskip("anthropic")
    made = scenario(5, tokens=260_000, model="claude-opus-4-5")
    asked = [at for at, each in enumerate(made.messages) if each["role"] == "user"][:200]
    manager = ContextManager(
        model=made.model, system=made.system, tools=made.tools, context_window=100_000
    )
    acted: list[StageReport] = []
    prompt = read = 0
    with (
        OracleServer(cache_minimum=4096, enforce=False) as server,
        anthropic.Anthropic(api_key="k", base_url=server.url, max_retries=0) as client,
    ):
        for message in made.messages[: asked[-1] + 1]:
            manager.add(message)
            if message["role"] != "user":
                continue
            request = manager.prepare()
            acted += request.reports
            assert len(marks_of(request.body)) <= MOST_MARKS
            answer = client.messages.create(model=made.model, max_tokens=999, **request.body)
            used = answer.usage
            read += used.cache_read_input_tokens
            prompt += (
                used.input_tokens + used.cache_creation_input_tokens + used.cache_read_input_tokens
            )
        assert len(asked) == 200
        assert server.errors == []
    assert len({report.stage for report in acted}) > 1
    assert read >= 0.9 * prompt, read / prompt


def test_only_the_body_carries_marks_and_what_was_added_stays_as_it_was():
    manager = filled(None, "claude-opus-5-5")
    before = copy.deepcopy(manager.history)
    request = manager.prepare()
    assert not marks_of(request.messages)
    assert not marks_of(request.parts)
    assert marks_of(request.body) == [
        f".messages.{len(request.messages) - 1}.content.{len(request.messages[-1]['content']) - 1}",
        ".system.0",
    ]
    assert bare(request.body)["messages"] == request.messages
    assert request.body["messages"][0] is request.messages[0]
    assert manager.history == before


def test_the_place_where_the_last_request_ended_is_marked_again():
    manager = filled(None, "claude-opus-5-5")
    end = len(manager.prepare().messages) - 1
    manager.add({"role": "assistant", "content": "Done."})
    manager.add({"role": "user", "content": "Go on."})
    places = [at for at in marks_of(manager.prepare().body) if at.startswith(".messages")]
    assert [int(at.split(".")[2]) for at in places] == [end, end + 2]


def test_what_a_level_changed_last_is_marked_until_the_next_change():
    manager = filled(None, "claude-opus-5-5")
    manager.prepare()
    assert manager.compact(keep=0).outcome == "compacted"
    for words in ("Go on.", "And on."):
        manager.add({"role": "user", "content": words})
        request = manager.prepare()
        places = {int(at.split(".")[2]) for at in marks_of(request.body) if ".messages" in at}
        assert 0 in places  # its summary
        manager.add({"role": "assistant", "content": "Done."})


@pytest.mark.parametrize("provider", ["anthropic", "bedrock"])
def test_marked_bodies_are_legal(provider):
    model = {"anthropic": "claude-opus-5-5", "bedrock": "anthropic.claude-opus-4-5-v1:0"}[provider]
    manager = filled(provider, model, tools=scenario(1, turns=1).tools)
    manager.prepare()
    for role, words in (("assistant", "Done."), ("user", "Go on.")):
        manager.add(
            {"role": role, "content": [{"type": "text", "text": words}]}
            if provider == "anthropic"
            else {"role": role, "content": [{"text": words}]}
        )
    body = manager.prepare().body
    assert len(marks_of(body)) == MOST_MARKS
    tools = body["tools"] if provider == "anthropic" else body["toolConfig"]["tools"]
    found = validate(
        body["messages"], provider=provider, model=model, system=body["system"], tools=tools
    )
    assert found.ok, found


def test_a_hosts_own_marks_stay_and_no_others_come_in_front_of_them():
    own = [{"type": "text", "text": SYSTEM, "cache_control": {**MARK, "ttl": "1h"}}]
    manager = ContextManager(model="claude-opus-5-5", system=own)
    for item in conversation(3, tokens=9_000, ending="loop"):
        manager.add(item)
    body = manager.prepare().body
    assert body["system"] == own
    assert len(marks_of(body["messages"])) == 1
    words = [{"type": "text", "text": "Go on.", "cache_control": MARK}]
    manager.add({"role": "assistant", "content": "Done."})
    manager.add({"role": "user", "content": words})
    assert len(marks_of(manager.prepare().body["messages"])) == 1


@pytest.mark.parametrize(
    ("provider", "model", "given"),
    [
        (None, "claude-opus-5-5", {"cache": False}),
        (None, "kimi-k2", {}),
        ("gemini", "gemini-2.5-pro", {}),
        ("bedrock", "anthropic.claude-3-haiku-20240307-v1:0", {}),
        ("openai_chat", "kimi-k2", {}),
    ],
)
def test_nothing_is_marked_where_it_is_not_wanted_or_not_known(provider, model, given):
    body = filled(provider, model, **given).prepare().body
    assert not marks_of(body)
    assert "prompt_cache_key" not in body


def test_a_prompt_too_short_to_be_cached_has_no_mark():
    manager = ContextManager(model="claude-opus-5-5", system="Be brief.")
    manager.add({"role": "user", "content": "hello"})
    assert manager.prepare().body["messages"] == [{"role": "user", "content": "hello"}]


def test_openais_requests_of_one_conversation_have_one_key():
    first, other = (filled("openai_chat", "gpt-5.4") for _ in range(2))
    other.history[0]["content"] = "another"
    before = first.prepare().body["prompt_cache_key"]
    first.add({"role": "user", "content": "Go on."})
    assert first.prepare().body["prompt_cache_key"] == before
    assert other.prepare().body["prompt_cache_key"] != before


def test_a_place_that_repairs_have_left_out_is_marked_at_the_end():
    marks = CacheMarks("anthropic", places=(7,))
    body, _ = marks.on([{"role": "user", "content": "hello"}], {})
    assert [len(message["content"]) for message in body] == [1]
    assert body[0]["content"][0]["cache_control"]
