"""Ledger: a full scan of a list of dicts, and what a turn costs when only the new is read.

    python -m pytest benches/python/bench_ledger.py --benchmark-enable

prints wall times; ratios within one run are what counts. Without pytest,

    python benches/python/bench_ledger.py

prints the ratios alone, and

    python benches/python/bench_ledger.py instructions

the instructions a message (valgrind's callgrind; the difference of two runs, so that starting Python is
not counted), and

    python benches/python/bench_ledger.py memory

the bytes a message that a ledger adds to the process (the messages themselves not counted), and what the
process holds while ten million messages are appended and cut off again.
"""

from __future__ import annotations

import gc
import importlib
import json
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest

_core: Any = importlib.import_module("ullage._core")
_reference: Any = importlib.import_module("ullage._reference")

WORDS = (
    "the of and to in is that for it as was with be by on not he his but at are this have from "
    "function return import class value index error result message token context window budget"
).split()


def conversation(count: int, seed: int = 1) -> list[dict[str, Any]]:
    """About 1.1 KB of JSON and 1.6 blocks a message; two thirds are tool calls and results."""
    rng = random.Random(seed)

    def prose(chars: int) -> str:
        words = []
        while chars > 0:
            word = rng.choice(WORDS) if rng.random() > 0.002 else "naïve"
            words.append(word)
            chars -= len(word) + 1
        return " ".join(words)

    def code(chars: int) -> str:
        return "\n".join(f'    {prose(30)} = call("{prose(12)}")' for _ in range(chars // 60 + 1))

    items: list[dict[str, Any]] = []
    while len(items) < count:
        number = len(items)
        call_ids = [f"toolu_{seed}_{number}_{each}" for each in range(rng.choice((1, 1, 2)))]
        path = {"file_path": f"/src/{rng.choice(WORDS)}/{number}.py", "limit": 200}
        edit = {**path, "old_string": code(350), "new_string": code(350), "replace_all": False}
        said: list[dict[str, Any]] = [{"type": "text", "text": prose(150)}]
        said += [
            {"type": "tool_use", "id": call_id, "name": "Edit", "input": rng.choice((path, edit))}
            for call_id in call_ids
        ]
        results = [
            {"type": "tool_result", "tool_use_id": call_id, "content": code(rng.randrange(1600))}
            for call_id in call_ids
        ]
        items.append({"role": "assistant", "content": said})
        items.append({"role": "user", "content": results})
        if rng.random() < 0.5:
            items.append({"role": "assistant", "content": [{"type": "text", "text": prose(700)}]})
            items.append({"role": "user", "content": prose(rng.randrange(600))})
    # Each message with its own strings, as a parser makes them.
    return [json.loads(json.dumps(item)) for item in items[:count]]


def plain_estimate(items: list[dict[str, Any]]) -> int:
    """The least that plain Python can do: characters / 4, no ids, no flags, no errors."""
    total = 0
    for item in items:
        content = item["content"]
        if isinstance(content, str):
            total += (len(content) + 2) // 4
            continue
        for block in content:
            kind = block["type"]
            if kind == "text":
                total += (len(block["text"]) + 2) // 4
            elif kind == "tool_use":
                written = json.dumps(block["input"], ensure_ascii=False, separators=(",", ":"))
                total += (len(block["name"]) + len(written) + 2) // 4
            elif isinstance(block["content"], str):
                total += (len(block["content"]) + 2) // 4
    return total


def scan(engine: Any) -> Callable[[list[Any]], int]:
    return lambda items: int(engine.Ledger(None, items).tokens())


SCANS: dict[str, Callable[[list[Any]], Any]] = {
    "rust": scan(_core),
    "python": scan(_reference),
    "plain": plain_estimate,
    "orjson": orjson.dumps,
}


@pytest.mark.parametrize("count", [1000, 10_000])
@pytest.mark.parametrize("name", SCANS)
def test_scan(benchmark: Any, name: str, count: int) -> None:
    items = conversation(count)
    assert SCANS["rust"](items) == SCANS["python"](items) == plain_estimate(items)
    benchmark(SCANS[name], items)


def turn(ledger: Any, items: list[Any]) -> int:
    """Two new messages, and the question that decides what happens next."""
    length = len(ledger)
    ledger.extend(items)
    total = ledger.anchored().total
    ledger.truncate(length)
    return int(total)


@pytest.mark.parametrize("count", [100, 10_000, 100_000])
def test_turn(benchmark: Any, count: int) -> None:
    ledger, new = (
        _core.Ledger(None, conversation(1000) * (count // 1000) or conversation(count)),
        conversation(2, 7),
    )
    assert len(ledger) == count
    benchmark(turn, ledger, new)


@pytest.mark.parametrize("count", [100, 10_000])
def test_turn_by_list(benchmark: Any, count: int) -> None:
    items = conversation(count)
    ledger = _core.Ledger(None, items)
    assert ledger.sync(items) == 0
    benchmark(lambda: (ledger.sync(items), ledger.anchored()))


# ---- without pytest --------------------------------------------------------------------------


def best(run: Callable[[], Any], seconds: float = 0.4) -> float:
    """Shortest of the runs that fit, in seconds."""
    found, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(found) < 3:
        start = time.perf_counter()
        run()
        found.append(time.perf_counter() - start)
    return min(found)


def ratios() -> None:
    for count in (1000, 10_000):
        items = conversation(count)
        assert SCANS["rust"](items) == SCANS["python"](items) == plain_estimate(items)
        times = {name: best(partial(run, items)) for name, run in SCANS.items()}
        said = (f"{name} {taken / times['rust']:.1f}x" for name, taken in times.items())
        print(f"scan {count:>7,}: {times['rust'] / count * 1e9:.0f} ns a message;", *said)
    new = conversation(2, 7)
    for count in (100, 10_000, 100_000):
        ledger = _core.Ledger(None, (conversation(min(count, 1000)) * (count // 1000 or 1))[:count])
        print(f"turn {count:>7,}: {best(lambda: turn(ledger, new)) * 1e6:.2f} us")  # noqa: B023
    for count in (100, 10_000):
        items = conversation(count)
        ledger = _core.Ledger(None, items)
        taken = best(lambda: (ledger.sync(items), ledger.anchored()))  # noqa: B023
        print(f"list {count:>7,}: {taken * 1e6:.2f} us")


def counted(rounds: int) -> int:
    """Instructions of a process that scans 1 000 messages so often."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        tool = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}"]
        run = [sys.executable, __file__, "scan", str(rounds)]
        subprocess.run([*tool, *run], check=True, capture_output=True)
        found = re.search(r"^(?:summary|totals): (\d+)", out.read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1])


# ---- memory ----------------------------------------------------------------------------------


def resident() -> int:
    """Bytes of the process that lie in memory (Linux)."""
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * resource.getpagesize()


def bytes_a_message(count: int = 200_000) -> tuple[float, float]:
    """What a ledger adds for each message; the second figure with one uuid more for each."""
    plain = [{"role": "user", "content": "hello"} for _ in range(count)]
    named = [{"uuid": f"{number:036x}", **item} for number, item in enumerate(plain)]
    found = []
    for items in (plain, named):
        gc.collect()
        before = resident()
        ledger = _core.Ledger(None, items)
        found.append((resident() - before) / count)
        del ledger
    return found[0], found[1]


def churn(rounds: int = 10_000, size: int = 1000) -> list[float]:
    """Megabytes after each tenth of so many rounds of appending and cutting off the same messages."""
    ledger = _core.Ledger(None, conversation(100))
    calls = [item for item in conversation(size, 3) if "tool_use" in str(item)]
    batch = (calls * (size // len(calls) + 1))[:size]
    sizes = []
    for number in range(rounds):
        ledger.extend(batch)
        ledger.truncate(100)
        if (number + 1) % (rounds // 10) == 0:
            sizes.append(resident() / 1e6)
    assert len(ledger) == 100
    return sizes


def fresh(start: int, count: int) -> list[dict[str, Any]]:
    """Calls whose ids and uuids nobody had before."""
    numbers = range(start, start + count)
    blocks = (
        [{"type": "tool_use", "id": f"toolu_{n}", "name": "Edit", "input": {}}] for n in numbers
    )
    return [
        {"uuid": f"{n:036x}", "role": "assistant", "content": content}
        for n, content in zip(numbers, blocks, strict=True)
    ]


def churn_of_new_ids(rounds: int = 10_000, size: int = 1000) -> list[float]:
    """As `churn`, but no id comes twice."""
    ledger = _core.Ledger(None, conversation(100))
    sizes = []
    for number in range(rounds):
        ledger.extend(fresh(number * size, size))
        ledger.truncate(100)
        if (number + 1) % (rounds // 10) == 0:
            sizes.append(resident() / 1e6)
    assert len(ledger) == 100
    return sizes


def memory() -> None:
    plain, named = bytes_a_message()
    print(f"{plain:.0f} bytes a message of one block, {named - plain:.0f} more with a uuid")
    for named, sizes in {"": churn(), " of new ids": churn_of_new_ids()}.items():
        told = (f"{size:.1f}" for size in sizes)
        print(f"MB over 10,000,000 appends and cuts{named}:", *told)


def main(args: list[str]) -> None:
    if args[:1] == ["scan"]:
        items = conversation(1000)
        for _ in range(int(args[1])):
            _core.Ledger(None, items)
    elif args[:1] == ["memory"]:
        memory()
    elif args[:1] == ["instructions"]:
        each = (counted(21) - counted(1)) / 20_000
        print(f"{each:.0f} instructions a message")
    else:
        ratios()


if __name__ == "__main__":
    main(sys.argv[1:])
