"""Cuts texts at natural places: at line ends, never inside a character."""

from __future__ import annotations

import unicodedata

__all__ = ["cut_middle", "head", "snipped", "tail"]

_NEAR = 200
"""Characters: how far a cut may move to find a line end."""

_JOINERS = "\u200d\ufe0f\ufe0e"


def _splits_character(text: str, at: int) -> bool:
    """Whether a cut before `text[at]` would split a grapheme: a combining mark, a joined emoji, a pair of surrogates."""
    if not 0 < at < len(text):
        return False
    after, before = text[at], text[at - 1]
    if unicodedata.combining(after) or after in _JOINERS or before == "\u200d":
        return True
    pair = "\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff"
    return pair or before + after == "\r\n" or "\U0001f3fb" <= after <= "\U0001f3ff"


def head(text: str, length: int) -> str:
    """At most `length` characters from the start, up to a line end where one is near."""
    if length >= len(text):
        return text
    line = text.rfind("\n", max(0, length - _NEAR), length)
    at = line + 1 if line >= 0 else length
    while at > 0 and _splits_character(text, at):
        at -= 1
    return text[:at]


def tail(text: str, length: int) -> str:
    """At most `length` characters from the end, from a line start where one is near."""
    if length >= len(text):
        return text
    start = len(text) - length
    line = text.find("\n", start, start + _NEAR)
    at = line + 1 if line >= 0 else start
    while at < len(text) and _splits_character(text, at):
        at += 1
    return text[at:]


def snipped(text: str, head_percent: int, tail_percent: int) -> str:
    """Shares of a text from its two ends, and between them how many characters were taken out."""
    return cut_middle(text, len(text) * head_percent // 100, len(text) * tail_percent // 100)


def cut_middle(text: str, head_chars: int, tail_chars: int, handle: str = "") -> str:
    """At most so many characters from the two ends of a text, and between them how many were taken out.

    Args:
        text: Longer than both together.
        head_chars: Kept from its start.
        tail_chars: Kept from its end.
        handle: What brings the whole text back; empty: nothing is said of it.
    """
    first, last = head(text, head_chars), tail(text, tail_chars)
    gone = len(text) - len(first) - len(last)
    back = f'; the whole text: recall handle "{handle}"' if handle else ""
    return (
        f"{first.rstrip()}\n\n[... {gone:,} characters taken out here{back} ...]\n\n{last.lstrip()}"
    )
