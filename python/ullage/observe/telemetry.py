"""Records events as OpenTelemetry spans and metrics. Off unless a host creates a `Telemetry` and adds it as a listener.

The names are Ullage's (`ullage.*`). The standard has one attribute, `gen_ai.conversation.compacted`, which
belongs on the host's next inference span. No content of a conversation is ever recorded.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Mapping
from typing import Any

from ullage.exceptions import MissingExtra
from ullage.observe.events import (
    CacheBroken,
    CompactionFinished,
    CompactionRetried,
    CompactionStarted,
    CompactionSummaryRejected,
    Event,
    HookFinished,
    LevelActed,
    SummaryUsage,
)

__all__ = ["COMPACTED", "SCOPE", "Telemetry", "otel_module"]

COMPACTED = "gen_ai.conversation.compacted"
"""True on the first inference after a compaction; never set to false."""

SCOPE = "ullage"


class Telemetry:
    """A listener for one conversation: `listeners=[Telemetry()]`.

    Spans: `ullage.compaction`, with its retries and refusals as events. Metrics:
    `ullage.compaction.duration` (s), `ullage.compaction.freed` (tokens), `ullage.compaction.retries`,
    `ullage.summary.tokens` (what summary calls cost, by kind), `ullage.level.freed` (tokens), `ullage.hook.failures`, `ullage.cache.lost` (tokens).

    Args:
        tracer_provider: `None`: the global one.
        meter_provider: `None`: the global one.
        clock: Monotonic seconds, for the duration.

    Raises:
        MissingExtra: `opentelemetry-api` is not installed.
    """

    def __init__(
        self,
        *,
        tracer_provider: object | None = None,
        meter_provider: object | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        trace, metrics = otel_module("opentelemetry.trace"), otel_module("opentelemetry.metrics")
        self._tracer = trace.get_tracer(SCOPE, tracer_provider=tracer_provider)
        meter = metrics.get_meter(SCOPE, meter_provider=meter_provider)
        self._status = trace.StatusCode
        self._clock = clock
        self._duration = meter.create_histogram("ullage.compaction.duration", unit="s")
        self._freed = meter.create_histogram("ullage.compaction.freed", unit="{token}")
        self._retries = meter.create_counter("ullage.compaction.retries", unit="{retry}")
        self._spent = meter.create_counter("ullage.summary.tokens", unit="{token}")
        self._level = meter.create_counter("ullage.level.freed", unit="{token}")
        self._hooks = meter.create_counter("ullage.hook.failures", unit="{failure}")
        self._lost = meter.create_counter("ullage.cache.lost", unit="{token}")
        self._span: Any = None
        self._began = 0.0
        self._compacted = False

    def __call__(self, event: Event) -> None:
        """Record an event; other kinds are ignored."""
        record = _RECORDERS.get(type(event))
        if record is not None:
            record(self, event)

    def request_attributes(self) -> dict[str, Any]:
        """Attributes for the span of the next inference: says once that the conversation was compacted."""
        told, self._compacted = self._compacted, False
        return {COMPACTED: True} if told else {}

    # ---- compactions -------------------------------------------------------------------------

    def _started(self, event: CompactionStarted) -> None:
        self._closed("aborted")  # the end of the compaction before was never reported
        self._began = self._clock()
        self._span = self._tracer.start_span(
            "ullage.compaction",
            attributes={
                "ullage.compaction.trigger": event.trigger,
                "ullage.compaction.messages": event.messages,
                "ullage.compaction.tokens_before": event.tokens_before,
                "ullage.compaction.summarizer": event.summarizer,
                "ullage.compaction.recompaction": event.recompaction,
                "ullage.compaction.input": event.source,
                **_known("ullage.compaction.turns_since", event.turns_since),
                **_known("ullage.compaction.threshold_tokens", event.threshold_tokens),
            },
        )

    def _retried(self, event: CompactionRetried) -> None:
        labels = {"reason": event.reason, "summarizer": event.summarizer}
        self._retries.add(1, labels)
        self._noted("ullage.compaction.retry", {**labels, "attempt": event.attempt})

    def _rejected(self, event: CompactionSummaryRejected) -> None:
        self._noted("ullage.compaction.rejected", {"problems": list(event.problems)})

    def _finished(self, event: CompactionFinished) -> None:
        compacted = event.outcome == "compacted"
        self._compacted = self._compacted or compacted
        labels = {"outcome": event.outcome, "trigger": event.trigger}
        if self._span is not None:
            self._duration.record(self._clock() - self._began, labels)
        if compacted:
            self._freed.record(max(event.tokens_before - event.tokens_after, 0), labels)
        self._closed(
            event.outcome,
            {
                "ullage.compaction.reason": event.reason,
                "ullage.compaction.tokens_after": event.tokens_after,
                "ullage.compaction.facts_appended": event.facts_appended,
                "ullage.compaction.written_by": event.summarizer,
                "ullage.compaction.attempts": event.attempts,
                **{f"ullage.compaction.{kind}_tokens": n for kind, n in _kinds(event.usage)},
            },
        )
        for kind, count in _kinds(event.usage):
            if count:
                self._spent.add(count, {"kind": kind, "outcome": event.outcome})

    def _closed(self, outcome: str, more: Mapping[str, Any] | None = None) -> None:
        span, self._span = self._span, None
        if span is None:
            return
        span.set_attributes({"ullage.compaction.outcome": outcome, **(more or {})})
        if outcome == "failed":
            span.set_status(self._status.ERROR)
        span.end()

    def _noted(self, name: str, attributes: Mapping[str, Any]) -> None:
        if self._span is not None:
            self._span.add_event(name, dict(attributes))

    # ---- the rest ----------------------------------------------------------------------------

    def _acted(self, event: LevelActed) -> None:
        freed = event.report.tokens_before - event.report.tokens_after
        self._level.add(max(freed, 0), {"stage": event.report.stage})

    def _hooked(self, event: HookFinished) -> None:
        if event.status in ("failed", "timeout"):
            self._hooks.add(1, {"event": event.event_name, "status": event.status})

    def _broken(self, event: CacheBroken) -> None:
        lost = max(event.expected_tokens - event.read_tokens, 0)
        self._lost.add(lost, {"source": event.source, "reason": event.reason})

    def __repr__(self) -> str:
        return f"Telemetry({'in a compaction' if self._span is not None else 'idle'})"


_RECORDERS: Mapping[type[Any], Callable[[Telemetry, Any], None]] = {
    CompactionStarted: Telemetry._started,
    CompactionRetried: Telemetry._retried,
    CompactionSummaryRejected: Telemetry._rejected,
    CompactionFinished: Telemetry._finished,
    LevelActed: Telemetry._acted,
    HookFinished: Telemetry._hooked,
    CacheBroken: Telemetry._broken,
}


def _known(name: str, value: int | None) -> dict[str, int]:
    return {} if value is None else {name: value}


def _kinds(usage: SummaryUsage) -> tuple[tuple[str, int], ...]:
    return (
        ("input", usage.input_tokens),
        ("cache_read", usage.cache_read_tokens),
        ("cache_write", usage.cache_write_tokens),
        ("output", usage.output_tokens),
    )


def otel_module(name: str) -> Any:
    """A module of OpenTelemetry's API.

    Raises:
        MissingExtra: It is not installed.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as exc:
        raise MissingExtra("opentelemetry-api", "otel") from exc
