"""Anthropic: its own conversations pass as they are, others lose what the API refuses."""

from __future__ import annotations

from tests.kit import text, with_old_ids
from ullage.providers.anthropic import from_provider, to_provider


def test_nothing_is_touched_without_need() -> None:
    messages = [
        {"role": "user", "content": "x"},
        {
            "role": "assistant",
            "content": [{"type": "thinking", "thinking": "", "signature": "s"}, text("y")],
        },
        {"role": "user", "content": [{"type": "novelty", "data": 1}]},
        {"role": "system", "content": "mode", "clear_at": "never"},
    ]
    tools = [{"name": "f", "input_schema": {}}]
    shaped = to_provider(messages, system="s", tools=tools)
    assert all(a is b for a, b in zip(shaped.parts["messages"], messages, strict=True))
    assert (shaped.parts["system"], shaped.parts["tools"], shaped.losses) == ("s", tools, ())


def test_keys_of_a_response_are_left_out_and_content_is_shared() -> None:
    content = [text("y")]
    message = {"role": "assistant", "content": content, "id": "msg_1", "usage": {"input_tokens": 1}}
    sent = to_provider([message]).parts["messages"][0]
    assert sent == {"role": "assistant", "content": content}
    assert sent["content"] is content


def test_leading_system_messages_join_the_prompt() -> None:
    messages = [
        {"role": "system", "content": "a"},
        {"role": "developer", "content": [text("b")]},
        {"role": "user", "content": "x"},
        {"role": "developer", "content": "late"},
    ]
    parts = to_provider(messages, system="s").parts
    assert parts["system"] == [text("s"), text("a"), text("b")]
    assert [message["role"] for message in parts["messages"]] == ["user", "system"]


def test_foreign_data_goes_and_is_reported() -> None:
    signed = {"type": "text", "text": "y", "foreign": {"gemini": {"thoughtSignature": "g"}}}
    thought = {"type": "thinking", "thinking": "t", "foreign": {"gemini": {}}}
    opaque = {"type": "foreign", "foreign": {"openai_responses": {"item": {"type": "compaction"}}}}
    messages = [
        {"role": "user", "content": "x", "foreign": {"openai_chat": {"message": {"name": "bob"}}}},
        {"role": "assistant", "content": [thought, signed, opaque]},
        {"role": "assistant", "content": [opaque]},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": [opaque, text("r")]}
            ],
        },
    ]
    shaped = to_provider(messages, tools=[{"name": "p", "foreign": {"openai_chat": {"whole": {}}}}])
    assert shaped.parts == {
        "messages": [
            {"role": "user", "content": "x"},
            {"role": "assistant", "content": [text("y")]},
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "a", "content": [text("r")]}],
            },
        ],
        "tools": [],
    }
    assert [(loss.what, loss.where) for loss in shaped.losses] == [
        ("openai_chat data", "messages[0]"),
        ("thinking", "messages[1].content[0]"),
        ("gemini data", "messages[1].content[1]"),
        ("compaction", "messages[1].content[2]"),
        ("compaction", "messages[2].content[0]"),
        ("compaction", "messages[3].content[0].content[0]"),
        ("openai_chat data", "tools[0]"),
    ]


def test_ids_outside_the_alphabet_are_mapped_and_come_back() -> None:
    call = {"type": "tool_use", "id": "functions.Web:3", "name": "f", "input": {}}
    answer = {"type": "tool_result", "tool_use_id": "functions.Web:3", "content": "r"}
    messages = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [answer]},
    ]
    shaped = to_provider(messages)
    new = shaped.parts["messages"][1]["content"][0]["id"]
    assert new.startswith("toolu_")
    assert shaped.parts["messages"][2]["content"][0]["tool_use_id"] == new
    assert with_old_ids(from_provider(shaped.parts).messages, shaped.ids) == messages
    assert shaped.parts == to_provider(messages).parts


def test_from_provider_shares_what_it_is_given() -> None:
    body = {"messages": [{"role": "user", "content": "x"}], "tools": []}
    internal = from_provider(body)
    assert internal.messages[0] is body["messages"][0]
    assert internal.tools == []
