"""A compaction's target as a fixed share against one that follows the growth of the context: requests between compactions, and dollars.

    python -m benches.fidelity.targets --corpus FOLDER [--every 8] [--window 60000]

Real sessions under the ladder with a small window, so that there are many compactions, and at most 4 000 tokens of system prompt and tools.
A smaller share is both cheaper and rarer, and keeps less: rows are compared at equal size after a compaction, or at equal cost.
"""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import replace
from pathlib import Path

from ullage.policy import Policy
from ullage.replay import replay_session, script_of
from ullage.replay.session_script import SessionScript
from ullage.sessions import open_session

MODEL = "claude-opus-4-5"
LEAST_BYTES = 1_200_000
OVERHEAD = 4_000
SHARES = (10, 20, 35, 50)


def scripts(corpus: Path, every: int, first: int) -> list[SessionScript]:
    files = [
        path for path in sorted(corpus.glob("*/*"))
        if path.suffix in (".jsonl", ".json") and path.stat().st_size > LEAST_BYTES
    ]  # fmt: skip
    found = [script_of(open_session(path)) for path in files[first::every]]
    return [
        replace(script, overhead_tokens=min(script.overhead_tokens, OVERHEAD))
        for script in found
        if script.messages
    ]


def row(name: str, given: list[SessionScript], policy: Policy, window: int) -> None:
    sums: Counter[str] = Counter()
    for script in given:
        run = replay_session(script, policy, model=MODEL, context_window=window)
        after = [
            turn.tokens for turn in run.turns
            if any(level.startswith("autocompact") for level, _, _ in turn.acted)
        ]  # fmt: skip
        sums.update(requests=len(run.turns), compactions=len(after), after=sum(after))
        sums.update(nanousd=run.nanousd, size=run.total("tokens"))
    count, requests = max(sums["compactions"], 1), max(sums["requests"], 1)
    cells = (name, count, f"{requests / count:.1f}", f"{sums['nanousd'] / 1e9:.2f}")
    print(f"| {' | '.join(map(str, cells))} | {sums['after'] // count:,} | {sums['size'] // requests:,} |", flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--every", type=int, default=8)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--window", type=int, default=60_000)
    given = parser.parse_args()
    found = scripts(given.corpus, given.every, given.first)
    print(f"{len(found)} sessions")
    print("| target | compactions | requests each | $ | tokens after one | tokens of a request |")
    for share in SHARES:
        for follows in (False, True):
            policy = Policy.ladder().change(
                {"auto.target_percent": share, "auto.follow_growth": follows}
            )
            name = f"{share} %, following growth" if follows else f"{share} %"
            row(name, found, policy, given.window)


if __name__ == "__main__":
    main()
