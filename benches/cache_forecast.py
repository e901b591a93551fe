"""Predicted cache reads and writes against those that the provider reported, on recorded sessions of Claude Code; and what telemetry costs a turn.

ULLAGE_CORPUS=FOLDER python -m benches.cache_forecast
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from benches.fidelity.replays import SUFFIXES

from ullage.counting.calibration import Ledger, weights_for
from ullage.counting.models import ModelTable
from ullage.levels.cost import rates_of
from ullage.manager.journal import ms_of
from ullage.observe.cache_monitor import CacheForecast, cache_use
from ullage.policy import Policy
from ullage.replay import DEFAULT_MODEL, SessionScript, replay_session, script_of
from ullage.sessions import open_session

WEIGHTS = weights_for("claude-opus-4-5")
LONG = 3_600
SHORT = 300


class Response:
    """One response of the main conversation, of as many lines as it has pieces."""

    def __init__(self, message: dict, added: int, now: int) -> None:
        self.id, self.added, self.now = message.get("id"), added, now
        self.usage, self.content = message["usage"], []

    def take(self, message: dict) -> None:
        content = message.get("content") or []
        self.usage = message["usage"]  # the last piece may have the final count
        self.content += (
            content if isinstance(content, list) else [{"type": "text", "text": content}]
        )

    @property
    def stated(self) -> int:
        return cache_use(self.usage).output

    @property
    def answer(self) -> int:
        """Tokens of it. Claude Code mostly records the usage with which a stream begins, whose count of the answer is a few tokens."""
        return max(self.stated, estimated("assistant", self.content))


def estimated(role: str, content: object) -> int:
    return int(Ledger(WEIGHTS, [{"role": role, "content": content}]).tokens())


def entries(path: Path) -> Iterator[dict]:
    for line in path.read_bytes().splitlines():
        with contextlib.suppress(ValueError):
            yield json.loads(line)


def responses(path: Path) -> Iterator[Response | None]:
    """Each response, with the tokens added since the one before; `None` at a compaction."""
    added, newest = 0, None
    for entry in entries(path):
        message = entry.get("message")
        if entry.get("subtype") == "compact_boundary":
            yield from (newest, None)
            newest, added = None, 0
        if entry.get("isSidechain") or not isinstance(message, dict):
            continue
        if entry.get("type") == "user":
            added += estimated("user", message.get("content", ""))
        elif message.get("usage") and message.get("model") != "<synthetic>":
            if newest is None or message.get("id") != newest.id:
                if newest is not None:
                    yield newest
                newest = Response(message, added, ms_of(entry.get("timestamp", "")) or 0)
                added = 0
            newest.take(message)
    if newest is not None:
        yield newest


def errors(folder: Path) -> tuple[dict[str, list[float]], Counter[str]]:
    """Errors of each turn as parts of something, and what was seen."""
    found_in, seen = defaultdict(list), Counter()
    for path in sorted(folder.glob("cc_*/**/*.jsonl")):
        forecast, before = CacheForecast(), None
        for response in responses(path):
            use = cache_use(response.usage) if response is not None else None
            if before is not None and response is not None and use.prompt:
                last = cache_use(before.usage)
                idle = (response.now - before.now) / 1000 if before.now else 0
                found = forecast.expect(
                    last.prompt + before.answer + response.added, idle_seconds=idle
                )
                off = abs(found.written - use.written)
                found_in["reads, of what was read"].append(
                    abs(found.read - use.read) / max(use.read, 1)
                )
                found_in["writes, of what was written"].append(off / max(use.written, 1))
                found_in["writes, of the prompt"].append(off / use.prompt)
                seen["turns"] += 1
                seen["answers of which less is stated than stands there"] += (
                    before.stated < before.answer
                )
                seen["turns whose read is not what was cached before"] += (
                    use.read != last.read + last.written
                )
            made = (response.usage.get("cache_creation") or {}) if response is not None else {}
            forecast.ttl_seconds = LONG if made.get("ephemeral_1h_input_tokens") else SHORT
            forecast.learn(response.usage if response is not None else None)
            before = response
    return found_in, seen


# Compaction while nobody works on a conversation, at the recorded pauses.


def idle_costs(script: SessionScript, percent: int) -> Iterator[tuple[int, int]]:
    """Of each compaction that a pause brought about, nanodollars until the next such one: without it, and with it.

    The cache of a prompt runs out in a pause longer than its shortest life, which is written again then.
    """
    row = ModelTable.builtin().lookup(script.model or DEFAULT_MODEL)
    life = 1000 * min(row.cache.ttl_seconds, default=0)
    runs = [
        replay_session(script, Policy.buffered().change({"auto.idle_percent": each}))
        for each in (0, percent)
    ]
    paid, fired, before = [list[int](), list[int]()], list[int](), 0
    for turns in zip(runs[0].turns, runs[1].turns, strict=False):
        now = script.times[turns[0].message - 1]
        cold = bool(life and before and now and now - before > life)
        before = now or before
        for turn, sums in zip(turns, paid, strict=True):
            write, read = rates_of(row, turn.tokens)
            cached = 0 if cold else turn.read_tokens
            sums.append(cached * read + (turn.tokens - cached) * write)
        if any(why.endswith("the provider's cache has run out") for _, why, _ in turns[1].acted):
            fired.append(len(paid[0]) - 1)
    for at, end in zip(fired, [*fired, len(paid[0])][1:], strict=True):
        yield sum(paid[0][at:end]), sum(paid[1][at:end])


class Request:
    tokens, rewritten_from, compaction = 50_000, None, None


def overhead(turns: int, flush_after: int) -> dict[str, float]:
    """Microseconds of a turn on the host's thread, and of its records on the other, where so many are recorded at once; the clock's own are in it."""
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.trace import TracerProvider

    from ullage.observe.telemetry import TurnTelemetry

    meters = MeterProvider(metric_readers=[InMemoryMetricReader()])
    to = TurnTelemetry(tracer_provider=TracerProvider(), meter_provider=meters, flush_seconds=3600)
    recorder, request = to.of("c", model="claude-opus-4-5"), Request()
    usage = {"input_tokens": 5, "cache_read_input_tokens": 49_000, "output_tokens": 300}
    times, recording = [], 0
    for number in range(turns):
        began = time.perf_counter_ns()
        recorder.sent(request)
        recorder.received(usage)
        times.append(time.perf_counter_ns() - began)
        if number % flush_after == flush_after - 1:
            began = time.perf_counter_ns()
            to.flush()
            recording += time.perf_counter_ns() - began
    to.close()
    meters.shutdown()
    times.sort()
    at = {"p50": times[turns // 2], "p99": times[turns * 99 // 100], "recorded": recording / turns}
    return {name: round(each / 1000, 2) for name, each in at.items()}


def main() -> None:
    folder = Path(os.environ["ULLAGE_CORPUS"])
    scripts = (
        script_of(open_session(path)) for path in folder.glob("*/*") if path.suffix in SUFFIXES
    )
    fired = [pair for each in scripts if each.messages for pair in idle_costs(each, 50)]
    pays, before, after = sum(b < a for a, b in fired), *map(sum, zip(*fired, strict=True))
    print(
        f"compaction while idle: {pays} of {len(fired)} pay; ${before / 1e9:.2f} → ${after / 1e9:.2f}"
    )
    found_in, seen = errors(folder)
    print(dict(seen))
    for name, found in found_in.items():
        tenths = statistics.quantiles(found, n=10)
        print(f"{name}: median {statistics.median(found):.2%}, 90th percentile {tenths[8]:.2%}")
    for flush_after in (1_000, 100, 1):
        print(f"us a turn, {flush_after} recorded at once: {overhead(20_000, flush_after)}")


if __name__ == "__main__":
    main()
