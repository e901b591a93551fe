"""Saving and restoring a conversation: what follows equals what would have followed without it."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given, settings, strategies as st

from tests.oracle.legality import assert_legal
from ullage import ContextManager
from ullage.exceptions import InvalidPolicy
from ullage.policy import Policy
from ullage.recall.store import MemoryStore
from ullage.testing import conversation, scenario

pytestmark = pytest.mark.both_engines

MODEL = "claude-opus-4-5"
SMALL = {"auto.start_percent": 6, "micro.min_freed_tokens": 0, "snip.max_chars": 2_000}


def policy_of(name: str) -> Policy:
    return (Policy.ladder() if name == "ladder" else Policy.buffered()).change(SMALL)


def is_request(messages: list[dict], at: int) -> bool:
    return messages[at]["role"] == "user" and (
        at + 1 == len(messages) or messages[at + 1]["role"] == "assistant"
    )


def turn(manager: ContextManager, messages: list[dict], at: int) -> tuple | None:
    message = messages[at]
    if message["role"] == "assistant":
        usage = {"input_tokens": 1_000 + 700 * at, "output_tokens": 50}
        manager.observe({**message, "id": f"msg_{at}", "usage": usage} if at % 3 == 1 else message)
    else:
        manager.add(message)
    if not is_request(messages, at):
        return None
    request = manager.prepare(now_ms=at)
    return request.messages, request.tokens, request.reports, request.rewritten_from


def back(saved: dict) -> dict:
    return orjson.loads(orjson.dumps(saved))


@settings(max_examples=8, deadline=None)
@given(
    seed=st.integers(0, 50),
    cut=st.integers(1, 60),
    preset=st.sampled_from(["buffered", "ladder"]),
    inside=st.booleans(),
)
def test_the_restored_one_goes_on_as_the_saved_one_would(seed, cut, preset, inside):
    messages = conversation(seed, tokens=18_000)
    cut = min(cut, len(messages) - 1)
    store = MemoryStore()
    outside = {"store": store, "clock": lambda: 1_700_000_000_000}
    first = ContextManager(model=MODEL, policy=policy_of(preset), **outside)
    for at in range(cut):
        turn(first, messages, at)
    saved = back(first.save(history=inside))
    second = ContextManager.restore(saved, None if inside else first.history, **outside)
    assert second.save() == first.save()
    assert second.policy == first.policy
    assert second.decide() == first.decide()
    assert second.machine.reports == first.machine.reports
    for at in range(cut, len(messages)):
        assert turn(second, messages, at) == turn(first, messages, at)
    assert second.save() == first.save()
    assert str(second.explain()) == str(first.explain())


def test_a_compacted_conversation_its_pins_and_its_learned_window_come_back():
    manager = ContextManager(model=MODEL)
    for message in conversation(4, tokens=60_000):
        manager.add(message)
    manager.pin("rule", "never push to main")
    manager.prepare()
    assert manager.on_overflow("prompt is too long: 213462 tokens > 150000 maximum")
    manager.compact()
    other = ContextManager.restore(back(manager.save()), manager.history)
    assert other.window.context == 150_000
    assert other.pins() == manager.pins()
    assert other.machine.tracking == manager.machine.tracking
    assert other.prepare().messages == manager.prepare().messages
    assert "never push to main" in str(other.prepare().messages[0])


def test_a_history_that_goes_on_is_added_as_what_came_since():
    messages = conversation(2, tokens=8_000)
    manager = ContextManager(model=MODEL)
    for message in messages[:4]:
        manager.add(message)
    other = ContextManager.restore(manager.save(), messages)
    assert other.history == messages
    assert other.messages == messages


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"format": 99}, "saved.format"),
        ({"view": {}}, "saved.view"),
        ({"view": {"parts": [[0, 9_999]]}}, "saved.view"),
        ({"tracking": {"what": 1}}, "saved"),
        ({"correction": {}}, "correction"),
        ({"policy": None}, "saved"),
        ({"policy": {"preset": "ladder", "changes": 5}}, "saved"),
        ({"provider": {"name": "anthropic"}}, "provider"),
        ({"overhead": {"tools": {"a": 1}}}, "saved"),
        ({"overhead": 5}, "saved"),
        ({"uuids": [1]}, "saved"),
        ({"correction": 5}, "saved"),
        ({"outgoing": {"tracking": True, "seen": 1, "bound_thinking": False}}, "saved"),
        ({"followed": {"format": 1}}, "saved"),
        ({"count": None}, "saved"),
    ],
)
def test_what_is_no_saved_state_is_named(change, field):
    manager = ContextManager(model=MODEL)
    manager.add({"role": "user", "content": "hello"})
    saved = {**back(manager.save(history=True)), **change}
    with pytest.raises(InvalidPolicy) as caught:
        ContextManager.restore(saved)
    assert caught.value.field == field


def test_another_history_is_refused():
    manager = ContextManager(model=MODEL)
    manager.add({"role": "user", "content": "hello"})
    for history in ([], [{"role": "user", "content": "another"}]):
        with pytest.raises(InvalidPolicy) as caught:
            ContextManager.restore(manager.save(), history)
        assert caught.value.field == "history"
    with pytest.raises(InvalidPolicy) as caught:
        ContextManager.restore(manager.save())
    assert caught.value.hint


@pytest.mark.parametrize("cut", [9, 21, 33])
def test_thinking_that_is_bound_to_its_prefix_is_as_legal_after_a_restore(cut):
    session = scenario(11, tokens=14_000, model="claude-opus-5-5")
    policy = policy_of("ladder").change({"snip.start_percent": 0, "snip.max_chars": 1_000})
    outside = {"system": session.system, "tools": session.tools, "clock": lambda: 1_700_000_000_000}
    first = ContextManager(model="claude-opus-5-5", policy=policy, **outside)
    messages = session.messages
    for at in range(min(cut, len(messages) - 1)):
        turn(first, messages, at)
    second = ContextManager.restore(back(first.save()), first.history, **outside)
    for at in range(len(first.history), len(messages)):
        assert turn(second, messages, at) == turn(first, messages, at)
    assert second.save() == first.save()


def test_an_imported_session_that_is_cut_before_its_first_request_is_legal():
    session = scenario(11, tokens=30_000, model="claude-opus-5-5")
    for act in ("compact", "on_overflow"):
        manager = ContextManager(
            model="claude-opus-5-5", system=session.system, tools=session.tools
        )
        for message in session.messages:
            manager.add(message)
        if act == "compact":
            manager.compact()
        else:
            manager.on_overflow("prompt is too long: 213462 tokens > 20000 maximum")
        request = manager.prepare()
        assert_legal(
            "anthropic", request.messages, model="claude-opus-5-5", window=0,
            system=session.system, tools=list(session.tools), original=session.messages,
        )  # fmt: skip


def long_session(manager: ContextManager, rounds: int, words: int) -> None:
    for number in range(rounds):
        manager.add({"role": "user", "content": f"question {number}"})
        manager.prepare()
        call = {"type": "tool_use", "id": f"t{number}", "name": "bash", "input": {"command": f"c{number}"}}  # fmt: skip
        manager.observe({"role": "assistant", "content": [call]})
        shown = " ".join(f"w{number * at % 9973}" for at in range(words))
        manager.add({"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"t{number}", "content": shown}]})  # fmt: skip
        manager.prepare()
        manager.observe({"role": "assistant", "content": f"answer {number}"})
    manager.add({"role": "user", "content": "go on"})


def test_a_result_that_a_target_has_cut_stays_cut_in_what_goes_on_from_it(tmp_path):
    policy = Policy.buffered().change({"snip.on_arrival": True})
    path = tmp_path / "a.jsonl"
    manager = ContextManager(model="claude-opus-4-5", context_window=50_000, log=path, policy=policy)  # fmt: skip
    long_session(manager, 8, 3000)
    manager.compact(target_tokens=3000)
    copy = manager.fork()
    assert manager.usage().tokens == copy.usage().tokens <= 3000
    assert manager.prepare().messages == copy.prepare().messages
    manager.close()
    with ContextManager.resume(path) as resumed:
        assert resumed.usage().tokens <= 3000


def test_what_a_rewind_shows_again_keeps_its_times(tmp_path):
    now = [1_700_000_000_000]

    def clock() -> int:
        now[0] += 1000
        return now[0]

    policy = Policy.buffered().change(
        {"micro.by_time": True, "micro.keep_recent": 1, "micro.by_supersession": False, "cost.wait_requests": 0}
    )  # fmt: skip
    manager = ContextManager(model="claude-opus-4-5", policy=policy, log=tmp_path / "a.jsonl", clock=clock)  # fmt: skip
    long_session(manager, 50, 900)
    manager.compact(keep=0)
    manager.prepare()
    manager.rewind(200)
    manager.add({"role": "user", "content": "next"})
    manager.prepare()
    (tmp_path / "b.jsonl").write_bytes((tmp_path / "a.jsonl").read_bytes())
    with manager, ContextManager.resume(tmp_path / "b.jsonl", clock=clock) as resumed:
        now[0] += 3 * 3_600_000
        assert manager.prepare().messages == resumed.prepare().messages
