"""Records events as OpenTelemetry spans and metrics. Off unless a host creates a `Telemetry` and adds it as a listener.

The names are Ullage's (`ullage.*`). The standard has one attribute, `gen_ai.conversation.compacted`, which
belongs on the host's next inference span. No content of a conversation is ever recorded.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from ullage._start import extra_module
from ullage.observe.cache_monitor import CacheForecast, CacheUse, cache_use
from ullage.observe.events import (
    CacheBroken,
    CompactionFinished,
    CompactionRetried,
    CompactionStarted,
    CompactionSummaryRejected,
    Event,
    HookFinished,
    LevelActed,
)

if TYPE_CHECKING:
    from ullage.manager import Request

COMPACTED = "gen_ai.conversation.compacted"  # true on the first inference after a compaction

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
        trace, metrics = _otel("trace"), _otel("metrics")
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
        match event:
            case CompactionStarted():
                self._started(event)
            case CompactionRetried(reason=reason, summarizer=summarizer, attempt=attempt):
                labels = {"reason": reason, "summarizer": summarizer}
                self._retries.add(1, labels)
                self._note("ullage.compaction.retry", {**labels, "attempt": attempt})
            case CompactionSummaryRejected(problems=problems):
                self._note("ullage.compaction.rejected", {"problems": list(problems)})
            case CompactionFinished():
                self._finished(event)
            case LevelActed(report=report):
                freed = max(report.tokens_before - report.tokens_after, 0)
                self._level.add(freed, {"stage": report.stage})
            case HookFinished(status="failed" | "timeout" as status, event_name=name):
                self._hooks.add(1, {"event": name, "status": status})
            case CacheBroken(source=source, reason=reason):
                lost = max(event.expected_tokens - event.read_tokens, 0)
                self._lost.add(lost, {"source": source, "reason": reason})

    def request_attributes(self) -> dict[str, Any]:
        """Attributes for the span of the next inference, which say once that the conversation was compacted."""
        compacted, self._compacted = self._compacted, False
        return {COMPACTED: True} if compacted else {}

    def _started(self, event: CompactionStarted) -> None:
        self._closed("aborted")  # the previous compaction's end was never reported
        self._began = self._clock()
        fields: dict[str, str | int | None] = {
            "trigger": event.trigger,
            "messages": event.messages,
            "tokens_before": event.tokens_before,
            "summarizer": event.summarizer,
            "recompaction": event.recompaction,
            "prepared": event.source,
            "turns_since": event.turns_since,
            "threshold_tokens": event.threshold_tokens,
        }
        self._span = self._tracer.start_span("ullage.compaction", attributes=_named(fields))

    def _finished(self, event: CompactionFinished) -> None:
        compacted = event.outcome == "compacted"
        self._compacted = self._compacted or compacted
        labels = {"outcome": event.outcome, "trigger": event.trigger}
        usage = event.usage
        spent = {
            "input": usage.input_tokens,
            "cache_read": usage.cache_read_tokens,
            "cache_write": usage.cache_write_tokens,
            "output": usage.output_tokens,
        }
        if self._span is not None:
            self._duration.record(self._clock() - self._began, labels)
        if compacted:
            self._freed.record(max(event.tokens_before - event.tokens_after, 0), labels)
        self._closed(
            event.outcome,
            reason=event.reason,
            tokens_after=event.tokens_after,
            facts_appended=event.facts_appended,
            written_by=event.summarizer,
            attempts=event.attempts,
            **{f"{kind}_tokens": count for kind, count in spent.items()},
        )
        for kind, count in spent.items():
            if count:
                self._spent.add(count, {"kind": kind, "outcome": event.outcome})

    def _closed(self, outcome: str, **fields: str | int) -> None:
        span, self._span = self._span, None
        if span is None:
            return
        span.set_attributes(_named({"outcome": outcome, **fields}))
        if outcome == "failed":
            span.set_status(self._status.ERROR)
        span.end()

    def _note(self, name: str, attributes: dict[str, Any]) -> None:
        if self._span is not None:
            self._span.add_event(name, attributes)

    def __repr__(self) -> str:
        return f"Telemetry({'in a compaction' if self._span is not None else 'idle'})"


def _named(fields: Mapping[str, str | int | None]) -> dict[str, str | int]:
    """Attributes of a compaction's span; without those that are unknown."""
    return {
        f"ullage.compaction.{name}": value for name, value in fields.items() if value is not None
    }


def _otel(name: str) -> Any:
    """A module of OpenTelemetry's API; `MissingExtra`: it is not installed."""
    return extra_module(f"opentelemetry.{name}", "otel", "opentelemetry-api")


# Every request of a conversation as an OpenTelemetry span and as metrics, by the gen-ai conventions, with what its cache should have done.
#
# The host's thread only notes what happens; another thread turns it into spans and metrics. No content is recorded.

_BUCKETS = [4**power for power in range(14)]  # bounds for tokens, as the conventions advise

# The bounds that the conventions of OpenTelemetry advise for `gen_ai.client.operation.duration`: 10 ms to 82 s.
_SECONDS = [0.01 * 2**power for power in range(14)]


class _Labels(NamedTuple):
    """A model's metric attributes, built once."""

    about: Mapping[str, str]
    prompt: Mapping[str, str]
    answer: Mapping[str, str]
    predicted: Mapping[str, str]
    reported: Mapping[str, str]


_CacheSums: TypeAlias = dict[int, tuple[_Labels, list[int]]]
"""By the `id` of a model's labels: tokens read and written, predicted and reported. Counters need only sums."""


class _Turn(NamedTuple):
    recorder: TurnRecorder
    context: Any
    began_ns: int
    ended_ns: int
    request: Request
    same_tokens: int | None
    usage: Mapping[str, Any] | None
    error: str


class TurnTelemetry:
    """For all conversations of a process: `turns = telemetry.of(conversation, model=…)`, then `turns.sent(request)`, `turns.received(usage)`.

    Spans: `chat MODEL` with `gen_ai.*` attributes. Metrics: `gen_ai.client.token.usage`, `gen_ai.client.operation.duration`,
    `ullage.request.tokens` (estimated), `ullage.cache.read` and `ullage.cache.written` (tokens, attribute `ullage.cache.source`:
    `predicted` or `reported`), `ullage.telemetry.dropped`.

    Args:
        tracer_provider: `None`: the global one.
        meter_provider: `None`: the global one.
        spans: Whether to make spans; false if the host's client makes its own.
        flush_seconds: Interval between recordings.
        most_waiting: Maximum turns in the queue; more are dropped and counted.

    Raises:
        MissingExtra: `opentelemetry-api` is not installed.
    """

    def __init__(
        self,
        *,
        tracer_provider: object | None = None,
        meter_provider: object | None = None,
        spans: bool = True,
        flush_seconds: float = 1,
        most_waiting: int = 100_000,
    ) -> None:
        self._trace: Any = _otel("trace")
        metrics: Any = _otel("metrics")
        self._context: Any = _otel("context")
        self._tracer = self._trace.get_tracer(SCOPE, tracer_provider=tracer_provider)
        meter = metrics.get_meter(SCOPE, meter_provider=meter_provider)
        self._used = _histogram(meter, "gen_ai.client.token.usage", "{token}", _BUCKETS)
        self._durations = _histogram(meter, "gen_ai.client.operation.duration", "s", _SECONDS)
        self._size = _histogram(meter, "ullage.request.tokens", "{token}", _BUCKETS)
        self._read = meter.create_counter("ullage.cache.read", unit="{token}")
        self._written = meter.create_counter("ullage.cache.written", unit="{token}")
        self._dropped = meter.create_counter("ullage.telemetry.dropped", unit="{turn}")
        self._spans, self._most = spans, most_waiting
        self._labels: dict[tuple[str, str], _Labels] = {}
        self._waiting: deque[tuple[Any, ...]] = deque()  # fields of `_Turn`
        # Without spans, the caller's span is not needed.
        self._current: Callable[[], Any] = self._context.get_current if spans else lambda: None
        self._lost = 0
        self._one, self._stop = threading.Lock(), threading.Event()
        self._thread = threading.Thread(
            target=self._beat, args=(flush_seconds,), name="ullage-telemetry", daemon=True
        )
        self._thread.start()

    def of(
        self,
        conversation: str,
        *,
        model: str,
        provider: str = "anthropic",
        ttl_seconds: float = 300,
        least_tokens: int = 0,
    ) -> TurnRecorder:
        """The turns of one conversation.

        Args:
            conversation: Its id, on spans only; empty: none.
            model: Its name in requests.
            provider: `gen_ai.provider.name`, such as `anthropic`, `openai`, `aws.bedrock`, `gcp.gemini`.
            ttl_seconds: See `CacheForecast`.
            least_tokens: See `CacheForecast`.
        """
        about = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": provider,
            "gen_ai.request.model": model,
        }
        new_labels = _Labels(
            about,
            prompt={**about, "gen_ai.token.type": "input"},
            answer={**about, "gen_ai.token.type": "output"},
            predicted={**about, "ullage.cache.source": "predicted"},
            reported={**about, "ullage.cache.source": "reported"},
        )
        labels = self._labels.setdefault((model, provider), new_labels)
        return TurnRecorder(self, conversation, labels, CacheForecast(ttl_seconds, least_tokens))

    def flush(self) -> None:
        """Record everything noted so far."""
        with self._one:
            sums: _CacheSums = {}
            while self._waiting:
                self._record(_Turn._make(self._waiting.popleft()), sums)
            for labels, totals in sums.values():
                for counter, at in ((self._read, 0), (self._written, 1)):
                    counter.add(totals[at], labels.predicted)
                    counter.add(totals[at + 2], labels.reported)
            lost, self._lost = self._lost, 0
            if lost:
                self._dropped.add(lost)

    def close(self) -> None:
        """Record what was noted and stop the thread; the host shuts down its own providers."""
        self._stop.set()
        self._thread.join()
        self.flush()

    def __repr__(self) -> str:
        return f"TurnTelemetry({len(self._waiting)} waiting)"

    # The following run on its own thread.

    def _beat(self, seconds: float) -> None:
        while not self._stop.wait(seconds):
            self.flush()

    def _record(self, turn: _Turn, sums: _CacheSums) -> None:
        recorder, labels = turn.recorder, turn.recorder._labels
        idle = (turn.began_ns - recorder.last_ns) / 1e9 if recorder.last_ns else 0.0
        recorder.last_ns = turn.ended_ns
        tokens = turn.request.tokens
        expected = recorder.forecast.expect(tokens, same_tokens=turn.same_tokens, idle_seconds=idle)
        failed = {**labels.about, "error.type": turn.error} if turn.error else labels.about
        self._durations.record((turn.ended_ns - turn.began_ns) / 1e9, failed)
        self._size.record(tokens, labels.about)
        use = cache_use(turn.usage) if turn.usage is not None else None
        if use is not None:
            self._used.record(use.prompt, labels.prompt)
            self._used.record(use.output, labels.answer)
            _, totals = sums.setdefault(id(labels), (labels, [0, 0, 0, 0]))
            for at, count in enumerate((*expected, use.read, use.written)):
                totals[at] += count
        if not turn.error:
            recorder.forecast.learn(turn.usage)
        if self._spans:
            self._span(turn, tokens, expected, use)

    def _span(
        self, turn: _Turn, tokens: int, expected: tuple[int, int], use: CacheUse | None
    ) -> None:
        about = turn.recorder._labels.about
        attributes: dict[str, Any] = {
            **about,
            "ullage.cache.predicted.read_tokens": expected[0],
            "ullage.cache.predicted.written_tokens": expected[1],
            "ullage.request.tokens": tokens,
        }
        if use is not None:
            attributes |= {
                "gen_ai.usage.input_tokens": use.prompt,
                "gen_ai.usage.output_tokens": use.output,
                "gen_ai.usage.cache_read.input_tokens": use.read,
                "gen_ai.usage.cache_creation.input_tokens": use.written,
            }
        if turn.recorder.conversation:
            attributes["gen_ai.conversation.id"] = turn.recorder.conversation
        if turn.request.compaction is not None:
            attributes[COMPACTED] = True
        if turn.error:
            attributes["error.type"] = turn.error
        span = self._tracer.start_span(
            f"chat {about['gen_ai.request.model']}",
            context=turn.context,
            kind=self._trace.SpanKind.CLIENT,
            attributes=attributes,
            start_time=turn.began_ns,
        )
        if turn.error:
            span.set_status(self._trace.StatusCode.ERROR)
        span.end(end_time=turn.ended_ns)


class TurnRecorder:
    """Notes the requests of one conversation; from `TurnTelemetry.of`.

    Attributes:
        conversation: Its id; empty: none.
        forecast: What its cache should do.
        last_ns: When its last request ended, in nanoseconds since the epoch; 0: there was none.
    """

    def __init__(
        self, to: TurnTelemetry, conversation: str, labels: _Labels, forecast: CacheForecast
    ) -> None:
        self._to, self.conversation, self.forecast = to, conversation, forecast
        self._labels = labels
        self.last_ns = self._began = 0
        self._request: Request | None = None
        self._same: int | None = None

    def sent(self, request: Request, *, same_tokens: int | None = None) -> None:
        """Note that a request is sent now.

        Args:
            request: From `prepare`.
            same_tokens: Tokens at its beginning equal to the last request. `None`: all, or if it was rewritten only those that
                the provider reads.
        """
        if same_tokens is None and request.rewritten_from is not None:
            same_tokens = 0
        self._request, self._same = request, same_tokens
        self._began = time.time_ns()

    def received(self, usage: Mapping[str, Any] | None, *, error: str = "") -> None:
        """Note its response, or its failure.

        Args:
            usage: The response's usage, if it has one.
            error: Name of the error's class; empty: success.
        """
        request, self._request = self._request, None
        if request is None:
            return
        to = self._to
        # In the order of `_Turn`'s fields; nothing is computed here.
        if len(to._waiting) < to._most:
            ended = time.time_ns()
            to._waiting.append(
                (self, to._current(), self._began, ended, request, self._same, usage, error)
            )
        else:
            to._lost += 1


def _histogram(meter: Any, name: str, unit: str, edges: Sequence[float]) -> Any:
    return meter.create_histogram(name, unit=unit, explicit_bucket_boundaries_advisory=edges)
