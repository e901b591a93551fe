"""What the levels do to real sessions, and what that costs: every session played under both presets and under none.

    python -m benches.fidelity.replays --corpus FOLDER [--model claude-opus-4-5] [--change NAME=NUMBER ...]

A row for each folder. Prompts are priced by the model's table, cached as far as their prefix is the same; a rewrite is a
request that differs from the one before anywhere but at its end.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from pathlib import Path

from ullage.policy import Policy
from ullage.replay import Run, replay_session, script_of
from ullage.sessions import open_session

Policies = dict[str, Policy | None]
POLICIES: Policies = {"none": None, "buffered": Policy.buffered(), "ladder": Policy.ladder()}
SUFFIXES = {".jsonl", ".json", ".traj"}


def changed(changes: list[str]) -> Policies:
    """The presets with some of their numbers changed."""
    numbers = {name: int(value) for name, _, value in (each.partition("=") for each in changes)}
    return {
        name: policy.change(numbers) if policy is not None else None
        for name, policy in POLICIES.items()
    }


def played(path: Path, model: str, policies: Policies) -> dict[str, Run] | None:
    """One session under each policy; `None` where nothing was said."""
    script = script_of(open_session(path))
    if not script.messages:
        return None
    return {name: replay_session(script, policy, model=model) for name, policy in policies.items()}


def row(folder: str, sessions: list[dict[str, Run]]) -> str:
    """Sums over the sessions of a folder."""
    cells = [folder, str(len(sessions)), f"{sum(len(each['none'].turns) for each in sessions):,}"]
    for name in POLICIES:
        runs = [each[name] for each in sessions]
        dollars = sum(run.nanousd for run in runs) / 1e9
        refused = sum(run.refused for run in runs)
        if name == "none":
            cells += [f"{refused:,}", f"{dollars:,.2f}"]
            continue
        rewrites = sum(run.rewrites for run in runs) / len(runs)
        again = sum(run.total("rewritten_tokens") for run in runs) // len(runs)
        cells += [f"{refused:,}", f"{rewrites:.1f}", f"{again:,}", f"{dollars:,.2f}"]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--model", default="claude-opus-4-5")
    parser.add_argument("--change", action="append", default=[], help="of both presets")
    given = parser.parse_args()
    policies = changed(given.change)
    found: dict[str, list[dict[str, Run]]] = defaultdict(list)
    for path in sorted(given.corpus.glob("*/*")):
        if path.suffix in SUFFIXES and (runs := played(path, given.model, policies)) is not None:
            found[path.parent.name].append(runs)
    head = "| folder | sessions | requests | over window | $ |"
    print(head + " over | rewrites a session | written again a session | $ |" * 2)
    for folder, sessions in found.items():
        print(row(folder, sessions))
        sys.stdout.flush()
    print(row("all", [each for sessions in found.values() for each in sessions]))


if __name__ == "__main__":
    main()
