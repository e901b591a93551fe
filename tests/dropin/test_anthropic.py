"""`ullage.dropin.anthropic` has the arguments of the client's method and takes what the client takes."""

from __future__ import annotations

import inspect

import pytest

from ullage.dropin.anthropic import count_tokens

TALK = [
    {"role": "user", "content": "What is in the cask?"},
    {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "I will look."},
            {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"path": "cask"}},
        ],
    },
    {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "wine"}],
    },
]
TOOL = {"name": "look", "description": "Look.", "input_schema": {"type": "object"}}
MODEL = "claude-opus-4-5"


def test_each_part_adds_to_the_estimate():
    bare = count_tokens(model=MODEL, messages=TALK).input_tokens
    assert bare > count_tokens(model=MODEL, messages=TALK[:1]).input_tokens > 0
    assert count_tokens(model=MODEL, messages=TALK, system="Be brief.").input_tokens > bare
    blocks = [{"type": "text", "text": "Be brief."}]
    assert count_tokens(model=MODEL, messages=TALK, system=blocks).input_tokens > bare
    assert count_tokens(model=MODEL, messages=TALK, tools=[TOOL]).input_tokens > bare


def test_it_is_a_value_error_where_a_message_is_wrong():
    with pytest.raises(ValueError, match="message 0"):
        count_tokens(model=MODEL, messages=[{"role": "nobody", "content": "x"}])


def test_the_arguments_and_the_result_are_named_as_the_clients():
    anthropic = pytest.importorskip("anthropic")
    theirs = set(inspect.signature(anthropic.resources.Messages.count_tokens).parameters) - {"self"}
    mine = set(inspect.signature(count_tokens).parameters)
    assert {"messages", "model", "system", "tools", "tool_choice", "thinking"} <= mine & theirs
    assert mine <= theirs
    assert "input_tokens" in anthropic.types.MessageTokensCount.model_fields


def test_blocks_of_a_response_may_stand_in_a_message():
    types = pytest.importorskip("anthropic").types
    said = [
        types.TextBlock(type="text", text="I will look."),
        types.ToolUseBlock(type="tool_use", id="toolu_1", name="look", input={"path": "cask"}),
    ]
    talk = [TALK[0], {"role": "assistant", "content": said}, TALK[2]]
    assert count_tokens(model=MODEL, messages=talk) == count_tokens(model=MODEL, messages=TALK)
