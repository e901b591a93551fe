"""Other providers: messages of their form in, requests of their form out, every level in between."""

from __future__ import annotations

import copy

import pytest

from tests.kit import result, said, user
from tests.oracle.legality import assert_legal
from ullage import ContextManager
from ullage._engine import core
from ullage.exceptions import InvalidMessage, InvalidPolicy
from ullage.manager.written_form import WrittenForm
from ullage.policy import Policy
from ullage.providers import provider_of
from ullage.providers.incoming import read_response
from ullage.recall.store import MemoryStore
from ullage.testing import conversation

MODELS = {
    "openai_chat": "gpt-5",
    "openai_responses": "gpt-5",
    "gemini": "gemini-2.5-pro",
    "bedrock": "claude-opus-4-5",
    "mistral": "mistral-large-latest",
}
TOOLS = [
    {"name": name, "description": name, "input_schema": {"type": "object", "properties": {}}}
    for name in ("Read", "Bash", "Grep", "Glob", "Edit", "Write")
]


def items_of(messages: list[dict], provider: str) -> list[dict]:
    parts = provider_of(provider).shape.to_provider(messages).parts
    return parts[provider_of(provider).list_key]


def spoken(item: dict) -> bool:
    kind = item.get("type", "message")
    assistant = item.get("role") in ("assistant", "model")
    return assistant or kind in ("function_call", "reasoning", "custom_tool_call")


def legal(request: object, provider: str) -> None:
    about = {name: request.parts[name] for name in ("tools", "toolConfig") if name in request.parts}
    assert_legal(provider, request.messages, model=MODELS[provider], **about)


@pytest.mark.parametrize("provider", MODELS)
def test_what_nothing_touches_goes_out_as_it_came_in(provider):
    items = items_of(conversation(3, tokens=6_000, ending="loop"), provider)
    before = copy.deepcopy(items)
    manager = ContextManager(model=MODELS[provider], provider=provider, cache=False)
    for item in items:
        manager.add(item)
    request = manager.prepare()
    assert request.messages == items == before
    assert request.body[provider_of(provider).list_key] == items
    assert request.rewritten_from is None


@pytest.mark.parametrize("provider", MODELS)
def test_every_request_of_a_long_session_is_legal_and_shares_its_prefix(provider):
    policy = Policy.ladder().change({"auto.start_percent": 12, "micro.min_freed_tokens": 100})
    policy = policy.change({"snip.start_percent": 3, "micro.line_start_percent": 5})
    manager = ContextManager(
        model=MODELS[provider], provider=provider, policy=policy, store=MemoryStore(),
        tools=TOOLS, system="be brief", context_window=128_000,
    )  # fmt: skip
    window = manager.window.context
    items = items_of(conversation(8, tokens=window // 5), provider)
    acted, previous, compacted = set(), [], 0
    for at, item in enumerate(items):
        manager.add(item)
        if spoken(item) or (at + 1 < len(items) and not spoken(items[at + 1])):
            continue
        request = manager.prepare()
        legal(request, provider)
        same = len(previous) if request.rewritten_from is None else request.rewritten_from
        assert request.messages[:same] == previous[:same]
        previous = request.messages
        acted |= {report.stage for report in request.reports}
        compacted += request.compaction is not None and request.compaction.compacted
    assert {"snip", "autocompact"} <= acted
    assert compacted
    assert request.tokens < window // 5


def test_gemini_calls_without_ids_are_distinguished():
    call = {"functionCall": {"name": "ls", "args": {}}}
    answer = {"functionResponse": {"name": "ls", "response": {"output": "a"}}}
    contents = [
        {"role": "user", "parts": [{"text": "list twice"}]},
        {"role": "model", "parts": [call]},
        {"role": "user", "parts": [answer]},
        {"role": "model", "parts": [call, call]},
        {"role": "user", "parts": [answer, answer]},
    ]
    manager = ContextManager(model=MODELS["gemini"], provider="gemini")
    for content in contents:
        manager.add(content)
    blocks = [block for message in manager.history[1:] for block in message["content"]]
    calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
    results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
    assert len(set(calls)) == 3
    assert sorted(results) == sorted(calls)
    assert unsigned(manager.prepare().messages) == contents
    other = ContextManager.restore(manager.save(), manager.history)
    assert unsigned(other.prepare().messages) == contents


def unsigned(contents: list[dict]) -> list[dict]:
    """Without the mark that stands for a signature that the history does not have."""
    return [
        {
            **content,
            "parts": [
                {k: v for k, v in part.items() if k != "thoughtSignature"}
                for part in content["parts"]
            ],
        }
        for content in contents
    ]


RESPONSES = {
    "openai_chat": {
        "id": "r1",
        "choices": [{"message": {"role": "assistant", "content": "done"}}],
        "usage": {"prompt_tokens": 900, "completion_tokens": 20, "total_tokens": 920},
    },
    "mistral": {
        "id": "r1",
        "choices": [{"message": {"role": "assistant", "content": "done"}}],
        "usage": {"prompt_tokens": 900, "completion_tokens": 20},
    },
    "openai_responses": {
        "id": "r1",
        "output": [
            {"type": "reasoning", "id": "rs_1", "summary": []},
            {
                "type": "message",
                "id": "m1",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "done"}],
            },
        ],
        "usage": {"input_tokens": 900, "output_tokens": 20},
    },
    "gemini": {
        "responseId": "r1",
        "candidates": [{"content": {"role": "model", "parts": [{"text": "done"}]}}],
        "usageMetadata": {
            "promptTokenCount": 900,
            "candidatesTokenCount": 15,
            "thoughtsTokenCount": 5,
        },
    },
    "bedrock": {
        "output": {"message": {"role": "assistant", "content": [{"text": "done"}]}},
        "usage": {"inputTokens": 800, "cacheReadInputTokens": 100, "outputTokens": 20},
    },
}


@pytest.mark.parametrize("provider", MODELS)
def test_a_response_is_taken_in_with_its_usage(provider):
    manager = ContextManager(model=MODELS[provider], provider=provider)
    for item in items_of([{"role": "user", "content": "do it"}], provider):
        manager.add(item)
    manager.prepare()
    manager.observe(RESPONSES[provider])
    assert manager.usage().reported
    assert manager.usage().tokens == 920
    assert "done" in str(manager.history[-1]["content"])
    for item in items_of([{"role": "user", "content": "and more"}], provider):
        manager.add(item)
    request = manager.prepare()
    legal(request, provider)
    assert "usage" not in str(request.messages)


def test_an_object_of_an_sdk_is_read_too():
    class Made:
        def model_dump(self, *, exclude_none: bool, by_alias: bool) -> dict:
            assert exclude_none
            assert by_alias
            return RESPONSES["openai_chat"]

    body, items, about = read_response(Made(), provider_of("openai_chat"))
    assert body["id"] == about["id"] == "r1"
    assert items == [{"role": "assistant", "content": "done"}]
    manager = ContextManager(model="claude-opus-4-5")
    manager.add({"role": "user", "content": "do it"})

    class Message:
        def model_dump(self, *, exclude_none: bool, by_alias: bool) -> dict:
            usage = {"input_tokens": 500, "output_tokens": 5}
            return {"id": "m", "role": "assistant", "content": "ok", "usage": usage}

    manager.observe(Message())
    assert manager.usage().tokens == 505
    assert manager.messages[-1] == {"role": "assistant", "content": "ok"}


def test_a_system_prompt_is_no_message_and_an_unknown_provider_is_named():
    manager = ContextManager(model="gpt-5", provider="openai_chat")
    with pytest.raises(InvalidMessage) as caught:
        manager.add({"role": "system", "content": "be brief"})
    assert "system=" in caught.value.hint
    assert manager.history == []
    with pytest.raises(InvalidPolicy):
        ContextManager(model="gpt-5", provider="nobody")
    manager.add({"role": "user", "content": "hi"})
    assert manager.prepare().body["messages"][0]["content"] == "hi"


@pytest.mark.parametrize("provider", MODELS)
def test_an_earlier_result_that_changes_when_the_user_speaks_after_results(provider):
    def round_of(number: int, answer: str = "ok") -> list[dict]:
        call = {"type": "tool_use", "id": f"call{number:05}", "name": "Bash", "input": {}}
        return [said([call]), user([result(call["id"], answer)])]

    form = WrittenForm(provider_of(provider), MODELS[provider], None)
    items = [user("go")]
    ledger = core.Ledger(None, items)
    for number in range(3):
        form.write(items, ledger, TOOLS)
        items = [*items, *round_of(number)]
        ledger.extend(items[-2:])
    form.write(items, ledger, TOOLS)
    items = [*items[:2], round_of(0, "changed")[1], *items[3:], user("and this")]
    ledger.replace(2, items[2])
    ledger.append(items[-1])
    form.write(items, ledger, TOOLS)  # used to go on without end
    assert form.items == form.whole(items, TOOLS).messages
