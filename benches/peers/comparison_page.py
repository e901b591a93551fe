"""Tables and charts of the comparison."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from xml.sax.saxutils import escape


@dataclass
class Score:
    """What came of one contender, one value for each session; `None`: there was nothing to measure.

    Attributes:
        failed: The error of each session at which it raised one.
        late: Sessions at which it was stopped, since a call took too long; it was asked about none after that.
    """

    name: str
    late: int = 0
    failed: list[str] = field(default_factory=list)
    legal: list[bool] = field(default_factory=list)
    within: list[bool] = field(default_factory=list)
    kept: list[float] = field(default_factory=list)
    prefix: list[float] = field(default_factory=list)
    facts: list[float | None] = field(default_factory=list)
    ahead: list[float | None] = field(default_factory=list)
    milliseconds: list[float] = field(default_factory=list)
    megabytes: list[float] = field(default_factory=list)
    dollars: list[float] = field(default_factory=list)


class Group(NamedTuple):
    """The scores over one group of sessions."""

    name: str
    sessions: int
    scores: Sequence[Score]


class Measure(NamedTuple):
    """How a field of a score is shown: column, title of its chart, unit, factor."""

    column: str
    title: str
    unit: str
    factor: float


CHARTS = {
    "legal": Measure("legal", "Requests that the provider's rules allow", "%", 100.0),
    "within": Measure("within budget", "Contexts within the budget (5 % above it at most)", "%", 100.0),
    "facts": Measure("facts", "Facts that the new context still holds verbatim", "%", 100.0),
    "ahead": Measure("forward use", "Names that the next 20 tool calls use and that the new context still holds", "%", 100.0),
    "kept": Measure("size", "Size of the new context, in percent of the old one", "%", 100.0),
    "prefix": Measure("prefix", "Prefix that the provider's cache still holds, in percent of the old context", "%", 100.0),
    "dollars": Measure("cost", "Prompts of this and 20 later requests", "$", 1.0),
    "milliseconds": Measure("time", "Time of one call on the whole context", "ms", 1.0),
    "megabytes": Measure("memory", "Memory at its peak on the first session, by Python's allocator", "MB", 1.0),
}  # fmt: skip
"""Each measure is a field of `Score`."""

TITLES = {
    "made": "{} made sessions with planted facts",
    "real": "{} real sessions, where their prompt first reached 160,000 tokens",
}

COLOURS = {("made", True): "#1f5fa8", ("made", False): "#777e88", ("real", True): "#6fa3dc", ("real", False): "#b9bec6"}  # fmt: skip


def value_of(score: Score, measure: str) -> float | None:
    """The mean over the sessions; of times and memory the median."""
    values = [each for each in getattr(score, measure) if each is not None]
    middle = statistics.median if measure in ("milliseconds", "megabytes") else statistics.mean
    return CHARTS[measure].factor * middle(values) if values else None


def figure(value: float | None, unit: str) -> str:
    """Without its unit, which stands in the column's head; cents of a dollar need a third place."""
    if value is None:
        return "–"
    return f"{value:,.3f}" if unit == "$" else f"{value:,.1f}"


def shown(value: float | None, unit: str) -> str:
    text = figure(value, unit)
    if value is None:
        return text
    return f"${text}" if unit == "$" else f"{text} {unit}"


def table(group: Group, budget: int, model: str, later: int) -> str:
    """A row for each contender."""
    columns = [each for each in CHARTS if value_of(group.scores[0], each) is not None]
    title = TITLES[group.name].format(group.sessions)
    lines = [
        f"**{title}**, budget {budget:,} tokens; cost: the prompts of this and {later} later requests at the prices of {model}.", "",
        "| | " + " | ".join(f"{CHARTS[each].column}, {CHARTS[each].unit}" for each in columns) + " |",
        "| --- |" + " --: |" * len(columns),
    ]  # fmt: skip
    for score in group.scores:
        cells = (figure(value_of(score, each), CHARTS[each].unit) for each in columns)
        lines.append(f"| {score.name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def chart(groups: Sequence[Group], measure: str) -> str:
    """Bars of one measure as SVG, a bar for each group of sessions, readable on light and dark paper."""
    _, name, unit, _ = CHARTS[measure]
    groups = [group for group in groups if value_of(group.scores[0], measure) is not None]
    names = [score.name for score in groups[0].scores]
    rows = {
        (group.name, score.name): value_of(score, measure)
        for group in groups
        for score in group.scores
    }
    most = max([*(value or 0.0 for value in rows.values()), 1e-9])
    high = 16 * len(groups) + 8
    parts = []
    for at, contender in enumerate(names):
        top = 66 + at * high
        parts.append(f'<text x="300" y="{top + high / 2}" text-anchor="end">{escape(contender)}</text>')  # fmt: skip
        for which, group in enumerate(groups):
            value = rows.get((group.name, contender))
            colour = COLOURS[group.name, contender.startswith("ullage")]
            width, y = max(1.0, 340 * (value or 0.0) / most), top + 16 * which
            parts.append(f'<rect x="310" y="{y}" width="{width:.1f}" height="14" fill="{colour}"/>')
            parts.append(f'<text x="{316 + width:.1f}" y="{y + 11}" font-size="11">{shown(value, unit)}</text>')  # fmt: skip
    legend = " · ".join(
        ("dark: " if group.name == "made" else "light: ") + TITLES[group.name].format(group.sessions)
        for group in groups
    )  # fmt: skip
    height = 76 + high * len(names)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 780 {height}" role="img" aria-label="{escape(name)}">'
        f'<rect width="780" height="{height}" fill="#fcfbf8"/><g font-family="sans-serif" font-size="13" fill="#1c1e21">'
        f'<text x="16" y="26" font-size="15" font-weight="bold">{escape(name)}</text>'
        f'<text x="16" y="48" font-size="12">{escape(legend)}</text>{"".join(parts)}</g></svg>\n'
    )
