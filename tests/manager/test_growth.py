"""What users do costs in proportion to the conversation, a turn the same at any length: none grows by 15 % of a power more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from benches import bodies, growth

from tests.kit import calls
from ullage import ContextManager
from ullage.manager.journal import read_message

LENGTHS = (100, 1_000, 10_000)
SLOPE = 0.15
"""The power of the length by which a message's or a turn's cost may grow: ten times the length, 1.4 times the cost."""

HEAVY = (
    "levels that act, a message",
    "compact without a model, a message",
    "compact of a chat without a model, a message",
)


FLAT = 1.3
"""Times that a turn at the longest conversation may cost what one at the shortest does."""


def lengths_of(curve: growth.Curve) -> tuple[int, ...]:
    return LENGTHS[:2] if curve.name in HEAVY else LENGTHS


@pytest.mark.parametrize("curve", growth.CURVES, ids=lambda curve: curve.name)
def test_calls_grow_no_faster_than_the_conversation(curve: growth.Curve):
    lengths = LENGTHS[:2] if is_turn(curve) else lengths_of(curve)
    found = [calls_of(*curve.prepare(length)) for length in lengths]
    assert level(curve, lengths, found), found


def level(curve: growth.Curve, lengths: Sequence[int], found: list[float]) -> bool:
    """Whether the cost grows no faster than it may, and that of a turn hardly at all."""
    flat = not is_turn(curve) or max(found) <= FLAT * min(found)
    return flat and growth.slope(lengths, found) <= SLOPE


def is_turn(curve: growth.Curve) -> bool:
    """Whether it is turns of one provider's form, of which there are many."""
    return curve.name.startswith("a turn, ")


def calls_of(run: Callable[[], object], units: int) -> float:
    run()
    return calls(run) / units


WITH_A_LOG = 1.5
"""Calls that a turn with a log may make, over those of one without; time cannot be judged here: half of what is left of it is the system's."""


@pytest.mark.parametrize("form", bodies.FORMS)
def test_a_turn_with_a_log_makes_few_calls_more(form: str):
    without, with_log = (
        calls_of(*growth.in_form(200, form, ugly=True, log=log, turns=3 * growth.TURNS))
        for log in (False, True)
    )
    assert with_log <= WITH_A_LOG * without, (without, with_log)


def test_a_compaction_reads_no_more_of_a_longer_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    read: list[int] = []

    def counted(log: Any, offset: int) -> Any:
        read.append(offset)
        return read_message(log, offset)

    monkeypatch.setattr("ullage.manager.journal.read_message", counted)
    spent: list[int] = []
    with ContextManager(
        model=growth.MODEL, context_window=40_000, log=tmp_path / "log.jsonl"
    ) as manager:
        manager.add({"role": "user", "content": "build all parts"})
        for message in growth.rounds(6_000):
            manager.add(message)
            if message["role"] == "user":
                before = len(read)
                if manager.prepare().compaction is not None:
                    spent.append(len(read) - before)
    assert len(spent) >= 4
    assert max(spent[2:]) <= FLAT * max(spent[:2]), spent


@pytest.mark.slow
@pytest.mark.parametrize("curve", growth.CURVES, ids=lambda curve: curve.name)
def test_time_grows_no_faster_than_the_conversation(curve: growth.Curve):
    # Processor time of this thread, the best of three; a second look where a busy machine spoiled the first.
    lengths = lengths_of(curve)
    found = [growth.costs(curve, lengths)]
    while not level(curve, lengths, found[-1]) and len(found) < 4:
        found.append(growth.costs(curve, lengths, rounds=5))
    assert level(curve, lengths, found[-1]), found


@pytest.mark.slow
@pytest.mark.parametrize("curve", growth.FILES, ids=lambda curve: curve.name)
def test_time_grows_no_faster_than_the_file(curve: growth.Curve):
    sizes = (1, 4, 16)
    found = [growth.slope(sizes, growth.costs(curve, sizes))]
    while found[-1] > SLOPE and len(found) < 4:
        found.append(growth.slope(sizes, growth.costs(curve, sizes, rounds=4)))
    assert min(found) <= SLOPE, found


@pytest.mark.slow
def test_time_of_a_resume_grows_no_faster_than_the_log():
    turns = (500, 2_000, 8_000)
    found = [growth.slope(turns, growth.costs(growth.RESUME, turns))]
    while found[-1] > SLOPE and len(found) < 4:
        found.append(growth.slope(turns, growth.costs(growth.RESUME, turns)))
    assert min(found) <= SLOPE, found


def test_what_looks_at_everything_each_time_would_be_found():
    lengths = (100, 1_000, 10_000)
    assert growth.slope(lengths, [1.0, 1.0, 1.0]) == 0
    assert growth.slope(lengths, [1.0, 10.0, 100.0]) == pytest.approx(1)
    assert growth.slope(lengths, [5.0, 5.5 + 0.1, 5.5 + 10]) > SLOPE
    assert level(growth.TURNS_OF[0], lengths, [1.0, 1.2, 1.29])
    assert not level(growth.TURNS_OF[0], lengths, [1.0, 1.2, 1.31])
