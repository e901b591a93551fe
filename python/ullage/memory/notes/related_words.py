"""Words that mean nearly the same, from `related_words.txt`: so that a question finds a note that says it otherwise."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

from ullage.memory.notes.stems import stem

__all__ = ["MOST_WORDS", "phrases", "related"]

NEAR: Final = 0.55
"""What a word of the same group counts for, against the word itself."""

TOPIC: Final = 0.3
"""The same for a word of the same topic."""

MOST_WORDS: Final = 3
"""Of a phrase."""


@cache
def _table() -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    text = Path(__file__).with_name("related_words.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        weight = TOPIC if line.startswith("~") else NEAR
        group = list(dict.fromkeys(phrase(word) for word in line.lstrip("~").split()))
        for word in group:
            others = found.setdefault(word, {})
            for other in group:
                if other != word:
                    others[other] = max(weight, others.get(other, 0.0))
    return found


def phrase(words: str) -> str:
    """The key of a word or of words joined by `_`: their stems, joined the same way."""
    return "_".join(map(stem, words.split("_")))


@cache
def phrases() -> frozenset[str]:
    """Keys of more than one word."""
    return frozenset(key for key in _table() if "_" in key)


def related(key: str) -> dict[str, float]:
    """Keys of related words with their weights, 0 to 1; empty for a word that no group has."""
    return _table().get(key, {})
