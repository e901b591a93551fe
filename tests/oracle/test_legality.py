"""`assert_legal` says what is wrong, and nothing else is wrong."""

from __future__ import annotations

import copy

import pytest

from tests.oracle.legality import assert_legal
from ullage.testing import conversation, scenario

CALL = {"type": "tool_use", "id": "t1", "name": "Read", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "ok"}
LOOP = [
    {"role": "user", "content": "q"},
    {"role": "assistant", "content": [CALL]},
    {"role": "user", "content": [RESULT]},
]


def test_a_legal_request_passes_and_stays_as_it_is():
    messages = conversation(2, tokens=8_000)
    before = copy.deepcopy(messages)
    assert assert_legal("anthropic", messages) is None
    assert messages == before


def test_all_errors_are_listed_with_rule_and_place():
    broken = [*LOOP[:2], {"role": "user", "content": ["x", {**RESULT, "extra": 1}]}]
    with pytest.raises(AssertionError) as caught:
        assert_legal("anthropic", broken)
    text = str(caught.value)
    assert text.startswith("anthropic would refuse this request, 3 errors:")
    assert "A03 at message 2, block 0" in text
    assert "A04 at message 2, block 1" in text
    assert "A07 at message 2, block 1" in text
    assert "A30" not in text


def test_facts_reach_the_rules():
    assert_legal(
        "anthropic", [*LOOP[:1], {"role": "assistant", "content": "{"}], model="claude-sonnet-4-5"
    )
    with pytest.raises(AssertionError, match="A11"):
        assert_legal("anthropic", [*LOOP[:1], {"role": "assistant", "content": "{"}])
    with pytest.raises(AssertionError, match="A20"):
        assert_legal("anthropic", LOOP, temperature=1)
    assert_legal("anthropic", LOOP, temperature=1, version="2023-06-01")
    with pytest.raises(AssertionError, match="prompt is too long"):
        assert_legal("anthropic", [{"role": "user", "content": "long " * 500}], window=100)


def test_seals_bind_to_system_and_tools():
    made = scenario(4, tokens=12_000)
    facts = {"model": made.model, "tools": made.tools, "sealed": True}
    assert_legal("anthropic", made.messages, system=made.system, **facts)
    with pytest.raises(AssertionError, match="A15"):
        assert_legal("anthropic", made.messages, system="another", **facts)


def test_other_providers_have_their_own_form():
    assert_legal("gemini", [{"role": "user", "parts": [{"text": "q"}]}])
    assert_legal("openai_responses", [{"role": "user", "content": "q"}], system="s")
    use = {"toolUse": {"toolUseId": "t", "name": "f", "input": {}}}
    result = {"toolResult": {"toolUseId": "t", "content": [{"text": "x"}]}}
    talk = [
        {"role": "user", "content": [{"text": "q"}]},
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [result]},
    ]
    assert_legal("bedrock", talk, tools=[{"toolSpec": {"name": "f"}}])
    with pytest.raises(AssertionError, match="B03 at the request: The toolConfig field"):
        assert_legal("bedrock", talk)
    with pytest.raises(AssertionError, match="O10"):
        assert_legal("openai_chat", [{"role": "user", "content": "a"}] * 2, strict=True)
