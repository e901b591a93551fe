"""What session notes cost: at each response, at an update, and at the compaction that they make free of calls.

    python benches/python/bench_session_memory.py

A generated session of about 287 000 tokens. What is timed is checked first: the notes hold the newest request, the
compaction asks nobody and keeps what the notes lack.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from tests.kit.transcripts import session_287k
from ullage import compact
from ullage.manager import ContextManager
from ullage.memory.session import SessionMemory
from ullage.policy import SessionMemoryPolicy

NEVER = SessionMemoryPolicy(enabled=True, start_tokens=1 << 40)


def timed(work: Callable[[], Any], times: int = 7) -> float:
    """Milliseconds of processor time, the median."""
    spent = []
    for _ in range(times):
        start = time.process_time()
        work()
        spent.append(time.process_time() - start)
    return median(spent) * 1e3


def folder() -> Path:
    return Path(tempfile.mkdtemp()) / "session-memory"


def observed(memory: SessionMemory | None, turns: int = 2_000) -> float:
    """Microseconds that an answer costs the agent."""
    manager = ContextManager(model="claude-opus-4-5", memory=memory)
    start = time.process_time()
    for at in range(turns):
        manager.add({"role": "user", "content": f"Please do step {at} of the plan."})
        manager.observe({"role": "assistant", "content": f"Step {at} is done."})
    return (time.process_time() - start) / turns * 1e6


def main() -> None:
    items = list(session_287k(7).messages)
    most = len(items) * 9 // 10
    memory = SessionMemory(folder(), mode="inline")
    assert memory.update(items[:most]).absorbed_all
    result = compact(items, memory=memory)
    assert (result.report.summarizer, result.report.attempts) == ("session_memory", 0)
    assert len(result.report.removed) <= most

    def first() -> None:
        assert SessionMemory(folder(), mode="inline").update(items[:most]).absorbed_all

    def more() -> None:
        kept = SessionMemory(folder(), mode="inline")
        kept.answered(items[most - 1], items[:most], tokens=100_000)
        start = time.process_time()
        kept.answered(items[-1], items, tokens=200_000)
        later.append((time.process_time() - start) * 1e3)
        assert [report.absorbed_all for report in kept.reports] == [True, True]

    later: list[float] = []
    print(f"{len(items):,} messages; processor time, medians")
    print(f"first update, all read            {timed(first):8.1f} ms")
    timed(more)
    print(f"next update, {len(items) - most:3} messages more     {median(later):8.1f} ms")
    print(
        f"compaction by notes               {timed(lambda: compact(items, memory=memory)):8.1f} ms"
    )
    print(f"compaction by the extractive one  {timed(lambda: compact(items)):8.1f} ms")
    plain, kept = observed(None), observed(SessionMemory(folder(), policy=NEVER))
    print(f"an answer: without notes {plain:.0f} µs, with notes and no update due {kept:.0f} µs")


if __name__ == "__main__":
    main()
