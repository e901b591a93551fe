"""Responses, Gemini, Bedrock, Mistral: the rules of each translation by example."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import result, text, with_old_ids
from ullage import InvalidMessage, compact
from ullage.providers import anthropic, bedrock, gemini, mistral, openai_responses
from ullage.providers._common import map_ids

PNG = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aaaa"}}
LINK = {"type": "image", "source": {"type": "url", "url": "https://example.org/a.webp"}}
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "sig"}


def use(one: str, name: str = "read", **value: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": one, "name": name, "input": value}


def user(*content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content[0] if isinstance(content[0], str) else list(content)}


def model(*content: Any) -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": content[0] if isinstance(content[0], str) else list(content),
    }


ROUND = [
    user("go"),
    model(THOUGHT, text("look"), use("a"), use("b")),
    user(result("b", [PNG, text("x")]), result("a", "no", is_error=True)),
]


# ---- ids -----------------------------------------------------------------------------------------


def test_mapped_ids_collide_with_nothing() -> None:
    """With one character there are only 62 ids, so collisions are sure."""
    olds = [f"old {number}" for number in range(40)]
    given = ["A", "B", "C", *olds]
    mapped = map_ids(given, lambda one: len(one) == 1, length=1)
    assert set(mapped) == set(olds)
    assert len(set(mapped.values()) | {"A", "B", "C"}) == 43


def test_mapped_ids_depend_on_the_id_alone() -> None:
    assert (
        map_ids(["x!", "y!"], str.isalnum, length=9)["y!"]
        == map_ids(["y!"], str.isalnum, length=9)["y!"]
    )
    assert map_ids(["\ud800"], str.isalnum, length=9)["\ud800"].isalnum(), (
        "a lone surrogate is an id too"
    )


# ---- Responses -----------------------------------------------------------------------------------


def test_responses_items() -> None:
    shaped = openai_responses.to_provider(ROUND, system=[text("s"), text("t")])
    items = shaped.parts["input"]
    assert shaped.parts["instructions"] == "s\n\nt"
    assert [item.get("type", item.get("role")) for item in items] == [
        "user",
        "message",
        "function_call",
        "function_call",
        "function_call_output",
        "function_call_output",
    ]
    assert items[2] == {"type": "function_call", "call_id": "a", "name": "read", "arguments": "{}"}
    assert items[4]["output"][0] == {
        "type": "input_image",
        "image_url": "data:image/png;base64,aaaa",
    }
    assert [loss.what for loss in shaped.losses] == ["thinking", "is_error"]


REASONING = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "why"}],
}
CALL = {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c", "output": "ok"}
ASKED = {"role": "user", "content": "x"}


def test_reasoning_without_its_content_goes_together_with_the_link_to_it() -> None:
    internal = openai_responses.from_provider([ASKED, REASONING, CALL, OUTPUT])
    assert internal.messages[1]["content"][0]["thinking"] == "why"
    sealed = {**REASONING, "encrypted_content": "e"}
    kept = openai_responses.to_provider(
        openai_responses.from_provider([ASKED, sealed, CALL, OUTPUT]).messages
    )
    assert kept.parts["input"] == [ASKED, sealed, CALL, OUTPUT]
    dropped = openai_responses.to_provider(internal.messages)
    without_id = {key: value for key, value in CALL.items() if key != "id"}
    assert dropped.parts["input"] == [ASKED, without_id, OUTPUT]
    assert [loss.what for loss in dropped.losses] == ["reasoning"]


def test_reasoning_that_nothing_follows_is_left_out() -> None:
    sealed = {**REASONING, "encrypted_content": "e"}
    internal = openai_responses.from_provider([ASKED, sealed])
    assert openai_responses.to_provider(internal.messages).parts["input"] == [ASKED]


def test_an_opaque_compaction_item_comes_back_verbatim_and_only_there() -> None:
    item = {"type": "compaction", "id": "cmp_1", "encrypted_content": "zz", "novel": [1]}
    internal = openai_responses.from_provider([ASKED, item, ASKED])
    assert openai_responses.to_provider(internal.messages).parts["input"] == [ASKED, item, ASKED]
    for module, key in ((anthropic, "messages"), (gemini, "contents"), (bedrock, "messages")):
        shaped = module.to_provider(internal.messages)
        assert len(shaped.parts[key]) <= 2
        assert [loss.what for loss in shaped.losses] == ["compaction"]


def test_a_built_in_call_changes_only_where_we_changed_it() -> None:
    shell = {"type": "local_shell_call", "id": "sh", "call_id": "c", "action": {"command": ["ls"]}}
    output = {
        "type": "local_shell_call_output",
        "call_id": "c",
        "output": "files",
        "max_output_length": 9,
    }
    messages = openai_responses.from_provider([ASKED, shell, output]).messages
    assert messages[1]["content"][0]["input"] == {"command": ["ls"]}
    cleared = [*messages[:2], user({**messages[2]["content"][0], "content": "[cleared]"})]
    assert openai_responses.to_provider(cleared).parts["input"] == [
        ASKED,
        shell,
        {**output, "output": "[cleared]"},
    ]


def test_an_output_that_comes_late_is_put_next_to_its_call() -> None:
    late = {
        "type": "message",
        "role": "developer",
        "content": [{"type": "input_text", "text": "ok"}],
    }
    internal = openai_responses.from_provider([ASKED, CALL, late, OUTPUT])
    assert [message["role"] for message in internal.messages] == [
        "user",
        "assistant",
        "user",
        "system",
    ]
    assert openai_responses.to_provider(internal.messages).parts["input"] == [
        ASKED,
        CALL,
        OUTPUT,
        late,
    ]


def test_a_string_is_an_input_too() -> None:
    assert openai_responses.from_provider({"input": "x"}).messages == [user("x")]


# ---- Gemini --------------------------------------------------------------------------------------


def test_gemini_contents() -> None:
    shaped = gemini.to_provider(ROUND, system="s")
    assert shaped.parts["systemInstruction"] == {"parts": [{"text": "s"}]}
    asked, called, answered = shaped.parts["contents"]
    assert (asked, called["role"]) == ({"role": "user", "parts": [{"text": "go"}]}, "model")
    assert called["parts"][1] == {
        "functionCall": {"id": "a", "name": "read", "args": {}},
        "thoughtSignature": "skip_thought_signature_validator",
    }
    assert "thoughtSignature" not in called["parts"][2]
    first, second = (part["functionResponse"] for part in answered["parts"])
    assert first == {"id": "a", "name": "read", "response": {"error": "no"}}
    assert second["response"] == {"output": [{"$ref": "item_1"}, "x"]}
    assert second["parts"] == [
        {"inlineData": {"mimeType": "image/png", "data": "aaaa", "displayName": "item_1"}}
    ]
    assert [loss.what for loss in shaped.losses] == ["thinking", "order"]


def test_gemini_before_version_3_needs_no_signature() -> None:
    parts = gemini.to_provider(ROUND, signatures=False).parts["contents"][1]["parts"]
    assert not any("thoughtSignature" in part for part in parts)


def test_a_signature_stays_on_its_part() -> None:
    call = {"functionCall": {"name": "f", "args": {}}, "thoughtSignature": "s1"}
    contents = [
        {"role": "user", "parts": [{"text": "x"}]},
        {
            "role": "model",
            "parts": [{"text": "t", "thought": True}, {"text": "", "thoughtSignature": "s0"}, call],
        },
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"a": 1}}}]},
    ]
    internal = gemini.from_provider(contents)
    kinds = [block["type"] for block in internal.messages[1]["content"]]
    assert kinds == ["thinking", "thinking", "tool_use"]
    assert internal.messages[2]["content"][0]["content"] == '{"a":1}'
    assert gemini.to_provider(internal.messages).parts["contents"] == contents
    cleared = [
        *internal.messages[:2],
        user({**internal.messages[2]["content"][0], "content": "[cleared]"}),
    ]
    told = gemini.to_provider(cleared).parts["contents"][2]["parts"][0]["functionResponse"]
    assert told == {"name": "f", "response": {"output": "[cleared]"}}


def test_gemini_starts_with_a_user_and_takes_turns() -> None:
    shaped = gemini.to_provider([model("hello"), user("a"), user("b")])
    contents = shaped.parts["contents"]
    assert [content["role"] for content in contents] == ["user", "model", "user"]
    assert [part["text"] for part in contents[2]["parts"]] == ["a", "b"]
    assert gemini.from_provider(contents).messages == [
        model(text("hello")),
        user(text("a"), text("b")),
    ]


def test_answers_without_ids_go_to_the_calls_of_their_name_in_order() -> None:
    contents = [
        {"role": "user", "parts": [{"text": "x"}]},
        {
            "role": "model",
            "parts": [{"functionCall": {"name": name, "args": {}}} for name in "ffg"],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"name": name, "response": {"output": str(at)}}}
                for at, name in enumerate("ffg")
            ],
        },
    ]
    _, called, answered = gemini.from_provider(contents).messages
    ids = [block["id"] for block in called["content"]]
    assert len(set(ids)) == 3
    assert [block["tool_use_id"] for block in answered["content"]] == ids


def test_gemini_tools_both_ways() -> None:
    tools = [{"name": "f", "description": "d", "input_schema": {"type": "object"}}]
    shaped = gemini.to_provider([user("x")], tools=[*tools, {"type": "web_search", "name": "w"}])
    declared = {"name": "f", "description": "d", "parametersJsonSchema": {"type": "object"}}
    assert shaped.parts["tools"] == [{"functionDeclarations": [declared]}]
    assert gemini.from_provider(shaped.parts).tools == tools
    native = [
        {"functionDeclarations": [{"name": "f", "parameters": {"type": "OBJECT"}}]},
        {"googleSearch": {}},
    ]
    internal = gemini.from_provider({"contents": [], "tools": native})
    assert gemini.to_provider([], tools=internal.tools).parts["tools"] == native


def test_linked_images_and_late_system_messages() -> None:
    messages = [user(LINK, PNG), {"role": "system", "content": "late"}]
    shaped = gemini.to_provider(messages)
    assert shaped.parts["contents"][0]["parts"] == [
        {"fileData": {"mimeType": "image/webp", "fileUri": "https://example.org/a.webp"}},
        {"inlineData": {"mimeType": "image/png", "data": "aaaa"}},
        {"text": "<system>\nlate\n</system>"},
    ]
    assert [loss.what for loss in shaped.losses] == ["system message"]


# ---- Bedrock -------------------------------------------------------------------------------------


def test_bedrock_messages() -> None:
    shaped = bedrock.to_provider(ROUND)
    said, answered = (message["content"] for message in shaped.parts["messages"][1:])
    assert said[0] == {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "sig"}}}
    assert said[2] == {"toolUse": {"toolUseId": "a", "name": "read", "input": {}}}
    assert answered[0]["toolResult"]["content"][0] == {
        "image": {"format": "png", "source": {"bytes": "aaaa"}}
    }
    assert answered[1]["toolResult"] == {
        "toolUseId": "a",
        "content": [{"text": "no"}],
        "status": "error",
    }
    assert shaped.losses == ()


def test_bedrock_declares_what_the_history_calls() -> None:
    config = bedrock.to_provider(ROUND).parts["toolConfig"]
    assert [tool["toolSpec"]["name"] for tool in config["tools"]] == ["read"]
    assert bedrock.from_provider({"messages": [], "toolConfig": config}).tools is None
    assert "toolConfig" not in bedrock.to_provider([user("x")]).parts
    tools = [{"name": "f", "input_schema": {"type": "object"}}]
    assert len(bedrock.to_provider(ROUND, tools=tools).parts["toolConfig"]["tools"]) == 1


def test_bedrock_cache_points() -> None:
    marked = {**text("x"), "cache_control": {"type": "ephemeral", "ttl": "1h"}}
    tools = [{"name": "f", "input_schema": {}, "cache_control": {"type": "ephemeral"}}]
    shaped = bedrock.to_provider([user(marked)], system=[marked], tools=tools)
    point = {"cachePoint": {"type": "default", "ttl": "1h"}}
    assert (
        shaped.parts["messages"][0]["content"] == shaped.parts["system"] == [{"text": "x"}, point]
    )
    assert shaped.parts["toolConfig"]["tools"][1] == {"cachePoint": {"type": "default"}}
    back = bedrock.from_provider(shaped.parts)
    assert (back.messages, back.tools) == ([user(marked)], tools)


def test_bedrock_refuses_blank_text_and_errors_without_content() -> None:
    shaped = bedrock.to_provider(
        [user(text("  "), text("x")), model(use("a")), user(result("a", "", is_error=True))]
    )
    assert shaped.parts["messages"][0]["content"] == [{"text": "x"}]
    assert shaped.parts["messages"][2]["content"][0]["toolResult"]["content"] == [
        {"text": "(no output)"}
    ]
    assert [loss.what for loss in shaped.losses] == ["text"]


def test_bedrock_bytes_and_names_of_documents() -> None:
    source = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}
    documents = [
        {"type": "document", "source": source, "title": "a_b.pdf"},
        {"type": "document", "source": source},
    ]
    shaped = bedrock.to_provider([user(*documents)], as_bytes=True)
    first, second = (block["document"] for block in shaped.parts["messages"][0]["content"])
    assert (first["source"]["bytes"], first["name"], second["name"]) == (
        b"%PDF-",
        "a-b-pdf",
        "untitled-2",
    )
    assert [loss.what for loss in shaped.losses] == ["title"]
    assert bedrock.from_provider(shaped.parts).messages[0]["content"][1] == documents[1]


@pytest.mark.parametrize("block", ["", [], "x", ["ab"]])
def test_bedrock_takes_no_block_that_is_no_mapping(block: Any) -> None:
    with pytest.raises(InvalidMessage, match="cannot be read"):
        compact([{"role": "user", "content": [block]}], provider="bedrock", model="gpt-5")


def test_bedrock_says_what_it_cannot_hold() -> None:
    shaped = bedrock.to_provider(
        [user(LINK), model({"type": "thinking", "thinking": "t"}), user("x")]
    )
    assert [(loss.what, loss.why) for loss in shaped.losses] == [
        ("image", "sent as text"),
        ("thinking", "has no signature of this provider"),
    ]
    assert [message["role"] for message in shaped.parts["messages"]] == ["user"]


def test_bedrock_long_ids() -> None:
    long = "x" * 65
    shaped = bedrock.to_provider([user("x"), model(use(long)), user(result(long))])
    assert list(shaped.ids.values()) == [long]
    back = with_old_ids(bedrock.from_provider(shaped.parts).messages, shaped.ids)
    assert back[1]["content"][0]["id"] == long


# ---- Mistral -------------------------------------------------------------------------------------


def test_mistral_ids_and_the_line_after_results() -> None:
    messages = [
        user("go"),
        model(use("toolu_1"), use("abcDEF123")),
        user(result("toolu_1"), result("abcDEF123"), text("and?")),
    ]
    shaped = mistral.to_provider(messages)
    chat = shaped.parts["messages"]
    assert [message["role"] for message in chat] == [
        "user",
        "assistant",
        "tool",
        "tool",
        "assistant",
        "user",
    ]
    ids = [call["id"] for call in chat[1]["tool_calls"]]
    assert ids == [chat[2]["tool_call_id"], chat[3]["tool_call_id"]]
    assert ids[1] == "abcDEF123"
    assert shaped.ids == {ids[0]: "toolu_1"}
    assert (len(ids[0]), ids[0].isalnum()) == (9, True)
    assert with_old_ids(mistral.from_provider(shaped.parts).messages, shaped.ids) == messages


def test_mistral_thinking_parts_come_back() -> None:
    chunk = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}], "closed": True}
    chat = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": [chunk, {"type": "text", "text": "y"}]},
    ]
    internal = mistral.from_provider(chat)
    assert internal.messages[1]["content"][0]["thinking"] == "hm"
    assert mistral.to_provider(internal.messages).parts["messages"] == chat
    assert anthropic.to_provider(internal.messages).parts["messages"][1] == model(text("y"))


def test_mistral_documents_go_by_url() -> None:
    source = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}
    messages = [user({"type": "document", "source": source, "title": "a.pdf"})]
    shaped = mistral.to_provider(messages)
    part = {
        "type": "document_url",
        "document_url": "data:application/pdf;base64,JVBERi0=",
        "document_name": "a.pdf",
    }
    assert shaped.parts["messages"][0]["content"] == [part]
    assert mistral.from_provider(shaped.parts).messages == messages


def test_mistral_has_its_system_message_first_only() -> None:
    messages = [user("a"), {"role": "system", "content": "late"}, model("b"), user("c")]
    chat = mistral.to_provider(messages, system="s").parts["messages"]
    assert [message["role"] for message in chat] == ["system", "user", "user", "assistant", "user"]


# ---- all of them ---------------------------------------------------------------------------------


@pytest.mark.parametrize("module", [anthropic, openai_responses, gemini, bedrock, mistral])
def test_no_messages_are_no_messages(module: Any) -> None:
    shaped = module.to_provider([])
    assert next(iter(shaped.parts.values())) == []
    assert module.from_provider(shaped.parts).messages == []
    assert repr(shaped).startswith("Shaped(")
