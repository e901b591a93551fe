"""Conversations in one process do not touch: interleaved, from several threads and tasks, each is as it is alone (P-7)."""

from __future__ import annotations

import gc
import random
import threading
import tracemalloc

import anyio
import anyio.lowlevel

from ullage import ContextManager
from ullage.policy import Policy
from ullage.testing import conversation

MODEL = "claude-opus-4-5"
TIGHT = {
    "auto.start_percent": 5,
    "micro.min_freed_tokens": 0,
    "snip.max_chars": 2_000,
    "snip.start_percent": 0,
}


def policy_of(number: int) -> Policy:
    return (Policy.ladder() if number % 2 else Policy.buffered()).change(TIGHT)


def turns_of(number: int) -> list[list[dict]]:
    """The messages between two requests, one list each."""
    found: list[list[dict]] = [[]]
    for message in conversation(number, tokens=14_000):
        if message["role"] == "assistant" and found[-1]:
            found.append([])
        found[-1].append(message)
    return found


def take(manager: ContextManager, turn: list[dict]) -> tuple:
    for message in turn:
        manager.add(message)
    request = manager.prepare()
    return request.messages, request.reports, request.tokens


def alone(number: int) -> list[tuple]:
    manager = ContextManager(model=MODEL, policy=policy_of(number))
    return [take(manager, turn) for turn in turns_of(number)]


def test_interleaved_in_any_order_each_is_as_alone():
    count, rng = 12, random.Random(5)
    managers = [ContextManager(model=MODEL, policy=policy_of(n)) for n in range(count)]
    left = {n: turns_of(n) for n in range(count)}
    got: dict[int, list] = {n: [] for n in range(count)}
    while left:
        number = rng.choice(sorted(left))
        got[number].append(take(managers[number], left[number].pop(0)))
        if not left[number]:
            del left[number]
    assert all(got[number] == alone(number) for number in range(count))
    assert {r.stage for n in range(count) for turn in got[n] for r in turn[1]} >= {
        "autocompact",
        "snip",
    }


def test_in_threads_each_is_as_alone():
    got: dict[int, list] = {}

    def run(number: int) -> None:
        got[number] = alone(number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(got[number] == alone(number) for number in range(4))


def test_in_tasks_each_is_as_alone():
    got: dict[int, list] = {}

    async def run(number: int) -> None:
        manager = ContextManager(model=MODEL, policy=policy_of(number))
        got[number] = []
        for turn in turns_of(number):
            for message in turn:
                manager.add(message)
            request = await manager.aprepare()
            got[number].append((request.messages, request.reports, request.tokens))
            await anyio.lowlevel.checkpoint()

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for number in range(4):
                group.start_soon(run, number)

    anyio.run(main)
    assert all(got[number] == alone(number) for number in range(4))


def test_a_finished_conversation_leaves_no_state():
    def play() -> None:
        for number in range(3):
            alone(number)

    play()
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        play()
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # What caches of the weights and of regular expressions may still take.
    assert after - before < 200_000
