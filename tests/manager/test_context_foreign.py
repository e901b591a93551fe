"""What only another provider can read never leaves in a manager's request: it takes the way of `outgoing`."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from ullage import ContextManager, outgoing, validate
from ullage.legality.repairs import repair

MODELS = {
    "anthropic": "claude-opus-4-6",
    "bedrock": "claude-opus-4-6",
    "openai_chat": "gpt-5.4",
    "openai_responses": "gpt-5.4",
    "gemini": "gemini-2.5-pro",
    "mistral": "mistral-large-latest",
}
CARRIED = {"gemini": {"thoughtSignature": "x"}, "nobody": {"a": 1}}
ODD: tuple[dict[str, Any], ...] = (
    {"type": "foreign", "foreign": {"nobody": {"item": {"type": "compaction", "id": "c"}}}},
    {"type": "text", "text": "said", "foreign": {"nobody": {"id": "m1"}}},
    {"type": "thinking", "thinking": "hm", "foreign": {"nobody": {"id": "r1"}}},
)


def odd_talk(blocks: list[dict[str, Any]], nested: bool, call_id: str) -> list[dict[str, Any]]:
    inside: list[dict[str, Any]] = [{"type": "text", "text": "r"}]
    call = {"type": "tool_use", "id": call_id, "name": "ls", "input": {}, "foreign": CARRIED}
    result = {
        "type": "tool_result",
        "tool_use_id": call_id,
        "content": [*inside, {"type": "text", "text": "n", "foreign": CARRIED}]
        if nested
        else inside,
    }
    return [
        {"role": "user", "content": [{"type": "text", "text": "q"}], "foreign": CARRIED},
        {"role": "assistant", "content": [*blocks, call]},
        {"role": "user", "content": [result]},
        {"role": "assistant", "content": blocks or "done"},
        {"role": "user", "content": "go on"},
    ]


talks = st.builds(
    odd_talk,
    st.lists(st.sampled_from(ODD), max_size=3),
    st.booleans(),
    st.sampled_from(("t1", "functions.ls:0", "call 7")),
)


@settings(max_examples=60, deadline=None)
@given(talks, st.sampled_from(sorted(MODELS)))
def test_a_manager_sends_what_outgoing_would(talk: list[Any], provider: str) -> None:
    before = copy.deepcopy(talk)
    manager = ContextManager(model=MODELS[provider], provider=provider)
    for number, message in enumerate(talk):
        manager.add(message)
        if talk[: number + 1][-1]["role"] == "user":
            sent = manager.prepare()
            whole = outgoing(talk[: number + 1], provider=provider, model=MODELS[provider])
            assert sent.messages == whole.messages
            if provider == "anthropic":
                assert sent.losses == whole.losses
                assert '"foreign"' not in json.dumps(sent.body)
                assert validate(sent.messages, model=MODELS[provider]).ok
    assert talk == before


def test_a_talk_that_needs_no_change_is_sent_as_the_same_objects() -> None:
    talk: list[Any] = [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": [{"type": "text", "text": "a"}]},
        {"role": "user", "content": "go on"},
    ]
    manager = ContextManager(model="claude-opus-4-6")
    for message in talk:
        manager.add(message)
    assert all(sent is given for sent, given in zip(manager.prepare().messages, talk, strict=True))


def test_only_what_is_new_is_written_again() -> None:
    manager = ContextManager(model="claude-opus-4-6")
    for message in odd_talk(list(ODD), True, "functions.ls:0"):
        manager.add(message)
    first = manager.prepare().messages
    manager.add({"role": "assistant", "content": "ok"})
    manager.add({"role": "user", "content": "next"})
    request = manager.prepare()
    assert all(new is old for new, old in zip(request.messages, first, strict=False))
    assert request.rewritten_from is None


def test_tools_and_system_of_another_provider_are_left_out_too() -> None:
    tool = {"name": "ls", "input_schema": {"type": "object"}}
    tools = [{**tool, "foreign": CARRIED}, {"foreign": {"gemini": {"googleSearch": {}}}}]
    system = [{"type": "text", "text": "be brief", "foreign": CARRIED}]
    manager = ContextManager(model="claude-opus-4-6", system=system, tools=tools)
    manager.add({"role": "user", "content": "q"})
    body = manager.prepare().body
    assert body["tools"] == [tool]
    assert body["system"] == [{"type": "text", "text": "be brief"}]


@pytest.mark.parametrize("role", ["user", "assistant"])
@pytest.mark.parametrize(
    "kind", ["foreign", "hologram", "function_call", "reasoning", "input_audio"]
)
def test_a_block_that_anthropic_has_no_word_for_is_an_error(role: str, kind: str) -> None:
    block = {"type": kind, "text_": "kept"}
    talk: list[Any] = [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "a"},
        {"role": "user", "content": "b"},
    ]
    at = 1 if role == "assistant" else 2
    talk[at] = {"role": role, "content": [{"type": "text", "text": "x"}, block]}
    report = validate(talk, model="claude-opus-4-6")
    assert [(found.rule, found.message, found.block) for found in report.errors] == [("A03", at, 1)]
    done = repair(talk, model="claude-opus-4-6")
    if role == "assistant" and kind != "foreign":  # it may be newer than we are
        assert done.messages[at]["content"][1] is block
        assert [found.rule for found in done.left] == ["A03"]
    else:
        assert done.ok
        assert ("kept" in json.dumps(done.messages)) == (kind != "foreign")


THOUGHTS = "reasoning reasoning_text reasoning_content summary_text thought".split()
OTHERS = (
    "refusal audio input_audio output_audio function_call function_call_output custom_tool_call "
    "custom_tool_call_output"
).split() + THOUGHTS
raw_blocks = st.builds(
    lambda kind, key, text: {"type": kind, key: text, "id": "x"},
    st.sampled_from(OTHERS),
    st.sampled_from(("text", "refusal", "transcript", "data")),
    st.sampled_from(("said so", "", " ", None, 3)),
)


@settings(max_examples=100, deadline=None)
@given(st.lists(raw_blocks, min_size=1, max_size=4), st.booleans())
def test_raw_blocks_of_another_provider_go_as_text_or_are_a_loss(raw: Any, alone: bool) -> None:
    own = [] if alone else [{"type": "text", "text": "own words"}]
    talk: list[Any] = [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": [*raw, *own]},
        {"role": "user", "content": "go on"},
    ]
    before = copy.deepcopy(talk)
    manager = ContextManager(model="claude-opus-4-6")
    for message in talk:
        manager.add(message)
    sent = manager.prepare()
    assert validate(sent.messages, model="claude-opus-4-6").ok
    assert [loss.what for loss in sent.losses] == [block["type"] for block in raw]
    expected = sum(
        "said so" in block.values() and "data" not in block and block["type"] not in THOUGHTS
        for block in raw
    )
    assert json.dumps(sent.messages).count("said so") == expected
    assert sum(loss.why == "sent as text" for loss in sent.losses) == expected
    whole = outgoing(talk, model="claude-opus-4-6")
    assert (whole.messages, whole.losses, whole.left) == (sent.messages, sent.losses, ())
    assert talk == before


@pytest.mark.parametrize("content", [5, 0.5, True])
@pytest.mark.parametrize("role", ["user", "assistant"])
def test_content_that_is_a_number_is_repaired(role: str, content: Any) -> None:
    manager = ContextManager(model="claude-opus-4-6")
    talk = [{"role": "user", "content": "q"}, {"role": role, "content": content}]
    for message in (*talk, {"role": "user", "content": "go on"}):
        manager.add(message)
    sent = manager.prepare().messages
    assert validate(sent, model="claude-opus-4-6").ok
    assert json.dumps(content) in json.dumps(sent)
