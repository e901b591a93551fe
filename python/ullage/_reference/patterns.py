"""Which of some patterns are in a sentence, and which may be: Python's own search decides about the latter.

Twin of `rust/core/src/patterns.rs`. Only plain ASCII is judged, where both read a pattern alike. Lookarounds are left
out, so that a pattern with one may be there; its alternatives without any are there if they are found.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from ullage._reference.stored import stored_text, valid_text

__all__ = ["PatternSet"]

MOST_PATTERNS: Final = 63
_JUDGED = re.compile(r"[ -~\t]*")
_LOOKS = ("(?=", "(?!", "(?<=", "(?<!")


class PatternSet:
    """Some patterns, looked for together; letters of any case match.

    Args:
        patterns: In Python's syntax.
        wide: Texts with Latin letters, punctuation and symbols beyond ASCII are judged too, each as one of two characters; what
            is found there only may be there.

    Raises:
        ValueError: More than 63, or one that cannot be read.
    """

    def __init__(self, patterns: Sequence[str], *, wide: bool = False) -> None:
        if len(patterns) > MOST_PATTERNS:
            raise ValueError(f"at most {MOST_PATTERNS} patterns, not {len(patterns)}")
        try:
            self._patterns = [_pattern(each, wide) for each in patterns]
        except re.error as exc:
            raise ValueError(str(exc)) from exc
        self._wide = wide

    def look(self, text: str) -> tuple[int, int]:
        """A bit for each pattern that may be in the text (all of them where it is not judged), and for each that is."""
        text = stored_text(text)
        if self._wide:
            text = _narrowed(valid_text(text))
        if not (_NARROW if self._wide else _JUDGED).fullmatch(text):
            return (1 << len(self._patterns)) - 1, 0
        maybe = sure = 0
        for at, (pattern, certain) in enumerate(self._patterns):
            if pattern.search(text):
                maybe |= 1 << at
                sure |= (not self._wide and (certain is None or bool(certain.search(text)))) << at
        return maybe, sure


def _pattern(pattern: str, wide: bool) -> tuple[re.Pattern[str], re.Pattern[str] | None]:
    """What may be there, and the alternatives that need no second look, where that is not all of them."""
    maybe = _made(_without_looks(pattern, wide=wide))
    if wide:
        return maybe, None
    parts = _alternatives(pattern)
    sure = [part for part in parts if not _has_looks(part)]
    rest = None if len(sure) == len(parts) else _made("|".join(sure) if sure else _NOTHING)
    return maybe, rest


_NOTHING = r"\x02"
"""In no judged text."""

_LETTER, _MARK = "_", "\x01"
"""In place of a letter beyond ASCII, and of punctuation and symbols."""

_NARROW = re.compile(r"[ -~\t\x01]*")
_BLANKS = re.compile("[\xa0\u2000-\u200a\u202f]")
_LETTERS = re.compile("[\xc0-\u024f]")
_MARKS = re.compile(
    "[×÷\xa1-\xbf\u200b-\u2027\u2030-\u205e\u20a0-\u20cf\u2190-\u23ff\u2500-\u2775\u2794-\u2bff\ufe00-\ufe0f\U0001f300-\U0001faff]"
)
_NEITHER = re.compile("[\x01\u0130\u0131\u017fª²³µ¹º¼-¾]")
"""Python takes some for letters of ASCII, some for digits."""


def _narrowed(text: str) -> str:
    """The text with each wider character as one of ASCII; one that is not judged stays."""
    if text.isascii() or _NEITHER.search(text):
        return text.replace(_MARK, "\x02")
    text = _LETTERS.sub(_LETTER, _MARKS.sub(_MARK, text))
    return _BLANKS.sub(" ", text)


def _made(plain: str) -> re.Pattern[str]:
    return re.compile(plain, re.ASCII | re.IGNORECASE)


def _alternatives(pattern: str) -> list[str]:
    """The parts between the bars that stand in no group and no class."""
    parts, start, depth = [], 0, 0
    for at in _unescaped(pattern):
        here = pattern[at]
        depth = max(depth + (here == "(") - (here == ")"), 0)
        if here == "|" and depth == 0:
            parts.append(pattern[start:at])
            start = at + 1
    return [*parts, pattern[start:]]


def _has_looks(pattern: str) -> bool:
    return any(pattern.startswith(_LOOKS, at) for at in _unescaped(pattern))


def _unescaped(pattern: str) -> Iterator[int]:
    """The places of the characters that stand for themselves neither by a backslash nor in a class."""
    in_class = escaped = False
    for at, here in enumerate(pattern):
        if escaped or here == "\\":
            escaped = not escaped
            continue
        outside, in_class = not in_class, here != "]" if in_class else here == "["
        if outside:
            yield at


def _without_looks(pattern: str, *, wide: bool) -> str:
    """The pattern without lookarounds; `wide`: what `_narrowed` replaces too, but in a negated class nothing that would keep more out."""
    plain, at, in_class, negated = "", 0, False, False
    while at < len(pattern):
        if not in_class and pattern.startswith(_LOOKS, at):
            at = _group_end(pattern, at)
            continue
        size = 2 if pattern[at] == "\\" else 1
        here = pattern[at : at + size]
        if wide and size == 1:
            here = _narrow(here, negated)
        if size == 1:
            in_class = pattern[at] != "]" if in_class else pattern[at] == "["
            negated = in_class and (negated or pattern.startswith("[^", at))
        plain += here
        at += size
    return plain


def _narrow(char: str, negated: bool) -> str:
    if char.isascii():
        return _NOTHING if negated and char == "_" else char
    narrow = _narrowed(char)
    return narrow if narrow.isascii() and not negated else _NOTHING


def _group_end(pattern: str, start: int) -> int:
    depth, in_class, at = 0, False, start
    while at < len(pattern):
        here = pattern[at]
        if here == "\\":
            at += 1
        elif here in "[]":
            in_class = here == "["
        elif not in_class:
            depth += (here == "(") - (here == ")")
        at += 1
        if here == ")" and depth == 0:
            return at
    return len(pattern)
