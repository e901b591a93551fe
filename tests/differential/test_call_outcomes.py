"""Both engines read the same outcome from any result."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from ullage import _reference as twin
from ullage.testing import conversation

core: Any = pytest.importorskip("ullage._core")

PIECES = st.sampled_from(
    "Exit|code:|exit code 1|Process exited with code|exit status|2|-7|\"exit_code\": 3|'returncode':|<tool_use_error>|</error>|<error>|Error:|error:|ERROR:|failure:|"
    "[Command finished with exit code |[The command completed with exit code -1.]|[Python interpreter: x]|"
    "Traceback (most recent call last):|ValueError|Exception :|fatal:|panic:|E  |e\t |--- FAIL|FAIL|✗|✖ 1|×|not ok|can't|could not|a.py:12: |x:1:2:|\\S|"
    "=== RUN x|chunk id: 9|wall time 3|output:|script completed|(no output)|(Bash completed with no output)|[a:b] $ ls|[main 1a2b3c4]|passed|12 PASSED|ok|"
    "up to date|successfully|clean|mergedé|éfailed|字ok|word|_|é|字|ſ|K|İ|…|→|🎉|\u0663|\ud800|\ud83d\ude00|\x1c|\x85|\xa0|\u2028|\x0b|\x00".split(
        "|"
    )
)
RESULTS = st.lists(
    PIECES | st.sampled_from([" ", "\n", "\r", "\r\n", "\t", "x" * 199]), max_size=24
)
ANY = st.text(st.characters(codec=None, exclude_categories=[]), max_size=80)


@given(RESULTS.map("".join) | ANY, st.booleans())
@example("", False)
@example("", True)
@example("ok\n" + "x\n" * 2100, False)
@example("word\n" * 3000 + "error: late", True)
@example("é" * 400 + "\nExit code: 3", False)
@example("é" * 388 + "\nExit code: 3" + "é" * 388, False)
@example("  " * 301 + "Error: far", False)
def test_the_outcome_of_a_call(text: str, is_error: bool) -> None:
    assert core.read_result(text, is_error) == twin.read_result(text, is_error)


@given(RESULTS.map("".join) | ANY)
def test_lines_that_hosts_write(text: str) -> None:
    for line in text.split("\n"):
        assert core.is_framing(line) == twin.is_framing(line)


def test_every_mark_is_one_in_both() -> None:
    marks = [chr(point) for point in range(0x110000) if not 0xD800 <= point < 0xE000]
    assert [c for c in marks if core.is_framing(c)] == [c for c in marks if twin.is_framing(c)]


def test_outcomes_of_long_results() -> None:
    for seed in range(3):
        for item in conversation(seed=seed, tokens=8_000):
            text = str(item["content"]).replace("\\n", "\n") * 3
            for failed in (False, True):
                assert core.read_result(text, failed) == twin.read_result(text, failed)


@pytest.mark.parametrize("module", [core, twin])
def test_only_texts_are_read(module: Any) -> None:
    with pytest.raises(TypeError):
        module.read_result(b"ok", False)
