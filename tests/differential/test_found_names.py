"""Both engines find the same names in any text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, strategies as st

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


TEXTS = st.lists(
    st.tuples(
        GLUED,
        st.integers(0, 5),
        st.sampled_from(["", "a.py", "git log"]),
        st.booleans(),
        st.booleans(),
    ),
    max_size=8,
)


@given(TEXTS)
@example([("src/a.py a.py /src/a.py x/src/a.py", 0, "", False, False)])
@example([("cfg.Source", 3, "a.py", False, False), ("cfg.Source", 1, "b.py", True, False)])
@example([("deadbee1 " + " ".join(f"abc{n}d0{n}" for n in range(10, 30)), 5, "", False, True)])
def test_a_tally_over_texts(texts: list[tuple[str, int, str, bool, bool]]) -> None:
    ranked = []
    for module in (core, twin):
        tally = module.NameTally((8, 4, 3, 2, 2, 1))
        for index, (text, author, home, moves, listed) in enumerate(texts, -2):
            tally.add(text, author, index, home=home, moves=moves, most_hashes=12 * listed)
            tally.add_name("git push", author, index)
        ranked.append([tally.ranked(len(texts), most) for most in (1, 500)])
    assert ranked[0] == ranked[1]


def test_a_tally_over_a_long_conversation() -> None:
    ranked = []
    for module in (core, twin):
        tally = module.NameTally([3, 1])
        for index, item in enumerate(conversation(seed=1, tokens=30_000)):
            tally.add(str(item["content"]), index % 2, index)
        ranked.append(tally.ranked(index, 400))
    assert ranked[0] == ranked[1]
    assert len(ranked[0]) > 100


@pytest.mark.parametrize("module", [core, twin])
def test_a_tally_refuses_what_has_no_weight(module: Any) -> None:
    tally = module.NameTally((1, 2))
    with pytest.raises(IndexError, match="no author 2"):
        tally.add("src/a.py", 2, 0)
    with pytest.raises(IndexError, match="no author 2"):
        tally.add_name("git push", 2, 0)
    with pytest.raises(IndexError, match="at most 8"):
        module.NameTally(range(9))
