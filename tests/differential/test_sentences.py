"""Both engines find the same sentences in a text, and the same texts in another."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from ullage import _reference as twin

core: Any = pytest.importorskip("ullage._core")

BLANKS = [" ", "  ", "\n", "\r\n", "\t", "\x0c", "\x1c", "\x85", "\xa0", "\u2028", "\u3000"]
OTHERS = [
    "It works",
    ".",
    "!",
    "?",
    "。",
    "é",
    "字",
    "🎉",
    "\ud800",
    "\ud83d\ude00",
    "a.py",
    "\x00",
]
PIECES = st.sampled_from([*BLANKS, *OTHERS])


@given(st.lists(PIECES, max_size=20).map("".join) | st.text(max_size=60), st.integers(0, 6))
@example("One. Two.\n\nThree!\xa0Four?\u2003Five", 0)
@example("", 0)
@example(". .", 1)
def test_sentences_of_a_text(text: str, least: int) -> None:
    assert core.split_sentences(text, least, 12) == twin.split_sentences(text, least, 12)


@pytest.mark.parametrize("module", [core, twin])
def test_the_length_of_a_sentence_is_in_characters(module: Any) -> None:
    text = "ééé. éééé.\nééééé\n\n"
    assert module.split_sentences(text, 4, 5) == ["ééé.", "éééé.", "ééééé"]
    assert module.split_sentences(text, 5, 5) == ["éééé.", "ééééé"]


@given(st.lists(PIECES, max_size=6), st.lists(PIECES, max_size=20).map("".join))
@example(["", "é", "\ud83d\ude00"], "🎉é\ud83d\ude00")
def test_texts_in_another(texts: list[str], whole: str) -> None:
    assert core.contained(texts, whole) == twin.contained(texts, whole)
