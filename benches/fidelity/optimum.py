"""What the levels' schedule costs, over the cheapest that their own thresholds allow: recorded sessions, three sizes.

    python -m benches.fidelity.optimum --corpus FOLDER [--sizes 100000 200000 400000]

The cheapest schedule is a shortest path over the requests. Between two of them its state is where it compacted last and where it
cleared last since. A request may compact from the trigger on, clear from the lowest mark of a level on, and must stay below the
size at which requests are blocked, since a summary could not be written there.
What a step frees is the real levels' offer: the size that a compaction leaves, measured at some requests and taken from the
smaller neighbour between them; results that a later one replaced, and the middle of results over `snip.max_chars`. A clearing
takes all that is on offer. The bound from below clears for nothing, and in any part. Sessions count that pass the lowest mark.

The other rules do the same with the same offers at a fixed size: `summary` compacts, `clear` replaces all results but the newest
three (Anthropic's `clear_tool_uses`), `half` drops the older half of what is not system prompt, `slide` drops what does not fit.
"""

from __future__ import annotations

import argparse
import statistics
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from benches.fidelity.replays import SUFFIXES, WORDS, UserWords

from ullage import ContextManager, WindowSettings
from ullage.counting.models import Model, ModelTable
from ullage.counting.window import Window, window_for
from ullage.exceptions import UllageError
from ullage.levels.cost import rates_of
from ullage.levels.microcompact import call_key, use_of
from ullage.levels.view import Result
from ullage.policy import Policy
from ullage.replay import DEFAULT_MODEL, SessionScript, _sizes, replay_session, script_of
from ullage.sessions import open_session

POLICY = Policy.buffered()
MARK = min(POLICY.micro.supersede_start_percent, POLICY.snip.start_percent)
SAMPLES = 8
NEVER = 10**9
PLACEHOLDER = 12
"""Tokens of what stands for a cleared result."""

Rates = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


class Offers(NamedTuple):
    """What could be freed, by requests from 0.

    Attributes:
        sizes: Tokens of each request without management; `overhead`: of them, system prompt and tools.
        after: Tokens that a compaction before the request leaves.
        at: Request that first holds each result; its `tokens`; `snip` and `gone`: what snipping and clearing free of it.
        replaced: Request from which on a later result has replaced it; `NEVER`: none.
    """

    sizes: np.ndarray
    overhead: int
    after: np.ndarray
    at: np.ndarray
    tokens: np.ndarray
    snip: np.ndarray
    gone: np.ndarray
    replaced: np.ndarray

    def freed(self, request: int) -> np.ndarray:
        """Of each result, by a clearing before this request."""
        old = self.at < request
        gone = (self.replaced <= request) & old
        return np.where(gone, self.gone, np.where(old, self.snip, 0))


def offers_of(
    script: SessionScript, row: Model, settings: WindowSettings, seen: dict[int, int]
) -> Offers:
    """Ask the real levels; `seen`: what compactions of a managed run left, by request."""
    places = list(_sizes(script, row))
    sizes = np.array([tokens for _, tokens in places])
    request_of = np.searchsorted([at for at, _ in places], np.arange(len(script.messages)))
    manager = ContextManager(model=row.name, provider="anthropic")
    for message in script.messages[: places[-1][0] + 1]:
        manager.add(message)
    view = manager.machine.view
    found = [each for each in view.results() if not each.has_media]
    replaced = np.array(_replaced(found, request_of), dtype=int)
    tokens = np.array([each.tokens for each in found], dtype=int)
    chars = np.array([each.chars for each in found], dtype=int)
    share = POLICY.snip.head_percent + POLICY.snip.tail_percent
    left = POLICY.snip.max_chars * share // 100
    snip = np.where(
        chars > POLICY.snip.max_chars, tokens - tokens * left // np.maximum(chars, 1), 0
    )
    at = np.array([request_of[each.message] for each in found], dtype=int)
    gone = np.maximum(0, tokens - PLACEHOLDER)
    return Offers(
        sizes,
        script.overhead_tokens,
        _after(script, row, places, sizes, settings, seen),
        at,
        tokens,
        snip,
        gone,
        replaced,
    )


def _replaced(found: Sequence[Result], request_of: np.ndarray) -> list[int]:
    """As the level has it: by a later whole read or write, or the same call with success, once it is none of the newest."""
    kept = max(POLICY.micro.keep_recent, POLICY.protect.tool_results)
    files, calls, times = dict[str, int](), dict[bytes, int](), list[int]()
    for at in range(len(found) - 1, -1, -1):
        each, key = found[at], call_key(found[at])
        by = [
            calls.get(key, NEVER),
            files.get(each.path, NEVER) if use_of(each) in ("whole", "part") else NEVER,
        ]
        aged = request_of[found[at + kept].message] if at + kept < len(found) else NEVER
        times.append(max(min(by), int(aged)))
        now = int(request_of[each.message])
        if each.path and use_of(each) in ("whole", "written"):
            files[each.path] = now
        if not each.is_error:
            calls[key] = now
    return times[::-1]


def _after(
    script: SessionScript,
    row: Model,
    places: list[tuple[int, int]],
    sizes: np.ndarray,
    settings: WindowSettings,
    seen: dict[int, int],
) -> np.ndarray:
    """What a compaction leaves, by request; the size itself where none is possible yet."""
    able = np.flatnonzero(sizes >= window_for(row, settings=settings).threshold)
    after = sizes.copy()
    if not len(able):
        return after
    left = dict(seen)
    for request in {int(able[at]) for at in np.linspace(0, len(able) - 1, SAMPLES).astype(int)}:
        manager = ContextManager(model=row.name, provider="anthropic", settings=settings)
        for message in script.messages[: places[request][0] + 1]:
            manager.add(message)
        manager.machine.overhead["system"] = script.overhead_tokens
        manager.machine.set_window(row)
        with suppress(UllageError):
            found = manager.prepare().tokens
            left[request] = min(found, left.get(request, found))
    tried = sorted(left)
    for request in able if tried else ():
        to = bisect_left(tried, request)
        near = [to] if to < len(tried) and tried[to] == request else [to - 1, to]
        found = [left[tried[at]] for at in near if 0 <= at < len(tried)]
        after[request] = min(*found, sizes[request])
    return after


def rates_for(row: Model) -> Rates:
    """Nanodollars of a token written and read, for prompts of these sizes."""
    table = {size: rates_of(row, size) for size in (1_000, 10_000_000)}
    above = row.long_context.above_tokens if row.long_context else NEVER
    (write, read), (more, dearer) = table[1_000], table[10_000_000]
    return lambda sizes: (
        np.where(sizes > above, more, write),
        np.where(sizes > above, dearer, read),
    )


def _cost(rates: Rates, size: np.ndarray, same: np.ndarray) -> np.ndarray:
    write, read = rates(size)
    return same * read + (size - same) * write


def optimum(offers: Offers, rates: Rates, marks: Window) -> tuple[int, int]:
    """Nanodollars of the cheapest schedule, and a bound below which none is."""
    sizes, after, requests = offers.sizes, offers.after, len(offers.sizes)
    mark, keep = marks.context * MARK // 100, POLICY.keep.min_tokens
    trigger, window = marks.threshold, marks.blocking_at
    # Row 0: not compacted; row k + 1: at request k. Column 0: not cleared since; column c + 1: at request c.
    base = np.concatenate([[sizes[0]], after])
    since = np.concatenate([[sizes[0]], sizes])
    # Results of the kept part stand after a compaction too, as far as what it leaves has room for them.
    passed = np.concatenate([[0], offers.tokens.cumsum()])
    known = passed[np.searchsorted(offers.at, np.arange(requests), side="right")]
    kept = np.searchsorted(offers.at, np.searchsorted(sizes, sizes - keep))
    held = np.searchsorted(passed, known - (after - offers.overhead))
    first = np.concatenate([[0], np.maximum(kept, held)])
    suffix = np.zeros((requests + 1, len(offers.at) + 1), dtype=np.int64)
    for request in range(requests):
        freed = offers.freed(request)
        suffix[request + 1, :-1] = freed[::-1].cumsum()[::-1]
    free = suffix[:, first].T  # by row and column
    rows = requests + 1
    cost = np.full((rows, rows), np.inf)
    low = np.full(rows, np.inf)
    start = _cost(rates, sizes[:1], np.zeros(1, int))[0]
    cost[0, 0] = low[0] = start
    size = np.broadcast_to((base - since)[:, None] + sizes[0] - free, (rows, rows))
    for request in range(1, requests):
        grown = sizes[request] - sizes[request - 1]
        size, before = size + grown, size
        done = request + 1
        if np.isfinite(cost).any():
            whole = np.where(np.isfinite(cost), size, 0)
            stay = cost + _cost(rates, size, np.minimum(before, size))
            packed = (
                _best(cost, whole >= trigger)
                + _cost(rates, after[request : request + 1], np.array([offers.overhead]))[0]
            )
            cleared = _cleared(
                offers, rates, (cost, size, before), (base, since), (first, suffix), request, mark
            )
        stay[size > window] = np.inf
        fresh = (base - since) + sizes[request] - free[:, done]
        cleared[fresh > window] = np.inf
        stay[:, done] = cleared
        if after[request] < sizes[request]:
            stay[done, 0] = packed
        fits = np.isfinite(stay).any()
        if not fits:  # what must stay does not fit: it is sent as it is
            stay = cost + _cost(rates, size, before)
        cost = stay
        # The bound: what can be freed is freed, for nothing, from the mark on.
        raw = (base - since) + sizes[request]
        least = np.where(raw >= mark, raw - free[:, done], raw)
        write, read = rates(least)
        packed_low = np.min(np.where(raw >= trigger, low, np.inf), initial=np.inf)
        low = low + np.maximum(0, least - grown) * read + grown * write
        if fits:  # else a schedule goes on from a size that does not fit
            low[least > window] = np.inf
        if after[request] < sizes[request]:
            low[done] = (
                packed_low
                + _cost(rates, after[request : request + 1], np.array([offers.overhead]))[0]
            )
    best = int(cost.min())
    return best, int(low.min())


def _best(cost: np.ndarray, allowed: np.ndarray) -> float:
    return float(np.min(np.where(allowed, cost, np.inf), initial=np.inf))


def _cleared(
    offers: Offers,
    rates: Rates,
    states: tuple[np.ndarray, np.ndarray, np.ndarray],
    ends: tuple[np.ndarray, np.ndarray],
    found: tuple[np.ndarray, np.ndarray],
    request: int,
    mark: int,
) -> np.ndarray:
    """By row, the least cost with a clearing before this request."""
    (cost, size, _), (base, since), (first, suffix) = states, ends, found
    rows, results = cost.shape[0], len(offers.at)
    best = np.full(rows, np.inf)
    alive, columns = (
        np.flatnonzero(np.isfinite(cost).any(1)),
        np.flatnonzero(np.isfinite(cost).any(0)),
    )
    if not results or not len(alive):
        return best
    now = suffix[request + 1]
    for column in columns:
        had = suffix[column] if column else np.zeros(results + 1, dtype=np.int64)
        each = np.diff(now - had) != 0  # results of which more is freed now
        places = np.where(each, np.arange(results), results)
        after = np.minimum.accumulate(places[::-1])[::-1]
        after = np.append(after, results)
        change = after[first[alive]]
        gain = (now - had)[first[alive]]
        able = (gain >= POLICY.micro.min_freed_tokens) & (size[alive, column] >= mark)
        able &= np.isfinite(cost[alive, column]) & (change < results)
        at = np.minimum(change, results - 1)
        # What stands before the first change, as it was sent last.
        begun = offers.sizes[np.maximum(offers.at[at] - 1, 0)]
        before = base[alive] + begun - since[alive] - (had[first[alive]] - had[at])
        new = size[alive, column] - gain
        grown = offers.sizes[request] - offers.sizes[request - 1]  # was never sent
        same = np.minimum(np.maximum(before, offers.overhead), np.maximum(new - grown, 0))
        paid = cost[alive, column] + _cost(rates, new, same)
        best[alive] = np.minimum(best[alive], np.where(able, paid, np.inf))
    return best


# ---- simple rules ------------------------------------------------------------------------------


def fixed(offers: Offers, rates: Rates, window: int, trigger: int, act: str) -> int:
    """Nanodollars of a rule that acts at a fixed size."""
    sizes, total, cleared = offers.sizes, 0, 0
    size = before = 0
    for request in range(len(sizes)):
        grown = int(sizes[request] - (sizes[request - 1] if request else 0))
        before, size = size, size + grown
        same = before
        if size >= trigger and act == "summary" and offers.after[request] < sizes[request]:
            size, same = int(offers.after[request]), offers.overhead
        elif size >= trigger and act == "clear":
            old = int(np.searchsorted(offers.at, request, side="right")) - 3
            freed = int(offers.gone[cleared : max(cleared, old)].sum())
            if freed:
                begun = int(sizes[max(int(offers.at[cleared]) - 1, 0)]) - int(
                    offers.gone[:cleared].sum()
                )
                size, same, cleared = size - freed, max(offers.overhead, begun), old
            if size > window:
                size, same = _dropped(size, offers.overhead, window // 2), offers.overhead
        elif size > window and act in ("half", "slide"):
            goal = (size + offers.overhead) // 2 if act == "half" else window
            size, same = _dropped(size, offers.overhead, goal), offers.overhead
        same = min(same, size)
        write, read = rates(np.array([size]))
        total += same * int(read[0]) + (size - same) * int(write[0])
    return total


def _dropped(size: int, overhead: int, goal: int) -> int:
    return max(overhead, min(size, goal))


RULES = {
    "summary at 50 %": ("summary", 50),
    "summary at 80 %": ("summary", 80),
    "summary at 95 %": ("summary", 95),
    "clear at 50 %": ("clear", 50),
    "clear at 80 %": ("clear", 80),
    "half at 100 %": ("half", 100),
    "slide at 100 %": ("slide", 100),
}


def played(
    script: SessionScript, row: Model, window: int, words: UserWords | None = None
) -> dict[str, int] | None:
    """Nanodollars of each schedule; `None` where none has anything to do. `words`: looks at the requests of `buffered`."""
    settings = WindowSettings(auto_compact_window=window)
    marks = window_for(row, settings=settings)
    sizes = [tokens for _, tokens in _sizes(script, row)]
    if not sizes or max(sizes) < window * MARK // 100 or window > row.context_window:
        return None
    found, seen = dict[str, int](), dict[int, int]()
    for name, policy in (("buffered", POLICY), ("ladder", Policy.ladder())):
        look = words.look if words and name == "buffered" else None
        run = replay_session(script, policy, model=row.name, settings=settings, seen=look)
        if run.error:
            return None
        found[name] = run.nanousd
        for turn in run.turns:
            if any(stage == "autocompact" for stage, _, _ in turn.acted):
                at = turn.number - 1
                seen[at] = min(turn.tokens, seen.get(at, turn.tokens))
    rates, offers = rates_for(row), offers_of(script, row, settings, seen)
    best, bound = optimum(offers, rates, marks)
    fuller, _ = optimum(offers, rates, replace(marks, blocking_at=marks.context))
    found = {"optimum": best, "optimum of the whole window": fuller, "bound": bound, **found}
    for name, (act, percent) in RULES.items():
        found[name] = fixed(offers, rates, window, window * percent // 100, act)
    return found


def sessions(folder: Path) -> Iterator[tuple[Path, SessionScript]]:
    """All that say something."""
    for path in sorted(folder.glob("*/*")):
        if path.suffix in SUFFIXES and (script := script_of(open_session(path))).messages:
            yield path, script


def main() -> None:
    """Prints a table for each size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100_000, 200_000, 400_000])
    given, found = parser.parse_args(), defaultdict[int, list[dict[str, int]]](list)
    words = defaultdict[int, list[UserWords]](list)
    for _, script in sessions(given.corpus):
        row = ModelTable.builtin().lookup(script.model or DEFAULT_MODEL)
        for size in given.sizes:
            seen = UserWords(script)
            if (one := played(script, row, size, seen)) is not None:
                found[size].append(one)
                words[size].append(seen)
    for size, rows in found.items():
        show(size, rows)
        counts = (sum(getattr(each, where) for each in words[size]) for where in WORDS)
        print("user's messages shown, recalled, lost:", ", ".join(f"{count:,}" for count in counts))


def show(size: int, rows: list[dict[str, int]]) -> None:
    """Cost over optimum: median, 90th percentile, sum."""
    print(
        f"\n{size:,} tokens, {len(rows)} sessions\n\n| schedule | median | 90th percentile | sum | dollars |"
    )
    for name in rows[0]:
        line(name, rows, name, "optimum")
    for below in rows[0]:
        if below in ("optimum of the whole window", "bound"):
            line(f"buffered ÷ {below}", rows, "buffered", below)


def line(title: str, rows: list[dict[str, int]], name: str, below: str) -> None:
    """One row of the table."""
    ratios = sorted(each[name] / each[below] for each in rows)
    total, least = (sum(each[key] for each in rows) for key in (name, below))
    high = ratios[min(len(ratios) - 1, 9 * len(ratios) // 10)]
    print(
        f"| {title} | {statistics.median(ratios):.3f} | {high:.3f} | {total / least:.3f} | {total / 1e9:,.2f} |"
    )


if __name__ == "__main__":
    main()
