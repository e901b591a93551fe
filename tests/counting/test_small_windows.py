"""Windows from 2,048 tokens up: where the trigger lies, and that long conversations stay within them."""

from __future__ import annotations

import dataclasses
import itertools
import random
import warnings

import pytest
from hypothesis import given, strategies as st

from ullage import ContextManager, ModelTable, Policy
from ullage.counting.models import UnknownModelWarning
from ullage.counting.window import NoTriggerWarning, WindowSettings, window_for
from ullage.exceptions import InvalidPolicy
from ullage.testing import ScriptedSummarizer

OPUS = ModelTable.builtin().lookup("claude-opus-4-5")
WINDOWS = (2_048, 4_096, 8_192, 16_384, 32_768, 65_536)
WORDS = "the parser reads a file and finds that token stream of module value error index line test".split()
TOOLS = ("read_file", "run_shell", "grep_files", "search_db")


def sized(context: int, output: int) -> object:
    return dataclasses.replace(OPUS, context_window=context, max_output_tokens=output)


@given(st.integers(2_048, 2_000_000), st.integers(1, 400_000))
def test_the_trigger_lies_between_half_and_95_percent(context: int, output: int) -> None:
    marks = window_for(sized(context, output))
    assert 50 * context <= 100 * marks.threshold <= 95 * context
    assert 0 < marks.warning_at < marks.threshold < marks.blocking_at <= marks.effective <= context


@given(st.integers(2_048, 2_000_000))
def test_a_learned_limit_and_a_lowered_window_follow_the_same_rule(limit: int) -> None:
    for marks in (
        window_for("gpt-5", table=ModelTable.builtin().learned("gpt-5", limit)),
        window_for(sized(2_000_000, 64_000), settings=WindowSettings(auto_compact_window=limit)),
        window_for(sized(8_192, 64_000), settings=WindowSettings(max_context_tokens=limit)),
    ):
        assert 50 * limit <= 100 * marks.threshold <= 95 * limit


@given(st.integers(99_000, 101_000), st.sampled_from([1, 4_096, 20_000, 64_000]))
def test_the_marks_are_continuous(context: int, output: int) -> None:
    one, two = window_for(sized(context, output)), window_for(sized(context + 1, output))
    for name in ("effective", "threshold", "warning_at", "error_at", "blocking_at"):
        assert abs(getattr(two, name) - getattr(one, name)) <= 2


def test_from_100_000_on_the_constants_hold() -> None:
    marks = window_for(sized(100_000, 64_000))
    assert (marks.effective, marks.threshold, marks.blocking_at) == (80_000, 67_000, 77_000)


def test_every_model_of_the_table_has_a_trigger() -> None:
    for row in ModelTable.builtin().rows.values():
        marks = window_for(row)
        assert 2 * marks.threshold >= marks.prompt, row
        assert 100 * marks.threshold <= 95 * marks.prompt, row


def test_the_trigger_by_share_is_what_a_window_shows() -> None:
    manager = ContextManager(model="claude-opus-4-5", policy=Policy.ladder())
    assert manager.window.threshold == manager.decide().limit_tokens == 160_000
    assert "160,000" in repr(manager.window)


@pytest.mark.parametrize(
    "context",
    [*WINDOWS[:3], *(pytest.param(each, marks=pytest.mark.slow) for each in WINDOWS[3:])],
)
def test_200_turns_with_the_default_policy(context: int) -> None:
    manager = ContextManager(
        model="smollm2", context_window=context, max_output_tokens=context // 8
    )
    compacted, calls = list[int](), 0
    rng = random.Random(context)

    def text(least: float, most: float) -> str:
        return " ".join(
            rng.choice(WORDS) for _ in range(4 + int(context * rng.uniform(least, most)))
        )

    def ask(turn: int) -> None:
        request = manager.prepare()
        assert request.tokens <= context
        stages = [report.stage for report in request.reports]
        assert "fold" not in stages
        assert "truncate" not in stages
        compacted.extend([turn] * ("autocompact" in stages))

    for turn in range(200):
        manager.add({"role": "user", "content": f"Question {turn}: {text(0.005, 0.02)}"})
        for _ in range(rng.randrange(3)):
            ask(turn)
            use = {"type": "tool_use", "id": f"t{calls}", "name": rng.choice(TOOLS), "input": {}}
            manager.add({"role": "assistant", "content": [use]})
            block = {"type": "tool_result", "tool_use_id": f"t{calls}", "content": text(0.01, 0.04)}
            manager.add({"role": "user", "content": [block]})
            calls += 1
        ask(turn)
        manager.observe({"role": "assistant", "content": f"Answer: {text(0.005, 0.03)}"})
        assert manager.decide().code in ("below", "due")
    assert len(compacted) > 3
    assert min(b - a for a, b in itertools.pairwise(compacted)) >= 3


def test_a_context_that_fills_at_once_is_tried_again_later() -> None:
    manager = ContextManager(model="smollm2", context_window=2_048)
    stopped = False
    for turn in range(60):
        large = 1 if turn < 25 else 40
        manager.add({"role": "user", "content": f"{turn} " + "a new long text " * (320 // large)})
        manager.prepare()
        manager.observe({"role": "assistant", "content": "An answer. " * (40 // large + 1)})
        stopped |= manager.decide().code == "refills"
    assert stopped
    assert manager.decide().code in ("below", "due")


# ---- stating a window ------------------------------------------------------------------------


def test_a_window_is_stated_in_python() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnknownModelWarning)
        manager = ContextManager(model="my-local", context_window=8_192, max_output_tokens=1_000)
    assert (manager.window.context, manager.window.effective) == (8_192, 7_192)
    manager.add({"role": "user", "content": "hello"})
    again = ContextManager.restore(manager.save(history=True))
    assert again.window == manager.window
    assert (
        ContextManager.restore(manager.save(history=True), context_window=4_096).window.context
        == 4_096
    )


@pytest.mark.parametrize(
    "stated",
    [{"context_window": 0}, {"context_window": "8k"}, {"max_output_tokens": True},
     {"context_window": 100, "max_output_tokens": 200}],
)  # fmt: skip
def test_what_states_no_window_is_refused(stated: dict[str, object]) -> None:
    with pytest.raises(InvalidPolicy, match=next(reversed(stated))):
        ContextManager(model="claude-opus-4-5", **stated)


def test_what_an_error_named_is_truer_than_what_a_setting_claims() -> None:
    settings = WindowSettings(max_context_tokens=500_000)
    manager = ContextManager(model="claude-opus-4-5", settings=settings)
    assert manager.window.context == 500_000
    manager.machine.learn(50_000)
    assert (manager.window.context, manager.window.threshold) == (50_000, 33_500)


def test_one_warning_where_no_trigger_is_possible() -> None:
    with pytest.warns(NoTriggerWarning, match="system prompt and tools take"):
        ContextManager(model="claude-opus-4-5", context_window=2_048, system="rule " * 2_000)


# ---- the policy's own sizes ------------------------------------------------------------------


def test_sizes_of_a_policy_are_shares_of_a_small_window() -> None:
    policy = Policy.buffered().change({"truncate.margin_tokens": 700})
    fitted = policy.fitted(8_192)
    assert fitted.truncate.margin_tokens == 700  # as somebody set it
    assert fitted.micro.min_freed_tokens == 163
    assert policy.fitted(100_000) is policy
    assert fitted.fitted(8_192) == fitted


@given(st.integers(1, 99_999))
def test_fitted_policies_are_valid_for_every_window(context: int) -> None:
    for policy in (Policy.buffered(), Policy.ladder()):
        fitted = policy.fitted(context)
        assert fitted.keep.min_tokens <= fitted.keep.max_tokens
        assert fitted.restore.files_max_tokens <= policy.restore.files_max_tokens


@pytest.mark.parametrize(("by_a_model", "window"), [(False, 2_400), (True, 4_000)])
def test_no_rule_gives_way_in_a_small_window(by_a_model: bool, window: int) -> None:
    policy = Policy.buffered().change({"auto.max_refills": 1_000})
    manager = ContextManager(
        model="claude-opus-4-5",
        context_window=window,
        policy=policy,
        summarizer=ScriptedSummarizer() if by_a_model else None,
    )
    rules, compacted = list[str](), 0
    for turn in range(60):
        rules += [f"Never touch rule-{turn}."] if turn % 2 == 0 else []
        words = " ".join(f"w{turn * 7919 * n % 9973}" for n in range(1, 40))
        asked = f"Question {turn}: {words}. {rules[-1] if turn % 2 == 0 else ''}"
        manager.add({"role": "user", "content": asked.strip()})
        request = manager.prepare()
        compacted += request.compaction is not None
        shown = str(list(request.messages))
        assert [rule for rule in rules if rule not in shown] == []
        manager.observe({"role": "assistant", "content": f"Answer {turn}: {'so it is ' * 20}"})
    assert compacted > 5


def test_where_compactions_rest_one_comes_before_anything_is_folded() -> None:
    """A fold is what a later summary reads as one message of the user: it lost the rules in it."""
    manager = ContextManager(model="claude-opus-4-5", context_window=2_000)
    rested = False
    for turn in range(24):
        rule = "Never touch rule-0." if turn == 0 else ""
        words = " ".join(f"w{turn * 7919 * n % 9973}" for n in range(1, 60))
        manager.add({"role": "user", "content": f"Question {turn}: {words}. {rule}".strip()})
        rested |= manager.decide().code == "refills"
        request = manager.prepare()
        assert request.tokens <= 2_000
        assert "Never touch rule-0" in str(list(request.messages))
        assert not {"fold", "truncate"} & {report.stage for report in request.reports}
        manager.observe({"role": "assistant", "content": f"Answer {turn}: {'so it is ' * 60}"})
    assert rested
