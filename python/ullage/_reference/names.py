"""The names in a text: paths, symbols, options, hashes, tickets, each once, in order of first use.

Twin of `rust/core/src/names.rs`. A text is split into runs of letters and the punctuation of names once; each distinct run is judged once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import isqrt
from typing import Final

from ullage._reference.text import stored_text, word_list

PATH: Final = 0
COMMIT: Final = 1
ID: Final = 2
TICKET: Final = 3
SYMBOL: Final = 4
OPTION: Final = 5

MIN_CHARS = 4  # shorter runs name nothing
MAX_NAME = 200
"""Longer runs are data (a signed URL, base64), not names."""

MAX_PART = 80
MAX_PARTS = 20
MAX_SYMBOL = 100

_W = r"A-Za-z0-9_\u00c0-\u024f\u0370-\u04ff"
"""Letters of a name: Latin, Greek, Cyrillic. Other scripts write without spaces, so a name ends where they begin."""

_RUN = rf"[{_W}@~.#/:+-]"
_WORD = re.compile(rf"(?:</)?{_RUN}{{{MIN_CHARS},}}")
"""With the mark of a closing tag, which is not a path."""
_ADDRESS = re.compile(rf"://{_RUN}*[!#-&(*+\-.-;=?-\[^_a-{{}}~]*")
"""From its slashes on, to a blank, a quote, a bracket or another script."""
_IN_RUN = re.compile(_RUN)
_ESCAPE = re.compile(r"\\[nrt]")
"""Escapes in quoted JSON would stick to the next word: `\\nBody`."""

_OPTION = re.compile(r"--[a-z][a-z0-9A-Z]*(?:-[a-zA-Z0-9]+)*")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_TICKET = re.compile(r"#[0-9]{1,6}|[A-Z][A-Z0-9]{1,9}-[0-9]{1,6}")
_COMMIT = re.compile(r"(?=[a-f]*[0-9])(?=[0-9]*[a-f])(?:[0-9a-f]{40}|[0-9a-f]{7,12})")
_FILE = re.compile(
    rf"\.?[{_W}+-]+(?:\.[{_W}+-]+){{0,3}}\.(?:{'|'.join(word_list('file_endings'))})"
)
_DOTFILE = re.compile(r"\.(?:env|git[a-z]*|[a-z]+rc|[a-z]+ignore)")
_DOTTED = re.compile(rf"(?![0-9])[{_W}]+(?:\.(?![0-9])[{_W}]+){{1,5}}")
_SCOPED = re.compile(rf"[{_W}]+(?:::[{_W}]+){{1,8}}")
_SYMBOL = re.compile(
    rf"(?=.*[A-Za-z])(?:[{_W}]*[A-Za-z0-9]_[A-Za-z0-9][{_W}]*|_[{_W}]{{3,}}|[{_W}]*[a-z][A-Z][{_W}]*|E[0-9]{{3,4}})"
)
_GREP_TAIL = re.compile(r"(\.[A-Za-z][A-Za-z0-9]{0,6})-[0-9]+(?:-.*)?$")
"""`file.go-1236-text` is a context line of grep, not a file."""
_DIFF_HEAD = re.compile(r"^[ab]/(?=[^/]+[/.])")
"""`a/src/x.py` and `b/src/x.py` in a diff are `src/x.py`."""
_PART = re.compile(rf"[{_W}.@~+-]{{1,{MAX_PART}}}")
_VERSION = re.compile(r"v[0-9]+\.[0-9]")
_LETTER = re.compile(r"[A-Za-z\u00c0-\u024f\u0370-\u04ff]")
_PLACEHOLDERS = frozenset({"dev/null", "/dev/null", "and/or"})
_RANDOM = re.compile(
    r"(?=[A-Z0-9]*[a-z])(?=[a-z0-9]*[A-Z])(?=(?:[A-Za-z]*[0-9]){3})[A-Za-z0-9]{16,}"
)
_Spans = tuple[tuple[str, int], ...]


def find_names(text: str) -> list[tuple[str, int]]:
    """Every name in a text once, in order of first use, with the number of its kind."""
    if not isinstance(text, str):
        raise TypeError(f"expected a string, not {type(text).__name__}")
    plain = stored_text(text)
    plain = _ESCAPE.sub(" ", plain) if "\\" in plain else plain
    plain = _without_addresses(plain) if "://" in plain else plain
    names: dict[tuple[str, int], None] = {}
    for word in dict.fromkeys(_WORD.findall(plain)):
        for name in _names_of(word):
            names[name] = None
    return list(names)


def _without_addresses(text: str) -> str:
    """A blank in place of each address: its parameters and escapes are no names."""
    parts, at = list[str](), 0
    for address in _ADDRESS.finditer(text):
        start = address.start()
        while start > at and _IN_RUN.match(text, start - 1):
            start -= 1
        parts += text[at:start], " "
        at = address.end()
    return "".join([*parts, text[at:]])


@lru_cache(maxsize=1 << 15)
def _names_of(word: str) -> _Spans:
    """The names in one run of letters and punctuation: mostly none or one."""
    if len(word) > MAX_NAME or word.startswith(("</", "toolu_")):
        return ()
    bare = word.rstrip(".:/#@~+-").lstrip(":+")
    if _OPTION.fullmatch(bare):
        return ((bare, OPTION),) if MIN_CHARS <= len(bare) <= MAX_PART else ()
    bare = bare.lstrip("-")
    if "::" in bare:
        if _SCOPED.fullmatch(bare) and len(bare) <= MAX_SYMBOL:
            return ((bare, SYMBOL),)
        return _named(bare.split("::"))
    return _named(bare.split(":"))


def _named(parts: list[str]) -> _Spans:
    named = (_one(inner) for part in parts for inner in _anchored(part) if len(inner) >= MIN_CHARS)
    return tuple(name for name in named if name is not None)


def _anchored(part: str) -> list[str]:
    """`file.md#heading` in two; a ticket stays whole."""
    return [part] if part.startswith("#") or "#" not in part else part.split("#")


def _one(part: str) -> tuple[str, int] | None:
    """The name that a word without colons is."""
    if _TICKET.fullmatch(part):
        return part, TICKET
    part = part.lstrip("#")
    if "/" in part:
        return _path(part)
    if "@" in part or "~" in part:
        return None  # an address of a mailbox, a package with its version
    if _UUID.fullmatch(part):
        return part, ID
    if _COMMIT.fullmatch(part):
        return part, COMMIT
    return _plain(_GREP_TAIL.sub(r"\1", part))


def _path(part: str) -> tuple[str, int] | None:
    part = part.lstrip("/") if part.startswith("//") else part
    part = part.lstrip(".") if part.startswith("...") else part.removeprefix("./")
    if "/" not in part:
        return _plain(part)
    name = _DIFF_HEAD.sub("", _GREP_TAIL.sub(r"\1", part))
    parts = name.split("/")
    inner = parts[1:] if parts[0] == "" else parts
    if len(name) < MIN_CHARS or name in _PLACEHOLDERS or not 0 < len(inner) <= MAX_PARTS:
        return None
    if not _LETTER.search(name) or any(not _PART.fullmatch(p) or _is_data(p) for p in inner):
        return None
    return name, PATH


def _is_data(part: str) -> bool:
    """Versions, base64 runs and shortened names are not places in a file system."""
    return _VERSION.match(part) is not None or "..." in part or _is_random(part)


def _is_random(word: str) -> bool:
    """Whether a run of letters and digits looks drawn, as base64 and keys do."""
    return _RANDOM.fullmatch(word) is not None


def _plain(part: str) -> tuple[str, int] | None:
    if len(part) < MIN_CHARS or part in _PLACEHOLDERS:
        return None
    if _FILE.fullmatch(part) or _DOTFILE.fullmatch(part):
        return part, PATH
    part = part.strip(".")
    if len(part) > MAX_SYMBOL or len(part) < MIN_CHARS or _is_random(part):
        return None
    if _DOTTED.fullmatch(part) or _SYMBOL.fullmatch(part):
        return part, SYMBOL
    return None


# Which names were used, by whom, how long ago and with which file or command: counted over many texts.
#
# Twin of `rust/core/src/names/tally.rs`, which keeps what it has read: here, runs of letters are cached by `names`.


MOST_AUTHORS: Final = 8
SCALE: Final = 1_000_000
AGE_OFFSET: Final = 5

_Uses = list[tuple[int, int]]
"""Of one name: index of the message and number of its author."""

Row = tuple[str, int | None, int, int, int, int, str]


class NameTally:
    """Names with their uses, over many texts."""

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
        self._note_author(author)
        names = find_names(text)
        if 0 < most_hashes < sum(kind == COMMIT for _, kind in names):
            names = [pair for pair in names if pair[1] != COMMIT]
        for name, kind in names:
            self._count(name, kind, author, index)
        if home:
            self._place(names, home, moves=moves)

    def add_name(self, name: str, author: int, index: int) -> None:
        """Counts a name that the caller found; its kind is `None`."""
        self._note_author(author)
        if name:
            self._count(stored_text(name), None, author, index)

    def _note_author(self, author: int) -> None:
        if not 0 <= author < len(self._weights):
            raise IndexError(f"there is no author {author}")

    def _count(self, name: str, kind: int | None, author: int, index: int) -> None:
        if name not in self._uses:
            self._uses[name] = []
            self._kinds[name] = kind
        self._uses[name].append((index, author))

    def _place(self, names: list[tuple[str, int]], home: str, *, moves: bool) -> None:
        for name, kind in names:
            if kind in (SYMBOL, OPTION) and (moves or name not in self._homes):
                self._homes[name] = stored_text(home)

    def ranked(self, end: int, most: int) -> list[Row]:
        """The names of most worth: text, kind, uses, last, score, author, home."""
        rows = [self._rank(name, uses, end) for name, uses in self._spellings()]
        return sorted(rows, key=lambda row: (-row[4], row[0]))[:most]

    def _spellings(self) -> Iterator[tuple[str, _Uses]]:
        """Each name with its uses; the spellings of one path are one name, the longest of them."""
        places: dict[str, list[str]] = {}
        for text, count in self._uses.items():
            if self._kinds[text] == PATH:
                places.setdefault(_tail(text), []).append(text)
            else:
                yield text, count
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
