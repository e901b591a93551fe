"""Which of some patterns may be in a sentence: a filter in front of Python's own search, which decides.

Twin of `rust/core/src/patterns.rs`. Only plain ASCII is judged, where both read a pattern alike; lookarounds
are left out, so that a pattern is found rather too often than not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from ullage._reference.stored import stored_text

__all__ = ["PatternSet"]

MOST_PATTERNS: Final = 63
_JUDGED = re.compile(r"[ -~\t]*")
_LOOKS = ("(?=", "(?!", "(?<=", "(?<!")


class PatternSet:
    """Some patterns, looked for together; letters of any case match.

    Args:
        patterns: In Python's syntax.

    Raises:
        ValueError: More than 63, or one that cannot be read.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        if len(patterns) > MOST_PATTERNS:
            raise ValueError(f"at most {MOST_PATTERNS} patterns, not {len(patterns)}")
        try:
            plain = [_without_looks(pattern) for pattern in patterns]
            self._patterns = [re.compile(each, re.ASCII | re.IGNORECASE) for each in plain]
        except re.error as exc:
            raise ValueError(str(exc)) from exc

    def may_match(self, text: str) -> int:
        """A bit for each pattern that may be in the text; all of them where it is not judged."""
        text = stored_text(text)
        if not _JUDGED.fullmatch(text):
            return (1 << len(self._patterns)) - 1
        found = (bool(pattern.search(text)) << at for at, pattern in enumerate(self._patterns))
        return sum(found)


def _without_looks(pattern: str) -> str:
    """The pattern without lookarounds."""
    plain, at, in_class = "", 0, False
    while at < len(pattern):
        if not in_class and pattern.startswith(_LOOKS, at):
            at = _group_end(pattern, at)
            continue
        size = 2 if pattern[at] == "\\" else 1
        if size == 1:
            in_class = pattern[at] != "]" if in_class else pattern[at] == "["
        plain += pattern[at : at + size]
        at += size
    return plain


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
