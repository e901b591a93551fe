"""Lists with something in them that is no message: one typed error everywhere, which names the place."""

from __future__ import annotations

import pytest

import ullage.levels
import ullage.requests
import ullage.transcript
from ullage.exceptions import InvalidMessage, InvalidPolicy
from ullage.legality.repairs import repair

pytestmark = pytest.mark.both_engines

GOOD = {"role": "user", "content": "hi"}

FUNCTIONS = {
    "compact": ullage.compact,
    "count_request": lambda items: ullage.requests.count_request(items, model="claude-opus-4-5"),
    "estimate_each": ullage.requests.estimate_each,
    "estimate_tokens": ullage.estimate_tokens,
    "group_rounds": ullage.requests.group_rounds,
    "inspect_messages": ullage.levels.inspect_messages,
    "keep_window": ullage.keep_window,
    "messages_after_boundary": ullage.transcript.messages_after_boundary,
    "outgoing": ullage.outgoing,
    "outgoing, translated": lambda items: ullage.outgoing(items, provider="gemini"),
    "resume": ullage.resume,
    "truncate_head": lambda items: ullage.truncate_head(items, 100),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("wrong", [5, None, "hello", ["a"]], ids=repr)
def test_an_item_that_is_no_message_is_named(name, wrong):
    with pytest.raises(InvalidMessage) as caught:
        FUNCTIONS[name]([GOOD, wrong])
    assert caught.value.index == 1
    assert caught.value.got


@pytest.mark.parametrize("wrong", [5, None, "hello", ["a"]], ids=repr)
def test_a_verdict_and_a_repair_take_anything(wrong):
    assert not ullage.validate([GOOD, wrong], provider="anthropic").ok
    done = repair([GOOD, wrong], provider="anthropic")
    assert done.repairs
    assert ullage.validate(done.messages, provider="anthropic").ok


@pytest.mark.parametrize("wrong", [5, None, "hello", {"role": "user"}], ids=repr)
@pytest.mark.parametrize("name", [*FUNCTIONS, "validate", "repair"])
def test_what_is_no_list_is_refused(name, wrong):
    if (name, wrong) == ("resume", "hello"):
        pytest.skip("it takes the path of a file")
    calls = {**FUNCTIONS, "validate": ullage.validate, "repair": repair}
    with pytest.raises(InvalidMessage, match="list"):
        calls[name](wrong)


@pytest.mark.parametrize(
    "call",
    [
        lambda: ullage.open_session(None),
        lambda: ullage.compact_session("session.jsonl"),
        lambda: ullage.compact([GOOD], model=5),
        lambda: ullage.Policy.load(5),
        lambda: ullage.summarizer_of(None),
    ],
    ids=["path", "session", "model", "policy", "summarizer"],
)
def test_what_is_of_another_type_is_refused(call):
    with pytest.raises(InvalidPolicy):
        call()


@pytest.mark.parametrize("name", ["outgoing", "outgoing, translated"])
@pytest.mark.parametrize("content", [5, {"type": "text"}, True], ids=repr)
def test_content_that_no_message_has_is_named(name, content):
    with pytest.raises(InvalidMessage) as caught:
        FUNCTIONS[name]([GOOD, {"role": "user", "content": content}])
    assert (caught.value.index, caught.value.field) == (1, "content")


@pytest.mark.parametrize("tokens", ["many", None, [GOOD], 1.5, True], ids=repr)
def test_a_warning_state_needs_a_number(tokens):
    with pytest.raises(InvalidPolicy, match="whole number") as caught:
        ullage.warning_state(tokens, "claude-opus-4-5")
    assert "estimate_tokens" in caught.value.hint
