"""The rule check's memory and time are in proportion to the conversation, whatever stays open in it."""

from __future__ import annotations

import gc
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from tests.kit import user
from ullage import _reference

pytestmark = pytest.mark.slow

Messages = list[dict[str, Any]]


def said(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def call(name: str, kind: str = "tool_use") -> dict[str, Any]:
    return {"type": kind, "id": name, "name": "web_search", "input": {}}


def result(name: str) -> dict[str, Any]:
    return {"type": "web_search_tool_result", "tool_use_id": name, "content": []}


def defined(name: str) -> dict[str, Any]:
    tool = {"name": name, "input_schema": {"type": "object"}}
    return {"role": "system", "content": [{"type": "tool_addition", "tool": tool}]}


def chat(name: str) -> dict[str, Any]:
    function = {"name": "a", "arguments": "{}"}
    asked = {"id": name, "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [asked]}


def names(count: int) -> list[str]:
    return [f"t{at}" for at in range(count)]


Q = user("q")
CASES: dict[str, tuple[str, Callable[[int], Messages]]] = {
    "calls": ("anthropic", lambda n: [Q, *(said(call(t)) for t in names(n))]),
    "server calls": ("anthropic", lambda n: [Q, *(said(call(t, "server_tool_use")) for t in names(n))]),
    "server calls, turns": (
        "anthropic",
        lambda n: [x for t in names(n) for x in (Q, said(call(t, "server_tool_use")))],
    ),
    "answered at once": (
        "anthropic",
        lambda n: [
            Q,
            said(*(call(t, "server_tool_use") for t in names(n)), *map(result, names(n))),
            *(Q for _ in range(n)),
        ],
    ),
    "thoughts": (
        "anthropic",
        lambda n: [Q, *(said({"type": "thinking", "thinking": "t", "signature": "s"}) for _ in range(n))],
    ),
    "tools": ("anthropic", lambda n: [Q, *map(defined, names(n))]),
    "chat calls": ("openai_chat", lambda n: [Q, *map(chat, names(n))]),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_memory_of_the_plain_engine(case: str) -> None:
    provider, make = CASES[case]

    def peak(count: int) -> int:
        ledger = _reference.Ledger(None, make(count))
        gc.collect()
        tracemalloc.start()
        try:
            _reference.Verifier(ledger, provider, {}).check()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(10)
    few, many = peak(200), peak(800)
    assert many < 7 * few + 40_000  # sixteen times would be quadratic


@pytest.mark.parametrize("case", CASES)
def test_time_of_the_plain_engine(case: str) -> None:
    provider, make = CASES[case]

    def seconds(count: int) -> float:
        ledger, best = _reference.Ledger(None, make(count)), 9e9
        for _ in range(2):
            gc.collect()
            start = time.process_time()
            _reference.Verifier(ledger, provider, {}).check()
            best = min(best, time.process_time() - start)
        return best

    few, many = seconds(400), seconds(1_600)
    assert many < 9 * max(few, 0.004)  # sixteen times would be quadratic


CHILD = """
import resource, sys
from tests.legality.test_rules_growth import CASES
from ullage import _core
provider, make = CASES[sys.argv[1]]
ledger = _core.Ledger(None, make(int(sys.argv[2])))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
_core.Verifier(ledger, provider, {}).check()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is told in kilobytes on Linux")
@pytest.mark.parametrize("case", CASES)
def test_memory_of_the_core(case: str) -> None:
    pytest.importorskip("ullage._core")

    count = 40_000
    told = [sys.executable, "-c", CHILD, case, str(count)]
    done = subprocess.run(told, capture_output=True, check=True, text=True)
    # A few hundred bytes a message; copies of the whole state every few messages took 20,000.
    assert int(done.stdout) * 1024 < 3_000 * count
