"""Weights as data, and their correction by what providers report."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from ullage._engine import core
from ullage._engine.digests import BlockKind, Role
from ullage._reference.text import FEATURE_NAMES
from ullage.counting import calibration
from ullage.counting.calibration import Correction, weights_for
from ullage.counting.models import ModelTable
from ullage.exceptions import InvalidPolicy


def test_every_family_of_the_table_has_weights_in_the_engine_s_order() -> None:
    families = {row.family for row in ModelTable.builtin().rows.values()}
    assert families <= set(calibration._families())
    for found in calibration._families().values():
        assert tuple(found["features"]) == FEATURE_NAMES
        assert tuple(found["blocks"]) == tuple(kind.name.lower() for kind in BlockKind)
        assert tuple(found["messages"]) == tuple(role.name.lower() for role in Role)
        assert tuple(found["hidden"]) == ("free_chars", "per_char")


def test_weights_say_where_they_come_from() -> None:
    for family in calibration._families().values():
        origin = family["origin"]
        assert {"made", "command", "counted_by", "text_of", "pieces", "figures_of", "steps"} <= set(
            origin
        )
        assert origin["pieces"] > 1000


def test_a_family_nobody_knows_is_refused() -> None:
    with pytest.raises(InvalidPolicy, match="family: must be one of"):
        weights_for(replace(ModelTable.builtin().lookup("claude-opus-5-5"), family="claude-1"))


PROSE = "The harbour master wrote down each ship that came in, and what it had in its holds. " * 20
CHINESE = "港口的负责人记下每一艘进港的船只和它们所载的货物。" * 20
HEX = "3f9a1c0d7be2 " * 60


@pytest.mark.parametrize(
    ("model", "text", "exact"),
    # What benches/fidelity/exact.py counts.
    [
        ("claude-opus-4-5", PROSE, 381),
        ("claude-opus-4-5", CHINESE, 521),
        ("claude-opus-4-5", HEX, 721),
        ("gpt-5", PROSE, 381),
        ("gpt-5", CHINESE, 480),
        ("gpt-5", HEX, 720),
    ],
)
def test_estimates_are_near_exact_counts(model: str, text: str, exact: int) -> None:
    assert abs(core.estimate_text(text, weights_for(model)) - exact) < 0.2 * exact


def test_the_newer_tokenizer_makes_more_tokens() -> None:
    old, new = (
        core.estimate_text(PROSE, weights_for(name))
        for name in ("claude-opus-4-6", "claude-opus-5-5")
    )
    assert old * 1.2 < new < old * 1.7


def test_images_cost_by_the_model_s_rule() -> None:
    old, new = (weights_for(name) for name in ("claude-opus-4-6", "claude-opus-5-5"))
    assert core.image_tokens(4000, 3000, old) <= 1568 < core.image_tokens(4000, 3000, new) <= 4784
    assert core.image_tokens(1000, 1000, old) == core.image_tokens(1000, 1000, new) == 36 * 36


# ---- correction ------------------------------------------------------------------------------

MODEL = "claude-opus-5-5"


def observed(*ratios: int, model: str = MODEL) -> Correction:
    correction = Correction(model)
    for at, ratio in enumerate(ratios):
        correction = correction.observe(1000, ratio, model=model, response_id=str(at))
    return correction


def test_unknown_is_not_one() -> None:
    assert not observed(1300, 1300).known
    assert observed(1300, 1300).apply(500).tokens == 500
    assert observed(1300, 1300, 1300).known
    assert observed(1300, 1300, 1300).apply(500).tokens == 650


def test_the_median_of_the_newest_counts() -> None:
    assert observed(1000, 1100, 1900).permille == 1100
    assert observed(*[1200] * 15, *[900] * 15).permille == 900
    assert len(observed(*[1200] * 40).ratios) == calibration.WINDOW


def test_it_is_clamped() -> None:
    assert observed(2400, 2400, 2400).permille == 1800
    assert observed(450, 450, 450).permille == 667


@pytest.mark.parametrize(
    ("estimated", "reported", "model", "response", "version"),
    [
        (1000, 399, MODEL, "x", 3),
        (1000, 2501, MODEL, "x", 3),
        (1000, -50, MODEL, "x", 3),
        (199, 1000, MODEL, "x", 3),
        (1000, 199, MODEL, "x", 3),
        (0, 0, MODEL, "x", 3),
        (1000, 1200, "claude-opus-4-5", "x", 3),
        (1000, 1200, MODEL, "last", 3),
        (1000, 1200, MODEL, "x", 2),
    ],
    ids=[
        "low",
        "high",
        "shrunk",
        "small",
        "small figure",
        "nothing",
        "model",
        "repeated",
        "older log",
    ],
)
def test_what_is_no_measurement_changes_nothing(
    estimated: int, reported: int, model: str, response: str, version: int
) -> None:
    before = Correction(MODEL, 3, (1000, 1100), "last")
    after = before.observe(
        estimated, reported, model=model, response_id=response, log_version=version
    )
    assert after is before


def test_a_rewrite_makes_older_figures_useless_and_keeps_what_is_known() -> None:
    after = observed(1200, 1200, 1200).rewritten(7)
    assert after.permille == 1200
    assert after.observe(1000, 1500, model=MODEL, response_id="n", log_version=6) is after
    assert after.observe(1000, 1500, model=MODEL, response_id="n", log_version=7) is not after


def test_the_interval_is_what_was_seen_or_what_the_weights_were_measured_with() -> None:
    assert Correction(MODEL).apply(1000) == (1000, 840, 1160)
    seen = observed(*range(1000, 1150, 10)).apply(1000)
    assert seen == (1070, 1010, 1130)
    assert Correction(MODEL).apply(0) == (0, 0, 0)


def test_it_can_be_stored() -> None:
    correction = observed(1200, 1300, 900).rewritten(2)
    assert Correction.load(correction.dump()) == correction


@pytest.mark.parametrize(
    "change",
    [
        {"ratios": [1.5]},
        {"ratios": [5]},
        {"ratios": "x"},
        {"model": None},
        {"log_version": True},
        {"last_id": 3},
    ],
)
def test_a_bad_store_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(InvalidPolicy):
        Correction.load(observed(1000).dump() | change)


@given(
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(-(10**6), 10**7)), max_size=40),
    st.integers(0, 10**7),
)
def test_no_history_makes_nonsense(history: list[tuple[int, int]], estimate: int) -> None:
    correction = Correction(MODEL)
    for at, (estimated, reported) in enumerate(history):
        correction = correction.observe(estimated, reported, model=MODEL, response_id=str(at))
    low, high = (estimate * mark // 1000 for mark in calibration.CLAMP)
    found = correction.apply(estimate)
    assert min(low, estimate) <= found.tokens <= max(high, estimate) + 1
    assert found.low <= found.tokens <= found.high
    assert Correction.load(correction.dump()) == correction
