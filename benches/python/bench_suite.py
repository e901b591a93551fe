"""Everything whose time is published, under pytest-benchmark; `make bench` runs it and renders the tables.

    python -m pytest benches/python/bench_suite.py --benchmark-enable -k "idle or compaction"

`--benchmark-json FILE` records, `pytest-benchmark compare OLD NEW` shows two records side by side. Times are the processor's, except
where an operation says otherwise. An operation is made once, its answers are checked, then its contenders are timed in turn, and that three times.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from benches import engine_operations, users
from benches.operation import SWEEPS, Operation, Planned

SUITE: dict[str, Planned] = {**users.OPERATIONS, **engine_operations.OPERATIONS}

# Peers warn, and operations take their time to be made.
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(1800)]


def pairs() -> list[Any]:
    """Each operation with each who could do it, who take turns, in the table's order."""
    return [
        pytest.param(
            name,
            contender,
            sweep,
            id=f"{name}: {contender}, {sweep}",
            marks=pytest.mark.benchmark(
                group=name,
                disable_gc=True,
                timer=planned.timer,
            ),
        )
        for name, planned in SUITE.items()
        for sweep in range(SWEEPS)
        for contender in planned.contenders
    ]


@pytest.fixture
def operation(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Operation:
    return made(request.param, tmp_path_factory.mktemp)


@lru_cache(maxsize=1)
def made(name: str, new_folder: Callable[[str], Path]) -> Operation:
    """An operation, when the first of its contenders is due; a fixture of pytest's is made again for each of them."""
    planned = SUITE[name]
    operation = planned.make(new_folder("operation"))
    assert set(operation.contenders) <= set(planned.contenders)
    return operation


@pytest.mark.parametrize(("operation", "contender", "sweep"), pairs(), indirect=["operation"])
def test_time(benchmark: Any, operation: Operation, contender: str, sweep: int) -> None:
    if not benchmark.enabled:
        pytest.skip("benchmarks are off")
    if contender not in operation.contenders:
        pytest.skip(f"{contender} is not here, or has nothing to do")
    run, setup, iterations, amount, rounds = operation.contenders[contender]
    benchmark.extra_info.update(
        operation=operation.name,
        contender=contender,
        unit=operation.unit,
        sweep=sweep,
        figure=operation.figure,
        amount=operation.amount if amount is None else amount,
    )
    gc.collect()
    benchmark.pedantic(run, setup=setup, rounds=rounds or operation.rounds, iterations=iterations)
