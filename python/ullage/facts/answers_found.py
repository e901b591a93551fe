"""Findings of responses: decisions, open work."""

from __future__ import annotations

import re

from ullage.facts.fences import unfenced

__all__ = ["decided", "still_open"]

SCANNED = 40_000
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
