"""Attacks verifier, repairs, plans and translations with generated conversations.

Run: python -m benches.fidelity.legality --count 20000
The long run: nice -n 19 python -m benches.fidelity.legality --count 1000000 --workers 2 --report FILE

What is done with each conversation, and what must hold, is in `tests.attack`; `PLAN_TABLE`
there says how often each plan comes. The report is written after every part, so that a run can be
stopped: `--resume` continues where the report ends. Exits with 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.attack.runner import PLAN_TABLE, Attack, plan_of
from ullage.providers import PROVIDERS

PART = 2_000
SHOWN = 50
"""Failures that a report names; all are counted."""


class Part(NamedTuple):
    start: int
    stop: int
    opinions: int
    plans: frozenset[str]


def part(job: Part) -> dict[str, Any]:
    """Runs seeds; counts and failures."""
    attack, began = Attack(job.opinions), time.process_time()
    gc.disable()  # conversations hold no cycles; what there are go at the end of the part
    seeds = [seed for seed in range(job.start, job.stop) if plan_of(seed) in job.plans]
    for seed in seeds:
        attack.run(seed)
    gc.enable()
    gc.collect()
    named = [
        [each.seed, each.provider, each.plan, each.what, each.detail] for each in attack.failures
    ]
    return {
        "conversations": len(seeds),
        "seeds": job.stop - job.start,
        "cpu_seconds": time.process_time() - began,
        "counts": dict(attack.counts),
        "repairs": dict(attack.repairs),
        "left": dict(attack.left),
        "wrong": len(named),
        "failures": named[:SHOWN],
    }


def merged(total: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """Two reports as one."""
    out = dict(total)
    for name, value in found.items():
        if isinstance(value, dict):
            out[name] = dict(Counter(total.get(name, {})) + Counter(value))
        elif isinstance(value, list):
            out[name] = [*total.get(name, []), *value][:SHOWN]
        else:
            out[name] = total.get(name, 0) + value
    return out


def parts(start: int, args: argparse.Namespace) -> Iterator[Part]:
    plans = frozenset(args.plan or PLAN_TABLE) - frozenset(args.without or ())
    stop = args.seed_from + args.count
    for at in range(start, stop, PART):
        yield Part(at, min(at + PART, stop), args.opinions, plans)


def run(args: argparse.Namespace) -> dict[str, Any]:
    total: dict[str, Any] = {"first_seed": args.seed_from, "next_seed": args.seed_from}
    if args.resume and args.report.exists():
        total = json.loads(args.report.read_text("utf-8"))
    context = multiprocessing.get_context("spawn")
    with context.Pool(args.workers) as pool:
        for found in pool.imap(part, parts(total["next_seed"], args)):
            seeds = total.pop("first_seed"), total.pop("next_seed") + found["seeds"]
            total = {**merged(total, found), "first_seed": seeds[0], "next_seed": seeds[1]}
            if args.report:
                args.report.write_text(json.dumps(total, indent=1, sort_keys=True), "utf-8")
    return total


def told(total: dict[str, Any], seconds: float) -> str:
    counts = total["counts"]
    size = f"{total['conversations']:,} conversations, {len(PROVIDERS)} providers, {len(set(PLAN_TABLE))} plans"
    lines = [f"{size}, {total['cpu_seconds']:.0f} s of CPU time, {seconds:.0f} s"]
    kinds = {name: count for name, count in counts.items() if not _is_pair(name)}
    lines.append(f"done: {dict(sorted(kinds.items()))}")
    for plan in dict.fromkeys(PLAN_TABLE):
        each = [counts.get(f"{plan}:{provider}", 0) for provider in PROVIDERS]
        lines.append(f"  {plan:18} {sum(each):9,}   least for a provider {min(each):,}")
    lines.append(f"repaired by rule: {dict(sorted(total['repairs'].items()))}")
    lines.append(f"left, none of it in reach of a repair: {dict(sorted(total['left'].items()))}")
    lines += [f"WRONG seed {row[0]} {row[1]} {row[2]}: {row[3]}" for row in total["failures"]]
    lines.append(f"wrong: {total['wrong']:,}")
    return "\n".join(lines)


def _is_pair(name: str) -> bool:
    return name.partition(":")[2] in PROVIDERS


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=2000, help="seeds")
    parser.add_argument(
        "--plan", action="append", choices=sorted(set(PLAN_TABLE)), help="only these"
    )
    parser.add_argument("--without", action="append", choices=sorted(set(PLAN_TABLE)))
    parser.add_argument("--seed-from", type=int, default=0, help="first seed")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--opinions", type=int, default=20, help="second checker, once in so many")
    parser.add_argument("--report", type=Path, help="JSON, written after each part")
    parser.add_argument("--resume", action="store_true", help="go on where the report ends")
    args, began = parser.parse_args(), time.perf_counter()
    total = run(args)
    print(told(total, time.perf_counter() - began))
    return 1 if total["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
