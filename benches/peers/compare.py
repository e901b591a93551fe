"""`make compare`: Ullage and every peer that is installed on the same sessions, as one table and one chart for each measure.

The contenders, their settings and the budget are those of `benches.peers.context` and `frameworks`. Made sessions have planted
facts; of a folder of real ones, the facts are those that code finds in them. Nothing asks a model. Libraries that cannot stand in
one environment stand in several: what this one lacks is measured by the next (`--also`).
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import metadata
from itertools import takewhile
from pathlib import Path
from typing import Any

from benches.peers.comparison_page import CHARTS, Group, Score, chart, table
from benches.peers.context import BUDGET, MAKERS, MODEL, Contender, Messages
from benches.peers.frameworks import MORE
from benches.peers.more_libraries import LIBRARIES
from benches.peers.talks import Talk, held, legal, loaded, made, real, saved, size_of

import ullage
from ullage.counting.models import ModelTable
from ullage.levels.cost import rates_of

LATER = 20
"""Requests that follow the change and are paid for in `dollars`: each reads the result from the cache."""

LONGEST = 60
"""Seconds for one call; a contender that needs longer for a session is not asked about further ones of that group."""

CONTENDERS: dict[str, Callable[[], Contender]] = dict(
    sorted(
        {**MAKERS, **MORE, **LIBRARIES}.items(),
        key=lambda each: (not each[0].startswith("ullage"), each[0].startswith("litellm")),
    )
)

ROOT = Path(__file__).parents[2]
PAGE, TABLES = ROOT / "docs" / "comparison.md", ROOT / "benches" / "TABLES.md"
BEGIN, END = "<!-- make compare: begin -->", "<!-- make compare: end -->"

PEERS = (
    "langchain", "langchain-core", "deepagents", "pydantic-ai-harness", "openai-agents", "strands-agents",
    "agent-framework-core", "inspect-ai", "llama-index-core", "convopack", "litellm",
)  # fmt: skip

Scores = dict[str, list[Score]]
"""The scores of each group of sessions."""

# ---- measuring -------------------------------------------------------------------------------


def score_of(contender: Contender, talks: Sequence[Talk]) -> Score:
    """Every session once, the first one once more for the memory, whose measurement slows everything down; up to a call that takes too long."""
    found = Score(contender.name)
    for talk in talks:
        before = contender.native(copy.deepcopy(talk.forms[contender.form]))
        whole = contender.back(before)
        try:
            with at_most(LONGEST):
                took, after = timed(contender, copy.deepcopy(before))
        except TookTooLong:
            found.late += 1
            break
        except ImportError:
            raise
        except Exception as error:  # a peer may give up in any way; the page says how often
            found.failed.append(type(error).__name__)
            continue
        if not found.milliseconds:
            found.megabytes += peak(contender, before)
        found.milliseconds.append(took)
        add(found, contender.form, whole, after, talk)
    return found


def timed(contender: Contender, own: Any) -> tuple[float, Messages]:
    started = time.process_time()
    made = contender.run(own)
    return 1e3 * (time.process_time() - started), contender.back(made)


class TookTooLong(BaseException):
    """Not an `Exception`: libraries that answer every error with the list as it was would catch that."""


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TookTooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def add(found: Score, form: str, whole: Messages, after: Messages, talk: Talk) -> None:
    size, full = size_of(after), max(1, size_of(whole))
    pairs = takewhile(lambda pair: pair[0] == pair[1], zip(whole, after, strict=False))
    prefix = size_of([old for old, _ in pairs])
    write, read = rates_of(ModelTable.builtin().lookup(MODEL), size)
    found.legal.append(legal(after, form))
    found.within.append(size <= BUDGET * 1.05)
    found.kept.append(size / full)
    found.prefix.append(prefix / full)
    found.facts.append(held(talk.facts, after))
    found.ahead.append(held(talk.ahead, after))
    found.dollars.append((prefix * read + (size - prefix) * write + LATER * size * read) / 1e9)


def peak(contender: Contender, before: Any) -> list[float]:
    """Megabytes; empty if the call takes too long while it is watched."""
    own = copy.deepcopy(before)
    tracemalloc.start()
    try:
        with at_most(LONGEST):
            contender.run(own)
        return [tracemalloc.get_traced_memory()[1] / 1e6]
    except TookTooLong:
        return []
    finally:
        tracemalloc.stop()


def scores(groups: dict[str, list[Talk]], names: Sequence[str]) -> Scores:
    """One score for each contender that is installed here, for each group."""
    found: Scores = {group: [] for group in groups}
    for name in names:
        for group, talks in groups.items():
            try:
                found[group].append(score_of(CONTENDERS[name](), talks))
            except ModuleNotFoundError as error:
                print(f"not here: {name}: {error}", file=sys.stderr)
                break
            except Exception as error:  # a peer may fail in any way; it is left out and named
                said = f"{type(error).__name__}: {str(error)[:200]}"
                print(f"left out: {name}, {group}: {said}", file=sys.stderr)
    return found


# ---- several environments ----------------------------------------------------------------------


def elsewhere(python: str, groups: dict[str, list[Talk]], names: Sequence[str]) -> Any:
    """The same of another interpreter: its scores and its versions."""
    with tempfile.TemporaryDirectory() as folder:
        for group, talks in groups.items():
            saved(talks, Path(folder, f"{group}.json"))
        command = [python, "-m", "benches.peers.compare", "--inner", folder, "--names", *names]
        subprocess.run(
            command, check=True, env={**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        )
        return json.loads(Path(folder, "scores").read_text(encoding="utf-8"))


def inner(folder: Path, names: Sequence[str]) -> None:
    """What `elsewhere` starts."""
    groups = {path.stem: loaded(path) for path in sorted(folder.glob("*.json"))}
    found = {group: [vars(each) for each in kept] for group, kept in scores(groups, names).items()}
    text = json.dumps({"scores": found, "versions": versions(PEERS)})
    Path(folder, "scores").write_text(text, encoding="utf-8")


def versions(names: Sequence[str]) -> dict[str, str]:
    """Of those peers that are installed."""
    known = {}
    for name in names:
        try:
            known[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return known


def everywhere(groups: dict[str, list[Talk]], also: Sequence[str]) -> tuple[Scores, dict[str, str]]:
    """Each contender in the first environment that has it."""
    found, known = scores(groups, list(CONTENDERS)), versions(PEERS)
    for python in also:
        have = {score.name for each in found.values() for score in each}
        wanted = [name for name in CONTENDERS if name not in have]
        if wanted:
            other = elsewhere(python, groups, wanted)
            known = {**other["versions"], **known}
            for group, kept in other["scores"].items():
                found[group] += [Score(**each) for each in kept]
    order = list(CONTENDERS)
    for each in found.values():
        each.sort(key=lambda score: order.index(score.name))
    return found, known


# ---- writing ---------------------------------------------------------------------------------


def page(groups: Sequence[Group], known: dict[str, str], command: str) -> str:
    """A table for each group, with what they were made with."""
    names = [f"ullage {ullage.__version__}", *(f"{name} {known[name]}" for name in known)]
    missing = [name for name in PEERS if name not in known]
    said = f"CPython {platform.python_version()}, {', '.join(names)}."
    lack = f" Not installed: {', '.join(missing)}." if missing else ""
    tables = [
        "\n\n".join([table(group, BUDGET, MODEL, LATER), *stopped(group)]) for group in groups
    ]
    return "\n\n".join([*tables, f"Command: `{command}`. {said}{lack}"]) + "\n"


def stopped(group: Group) -> list[str]:
    """Who took too long or raised an error, and of how many sessions the figures are then."""
    gave_up = [
        f"{score.name} raised {', '.join(sorted(set(score.failed)))} at {len(score.failed)} of {group.sessions} sessions; its figures are of the others."
        for score in group.scores
        if score.failed
    ]
    return gave_up + [
        f"{score.name} was stopped after {LONGEST} s at session {len(score.milliseconds) + 1} of {group.sessions}"
        + (f"; its figures are of the {len(score.milliseconds)} before." if score.legal else ".")
        for score in group.scores
        if score.late
    ]


def published(text: str, whole: str, charts: dict[str, str]) -> None:
    """A table and the charts in the documentation, all tables in those of the benchmarks."""
    for path, tables in ((PAGE, text), (TABLES, whole)):
        before, rest = path.read_text(encoding="utf-8").split(BEGIN)
        after = rest.split(END)[1]
        path.write_text(f"{before}{BEGIN}\n{tables}{END}{after}", encoding="utf-8")
    for measure, drawing in charts.items():
        (PAGE.parent / "assets" / "comparison" / f"{measure}.svg").write_text(drawing, "utf-8")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, help="real sessions, in addition to the made ones")
    parser.add_argument("--most", type=int, default=0, help="at most so many of them; 0: all")
    parser.add_argument("--also", action="append", default=[], help="a further interpreter")
    parser.add_argument("--output", type=Path, default=Path("dist/comparison"))
    parser.add_argument("--write", action="store_true", help="also into the documentation")
    parser.add_argument("--inner", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--names", nargs="*", default=(), help=argparse.SUPPRESS)
    given = parser.parse_args(argv)
    if given.inner:
        inner(given.inner, given.names)
        return 0
    talks = {"made": list(made())}
    if given.folder:
        talks["real"] = list(real(given.folder, given.most))
    found, known = everywhere(talks, given.also)
    groups = [Group(name, len(talks[name]), each) for name, each in found.items()]
    given.output.mkdir(parents=True, exist_ok=True)
    most = f" MOST={given.most}" if given.most else ""
    command = "make compare" + (f" CORPUS=FOLDER{most}" if given.folder else "")
    text = page(groups, known, command)
    (given.output / "table.md").write_text(text, encoding="utf-8")
    charts = {measure: chart(groups, measure) for measure in CHARTS}
    for measure, drawing in charts.items():
        (given.output / f"{measure}.svg").write_text(drawing, encoding="utf-8")
    if given.write:
        # The charts show all groups; real sessions, where there are any, are the table to read.
        published(page(groups[-1:], known, command), text, charts)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
