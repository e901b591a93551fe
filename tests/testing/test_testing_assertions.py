"""`assert_legal` of the wheel says what the library's own rules find, and nothing else."""

from __future__ import annotations

import copy

import pytest

from ullage.testing import assert_legal, conversation

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
    broken = [*LOOP[:2], {"role": "user", "content": [{"type": "text", "text": "x"}]}]
    with pytest.raises(AssertionError) as caught:
        assert_legal("anthropic", [{"role": "user", "content": " "}, *broken])
    text = str(caught.value)
    assert text.startswith("anthropic would refuse this request, 2 errors:")
    assert "A02 at message 0" in text
    assert "A05 at message 2, block 0" in text


def test_model_and_parameters_reach_the_rules():
    prefilled = [*LOOP[:1], {"role": "assistant", "content": "{"}]
    assert_legal("anthropic", prefilled, model="claude-sonnet-4-5")
    with pytest.raises(AssertionError, match="A11"):
        assert_legal("anthropic", prefilled)
    with pytest.raises(AssertionError, match="A20 at the request"):
        assert_legal("anthropic", LOOP, params={"temperature": 1})


def test_other_providers_have_their_own_form():
    assert_legal("gemini", [{"role": "user", "parts": [{"text": "q"}]}])
    assert_legal("openai_responses", [{"role": "user", "content": "q"}], system="s")
    with pytest.raises(AssertionError, match="openai_chat would refuse"):
        assert_legal("openai_chat", [{"role": "tool", "tool_call_id": "x", "content": "y"}])
