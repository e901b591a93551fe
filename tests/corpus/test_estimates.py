"""Estimates against the figures of real sessions: the median step, and sums where the exact tokenizer is at hand.

`benches/fidelity/table.py` prints the whole of it, for Claude with an exact counter that is no dependency.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "benches" / "fidelity"
MEDIAN, SUM = 0.06, 0.03
ENOUGH = 100
"""Steps of one model in one session; fewer have no median to speak of."""

pytestmark = [
    pytest.mark.corpus,
    pytest.mark.skipif(not FOLDER.is_dir(), reason="the benchmarks are not here"),
    pytest.mark.filterwarnings("ignore::ullage.counting.models.UnknownModelWarning"),
]


@pytest.fixture(scope="module")
def bench() -> Iterator[dict[str, Any]]:
    names = ("growth", "exact", "texts", "training", "table")
    sys.path.insert(0, str(FOLDER))
    try:
        yield {name: __import__(name) for name in names}
    finally:
        sys.path.remove(str(FOLDER))
        for name in names:
            sys.modules.pop(name, None)


def by_model(bench: dict[str, Any], path: Path) -> dict[str, list[Any]]:
    found = defaultdict(list)
    for step in bench["growth"].steps(path, path.parent.name):
        if bench["table"].usable(step):
            found[step.model].append(step)
    return {model: steps for model, steps in found.items() if len(steps) >= ENOUGH}


def test_the_median_step_is_near_what_the_provider_reported(
    bench: dict[str, Any], corpus_file: Path
) -> None:
    for model, steps in by_model(bench, corpus_file).items():
        guesses = bench["table"].corrected(steps)
        errors = [abs(guess / step.tokens - 1) for guess, step in zip(guesses, steps, strict=True)]
        assert median(errors) <= MEDIAN, model


def test_a_session_s_sum_is_near_where_its_text_is_in_the_file(
    bench: dict[str, Any], corpus_file: Path
) -> None:
    table = bench["table"]
    for model, steps in by_model(bench, corpus_file).items():
        if not model.startswith("gpt"):
            continue
        pairs = zip(table.corrected(steps), steps, strict=True)
        kept = [(guess, step.tokens) for guess, step in pairs if table.logged(step)]
        assert len(kept) > 0.8 * len(steps)
        assert abs(sum(a for a, _ in kept) / sum(b for _, b in kept) - 1) <= SUM, model
