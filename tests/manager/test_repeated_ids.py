"""Lists in which ids of calls repeat, from turn to turn and within one answer, in each form."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from ullage import ContextManager, outgoing
from ullage.integrations.conversations import FRAMEWORK
from ullage.legality import validate
from ullage.manager.machine import CallIds, as_given
from ullage.providers.registry import provider_of

IDS = {"by_turn": ("call_0", "call_1"), "one": ("call_0", "call_0")}
FORMS = ["anthropic", "openai_chat", "openai_responses", "gemini", "bedrock", FRAMEWORK]


def talk(ids: tuple[str, str], turns: int = 12) -> list[dict[str, Any]]:
    """Two calls in each turn; what a result says names its call."""
    made: list[dict[str, Any]] = []
    for turn in range(turns):
        places = [f"{turn}-{at}" for at in range(2)]
        calls = [
            {"type": "tool_use", "id": name, "name": "look", "input": {"place": place}}
            for name, place in zip(ids, places, strict=True)
        ]
        results = [
            {"type": "tool_result", "tool_use_id": name, "content": f"place {place}: " + "row of the table\n" * 120}
            for name, place in zip(ids, places, strict=True)
        ]  # fmt: skip
        made += [
            {"role": "user", "content": f"Turn {turn}: look."},
            {"role": "assistant", "content": calls},
            {"role": "user", "content": results},
            {"role": "assistant", "content": "Looked at."},
        ]
    return [*made, {"role": "user", "content": "And now?"}]


def in_form(messages: list[dict[str, Any]], form: Any) -> list[Any]:
    """In the form of a provider, with the ids as they are."""
    if form in ("anthropic", FRAMEWORK):
        return messages
    own = CallIds()
    written = json.dumps(list(outgoing(own.of_all(messages), provider=form).messages))
    for name, came in own.came_as.items():
        written = written.replace(f'"{name}"', f'"{came}"')
    found: list[Any] = json.loads(written)
    return found


def manager(form: Any, window: int) -> ContextManager:
    return ContextManager(
        model="gpt-5.4", provider=form, context_window=window, max_output_tokens=500
    )


def read(messages: list[Any], form: Any) -> list[dict[str, Any]]:
    if form in ("anthropic", FRAMEWORK):
        return messages
    return list(provider_of(form).shape.from_provider(messages).messages)


def answers(messages: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """For each result the place that its call named, and its text; calls and results pair by their place."""
    found, waiting = [], list[Any]()
    for message in messages:
        for block in message["content"] if isinstance(message["content"], list) else ():
            if block["type"] == "tool_use":
                waiting.append(block)
            elif block["type"] == "tool_result":
                call = next(each for each in waiting if each["id"] == block["tool_use_id"])
                waiting.remove(call)
                found.append((call["input"]["place"], json.dumps(block["content"])))
    assert not waiting
    return found


@pytest.mark.parametrize("ids", IDS)
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_every_result_stays_with_its_call(form: Any, ids: str):
    given = in_form(talk(IDS[ids]), form)
    before = copy.deepcopy(given)
    view = manager(form, 6_000).view(given)
    assert given == before
    assert view.changed
    found = answers(read(view.messages, form))
    assert found[-2:] == [(f"11-{at}", found[at - 2][1]) for at in range(2)]
    for place, text in found:
        assert f"place {place}: " in text or "place " not in text
    assert all("row of the table" in text for _, text in found[-2:])
    assert "left out" not in json.dumps(view.messages)
    if form is not FRAMEWORK:
        tools = {"tools": [{"toolSpec": {"name": "look", "inputSchema": {"json": {}}}}]}
        params = {"toolConfig": tools} if form == "bedrock" else None
        report = validate(view.messages, provider=form, params=params)
        assert report.ok, report.errors[:3]


@pytest.mark.parametrize("ids", IDS)
def test_a_framework_is_handed_back_its_own_messages_where_nothing_is_due(ids: str):
    given = talk(IDS[ids])
    view = manager(FRAMEWORK, 1_000_000).view(given)
    assert not view.changed
    assert all(sent is each for sent, each in zip(view.messages, given, strict=True))


@pytest.mark.parametrize("ids", IDS)
def test_a_framework_keeps_the_ids_of_its_list(ids: str):
    """Ids of its own are in the handles alone by which the model can ask for a result."""
    view = manager(FRAMEWORK, 6_000).view(talk(IDS[ids]))
    blocks = [block for each in view.messages for block in each["content"] if "type" in block]
    named = {str(block.get("id") or block.get("tool_use_id") or "") for block in blocks}
    assert named == set(IDS[ids])


@pytest.mark.parametrize("ids", IDS)
@pytest.mark.parametrize("form", [*FORMS[:-1], FRAMEWORK], ids=str)
def test_a_list_that_grows_is_shown_as_one_that_came_whole(form: Any, ids: str):
    given = in_form(talk(IDS[ids]), form)
    followed = manager(form, 8_000)
    ends = [at for at, item in enumerate(given) if at and _asks(item)]
    for end in ends:
        followed.view(given[: end + 1])
    assert followed.view(given).messages == manager(form, 8_000).view(given).messages


def _asks(item: dict[str, Any]) -> bool:
    return item.get("role") == "user" and "Turn" in json.dumps(item)


def test_a_stored_view_goes_on():
    given = in_form(talk(IDS["one"]), "openai_chat")
    one, other = manager("openai_chat", 6_000), manager("openai_chat", 6_000)
    half = next(at for at, item in enumerate(given) if "Turn 8" in str(item.get("content"))) + 1
    one.view(given[:half])
    assert other.load_view_state(json.loads(json.dumps(one.view_state())), given[:half])
    assert other.view(given).messages == one.view(given).messages


def test_a_saved_conversation_knows_which_ids_it_gave():
    given = talk(IDS["one"])
    one = manager(FRAMEWORK, 6_000)
    one.view(given)
    names = one.machine.call_ids.came_as
    assert len(names) == 23
    saved = json.loads(json.dumps(one.save(history=True)))
    other = ContextManager.restore(saved, provider=FRAMEWORK)
    assert other.machine.call_ids.came_as == names
    assert other.view(given).messages == one.view(given).messages


def test_ids_of_calls_that_nothing_has_answered():
    """An interrupted call keeps its place: the next call of its id is another one, and has the next result."""
    own = CallIds()
    call = {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "look", "input": {}}]}  # fmt: skip
    done = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "x"}]}  # fmt: skip
    asked = {"role": "user", "content": "Stop. Again."}
    made = own.of_all([asked, call, asked, call, done])
    assert [made[at]["content"][0]["id"] for at in (1, 3)] == ["c", "c-2"]
    assert made[4]["content"][0]["tool_use_id"] == "c-2"
    assert [as_given(each, own.came_as) for each in made] == [asked, call, asked, call, done]


def test_the_same_answer_once_more_is_no_other_call():
    own = CallIds()
    call = {"id": "m1", "role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "look", "input": {}}]}  # fmt: skip
    assert own.of_all([call, call]) == [call, call]
