"""Both engines find the same names in any text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ullage import _reference as twin
from ullage.testing import conversation

core: Any = pytest.importorskip("ullage._core")

PIECES = st.sampled_from(
    "a b x T cfg Source src main fmt v1 v 12 1a2b3c4 a1b2c3d4e5f6 deadbeef ABC E0433 -- --no-verify - -- + # #12 ## @ ~ . .. ... ./ ../ / // :: : ://"
    " _ __ _a a_b aB .py .go .yaml .env .gitignore .npmrc rc ignore go-12- .go-7 -12-x toolu_ </ < > \\n \\t \\ \\\\ é ß Ж γ 字 × a/ b/ dev/null"
    " https://x.y/z 123e4567-e89b-12d3-a456-426614174000 dGhpc0lzQmFzZTY0NjQ1 x_y::Z and/or".split()
)
GLUED = st.lists(PIECES | st.sampled_from([" ", "\n", ",", "(", "\ud800", "🎉"]), max_size=14).map(
    "".join
)
ANY = st.text(st.characters(codec=None, exclude_categories=[]), max_size=60)


@given(GLUED | ANY)
@example("x.go-1-\n")
@example("a/" + "b" * 81)
@example("/".join("ab" for _ in range(21)))
@example("x" * 200 + " " + "a_" * 100 + " " + "a_" * 101)
@example("--" + "a" * 78 + " --" + "a" * 79)
def test_names_of_a_text(text: str) -> None:
    assert core.find_names(text) == twin.find_names(text)


def test_names_of_long_texts() -> None:
    for seed in range(3):
        for item in conversation(seed=seed, tokens=8_000):
            text = str(item["content"])
            assert core.find_names(text * 3) == twin.find_names(text * 3)


@pytest.mark.parametrize(
    "text",
    ["a" * 1_000_000, "a/" * 300_000, "--a" * 300_000, "</" * 300_000, "\\n" * 300_000, ".-1" * 60],
)
def test_hostile_texts(text: str) -> None:
    assert core.find_names(text) == twin.find_names(text)


@pytest.mark.parametrize("module", [core, twin])
def test_only_texts_are_read(module: Any) -> None:
    with pytest.raises(TypeError):
        module.find_names(b"src/a.py")
