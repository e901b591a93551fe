"""Both engines take the same messages for plain, say the same of them, and hold the same afterwards."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from ullage import _reference as twin
from ullage.exceptions import UllageError

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


def outcome(ledger: Any, *args: Any) -> Any:
    try:
        return ledger.append_plain(*args)
    except UllageError as error:
        return type(error), str(error)


def held(ledger: Any) -> Any:
    return [(ledger.message(at), ledger.blocks(at)) for at in range(len(ledger))]


@settings(max_examples=400, deadline=None)
@given(MESSAGES, st.sampled_from(["", "", "openai_chat"]), st.booleans())
def test_the_same_messages_are_plain(message: Any, own: str, odd: bool) -> None:
    calls: dict[str, Any] = {"open": None, "open2": "r", "done": None, "t2": None}
    if odd:
        calls[Text("t4")] = None
    ledgers = [engine.Ledger() for engine in (core, twin)]
    ours, theirs = (outcome(ledger, message, calls, {"done"}, own) for ledger in ledgers)
    assert ours == theirs
    assert held(ledgers[0]) == held(ledgers[1])
    assert len(ledgers[0]) == (isinstance(ours, tuple) and ours[0] in (True, False))


@pytest.mark.parametrize("engine", [core, twin])
def test_what_is_known_of_a_plain_message(engine: Any) -> None:
    call = {"type": "tool_use", "id": "a", "name": "Read", "input": {"path": "x"}}
    results = [
        {"type": "tool_result", "tool_use_id": name, "content": name * 3} for name in ("a", "bb")
    ]
    ledger = engine.Ledger()
    said, given_ = {"role": "assistant", "content": [call]}, {"role": "user", "content": results}
    assert ledger.append_plain(said, {}, set()) == (True, ["a"], 0, 0)
    assert ledger.append_plain(said, {"a": None}, set()) is None
    assert ledger.append_plain(given_, {"a": None}, set()) is None
    assert ledger.append_plain(given_, {"a": None, "bb": None}, {"bb"}) is None
    assert ledger.append_plain(given_, {"a": None, "bb": None}, set()) == (False, ["a", "bb"], 6, 9)
    twice = {"role": "user", "content": [results[0], results[0]]}
    assert ledger.append_plain(twice, {"a": None}, set()) is None
    assert len(ledger) == 2
