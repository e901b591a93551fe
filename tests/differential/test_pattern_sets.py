"""No pattern is left out that is in a text, and none that is not is said to be: Python's search decides, which is all that the twin does."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from ullage import _reference as twin
from ullage.facts import rules as commitments
from ullage.facts.rules import SearchedPatterns
from ullage.testing import conversation

core: Any = pytest.importorskip("ullage._core")

SETS = (
    commitments.patterns().rules,
    commitments.patterns().findings,
    commitments.patterns().sentences,
    commitments.patterns().content,
    commitments._marks().lines,
    commitments._marks().reported,
    SearchedPatterns((r"a(?!b)[\[&~]", r"^(?<=x(?:y|z))é?[’']\s\Bq$", r"[^é]\b(?=\)|])[)]{2}")),
)
FILTERS = [core.PatternSet(each._texts) for each in SETS]
WIDE = [core.PatternSet(each._texts, wide=True) for each in SETS]
WORDS = st.sampled_from(
    "always never mind from now on do not don't don’t must should make sure use instead of tabs we decided to I'll go with TODO : still need to "
    "not yet done open [ ] please prefer no longer keep it before you ask me first decision is agreed that nie immer nicht siempre a[ a& yq )) "
    "it works ? . , ; ! ( - * > actually wrong approved yes stop leave the file alone unless only exactly fixed that was said they NEVER Must Re: Dear Ana Said".split(
        " "
    )
)
SENTENCES = st.lists(WORDS, max_size=14).map(" ".join)
ANY = st.text(st.characters(codec=None, exclude_categories=[]), max_size=60)


ACCENTED = st.lists(
    WORDS | st.sampled_from("naïve “Never” – nếu ✓ 🎉 … → ² µ ı ſ K × décide não n_o é_é \xa0 \ud83d\ude00".split(" ")),
    max_size=14,
).map(" ".join)  # fmt: skip


@given(SENTENCES | ANY | ACCENTED)
@example("é [é")
@example("must not_é")
@example("\x01 must é")
def test_what_may_be_in_a_sentence_beyond_ascii(text: str) -> None:
    for each, fast in zip(SETS, WIDE, strict=True):
        maybe, sure = fast.look(text)
        assert sure == 0
        for at, pattern in enumerate(each._texts):
            if re.compile(pattern, re.IGNORECASE).search(text):
                assert maybe >> at & 1


def test_what_stands_for_a_letter_is_one() -> None:
    letter, mark, blank = (
        core.PatternSet([p], wide=True) for p in (r"^\w$", r"^[^\w\s]$", r"^\s$")
    )
    nothing, any_letter = core.PatternSet(["$.^"], wide=True), re.compile("[a-z]", re.IGNORECASE)
    for point in range(0x80, 0x20000):
        char = chr(point)
        if nothing.look(char) == (0, 0):  # it is judged
            assert not any_letter.match(char), hex(point)
            told = [each.look(char)[0] for each in (letter, mark, blank)]
            word, space = bool(re.match(r"\w", char)), char.isspace()
            assert told == [word, not word and not space, space], hex(point)


@given(SENTENCES | ANY)
@example("Never mind\n")
@example("always\x1cx")
@example("İ must K")
@example("stop working on it")
def test_what_may_be_in_a_sentence(text: str) -> None:
    for each, fast in zip(SETS, FILTERS, strict=True):
        maybe, sure = fast.look(text)
        bits = 0
        for at, pattern in enumerate(each._texts):
            found = bool(re.compile(pattern, re.IGNORECASE).search(text))
            assert sure >> at & 1 <= found <= maybe >> at & 1
            bits |= found << at
        assert twin.PatternSet(each._texts).look(text) == (bits, bits)


def test_sentences_of_long_conversations() -> None:
    for item in conversation(seed=2, tokens=20_000):
        for line in str(item["content"]).split("\\n"):
            for each, fast in zip(SETS, FILTERS, strict=True):
                maybe, sure = fast.look(line[:400])
                found = [at for at, p in enumerate(each._texts) if re.search(p, line[:400], re.I)]
                assert all(maybe >> at & 1 for at in found)
                assert all(at in found for at in range(len(each._texts)) if sure >> at & 1)
                assert list(each.matching(line[:400])) == sorted({each._places[at] for at in found})


def test_alternatives_with_a_lookaround_are_searched_apart() -> None:
    one = SearchedPatterns(("a(?!b)\nc\n(?:d|e)\n(?<=x)f", "g|h", ""))
    assert one._texts == ("c|(?:d|e)", "a(?!b)|(?<=x)f", "g|h")
    for text, places in {"a c": [0], "ab": [], "G ab": [1], "xf h": [0, 1], "é e": [0]}.items():
        assert list(one.matching(text)) == places, text


@pytest.mark.parametrize("module", [core, twin])
def test_patterns_that_cannot_be_read(module: Any) -> None:
    with pytest.raises(ValueError, match="at most 63 patterns, not 64"):
        module.PatternSet(["a"] * 64)
    with pytest.raises(ValueError, match=r"."):
        module.PatternSet(["(a"])
    assert module.PatternSet([]).look("é") == (0, 0)


def test_patterns_that_need_no_second_look() -> None:
    set_of = core.PatternSet([r"a(?!b)|[|(]c", "h|i|[(?=]", r"(?<!j)k", r"\(?=d"])
    assert set_of.look("a") == (1, 0)
    assert set_of.look("|C") == (1, 0)
    assert set_of.look("hi k") == (6, 2)
    assert set_of.look("=D") == (10, 10)
    cased = core.PatternSet([r"(?-i:Ab)|[C-E]\S", r"[C-E]\S"])
    assert [cased.look(text) for text in ("Ab", "aB", "dX")] == [(1, 1), (0, 0), (3, 3)]
