"""What a turn costs a context manager, by the length of the conversation.

    python benches/python/bench_context.py [lengths ...]

A turn: the results of a tool call are added, a request is prepared (all levels, repair, the account), the answer
is observed with its usage. Nothing has to be cleared or compacted: this is the price of looking. First the answer
is checked: every request is the messages that were added. `messages` is the price of the plain list that
an SDK takes, which is a copy of pointers; `prepare` itself copies nothing.

The API takes no more than 100 000 messages: the longest conversation ends there, the others begin at their length.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from statistics import median
from time import perf_counter_ns

from ullage.counting.models import ModelTable
from ullage.manager import ContextManager
from ullage.policy import Policy

LENGTHS = (100, 1_000, 10_000, 100_000)
TURNS = 300
MOST = 100_000
MODEL = "claude-opus-4-5"
TABLE = ModelTable.builtin().learned(MODEL, 900_000_000)


def turns(count: int) -> Iterator[tuple[dict, dict]]:
    """Answers with a call, and the results of it."""
    for number in range(count):
        call = {
            "type": "tool_use",
            "id": f"t{number}",
            "name": "Bash",
            "input": {"command": f"make part-{number}"},
        }
        told = [{"type": "text", "text": f"Part {number} is next."}, call]
        answer = {"role": "assistant", "content": told}
        block = {
            "type": "tool_result",
            "tool_use_id": f"t{number}",
            "content": f"part {number}: 12 files, all fine\n" * 3,
        }
        yield answer, {"role": "user", "content": [block]}


def grown(messages: int) -> tuple[ContextManager, list[dict], int]:
    manager = ContextManager(model=MODEL, table=TABLE, policy=Policy.buffered())
    added: list[dict] = [{"role": "user", "content": "build all parts"}]
    manager.add(added[0])
    for answer, results in turns(messages // 2):
        added += [answer, results]
        manager.add(answer)
        manager.add(results)
    manager.prepare()
    return manager, added, messages // 2


def timed(messages: int) -> tuple[float, float, float]:
    """Microseconds of a turn at this length: add and observe, prepare, the plain list."""
    manager, added, start = grown(min(messages, MOST - 2 * TURNS - 2))
    rows: list[tuple[int, int]] = []
    gc.collect()
    gc.disable()
    for number, (answer, results) in enumerate(turns(start + TURNS)):
        if number < start:
            continue
        usage = {"input_tokens": 10 * len(added), "output_tokens": 40}
        begin = perf_counter_ns()
        manager.observe({**answer, "id": f"m{number}", "usage": usage})
        manager.add(results)
        middle = perf_counter_ns()
        request = manager.prepare()
        end = perf_counter_ns()
        rows.append((middle - begin, end - middle))
        added += [answer, results]
    # Last, and by itself: touching every message empties the processor's caches.
    begin = perf_counter_ns()
    sent = request.messages
    listed = (perf_counter_ns() - begin) / 1_000
    assert sent == added, "the request is not what was added"
    gc.enable()
    looked, prepared = (median(column) / 1_000 for column in zip(*rows, strict=True))
    return looked, prepared, listed


def main(lengths: tuple[int, ...]) -> None:
    print(
        f"{'messages':>10}  {'add+observe µs':>15}  {'prepare µs':>11}  {'list µs':>9}  {'turn, of 100':>12}"
    )
    first = 0.0
    for length in lengths:
        added, prepared, listed = timed(length)
        first = first or added + prepared
        print(
            f"{length:>10,}  {added:>15.1f}  {prepared:>11.1f}  {listed:>9.1f}  {(added + prepared) / first:>11.2f}×"
        )


if __name__ == "__main__":
    main(tuple(int(each.replace("_", "")) for each in sys.argv[1:]) or LENGTHS)
