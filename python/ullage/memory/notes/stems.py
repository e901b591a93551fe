"""Words as an index compares them: their stems, and how far two words look alike."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["alike", "grams", "stem"]

_VOWEL = re.compile(r"[aeiouy]")

_ENDINGS: Final = (
    ("ational", "ate", 3), ("ization", "ize", 3), ("isation", "ize", 3), ("fulness", "ful", 3), ("iveness", "ive", 3), ("ousness", "ous", 3),
    ("ations", "ate", 3), ("ation", "ate", 3), ("ities", "", 4), ("ments", "", 4), ("ness", "", 4), ("ment", "", 4),
    ("ises", "ize", 3), ("ised", "ize", 3), ("ising", "ize", 3), ("ise", "ize", 4),
    ("ies", "y", 2), ("ied", "y", 2), ("ity", "", 4), ("ors", "", 4), ("ers", "", 4), ("ings", "", 3), ("ing", "", 3), ("ally", "al", 3),
    ("ably", "able", 3), ("ibly", "ible", 3), ("ily", "y", 3), ("ly", "", 3), ("sses", "ss", 1), ("xes", "x", 2), ("ches", "ch", 2),
    ("shes", "sh", 2), ("ed", "", 3), ("or", "", 4), ("er", "", 4), ("s", "", 3), ("e", "", 3),
)  # fmt: skip
"""An ending, what it becomes, and how many letters must stand before it: the longest that fits goes, then once more."""

_KEPT: Final = ("ss", "us", "is", "ous")
"""Ends in s that are no plural."""


def stem(word: str) -> str:
    """A word without its ending, in small letters: `deploys`, `deployed` and `deployment` give the same.

    Example:
        >>> stem("retries") == stem("retry") == stem("retrying")
        True
    """
    if len(word) < 4 or not (word.isascii() and word.isalpha()):
        return word
    found = _shorter(_shorter(word))
    return found[:-1] + "i" if found.endswith("y") and len(found) > 2 else found


def _shorter(word: str) -> str:
    for ending, become, least in _ENDINGS:
        if word.endswith(ending) and not (ending == "s" and word.endswith(_KEPT)):
            rest = word[: len(word) - len(ending)]
            if len(rest) >= least and _VOWEL.search(rest):
                return _single(rest) if not become and ending not in ("s", "e") else rest + become
            if ending in ("ed", "ing"):
                return word
    return word


def _single(rest: str) -> str:
    """`dropp` is `drop`; `ll`, `ss` and `zz` stay."""
    return rest[:-1] if len(rest) > 3 and rest[-1] == rest[-2] and rest[-1] not in "lsz" else rest


def grams(word: str) -> frozenset[str]:
    """Three characters each, with one mark before the word: what two spellings share."""
    marked = f"^{word}"
    return frozenset(marked[at : at + 3] for at in range(max(len(marked) - 2, 1)))


def alike(one: frozenset[str], other: frozenset[str]) -> float:
    """Share of what both have (Dice): 1 for the same word, 0 for nothing in common."""
    return 2 * len(one & other) / (len(one) + len(other)) if one or other else 0.0
