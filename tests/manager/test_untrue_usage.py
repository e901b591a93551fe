"""Usage that cannot be true anchors nothing, in every door; and one size everywhere (CNT-9)."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from tests.kit import said, user
from ullage import ContextManager, Policy, compact, estimate_tokens
from ullage.counting.calibration import UntrueUsageWarning
from ullage.exceptions import ContextTooLarge
from ullage.observe.events import CompactionFinished, CompactionStarted

MODEL = "claude-opus-4-5"
WINDOW = 32_000
FIGURES = [
    {"input_tokens": 0, "output_tokens": 5},
    {"input_tokens": 1, "output_tokens": 5},
    {"input_tokens": 50, "output_tokens": 5},
    {"input_tokens": 300, "output_tokens": 5},
    {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
]


def turn(number: int, usage: dict[str, Any], words: int = 1_500) -> list[dict[str, Any]]:
    asked = user(f"part {number} " + "word " * words)
    return [asked, {**said("done " * 20), "id": f"r{number}", "usage": usage}]


def observed(manager: ContextManager, usage: dict[str, Any], turns: int) -> int:
    """The largest request of a loop, by the estimate."""
    largest = 0
    for number in range(turns):
        asked, answer = turn(number, usage)
        manager.add(asked)
        messages = manager.prepare().body["messages"]
        largest = max(largest, estimate_tokens(messages, model=MODEL))
        manager.observe(answer)
    return largest


def viewed(manager: ContextManager, usage: dict[str, Any], turns: int) -> int:
    """The same where a framework hands over its whole list."""
    given: list[dict[str, Any]] = []
    largest = 0
    for number in range(turns):
        asked, answer = turn(number, usage)
        given.append(asked)
        shown = manager.view(given)
        largest = max(largest, estimate_tokens(list(shown.messages), model=MODEL))
        given.append(answer)
    return largest


@pytest.mark.parametrize("usage", FIGURES)
@pytest.mark.parametrize("loop", [observed, viewed])
def test_untrue_usage_never_lets_a_request_outgrow_the_window(usage, loop):
    manager = ContextManager(model=MODEL, context_window=WINDOW)
    with pytest.warns(UntrueUsageWarning, match="cannot be true") as caught:
        largest = loop(manager, usage, 40)
    assert largest < WINDOW
    assert len([each for each in caught if each.category is UntrueUsageWarning]) == 1


def test_the_sum_with_cached_tokens_is_what_is_judged():
    """A provider that counts uncached tokens apart is right: the sum is the prompt."""
    manager = ContextManager(model=MODEL)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UntrueUsageWarning)
        for number in range(8):
            asked, answer = turn(number, {})
            manager.add(asked)
            manager.prepare()
            size = int(manager.machine.view.ledger.tokens())
            usage = {"input_tokens": 4, "cache_read_input_tokens": size, "output_tokens": 20}
            manager.observe({**answer, "usage": usage})
    assert manager.usage().tokens == size + 24


def cleared_by_provider(manager: ContextManager) -> int:
    for number in range(20):
        use = {"type": "tool_use", "id": f"t{number}", "name": "Read", "input": {"file_path": "/a"}}
        manager.add(user("go on")) if number == 0 else None
        manager.prepare()
        manager.observe({"role": "assistant", "content": [use], "id": f"r{number}"})
        result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "row " * 3_000}
        manager.add({"role": "user", "content": [result]})
    manager.prepare()
    edit = {
        "type": "clear_tool_uses_20250919",
        "cleared_tool_uses": 17,
        "cleared_input_tokens": 51_000,
    }
    manager.observe(
        {
            **said("done"),
            "id": "last",
            "usage": {"input_tokens": 10_000, "output_tokens": 5},
            "context_management": {"applied_edits": [edit]},
        }
    )
    return manager.usage().tokens


def test_what_the_provider_left_out_is_no_fault_of_its_figure():
    policy = Policy().change({"micro.by_provider": True})
    with warnings.catch_warnings():
        warnings.simplefilter("error", UntrueUsageWarning)
        assert cleared_by_provider(ContextManager(model=MODEL, policy=policy)) == 10_005


def test_messages_that_are_removed_later_do_not_make_a_figure_true():
    manager = ContextManager(model=MODEL, context_window=WINDOW)
    asked, answer = turn(0, {"input_tokens": 1_000, "output_tokens": 1}, words=8_000)
    manager.add(asked)
    with pytest.warns(UntrueUsageWarning):
        manager.observe(answer)
    manager.add(user("next"))
    assert not manager.usage().reported
    assert manager.usage().tokens > 8_000


def test_a_list_is_compacted_by_the_estimate_and_says_so():
    items = [each for n in range(12) for each in turn(n, {"input_tokens": 40, "output_tokens": 2})]
    report = compact(items, model=MODEL, keep=0).report
    assert report.tokens_before == estimate_tokens(items, model=MODEL)
    assert report.overhead_tokens == 0
    assert report.warnings == ("usage_set_aside:42",)


def test_a_list_that_another_model_went_on_with_is_no_larger_after_than_before():
    """The first figures say more of system prompt and tools than the newest says of everything."""
    figures = [*[36_000 + 600 * at for at in range(12)], 12_000]
    items = [
        each
        for at, figure in enumerate(figures)
        for each in turn(at, {"input_tokens": figure, "output_tokens": 20}, words=1_000)
    ]
    report = compact(items, model=MODEL, keep=0).report
    assert report.tokens_before == 12_020
    assert report.overhead_tokens == 0
    assert report.tokens_after < report.tokens_before


# ---- one size ------------------------------------------------------------------------------------


def reported(ratio: float, turns: int = 20) -> tuple[ContextManager, list[Any]]:
    """A manager whose provider counts so many times the estimate."""
    events: list[Any] = []
    manager = ContextManager(model=MODEL, listeners=[events.append])
    for number in range(turns):
        asked, answer = turn(number, {}, words=800)
        manager.add(asked)
        manager.prepare()
        size = int(manager.machine.view.ledger.tokens())
        usage = {"input_tokens": int(size * ratio), "output_tokens": int(20 * ratio)}
        manager.observe({**answer, "usage": usage})
    return manager, events


@pytest.mark.parametrize("ratio", [0.7, 1.0, 1.6])
def test_one_size_triggers_and_is_reported(ratio):
    manager, events = reported(ratio)
    size = manager.usage().tokens
    assert manager.decide().tokens == size
    result = manager.compact(target_tokens=6_000)
    assert result.report.tokens_before == size
    assert result.boundary["compactMetadata"]["preTokens"] == size
    assert f"{size:,} tokens before" in result.user_notice
    told = [e for e in events if isinstance(e, CompactionStarted | CompactionFinished)]
    assert [each.tokens_before for each in told] == [size, size]
    # A named target is one of the provider's tokens, and the next look finds what was reported.
    assert 5_000 < result.report.messages_after <= 6_000
    assert manager.usage().tokens == result.report.tokens_after


# ---- the last resorts wait where the host does ------------------------------------------------------


def full(tokens: int, policy: Policy | None) -> tuple[ContextManager, list[str]]:
    manager = ContextManager(model=MODEL, policy=policy)
    while manager.usage().tokens < tokens:
        manager.add(user("part " + "word " * 1_500))
        manager.add(said("done " * 50))
    manager.add(user("next"))
    return manager, [each.stage for each in manager.prepare().reports]


@pytest.mark.parametrize("by_environment", [False, True])
def test_nothing_loses_text_before_the_refusal_where_the_host_waits_for_it(
    by_environment, monkeypatch
):
    policy = None if by_environment else Policy().change({"auto.reactive_only": True})
    if by_environment:
        monkeypatch.setenv("DISABLE_AUTO_COMPACT", "1")
    manager, stages = full(193_000, policy)
    assert stages == []
    assert (
        manager.on_overflow("prompt is too long: 213462 tokens > 200000 maximum").step == "compact"
    )
    manager, stages = full(201_000, policy)
    assert stages
    assert manager.usage().tokens <= 200_000


def test_a_refusal_with_compaction_off_names_the_window(monkeypatch):
    monkeypatch.setenv("DISABLE_COMPACT", "1")
    manager = ContextManager(model=MODEL)
    for _ in range(60):
        manager.add(user("word " * 4_500))
        manager.add(said("done"))
    with pytest.raises(ContextTooLarge, match="the window leaves 200,000"):
        manager.on_overflow("prompt is too long")


# ---- a summarizer that is dead ---------------------------------------------------------------------


def test_a_dead_summarizer_rests_while_code_writes():
    calls: list[int] = []

    def dead(request: Any) -> str:
        calls.append(manager.machine.tracking.compactions)
        raise ConnectionError("down")

    policy = Policy().change({"summary.retries": 0})
    manager = ContextManager(model=MODEL, context_window=30_000, summarizer=dead, policy=policy)
    reports = []
    for number in range(120):
        manager.add(user(f"part {number} " + "word " * 900))
        request = manager.prepare()
        reports += [request.compaction.report] if request.compaction else []
        manager.observe(said("done " * 50))
    assert calls == [0, 1, 2, 6, *calls[4:]]
    assert manager.machine.tracking.compactions >= 7
    assert "down" in reports[0].summarizer_failure
    assert reports[3].summarizer_failure == ""
