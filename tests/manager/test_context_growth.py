"""What a turn leaves in memory for good, with a log and without one."""

from __future__ import annotations

import gc
import tracemalloc
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.kit import calls
from ullage import ContextManager, Policy
from ullage.exceptions import InvalidPolicy
from ullage.manager import keeping as lighter

TURNS = 60


def turn(manager: ContextManager, number: int) -> None:
    manager.add({"role": "user", "content": f"Question {number}. " + "word " * 200})
    manager.prepare()
    text = {"type": "text", "text": f"Answer {number}. " + "said " * 200}
    manager.observe({"id": f"msg_{number}", "role": "assistant", "content": [text]})


def made(log: Path | None) -> ContextManager:
    policy = Policy.buffered().change({"auto.enabled": False, "truncate.start_percent": 80})
    return ContextManager(model="claude-opus-4-5", context_window=16_000, policy=policy, log=log)


def grown(manager: ContextManager, start: int) -> int:
    before = tracemalloc.get_traced_memory()[0]
    for number in range(start, start + TURNS):
        turn(manager, number)
    gc.collect()
    return (tracemalloc.get_traced_memory()[0] - before) // TURNS


@pytest.mark.slow
@pytest.mark.parametrize(("logged", "most"), [(True, 800), (False, 4_300)])
def test_a_turn_leaves_little_in_memory(logged: Any, most: int, tmp_path: Path, monkeypatch):
    monkeypatch.setattr(lighter, "MOST_TOLD", 16)
    monkeypatch.setattr(lighter, "_FEW", 8)
    manager = made(tmp_path / "s.jsonl" if logged else None)
    for number in range(50):
        turn(manager, number)
    gc.collect()
    tracemalloc.start(1)
    try:
        grown(manager, 50)
        found = grown(manager, 50 + TURNS)
    finally:
        tracemalloc.stop()
    assert len(manager.messages) < TURNS, "nothing has left the request"
    assert found < most
    assert "Question 7." in manager.history[14]["content"]
    manager.close()


def test_what_is_remembered_no_more_is_said(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(lighter, "MOST_TOLD", 4)
    monkeypatch.setattr(lighter, "_FEW", 8)
    path = tmp_path / "s.jsonl"
    with made(path) as manager:
        for number in range(100):
            turn(manager, number)
        told = manager.explain()
        reports = len(told.left) + told.earlier
    assert told.earlier > 0
    assert f"{told.earlier:,} earlier reports" in str(told)
    with pytest.raises(InvalidPolicy, match="remembered"):
        manager.explain(1)
    newest = manager.explain(100)
    assert newest.earlier + len(newest.left) == reports
    with ContextManager.resume(path) as again:
        same = again.explain()
        assert same.earlier + len(same.left) == reports


@pytest.mark.parametrize("logged", [True, False])
def test_a_turn_of_a_long_conversation_costs_as_much_as_one_of_a_short_one(
    logged: bool, tmp_path: Path
):
    log = tmp_path / "s.jsonl" if logged else None
    manager = ContextManager(model="claude-opus-4-5", context_window=1_000_000, log=log)
    costs = {}
    for number in range(301):
        if number in (50, 300):
            costs[number] = calls(partial(turn, manager, number))
        else:
            turn(manager, number)
    assert len(manager.messages) == 602, "nothing has left the request"
    assert costs[300] <= costs[50] * 1.15
    manager.close()
