"""`make compare`: Ullage and every peer that is installed on the same sessions, as one table and one chart for each measure.

The contenders, their settings and the budget are those of `benches.peers.context`. Made sessions have planted facts; of a folder
of real ones, the facts are those that code finds in them. Nothing asks a model.
"""

from __future__ import annotations

import argparse
import copy
import json
import platform
import statistics
import sys
import time
import tracemalloc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from itertools import takewhile
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from benches.peers.context import BUDGET, MAKERS, MODEL, SEEDS, TOKENS, Contender, Messages, tokens

import ullage
from ullage import open_session, validate
from ullage.counting.models import ModelTable
from ullage.exceptions import UllageError
from ullage.facts import collect
from ullage.levels.cost import rates_of
from ullage.providers import openai_chat, openai_responses
from ullage.report.verbatim_facts import facts_in
from ullage.testing import scenario

LATER = 20
"""Requests that follow the change and are paid for in `dollars`: each reads the result from the cache."""

PEERS = (
    "langchain", "langchain-core", "deepagents", "pydantic-ai-harness", "openai-agents", "litellm", "tiktoken",
)  # fmt: skip


@dataclass(frozen=True)
class Talk:
    """A session in the three forms, with the texts that a good context still holds."""

    name: str
    forms: dict[str, Messages]
    facts: tuple[str, ...]


@dataclass
class Score:
    """What came of one contender, one value for each session."""

    name: str
    legal: list[bool] = field(default_factory=list)
    within: list[bool] = field(default_factory=list)
    kept: list[float] = field(default_factory=list)
    prefix: list[float] = field(default_factory=list)
    facts: list[float] = field(default_factory=list)
    milliseconds: list[float] = field(default_factory=list)
    megabytes: list[float] = field(default_factory=list)
    dollars: list[float] = field(default_factory=list)


MEASURES = {
    "legal": ("legal requests", "%", 100.0),
    "within": ("within a tenth above the budget", "%", 100.0),
    "facts": ("facts still there, verbatim", "%", 100.0),
    "prefix": ("prefix that the cache still holds", "%", 100.0),
    "kept": ("tokens kept", "%", 100.0),
    "dollars": (f"prompts of this and {LATER} later requests", "$", 1.0),
    "milliseconds": ("time of one call on the whole session", "ms", 1.0),
    "megabytes": ("memory at its peak, by Python's allocator", "MB", 1.0),
}
"""Field of a score → its name, unit and factor."""


# ---- sessions --------------------------------------------------------------------------------


def made() -> Iterator[Talk]:
    """Generated sessions with planted facts."""
    for seed in SEEDS:
        found = scenario(seed, tokens=TOKENS)
        truth = found.truth
        planted = (
            *truth.user_messages, *truth.files_edited, *truth.files_written, *truth.errors,
            *truth.decisions, *truth.pending_todos, *truth.instructions, *truth.urls,
        )  # fmt: skip
        yield talk_of(f"made {seed}", found.messages, dict.fromkeys(planted))


def real(folder: Path) -> Iterator[Talk]:
    """Sessions of a folder that are larger than the budget and legal as they stand."""
    for path in sorted(each for each in folder.rglob("*.json*") if each.is_file()):
        try:
            messages = open_session(path).messages
            if tokens(messages) > 1.5 * BUDGET and validate(messages, provider="anthropic").ok:
                texts = (text for found in facts_in(collect(messages)).values() for text in found)
                yield talk_of(path.name, messages, dict.fromkeys(texts))
        except UllageError as error:
            print(f"skipped: {path.name}: {error}", file=sys.stderr)


def talk_of(name: str, messages: Messages, facts: Any) -> Talk:
    forms = {
        "anthropic": messages,
        "openai_chat": list(openai_chat.to_provider(messages).parts["messages"]),
        "openai_responses": list(openai_responses.to_provider(messages).parts["input"]),
    }
    return Talk(name, forms, tuple(facts))


# ---- measuring -------------------------------------------------------------------------------


def score_of(contender: Contender, talks: Sequence[Talk]) -> Score:
    found = Score(contender.name)
    for talk in talks:
        before = contender.native(copy.deepcopy(talk.forms[contender.form]))
        whole = contender.back(before)
        own = copy.deepcopy(before)
        started = time.process_time()
        after = contender.back(contender.run(own))
        found.milliseconds.append(1e3 * (time.process_time() - started))
        found.megabytes.append(peak(contender, copy.deepcopy(before)))
        add(found, contender.form, whole, after, talk.facts)
    return found


def add(found: Score, form: str, whole: Messages, after: Messages, facts: Sequence[str]) -> None:
    size, full = tokens(after), max(1, tokens(whole))
    same = [
        old
        for old, new in takewhile(lambda pair: pair[0] == pair[1], zip(whole, after, strict=False))
    ]
    prefix = tokens(same)
    write, read = rates_of(ModelTable.builtin().lookup(MODEL), size)
    found.legal.append(validate(after, provider=form).ok)
    found.within.append(size <= BUDGET * 1.1)
    found.kept.append(size / full)
    found.prefix.append(prefix / full)
    found.facts.append(held(facts, after))
    found.dollars.append((prefix * read + (size - prefix) * write + LATER * size * read) / 1e9)


def held(facts: Sequence[str], after: Messages) -> float:
    """The share of the facts that stand in a context; arguments of calls may be JSON within JSON."""
    text = json.dumps(after, ensure_ascii=False, default=str)
    text += text.replace("\\\\", "\\")
    kept = sum(json.dumps(fact, ensure_ascii=False)[1:-1] in text for fact in facts)
    return kept / len(facts) if facts else 1.0


def peak(contender: Contender, own: Any) -> float:
    tracemalloc.start()
    contender.run(own)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most / 1e6


def scores(talks: Sequence[Talk]) -> list[Score]:
    """One for each contender that is installed."""
    found = []
    for name, make in MAKERS.items():
        try:
            found.append(score_of(make(), talks))
        except Exception as error:  # a peer may fail in any way; it is left out and named
            print(f"skipped: {name}: {type(error).__name__}: {str(error)[:200]}", file=sys.stderr)
    return found


# ---- writing ---------------------------------------------------------------------------------


def value_of(score: Score, measure: str) -> float:
    """The mean over the sessions; of times and memory the median."""
    values = getattr(score, measure)
    middle = statistics.median if measure in ("milliseconds", "megabytes") else statistics.mean
    return MEASURES[measure][2] * middle(values)


def shown(value: float, unit: str) -> str:
    return f"${value:,.3f}" if unit == "$" else f"{value:,.1f} {unit}"


def table(found: Sequence[Score], talks: Sequence[Talk], command: str) -> str:
    lines = [
        f"{len(talks)} sessions, budget {BUDGET:,} tokens, prices of {MODEL}. Command: `{command}`.", "",
        "| | " + " | ".join(name for name, _, _ in MEASURES.values()) + " |",
        "| --- |" + " --: |" * len(MEASURES),
    ]  # fmt: skip
    for score in found:
        cells = (
            shown(value_of(score, measure), unit) for measure, (_, unit, _) in MEASURES.items()
        )
        lines.append(f"| {score.name} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", versions(), ""])


def versions() -> str:
    known = [f"ullage {ullage.__version__}"]
    for name in PEERS:
        try:
            known.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            known.append(f"{name} is not installed")
    return f"CPython {platform.python_version()}, {', '.join(known)}."


def chart(found: Sequence[Score], measure: str) -> str:
    """Bars of one measure as SVG, readable on light and dark paper."""
    name, unit, _ = MEASURES[measure]
    values = [value_of(score, measure) for score in found]
    most = max([*values, 1e-9])
    rows = []
    for at, (score, value) in enumerate(zip(found, values, strict=True)):
        y, colour = 44 + at * 26, "#3f7fc4" if score.name.startswith("ullage") else "#8d939d"
        rows.append(f'<text x="280" y="{y + 13}" text-anchor="end">{escape(score.name)}</text>')
        rows.append(
            f'<rect x="290" y="{y}" width="{max(1.0, 380 * value / most):.1f}" height="18" fill="{colour}"/>'
        )
        rows.append(
            f'<text x="{298 + 380 * value / most:.1f}" y="{y + 13}">{shown(value, unit)}</text>'
        )
    height = 56 + 26 * len(found)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 780 {height}" role="img" aria-label="{escape(name)}">'
        f'<rect width="780" height="{height}" fill="#fcfbf8"/><g font-family="sans-serif" font-size="13" fill="#1c1e21">'
        f'<text x="16" y="26" font-size="15" font-weight="bold">{escape(name)}</text>{"".join(rows)}</g></svg>\n'
    )


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, help="real sessions, in addition to the made ones")
    parser.add_argument("--output", type=Path, default=Path("dist/comparison"))
    given = parser.parse_args(argv)
    talks = [*made(), *(real(given.folder) if given.folder else ())]
    found = scores(talks)
    given.output.mkdir(parents=True, exist_ok=True)
    command = "make compare" + (" CORPUS=FOLDER" if given.folder else "")
    page = table(found, talks, command)
    (given.output / "table.md").write_text(page, encoding="utf-8")
    for measure in MEASURES:
        (given.output / f"{measure}.svg").write_text(chart(found, measure), encoding="utf-8")
    print(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
