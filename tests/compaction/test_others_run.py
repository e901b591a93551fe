"""While a conversation is compacted in an event loop, what else runs there gets its turn."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ullage import ContextManager
from ullage.compaction import effects_runner
from ullage.compaction.cut import ITEMS_AT_ONCE
from ullage.exceptions import CompactionError
from ullage.testing import scenario

pytestmark = pytest.mark.both_engines

TALK = scenario(3, tokens=30_000).messages
LATER = {"role": "user", "content": "and the changelog"}


@pytest.fixture(autouse=True)
def no_time_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every place where others may run is one where they do, however fast the machine is."""
    monkeypatch.setattr(effects_runner, "LONGEST_TURN_SECONDS", 0.0)
    monkeypatch.setattr(effects_runner, "ROUNDS_OF_THE_LOOP", 1)


def filled() -> ContextManager:
    manager = ContextManager(model="claude-opus-4-5")
    for message in TALK:
        manager.add(message)
    return manager


async def beside(manager: ContextManager, do: Any) -> tuple[Any, int]:
    """The compaction's result, and how often something else ran meanwhile."""
    turns = 0
    task = asyncio.create_task(manager.acompact())
    while not task.done():
        await asyncio.sleep(0)
        turns += 1
        do(turns, task)
    return await asyncio.gather(task, return_exceptions=True), turns


def test_others_run_between_any_few_messages() -> None:
    manager = filled()
    (result,), turns = asyncio.run(beside(manager, lambda turn, task: None))
    assert result.compacted
    assert turns >= len(TALK) // ITEMS_AT_ONCE


def test_the_result_is_that_of_the_synchronous_form() -> None:
    manager, other = filled(), filled()
    (result,), _ = asyncio.run(beside(manager, lambda turn, task: None))
    assert result.messages == other.compact().messages
    assert manager.prepare().messages == other.prepare().messages


def test_what_is_added_meanwhile_follows_the_summary() -> None:
    manager = filled()

    def add(turn: int, task: Any) -> None:
        if turn == len(TALK) // ITEMS_AT_ONCE // 2:
            manager.add(LATER)

    (result,), _ = asyncio.run(beside(manager, add))
    assert result.compacted
    assert LATER not in result.messages
    assert manager.prepare().messages[-1] == LATER


@pytest.mark.parametrize("at", [1, 5, len(TALK) // ITEMS_AT_ONCE // 2])
def test_one_that_is_cancelled_meanwhile_changes_no_word(at: int) -> None:
    manager = filled()

    def cancel(turn: int, task: Any) -> None:
        if turn == at:
            task.cancel()

    (error,), _ = asyncio.run(beside(manager, cancel))
    assert isinstance(error, (asyncio.CancelledError, CompactionError))
    assert len(manager.prepare().messages) == len(TALK)
    assert manager.compact().compacted
