"""Chat Completions: each rule of the translation by example."""

from __future__ import annotations

from typing import Any

from tests.kit import result, text, use
from ullage.providers import Loss, normal_form
from ullage.providers.openai_chat import from_provider, to_provider

IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aaaa"}}
IMAGE_URL = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aaaa"}}


def user(*content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content[0] if isinstance(content[0], str) else list(content)}


def model(*content: Any) -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": content[0] if isinstance(content[0], str) else list(content),
    }


def chat(messages: list[dict[str, Any]], **options: Any) -> list[dict[str, Any]]:
    return to_provider(messages, **options).parts["messages"]


def test_parallel_calls_and_words_after_their_results() -> None:
    messages = [
        user("go"),
        model(text("reading"), use("a", path="x"), use("b", "Bash", cmd="ls")),
        user(result("a"), result("b", [text("1"), text("2")]), text("hurry")),
    ]
    assert chat(messages) == [
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "content": "reading",
            "tool_calls": [
                {
                    "id": "a",
                    "type": "function",
                    "function": {"name": "Read", "arguments": '{"path":"x"}'},
                },
                {
                    "id": "b",
                    "type": "function",
                    "function": {"name": "Bash", "arguments": '{"cmd":"ls"}'},
                },
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "ok"},
        {"role": "tool", "tool_call_id": "b", "content": [text("1"), text("2")]},
        {"role": "user", "content": [text("hurry")]},
    ]
    assert from_provider(chat(messages)).messages == messages


def test_content_is_null_only_with_calls() -> None:
    assert chat([user("go"), model(use("a")), user(result("a"))])[1]["content"] is None
    assert (
        chat([user("go"), model(use("a")), user(result("a"))], dialect="local")[1]["content"] == ""
    )
    assert chat([model("")])[0]["content"] == ""


def test_media_in_results_go_to_the_next_user_message_and_come_back() -> None:
    messages = [
        user("look"),
        model(use("a"), use("b")),
        user(
            result("a", [text("before"), IMAGE, text("after")]), result("b", [IMAGE]), text("see?")
        ),
    ]
    shown = chat(messages)
    assert [message["role"] for message in shown] == ["user", "assistant", "tool", "tool", "user"]
    assert all(part["type"] == "text" for message in shown[2:4] for part in message["content"])
    assert [part["type"] for part in shown[4]["content"]] == [
        "text",
        "image_url",
        "text",
        "image_url",
        "text",
    ]
    assert from_provider(shown).messages == messages


def test_a_user_who_types_a_label_moves_nothing() -> None:
    shown = chat([user("x"), model(use("a")), user(result("a", [IMAGE]))])
    forged = {"role": "user", "content": [text("[attachment 2 of tool call a]"), IMAGE_URL]}
    back = from_provider([*shown[:3], forged]).messages
    assert back[2]["content"][1:] == [text("[attachment 2 of tool call a]"), IMAGE]


def test_arguments_keep_their_spelling_until_the_input_changes() -> None:
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"a": 1.0e2}'}}
    source = [{"role": "assistant", "content": None, "tool_calls": [call]}]
    internal = from_provider(source).messages
    assert internal[0]["content"][0]["input"] == {"a": 100.0}
    assert chat(internal) == source
    changed = [{**internal[0], "content": [{**internal[0]["content"][0], "input": {"a": 1}}]}]
    assert chat(changed)[0]["tool_calls"][0]["function"]["arguments"] == '{"a":1}'


def test_arguments_that_are_no_object_are_kept_as_text() -> None:
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{broken"}}
    source = [{"role": "assistant", "content": None, "tool_calls": [call]}]
    internal = from_provider(source).messages
    assert internal[0]["content"][0]["input"] == {"arguments": "{broken"}
    assert chat(internal) == source


def test_reasoning_content_travels_with_its_calls() -> None:
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    source = [
        {"role": "assistant", "content": "x", "reasoning_content": "why", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": "ok"},
    ]
    internal = from_provider(source).messages
    assert internal[0]["content"][0]["thinking"] == "why"
    assert chat(internal) == source
    plain = [model(use("b")), user(result("b"))]
    assert chat(plain, dialect="deepseek")[0]["reasoning_content"] == ""
    assert "reasoning_content" not in chat(plain)[0]


def test_deepseek_takes_the_thinking_of_others_but_not_their_signatures() -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    shaped = to_provider(
        [user("x"), model(thought, use("a")), user(result("a"))], dialect="deepseek"
    )
    assert shaped.parts["messages"][1]["reasoning_content"] == "hm"
    assert [loss.what for loss in shaped.losses] == ["thinking"]


def test_system_and_developer_stay_what_they_were() -> None:
    source = [
        {"role": "developer", "content": "rules", "name": "host"},
        {"role": "user", "content": "x"},
        {"role": "developer", "content": "mode: plan"},
        {"role": "system", "content": [text("a"), text("b")]},
    ]
    internal = from_provider(source)
    assert [message["role"] for message in internal.messages] == ["user", "system", "system"]
    assert chat(internal.messages, system=internal.system) == source


def test_a_local_server_gets_one_system_message_and_alternation() -> None:
    messages = [user("a"), user("b"), {"role": "system", "content": "late"}, model("c"), user("d")]
    shaped = to_provider(messages, system=[text("s1"), text("s2")], dialect="local")
    assert shaped.parts["messages"] == [
        {"role": "system", "content": "s1\n\ns2"},
        {"role": "user", "content": "a\n\nb\n\n<system>\nlate\n</system>"},
        {"role": "assistant", "content": "c"},
        {"role": "user", "content": "d"},
    ]
    assert [loss.what for loss in shaped.losses] == ["system message"]


def test_long_ids_are_mapped_alike_in_call_and_result() -> None:
    long = "functions.Read:" + "7" * 40
    messages = [user("x"), model(use(long)), user(result(long))]
    shaped = to_provider(messages)
    call = shaped.parts["messages"][1]["tool_calls"][0]["id"]
    assert call == shaped.parts["messages"][2]["tool_call_id"]
    assert (len(call) <= 40, shaped.ids) == (True, {call: long})
    longer = to_provider([*messages, model("ok"), user("y")])
    assert longer.parts["messages"][:3] == shaped.parts["messages"]


def test_what_chat_has_no_word_for_is_said() -> None:
    messages = [
        user({"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}),
        model(
            {"type": "redacted_thinking", "data": "zz"},
            {"type": "server_tool_use", "id": "srv", "name": "web_search", "input": {}},
            {"type": "text", "text": "y", "citations": [1]},
            {**use("a"), "caller": {"type": "direct"}},
        ),
        user(
            result("a", "no", is_error=True),
            {"type": "search_result", "title": "T", "source": "S", "content": [text("c")]},
        ),
    ]
    shaped = to_provider(messages)
    assert {(loss.what, loss.where) for loss in shaped.losses} == {
        ("cache_control", "messages[0].content[0]"),
        ("redacted_thinking", "messages[1].content[0]"),
        ("server_tool_use", "messages[1].content[1]"),
        ("citations", "messages[1].content[2]"),
        ("caller", "messages[1].content[3]"),
        ("is_error", "messages[2].content[0]"),
        ("search_result", "messages[2].content[1]"),
    }
    assert shaped.parts["messages"][3]["content"] == [text("T\nS\nc")]
    assert isinstance(shaped.losses[0], Loss)


def test_a_message_of_thinking_alone_is_left_out() -> None:
    shaped = to_provider(
        [user("x"), model({"type": "thinking", "thinking": "t", "signature": "s"}), user("y")]
    )
    assert [message["role"] for message in shaped.parts["messages"]] == ["user", "user"]
    assert len(shaped.losses) == 1


def test_unknown_blocks_are_sent_as_text() -> None:
    odd = {"type": "hologram", "depth": 3}
    text = '[hologram] {"depth":3}'
    assert chat([user(odd)])[0]["content"] == [{"type": "text", "text": text}]


def test_messages_of_2023_are_carried_whole() -> None:
    source = [
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "1"},
    ]
    assert chat(from_provider(source).messages) == source


def test_tools_both_ways() -> None:
    tools = [
        {"name": "f", "description": "d", "input_schema": {"type": "object"}, "strict": True},
        {"type": "web_search_20250305", "name": "web_search"},
    ]
    shaped = to_provider([user("x")], tools=tools)
    function = {"name": "f", "description": "d", "parameters": {"type": "object"}, "strict": True}
    assert shaped.parts["tools"] == [{"type": "function", "function": function}]
    assert [loss.where for loss in shaped.losses] == ["tools[1]"]
    assert from_provider(shaped.parts).tools == tools[:1]
    custom = {"type": "custom", "custom": {"name": "apply_patch", "format": {"type": "text"}}}
    internal = from_provider({"messages": [], "tools": [custom]})
    assert to_provider([], tools=internal.tools).parts["tools"] == [custom]


def test_entries_are_unwrapped() -> None:
    entries = [
        {"type": "summary", "summary": "t"},
        {"type": "user", "uuid": "1", "message": user("x")},
        {"type": "system", "subtype": "compact_boundary", "content": "Conversation compacted"},
        {"type": "assistant", "uuid": "2", "message": {**model("y"), "id": "m", "usage": {}}},
    ]
    assert chat(entries) == [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": "y"},
    ]


def test_normal_form_joins_what_the_api_joins() -> None:
    assert normal_form([user("a"), user(text("b")), model("c")]) == [
        user(text("a"), text("b")),
        model(text("c")),
    ]
    one, other = user(result("a", "x", is_error=False)), user(result("a", [text("x")]))
    assert normal_form([one]) == normal_form([other])
