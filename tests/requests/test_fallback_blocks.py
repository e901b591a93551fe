"""A `fallback` block is taken by a beta only: requests do without it and what it ended, logs keep it."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.kit import text
from ullage import ContextManager
from ullage.legality import validate
from ullage.providers.anthropic import clean_entries, to_provider
from ullage.requests.to_request import outgoing

MODEL = "claude-opus-4-6"
FALLBACK = {"type": "fallback", "from": {"model": "a"}, "to": {"model": "b"}}
TOOLS = [{"name": "Read", "description": "r", "input_schema": {"type": "object"}}]
THOUGHT = {"type": "thinking", "thinking": "t", "signature": "s"}
HIDDEN = {"type": "redacted_thinking", "data": "d"}


def call(name: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": name, "name": "Read", "input": {}}


def talk(said: list[Any]) -> list[dict[str, Any]]:
    """A conversation in which the model said this; what it called last is answered."""
    last = max((at for at, block in enumerate(said) if block["type"] == "fallback"), default=-1)
    answers: list[Any] = [
        {"type": "tool_result", "tool_use_id": block["id"], "content": "r"}
        for block in said[last + 1 :]
        if block["type"] == "tool_use"
    ]
    asked = {"role": "user", "content": "q"}
    spoken = {"role": "assistant", "content": said}
    return [asked, spoken, {"role": "user", "content": [*answers, text("n")]}]


def kinds(messages: Any) -> list[str]:
    contents = [message["content"] for message in messages if message["role"] == "assistant"]
    return [block["type"] for content in contents for block in content]


blocks = st.lists(
    st.sampled_from([FALLBACK, FALLBACK, THOUGHT, HIDDEN, text("a"), call("x")]), max_size=6
).map(
    lambda found: [
        call(f"t{at}") if one["type"] == "tool_use" else one for at, one in enumerate(found)
    ]
)


@given(blocks)
def test_no_request_has_one_nor_what_it_ended(said: list[Any]) -> None:
    messages = talk([*said, text("end")])
    before = copy.deepcopy(messages)
    shaped = to_provider(messages)
    last = max((at for at, block in enumerate(said) if block == FALLBACK), default=-1)
    ended = [one for one in said[: last + 1] if one["type"] != "text"]
    stay = [one for at, one in enumerate(said) if at > last or one["type"] == "text"]
    assert shaped.parts["messages"][1]["content"] == [*stay, text("end")]
    assert [loss.what for loss in shaped.losses] == [one["type"] for one in ended]
    assert messages == before
    assert (shaped.parts["messages"][1] is messages[1]) == (last < 0)


@pytest.mark.parametrize(
    "said",
    [
        [FALLBACK, text("hi")],
        [text("I was"), FALLBACK, text("hi")],
        [THOUGHT, call("t1"), FALLBACK, text("hi"), call("t2")],
        [FALLBACK],
    ],
)
def test_outgoing_and_a_manager_send_the_same_legal_request(said: list[Any]) -> None:
    messages = talk(said)
    sent = outgoing(messages, model=MODEL, tools=TOOLS)
    manager = ContextManager(model=MODEL, tools=TOOLS)
    for message in messages:
        manager.add(message)
    request = manager.prepare()
    assert "fallback" not in kinds(sent.messages)
    assert list(request.messages) == sent.messages
    assert [loss.what for loss in request.losses] == [loss.what for loss in sent.losses]
    assert "fallback" in [loss.what for loss in sent.losses]
    assert sent.left == ()
    assert validate(sent.messages, model=MODEL, tools=TOOLS).ok
    assert list(manager.history) == messages


def test_a_log_keeps_it() -> None:
    entry = {"type": "assistant", "uuid": "1", "message": talk([FALLBACK, text("hi")])[1]}
    kept, losses = clean_entries([entry])
    assert kept[0] is entry
    assert losses == ()
