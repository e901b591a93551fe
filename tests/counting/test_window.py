"""The window's arithmetic, number by number."""

from __future__ import annotations

import dataclasses
import math

import pytest
from hypothesis import given, strategies as st

from ullage import _env
from ullage.counting.models import Model, ModelTable
from ullage.counting.window import (
    WarningState,
    WindowSettings,
    warning_state,
    window_for,
)
from ullage.exceptions import InvalidPolicy

pytestmark = pytest.mark.both_engines

OPUS = ModelTable.builtin().lookup("claude-opus-4-5")
"""200 000 and 64 000 tokens."""


def model(context: int, output: int) -> Model:
    return dataclasses.replace(OPUS, context_window=context, max_output_tokens=output)


def settings(**values: str) -> WindowSettings:
    return WindowSettings.read({getattr(_env, name): value for name, value in values.items()})


def test_room_for_the_summary_is_at_most_20_000() -> None:
    assert window_for(OPUS).effective == 180_000
    assert window_for(model(200_000, 8_192)).effective == 191_808
    assert window_for(OPUS).threshold == 167_000


def test_in_small_windows_the_numbers_are_shares() -> None:
    assert window_for(model(16_000, 20_000)).effective == 12_800
    assert window_for(model(30_000, 20_000)).threshold == 30_000 - 6_000 - 3_900
    assert window_for(model(16_000, 20_000)).state(0) == WarningState(
        100, False, False, False, False
    )


def test_a_limit_of_the_prompt_alone_holds() -> None:
    gpt = ModelTable.builtin().lookup("gpt-5")
    assert (gpt.context_window, gpt.input_limit) == (400_000, 272_000)
    assert window_for(gpt).effective == 272_000


def test_the_environment_lowers_the_window_and_never_raises_it() -> None:
    assert window_for(OPUS, settings=settings(AUTO_COMPACT_WINDOW="100000")).effective == 80_000
    assert window_for(OPUS, settings=settings(AUTO_COMPACT_WINDOW="900000")).effective == 180_000


@pytest.mark.parametrize(
    ("percent", "threshold"),
    [
        ("50", 90_000),
        ("92.5", 166_500),
        ("92.7", 166_860),
        ("93", 167_000),
        ("100", 167_000),
        ("0.001", 1),
    ],
)
def test_percent_override_is_used_where_it_is_lower(percent: str, threshold: int) -> None:
    assert window_for(OPUS, settings=settings(AUTOCOMPACT_PERCENT=percent)).threshold == threshold


def test_percent_override_is_rounded_down() -> None:
    assert (
        window_for(model(100_003, 0), settings=settings(AUTOCOMPACT_PERCENT="33")).threshold
        == 33_000
    )


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("AUTO_COMPACT_WINDOW", "0", "must be positive"),
        ("AUTO_COMPACT_WINDOW", "-5", "must be positive"),
        ("AUTO_COMPACT_WINDOW", "500k", "is not a number"),
        ("AUTO_COMPACT_WINDOW", "nan", "is not a number"),
        ("AUTO_COMPACT_WINDOW", "0.4", "must be at least 1"),
        ("AUTO_COMPACT_WINDOW", "9" * 400, "is not a number"),
        ("AUTOCOMPACT_PERCENT", "0", "must be positive"),
        ("AUTOCOMPACT_PERCENT", "100.1", "must be at most 100"),
        ("AUTOCOMPACT_PERCENT", "80%", "is not a number"),
        ("BLOCKING_LIMIT", "off", "is not a number"),
        ("BLOCKING_LIMIT", "-1", "must be positive"),
    ],
)
def test_values_without_sense_are_ignored_and_named(name: str, value: str, reason: str) -> None:
    read = settings(**{name: value})
    assert dataclasses.replace(read, ignored=()) == WindowSettings()
    assert read.ignored == ((getattr(_env, name), value, reason),)
    assert window_for(OPUS, settings=read).ignored == read.ignored
    assert window_for(OPUS, settings=read).threshold == 167_000


def test_unset_and_empty_are_the_same() -> None:
    assert settings(AUTO_COMPACT_WINDOW=" ", BLOCKING_LIMIT="") == WindowSettings()


def test_settings_come_from_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in _env.WINDOW:
        monkeypatch.delenv(name, raising=False)
    assert WindowSettings.from_env() == WindowSettings()
    monkeypatch.setenv("CLAUDE_CODE_AUTO_COMPACT_WINDOW", "120000")
    monkeypatch.setenv("CLAUDE_AUTOCOMPACT_PCT_OVERRIDE", "50")
    monkeypatch.setenv("CLAUDE_CODE_BLOCKING_LIMIT_OVERRIDE", "77")
    marks = window_for(OPUS, settings=WindowSettings.from_env())
    assert (marks.effective, marks.threshold, marks.blocking_at) == (100_000, 50_000, 77)


def test_marks_with_automatic_compaction() -> None:
    marks = window_for(OPUS)
    assert (marks.threshold, marks.warning_at, marks.error_at) == (167_000, 147_000, 147_000)
    assert marks.blocking_at == 177_000
    assert repr(marks) == "Window('claude-opus-4-5', 200,000 → 180,000 → 167,000)"


def test_marks_without_automatic_compaction() -> None:
    marks = window_for(OPUS, autocompact=False)
    assert (marks.reference, marks.warning_at, marks.blocking_at) == (180_000, 160_000, 177_000)
    assert not marks.state(180_000).above_autocompact


@pytest.mark.parametrize("mark", ["warning_at", "error_at", "threshold", "blocking_at"])
def test_every_comparison_includes_the_mark(mark: str) -> None:
    marks = window_for(OPUS)
    field = {
        "warning_at": "above_warning",
        "error_at": "above_error",
        "threshold": "above_autocompact",
        "blocking_at": "at_blocking_limit",
    }[mark]
    at = getattr(marks, mark)
    assert getattr(marks.state(at), field)
    assert not getattr(marks.state(at - 1), field)


@pytest.mark.parametrize(
    ("tokens", "left"),
    [
        (0, 100),
        (835, 100),
        (836, 99),
        (83_500, 50),
        (166_164, 1),
        (166_166, 0),
        (167_000, 0),
        (500_000, 0),
    ],
)
def test_percent_left_is_rounded_half_up_and_stops_at_zero(tokens: int, left: int) -> None:
    assert window_for(OPUS).percent_left(tokens) == left


@pytest.mark.parametrize("yes", ["1", "true", "YES", "On", " on "])
def test_switches(yes: str) -> None:
    off = window_for(OPUS, settings=settings(DISABLE_COMPACT=yes))
    assert (off.compaction, off.autocompact) == (False, False)
    manual = window_for(OPUS, settings=settings(DISABLE_AUTO_COMPACT=yes))
    assert (manual.compaction, manual.autocompact) == (True, False)


@pytest.mark.parametrize("no", ["0", "false", "off", "no", "2", ""])
def test_switches_that_say_no(no: str) -> None:
    marks = window_for(OPUS, settings=settings(DISABLE_COMPACT=no, DISABLE_AUTO_COMPACT=no))
    assert (marks.compaction, marks.autocompact) == (True, True)


def test_the_host_can_switch_too_but_not_past_the_environment() -> None:
    assert not window_for(OPUS, compaction=False).autocompact
    assert not window_for(OPUS, autocompact=True, settings=settings(DISABLE_COMPACT="1")).compaction


def test_a_negative_figure_is_refused() -> None:
    with pytest.raises(InvalidPolicy, match="tokens: must not be negative"):
        warning_state(-1, OPUS)


@given(
    st.integers(1, 2_000_000),
    st.integers(1, 200_000),
    st.booleans(),
    st.integers(0, 2_500_000),
    st.integers(0, 9),
)
def test_more_tokens_never_look_emptier(
    context: int, output: int, autocompact: bool, tokens: int, more: int
) -> None:
    marks = window_for(model(context, output), autocompact=autocompact)
    before, after = marks.state(tokens), marks.state(tokens + more)
    assert 0 <= after.percent_left <= before.percent_left <= 100
    assert all(now <= later for now, later in zip(before[1:], after[1:], strict=True))


@pytest.mark.parametrize(
    ("percent", "threshold"), [("56.5", 101_699), ("28.7", 51_659), ("50", 90_000), ("90", 162_000)]
)
def test_a_set_percentage_is_reckoned_as_the_client_does(percent, threshold, monkeypatch):
    """`Math.floor(effective * (p / 100))`: the other order is one token more."""
    monkeypatch.setenv("CLAUDE_AUTOCOMPACT_PCT_OVERRIDE", percent)
    window = window_for(OPUS, settings=WindowSettings.from_env())
    assert window.threshold == threshold == int(180_000 * (float(percent) / 100))


def test_a_half_of_a_percent_is_what_it_is_in_floating_point():
    """`Math.round((threshold - tokens) / threshold * 100)`."""
    window = window_for(OPUS)
    for tokens in range(0, window.threshold, 501):
        exact = (window.threshold - tokens) / window.threshold * 100
        assert window.percent_left(tokens) == math.floor(exact + 0.5)
    assert window.percent_left(72_645) == 56
