"""Ranks notes by the words of a question and by related words, in memory, kept up to date by what changed."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from ullage.memory.notes.asked_words import asked_types, keys_of, words_asked
from ullage.memory.notes.related_words import related
from ullage.memory.notes.stems import alike, grams

__all__ = ["Document", "WordIndex", "terms"]

WEIGHTS: Final = (3.0, 2.0, 1.0)
"""Of name, description and body: a title was chosen to be found."""

FURTHER: Final = 0.3
"""What a further match of the same word of the question counts for, after its best one."""

ALIKE: Final = 0.55
"""Share of common letter groups from which another spelling may stand for a word that no note has."""

SPELLING: Final = 0.5
"""What such a word counts for, times its share."""

OF_TYPE: Final = 1.15
"""For notes of the type that the question asks for."""

FLOOR: Final = 0.15
"""Share of the best note's score below which another is no match."""

MOST_KEYS: Final = 64
"""Of a question: what is longer is no question, and the rest of it changes little."""

_WORD = re.compile(r"\w+")
_PARTS = re.compile(r"[a-z0-9]+|[A-Z]+(?![a-z])|[A-Z][a-z0-9]*")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\U00020000-\U0003ffff]+")


class Document(NamedTuple):
    """A note as the index takes it; `version` changes when the text does; `kind` is its type."""

    key: str
    version: int
    name: str
    description: str
    body: str
    kind: str = ""


def terms(text: str) -> list[str]:
    """Words in small letters without accents; names also by their parts, scripts without spaces by pairs."""
    plain = "".join(
        char for char in unicodedata.normalize("NFKD", text) if not unicodedata.combining(char)
    )
    found: list[str] = []
    for word in _WORD.findall(unicodedata.normalize("NFC", plain)):
        for run in _CJK.findall(word):
            found += [run[at : at + 2] for at in range(max(len(run) - 1, 1))]
        rest = _CJK.sub(" ", word).strip()
        if not rest:
            continue
        found.append(rest.casefold())
        parts = [part.casefold() for part in _PARTS.findall(rest)] if rest.isascii() else []
        found += parts if len(parts) > 1 else []
    return found


class WordIndex:
    """Documents and the words in them.

    Example:
        >>> index = WordIndex()
        >>> notes = [("a", 1, "Deploy", "how to ship", "run make"), ("b", 1, "Tea", "", "")]
        >>> index.sync(Document(*note) for note in notes)
        2
        >>> index.rank("how do I publish a release?")
        ['a']
    """

    def __init__(self) -> None:
        self._known: dict[str, Document] = {}
        self._words: dict[str, dict[str, float]] = {}  # by document: weights of its keys
        self._having: dict[str, dict[str, float]] = {}  # by key: weights in its documents
        self._spelled: dict[str, set[str]] = {}  # by letter group: the keys that have it

    def __len__(self) -> int:
        return len(self._known)

    def version(self, key: str) -> int | None:
        """Which version of a document is in; `None`: it is not."""
        known = self._known.get(key)
        return known.version if known else None

    def sync(self, documents: Iterable[Document]) -> int:
        """Add what is new or changed, forget what was removed; returns how many were read."""
        given = {document.key: document for document in documents}
        changed = [each for key, each in given.items() if self.version(key) != each.version]
        for key in [key for key in self._known if key not in given]:
            self._forget(key)
        for document in changed:
            self._forget(document.key)
            self._insert(document)
        return len(changed)

    def rank(self, question: str, *, limit: int = 5, without: Collection[str] = ()) -> list[str]:
        """Keys of the best matches, best first; equal ones by key. `[]` where no word matches, nor a related one."""
        shares, left_out = self.shares(question), set(without)
        found = [key for key, share in shares.items() if share >= FLOOR and key not in left_out]
        return sorted(found, key=lambda key: (-shares[key], key))[:limit]

    def shares(self, question: str) -> dict[str, float]:
        """Score of each document that matches at all, as a share of the best one's."""
        scores: dict[str, float] = {}
        for word in words_asked(terms(question))[:MOST_KEYS]:
            for key, score in self._matches(word).items():
                scores[key] = scores.get(key, 0.0) + score
        wanted = asked_types(question)
        for key in scores:
            if self._known[key].kind in wanted:
                scores[key] *= OF_TYPE
        most = max(scores.values(), default=1.0)
        return {key: score / most for key, score in scores.items()}

    # ---- documents ---------------------------------------------------------------------------

    def _insert(self, document: Document) -> None:
        weights: dict[str, float] = {}
        fields = (document.name, document.description, document.body)
        for field, weight in zip(fields, WEIGHTS, strict=True):
            for word in keys_of(terms(field)):
                weights[word] = weights.get(word, 0.0) + weight
        # The text itself is not kept: it can be read again.
        self._known[document.key] = document._replace(name="", description="", body="")
        self._words[document.key] = weights
        for word, weight in weights.items():
            if word not in self._having:
                self._spell(word)
            self._having.setdefault(word, {})[document.key] = weight

    def _spell(self, word: str) -> None:
        if word.isalpha():
            for gram in grams(word):
                self._spelled.setdefault(gram, set()).add(word)

    def _forget(self, key: str) -> None:
        self._known.pop(key, None)
        for word in self._words.pop(key, {}):
            having = self._having[word]
            del having[key]
            if having:
                continue
            del self._having[word]
            for gram in grams(word):
                self._spelled.get(gram, set()).discard(word)

    # ---- one word of a question --------------------------------------------------------------

    def _matches(self, word: str) -> dict[str, float]:
        """Score of each document that has the word or one that may stand for it."""
        best: dict[str, float] = {}
        total: dict[str, float] = {}
        for other, share in self._standing_for(word).items():
            having = self._having.get(other)
            if having is None:
                continue
            worth = share * self._rarity(len(having))
            for key, weight in having.items():
                score = worth * weight / (weight + 1)
                total[key] = total.get(key, 0.0) + score
                best[key] = max(score, best.get(key, 0.0))
        return {key: best[key] + FURTHER * (total[key] - best[key]) for key in best}

    def _rarity(self, documents: int) -> float:
        """Inverse document frequency, as in BM25 (Robertson and Zaragoza, 2009)."""
        return math.log(1 + (len(self._known) - documents + 0.5) / (documents + 0.5))

    def _standing_for(self, word: str) -> dict[str, float]:
        found = {word: 1.0, **related(word)}
        if word not in self._having and word.isalpha() and len(word) > 3:
            for other, share in self._spelled_like(word).items():
                found[other] = max(found.get(other, 0.0), SPELLING * share)
        return found

    def _spelled_like(self, word: str) -> dict[str, float]:
        own = grams(word)
        near = {other for gram in own for other in self._spelled.get(gram, ())}
        shares = {other: alike(own, grams(other)) for other in near}
        return {other: shares[other] for other in sorted(shares) if shares[other] >= ALIKE}
