"""Messages of the assistant in Responses requests are what the types of OpenAI's library accept."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from tests.kit import with_old_ids
from tests.properties import conversations as make
from ullage.providers import normal_form, openai_responses

pytest.importorskip("openai")
pydantic = pytest.importorskip("pydantic")
from openai.types.responses import (  # noqa: E402
    EasyInputMessageParam,
    ResponseOutputMessageParam,
)

PROPERTIES = Path(__file__).parent.parent / "properties"

EITHER = pydantic.TypeAdapter(EasyInputMessageParam | ResponseOutputMessageParam)
ASKED = {"role": "user", "content": "q"}
WHOLE = {
    "type": "message",
    "role": "assistant",
    "id": "msg_1",
    "status": "completed",
    "phase": "commentary",
    "content": [
        {"type": "output_text", "text": "a", "annotations": []},
        {"type": "refusal", "refusal": "no"},
    ],
}
NAMELESS = {key: value for key, value in WHOLE.items() if key != "id"}


def refused(items: list[Any]) -> list[Any]:
    """Messages of the assistant that are neither form of them."""
    found = []
    for item in items:
        if item.get("role") == "assistant":
            try:
                said = EITHER.validate_python(item)
                content = said["content"]
                [] if isinstance(content, str) else list(content)  # read lazily
            except pydantic.ValidationError:
                found.append(item)
    return found


def test_the_types_refuse_parts_of_output_without_an_id() -> None:
    assert refused([NAMELESS]) == [NAMELESS]
    assert refused([WHOLE]) == []


@settings(max_examples=60)
@given(make.conversations())
def test_what_we_write_is_accepted_and_comes_back(messages: list[Any]) -> None:
    before = copy.deepcopy(messages)
    shaped = openai_responses.to_provider(messages)
    assert refused(shaped.parts["input"]) == []
    back = openai_responses.from_provider(shaped.parts)
    assert normal_form(with_old_ids(back.messages, shaped.ids)) == normal_form(messages)
    assert messages == before
    assert openai_responses.to_provider(back.messages).parts["input"] == shaped.parts["input"]


def test_a_whole_message_goes_back_as_it_came_next_to_texts_of_ours() -> None:
    internal = openai_responses.from_provider([ASKED, WHOLE])
    said = internal.messages[1]["content"]
    more = [{"type": "text", "text": "before"}, *said, {"type": "text", "text": "after"}]
    messages = [internal.messages[0], {"role": "assistant", "content": more}]
    before, whole, after = openai_responses.to_provider(messages).parts["input"][1:]
    assert whole == WHOLE
    assert [before["content"], after["content"]] == ["before", "after"]
    assert refused([before, whole, after]) == []


def test_a_message_that_loses_its_id_with_its_reasoning_becomes_strings() -> None:
    thought = {"type": "reasoning", "id": "rs_1", "summary": []}
    cited = {"type": "output_text", "text": "b", "annotations": [{"type": "url_citation"}]}
    item = {**WHOLE, "content": [*WHOLE["content"], cited]}
    internal = openai_responses.from_provider([ASKED, thought, item])
    shaped = openai_responses.to_provider(internal.messages)
    head = {"type": "message", "role": "assistant", "phase": "commentary"}
    assert shaped.parts["input"][1:] == [{**head, "content": one} for one in ("a", "no", "b")]
    assert refused(shaped.parts["input"]) == []
    assert [loss.what for loss in shaped.losses] == ["reasoning", "annotations"]
    sealed = {**thought, "encrypted_content": "e"}
    kept = openai_responses.to_provider(
        openai_responses.from_provider([ASKED, sealed, item]).messages
    )
    assert kept.parts["input"] == [ASKED, sealed, item]


@pytest.mark.parametrize(
    "part", [{"type": "refusal", "refusal": "no"}, {"type": "text", "text": "no"}]
)
def test_words_in_a_part_without_a_head_are_a_string(part: dict[str, Any]) -> None:
    sent = openai_responses.to_provider([ASKED, {"role": "assistant", "content": [part]}])
    assert sent.parts["input"][1] == {"type": "message", "role": "assistant", "content": "no"}
