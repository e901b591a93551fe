"""Findings of results and responses: labelled numbers, URLs, decisions, open work."""

from __future__ import annotations

import re
from collections import Counter

from ullage.facts.fences import unfenced

__all__ = ["decided", "figures_in", "numbers_in", "still_open"]

MOST_FIGURES = 4
"""Lines of one result that are kept; the response that follows states what matters in a long table."""

SCANNED = 40_000
MAX_LINE = 160

_FIGURE = re.compile(
    r"[ \t]{0,20}[-*•]?[ \t]{0,3}[A-Za-z][\w ()/.%-]{1,50}[:=][ \t]{0,3}[-+$€£]?\d[\d,._]{0,24}(?:[ \t]?[%\w/]{1,12}){0,2}[ \t]{0,9}[.,;]?[ \t]{0,9}$"
)
_SHAPE = re.compile(r"\d+")
_NUMBER = re.compile(r"(?<![\w.])\d[\d,._]{1,20}\d(?![\w])")
_DECIDED = re.compile(
    r"\bdecision\s?:\s|\b(?:(?:we|i)(?:['’]ve| have)? (?:have )?(?:decided|agreed|settled|chosen|chose|opted)|decided (?:to|on|against)|"
    r"(?:we|i)(?:['’]ll| will| shall) (?:use|go with|keep|stick|drop|switch)|going with|settled on|agreed (?:to|on|that)|"
    r"wir (?:haben|nehmen)|entschieden|beschlossen)\b",
    re.IGNORECASE,
)
_OPEN = re.compile(
    r"^[\s>*-]{0,8}(?:\[ \]\s?\S|(?:todo|fixme|open|remaining|left to do|still to do|not yet done|outstanding|follow[- ]ups?|next steps?)\b\s?[:(-])|"
    r"\b(?:TODO|FIXME)\b|\bstill (?:need|needs|have|has) to\b|\bremains to be\b|\bnot yet (?:done|implemented|covered|tested)\b|"
    r"\bleft (?:open|undone|to do)\b",
    re.IGNORECASE,
)
_BREAK = re.compile(r"(?<=[.!?])\s|\n")
MIN_SENTENCE, MAX_SENTENCE = 8, 300


def figures_in(text: str) -> list[str]:
    """Lines of a result that name a number, such as `rejected: 48213`; those that repeat a pattern are a table, not a finding."""
    half = SCANNED // 2
    ends = text if len(text) <= SCANNED else f"{text[:half]}\n{text[-half:]}"
    lines = [line for line in ends.split("\n") if len(line) <= MAX_LINE and _FIGURE.match(line)]
    shapes = Counter(_SHAPE.sub("0", line) for line in lines)
    rare = [line.strip() for line in lines if shapes[_SHAPE.sub("0", line)] <= 2]
    return rare[:MOST_FIGURES] if len(rare) <= MOST_FIGURES * 3 else []


def numbers_in(text: str) -> set[str]:
    """The numbers of three and more characters in a text."""
    return set(_NUMBER.findall(text[:SCANNED]))


def _sentences(text: str) -> list[str]:
    plain = unfenced(text[:SCANNED])
    found = (part.strip() for part in _BREAK.split(plain))
    return [part for part in found if MIN_SENTENCE <= len(part) <= MAX_SENTENCE]


def decided(text: str) -> list[str]:
    """The sentences of a response that state a decision."""
    return [part for part in _sentences(text) if _DECIDED.search(part) and not part.endswith("?")][
        :3
    ]


def still_open(text: str) -> list[str]:
    """The sentences and rows of a response that name open work."""
    return [part for part in _sentences(text) if _OPEN.search(part) and not part.endswith("?")][:8]
