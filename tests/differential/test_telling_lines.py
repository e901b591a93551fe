"""No line is left out that a pattern takes, and Rust leaves out many that the twin lists."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from ullage import _reference as twin
from ullage.facts import tallies as result_facts
from ullage.testing import conversation

core: Any = pytest.importorskip("ullage._core")

PIECES = st.sampled_from(
    "rows : = # 4 48 2.0.1 v1.2 port Port listening on localhost 127.0.0.1 0.0.0.0 :8080 =80 running erving commit sha256 id a1b2c3"
    " version é ß 字 \u0663 \u0664\u0665 \ud800 \ud83d\ude00 🎉 \u2028 \x0c \r \x00 - * • \" ' $ % ( ) x @".split(
        " "
    )
)
LINES = st.lists(PIECES | st.sampled_from([" ", "\n", "\t", "-" * 150]), max_size=16).map("".join)
ANY = st.text(st.characters(codec=None, exclude_categories=[]), max_size=80)


@given(LINES | ANY)
@example("")
@example("a: 10\n" * 3 + "\n\n")
@example("\n".join("x" * count + ": 12" for count in range(150, 162)))
@example("\n".join("é" * count + ": 12" for count in range(150, 162)))
def test_lines_of_a_text(text: str) -> None:
    listed = [line for line, _ in core.telling_lines(text)]
    every = iter(line for line, _ in twin.telling_lines(text))
    assert all(line in every for line in listed), "in the same order"


@given(LINES)
@example("rows: 48213")
@example("id=a1b2c3d4")
@example("node 20.1")
@example("serving at =8080")
@example("Größe: 12")
@example("rows: \u0664\u0665")
def test_a_line_that_tells_a_value_is_listed(text: str) -> None:
    listed = dict(core.telling_lines(text))
    for line in text.split("\n"):
        keyed, port = result_facts._FACT.match(line), result_facts._PORT.search(line)
        if (
            4 <= len(line) <= 160
            and len(result_facts._DIGIT.findall(line)) > 1
            and "\ud800" not in line
        ):
            assert not keyed or listed[line] & result_facts.KEYED
            assert not port or listed[line] & result_facts.PORT


def test_facts_of_long_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [
        str(item["content"]).replace("\\n", "\n") * 3
        for seed in range(3)
        for item in conversation(seed=seed, tokens=8_000)
    ]
    texts.append("rejected: 48213\nlistening on :8080")
    fast = list(map(result_facts.fact_lines, texts))
    monkeypatch.setattr(result_facts, "core", twin)
    assert list(map(result_facts.fact_lines, texts)) == fast
    assert len(fast[-1]) == 2


@pytest.mark.parametrize("module", [core, twin])
def test_only_texts_are_read(module: Any) -> None:
    with pytest.raises(TypeError):
        module.telling_lines(b"rows: 12")
