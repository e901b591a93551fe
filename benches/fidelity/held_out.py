"""The constants of the order of names, chosen again without each repository, then scored on it.

    python benches/fidelity/held_out.py --corpus FOLDER [--size 3000]

Chosen are the weights of the user and of calls, how fast a name ages, and the power of the bytes that its score is divided by: 81
candidates, by the mean share of the identifiers of the next 20 calls that a bare list of names within half of the room holds, over the
cuts of all other repositories. Then the whole summary is made of the repository's own cuts with the constants chosen without it.
What this does not hold out: which kinds of names are recognised, and the shares of the sections, were found on the same sessions.
"""

from __future__ import annotations

import argparse
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import isqrt
from pathlib import Path
from statistics import fmean
from types import SimpleNamespace
from typing import Any

from cuts import Cut, cuts
from forward_use import LEAST, SIZE, Texts, add_own, needs, note_own, quartile, score
from reducers import count, extractive

from ullage._engine import core
from ullage._reference import names as name_tally
from ullage.facts import tallies
from ullage.facts.collector import Collector


@dataclass(frozen=True)
class Constants:
    """Of the order of names."""

    user: int = 8
    call: int = 4
    age: int = 5
    power: float = 0.5


TODAY = Constants()
CANDIDATES = [
    Constants(*each) for each in product((4, 8, 16), (2, 4, 8), (2, 5, 15), (0.0, 0.5, 1.0))
]
AGES = sorted({each.age for each in CANDIDATES})
ROOTS = {0.0: lambda size: 1, 0.5: isqrt, 1.0: lambda size: size}
LIST_PERCENT = 50

Worth = tuple[str, int, dict[int, tuple[float, float, float]]]
"""A name as listed, its bytes, and by age offset the sums over its uses: by the user, by calls, by all others."""


@dataclass
class Row:
    cut: Cut
    size: int
    used: set[str]
    names: list[Worth]


def repository(cut: Cut) -> str:
    """Its last word: sessions of two agents in one repository are one group."""
    return re.sub(r"/.*", "", cut.session).rsplit("-", 1)[-1]


def with_constants(chosen: Constants) -> None:
    """The order of names by other constants, in the plain engine, which finds names by the other one."""
    name_tally.find_names = core.find_names
    name_tally.AGE_OFFSET = chosen.age
    name_tally.isqrt = ROOTS[chosen.power]
    tallies.WEIGHTS.update(user=chosen.user, call=chosen.call)
    tallies.core = SimpleNamespace(NameTally=name_tally.NameTally)


def row_of(cut: Cut, size: int) -> Row | None:
    used, _ = needs(cut)
    if len(used) < LEAST:
        return None
    collector = Collector()
    for index, item in enumerate(cut.before):
        collector.feed(index, item)
    counted: Any = collector._names._counted
    last = len(cut.before) - 1
    names = [_worth(counted, text, uses, last) for text, uses in counted._spellings()]
    return Row(cut, count(cut.written) if cut.written else size, used, names)


def _worth(counted: Any, text: str, uses: Sequence[tuple[int, int]], last: int) -> Worth:
    shown = name_tally._tail(text) if counted._kinds[text] == name_tally.PATH else text
    authors = list(tallies.WEIGHTS)
    sums: dict[int, tuple[float, float, float]] = {}
    for age in AGES:
        user = call = others = 0.0
        for index, author in uses:
            share = 1 / max(age + last - index, 1)
            name = authors[author]
            user += share * (name == "user")
            call += share * (name == "call")
            others += share * tallies.WEIGHTS[name] * (name not in ("user", "call"))
        sums[age] = user, call, others
    return shown, len(shown.encode("utf-8", "replace")) + 2, sums


def listed(row: Row, by: Constants) -> float:
    """The score of a bare list of names within half of the room."""
    root = ROOTS[by.power]
    order = sorted(
        (-(by.user * sums[by.age][0] + by.call * sums[by.age][1] + sums[by.age][2]) / root(size), shown, size)
        for shown, size, sums in row.names
    )  # fmt: skip
    return score("\n".join(_within(order, row.size * 4 * LIST_PERCENT // 100)), row.used)


def _within(order: Sequence[tuple[float, str, int]], room: int) -> Iterator[str]:
    for _, shown, size in order:
        if size > room:
            return
        room -= size
        yield shown


def chosen_without(rows: Sequence[Row], shares: dict[Constants, list[float]], name: str) -> Constants:  # fmt: skip
    others = [at for at, row in enumerate(rows) if repository(row.cut) != name]
    return max(CANDIDATES, key=lambda each: fmean(shares[each][at] for at in others))


def measure(rows: Sequence[Row], seen: Texts) -> None:
    shares = {each: [listed(row, each) for row in rows] for each in CANDIDATES}
    found: list[dict[str, Any]] = []
    for name in sorted({repository(row.cut) for row in rows}):
        by = chosen_without(rows, shares, name)
        for label, constants in (("held out", by), ("today", TODAY)):
            with_constants(constants)
            own = [row for row in rows if repository(row.cut) == name]
            found += [_scored(row, extractive(row.cut.before, row.size), label, name) for row in own]  # fmt: skip
        print(f"{name}: without it {by}")
    add_own(found, seen)
    table(found)


def _scored(row: Row, text: str, label: str, name: str) -> dict[str, Any]:
    told = {label: {"all": score(text, row.used)}}
    held = {label: {each for each in row.used if each in text}}
    return {"repository": name, "kind": row.cut.kind, "scores": told, "used": set(row.used), "held": held}  # fmt: skip


def table(found: Sequence[dict[str, Any]]) -> None:
    groups: dict[tuple[str, str], list[dict[str, float | None]]] = defaultdict(list)
    for row in found:
        for label, told in row["scores"].items():
            groups[row["repository"], label].append(told)
            groups[row["kind"], label].append(told)
    print("| cuts | constants | n | mean | lower quarter | own names |")
    print("| --- | --- | --: | --: | --: | --: |")
    for (group, label), rows in sorted(groups.items()):
        every = [row["all"] or 0.0 for row in rows]
        own = [row["own"] for row in rows if row["own"] is not None]
        cells = (len(rows), f"{fmean(every):.3f}", f"{quartile(every):.3f}", f"{fmean(own or [0]):.3f}")  # fmt: skip
        print(f"| {group} | {label} | {' | '.join(map(str, cells))} |")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--size", type=int, default=SIZE)
    given = parser.parse_args()
    with_constants(TODAY)
    seen: Texts = defaultdict(set)
    rows = []
    for cut in cuts(given.corpus):
        note_own(cut, seen)
        if (row := row_of(cut, given.size)) is not None:
            rows.append(row)
    measure(rows, seen)


if __name__ == "__main__":
    main()
