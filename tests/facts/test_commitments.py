"""Which sentences bind: a labelled set of sentences in eleven languages, half of them traps."""

from __future__ import annotations

from pathlib import Path

import pytest

from ullage.facts.rules import CommitmentKind, commitments_in, is_answer

ROWS = [
    line.split("\t")
    for line in Path(__file__).with_name("data").joinpath("commitments.tsv").read_text("utf-8").splitlines()
    if not line.startswith("#")
]  # fmt: skip
LANGUAGES = sorted({row[0] for row in ROWS})


def found(sentence: str) -> set[str]:
    question, _, reply = sentence.rpartition(" ||| ")
    return {str(each.kind) for each in commitments_in(reply, answers=question)} or {"none"}


def test_the_set_is_as_large_and_as_mixed_as_it_should_be():
    assert len(ROWS) >= 400
    assert len({tuple(row) for row in ROWS}) == len(ROWS)
    assert len({row[1] for row in ROWS}) >= 18
    traps = sum(row[2] == "none" for row in ROWS)
    assert 0.4 < traps / len(ROWS) < 0.6
    assert {row[2] for row in ROWS} == {*map(str, CommitmentKind), "none"}
    assert len(LANGUAGES) == 11


def test_precision_and_recall_over_all_sentences():
    wrong, missed, right = [], [], 0
    for language, _, kind, sentence in ROWS:
        told = found(sentence)
        if told == {kind}:
            right += kind != "none"
            continue
        missed += [(language, kind, sentence, told)] if kind != "none" else []
        wrong += [(language, kind, sentence, told)] if told != {"none"} else []
    assert right / (right + len(wrong)) >= 0.95, wrong
    assert right / (right + len(missed)) >= 0.85, missed


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_is_recognised(language):
    rows = [(kind, sentence) for one, _, kind, sentence in ROWS if one == language]
    binding = [(kind, found(sentence)) for kind, sentence in rows if kind != "none"]
    held = sum(told != {"none"} for _, told in binding)
    assert held >= 0.75 * len(binding)
    false = [sentence for kind, sentence in rows if kind == "none" and found(sentence) != {"none"}]
    assert len(false) <= 2, false


@pytest.mark.parametrize(
    "text",
    ["> Never push to main.", "```\nNever push to main.\n```", "He wrote: “Never push to main.”"],
)
def test_quoted_words_bind_nobody(text):
    assert commitments_in(text) == []


def test_an_answer_with_more_in_it_is_no_plain_approval():
    assert is_answer("yes, but only after the tests have passed on the other branch") is None
    assert is_answer("ok?") is None
