"""The second score: of how many later edits and commands can target and purpose be read from a compacted context?

    python benches/fidelity/later_work.py --corpus FOLDER [--size 3000] [--only NAME] [--peers]

Of the next 20 tool calls after a cut (see `cuts.py`), those that edit a file or run a command. A call counts only if its target and
its reason could have been known: both stood in the context before the cut.

- *Target*: of an edit the path's last two parts; of a command its program with the subcommand, and the files that it names.
  It can be read if the compacted context holds all of those that stood before the cut.
- *Purpose*: the agent's own reason: what the call describes itself as, else the last 400 characters that it said before the call. Its
  prose words of four and more letters (names, paths and the commonest words left out) are compared by their first five letters. It can be
  read if one passage of 400 characters of the compacted context holds half of those that stood before the cut.
- *Chance* is the same share of purposes, read from the context of another session: what any text of this kind would hold.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from cuts import CALLS, Cut, Message, blocks, cuts, said, text_of
from peer_reducers import ALL
from reducers import count

from ullage.facts.calls import Action, read_call
from ullage.facts.names import command_heads

SIZE = 3_000
CONTEXTS = ("ullage, extractive", "plain tail")
"""What is compared without `--peers`."""

WRITTEN = "the session's own summary"
REASON_CHARS = 400
PASSAGE_CHARS = 400
LEAST_WORDS = 3
STEM = 5
WORD = re.compile(r"(?<![\w./@:_-])[A-Za-z]{4,30}(?![\w/@_-]|[.:]\w)")
FILE = re.compile(r"(?<![\w=])(?:[\w@~.-]{1,80}/){0,20}[\w@-][\w@.-]{0,80}\.[A-Za-z]\w{0,7}\b")
COMMON = frozenset(
    "that this with from have will then also when they them were what which here there need let's lets into does done more just been some "
    "only each other than your their about should would could look looks want make sure using used uses like over after before".split()
)
CHANGES = (Action.EDIT, Action.WRITE, Action.DELETE)


@dataclass(frozen=True)
class Work:
    """A later edit or command, by what stood before the cut of its target and its reason."""

    kind: str
    target: frozenset[str]
    reason: frozenset[str]


def later_work(cut: Cut) -> list[Work]:
    """The edits and commands whose target and reason could be known at the cut."""
    before = "\n".join(map(text_of, cut.before))
    known = stems(before)
    found = []
    for block, words in _with_reasons(cut.after):
        for kind, target in _targets(block):
            target = {name for name in target if name in before}
            reason = stems(words) & known
            if target and len(reason) >= LEAST_WORDS:
                found.append(Work(kind, frozenset(target), frozenset(reason)))
    return found


def stems(text: str) -> set[str]:
    """The prose words of a text by their beginnings."""
    return {word for _, word in _placed(text)}


def _placed(text: str) -> Iterator[tuple[int, str]]:
    for match in WORD.finditer(text):
        word = match[0].lower()
        if word not in COMMON:
            yield match.start(), word[:STEM]


def _with_reasons(after: Sequence[Message]) -> Iterator[tuple[Message, str]]:
    """The next calls, each with its description or what the agent said last."""
    words, seen = "", 0
    for item in after:
        for block in blocks(item) if (said(item) or {})["role"] == "assistant" else ():
            if block.get("type") == "text":
                words = str(block.get("text") or "")[-REASON_CHARS:]
            elif block.get("type") == "tool_use" and seen < CALLS:
                seen += 1
                given = block.get("input")
                told = given.get("description") if isinstance(given, dict) else None
                yield block, told if isinstance(told, str) and told else words


def _targets(block: Message) -> Iterator[tuple[str, set[str]]]:
    for call in read_call(block.get("name"), block.get("input")):
        if call.action in CHANGES and call.target:
            yield "edits", {_short(call.target)}
        elif call.action is Action.COMMAND:
            yield "commands", {*command_heads(call.target), *map(_short, FILE.findall(call.target))}


def _short(path: str) -> str:
    return "/".join(path.split("/")[-2:])


def read_target(work: Work, text: str) -> bool:
    """Whether the context names the target."""
    return all(name in text for name in work.target)


def read_purpose(work: Work, placed: Placed) -> bool:
    """Whether one passage holds half of the reason's words.

    Args:
        work: The call.
        placed: The prose words of the context with their places.
    """
    need = (len(work.reason) + 1) // 2
    inside: list[tuple[int, str]] = []
    for place, word in placed:
        if word in work.reason:
            inside = [row for row in inside if place - row[0] <= PASSAGE_CHARS]
            inside.append((place, word))
            if len({each for _, each in inside}) >= need:
                return True
    return False


Placed = Sequence[tuple[int, str]]
Row = tuple[str, str, str, bool, bool, bool]
"""Kind of cut, context, kind of work; target, purpose, purpose in a foreign context."""


def measure(found: Sequence[Cut], size: int, names: Sequence[str]) -> Iterator[Row]:
    foreign: dict[str, Placed] = {}
    newest: dict[str, Placed] = {}
    session = ""
    for cut in found:
        if cut.session != session:
            session, foreign = cut.session, {**foreign, **newest}
        work = later_work(cut)
        for name, text in _contexts(cut, size, names):
            newest[name] = placed = list(_placed(text))
            for each in work:
                read = read_target(each, text), read_purpose(each, placed)
                yield cut.kind, name, each.kind, *read, read_purpose(each, foreign.get(name, ()))


def _contexts(cut: Cut, size: int, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    size = count(cut.written) if cut.written else size
    for name in names:
        yield name, ALL[name](cut.before, size)
    if cut.written:
        yield WRITTEN, cut.written


def table(rows: Sequence[Row]) -> None:
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        groups[row[0], row[1]].append(row)
    print(
        "| cut | context | calls | target | purpose | both | edits, both | commands, both | purpose by chance |"
    )
    print("| --- | --- |" + " --: |" * 7)
    for (kind, name), found in sorted(groups.items()):
        both = [row[3] and row[4] for row in found]
        parts = [_share([row[3] and row[4] for row in found if row[2] == part]) for part in ("edits", "commands")]  # fmt: skip
        cells = [
            _share([row[3] for row in found]),
            _share([row[4] for row in found]),
            _share(both),
            *parts,
        ]
        print(
            f"| {kind} | {name} | {len(found)} | {' | '.join(cells)} | {_share([row[5] for row in found])} |"
        )


def _share(values: Sequence[Any]) -> str:
    return f"{fmean(map(bool, values)):.3f}" if values else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--size", type=int, default=SIZE)
    parser.add_argument("--only", default="", help="cuts whose name holds this")
    parser.add_argument("--peers", action="store_true", help="every context of forward_use.py")
    given = parser.parse_args()
    names = tuple(ALL) if given.peers else CONTEXTS
    chosen = [cut for cut in cuts(given.corpus) if given.only in f"{cut.session} {cut.kind}"]
    rows = list(measure(chosen, given.size, names))
    table(rows)
    print(f"\n{len(chosen)} cuts, {len(rows)} rows: {Counter(row[2] for row in rows)}")


if __name__ == "__main__":
    main()
