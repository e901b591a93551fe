"""What the levels do to real sessions, and what that costs: every session played under both presets and under none.

    python -m benches.fidelity.replays --corpus FOLDER [--model claude-opus-4-5] [--change NAME=NUMBER ...]

A row for each folder. Prompts are priced by the model's table, cached as far as their prefix is the same; a rewrite is a
request that differs from the one before anywhere but at its end. The user's messages are looked for after each compaction and
at the end: verbatim in the request, or by one recall of the number that a summary gives them.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from ullage.facts import collect
from ullage.facts.model import Origin, UserInput
from ullage.manager import ContextManager, Request
from ullage.policy import Policy
from ullage.replay import Run, SessionScript, _texts, replay_session, script_of
from ullage.sessions import open_session

Policies = dict[str, Policy | None]
POLICIES: Policies = {"none": None, "buffered": Policy.buffered(), "ladder": Policy.ladder()}
WORDS = ("shown", "recalled", "lost")
SUFFIXES = {".jsonl", ".json", ".traj"}


def changed(changes: list[str]) -> Policies:
    """The presets with some of their numbers changed."""
    numbers = {name: int(value) for name, _, value in (each.partition("=") for each in changes)}
    return {
        name: policy.change(numbers) if policy is not None else None
        for name, policy in POLICIES.items()
    }


class UserWords:
    """Where the user's messages are, summed over the requests looked at: `shown`, `recalled`, or `lost`."""

    def __init__(self, script: SessionScript) -> None:
        self.last = len(list(script.requests()))
        self.shown = self.recalled = self.lost = 0

    def look(self, manager: ContextManager, request: Request) -> None:
        """At a request that a compaction made, and at the last."""
        acted = {report.stage for report in request.reports}
        if "autocompact" not in acted and request.number != self.last:
            return
        found = [each for each in collect(manager.history).inputs if each.origin is Origin.USER]
        inside = _plain(_texts(request.messages))
        out = [each for each in found if _plain(each.text) not in inside]
        self.shown += len(found) - len(out)
        if out:
            here = sum(_plain(each.text) in _recalled(manager, each, out) for each in out)
            self.recalled += here
            self.lost += len(out) - here


@lru_cache(maxsize=4)
def _range(manager: ContextManager, handle: str) -> str:
    return _plain(manager.recall.get(handle).text)


def _recalled(manager: ContextManager, words: UserInput, out: list[UserInput]) -> str:
    """What one recall gives: by the number that a summary names, or by position where it has none."""
    if not words.number:
        return _range(manager, f"m{words.index}")
    numbers = [each.number for each in out if each.number]
    return _range(manager, f"u{min(numbers)}-u{max(numbers)}")


def _plain(text: str) -> str:
    return " ".join(text.split())


class Played(NamedTuple):
    """One session under one policy."""

    run: Run
    words: UserWords


def played(path: Path, model: str, policies: Policies) -> dict[str, Played] | None:
    """One session under each policy; `None` where nothing was said."""
    script = script_of(open_session(path))
    if not script.messages:
        return None
    found = dict[str, Played]()
    for name, policy in policies.items():
        words = UserWords(script)
        found[name] = Played(replay_session(script, policy, model=model, seen=words.look), words)
    return found


def row(folder: str, sessions: list[dict[str, Played]]) -> str:
    """Sums over the sessions of a folder."""
    requests = sum(len(each["none"].run.turns) for each in sessions)
    cells = [folder, str(len(sessions)), f"{requests:,}"]
    for name in POLICIES:
        runs = [each[name].run for each in sessions]
        dollars = sum(run.nanousd for run in runs) / 1e9
        refused = sum(run.refused for run in runs)
        if name == "none":
            cells += [f"{refused:,}", f"{dollars:,.2f}"]
            continue
        rewrites = sum(run.rewrites for run in runs) / len(runs)
        again = sum(run.total("rewritten_tokens") for run in runs) // len(runs)
        cells += [f"{refused:,}", f"{rewrites:.1f}", f"{again:,}", f"{dollars:,.2f}"]
        words = [each[name].words for each in sessions]
        counts = (sum(getattr(one, where) for one in words) for where in WORDS)
        cells.append(" + ".join(f"{count:,}" for count in counts))
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--model", default="claude-opus-4-5")
    parser.add_argument("--change", action="append", default=[], help="of both presets")
    given = parser.parse_args()
    policies = changed(given.change)
    found: dict[str, list[dict[str, Played]]] = defaultdict(list)
    for path in sorted(given.corpus.glob("*/*")):
        if path.suffix in SUFFIXES and (runs := played(path, given.model, policies)) is not None:
            found[path.parent.name].append(runs)
    head = "| folder | sessions | requests | over window | $ |"
    print(
        head
        + " over | rewrites a session | written again a session | $ | user's messages shown + recalled + lost |"
        * 2
    )
    for folder, sessions in found.items():
        print(row(folder, sessions))
        sys.stdout.flush()
    print(row("all", [each for sessions in found.values() for each in sessions]))


if __name__ == "__main__":
    main()
