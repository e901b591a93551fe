"""Every named operation, compared with the Python engine and the peers that are installed: one run, results checked first.

    python -m benches.table            prints the table
    python -m benches.table --write    also puts it into docs/measurements.md and the README, and its figures into benches/table.json
    python -m benches.table --rounds 1 --without exact context    whether everything runs

`make bench` installs the peers and does the latter. Processor time of one thread; contenders take turns, so that a busy machine
slows all of them down; a ratio is the median of the rounds' ratios, an absolute figure the best round. A peer that is not
installed, or fails, is named and left out.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import platform
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import orjson
from benches import users
from benches.peers import context
from benches.python import bench_bpe, bench_index, bench_ledger
from benches.users import POOL

from ullage import _core, _reference

ROOT = Path(__file__).parents[1]
FIGURES = Path(__file__).with_name("table.json")
PAGE = ROOT / "docs" / "measurements.md"
README = ROOT / "README.md"
BEGIN, END = "<!-- benches.table: begin -->", "<!-- benches.table: end -->"

PEERS = (
    "tiktoken", "bpe-openai", "gigatoken", "orjson", "pysimdjson", "msgspec", "langchain-core", "langchain",
    "deepagents", "pydantic-ai-harness", "openai-agents", "litellm",
)  # fmt: skip

OURS, TWIN = "ullage", "Ullage's Python engine"
Run = Callable[[], Any]
OFTEN = 2_000


class Operation(NamedTuple):
    """What is timed, how much of what unit it does, and in which rounds.

    `checked` names the contenders whose answers must be equal; the others answer less or something else.
    """

    name: str
    unit: str
    amount: float
    contenders: dict[str, Run]
    rounds: int = 7
    checked: tuple[str, ...] = (OURS, TWIN)
    often: tuple[str, ...] = ()  # contenders that do it `OFTEN` times in one run
    amounts: Mapping[str, float] = MappingProxyType(
        {}
    )  # of contenders that do another amount in one run
    wall: bool = False  # the time that passes counts, not the processor's


class Figure(NamedTuple):
    """One contender at one operation; `ratio`: how many relative to ullage it took."""

    operation: str
    contender: str
    value: float
    unit: str
    ratio: float


def optional(contenders: dict[str, Run], name: str, make: Callable[[], Run]) -> None:
    """Adds a peer if it is installed and runs."""
    try:
        run = make()
        run()
    except Exception as error:  # a peer may fail in any way; it is left out and named
        print(f"skipped: {name}: {type(error).__name__}: {str(error)[:120]}", file=sys.stderr)
        return
    contenders[name] = run


# ---- operations ------------------------------------------------------------------------------


def scan() -> Operation:
    items = bench_ledger.conversation(1000)
    runs = {
        OURS: lambda: _core.Ledger(None, items).tokens(),
        TWIN: lambda: _reference.Ledger(None, items).tokens(),
        "lengths alone, plain Python": lambda: bench_ledger.plain_estimate(items),
        "orjson.dumps of the list": lambda: orjson.dumps(items),
    }
    optional(runs, "langchain count_tokens_approximately", lambda: langchain_count(items))
    optional(runs, "litellm token_counter", lambda: litellm_count(items))
    checked = (OURS, TWIN, "lengths alone, plain Python")
    return Operation("scan of 1,000 messages", "µs a message", 1000, runs, checked=checked)


def scan_in_cache() -> Operation:
    """Alone and again and again: the processor's cache holds the list, as it does for a host that counts what it just built."""
    items, times = bench_ledger.conversation(1000), 20
    runs = {
        OURS: lambda: [_core.Ledger(None, items).tokens() for _ in range(times)],
        "lengths alone, plain Python": lambda: [
            bench_ledger.plain_estimate(items) for _ in range(times)
        ],
        "orjson.dumps of the list": lambda: [len(orjson.dumps(items)) for _ in range(times)],
    }
    name = "the same, twenty times in a row"
    checked = (OURS, "lengths alone, plain Python")
    return Operation(name, "µs a message", 1000 * times, runs, checked=checked)


def langchain_count(items: list[Any]) -> Run:
    utils: Any = importlib.import_module("langchain_core.messages.utils")
    # It reads no Anthropic tool results as dicts; the chat form says the same.
    chat = chat_of(items)
    return lambda: utils.count_tokens_approximately(chat)


def litellm_count(items: list[Any]) -> Run:
    litellm: Any = importlib.import_module("litellm")
    chat = chat_of(items)
    return lambda: litellm.token_counter(model="gpt-4o", messages=chat)


def chat_of(items: list[Any]) -> list[Any]:
    from ullage.providers import openai_chat

    return list(openai_chat.to_provider(items).parts["messages"])


def turn() -> Operation:
    items, new = bench_ledger.conversation(10_000), bench_ledger.conversation(2, 7)
    ledger = _core.Ledger(None, items)
    runs: dict[str, Run] = {
        OURS: lambda: bench_ledger.turn(ledger, new),
        "ullage, the list passed again": lambda: (ledger.sync(items), ledger.anchored()),
    }
    for name, run in runs.items():
        # So short that it is done often: the others below are done once.
        runs[name] = lambda run=run: [run() for _ in range(OFTEN)]
    runs["lengths alone, plain Python"] = lambda: bench_ledger.plain_estimate([*items, *new])
    optional(runs, "langchain count_tokens_approximately", lambda: langchain_count([*items, *new]))
    often = (OURS, "ullage, the list passed again")
    return Operation(
        "a turn at 10,000 messages", "µs a turn", 1, runs, rounds=5, checked=(), often=often
    )


def transcript(path: Path) -> Operation:
    bench_index.check(path)
    runs: dict[str, Run] = {
        OURS: lambda: bench_index.index(path),
        "orjson.loads, kept": lambda: bench_index.keep_orjson(path),
        "orjson.loads, dropped": lambda: bench_index.drop_orjson(path),
        "json.loads, kept": lambda: bench_index.keep_json(path),
    }
    optional(runs, "pysimdjson, lazy, one field", lambda: simdjson_lazy(path))
    optional(runs, "msgspec, untyped, kept", lambda: msgspec_lines(path))
    size = path.stat().st_size / 1e6
    return Operation("index of a transcript", "MB/s", size, runs, rounds=9, checked=())


def simdjson_lazy(path: Path) -> Run:
    simdjson: Any = importlib.import_module("simdjson")

    def run() -> int:
        parser, found = simdjson.Parser(), 0
        for line in path.read_bytes().splitlines():
            # Only one document of a parser may be alive.
            document = parser.parse(line)
            found += len(document["type"])
            del document
        return found

    return run


def msgspec_lines(path: Path) -> Run:
    decoder = importlib.import_module("msgspec.json").Decoder()
    return lambda: decoder.decode_lines(path.read_bytes())


def objects(path: Path) -> Operation:
    index = bench_index.index(path)
    lines = path.read_bytes().splitlines()
    runs: dict[str, Run] = {
        OURS: lambda: [index.load(at) for at in range(len(index))],
        "orjson.loads": lambda: [orjson.loads(line) for line in lines],
    }
    size = path.stat().st_size / 1e6
    name = "objects of all lines, on demand"
    return Operation(name, "MB/s", size, runs, checked=(OURS, "orjson.loads"))


def rules() -> Operation:
    items = bench_ledger.conversation(1000)
    ours, twin = _core.Ledger(None, items), _reference.Ledger(None, items)
    runs: dict[str, Run] = {
        OURS: lambda: [tuple(found) for found in _core.check(ours, "anthropic", {})],
        TWIN: lambda: [tuple(found) for found in _reference.check(twin, "anthropic", {})],
    }
    return Operation("Anthropic's rules over 1,000 messages", "µs a message", 1000, runs)


def estimate() -> Operation:
    text = bench_bpe.generated_json(random.Random(1))[:100_000]
    runs: dict[str, Run] = {
        OURS: lambda: list(_core.features(text)),
        TWIN: lambda: list(_reference.features(text)),
    }
    return Operation(
        "features of a text, for the calibrated estimate", "MB/s", len(text) / 1e6, runs
    )


def of_users(make: Callable[[Path], users.UserCase], folder: Path) -> Operation:
    case = make(folder)
    return Operation(
        case.name,
        case.unit,
        case.amount,
        case.runs,
        rounds=case.rounds,
        checked=(),
        amounts=case.amounts,
        wall=case.wall,
    )


def operations(folder: Path) -> Iterator[Callable[[], Operation]]:
    """Made one after the other, so that each has the memory to itself."""
    for make in users.CASES.values():
        yield lambda make=make: of_users(make, folder)
    path = bench_index.make(folder / "session.jsonl")
    yield scan
    yield scan_in_cache
    yield turn
    yield lambda: transcript(path)
    yield lambda: objects(path)
    yield rules
    yield estimate


# ---- timing ----------------------------------------------------------------------------------


def timed(operation: Operation, most: int = POOL - 1) -> list[Figure]:
    answers = [operation.contenders[name]() for name in operation.checked]
    assert all(answer == answers[0] for answer in answers), operation.name
    del answers
    took: dict[str, list[float]] = {name: [] for name in operation.contenders}
    for _ in range(min(most, operation.rounds)):
        for name, run in operation.contenders.items():
            seconds = clock(run, wall=operation.wall)
            share = operation.amounts.get(name, operation.amount) / operation.amount
            took[name].append(seconds / share / (OFTEN if name in operation.often else 1))
    ours = took[OURS]
    return [
        Figure(
            operation.name, name, value(operation, min(times)), operation.unit, median(times, ours)
        )
        for name, times in took.items()
    ]


def clock(run: Run, *, wall: bool = False) -> float:
    now = time.perf_counter if wall else time.process_time
    gc.collect()
    gc.disable()
    started = now()
    answer = run()
    seconds = now() - started
    gc.enable()
    del answer
    return seconds


def value(operation: Operation, seconds: float) -> float:
    if operation.unit.startswith("µs"):
        return 1e6 * seconds / operation.amount
    return operation.amount / seconds


def median(times: list[float], ours: list[float]) -> float:
    return statistics.median(each / mine for each, mine in zip(times, ours, strict=True))


def exact(repetitions: int = 2) -> list[Figure]:
    """Text not seen before, by kind; a process for each repetition, checked in the first."""
    texts = bench_bpe.corpus()
    peers, _ = bench_bpe.installed("o200k_base")
    sample = [text for kind in texts.values() for text in kind[::20]]
    expected = [peers["tiktoken"](text) for text in sample]
    assert bench_bpe.wrong(peers["ullage"], sample, expected) == 0
    command = [sys.executable, str(ROOT / "benches/python/bench_bpe.py"), "o200k_base", "--once"]
    runs = [
        json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        for _ in range(repetitions)
    ]
    figures = []
    for kind in runs[0]:
        for name in runs[0][kind]:
            if "r50k" in name:
                continue
            rates = [run[kind][name][1] for run in runs]
            ratios = [run[kind]["ullage"][1] / run[kind][name][1] for run in runs]
            contender = TWIN if "Python" in name else name
            title = f"exact count, unseen {kind}"
            figures.append(Figure(title, contender, max(rates), "MB/s", statistics.median(ratios)))
    return figures


# ---- printing --------------------------------------------------------------------------------


def in_a_glance(figures: list[Figure]) -> list[str]:
    """What users call and peers can do too, a row for each: the figure, and how many times Ullage's it is."""
    names = list(dict.fromkeys(each.operation for each in figures if each.contender in users.PEERS))
    if not names:
        return []
    found = {(each.operation, each.contender): each for each in figures}
    rows = [OURS, *users.PEERS]
    lines = ["| | " + " | ".join(names) + " |", "| --- |" + " --: |" * len(names)]
    for row in rows:
        cells = (found.get((name, row)) for name in names)
        if any(known := list(cells)):
            lines.append(f"| {row} | " + " | ".join(map(cell, known)) + " |")
    return [*lines, "", "–: it changes nothing there, or cannot be called.", ""]


def cell(figure: Figure | None) -> str:
    if figure is None:
        return "–"
    said = (
        f"{number(figure.value / 1e3)} ms" if figure.value >= 1e3 else f"{number(figure.value)} µs"
    )
    return said if figure.contender == OURS else f"{said}, {number(figure.ratio)} ×"


def idle(figures: list[Figure]) -> str | None:
    """The README's row about a turn; `None`: it was not timed."""
    short, *_ = figures
    long = next(
        (each for each in figures if each.contender == f"ullage, at {users.LONG:,} messages"), None
    )
    if long is None:
        return None
    length = short.operation.rpartition(" at ")[2].split()[0]
    return (
        f"| a turn with nothing to do (two messages added, a request), at {length}, at {users.LONG:,} messages | "
        f"| {number(short.value)} µs, {number(long.value)} µs |"
    )


def markdown(figures: list[Figure], rows: list[context.Row]) -> str:
    lines = in_a_glance(figures)
    lines += ["| operation | contender | | relative to ullage |", "| --- | --- | --: | --: |"]
    last = ""
    for each in figures:
        name = "" if each.operation == last else each.operation
        last = each.operation
        ratio = "1" if each.contender == OURS else number(each.ratio)
        lines.append(f"| {name} | {each.contender} | {number(each.value)} {each.unit} | {ratio} |")
    if rows:
        lines += ["", *side_by_side(rows)]
    return "\n".join(lines)


def number(value: float) -> str:
    """Three figures at the least, thousands apart."""
    if value >= 100:
        return f"{value:,.0f}".replace(",", " ")
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def side_by_side(rows: list[context.Row]) -> list[str]:
    lines = [
        f"Context editors on {rows[0].conversations} generated coding sessions of {context.TOKENS:,} tokens, with a target of {context.BUDGET:,}. *Within*: at most a",
        "tenth above it. *Kept*: share of the request's tokens that are left; *prefix*: share that is unchanged from the start on, where the provider's cache",
        "is still valid. One call on the whole conversation; none asks a model (deepagents has a scripted one).",
        "",
        "| | ms | legal | within | kept | prefix | rules broken |",
        "| --- | --: | --: | --: | --: | --: | --- |",
    ]
    for row in rows:
        of = row.conversations
        lines.append(
            f"| {row.name} | {number(row.milliseconds)} | {row.legal} of {of} | {row.within_budget} of {of} | "
            f"{row.kept_percent:.0f} % | {row.prefix_percent:.1f} % | {', '.join(row.broken)} |"
        )
    return lines


def versions() -> dict[str, str]:
    found = {"CPython": platform.python_version()}
    for name in PEERS:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def write(text: str, figures: list[Figure], rows: list[context.Row]) -> None:
    data: dict[str, Any] = {
        "versions": versions(),
        "figures": [each._asdict() for each in figures],
        "context": [row._asdict() for row in rows],
    }
    FIGURES.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    page = PAGE.read_text(encoding="utf-8")
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    said = ", ".join(f"{name} {version}" for name, version in versions().items())
    PAGE.write_text(f"{before}{BEGIN}\n{text}\n\n{said}.\n{END}{after}", encoding="utf-8")
    if row := idle(figures):
        kept = README.read_text(encoding="utf-8")
        README.write_text(
            re.sub(r"^\| a turn with nothing to do .*$", row, kept, flags=re.M), "utf-8"
        )


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="benches.table")
    parser.add_argument("--write", action="store_true", help="into the documents")
    parser.add_argument("--rounds", type=int, default=POOL - 1, help="at most so many")
    parser.add_argument("--without", nargs="*", default=[], choices=["exact", "context"])
    chosen = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as folder:
        for make in operations(Path(folder)):
            started = time.perf_counter()
            operation = make()
            figures += timed(operation, chosen.rounds)
            took = time.perf_counter() - started
            print(f"{operation.name}: {took:.0f} s", file=sys.stderr)
            del operation
    figures += [] if "exact" in chosen.without else exact()
    rows = (
        []
        if "context" in chosen.without
        else context.rows(lambda said: print(said, file=sys.stderr))
    )
    text = markdown(figures, rows)
    print(text)
    if chosen.write:
        write(text, figures, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
