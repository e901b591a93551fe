"""What real sessions cost at several working sizes, and which names of their next calls they still hold.

    python -m benches.fidelity.frontier --corpus FOLDER [--write docs/frontier.svg]

Each session in its own model's window and at its prices; one whose window is smaller than a size counts with its window.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benches.fidelity.replays import SUFFIXES

from ullage.policy import Policy
from ullage.replay import costs_by_size, frontier_plot, replay_session, script_of, sum_of_costs
from ullage.replay.play import NeededNames, SizeCost, cost_at_size
from ullage.sessions import open_session

Played = tuple[int, SizeCost | None, tuple[SizeCost, ...]]


def played(path: Path, policy: Policy) -> Played | None:
    """Nanodollars unmanaged, the size that is the default, and all sizes; `None` where nothing was said."""
    script = script_of(open_session(path))
    if not script.messages:
        return None
    plain = replay_session(script, None).nanousd
    chosen = cost_at_size(script, policy, "", 0, NeededNames(script))
    return plain, chosen, costs_by_size(script, policy)


def main() -> None:
    """Prints the table, and draws it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--write", type=Path)
    given, policy = parser.parse_args(), Policy.buffered()
    paths = sorted(path for path in given.corpus.glob("*/*") if path.suffix in SUFFIXES)
    found = [each for path in paths if (each := played(path, policy)) is not None]
    plain, sizes = sum(each[0] for each in found), sum_of_costs(each[2] for each in found)
    chosen = [each[1] for each in found if each[1] is not None]
    names, held = sum(one.names for one in chosen), sum(one.held_names for one in chosen)
    print(f"{len(found)} sessions, ${plain / 1e9:,.2f} unmanaged")
    dollars = sum(one.nanousd for one in chosen) / 1e9
    print(f"| default | ${dollars:,.2f} | {held / max(1, names):.1%} |")
    for one in sizes:
        print(f"| {one.tokens:,} | ${one.nanousd / 1e9:,.2f} | {one.share:.1%} |")
    if given.write:
        drawn = frontier_plot(sizes, plain).replace("<svg ", '<svg style="background:#fff" ', 1)
        given.write.write_text(drawn + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
