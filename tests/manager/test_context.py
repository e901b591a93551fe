"""The context manager: long sessions stay within the window, legal, with a stable prefix (CTX-1)."""

from __future__ import annotations

import copy

import anyio
import pytest

from tests.kit.transcripts import session_287k
from tests.oracle.legality import assert_legal
from ullage.counting.window import NoTriggerWarning
from ullage.exceptions import ContextTooLarge, InvalidPolicy
from ullage.manager import ContextManager
from ullage.policy import Policy
from ullage.recall.store import MemoryStore
from ullage.testing import conversation

pytestmark = pytest.mark.both_engines

MODEL = "claude-opus-4-5"


def is_request(messages: list[dict], at: int) -> bool:
    return messages[at]["role"] == "user" and (
        at + 1 == len(messages) or messages[at + 1]["role"] == "assistant"
    )


def play(manager: ContextManager, messages: list[dict]) -> list:
    requests = []
    for at, message in enumerate(messages):
        manager.add(message)
        if is_request(messages, at):
            requests.append(manager.prepare())
    return requests


@pytest.mark.parametrize(
    "policy", [Policy.buffered(), Policy.ladder()], ids=lambda policy: policy.preset
)
def test_a_long_session_fits_stays_legal_and_keeps_its_prefix(policy):
    messages = session_287k(5).messages
    before = copy.deepcopy(messages)
    manager = ContextManager(model=MODEL, policy=policy, store=MemoryStore())
    requests = play(manager, messages)
    assert messages == before
    assert manager.history == messages
    previous: list = []
    for request in requests:
        assert request.tokens <= 200_000
        rewritten = [
            report.first_changed for report in request.reports if report.first_changed is not None
        ]
        rewritten += [0] if request.compaction is not None and request.compaction.compacted else []
        same = min([len(previous), *rewritten])
        assert request.messages[:same] == previous[:same]
        previous = request.messages
    for request in requests[:: max(1, len(requests) // 12)]:
        assert_legal("anthropic", request.messages, model=MODEL)


def test_nothing_happens_to_a_short_conversation():
    manager = ContextManager(model=MODEL)
    messages = conversation(3, tokens=4_000)
    request = play(manager, messages)[-1]
    assert request.compaction is None
    assert all(sent is given for sent, given in zip(request.messages, messages, strict=True))


def test_decide_says_why():
    manager = ContextManager(
        model=MODEL, policy=Policy.buffered().change({"auto.reactive_only": True})
    )
    assert "refusal" in manager.decide().why
    assert "of 167,000" in ContextManager(model=MODEL).decide().why


def test_overflow_makes_room_and_other_errors_do_not():
    manager = ContextManager(model=MODEL)
    for message in conversation(3, tokens=60_000):
        manager.add(message)
    before = manager.usage().tokens
    assert not manager.on_overflow("429 rate limit exceeded")
    assert manager.usage().tokens == before
    assert manager.on_overflow("prompt is too long: 213462 tokens > 200000 maximum")
    assert manager.usage().tokens < before
    assert_legal("anthropic", manager.prepare().messages, model=MODEL)


def test_a_window_smaller_than_the_protected_part_is_one_typed_error():
    with pytest.warns(NoTriggerWarning):
        manager = ContextManager(model=MODEL, system="rules " * 500_000)
    manager.add({"role": "user", "content": "hello"})
    with pytest.raises(ContextTooLarge) as caught:
        manager.prepare()
    assert caught.value.parts["system and tools"] > 200_000


def test_failures_open_the_breaker_and_manual_still_works():
    def broken(request: object) -> str:
        raise RuntimeError("down")

    policy = Policy.buffered().change({"summary.retries": 0, "auto.start_percent": 1})
    manager = ContextManager(model=MODEL, policy=policy, summarizer=broken)
    for message in conversation(3, tokens=30_000):
        manager.add(message)
    for _ in range(4):
        manager.prepare()
    # An automatic compaction falls back to the extractive summary, so the loop never sees the failure.
    assert manager.usage().tokens < 20_000 or "failures" in manager.decide().why


def test_the_asynchronous_way_gives_the_same():
    messages = conversation(9, tokens=230_000, ending="loop")

    async def play_async() -> list:
        manager = ContextManager(model=MODEL)
        for message in messages:
            manager.add(message)
        return (await manager.aprepare()).messages

    manager = ContextManager(model=MODEL)
    for message in messages:
        manager.add(message)
    assert anyio.run(play_async) == manager.prepare().messages


def test_two_sessions_interleaved_are_as_two_alone():
    first, second = conversation(1, tokens=30_000), conversation(2, tokens=30_000)
    a, b = ContextManager(model=MODEL), ContextManager(model=MODEL)
    for left, right in zip(first, second, strict=False):
        a.add(left)
        b.add(right)
    alone = ContextManager(model=MODEL)
    for left in first[: len(a.history)]:
        alone.add(left)
    assert a.prepare().messages == alone.prepare().messages


def test_notes_that_are_on_without_a_keeper_are_reported():
    policy = Policy.buffered().change({"session_memory.enabled": True})
    with pytest.raises(InvalidPolicy) as caught:
        ContextManager(model="claude-opus-4-5", policy=policy)
    assert caught.value.field == "session_memory.enabled"
    assert "memory=" in caught.value.hint
