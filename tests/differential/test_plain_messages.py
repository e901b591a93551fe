"""What Rust takes for a plain message is read as the twin reads it, and sent as after a second look, which is all that the twin has."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from ullage import _reference as twin
from ullage.exceptions import UllageError
from ullage.manager import ContextManager
from ullage.manager.machine import Machine

core = pytest.importorskip("ullage._core")


class Text(str):
    __slots__ = ()


class Object(dict):  # type: ignore[type-arg]
    pass


class Items(list):  # type: ignore[type-arg]
    pass


IDS = st.sampled_from(
    ["t1", "t2", "open", "done", "a" * 40, "a" * 41, "x:3", "", "é", 7, Text("t3")]
)
WORDS = st.sampled_from(
    ["fine", "two words", "", "naïve", "漢字", "\ud83d", Text("x"), None, 5, "[Compacted: x]", "<persisted-output>"]
)  # fmt: skip
VALUES = st.sampled_from([{}, {"a": [1, 2.5]}, Object(a=1), [], {"a": object()}, "x", None, {3: 4}])
FOREIGN = {
    "foreign": st.sampled_from([{"openai_chat": {}}, {"gemini": {}}, {}, Object(openai_chat=1), 5])
}
PARTS = st.one_of(WORDS, st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": WORDS}, optional={"more": VALUES, **FOREIGN}), max_size=2))  # fmt: skip
CACHED = {"cache_control": st.just({"type": "ephemeral"}), "citations": st.just([]), **FOREIGN}


def block(kind: str, optional: Any = None, **known: Any) -> Any:
    return st.fixed_dictionaries({"type": st.just(kind), **known}, optional=optional or CACHED)


CALL = block(
    "tool_use",
    CACHED,
    id=IDS,
    name=st.sampled_from(["Read", "", Text("Read"), 5]),
    input=VALUES,
)
GOOD_CALL = block(
    "tool_use",
    FOREIGN,
    id=st.sampled_from(["t1", "t2", "t4"]),
    name=st.just("Read"),
    input=st.just({"a": 1}),
)
RESULT = block("tool_result", {**CACHED, "is_error": st.booleans()}, tool_use_id=IDS, content=PARTS)
GOOD_RESULT = block("tool_result", FOREIGN, tool_use_id=st.sampled_from(["open", "open2"]), content=st.sampled_from(["fine", [{"type": "text", "text": "fine"}]]))  # fmt: skip
SAID = block("text", text=WORDS)
THOUGHT = st.one_of(
    block("thinking", thinking=WORDS, signature=WORDS),
    block("thinking", FOREIGN, thinking=WORDS),
    block("redacted_thinking", data=WORDS),
)
MISSING = st.sampled_from(
    [
        {"type": "text"},
        {"type": "tool_use"},
        {"type": "tool_result"},
        {},
        5,
        Object(type="text", text="x"),
    ]
)
BLOCKS = st.one_of(GOOD_CALL, GOOD_RESULT, CALL, RESULT, SAID, THOUGHT, MISSING, block("image"))
GOOD_WORDS = st.just({"type": "text", "text": "fine"})
MORE = {
    "id": IDS,
    "type": st.sampled_from(["message", Text("message"), "user", None]),
    "usage": st.just({"input_tokens": 3}),
    "stop_reason": st.none(),
    "uuid": IDS,
    **FOREIGN,
}


def messages(role: Any, content: Any, *more: str) -> Any:
    optional = {name: MORE[name] for name in more}
    return st.fixed_dictionaries({"role": role, "content": content}, optional=optional)


def some(*each: Any) -> Any:
    return st.lists(st.one_of(*each), min_size=1, max_size=3)


CONTENT = st.one_of(WORDS, some(BLOCKS), some(BLOCKS).map(Items), st.just([]), st.just((1,)))
ROLES = st.sampled_from(["user", "assistant", "system", Text("user"), 5])
MESSAGES = st.one_of(
    messages(st.just("assistant"), some(GOOD_CALL, GOOD_WORDS), "id", "foreign"),
    messages(st.just("user"), some(GOOD_RESULT, GOOD_WORDS), "stop_reason"),
    messages(st.just("assistant"), some(GOOD_CALL, CALL, THOUGHT), "usage"),
    messages(st.just("user"), some(GOOD_RESULT, RESULT, SAID), *MORE),
    messages(ROLES, CONTENT, *MORE),
    st.fixed_dictionaries({}, optional={"role": ROLES, "content": CONTENT}),
    st.sampled_from([None, [], "x", Object(role="user", content="x")]),
)


def outcome(act: Any, *args: Any) -> Any:
    try:
        return act(*args)
    except UllageError as error:
        return type(error), str(error)


def held(ledger: Any) -> Any:
    return [(ledger.message(at), ledger.blocks(at)) for at in range(len(ledger))]


def reading(message: Any) -> Any:
    """What is known of a message that is plain."""
    blocks = message["content"] if isinstance(message["content"], list) else []
    names = [each[key] for each in blocks for key in ("id", "tool_use_id") if key in each]
    results = [each["content"] for each in blocks if each["type"] == "tool_result"]
    chars = [
        sum(len(part["text"]) + 2 for part in parts) if isinstance(parts, list) else len(parts)
        for parts in results
    ]
    return message["role"] == "assistant", names, max(chars, default=0), sum(chars)


@settings(max_examples=400, deadline=None)
@given(MESSAGES, st.sampled_from(["", "", "openai_chat"]), st.booleans())
def test_a_plain_message_is_read_as_it_is(message: Any, own: str, odd: bool) -> None:
    calls: dict[str, Any] = {"open": None, "open2": "r", "done": None, "t2": None}
    if odd:
        calls[Text("t4")] = None
    ours, theirs = core.Ledger(), twin.Ledger()
    plain = outcome(ours.append_plain, message, calls, {"done"}, own)
    assert theirs.append_plain(message, calls, {"done"}, own) is None
    assert len(ours) == (plain is not None and plain[0] in (True, False))
    if plain is not None:
        said = outcome(theirs.append, message)
        assert plain == (reading(message) if said == 1 else said)
        assert held(ours) == held(theirs)


def sent(messages: Any) -> Any:
    manager = ContextManager(model="claude-opus-4-5")
    errors = [outcome(manager.add, message) for message in messages]
    request = outcome(manager.prepare)
    if isinstance(request, tuple):
        return errors, request
    return errors, request.messages, request.tokens, request.repairs, manager.usage()


@settings(max_examples=150, deadline=None)
@given(st.lists(MESSAGES, max_size=7))
def test_a_plain_message_is_sent_as_after_a_second_look(messages: Any) -> None:
    fast = sent(messages)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Machine, "_take_plain", lambda *_: False)
        assert sent(messages) == fast


def test_what_is_known_of_a_plain_message() -> None:
    call = {"type": "tool_use", "id": "a", "name": "Read", "input": {"path": "x"}}
    results = [
        {"type": "tool_result", "tool_use_id": name, "content": name * 3} for name in ("a", "bb")
    ]
    ledger = core.Ledger()
    said, given_ = {"role": "assistant", "content": [call]}, {"role": "user", "content": results}
    assert ledger.append_plain(said, {}, set()) == (True, ["a"], 0, 0)
    assert ledger.append_plain(said, {"a": None}, set()) is None
    assert ledger.append_plain(given_, {"a": None}, set()) is None
    assert ledger.append_plain(given_, {"a": None, "bb": None}, {"bb"}) is None
    assert ledger.append_plain(given_, {"a": None, "bb": None}, set()) == (False, ["a", "bb"], 6, 9)
    twice = {"role": "user", "content": [results[0], results[0]]}
    assert ledger.append_plain(twice, {"a": None}, set()) is None
    assert len(ledger) == 2


def test_a_result_of_an_odd_id_is_plain_in_forms_that_have_such_ids() -> None:
    result = {"type": "tool_result", "tool_use_id": "Read:3", "content": "no"}
    ledger, message = core.Ledger(), {"role": "user", "content": [result]}
    assert ledger.append_plain(message, {"Read:3": None}, set()) is None
    plain = ledger.append_plain(message, {"Read:3": None}, set(), "openai_chat")
    assert plain == (False, ["Read:3"], 2, 2)
