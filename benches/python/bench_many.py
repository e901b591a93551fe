"""Many conversations in one process, interleaved turn by turn: each must be as it is alone, and memory must not creep.

    python benches/python/bench_many.py [conversations] [turns]

Every conversation is played twice: interleaved with all others, and by itself; a hash over the bytes of all its requests, and
its saved state at the end, must be equal. Windows are small, so that every level acts, summaries included. Memory is
the process's own after each quarter, beside the bytes of the messages that it holds by then.
"""

from __future__ import annotations

import gc
import hashlib
import random
import sys
import time
from pathlib import Path
from typing import Any

import orjson

from ullage.context import ContextManager
from ullage.models import ModelTable
from ullage.offload import MemoryStore
from ullage.policy import Policy

MODEL = "claude-opus-4-5"
WINDOW = 60_000
WORDS = "the build test file line error index value cache turn plan note check result path".split()


class Conversation:
    """One conversation: what is said next depends on its number and turn only."""

    def __init__(self, number: int) -> None:
        preset = Policy.ladder() if number % 2 else Policy.buffered()
        self.number, self.hash = number, hashlib.sha256()
        self.manager = ContextManager(
            model=MODEL,
            table=ModelTable.builtin().learned(MODEL, WINDOW),
            policy=preset,
            store=MemoryStore(),
        )
        self.said = 0

    def turn(self, number: int) -> None:
        """A question or a result, a request, an answer."""
        rng = random.Random(self.number * 1_000_003 + number)
        manager = self.manager
        manager.add(self._asked(number, rng))
        request = manager.prepare(now_ms=number * 60_000)
        self.hash.update(orjson.dumps(request.messages))
        answer = self._answer(number, rng)
        self.said += len(orjson.dumps(answer))
        manager.observe(answer)

    def _asked(self, number: int, rng: random.Random) -> dict[str, Any]:
        words = " ".join(rng.choices(WORDS, k=rng.choice((20, 200, 900))))
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
            path = f"/src/{rng.randrange(20)}.py"
            call = {
                "type": "tool_use",
                "id": f"t{number}",
                "name": "Read",
                "input": {"file_path": path},
            }
            content.append(call)
        return {"role": "assistant", "id": f"m{number}", "content": content}

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


def main(count: int, turns: int) -> None:
    start, base = time.perf_counter(), resident()
    quarter = max(1, turns // 4)

    def told(turn: int, all_: list[Conversation]) -> None:
        if (turn + 1) % quarter:
            return
        gc.collect()
        said = sum(each.said for each in all_)
        held = resident() - base
        print(
            f"turn {turn + 1:>4}: {held / 2**20:>8.0f} MiB held, {said / 2**20:>7.0f} MiB said, {held / said:.2f} ×"
        )

    all_ = interleaved(count, turns, told)
    spent = time.perf_counter() - start
    print(
        f"{count:,} conversations × {turns} turns: {spent:.0f} s, {spent / count / turns * 1e6:.0f} µs a turn"
    )
    acted = {report.stage for each in all_ for report in each.manager.machine.reports}
    print("levels that acted:", ", ".join(sorted(acted)))
    outcomes = [each.outcome() for each in all_]
    full = resident()
    all_.clear()
    gc.collect()
    different = sum(alone(number, turns).outcome() != outcomes[number] for number in range(count))
    print(f"different from alone: {different}")
    print(
        f"memory with all of them {full / 2**20:.0f} MiB, after all were played again one by one {resident() / 2**20:.0f} MiB"
    )
    if different:
        raise SystemExit(1)


if __name__ == "__main__":
    numbers = [int(each) for each in sys.argv[1:]]
    main(*(numbers + [1_000, 200][len(numbers) :]))
