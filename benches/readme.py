"""The figures of the README: chosen rows of `benches/table.json`, and nothing that is not in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"

OURS = "ullage"
SHOWN = (
    "a turn at 10,000 messages",
    "scan of 1,000 messages",
    "Anthropic's rules over 1,000 messages",
    "index of a transcript",
    "exact count, unseen code",
    "exact count, unseen prose",
    "exact count, unseen other scripts",
)
SHORT = {
    "lengths alone, plain Python": "lengths alone in plain Python",
    "langchain count_tokens_approximately": "LangChain",
    "litellm token_counter": "litellm",
    "orjson.dumps of the list": "orjson.dumps of the list",
}
"""Names that are too long for a cell; the others stand as they are."""


def block(figures: Sequence[dict[str, Any]]) -> str:
    """The table between the marks.

    Args:
        figures: As in `benches/table.json`: operation, contender, value, unit, ratio.

    Raises:
        KeyError: An operation that is shown was not measured.
    """
    lines = ["| | Ullage | other libraries, time relative to Ullage |", "| --- | --: | --- |"]
    for operation in SHOWN:
        rows = {each["contender"]: each for each in figures if each["operation"] == operation}
        ours = rows.pop(OURS)
        others = [each for name, each in rows.items() if not name.startswith(OURS)]
        others.sort(key=lambda each: each["ratio"])
        said = " · ".join(f"{_name(each)} {number(each['ratio'])}" for each in others)
        lines.append(f"| {operation} | {number(ours['value'])} {ours['unit']} | {said} |")
    return "\n".join(lines)


def placed(page: str, figures: Sequence[dict[str, Any]]) -> str:
    """A page with the table put between its marks."""
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}\n{block(figures)}\n{END}{rest.split(END)[1]}"


def number(value: float) -> str:
    """Three figures at the least, thousands apart."""
    if value >= 100:
        return f"{value:,.0f}".replace(",", " ")
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _name(figure: dict[str, Any]) -> str:
    return SHORT.get(figure["contender"], figure["contender"])
