"""Repair costs what is there: four times the messages take about four times as long, whatever is wrong."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.kit import said, user
from ullage.legality.repairs import repair

pytestmark = pytest.mark.slow

Messages = list[dict[str, Any]]


def call(name: str, kind: str = "tool_use") -> dict[str, Any]:
    return {"type": kind, "id": name, "name": "web_search", "input": {}}


def result(name: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": name, "content": "x"}


def chat_call(name: str) -> dict[str, Any]:
    return {"id": name, "type": "function", "function": {"name": "a", "arguments": "{}"}}


def tool(name: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": name, "content": "x"}


def item(name: str) -> dict[str, Any]:
    return {"type": "function_call", "call_id": name, "name": "a", "arguments": "{}"}


def output(name: str) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": name, "output": "x"}


def asked(name: str) -> dict[str, Any]:
    return {"functionCall": {"name": name, "args": {}}}


def given(name: str) -> dict[str, Any]:
    return {"functionResponse": {"name": name, "response": {}}}


def marked(at: int) -> dict[str, Any]:
    return {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}


def names(count: int) -> list[str]:
    return [f"t{at}" for at in range(count)]


Q = user("q")
CASES: dict[str, tuple[str, Callable[[int], Messages]]] = {
    "orphans": ("anthropic", lambda n: [user([result(t) for t in names(n)])]),
    "orphans apart": ("anthropic", lambda n: [user([result(t)]) for t in names(n)]),
    "duplicates": ("anthropic", lambda n: [Q, said([call("t")]), user([result("t")] * n)]),
    "one id": (
        "anthropic",
        lambda n: [Q, said([call("t") for _ in range(n)]), user([result("t") for _ in range(n)])],
    ),
    "one id, open": ("anthropic", lambda n: [x for _ in range(n) for x in (Q, said([call("t")]))]),
    "bad ids": (
        "anthropic",
        lambda n: (
            [
                Q,
                said([call(f"a {t}") for t in names(n)]),
                user([result(f"a {t}") for t in names(n)]),
            ]
        ),
    ),
    "results first": (
        "anthropic",
        lambda n: (
            [user([result(t) for t in names(n)])]
            + [x for t in names(n) for x in (said([call(t)]), Q)]
        ),
    ),
    "server calls": (
        "anthropic",
        lambda n: [x for t in names(n) for x in (said([call(t, "server_tool_use")]), Q)],
    ),
    "markers": ("anthropic", lambda n: [user([marked(at) for at in range(n)])]),
    "chat, one id": (
        "openai_chat",
        lambda n: (
            [Q, {**said(None), "tool_calls": [chat_call("t") for _ in range(n)]}]
            + [tool("t") for _ in range(n)]
        ),
    ),
    "chat, orphans": ("openai_chat", lambda n: [*(tool(t) for t in names(n)), Q]),
    "chat, functions": (
        "openai_chat",
        lambda n: [{"role": "function", "name": "a", "content": "x"} for _ in range(n)],
    ),
    "local, neighbours": ("local", lambda n: [user("x" * 200) for _ in range(n)]),
    "local, systems": ("local", lambda n: [{"role": "system", "content": "s"}] * n + [Q]),
    "responses, swapped": (
        "openai_responses",
        lambda n: [*(output(t) for t in names(n)), *(item(t) for t in names(n))],
    ),
    "gemini, swapped": (
        "gemini",
        lambda n: [
            {"role": "user", "parts": [{"text": "q"}]},
            {"role": "model", "parts": [asked(t) for t in names(n)]},
            {"role": "user", "parts": [given(t) for t in reversed(names(n))]},
        ],
    ),
    "gemini, neighbours": (
        "gemini",
        lambda n: [{"role": "model", "parts": [asked(t)]} for t in names(n)],
    ),
    "bedrock, neighbours": ("bedrock", lambda n: [user([{"text": "x"}]) for _ in range(n)]),
    "bedrock, points": (
        "bedrock",
        lambda n: [user([{"cachePoint": {"type": "default"}} for _ in range(n)] + [{"text": "x"}])],
    ),
}


def seconds(provider: str, messages: Messages) -> float:
    """Processor time of one repair, the best of two."""
    best = 9e9
    for _ in range(2):
        gc.collect()
        start = time.process_time()
        done = repair(messages, provider=provider)
        best = min(best, time.process_time() - start)
    assert done.repairs
    return best


@pytest.mark.parametrize("name", CASES)
def test_the_cost_of_a_repair_grows_with_what_is_there(name: str) -> None:
    provider, make = CASES[name]
    few, many = seconds(provider, make(350)), seconds(provider, make(1_400))
    assert many < 9 * max(few, 0.004)  # sixteen times would be quadratic
