"""Older verbatim pieces in place of a part of the summary: what later work can read in each mixture of one size.

    python benches/fidelity/verbatim.py --corpus FOLDER [--every 4] [--size 3000]

A piece is up to 1 200 characters of one message, on line ends. Its worth is the score of the names in it that the summary does not hold, for each of its tokens; pieces are taken by worth, and one whose
names others have brought is passed over. *Forward use*, *target* and *purpose* as in `forward_use.py` and `later_work.py`. For comparison the same room with the newest text.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean

from cuts import Message, cuts, text_of
from forward_use import LEAST, SIZE, needs, score
from later_work import _placed, later_work, read_purpose, read_target
from reducers import count, extractive, tail

from ullage.facts import Facts, collect
from ullage.facts.names import find_names

PIECE_CHARS = 1_200
LEAST_CHARS = 80
SHARES = (10, 25, 50)
NAMES, PIECES = 800, 400
NEW_PERCENT = 60
"""Of a piece's worth that other pieces must not have brought."""

Piece = tuple[int, str, frozenset[str]]


def pieces(before: Sequence[Message], known: frozenset[str]) -> Iterator[Piece]:
    for at, item in enumerate(before):
        for text in _blocks(text_of(item)):
            names = frozenset(name for name, _ in find_names(text)) & known
            if names and len(text) >= LEAST_CHARS:
                yield at, text, names


def _blocks(text: str) -> Iterator[str]:
    lines: list[str] = []
    for line in text.split("\n"):
        if lines and sum(map(len, lines)) + len(line) > PIECE_CHARS:
            yield "\n".join(lines)
            lines = []
        lines.append(line[:PIECE_CHARS])
    yield "\n".join(lines)


def with_pieces(facts: Facts, found: Sequence[Piece], summary: str, room: int) -> str:
    worth = {name.text: name.score for name in facts.names[:NAMES] if name.text not in summary}

    def value(piece: Piece, held: set[str]) -> float:
        return sum(worth.get(name, 0) for name in piece[2] if name not in held) / len(piece[1])

    ranked = sorted(found, key=lambda piece: -value(piece, set()))[:PIECES]
    held: set[str] = set()
    chosen: list[Piece] = []
    for piece in ranked:
        if value(piece, held) * 100 <= value(piece, set()) * NEW_PERCENT:
            continue
        price = count(piece[1]) + 1
        if price <= room:
            room -= price
            chosen.append(piece)
            held |= piece[2]
    return "\n".join([summary, *(text for _, text, _ in sorted(chosen))])


def mixtures(before: Sequence[Message], size: int) -> Iterator[tuple[str, str]]:
    facts = collect(before)
    found = list(pieces(before, frozenset(name.text for name in facts.names[:NAMES])))
    yield "summary alone", extractive(before, size)
    for share in SHARES:
        summary = extractive(before, size * (100 - share) // 100)
        yield f"{share} % verbatim pieces", with_pieces(facts, found, summary, size - count(summary) - 2)  # fmt: skip
        newest = tail(before, size - count(summary) - 2)
        yield f"{share} % newest text", f"{summary}\n{newest}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--size", type=int, default=SIZE)
    parser.add_argument("--every", type=int, default=4)
    given = parser.parse_args()
    uses: dict[str, list[float]] = defaultdict(list)
    read: dict[str, list[tuple[bool, bool]]] = defaultdict(list)
    for number, cut in enumerate(cuts(given.corpus)):
        used, _ = needs(cut) if number % given.every == 0 else (set[str](), set[str]())
        if len(used) < LEAST:
            continue
        work = later_work(cut)
        for name, text in mixtures(cut.before, count(cut.written) if cut.written else given.size):
            uses[name].append(score(text, used))
            placed = list(_placed(text))
            read[name] += [(read_target(each, text), read_purpose(each, placed)) for each in work]
    print("| context | cuts | forward use | target | purpose |")
    print("| --- | --: | --: | --: | --: |")
    for name, found in uses.items():
        target, purpose = (fmean(row[at] for row in read[name]) for at in (0, 1))
        print(f"| {name} | {len(found)} | {fmean(found):.3f} | {target:.3f} | {purpose:.3f} |")


if __name__ == "__main__":
    main()
