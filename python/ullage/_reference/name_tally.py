"""Which names were used, by whom, how long ago and with which file or command: counted over many texts.

Twin of `rust/core/src/names/tally.rs`, which keeps what it has read: here, runs of letters are cached by `names`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isqrt
from typing import Final

from ullage._reference.names import COMMIT, OPTION, PATH, SYMBOL, find_names
from ullage._reference.stored import stored_text

__all__ = ["NameTally"]

MOST_AUTHORS: Final = 8
SCALE: Final = 1_000_000
AGE_OFFSET: Final = 5

_Uses = list[tuple[int, int]]
"""Of one name: index of the message and number of its author."""

Row = tuple[str, int | None, int, int, int, int, str]


class NameTally:
    """Names with their uses, over many texts; one thread at a time may use it.

    Args:
        weights: How much one use counts, by author.
    """

    def __init__(self, weights: Sequence[int]) -> None:
        if len(weights) > MOST_AUTHORS:
            raise IndexError(f"at most {MOST_AUTHORS} weights, not {len(weights)}")
        self._weights = tuple(weights)
        self._uses: dict[str, _Uses] = {}
        self._kinds: dict[str, int | None] = {}
        self._homes: dict[str, str] = {}

    def add(
        self,
        text: str,
        author: int,
        index: int,
        *,
        home: str | None = None,
        moves: bool = False,
        most_hashes: int = 0,
    ) -> None:
        """Counts each name in a text once."""
        self._known(author)
        found = find_names(text)
        if 0 < most_hashes < sum(kind == COMMIT for _, kind in found):
            found = [each for each in found if each[1] != COMMIT]
        for name, kind in found:
            self._count(name, kind, author, index)
        if home:
            self._place(found, home, moves=moves)

    def add_name(self, name: str, author: int, index: int) -> None:
        """Counts a name that the caller found; its kind is `None`."""
        self._known(author)
        if name:
            self._count(stored_text(name), None, author, index)

    def _known(self, author: int) -> None:
        if not 0 <= author < len(self._weights):
            raise IndexError(f"there is no author {author}")

    def _count(self, name: str, kind: int | None, author: int, index: int) -> None:
        if name not in self._uses:
            self._uses[name] = []
            self._kinds[name] = kind
        self._uses[name].append((index, author))

    def _place(self, found: list[tuple[str, int]], home: str, *, moves: bool) -> None:
        for name, kind in found:
            if kind in (SYMBOL, OPTION) and (moves or name not in self._homes):
                self._homes[name] = stored_text(home)

    def ranked(self, end: int, most: int) -> list[Row]:
        """The names of most worth: text, kind, uses, last, score, author, home."""
        rows = [self._rank(name, uses, end) for name, uses in self._spellings()]
        return sorted(rows, key=lambda row: (-row[4], row[0]))[:most]

    def _spellings(self) -> Iterator[tuple[str, _Uses]]:
        """Each name with its uses; the spellings of one path are one name, the longest of them."""
        places: dict[str, list[str]] = {}
        for text, found in self._uses.items():
            if self._kinds[text] == PATH:
                places.setdefault(_tail(text), []).append(text)
            else:
                yield text, found
        for same in places.values():
            longest = max(same, key=lambda text: (len(text), text))
            inside = [text for text in same if f"/{longest}".endswith(f"/{text}")]
            yield longest, [use for text in inside for use in self._uses[text]]
            yield from ((text, self._uses[text]) for text in same if text not in inside)

    def _rank(self, text: str, uses: _Uses, end: int) -> Row:
        now, kind, weights = AGE_OFFSET + end, self._kinds[text], self._weights
        worth = sum(weights[author] * SCALE // max(now - index, 1) for index, author in uses)
        shown = _tail(text) if kind == PATH else text
        score = worth // isqrt(len(shown.encode("utf-8", "replace")) + 2)
        author = max(uses, key=lambda use: weights[use[1]])[1]
        home = self._homes.get(text, "")
        return text, kind, len(uses), max(uses)[0], score, author, home


def _tail(path: str) -> str:
    return path if path.count("/") < 2 else "/".join(path.rsplit("/", 2)[1:])
