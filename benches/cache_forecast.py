"""Predicted cache reads and writes against those that the provider reported, on recorded sessions of Claude Code; and what telemetry costs a turn.

ULLAGE_CORPUS=FOLDER python -m benches.cache_forecast
"""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

from ullage.counting.estimate import Ledger, weights_for
from ullage.manager.journal_read import ms_of
from ullage.observe.cache_forecast import CacheForecast, cache_use

WEIGHTS = weights_for("claude-opus-4-5")
LONG = 3_600
SHORT = 300


def responses(path: Path) -> Iterator[tuple[dict, int, int]]:
    """(usage, tokens added since the response before, milliseconds) of each response of the main conversation; empty at a compaction."""
    added, newest, waiting = 0, "", None
    for line in path.read_bytes().splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        message = entry.get("message")
        if entry.get("subtype") == "compact_boundary":
            if waiting is not None:
                yield waiting
            waiting, newest = None, ""
            yield {}, 0, 0
        if entry.get("isSidechain") or not isinstance(message, dict):
            continue
        usage = message.get("usage")
        if entry.get("type") == "user":
            content = message.get("content", "")
            added += int(Ledger(WEIGHTS, [{"role": "user", "content": content}]).tokens())
        elif usage and message.get("model") != "<synthetic>":
            # A response stands there in pieces; the last has the final count of its answer.
            if message.get("id") != newest:
                if waiting is not None:
                    yield waiting
                waiting, added = (usage, added, ms_of(entry.get("timestamp", "")) or 0), 0
                newest = message.get("id")
            elif waiting is not None:
                waiting = (usage, waiting[1], waiting[2])
    if waiting is not None:
        yield waiting


def errors(folder: Path) -> dict[str, list[float]]:
    """Errors of each turn as parts of something."""
    found_in: dict[str, list[float]] = {
        "reads, of what was read": [],
        "writes, of what was written": [],
        "writes, of the prompt": [],
    }
    reads, writes, of_prompt = found_in.values()
    for path in sorted(folder.glob("cc_*/**/*.jsonl")):
        forecast, before, then = CacheForecast(), None, 0
        for usage, added, now in responses(path):
            use = cache_use(usage)
            if before is not None and usage and use.prompt:
                tokens = before.prompt + before.output + added
                found = forecast.expect(tokens, idle_seconds=(now - then) / 1000 if then else 0)
                reads.append(abs(found.read - use.read) / max(use.read, 1))
                writes.append(abs(found.written - use.written) / max(use.written, 1))
                of_prompt.append(abs(found.written - use.written) / use.prompt)
            made = usage.get("cache_creation") or {}
            forecast.ttl_seconds = LONG if made.get("ephemeral_1h_input_tokens") else SHORT
            forecast.learn(usage or None)
            before, then = (use, now) if usage else (None, 0)
    return found_in


class Request:
    tokens, rewritten_from, compaction = 50_000, None, None


def overhead(turns: int) -> dict[str, float]:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.trace import TracerProvider

    from ullage.observe.turn_telemetry import TurnTelemetry

    meters = MeterProvider(metric_readers=[InMemoryMetricReader()])
    to = TurnTelemetry(tracer_provider=TracerProvider(), meter_provider=meters, flush_seconds=3600)
    recorder, request = to.of("c", model="claude-opus-4-5"), Request()
    usage = {"input_tokens": 5, "cache_read_input_tokens": 49_000, "output_tokens": 300}
    times = []
    for _ in range(turns):
        began = time.perf_counter_ns()
        recorder.sent(request)
        recorder.received(usage)
        times.append(time.perf_counter_ns() - began)
    to.close()
    meters.shutdown()
    times.sort()
    return {"p50 us": times[turns // 2] / 1000, "p99 us": times[turns * 99 // 100] / 1000}


def main() -> None:
    for name, found in errors(Path(os.environ["ULLAGE_CORPUS"])).items():
        quartiles = statistics.quantiles(found, n=20)
        print(
            f"{len(found):,} turns, {name}: median {statistics.median(found):.2%}, 90th percentile {quartiles[17]:.2%}"
        )
    print(overhead(20_000))


if __name__ == "__main__":
    main()
