"""Findings of responses: decisions, open work, figures."""

from __future__ import annotations

import re

from ullage._engine import core
from ullage.facts.fences import unfenced
from ullage.facts.searched import SearchedPatterns

__all__ = ["decided", "figures", "findings", "still_open"]

SCANNED = 40_000
_DECIDED = (
    r"\bdecision(?:\s?:| is| was) |\b(?:(?:we|i)(?:['’]ve| have)? (?:have )?(?:decided|agreed|settled|chosen|chose|opted|went (?:with|for))|decided (?:to|on|against)|"
    r"(?:we|i)(?:['’]ll| will| shall) (?:use|go with|keep|stick|drop|switch)|going with|settled on|agreed (?:to|on|that)|"
    r"wir (?:haben|nehmen)|entschieden|beschlossen)\b"
)
_OPEN = (
    r"^[\s>*-]{0,8}(?:\[ \]\s?\S|(?:todo|fixme|open|remaining|left to do|still (?:to do|open)|not yet done|outstanding|follow[- ]ups?|next steps?)\b\s?[:(-])|"
    r"\b(?:TODO|FIXME)\b|\bstill (?:need|needs|have|has) to\b|\bremains to be\b|\bnot yet (?:done|implemented|covered|tested)\b|"
    r"\bleft (?:open|undone|to do)\b"
)
_SAID = SearchedPatterns((_DECIDED, _OPEN))
MIN_SENTENCE, MAX_SENTENCE = 8, 300


def _sentences(text: str) -> list[str]:
    return core.split_sentences(unfenced(text[:SCANNED]), MIN_SENTENCE, MAX_SENTENCE)


def findings(text: str) -> tuple[list[str], list[str]]:
    """The sentences of a response that state a decision, and the sentences and rows that name open work."""
    found: tuple[list[str], list[str]] = [], []
    for part in _sentences(text):
        if not part.endswith("?"):
            for place in _SAID.found(part):
                found[place].append(part)
    return found[0][:MOST_DECIDED], found[1][:MOST_OPEN]


MOST_DECIDED, MOST_OPEN = 3, 8


def decided(text: str) -> list[str]:
    """The sentences of a response that state a decision."""
    return findings(text)[0]


def still_open(text: str) -> list[str]:
    """The sentences and rows of a response that name open work."""
    return findings(text)[1]


_FIGURE = re.compile(
    r"(?<![\w.#:/@~-])[$€£]?(?:\d{1,3}(?:[,_]\d{3})+(?:\.\d{1,9})?|\d{3,12}|\d{1,12}\.\d{1,9}|"
    r"\d{1,12}(?=[ \u00a0]?(?:%|percent|[µmn]?s\b|[kKMGT]i?B\b|seconds?\b|minutes?\b|hours?\b|days?\b|times\b|x\b)))"
    r"(?![\w:/-]|\.\d)"
)
_DIGIT = re.compile(r"\d")
_PLACE = re.compile(
    r"\b(?:lines?|L|PR|issue|commit|step|chapter|section|port|HTTP|exit code)\s?#?$", re.I
)
MAX_FIGURE = 200


def figures(text: str) -> list[str]:
    """The sentences of a response that report a number: a count, a measure, an amount; not where something stands."""
    if not _DIGIT.search(text) or not _FIGURE.search(text):
        return []
    return [part for part in _sentences(text) if len(part) <= MAX_FIGURE and _measures(part)][:4]


def _measures(sentence: str) -> bool:
    if sentence.endswith("?"):
        return False
    found = _FIGURE.finditer(sentence)
    return any(not _PLACE.search(sentence[: match.start()]) for match in found)
