"""What a question asks for: its words with what may stand for each, and the types of notes that answer such questions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from ullage.memory.notes.related_words import MOST_WORDS, phrases
from ullage.memory.notes.stems import stem

__all__ = ["asked_types", "keys_of", "words_asked"]

_COMMON: Final = frozenset(
    "a an and any are as at be been but by can could did do does for from get had has have how i if in into is it its just may me might "
    "my need of ok on only or our please shall should so still that the their them then there these they this to us use want was we were "
    "what when where which who why will with would you your about also".split()
)
"""Words of questions, in nearly every text: they would only add noise."""

_TYPES: Final = (
    (re.compile(r"\b(?:should|may|shall|can|must|do) (?:i|we)\b|\b(?:ok|fine|allowed) to\b", re.I), ("feedback", "project")),
    (re.compile(r"\bwhere\b|\bis there\b|\bwhich (?:page|site|folder|channel|dashboard)\b", re.I), ("reference",)),
    (re.compile(r"\b(?:they|them|their|user|user's)\b", re.I), ("user",)),
)  # fmt: skip
"""A question for leave is answered by a rule, one for a place by a reference, one about the user by who they are."""


def keys_of(words: Sequence[str]) -> list[str]:
    """Stems of the words, then those phrases of two or three of them that the table of related words has."""
    stems = [stem(word) for word in words]
    known = phrases()
    joined = (
        "_".join(stems[at : at + size])
        for size in range(2, MOST_WORDS + 1)
        for at in range(len(stems) - size + 1)
    )
    return stems + [key for key in joined if key in known]


def words_asked(words: Sequence[str]) -> list[str]:
    """Keys of a question, each once, without words that stand in nearly every question."""
    common = {stem(word) for word in words if word in _COMMON}
    return [key for key in dict.fromkeys(keys_of(words)) if key not in common]


def asked_types(question: str) -> tuple[str, ...]:
    """Types of notes that such a question is usually answered by; `()`: the question does not show it."""
    return next((types for asked, types in _TYPES if asked.search(question)), ())
