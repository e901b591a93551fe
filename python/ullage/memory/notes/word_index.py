"""Ranks notes by the words of a question: BM25 of SQLite's full-text index, in memory, kept up to date by what changed."""

from __future__ import annotations

import re
import sqlite3
import unicodedata
import weakref
from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

__all__ = ["Document", "WordIndex", "terms"]

WEIGHTS: Final = (8.0, 4.0, 1.0)
"""Of name, description and body: a title was chosen to be found."""

_WORD = re.compile(r"\w+")
_PARTS = re.compile(r"[a-z0-9]+|[A-Z]+(?![a-z])|[A-Z][a-z0-9]*")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\U00020000-\U0003ffff]+")

_COMMON: Final = frozenset(
    "a an and any are as at be been but by can could did do does for from get had has have how i if in into is it its "
    "me my need of on or our should so that the their them then there these they this to us use was we were what when "
    "where which who why will with would you your".split()
)
"""Words of questions, in nearly every text: they would only add noise."""


class Document(NamedTuple):
    """A note as the index takes it; `version` changes when the text does."""

    key: str
    version: int
    name: str
    description: str
    body: str


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
        >>> notes = [("a", 1, "Deploy", "how to ship", "run make release"), ("b", 1, "Tea", "", "")]
        >>> index.sync(Document(*note) for note in notes)
        2
        >>> index.rank("how do I release?")
        ['a']
    """

    def __init__(self) -> None:
        self._base = sqlite3.connect(":memory:", check_same_thread=False)
        # From 3.13 on a connection that nobody closed is reported when it is collected.
        weakref.finalize(self, self._base.close)
        self._base.execute(
            "create virtual table notes using fts5(key unindexed, name, description, body, tokenize='porter unicode61')"
        )
        self._known: dict[str, tuple[int, int]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def sync(self, documents: Iterable[Document]) -> int:
        """Add what is new or changed, forget what was removed; returns how many were read."""
        given = {document.key: document for document in documents}
        gone = [key for key in self._known if key not in given]
        changed = [each for key, each in given.items() if self.version(key) != each.version]
        with self._base:
            for key in (*gone, *(each.key for each in changed)):
                if key in self._known:
                    self._base.execute(
                        "delete from notes where rowid = ?", (self._known.pop(key)[1],)
                    )
            for each in changed:
                self._insert(each)
        return len(changed)

    def version(self, key: str) -> int | None:
        """Which version of a document is in; `None`: it is not."""
        known = self._known.get(key)
        return known[0] if known else None

    def _insert(self, document: Document) -> None:
        fields = (document.name, document.description, document.body)
        row = self._base.execute(
            "insert into notes values (?, ?, ?, ?)",
            (document.key, *(" ".join(terms(field)) for field in fields)),
        )
        self._known[document.key] = (document.version, row.lastrowid or 0)

    def rank(self, question: str, *, limit: int = 5, without: Collection[str] = ()) -> list[str]:
        """Keys of the best matches, best first; equal ones by key. `[]` where no word matches."""
        words = [word for word in dict.fromkeys(terms(question)) if word not in _COMMON]
        if not words:
            return []
        query = " OR ".join(f'"{word}"' for word in words[:64])
        rows = self._base.execute(
            f"select key from notes where notes match ? order by bm25(notes, 0, {WEIGHTS[0]}, {WEIGHTS[1]}, {WEIGHTS[2]}), key limit ?",  # noqa: S608 - numbers of our own
            (query, limit + len(without)),
        )
        left_out = set(without)
        return [key for (key,) in rows if key not in left_out][:limit]
