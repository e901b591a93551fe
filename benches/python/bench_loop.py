"""How long a request waits in an event loop that serves many conversations, with and without compactions at the same time.

    python benches/python/bench_loop.py [conversations] [seconds]

Each conversation has a turn every two seconds, at a time of its own: an answer and its results are added, `aprepare` makes the request. What is
timed is from the moment when the turn was due until its request is there, so that whatever holds the loop counts. Meanwhile another
conversation of 100,000 tokens is compacted without a model, once a second: by `acompact`, or by `compact` in a thread, with the
interpreter's own interval for changing threads (5 ms) and with half a millisecond. Every request is checked: it ends with what was added.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Awaitable, Callable
from statistics import median
from time import perf_counter
from typing import Any

from benches.users import turns

from ullage import ContextManager
from ullage.testing import scenario

MODEL = "claude-opus-4-5"
PERIOD = 2.0
EVERY = 1.0
TOKENS = 100_000

Compact = Callable[[ContextManager], Awaitable[Any]]


async def in_loop(manager: ContextManager) -> Any:
    return await manager.acompact()


async def in_thread(manager: ContextManager) -> Any:
    return await asyncio.to_thread(manager.compact)


WAYS: dict[str, tuple[Compact | None, float]] = {
    "no compaction": (None, 0.005),
    "acompact": (in_loop, 0.005),
    "compact in a thread": (in_thread, 0.005),
    "compact in a thread, switches every 0.5 ms": (in_thread, 0.0005),
}


async def begun() -> ContextManager:
    manager = ContextManager(model=MODEL)
    manager.add({"role": "user", "content": "build all parts"})
    await manager.aprepare()
    return manager


async def talk(manager: ContextManager, start: float, seconds: float, waits: list[float]) -> None:
    for at, (answer, results) in enumerate(turns(int(seconds / PERIOD))):
        due = start + at * PERIOD
        await asyncio.sleep(max(0.0, due - perf_counter()))
        manager.add(answer)
        manager.add(results)
        request = await manager.aprepare()
        waits.append(perf_counter() - due)
        assert request.messages[-1] is results


async def compactions(
    compact: Compact | None, held: list[ContextManager], done: list[float]
) -> None:
    while compact is not None and held:
        await asyncio.sleep(EVERY)
        begun = perf_counter()
        assert (await compact(held.pop())).compacted
        done.append(perf_counter() - begun)


def large(seconds: float) -> list[ContextManager]:
    messages = scenario(1, tokens=TOKENS).messages
    made = [ContextManager(model=MODEL) for _ in range(max(1, int(seconds / EVERY) - 1))]
    for manager in made:
        for message in messages:
            manager.add(message)
    return made


async def timed(way: str, count: int, seconds: float) -> None:
    compact, interval = WAYS[way]
    sys.setswitchinterval(interval)
    waits: list[float] = []
    done: list[float] = []
    held = [] if compact is None else large(seconds)
    managers = [await begun() for _ in range(count)]
    gc.collect()
    gc.freeze()
    now = perf_counter() + 0.5
    talks = [
        talk(manager, now + PERIOD * number / count, seconds, waits)
        for number, manager in enumerate(managers)
    ]
    await asyncio.gather(*talks, compactions(compact, held, done))
    waits.sort()
    p50, p99, p999 = (1000 * waits[int(share * (len(waits) - 1))] for share in (0.5, 0.99, 0.999))
    each = f"{1000 * median(done):.0f} ms" if done else "-"
    print(
        f"{way:<44} {len(waits):>7,} {p50:>7.2f} {p99:>7.2f} {p999:>8.2f} {1000 * waits[-1]:>7.1f} {len(done):>5} {each:>8}"
    )


def main(count: int = 1_000, seconds: float = 10) -> None:
    print(f"{count:,} conversations, milliseconds from due to there")
    names = ("", "turns", "p50", "p99", "p99.9", "longest", "compactions", "each")
    print("{:<44} {:>7} {:>7} {:>7} {:>8} {:>7} {:>5} {:>8}".format(*names[:6], "done", names[7]))
    for manager in large(1):
        manager.compact()  # loads what a compaction needs
    for way in WAYS:
        asyncio.run(timed(way, count, seconds))


if __name__ == "__main__":
    main(*(int(each) for each in sys.argv[1:]))
