"""Findings of responses: decisions, open work, figures."""

from __future__ import annotations

import re

from ullage.facts.fences import unfenced

__all__ = ["decided", "figures", "still_open"]

SCANNED = 40_000
_DECIDED = re.compile(
    r"\bdecision(?:\s?:| is| was) |\b(?:(?:we|i)(?:['’]ve| have)? (?:have )?(?:decided|agreed|settled|chosen|chose|opted|went (?:with|for))|decided (?:to|on|against)|"
    r"(?:we|i)(?:['’]ll| will| shall) (?:use|go with|keep|stick|drop|switch)|going with|settled on|agreed (?:to|on|that)|"
    r"wir (?:haben|nehmen)|entschieden|beschlossen)\b",
    re.IGNORECASE,
)
_OPEN = re.compile(
    r"^[\s>*-]{0,8}(?:\[ \]\s?\S|(?:todo|fixme|open|remaining|left to do|still (?:to do|open)|not yet done|outstanding|follow[- ]ups?|next steps?)\b\s?[:(-])|"
    r"\b(?:TODO|FIXME)\b|\bstill (?:need|needs|have|has) to\b|\bremains to be\b|\bnot yet (?:done|implemented|covered|tested)\b|"
    r"\bleft (?:open|undone|to do)\b",
    re.IGNORECASE,
)
_BREAK = re.compile(r"(?<=[.!?])\s|\n")
MIN_SENTENCE, MAX_SENTENCE = 8, 300


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


_FIGURE = re.compile(
    r"(?<![\w.#:/@~-])[$€£]?(?:\d{1,3}(?:[,_]\d{3})+(?:\.\d{1,9})?|\d{3,12}|\d{1,12}\.\d{1,9}|"
    r"\d{1,12}(?=[ \u00a0]?(?:%|percent|[µmn]?s\b|[kKMGT]i?B\b|seconds?\b|minutes?\b|hours?\b|days?\b|times\b|x\b)))"
    r"(?![\w:/-]|\.\d)"
)
_PLACE = re.compile(
    r"\b(?:lines?|L|PR|issue|commit|step|chapter|section|port|HTTP|exit code)\s?#?$", re.I
)
MAX_FIGURE = 200


def figures(text: str) -> list[str]:
    """The sentences of a response that report a number: a count, a measure, an amount; not where something stands."""
    if not _FIGURE.search(text):
        return []
    return [part for part in _sentences(text) if len(part) <= MAX_FIGURE and _measures(part)][:4]


def _measures(sentence: str) -> bool:
    if sentence.endswith("?"):
        return False
    found = _FIGURE.finditer(sentence)
    return any(not _PLACE.search(sentence[: match.start()]) for match in found)
