"""Ullage and each framework's own ways to make room on the same made sessions: `python -m benches.frameworks`.

Each session is played through the framework's own agent: a scripted model gives the recorded answers, the tools the recorded
results, so that all of them have the same conversation, whatever was sent. Everything is at its recommended settings for a window
of 64,000 tokens. Where a model writes summaries, a scripted one does, once copying every planted fact that it is shown and once none.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import platform
import sys
import time
import warnings
from collections.abc import Sequence
from importlib import metadata

from benches.frameworks.recorded import Framework, Played, Recorded, Way, recorded
from benches.frameworks.scores import COLUMNS, Score, cells, score

import ullage

NAMES = (
    "langchain", "pydantic_ai", "openai_agents", "strands", "google_adk", "agent_framework", "inspect_ai",
)  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Print a table for each framework that is installed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=NAMES, nargs="*", default=NAMES)
    parser.add_argument("--way", help="only those whose name holds this")
    parser.add_argument("--tokens", type=int, default=80_000, help="of a session, roughly")
    parser.add_argument("--sessions", type=int, default=2)
    given = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    talks = [recorded(seed, given.tokens) for seed in range(1, given.sessions + 1)]
    for name in given.only:
        try:
            framework: Framework = importlib.import_module(f"benches.frameworks.{name}").FRAMEWORK
        except ImportError as error:
            print(f"skipped: {name}: {error}", file=sys.stderr)
            continue
        print(table(framework, talks, given.way or ""), flush=True)
    return 0


def table(framework: Framework, talks: Sequence[Recorded], chosen: str) -> str:
    """The rows of a framework in Markdown."""
    lines = [
        f"### {framework.title}", "", "| | " + " | ".join(COLUMNS) + " |", "| --- |" + " --: |" * len(COLUMNS),
    ]  # fmt: skip
    ways = [way for way in framework.ways if chosen in way.name]
    lines += [f"| {way.name} | " + " | ".join(row(framework, way, talks)) + " |" for way in ways]
    names = ", ".join(f"{name} {metadata.version(name)}" for name in framework.packages)
    about = f"{names}; CPython {platform.python_version()}, ullage {ullage.__version__}."
    return "\n".join([*lines, "", f"{len(talks)} sessions, {about}", ""])


def row(framework: Framework, way: Way, talks: Sequence[Recorded]) -> list[str]:
    """The cells of a way; two figures where a model writes, with either writer."""
    both = [cells(scores(framework, way, talks, copies)) for copies in ((True, False) if way.writes else (True,))]  # fmt: skip
    return [one if len(set(pair)) == 1 else " / ".join(pair) for one, *rest in zip(*both, strict=True) for pair in [(one, *rest)]]  # fmt: skip


def scores(framework: Framework, way: Way, talks: Sequence[Recorded], copies: bool) -> list[Score]:
    """One for each session."""
    found = []
    for talk in talks:
        played = Played(talk, copies, refuse=framework.overflow if way.recovers else None)
        started = time.process_time()
        try:
            way.run(played)
        except Exception as error:  # a framework may fail in any way; the row says how far it came
            told = f"after {len(played.sent)} requests: {type(error).__name__}: {str(error)[:150]}"
            print(f"{framework.title}, {way.name}: ended {told}", file=sys.stderr)
        spent = time.process_time() - started - played.aside
        found.append(score(played, framework, spent))
    return found


if __name__ == "__main__":
    sys.exit(main())
