"""The cheapest schedule and its bound, against every schedule of small made conversations, one by one."""

from __future__ import annotations

import importlib
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ullage.counting.models import ModelTable
from ullage.counting.window import Window, window_for

if TYPE_CHECKING:
    import numpy as np
    from benches.fidelity.optimum import MARK, NEVER, PLACEHOLDER, POLICY, Offers, optimum
else:
    np = pytest.importorskip("numpy")
    ROOT = Path(__file__).parents[2]
    if not (ROOT / "benches" / "fidelity" / "optimum.py").exists():
        pytest.skip("the benchmarks are not beside the tests", allow_module_level=True)
    sys.path.insert(0, str(ROOT))
    found = importlib.import_module("benches.fidelity.optimum")
    sys.path.remove(str(ROOT))
    MARK, NEVER, PLACEHOLDER, POLICY = found.MARK, found.NEVER, found.PLACEHOLDER, found.POLICY
    Offers, optimum = found.Offers, found.optimum

MODEL = ModelTable.builtin().lookup("claude-opus-4-5")


def made(seed: int) -> tuple[Offers, Window, int]:
    """Offers of a conversation of at most nine requests, the marks of its window, and where prices rise."""
    chance = random.Random(seed)
    requests, overhead = chance.randint(4, 9), chance.choice([0, 4_000, 20_000])
    sizes, results = [overhead + chance.randint(500, 5_000)], list[tuple[int, int]]()
    for request in range(1, requests):
        parts = [chance.choice([300, 6_000, 25_000]) for _ in range(chance.randint(0, 2))]
        results += [(request, part) for part in parts]
        sizes.append(sizes[-1] + sum(parts) + chance.randint(50, 9_000))
    at = np.array([request for request, _ in results], dtype=int)
    tokens = np.array([part for _, part in results], dtype=int)
    snip = np.array([chance.choice([0, part // 2]) for part in tokens], dtype=int)
    replaced = np.array(
        [chance.choice([NEVER, each + chance.randint(1, 4)]) for each in at], dtype=int
    )
    after = np.array([min(each, overhead + chance.randint(8_000, 40_000)) for each in sizes])
    gone = np.maximum(0, tokens - PLACEHOLDER)
    offers = Offers(np.array(sizes), overhead, after, at, tokens, snip, gone, replaced)
    marks = window_for(MODEL, working_tokens=chance.choice([60_000, 80_000, 100_000]))
    return offers, marks, chance.choice([NEVER, 50_000])


def every(offers: Offers, rates: Any, marks: Window) -> int:
    """The least cost of all schedules, each followed on its own."""
    sizes, over = offers.sizes, offers.overhead

    def paid(size: int, same: int) -> int:
        write, read = (int(each[0]) for each in rates(np.array([size])))
        return same * read + (size - same) * write

    # Cost, size, base and since of the last compaction, its first result, freed of each result.
    states = [
        (
            paid(int(sizes[0]), 0),
            int(sizes[0]),
            int(sizes[0]),
            int(sizes[0]),
            0,
            np.zeros(len(offers.at), int),
        )
    ]
    for now in range(1, len(sizes)):
        as_it_is, cleared, compacted = [], [], []
        for cost, before, base, since, first, had in states:
            grown = int(sizes[now] - sizes[now - 1])
            size = before + grown
            as_it_is.append((cost + paid(size, before), size, base, since, first, had))
            offered = np.where(np.arange(len(had)) >= first, offers.freed(now), had)
            gain = int((offered - had).sum())
            changed = np.flatnonzero(offered != had)
            if (
                size >= marks.context * MARK // 100
                and gain >= POLICY.micro.min_freed_tokens
                and len(changed)
            ):
                begun = (
                    base
                    + int(sizes[max(offers.at[changed[0]] - 1, 0)])
                    - since
                    - int(had[: changed[0]].sum())
                )
                new = size - gain
                cleared.append(
                    (
                        cost + paid(new, min(max(begun, over), new - grown)),
                        new,
                        base,
                        since,
                        first,
                        offered,
                    )
                )
            if size >= marks.threshold and offers.after[now] < sizes[now]:
                left = int(offers.after[now])
                kept = int(
                    np.searchsorted(
                        offers.at, np.searchsorted(sizes, sizes[now] - POLICY.keep.min_tokens)
                    )
                )
                while int(offers.tokens[kept:][offers.at[kept:] <= now].sum()) > left - over:
                    kept += 1
                compacted.append(
                    (
                        cost + paid(left, over),
                        left,
                        left,
                        int(sizes[now]),
                        kept,
                        np.zeros(len(had), int),
                    )
                )
        found = [each for each in [*as_it_is, *cleared] if each[1] <= marks.blocking_at] + compacted
        states = found or as_it_is
    return min(each[0] for each in states)


@pytest.mark.parametrize("seed", range(300))
def test_cheapest_schedule_is_the_least_of_all_and_the_bound_is_below(seed: int) -> None:
    offers, marks, rises = made(seed)

    def rates(size: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.where(size > rises, 2_000, 1_250), np.where(size > rises, 200, 100)

    best, bound = optimum(offers, rates, marks)
    assert best == every(offers, rates, marks)
    assert bound <= best
