"""Any legal conversation, in every shape: accepted there, and back unchanged."""

from __future__ import annotations

import copy
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from tests.kit import with_old_ids
from tests.properties import conversations as make, shape_rules as rules
from ullage.providers import (
    anthropic,
    bedrock,
    gemini,
    mistral,
    normal_form,
    openai_chat,
    openai_responses,
)

pytestmark = pytest.mark.both_engines

HERE = Path(__file__).parent

few = settings(max_examples=60)


def system_text(system: Any) -> list[str]:
    blocks = system if isinstance(system, list) else ([make.text_block(system)] if system else [])
    return [block["text"] for block in blocks]


# ---- Anthropic -----------------------------------------------------------------------------------


@few
@given(make.conversations(thinking=True, styles=("toolu_{}",)), make.systems, make.tools)
def test_anthropic_leaves_its_own_alone(messages: list[Any], system: Any, tools: Any) -> None:
    shaped = anthropic.to_provider(messages, system=system, tools=tools)
    assert all(a is b for a, b in zip(shaped.parts["messages"], messages, strict=True))
    assert (shaped.losses, dict(shaped.ids)) == ((), {})
    assert shaped.parts.get("system") == system


@few
@given(make.conversations(thinking=True))
def test_anthropic_takes_foreign_ids(messages: list[Any]) -> None:
    before = copy.deepcopy(messages)
    shaped = anthropic.to_provider(messages)
    assert rules.broken_anthropic(shaped.parts["messages"]) == []
    back = anthropic.from_provider(shaped.parts)
    assert with_old_ids(back.messages, shaped.ids) == messages == before


@few
@given(make.chats())
def test_anthropic_takes_what_came_from_chat(chat: list[Any]) -> None:
    internal = openai_chat.from_provider(chat)
    shaped = anthropic.to_provider(internal.messages, system=internal.system)
    assert (
        rules.broken_anthropic([m for m in shaped.parts["messages"] if m["role"] != "system"]) == []
    )


# ---- OpenAI chat ---------------------------------------------------------------------------------


@few
@given(make.conversations(), make.systems, make.tools)
def test_chat_and_back(messages: list[Any], system: Any, tools: Any) -> None:
    before = copy.deepcopy(messages)
    shaped = openai_chat.to_provider(messages, system=system, tools=tools)
    assert rules.broken_chat(shaped.parts["messages"]) == []
    assert shaped.losses == ()
    back = openai_chat.from_provider(shaped.parts)
    assert normal_form(with_old_ids(back.messages, shaped.ids)) == normal_form(messages)
    assert (back.system, back.tools) == (system, tools)
    assert messages == before


@few
@given(make.conversations(thinking=True))
def test_chat_drops_thinking_and_says_so(messages: list[Any]) -> None:
    shaped = openai_chat.to_provider(messages)
    back = openai_chat.from_provider(shaped.parts)
    assert normal_form(with_old_ids(back.messages, shaped.ids)) == normal_form(
        make.without(messages, "thinking")
    )
    thoughts = sum(
        b["type"] == "thinking" for m in messages for b in m["content"] if isinstance(b, dict)
    )
    assert [loss.what for loss in shaped.losses] == ["thinking"] * thoughts


@few
@given(make.chats())
def test_chat_from_elsewhere_and_back(chat: list[Any]) -> None:
    before = copy.deepcopy(chat)
    internal = openai_chat.from_provider({"messages": chat})
    shaped = openai_chat.to_provider(internal.messages, system=internal.system)
    assert shaped.parts["messages"] == chat == before
    assert shaped.losses == ()


@pytest.mark.parametrize("dialect", ["compatible", "deepseek", "local"])
@few
@given(messages=make.conversations(thinking=True), system=make.systems)
def test_stricter_servers(dialect: Any, messages: list[Any], system: Any) -> None:
    shaped = openai_chat.to_provider(messages, system=system, dialect=dialect)
    chat = shaped.parts["messages"]
    assert rules.broken_chat(chat, strict=dialect == "local", reasoning=dialect == "deepseek") == []
    assert openai_chat.to_provider(messages, system=system, dialect=dialect).parts == shaped.parts


# ---- OpenAI Responses ----------------------------------------------------------------------------


@few
@given(make.conversations(), make.systems, make.tools)
def test_responses_and_back(messages: list[Any], system: Any, tools: Any) -> None:
    before = copy.deepcopy(messages)
    shaped = openai_responses.to_provider(messages, system=system, tools=tools)
    assert rules.broken_responses(shaped.parts["input"]) == []
    assert shaped.losses == ()
    back = openai_responses.from_provider(shaped.parts)
    assert normal_form(with_old_ids(back.messages, shaped.ids)) == normal_form(messages)
    assert shaped.parts.get("instructions", "") == "\n\n".join(system_text(system))
    assert back.tools == tools
    assert messages == before


@few
@given(make.conversations(thinking=True))
def test_responses_drop_foreign_thinking_and_say_so(messages: list[Any]) -> None:
    shaped = openai_responses.to_provider(messages)
    back = openai_responses.from_provider(shaped.parts)
    assert normal_form(with_old_ids(back.messages, shaped.ids)) == normal_form(
        make.without(messages, "thinking")
    )
    assert {loss.what for loss in shaped.losses} <= {"thinking"}


def in_the_apis_types(item: dict[str, Any]) -> list[dict[str, Any]]:
    """An item as the API's types have it: without an id what the assistant said is a string."""
    content = item.get("content")
    if item.get("role") != "assistant" or "id" in item or isinstance(content, str):
        return [item]
    return [{**item, "content": part.get("text", part.get("refusal"))} for part in content]


@settings(max_examples=150)
@given(make.response_items())
def test_responses_from_elsewhere_and_back(items: list[Any]) -> None:
    before = copy.deepcopy(items)
    internal = openai_responses.from_provider(items)
    shaped = openai_responses.to_provider(internal.messages)
    assert shaped.parts["input"] == [one for item in items for one in in_the_apis_types(item)]
    assert items == before
    assert shaped.losses == ()


@few
@given(make.response_items())
def test_anthropic_takes_what_came_from_responses(items: list[Any]) -> None:
    shaped = anthropic.to_provider(openai_responses.from_provider(items).messages)
    spoken = [message for message in shaped.parts["messages"] if message["role"] != "system"]
    assert rules.broken_anthropic(spoken) == []


# ---- Gemini --------------------------------------------------------------------------------------


def in_order_of_calls(messages: list[Any]) -> list[Any]:
    """Normal form with the results of each turn in the order of their calls, as Gemini demands it."""
    turns = normal_form(messages)
    for before, turn in pairwise(turns):
        order = {block["id"]: at for at, block in enumerate(before["content"]) if "id" in block}
        last = len(before["content"])
        turn["content"].sort(key=lambda block: order.get(block.get("tool_use_id"), last))
    return turns


@few
@given(make.conversations(), make.systems, make.tools)
def test_gemini_and_back(messages: list[Any], system: Any, tools: Any) -> None:
    before = copy.deepcopy(messages)
    shaped = gemini.to_provider(messages, system=system, tools=tools)
    assert rules.broken_gemini(shaped.parts["contents"]) == []
    assert {loss.what for loss in shaped.losses} <= {"order"}
    back = gemini.from_provider(shaped.parts)
    assert normal_form(with_old_ids(back.messages, shaped.ids)) == in_order_of_calls(messages)
    sent = shaped.parts.get("systemInstruction", {"parts": []})["parts"]
    assert [part["text"] for part in sent] == system_text(system)
    assert (back.tools or None) == (tools or None)
    assert messages == before


@few
@given(make.conversations(thinking=True))
def test_gemini_drops_foreign_thinking(messages: list[Any]) -> None:
    shaped = gemini.to_provider(messages)
    back = gemini.from_provider(shaped.parts)
    assert normal_form(back.messages) == in_order_of_calls(make.without(messages, "thinking"))


@settings(max_examples=150)
@given(make.gemini_contents())
def test_gemini_from_elsewhere_and_back(contents: list[Any]) -> None:
    before = copy.deepcopy(contents)
    internal = gemini.from_provider(contents)
    shaped = gemini.to_provider(internal.messages)
    assert shaped.parts["contents"] == contents == before
    assert shaped.losses == ()
    again = gemini.from_provider(contents)
    assert again.messages == internal.messages, "ids that are made up must be made up alike"


@few
@given(make.gemini_contents())
def test_anthropic_takes_what_came_from_gemini(contents: list[Any]) -> None:
    shaped = anthropic.to_provider(gemini.from_provider(contents).messages)
    last = {"role": "user", "content": "go on"}
    assert rules.broken_anthropic([*shaped.parts["messages"], last]) == []


# ---- Bedrock -------------------------------------------------------------------------------------


@few
@given(make.conversations(thinking=True, url_images=False), make.systems, make.tools)
def test_bedrock_and_back(messages: list[Any], system: Any, tools: Any) -> None:
    before = copy.deepcopy(messages)
    shaped = bedrock.to_provider(messages, system=system, tools=tools)
    assert rules.broken_bedrock(shaped.parts) == []
    assert shaped.losses == ()
    back = bedrock.from_provider(shaped.parts)
    assert normal_form(with_old_ids(back.messages, shaped.ids)) == normal_form(messages)
    assert [part["text"] for part in shaped.parts.get("system", ())] == system_text(system)
    assert back.tools == (tools or None)
    assert messages == before


@few
@given(make.conversations(thinking=True, url_images=False))
def test_bedrock_in_bytes_says_the_same(messages: list[Any]) -> None:
    shaped = bedrock.to_provider(messages, as_bytes=True)
    back = bedrock.from_provider(shaped.parts)
    assert normal_form(with_old_ids(back.messages, shaped.ids)) == normal_form(messages)


@settings(max_examples=150)
@given(make.converse())
def test_bedrock_from_elsewhere_and_back(messages: list[Any]) -> None:
    before = copy.deepcopy(messages)
    internal = bedrock.from_provider(messages)
    shaped = bedrock.to_provider(internal.messages)
    assert shaped.parts["messages"] == messages == before
    assert shaped.losses == ()


@few
@given(make.converse())
def test_anthropic_takes_what_came_from_bedrock(messages: list[Any]) -> None:
    shaped = anthropic.to_provider(bedrock.from_provider(messages).messages)
    assert rules.broken_anthropic(shaped.parts["messages"]) == []


# ---- Mistral -------------------------------------------------------------------------------------


@few
@given(make.conversations(), make.systems, make.tools)
def test_mistral_and_back(messages: list[Any], system: Any, tools: Any) -> None:
    before = copy.deepcopy(messages)
    shaped = mistral.to_provider(messages, system=system, tools=tools)
    chat = shaped.parts["messages"]
    assert rules.broken_mistral(chat) == rules.broken_chat(chat) == []
    assert shaped.losses == ()
    back = mistral.from_provider(shaped.parts)
    assert normal_form(with_old_ids(back.messages, shaped.ids)) == normal_form(messages)
    assert ("".join(system_text(back.system)), back.tools) == (
        "\n\n".join(system_text(system)),
        tools,
    )
    assert messages == before


@few
@given(make.conversations())
def test_mistral_ids_stay_as_a_conversation_grows(messages: list[Any]) -> None:
    ids = {ours: theirs for theirs, ours in mistral.to_provider(messages).ids.items()}
    for end in range(len(messages)):
        part = mistral.to_provider(messages[:end]).ids
        assert all(ids[ours] == theirs for theirs, ours in part.items())


@few
@given(make.conversations(thinking=True))
def test_every_shape_gives_the_same_twice_and_grows_at_its_end(messages: list[Any]) -> None:
    """What was sent before stays as it was, but for the turn that grows."""
    for module, key in (
        (openai_chat, "messages"),
        (openai_responses, "input"),
        (gemini, "contents"),
        (bedrock, "messages"),
        (mistral, "messages"),
    ):
        whole = module.to_provider(messages).parts[key]
        assert module.to_provider(copy.deepcopy(messages)).parts[key] == whole
        ends = [at for at, message in enumerate(messages) if message["role"] == "assistant"]
        for end in ends:
            part = module.to_provider(messages[:end]).parts[key]
            assert whole[: len(part)] == part


# ---- unknown blocks --------------------------------------------------------------------------------

ODD = {"type": "hologram", "data": "x", "deep": {"a": [1, None]}}
WITH_ODD = [
    {"role": "user", "content": [make.text_block("q"), ODD]},
    {
        "role": "assistant",
        "content": [
            ODD,
            make.text_block("a"),
            {"type": "tool_use", "id": "t1", "name": "Read", "input": {}},
        ],
    },
    {
        "role": "user",
        "content": [
            {
                "type": "tool_result",
                "tool_use_id": "t1",
                "content": [make.text_block("r"), ODD],
            },
            make.text_block("x"),
        ],
    },
]
SHAPES = {
    "anthropic": anthropic,
    "openai_chat": openai_chat,
    "openai_responses": openai_responses,
    "gemini": gemini,
    "bedrock": bedrock,
    "mistral": mistral,
}


def sent_odd(parts: Any) -> int:
    """How many times the unknown block stands in a request, as it was."""
    if parts == ODD:
        return 1
    inner = parts.values() if isinstance(parts, dict) else parts if isinstance(parts, list) else ()
    return sum(sent_odd(each) for each in inner)


@pytest.mark.parametrize("name", SHAPES)
def test_what_no_shape_knows_goes_to_its_own_unchanged_and_to_others_as_text(name: str) -> None:
    shape, before = SHAPES[name], copy.deepcopy(WITH_ODD)
    first = shape.to_provider(WITH_ODD)
    assert before == WITH_ODD
    own = name == "anthropic"
    assert sent_odd(dict(first.parts)) == (3 if own else 0)
    told = json.dumps(first.parts, default=repr).count('[hologram] {\\"data\\":\\"x\\"')
    assert told == (0 if own else 3)
    back = with_old_ids(shape.from_provider(first.parts).messages, first.ids)
    again = shape.to_provider(back)
    assert dict(again.parts) == dict(first.parts)
