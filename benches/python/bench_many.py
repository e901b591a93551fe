"""Many conversations in one process, interleaved turn by turn: each must be as it is alone, and memory must not creep.

    python benches/python/bench_many.py [conversations] [turns]

Every conversation is played twice: interleaved with all others, and by itself, at the same time in a second process with
other hash seeds; a hash over the bytes of all its requests, and its saved state at the end, must be equal. Windows are
small and policies differ, so that every level acts, summaries included. Memory is the process's own after each
quarter, next to the bytes of the messages that it holds by then.
"""

from __future__ import annotations

import gc
import hashlib
import multiprocessing
import random
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from ullage.counting.models import ModelTable
from ullage.manager import ContextManager
from ullage.policy import Policy
from ullage.recall.store import MemoryStore

MODEL = "claude-opus-4-5"
WINDOW = 60_000
POLICIES = (
    Policy.buffered(),
    Policy.ladder(),
    Policy.buffered().change({"collapse.enabled": True, "collapse.min_span_tokens": 800}),
    Policy.buffered().change({"auto.enabled": False, "micro.by_supersession": False}),
    Policy.buffered().change({"micro.by_time": True, "micro.min_freed_tokens": 500}),
)
WORDS = "the build test file line error index value cache turn plan note check result path".split()


def now_ms(turn: int) -> int:
    """A minute a turn, and two hours of rest after each 50."""
    return (turn + 120 * (turn // 50)) * 60_000


def _call(turn: int, rng: random.Random) -> dict[str, Any]:
    if turn % 3 == 1:
        return {"name": "Bash", "input": {"command": f"make check-{turn}"}}
    return {"name": "Read", "input": {"file_path": f"/src/{rng.randrange(20)}.py"}}


class Conversation:
    """One conversation: what is said next depends on its number and turn only."""

    def __init__(self, number: int) -> None:
        self.number, self.hash = number, hashlib.sha256()
        self.manager = ContextManager(
            model=MODEL,
            table=ModelTable.builtin().learned(MODEL, WINDOW),
            policy=POLICIES[number % len(POLICIES)],
            store=MemoryStore(),
        )
        self.said = 0

    def turn(self, number: int) -> None:
        """A question or a result, a request, an answer."""
        rng = random.Random(self.number * 1_000_003 + number)
        manager = self.manager
        manager.add(self._asked(number, rng))
        request = manager.prepare(now_ms=now_ms(number))
        self.hash.update(orjson.dumps(request.messages))
        answer = self._answer(number, rng)
        self.said += len(orjson.dumps(answer))
        manager.observe(answer)

    def _asked(self, number: int, rng: random.Random) -> dict[str, Any]:
        long = 11_000 if number % 97 == 38 else 2_500 if number % 31 == 7 else 0
        words = " ".join(rng.choices(WORDS, k=long or rng.choice((20, 200, 900))))
        if number == 0 or number % 5 == 0:
            message: dict[str, Any] = {
                "role": "user",
                "content": f"Question {number}: {words[:300]}",
            }
        else:
            block = {"type": "tool_result", "tool_use_id": f"t{number - 1}", "content": words}
            message = {"role": "user", "content": [block]}
        self.said += len(orjson.dumps(message))
        return message

    def _answer(self, number: int, rng: random.Random) -> dict[str, Any]:
        content: list[dict[str, Any]] = [
            {"type": "text", "text": " ".join(rng.choices(WORDS, k=15))}
        ]
        if (number + 1) % 5:
            call = {"type": "tool_use", "id": f"t{number}", **_call(number, rng)}
            content.append(call)
        at = datetime.fromtimestamp(now_ms(number) / 1000, UTC).isoformat()
        return {"role": "assistant", "id": f"m{number}", "content": content, "timestamp": at}

    def outcome(self) -> tuple[str, str]:
        """Of all requests, and of the state at the end."""
        saved = orjson.dumps(self.manager.save(), option=orjson.OPT_SORT_KEYS)
        return self.hash.hexdigest(), hashlib.sha256(saved).hexdigest()


def interleaved(count: int, turns: int, each: Any = None) -> list[Conversation]:
    """All conversations, one turn of each after the other, in another order every time."""
    all_ = [Conversation(number) for number in range(count)]
    for turn in range(turns):
        order = list(all_)
        random.Random(turn).shuffle(order)
        for conversation in order:
            conversation.turn(turn)
        if each is not None:
            each(turn, all_)
    return all_


def alone(number: int, turns: int) -> Conversation:
    """The same conversation by itself."""
    conversation = Conversation(number)
    for turn in range(turns):
        conversation.turn(turn)
    return conversation


def resident() -> int:
    """Bytes of memory that the process holds; 0 where the system does not say."""
    status = Path("/proc/self/statm")
    return int(status.read_text().split()[1]) * 4096 if status.exists() else 0


def outcome_alone(number: int, turns: int) -> tuple[str, str]:
    """What a conversation comes to by itself."""
    return alone(number, turns).outcome()


class Watch:
    """Tells time and memory after each quarter."""

    def __init__(self, count: int, turns: int) -> None:
        self.count, self.quarter = count, max(1, turns // 4)
        self.base, self.start = resident(), time.process_time()

    def __call__(self, turn: int, all_: list[Conversation]) -> None:
        if (turn + 1) % self.quarter:
            return
        spent = (time.process_time() - self.start) / self.count / self.quarter
        gc.collect()
        said = sum(each.said for each in all_)
        held = resident() - self.base
        print(
            f"turn {turn + 1:>4}: {held / 2**20:>8.0f} MiB held, {said / 2**20:>7.0f} MiB said, {held / said:.2f} ×; "
            f"{spent * 1e6:.0f} µs of processor time a turn",
            flush=True,
        )
        self.start = time.process_time()


def main(count: int, turns: int) -> None:
    spawned = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawned) as pool:
        expected = pool.map(partial(outcome_alone, turns=turns), range(count), chunksize=10)
        watch = Watch(count, turns)
        all_ = interleaved(count, turns, watch)
        acted = Counter(
            name
            for each in all_
            for name in {report.stage for report in each.manager.machine.reports}
        )
        print("conversations in which each level acted:", dict(sorted(acted.items())), flush=True)
        outcomes = [each.outcome() for each in all_]
        full = resident()
        all_.clear()
        gc.collect()
        print(
            f"memory with all of them {full / 2**20:.0f} MiB, when they are deleted {resident() / 2**20:.0f} MiB, "
            f"before the first {watch.base / 2**20:.0f} MiB",
            flush=True,
        )
        different = sum(a != b for a, b in zip(outcomes, expected, strict=True))
    print(f"{count:,} conversations × {turns} turns; different from alone: {different}")
    if different:
        raise SystemExit(1)


if __name__ == "__main__":
    numbers = [int(each) for each in sys.argv[1:]]
    main(*(numbers + [1_000, 200][len(numbers) :]))
