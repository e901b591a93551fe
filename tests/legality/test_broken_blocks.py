"""Blocks that no API ever sends: written, repaired, or refused with their place; never an error of Python's own."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.golden.vectors.short import document
from ullage import ContextManager, outgoing, validate
from ullage.counting.models import ModelTable
from ullage.exceptions import InvalidMessage, UllageError
from ullage.legality.repairs import repair
from ullage.providers import SHAPES, gemini, openai_chat
from ullage.requests.count import exact_message
from ullage.requests.to_request import report_of

pytestmark = pytest.mark.both_engines

KINDS = ["text", "tool_use", "tool_result", "image", "document", "thinking", "redacted_thinking", "search_result", "compaction",
         "server_tool_use", "web_search_tool_result", "foreign", "weird", "url", "base64", "content"]  # fmt: skip
KEYS = ["text", "id", "name", "input", "tool_use_id", "content", "source", "thinking", "signature", "data", "media_type", "url", "title",
        "is_error", "cache_control", "citations", "foreign", "opaque", "whole", "part", *SHAPES]  # fmt: skip

_leaf = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(KINDS) | st.text(max_size=3)
    | st.sampled_from(["\ud800", b"x", (1, 2), object()])
)  # fmt: skip
_value = st.recursive(
    _leaf,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(KEYS) | st.integers(), inner, max_size=4)
    ),
    max_leaves=8,
)
_block = st.fixed_dictionaries(
    {"type": st.sampled_from(KINDS) | _value}, optional=dict.fromkeys(KEYS, _value)
)
_message = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "system", "tool"]) | _value,
     "content": st.text(max_size=2) | st.lists(_block | _value, max_size=3) | _value},
    optional={"tool_calls": _value, "id": _value, "foreign": _value, "name": _value},
)  # fmt: skip


def deep(levels: int = 3_000) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for _ in range(levels):
        made = {"a": made}
    return made


@pytest.mark.parametrize("provider", SHAPES)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(messages=st.lists(_message, max_size=3))
def test_whatever_a_block_holds(provider, messages):
    for ask in (outgoing, report_of, repair):
        try:
            ask(messages, provider=provider)
        except UllageError as exc:
            assert str(exc)  # noqa: PT017 - both endings are fine; no other is


BAD: list[dict[str, Any]] = [
    {"type": "search_result", "title": {"a": 1}, "source": "s", "content": []},
    {"type": "tool_use", "id": "a", "name": "n", "input": {("a", 1): object()}},
    {"type": "tool_use", "id": "a", "name": "n", "input": deep()},
    {"type": "weird", "x": deep()},
    {"type": ["text"], "text": "x"},
    {"type": "image", "source": {"type": "url"}},
    {"type": "tool_result", "tool_use_id": "t", "content": [{"type": {"a": 1}}]},
    {"type": "tool_result", "tool_use_id": "t", "content": [deep()]},
]


@pytest.mark.parametrize("provider", SHAPES)
@pytest.mark.parametrize("block", BAD, ids=range(len(BAD)))
def test_an_error_names_the_place(provider, block):
    good = {"type": "text", "text": "fine"}
    role = "assistant" if block["type"] == "tool_use" else "user"
    talk = [{"role": "user", "content": "hi"}, {"role": role, "content": [good, block]}]
    for ask in (outgoing, report_of):
        try:
            ask(talk, provider=provider)
        except InvalidMessage as exc:
            assert exc.index == 1, exc  # noqa: PT017 - it may also be repaired


def test_the_block_that_breaks_is_named():
    broken = {"type": "search_result", "title": {"a": 1}, "source": "s", "content": []}
    talk = [{"role": "user", "content": [{"type": "text", "text": "x"}, broken]}]
    with pytest.raises(InvalidMessage) as caught:
        openai_chat.to_provider([{"role": "user", "content": "hi"}, *talk])
    assert (caught.value.index, caught.value.field) == (1, "content[1]")


def test_a_definition_that_breaks_is_distinguished_from_the_messages():
    with pytest.raises(InvalidMessage) as caught:
        gemini.to_provider([{"role": "user", "content": "hi"}], tools=[{"name": "a", "input_schema": {}, "foreign": {"gemini": {"declaration": 3}}}])  # fmt: skip
    assert caught.value.index is None or caught.value.index < 0
    assert "tools" in (caught.value.field or "")


@pytest.mark.parametrize("calls", [3, "x", [3], [{"function": 3}], [{"function": {"arguments": {(1, 2): 3}}}], deep()])  # fmt: skip
def test_calls_of_any_kind_are_counted_or_refused(calls):
    row = ModelTable.builtin().find("gpt-5.2")
    message = {"role": "assistant", "content": "x", "tool_calls": calls}
    try:
        assert exact_message(message, row) > 0
    except InvalidMessage as exc:
        assert "JSON" in str(exc)  # noqa: PT017 - a key that JSON has no word for


@pytest.mark.parametrize("key", [("a", 1), b"a"], ids=repr)
def test_a_call_that_becomes_text_may_hold_what_json_cannot(key):
    call = {"functionCall": {"name": "", "args": {key: 1}}}
    hello = {"role": "user", "parts": [{"text": "hi"}]}
    done = repair([hello, {"role": "model", "parts": [call]}], provider="gemini")
    assert (done.left, done.messages[1]["parts"][0]["text"][:15]) == ((), "[function call]")
    block = {"type": "text", "text": {key: 1}}
    assert repair([{"role": "user", "content": [block]}], provider="anthropic").ok


def test_the_oldest_documents_over_the_pages_of_a_request_give_way():
    model, asked = "claude-opus-4-1", {"type": "text", "text": "read them"}
    nested = {"type": "tool_result", "tool_use_id": "t1", "content": [document(60)]}
    messages = [
        {"role": "user", "content": [document(30), {"type": "text", "text": "one"}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "read", "input": {}}]},
        {"role": "user", "content": [nested, document(50), asked]},
    ]  # fmt: skip
    done = repair(messages, provider="anthropic", model=model)
    assert (done.ok, {one.rule for one in done.repairs}) == (True, {"A22"})
    gone = {"type": "text", "text": "[document]"}
    assert done.messages[0]["content"][0] == gone
    assert done.messages[2]["content"][1:] == [document(50), asked]
    manager = ContextManager(model=model)
    for message in messages:
        manager.add(message)
    assert validate(manager.prepare().messages, provider="anthropic", model=model).ok
