"""Which words of a conversation few of its messages hold: they say what a message says that others do not.

Small talk has the words and the form of other small talk, in any language, so no list of phrases is needed to know it from facts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cached_property
from itertools import pairwise
from math import log

from ullage._engine import core
from ullage._start import pattern

_PIECE = pattern(r"[^\W_]+(?:[-'’.:/][^\W_]+)*")
# Scripts that put no blanks between words, or few.
_WIDE = pattern(r"[\u0e00-\u0eff\u1000-\u109f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]")
_SIGN = pattern(r"[\d/]|\w[.:]\w")
_ENDS = pattern(r"(?<=[.!?。！？।؟])\s*|\n+")
_MARKS = str.maketrans(
    dict.fromkeys('!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~…–—“”„«»¿¡،؛؟。、！？，：；（）「」।', " ")
)
MOST_READ = 4_000  # characters of one text
# Of a word with a digit, and of one with a capital inside a sentence: they name something.
NUMBER_WEIGHT, NAME_WEIGHT = 2.0, 1.7
# Letters from which a word says as much as any: in each language what is said often is short.
LONG_WORD = 6
# Sentences from which some can be common; a word is that more than one in so many holds, and more than a few: a user gives several rules in one form.
LEAST_SENTENCES, COMMON_PART, FEW = 24, 25, 3
# A message is said often that is more than one in so many, and more than so many: who repeats a rule does so less.
OFTEN_PART, OFTEN = 10, 10
# Shares from which a text says nothing of its own, and says it in the form of others.
COMMON_WORDS, COMMON_FORM = 0.8, 0.6


class WordCounts:
    """The words of a conversation.

    Args:
        texts: Its messages. They are read when something is asked for the first time.
    """

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self.texts = tuple(texts)
        self._weighed: dict[str, dict[str, float]] = {}
        self._common: dict[str, bool] = {}

    def worth(self, text: str) -> float:
        """How much a text says: words that few of the messages hold, numbers and names. Among many messages a rare word says more than several common ones."""
        most, counts = len(self.texts) + 1, self._counts
        power = 1 if most <= LEAST_SENTENCES else 2
        words = self._words(text).items()
        return sum(weight * log(most / max(counts[word], 1)) ** power for word, weight in words)

    def names_nothing(self, text: str) -> bool:
        """Whether a text holds neither number nor name, among so few messages that rare words say nothing."""
        few = len(self.texts) < LEAST_SENTENCES
        return few and max(self._words(text).values(), default=0.0) < NAME_WEIGHT

    def is_said_often(self, text: str) -> bool:
        """Whether so many messages are this one that it is talk, also where it has the words of a rule."""
        return self._times[text] > max(len(self.texts) // OFTEN_PART, OFTEN)

    def are_common(self, text: str) -> bool:
        """Whether many other sentences have the words and the form of a text, as small talk does, also where it is worded as a rule; a sentence that is repeated is one."""
        if text not in self._common:
            self._common[text] = self._is_common(text)
        return self._common[text]

    def _is_common(self, text: str) -> bool:
        if len(self._sentences) < LEAST_SENTENCES:
            return False
        by_word, side_by_side = self._sentence_counts
        words, most = self._words(text), max(len(self._sentences) // COMMON_PART, FEW)
        common = sum(weight for word, weight in words.items() if by_word[word] > most)
        pairs = list(pairwise(words))
        formed = sum(side_by_side[pair] > 1 for pair in pairs)
        return (
            common >= COMMON_WORDS * sum(words.values()) and formed >= COMMON_FORM * len(pairs) > 0
        )

    def _words(self, text: str) -> dict[str, float]:
        weights = self._weighed.get(text)
        if weights is None:
            weights = self._weighed[text] = _weights(text)
        return weights

    @cached_property
    def _times(self) -> Counter[str]:
        return Counter(self.texts)

    @cached_property
    def _counts(self) -> Counter[str]:
        return Counter(word for text in self.texts for word in self._words(text))

    @cached_property
    def _sentences(self) -> frozenset[str]:
        return frozenset(part for text in self.texts for part in _sentences(text[:MOST_READ]))

    @cached_property
    def _sentence_counts(self) -> tuple[Counter[str], Counter[tuple[str, str]]]:
        """In how many sentences each word stands, and each two words in this order."""
        words: Counter[str] = Counter()
        pairs: Counter[tuple[str, str]] = Counter()
        for sentence in self._sentences:
            pieces = dict.fromkeys(_pieces(sentence))
            words.update(pieces.keys())
            pairs.update(pairwise(pieces))
        return words, pairs


def _sentences(text: str) -> list[str]:
    if text.isascii():
        return core.split_sentences(text, 1, MOST_READ)
    return [part.strip() for part in _ENDS.split(text)]


def _pieces(text: str) -> list[str]:
    """The words of a text in lower case; of a script without blanks each two letters."""
    words = text.lower().translate(_MARKS).split()
    if text.isascii() or not _WIDE.search(text):
        return words
    return [part for word in words for part in _parts(word)]


def _parts(word: str) -> list[str]:
    if word.isascii() or not _WIDE.search(word):
        return [word]
    return [word[at : at + 2] for at in range(len(word) - 1)]


def _weights(text: str) -> dict[str, float]:
    weights: dict[str, float] = {}
    for match in _PIECE.finditer(text[:MOST_READ]):
        word, at = match[0], match.start()
        if not word.isalpha() and _SIGN.search(word):
            weight = NUMBER_WEIGHT
        elif word[0].isupper() and at > 1 and text[at - 2] not in ".!?:\n":
            weight = NAME_WEIGHT
        else:
            weight = min(len(word), LONG_WORD) / LONG_WORD
        parts = _pieces(word)
        weights.update(dict.fromkeys(parts, weight if len(parts) == 1 else weight / 2))
    return weights
