"""Every request of every real session, judged: legal, within the window, its prefix kept, and all that left brought back.

    python -m benches.fidelity.judged --corpus FOLDER [--model claude-opus-4-5] [--opinions N]

Sessions are played as if live under both presets. Each request is judged whole by `ullage.validate`, and each N-th (1:
every one) and each that a level touched by the checker of the test kit, which shares no code with it. A prefix is compared with the
request before, to the byte. At a session's end every message and result that left is asked for by its handle.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import orjson
from benches.fidelity.replays import SUFFIXES

from tests.oracle.legality import assert_legal
from ullage.facts.words import blocks_of
from ullage.legality import validate
from ullage.manager import ContextManager, Request
from ullage.policy import Policy
from ullage.replay import SessionScript, replay_session, script_of
from ullage.sessions import open_session

COLUMNS = {
    "requests": "requests",
    "illegal": "illegal",
    "opinions": "judged twice",
    "second": "illegal then",
    "over": "over window",
    "rewrites": "rewrites",
    "unaccounted": "prefix broken without account",
    "left": "messages and results that left",
    "lost": "not brought back equal",
    "errors": "sessions ended early",
}


class Judge:
    """Counts what is wrong with the requests of one session."""

    def __init__(self, model: str, opinions: int) -> None:
        self.model, self.opinions = model, opinions
        self.before: list[Any] = []
        self.repaired = False
        self.manager: ContextManager | None = None
        self.found: Counter[str] = Counter()

    def __call__(self, manager: ContextManager, request: Request) -> None:
        found, messages = self.found, request.messages
        self.manager = manager
        found["requests"] += 1
        found["illegal"] += not validate(messages, model=self.model, facts={"skip": ("A24",)}).ok
        found["over"] += request.tokens > manager.window.context
        found["rewrites"] += request.rewritten_from is not None
        found["unaccounted"] += not self._accounted(request, messages)
        if request.reports or request.number % self.opinions == 0:
            found["opinions"] += 1
            found["second"] += not self._legal(messages)
        self.before, self.repaired = messages, bool(request.repairs)

    def _accounted(self, request: Request, messages: list[Any]) -> bool:
        first = request.rewritten_from
        same = len(self.before) if first is None else first
        if len(messages) < same or not all(map(_equal, messages[:same], self.before[:same])):
            return False
        told = any(report.first_changed is not None for report in request.reports)
        # A repair that came, or is not needed any more, is an account as well.
        return first is None or told or bool(request.repairs) or self.repaired

    def _legal(self, messages: list[Any]) -> bool:
        try:
            assert_legal("anthropic", messages, model=self.model, window=0)
        except AssertionError:
            return False
        return True

    def recalled(self) -> None:
        """Asks for all that left by its handle."""
        if self.manager is None:
            return
        view, history, recall = self.manager.machine.view, self.manager.history, self.manager.recall
        inside = {source for source in view.sources if isinstance(source, int)}
        newest = {name: block for item in history for name, block in _results(item)}
        for at, item in enumerate(history):
            wanted = {f"m{at}": item} if at not in inside else {}
            wanted |= {name: newest[name] for name, _ in _results(item) if name in view.decisions}
            for handle, thing in wanted.items():
                self.found["left"] += 1
                self.found["lost"] += recall.get(handle).items != (thing,)


def _equal(a: Any, b: Any) -> bool:
    return a is b or orjson.dumps(a) == orjson.dumps(b)


def _results(item: Any) -> list[tuple[str, Any]]:
    blocks = (block for block in blocks_of(item) if block.get("type") == "tool_result")
    return [(block["tool_use_id"], block) for block in blocks]


def judged(script: SessionScript, policy: Policy, model: str, opinions: int) -> Counter[str]:
    """What is wrong with one session under one policy."""
    judge = Judge(model, opinions)
    run = replay_session(script, policy, model=model, seen=judge)
    judge.recalled()
    judge.found["errors"] += bool(run.error)
    return judge.found


def row(name: str, found: Counter[str]) -> str:
    """A line of the table."""
    return f"| {name} | {' | '.join(f'{found[column]:,}' for column in COLUMNS)} |"


def main() -> None:
    """Prints the table; ends with 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--model", default="claude-opus-4-5")
    parser.add_argument("--opinions", type=int, default=25)
    given = parser.parse_args()
    totals: dict[str, Counter[str]] = defaultdict(Counter)
    print(f"| folder, preset | {' | '.join(COLUMNS.values())} |")
    for folder in sorted(path for path in given.corpus.iterdir() if path.is_dir()):
        found: dict[str, Counter[str]] = defaultdict(Counter)
        for path in sorted(each for each in folder.iterdir() if each.suffix in SUFFIXES):
            script = script_of(open_session(path))
            for policy in (Policy.buffered(), Policy.ladder()) if script.messages else ():
                each = judged(script, policy, given.model, given.opinions)
                found[policy.preset] += each
        for preset, counted in found.items():
            print(row(f"{folder.name}, {preset}", counted))
            totals[preset] += counted
        sys.stdout.flush()
    for preset, counted in totals.items():
        print(row(f"all, {preset}", counted))
    wrong = ("illegal", "second", "over", "unaccounted", "lost", "errors")
    if any(counted[name] for counted in totals.values() for name in wrong):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
