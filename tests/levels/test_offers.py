"""What a model learns about its context and may request, where it is offered."""

from __future__ import annotations

import json

import pytest

from tests.level_kit import act, context_of
from tests.oracle.legality import assert_legal
from ullage.levels import View, offers
from ullage.levels.offers import COMPACT_TOOL, CONTEXT_TOOL, Offers
from ullage.manager import ContextManager
from ullage.policy import Policy
from ullage.testing import conversation

MODEL = "claude-opus-4-5"
TELL = Policy.buffered().change({"offer.notice_percent": 50, "offer.notice_step_percent": 20})


def manager_with(tokens: int, **more: object) -> ContextManager:
    manager = ContextManager(model=MODEL, tools=[COMPACT_TOOL.definition()], **more)
    for message in conversation(4, tokens=tokens):
        manager.add(message)
    return manager


# ---- compaction on request


def test_a_compaction_that_the_model_asks_for_is_made_before_its_next_turn():
    manager = manager_with(140_000)
    manager.prepare()
    said = manager.answer("compact_context", {"instructions": "Keep the names."})
    assert not said.is_error
    request = manager.prepare()
    assert request.compaction.compacted
    assert [r.why for r in request.reports if r.stage == "autocompact"] == ["the model asked"]
    assert_legal("anthropic", request.messages, model=MODEL)
    assert manager.prepare().compaction is None


def test_it_must_free_enough_and_may_be_asked_for_so_often():
    short = manager_with(20_000)
    assert short.answer("compact_context", {}).is_error
    assert short.prepare().compaction is None
    none = manager_with(100_000, policy=Policy.buffered().change({"offer.compact_limit": 0}))
    assert none.answer("compact_context", {}).is_error
    manager = manager_with(100_000)
    view, state = manager.machine.view, Offers()
    answers = [
        offers.ask(None, view, Policy.buffered(), state, possible=True).is_error for _ in range(4)
    ]
    assert answers == [False, False, False, True]
    assert offers.ask({}, view, Policy.buffered(), Offers(), possible=False).is_error


def test_how_full_it_is():
    manager = manager_with(30_000)
    text = manager.answer(CONTEXT_TOOL.name, {"anything": 1}).text
    usage = manager.usage()
    assert f"{usage.tokens:,} of 200,000 tokens ({usage.percent} %)" in text


# ---- notices


def notices(view: View) -> list[str]:
    return [str(m["content"]) for m in view.messages if "context window is" in str(m["content"])]


def at(percent: int, state: Offers, view: View, policy: Policy = TELL) -> list[str]:
    view.add({"role": "assistant", "content": "ok"})
    view.add({"role": "user", "content": f"turn {len(view)} " + "word " * 300})
    act(offers.LEVEL, context_of(view, policy, state, percent=percent))
    view.mark_sent()
    return notices(view)


def test_each_mark_is_reported_once_and_stays():
    view, state = View(), Offers()
    counts = [len(at(percent, state, view)) for percent in (49, 50, 55, 69, 70, 71, 89, 90, 99)]
    assert counts == [0, 1, 1, 1, 2, 2, 2, 3, 3]
    assert "70 % full" in notices(view)[1]
    assert_legal("anthropic", view.messages[1:], model=MODEL)


def test_after_the_window_was_emptier_a_mark_counts_again():
    view, state = View(), Offers()
    assert [len(at(p, state, view)) for p in (72, 30, 55, 74)] == [1, 1, 2, 3]


@pytest.mark.parametrize("percent", [10, 99])
def test_off_by_default(percent):
    view = View()
    assert at(percent, Offers(), view, Policy.buffered()) == []


def test_what_was_sent_is_not_changed_for_a_notice():
    view, state = View(), Offers()
    view.add({"role": "user", "content": "word " * 300})
    view.mark_sent()
    act(offers.LEVEL, context_of(view, TELL, state, percent=80))
    assert notices(view) == []
    assert state.reported_percent == 0
    assert len(at(80, state, view)) == 1


def test_the_state_survives():
    state = Offers(reported_percent=70, asked="x", granted=2)
    assert Offers.load(json.loads(json.dumps(state.dump()))) == state
    assert state.take() == "x"
    assert state.take() is None
