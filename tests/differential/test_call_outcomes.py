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


GO_TEST = """=== RUN   TestWarning
    warning_test.go:50: Session A has 1 checkpoint(s)
    warning_test.go:78: the reason should name another session, got: none
--- FAIL: TestWarning (0.53s)
FAIL"""
PYTEST = """>       assert total == 3
E       assert 4 == 3
FAILED tests/test_sums.py::test_total - assert 4 == 3"""


@pytest.mark.parametrize("module", [core, twin])
@pytest.mark.parametrize(
    ("text", "line"),
    [
        (GO_TEST, "--- FAIL: TestWarning (0.53s) / warning_test.go:78: the reason should name another session, got: none"),
        (PYTEST, "FAILED tests/test_sums.py::test_total - assert 4 == 3 / E       assert 4 == 3"),
        ("a.go:1:1: # package a\na.go:9:2: undefined: b", "a.go:9:2: undefined: b"),
        ("test sums::total ... FAILED\nerror: 1 target failed", "test sums::total ... FAILED / error: 1 target failed"),
        ("--- FAIL: TestA", "--- FAIL: TestA"),
    ],
)  # fmt: skip
def test_a_failed_test_is_named_with_what_it_expected(module: Any, text: str, line: str) -> None:
    assert module.read_result(text, True) == (True, None, line)


OUTPUT = "line of output\n" * 4

FAILED = (
    '<returncode>1</returncode>\n<output>\nls: nope\n</output>',
    'OUT[exit 1]',
    'OUT(exit code 1)',
    'Return code: 1\nOUT',
    'OUTexited with non-zero status code 3',
    'OUT[Python Interpreter: exit code 1]',
    'OUTProcess finished with exit code 2',
    'OUTCommand failed with exit code 1',
    'OUTexit status 1',
    "Command '['ls', 'x']' returned non-zero exit status 1.",
    "OUTsubprocess.CalledProcessError: Command 'x' returned non-zero exit status 2.\n",
    'OUT[The command completed with exit code 1.]\n[Current working directory: /x]',
    'OUT[Command finished with exit code 127]',
    'exitcode: 1 (execution failed)\nCode output: x',
    'The script ran, then exited with an error (POSIX exit code: 1)\nIts output was:\nOUT',
    'OUT[Command failed with exit code 1]',
    'OUTcommand terminated with exit code 137',
    'error Command failed with exit code 1.',
    'Exit Code: 2\nOUT',
    'Command exited with code 1',
    'OUT[exit code: 1]',
    '<exit_code>1</exit_code>\nOUT',
    'Command execution was not successful, inspect the cause and adjust as needed.\nExit code: 4\nOUT',
    'OUTExited with code 1',
    'OUTExit status: 1',
    'The command exited with a non-zero status: 1\nOUT',
    'Tool failed (exit code 2)\nOUT',
    'OUTScript exited with status 3',
)  # fmt: skip
"""How agents and hosts word that a command failed; OUT stands for what it printed."""

NOT_FAILED = (
    '<returncode>0</returncode>\n<output>\nok\n</output>',
    'OUT[exit 0]',
    'OUT(exit code 0)',
    'Return code: 0\nOUT',
    'OUTProcess finished with exit code 0',
    'exitcode: 0 (execution succeeded)\nCode output: x',
    'OUT[Command succeeded with exit code 0]',
    'The handler logs (exit code 1) when the disk is full.\nOUT',
    'OUTif it returned non-zero exit status 1 we retry\nOUT',
    'docs: the exit code 3 means a lint finding\nOUT',
    "grep -n 'exit 1' run.sh\n12: exit 1 # bad\nOUT",
    'OUTwe exit 1 here\n',
    '  exit 1;\nOUT',
    'see [exit 1] of the motorway\nOUT',
    '    sys.exit(1)\n',
    'if failed:\n    exit 1\nfi\n',
)  # fmt: skip
"""Code 0, and outputs that only mention a code."""


@pytest.mark.parametrize("module", [core, twin])
@pytest.mark.parametrize("text", FAILED)
def test_a_failure_is_read_in_every_wording(module: Any, text: str) -> None:
    failed, code, _ = module.read_result(text.replace("OUT", OUTPUT), False)
    assert failed
    assert code


@pytest.mark.parametrize("module", [core, twin])
@pytest.mark.parametrize("text", NOT_FAILED)
def test_a_code_that_is_only_mentioned_is_no_failure(module: Any, text: str) -> None:
    failed, code, _ = module.read_result(text.replace("OUT", OUTPUT), False)
    assert not failed
    assert not code
