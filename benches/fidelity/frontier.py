"""What real sessions cost at several working sizes, and which names of their next calls they still hold.

    python -m benches.fidelity.frontier --corpus FOLDER [--write docs/frontier.svg] [--sizes]

Each session in its own model's window and at its prices; one whose window is smaller than a size counts with its window.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benches.fidelity.replays import SUFFIXES, WORDS, UserWords

from ullage.counting.models import ModelTable
from ullage.manager import ContextManager, Request
from ullage.policy import Policy
from ullage.replay import (
    WORKING_SIZES,
    NeededNames,
    SessionScript,
    SizeCost,
    cost_at_size,
    costs_by_size,
    frontier_plot,
    replay_session,
    script_of,
    sum_of_costs,
)
from ullage.sessions import open_session


class NamesAndWords(NeededNames):
    """Looks for the user's messages as well."""

    def __init__(self, script: SessionScript) -> None:
        super().__init__(script)
        self.words = UserWords(script)

    def look(self, manager: ContextManager, request: Request) -> None:
        """Of this request."""
        super().look(manager, request)
        self.words.look(manager, request)


class Played(NamedTuple):
    """One session: nanodollars unmanaged, the size that is the default, where the user's words are there, and all sizes."""

    unmanaged: int
    chosen: SizeCost
    words: UserWords
    sizes: tuple[SizeCost, ...]


def played(path: Path, policy: Policy, sizes: Sequence[int]) -> Played | None:
    """`None` where nothing was said."""
    script = script_of(open_session(path))
    if not script.messages:
        return None
    needed = NamesAndWords(script)
    chosen = cost_at_size(script, policy, "", 0, needed)
    assert chosen is not None
    plain = replay_session(script, None).nanousd
    costs = costs_by_size(script, policy, sizes=sizes) if sizes else ()
    return Played(plain, chosen, needed.words, costs)


def main() -> None:
    """Prints the table, and draws it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--write", type=Path)
    parser.add_argument(
        "--sizes", type=int, nargs="*", default=WORKING_SIZES, help="none: the default alone"
    )
    given, policy = parser.parse_args(), Policy.buffered()
    paths = sorted(path for path in given.corpus.glob("*/*") if path.suffix in SUFFIXES)
    found = [each for path in paths if (each := played(path, policy, given.sizes)) is not None]
    plain, sizes = sum(each.unmanaged for each in found), sum_of_costs(each.sizes for each in found)
    names, held = (
        sum(getattr(each.chosen, name) for each in found) for name in ("names", "held_names")
    )
    print(
        f"{len(found)} sessions, ${plain / 1e9:,.2f} unmanaged, prices of {ModelTable.builtin().version}"
    )
    dollars = sum(each.chosen.nanousd for each in found) / 1e9
    most = max(each.chosen.nanousd / each.unmanaged for each in found if each.unmanaged)
    print(f"| default | ${dollars:,.2f} | {held / max(1, names):.1%} | at most {most - 1:+.2%} |")
    for one in sizes:
        print(f"| {one.tokens:,} | ${one.nanousd / 1e9:,.2f} | {one.share:.1%} |")
    for where in WORDS:
        print(f"user's messages {where}: {sum(getattr(each.words, where) for each in found):,}")
    if given.write:
        drawn = frontier_plot(sizes, plain).replace("<svg ", '<svg style="background:#fff" ', 1)
        given.write.write_text(drawn + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
