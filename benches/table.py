"""The tables of the documents, made of a record of `benches/python/bench_suite.py` (the JSON of pytest-benchmark).

    python -m benches.table            prints them
    python -m benches.table --write    writes them into benches/TABLES.md and the README
    python -m benches.table FILE       of another record than benches/record.json

`make bench` installs the peers, makes the record and writes the tables. A figure is the best of all rounds, or the best sweep's median; a ratio the median of those of the
sweeps, in which the contenders are timed one after the other.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
from importlib import metadata
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from benches.operation import OURS

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "benches" / "record.json"
TABLES = ROOT / "benches" / "TABLES.md"  # of all operations
README = ROOT / "README.md"  # of what users call
BEGIN, END = "<!-- make bench: begin -->", "<!-- make bench: end -->"

LIBRARIES = (
    "tiktoken", "bpe-openai", "gigatoken", "orjson", "pysimdjson", "msgspec", "langchain-core", "langchain",
    "deepagents", "pydantic-ai-harness", "openai-agents", "litellm",
)  # fmt: skip
COLUMNS = (
    "langchain",
    "deepagents",
    "pydantic-ai-harness",
    "openai-agents",
    "litellm",
    "orjson.loads",
)
"""Of the table of what users call; the faster of a library's ways counts."""
ROWS = {
    "idle turn": (OURS,),
    "idle turn by length": ("ullage, at 90,000 messages",),
    "body": (OURS, "ullage, at 30,000 messages", "ullage, with a log"),
    "view": (OURS,),
    "acting turn": (OURS,),
    "first request": (OURS,),
    "compaction": (OURS,),
    "inspect of a file": (OURS,),
    "compaction of a file": (OURS,),
    "fleet": (OURS, "ullage, one thread"),
    "start": (OURS,),
    "commands": (OURS,),
}
"""Of the table of what users call: of which operations, and which of Ullage's ways; `body` stands for `body: gemini` and all its like."""


class Figure(NamedTuple):
    """One contender at one operation; `ratio`: how many times as long as Ullage it took."""

    group: str
    operation: str
    contender: str
    value: float
    unit: str
    ratio: float


# ---- from a record ---------------------------------------------------------------------------


def figures(record: dict[str, Any]) -> list[Figure]:
    found = []
    for _, rows in groupby(record["benchmarks"], key=lambda each: each["group"]):
        sweeps: dict[str, list[dict[str, Any]]] = {}
        for each in rows:
            sweeps.setdefault(each["extra_info"]["contender"], []).append(each)
        ours = list(map(seconds, sweeps.get(OURS) or next(iter(sweeps.values()))))
        found += [figure(own, ours) for own in sweeps.values()]
    return found


def seconds(each: dict[str, Any]) -> float:
    """What one of the unit took, in the best round or the median of all."""
    said = each["extra_info"]
    return float(each["stats"][said.get("figure", "min")] / said["amount"])


def figure(own: list[dict[str, Any]], ours: list[float]) -> Figure:
    """Of one contender's sweeps."""
    said, took = own[0]["extra_info"], list(map(seconds, own))
    value = 1e6 * min(took) if said["unit"].startswith("µs") else 1 / min(took)
    ratio = statistics.median(each / mine for each, mine in zip(took, ours, strict=True))
    group = own[0]["group"]
    return Figure(group, said["operation"], said["contender"], value, said["unit"], ratio)


# ---- as text ---------------------------------------------------------------------------------


def everything(found: list[Figure]) -> list[str]:
    lines = ["| operation | contender | | relative to ullage |", "| --- | --- | --: | --: |"]
    last = ""
    for each in found:
        name = "" if each.operation == last else each.operation
        ratio = "1" if each.contender == OURS else number(each.ratio)
        last = each.operation
        lines.append(f"| {name} | {each.contender} | {number(each.value)} {each.unit} | {ratio} |")
    return lines


def in_a_glance(found: list[Figure]) -> list[str]:
    """What users call, a row for each, next to the libraries that can do it too; how many times Ullage's time they take."""
    columns = [name for name in COLUMNS if any(each.contender.startswith(name) for each in found)]
    lines = ["| | Ullage | " + " | ".join(columns) + " |"]
    lines.append("| --- |" + " --: |" * (len(columns) + 1))
    for group, ways in ROWS.items():
        own = [each for each in found if each.group.partition(":")[0] == group]
        for way in ways:
            if alike := sorted(each for each in own if each.contender == way):
                peers = own if way == OURS else []
                cells = [beside(peers, alike[0], name) for name in columns]
                lines.append(f"| {title(alike)} | {span(alike)} | " + " | ".join(cells) + " |")
    return lines


def title(alike: list[Figure]) -> str:
    """An operation's name; what another of Ullage's ways does otherwise takes the place of what follows the comma."""
    ours, forms = alike[0], f", {len(alike)} forms" if len(alike) > 1 else ""
    if ours.contender == OURS:
        return ours.operation.partition(":")[0] + forms
    return ours.operation.partition(",")[0] + ours.contender.removeprefix(OURS) + forms


def span(alike: list[Figure]) -> str:
    """From the least to the largest."""
    ordered = sorted(alike, key=lambda each: each.value)
    return " to ".join(dict.fromkeys(absolute(each) for each in (ordered[0], ordered[-1])))


def beside(own: list[Figure], ours: Figure, library: str) -> str:
    able = [each.ratio for each in own if each.contender.startswith(library)]
    return f"{number(min(able) / ours.ratio)} ×" if able else "–"


def absolute(figure: Figure) -> str:
    if not figure.unit.startswith("µs"):
        return f"{number(figure.value)} {figure.unit}"
    if figure.value >= 1e3:
        return f"{number(figure.value / 1e3)} ms"
    return f"{number(figure.value)} µs"


def number(value: float) -> str:
    """Three figures at the least, thousands apart."""
    if value >= 100:
        return f"{value:,.0f}".replace(",", " ")
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def versions() -> str:
    found = {"CPython": platform.python_version()}
    for name in LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return ", ".join(f"{name} {version}" for name, version in found.items())


def between(path: Path, text: str, begin: str = BEGIN, end: str = END) -> None:
    """Replaces what stands between the marks."""
    page = path.read_text(encoding="utf-8")
    before, rest = page.split(begin)
    after = rest.split(end)[1]
    path.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="benches.table")
    parser.add_argument("record", nargs="?", type=Path, default=RECORD)
    parser.add_argument("--write", action="store_true", help="into the documents")
    chosen = parser.parse_args(arguments)
    record = json.loads(chosen.record.read_text(encoding="utf-8"))
    found = figures(record)
    whole = [*everything(found), "", f"{record['versions']}."]
    glance = in_a_glance(found)
    print("\n".join([*glance, "", *whole]))
    if chosen.write:
        between(TABLES, "\n".join(whole))
        between(README, "\n".join(glance))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
