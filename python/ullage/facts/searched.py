"""Patterns that are looked for in each sentence: the engine says at once which are in it and which cannot be, Python's search decides about the rest."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property

from ullage._engine import core

__all__ = ["SearchedPatterns"]


class SearchedPatterns:
    """Some patterns, each made when it may first match: making a hundred alternatives takes milliseconds.

    Args:
        patterns: Letters of any case match.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        self._texts = tuple(patterns)
        self._made: dict[int, re.Pattern[str]] = {}

    @cached_property
    def _filter(self) -> core.PatternSet:
        return core.PatternSet(self._texts)

    @cached_property
    def _wide(self) -> core.PatternSet:
        return core.PatternSet(self._texts, wide=True)

    def found(self, text: str) -> Iterator[int]:
        """The places of the patterns that are in a text, in order."""
        maybe, sure = (self._filter if text.isascii() else self._wide).look(text)
        at = 0
        while maybe:
            if maybe & 1 and (sure & 1 or self._pattern(at).search(text)):
                yield at
            maybe >>= 1
            sure >>= 1
            at += 1

    def first(self, text: str) -> int:
        """The place of the first pattern that is in a text; -1: none is."""
        return next(self.found(text), -1)

    def _pattern(self, at: int) -> re.Pattern[str]:
        made = self._made.get(at)
        if made is None:
            made = self._made[at] = re.compile(self._texts[at], re.IGNORECASE)
        return made
