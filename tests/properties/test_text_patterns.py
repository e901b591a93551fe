"""No pattern that reads a conversation takes more than linear time, whatever the conversation holds."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import time

import pytest
from hypothesis import given, settings, strategies as st

from ullage.compaction.summary_call import check_reply
from ullage.facts import collect
from ullage.facts.sections import parse_sections, parse_summary, strip_draft
from ullage.facts.tallies import command_key
from ullage.facts.words import asks, unfenced, words_of
from ullage.summarizers.protocol import SummaryReply

pytestmark = pytest.mark.both_engines

PACKAGES = ("facts", "summarizers", "memory", "transcript", "compaction", "levels", "recall")
UNITS = (
    " ", "\n", " \n", "\t", "a", "A", "1", "_", "-", ".", "a.", "a/", "a_", "a-", "aA", "a ", "1 ", '"', "'", "`", "```\n",
    "```x\n", "<", "<a>", "<analysis>", "<summary>", "</analysis>", "[", "](", "{", "\\", "#", "*", "**", "=", ":", "a: ", "|", "| head ",
    ";", "&&", "cd a;", "2>&1 ", "$ ", "Error:", "error ", "user said ", "https://a", "::", "“", "é", "0a", "~~~\n", "- ",
    "1. ", "0-", '"a"="b"', "tools.a(", "*** Begin Patch", "in ", "please ", "use x ", "leave x ", "x is ", "TODO ", "not ",
)  # fmt: skip
CHARS = 8_000
SECONDS = 0.25
"""A quadratic pattern takes more at this length, a linear one less than a hundredth."""


def patterns() -> dict[str, tuple[re.Pattern[str], bool]]:
    """Each pattern of a module by its name, and whether it is only tried at the start of a text."""
    found: dict[str, tuple[re.Pattern[str], bool]] = {}
    for package in PACKAGES:
        root = importlib.import_module(f"ullage.{package}")
        for info in pkgutil.walk_packages(root.__path__, f"ullage.{package}."):
            module = importlib.import_module(info.name)
            source = inspect.getsource(module)
            for name, value in vars(module).items():
                if isinstance(value, re.Pattern) and isinstance(value.pattern, str):
                    used = set(re.findall(rf"\b{name}\.(\w+)\(", source))
                    found[f"{info.name}.{name}"] = (
                        value,
                        bool(used) and used <= {"match", "fullmatch"},
                    )
    return found


PATTERNS = patterns()


def worst(pattern: re.Pattern[str], *, anchored: bool) -> tuple[float, str]:
    slowest = 0.0, ""
    for unit in UNITS:
        for before, after in (("", "\x00!"), ("x", "x"), ("\n", "")):
            text = before + unit * (CHARS // len(unit)) + after
            start = time.process_time()
            if anchored:
                pattern.match(text)
            else:
                sum(1 for _ in pattern.finditer(text))
            slowest = max(slowest, (time.process_time() - start, f"{before!r} {unit!r} {after!r}"))
            if slowest[0] > SECONDS:
                return slowest
    return slowest


@pytest.mark.parametrize("name", PATTERNS)
def test_a_pattern_is_linear_on_hostile_text(name):
    pattern, anchored = PATTERNS[name]
    seconds, text = worst(pattern, anchored=anchored)
    assert seconds < SECONDS, (name, text)


READS = words_of, asks, command_key, strip_draft, parse_sections, parse_summary, unfenced


@settings(deadline=None, max_examples=30)
@given(st.lists(st.sampled_from(UNITS), min_size=1, max_size=3).map("".join))
def test_reading_hostile_text_is_linear(piece):
    text = piece * (30_000 // len(piece))
    call = {"type": "tool_use", "id": "c", "name": "Bash", "input": {"command": text}}
    result = {"type": "tool_result", "tool_use_id": "c", "content": text, "is_error": True}
    items = [
        {"role": "user", "content": text},
        {"role": "assistant", "content": [{"type": "text", "text": text}, call]},
        {"role": "user", "content": [result]},
    ]
    seconds = []
    while len(seconds) < 3 and min(seconds, default=1.0) >= 1.0:  # a busy machine only adds to it
        start = time.process_time()
        collect(items)
        for read in READS:
            read(text)
        check_reply(SummaryReply(text=text), source_chars=1 << 30)
        seconds.append(time.process_time() - start)
    assert min(seconds) < 1.0


@pytest.mark.parametrize(
    ("command", "key"),
    [
        ("cd /w && ls  -l", "ls -l"),
        ("cd /w;  pytest -q 2>&1 | tail -5", "pytest -q"),
        ("  cd /w\n&&\nmake\n2>&1 ", "make"),
        ("a | b | head\n-3", "a | b"),
        ("a | grep x | wc -l", "a"),
        ("echo '| header'", "echo '| header'"),
        (" \n" * 12_000, ""),
        ("ls" + " " * 12_000 + "x", "ls"),
    ],
)
def test_the_key_of_a_command(command, key):
    assert command_key(command) == key


@pytest.mark.parametrize(
    ("text", "kept", "open_too"),
    [
        ("a\n```\nb\n```\nc", "a\n\nc", False),
        ("a\n```py\nb\n````\nc", "a\n\nc", False),
        ("a\n````\n```\nb\n```\n````\nc", "a\n\nc", False),
        ("a\n```\n~~~\n```\nb\n~~~\nc", "a\n\nb\n~~~\nc", False),
        ("a\n```\nb", "a\n```\nb", False),
        ("a\n```\nb", "a", True),
        ("a\n```x\n```y\n```\nb", "a\n\nb", False),
    ],
)
def test_fenced_blocks_are_left_out(text, kept, open_too):
    assert unfenced(text, open_too=open_too) == kept
