"""What a context manager says of itself: usage, decisions with their why, the account, recovery from refusals."""

from __future__ import annotations

import pytest

from tests.kit.transcripts import session_287k
from tests.oracle.legality import assert_legal
from ullage import ContextManager
from ullage.exceptions import ContextTooLarge, InvalidPolicy
from ullage.policy import Policy
from ullage.recall.store import MemoryStore
from ullage.testing import conversation

pytestmark = pytest.mark.both_engines

MODEL = "claude-opus-4-5"
REFUSED = "prompt is too long: 213462 tokens > 200000 maximum"


def filled(tokens: int, seed: int = 3, **options: object) -> ContextManager:
    manager = ContextManager(model=MODEL, **options)
    for message in conversation(seed, tokens=tokens):
        manager.add(message)
    return manager


def play(manager: ContextManager, messages: list[dict]) -> list:
    requests = []
    for at, message in enumerate(messages):
        manager.add(message)
        last = at + 1 == len(messages)
        if message["role"] == "user" and (last or messages[at + 1]["role"] == "assistant"):
            requests.append(manager.prepare())
    return requests


def say(manager: ContextManager, tokens: int, number: int) -> None:
    usage = {"input_tokens": tokens, "output_tokens": 10}
    answer = {"role": "assistant", "content": f"answer {number}", "id": f"m{number}"}
    manager.observe({**answer, "usage": usage})
    manager.add({"role": "user", "content": f"question {number}"})


# ---- usage


def test_categories_add_up_to_what_is_estimated():
    manager = filled(30_000, system="be brief " * 50, tools=[{"name": "Read", "input_schema": {}}])
    usage = manager.usage()
    assert sum(usage.by_category.values()) == usage.tokens
    assert usage.by_category["system"] > 50
    assert {"user", "assistant", "tool calls", "tool results", "tools"} <= set(usage.by_category)
    assert usage.low <= usage.tokens <= usage.high


def test_categories_follow_what_levels_do():
    manager = ContextManager(model=MODEL, policy=Policy.ladder(), store=MemoryStore())
    shown = play(manager, session_287k(5).messages)
    now = manager.usage().by_category
    fresh = ContextManager.restore(manager.save(), manager.history).usage().by_category
    assert now == fresh
    assert {"summaries", "shortened results"} & set(now)
    assert now == manager.explain(shown[-1].number).by_category


def test_a_reported_figure_is_the_ground_and_a_correction_is_learned():
    manager = ContextManager(model=MODEL)
    manager.add({"role": "user", "content": "begin"})
    total, text = 20_000, "some words of a long text " * 400
    plain = ContextManager(model=MODEL)
    plain.add({"role": "user", "content": text})
    step = plain.usage().tokens
    for number in range(6):
        say(manager, total, number)
        assert manager.usage().reported
        manager.add({"role": "user", "content": text})
        total += 10 + round(step * 1.4)
    found = manager.machine.correction
    assert found.known
    assert 1_300 < found.permille < 1_450
    before = manager.usage().tokens
    manager.add({"role": "user", "content": text})
    assert 1.3 * step < manager.usage().tokens - before < 1.45 * step


def test_a_figure_does_not_outlive_a_compaction():
    manager = filled(60_000)
    say(manager, 150_000, 1)
    assert manager.usage().tokens > 150_000
    manager.compact()
    assert not manager.usage().reported
    assert manager.usage().tokens < 60_000
    say(manager, 31_000, 2)
    assert 31_000 < manager.usage().tokens < 31_500


def test_what_was_cleared_comes_off_the_reported_figure():
    manager = filled(60_000, policy=Policy.ladder().change({"auto.enabled": False}))
    say(manager, 130_000, 1)
    before = manager.usage().tokens
    request = manager.prepare()
    freed = sum(report.freed for report in request.reports)
    assert freed > 5_000
    assert request.tokens == before - freed


# ---- decisions


def test_decide_may_be_asked_in_the_middle_of_a_tool_loop_and_changes_nothing():
    manager = ContextManager(model=MODEL)
    for message in conversation(6, tokens=20_000, ending="open"):
        before = manager.save()
        decided = manager.decide()
        assert (decided.code, decided.compact) == ("below", False)
        assert f"{decided.tokens:,} of 167,000" in decided.why
        assert manager.save() == before
        manager.add(message)


@pytest.mark.parametrize(
    ("changes", "options", "code"),
    [
        ({"auto.enabled": False}, {}, "off"),
        ({"auto.reactive_only": True}, {}, "reactive_only"),
        ({"collapse.enabled": True}, {}, "collapse"),
        ({}, {"source": "session_memory"}, "source"),
        ({}, {"source": "compact"}, "source"),
        ({}, {"source": "subagent"}, "due"),
        ({}, {}, "due"),
    ],
)
def test_each_reason_has_a_code(changes, options, code):
    policy = Policy.buffered().change({**changes, "auto.start_percent": 5})
    decided = filled(20_000, policy=policy, **options).decide()
    assert (decided.code, decided.compact) == (code, code == "due")
    assert decided.why


def test_three_failures_open_the_breaker_and_a_success_closes_it():
    def broken(request: object) -> str:
        raise RuntimeError("down")

    policy = Policy.buffered().change(
        {"summary.retries": 0, "auto.start_percent": 5, "truncate.start_percent": 100}
    )
    manager = filled(30_000, policy=policy, summarizer=broken, fallback=broken)
    for number in range(1, 4):
        assert manager.decide().compact
        manager.prepare()
        assert manager.machine.tracking.failures == number
    assert manager.decide().code == "failures"
    tried = manager.machine.tracking.failures
    manager.prepare()
    assert manager.machine.tracking.failures == tried
    other = ContextManager.restore(manager.save(), manager.history)
    assert other.decide().code == "failures"
    other.compact()
    assert other.machine.tracking.failures == 0
    assert other.decide().code in ("due", "below")


def test_full_again_and_again_stops_with_what_fills_it():
    policy = Policy.buffered().change({"auto.start_percent": 15, "truncate.start_percent": 100})
    manager = ContextManager(model=MODEL, policy=policy)
    manager.add({"role": "user", "content": "begin"})
    for number in range(12):
        manager.observe({"role": "assistant", "content": f"part {number} " + "word " * 20_000})
        manager.add({"role": "user", "content": "and then?"})
        manager.prepare()
    decided = manager.decide()
    assert decided.code == "refills"
    assert "3 times in a row" in decided.why
    assert decided.fills["assistant"] > 20_000
    assert manager.machine.tracking.compactions == 4
    manager.compact()
    assert manager.decide().code != "refills"


# ---- the account


def test_every_message_is_in_the_request_or_in_the_account_once():
    policy = Policy.ladder().change({"auto.start_percent": 50})
    manager = ContextManager(model=MODEL, policy=policy, store=MemoryStore())
    requests = play(manager, session_287k(2).messages)
    left = [
        at for report in manager.explain().left for span in report.removed for at in range(*span)
    ]
    kept = [source for source in manager.machine.view.sources if isinstance(source, int)]
    assert sorted(left + kept) == list(range(len(manager.history)))
    assert len(set(left)) == len(left) > 0
    account = manager.explain(requests[-1].number)
    assert account.request.messages == len(requests[-1].messages)
    assert "autocompact took messages" in str(account)
    assert not manager.explain(1).left
    assert all(report.why and report.request for report in account.left)
    with pytest.raises(InvalidPolicy):
        manager.explain(10_000)


def test_a_request_stays_what_it_was():
    manager = ContextManager(model=MODEL, policy=Policy.ladder(), store=MemoryStore())
    requests = play(manager, session_287k(5).messages)
    again = ContextManager(model=MODEL, policy=Policy.ladder(), store=MemoryStore())
    messages = session_287k(5).messages
    at = 0
    for request in requests:
        while at < request_end(manager, request):
            again.add(messages[at])
            at += 1
        assert again.prepare().messages == request.messages


def request_end(manager: ContextManager, request: object) -> int:
    return manager.explain(request.number).request.history


# ---- refusals


def refuse_until_it_ends(manager: ContextManager, steps: list[str]) -> None:
    for _ in range(9):
        steps.append(manager.on_overflow(REFUSED).step)
        assert_legal("anthropic", manager.messages, model=MODEL)


def test_a_refusal_is_answered_once_by_each_step_and_ends():
    manager = filled(60_000)
    manager.prepare()
    steps: list[str] = []
    with pytest.raises(ContextTooLarge) as caught:
        refuse_until_it_ends(manager, steps)
    assert steps[0] == "compact"
    assert len(set(steps)) == len(steps)
    assert caught.value.floor_tokens < 60_000
    # Another request may be refused again.
    manager.prepare()
    for number in range(40):
        manager.add({"role": "assistant", "content": f"part {number} " + "word " * 900})
        manager.add({"role": "user", "content": "go on"})
    assert manager.on_overflow(REFUSED)


def test_a_limit_in_a_refusal_is_learned():
    manager = filled(60_000)
    found = manager.on_overflow("prompt is too long: 213462 tokens > 180000 maximum")
    assert found.learned_limit == 180_000
    assert manager.window.context == 180_000
    assert manager.decide().limit_tokens == 147_000
    assert manager.on_overflow("prompt is too long: 213462 tokens > 500000 maximum") is not None
    assert manager.window.context == 180_000


def test_other_errors_make_no_room():
    manager = filled(20_000)
    before = manager.save()
    found = manager.on_overflow("429 rate limit exceeded")
    assert not found
    assert found.kind == "rate_limit"
    assert manager.save() == before


def test_compaction_that_is_off_altogether_leaves_an_error_that_says_so():
    from ullage.counting.window import WindowSettings

    manager = filled(60_000, settings=WindowSettings(disable_compact=True))
    before = list(manager.messages)
    with pytest.raises(ContextTooLarge) as caught:
        manager.on_overflow(REFUSED)
    assert "DISABLE_COMPACT" in caught.value.hint
    assert list(manager.messages) == before


# ---- pins


def test_pins_survive_compactions_and_go_by_name():
    manager = filled(60_000)
    manager.pin("tone", "answer in French")
    manager.pin("first", manager.history[0])
    manager.compact()
    sent = str(manager.messages)
    assert "answer in French" in sent
    assert manager.pins()["tone"][1] > 0
    manager.unpin("tone")
    assert list(manager.pins()) == ["first"]
    with pytest.raises(InvalidPolicy):
        manager.unpin("tone")


def test_a_pinned_text_that_was_never_said_waits_for_the_next_change():
    manager = filled(60_000)
    before = manager.prepare().messages
    manager.pin("tone", "answer in French")
    assert manager.prepare().messages == before
    manager.compact()
    assert "answer in French" in str(manager.prepare().messages)


def test_a_pinned_text_that_a_level_takes_is_put_back_once_and_legally():
    secret = "the token bucket holds 4711 entries"
    output = "line\n" * 3_000 + secret + "\n" + "line\n" * 3_000
    policy = Policy.buffered().change({"snip.start_percent": 0, "snip.on_arrival": True})
    manager = ContextManager(model=MODEL, policy=policy)
    call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "cat"}}
    manager.add({"role": "user", "content": "look"})
    manager.add({"role": "assistant", "content": [call]})
    result = {"type": "tool_result", "tool_use_id": "t1", "content": output}
    manager.add({"role": "user", "content": [result]})
    manager.pin("bucket", secret)
    request = manager.prepare()
    assert [report.stage for report in request.reports] == ["snip", "pins"]
    assert str(request.messages).count(secret) == 1
    assert_legal("anthropic", request.messages, model=MODEL)
    manager.observe({"role": "assistant", "content": "I see"})
    manager.add({"role": "user", "content": "go on"})
    again = manager.prepare()
    assert not again.reports
    assert again.messages[: len(request.messages)] == request.messages


def test_pins_survive_truncation():
    manager = filled(60_000)
    manager.pin("rule", "never push to main")
    manager.prepare()
    assert manager.on_overflow("prompt is too long: 213462 tokens > 1500 maximum") is not None
    request = manager.prepare()
    assert "never push to main" in str(request.messages)
    assert_legal("anthropic", request.messages, model=MODEL)


def test_the_environments_settings_hold_for_a_manager(monkeypatch):
    monkeypatch.setenv("CLAUDE_CODE_AUTO_COMPACT_WINDOW", "100000")
    assert ContextManager(model=MODEL).decide().limit_tokens == 67_000
    monkeypatch.setenv("DISABLE_AUTO_COMPACT", "yes")
    manager = filled(60_000)
    assert manager.decide().code == "off"
    assert manager.compact().compacted
    monkeypatch.setenv("DISABLE_COMPACT", "1")
    manager = filled(60_000)
    before = manager.save()
    result = manager.compact()
    assert (result.outcome.value, result.reason) == ("blocked", "disabled")
    assert manager.save() == before
