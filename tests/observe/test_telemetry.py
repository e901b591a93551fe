"""Telemetry: off and free by default; spans and metrics in our own names, no content."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from ullage.compaction import compact
from ullage.exceptions import CompactionError, MissingExtra
from ullage.observe.events import CacheBroken, CompactionStarted, HookFinished
from ullage.observe.telemetry import COMPACTED, Telemetry
from ullage.policy import Policy
from ullage.summarizers import SummaryReply
from ullage.testing import ScriptedSummarizer

SECRET = "the user's own words"


def items() -> list[dict[str, Any]]:
    answer = {"role": "assistant", "content": "Fine."}
    return [
        m for n in range(20) for m in ({"role": "user", "content": f"{SECRET} {n} " * 60}, answer)
    ]


@pytest.fixture
def seen():
    sdk = pytest.importorskip("opentelemetry.sdk.trace")
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    spans, reader = InMemorySpanExporter(), InMemoryMetricReader()
    provider = sdk.TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    meters = MeterProvider(metric_readers=[reader])
    now = iter(range(1000))
    telemetry = Telemetry(
        tracer_provider=provider, meter_provider=meters, clock=lambda: float(next(now))
    )
    yield telemetry, spans, reader
    meters.shutdown()
    provider.shutdown()


def metrics(reader: Any) -> dict[str, Any]:
    data = reader.get_metrics_data()
    found = [m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics]
    return {metric.name: metric.data.data_points[0] for metric in found}


def test_a_compaction_is_a_span_with_its_figures(seen):
    telemetry, spans, reader = seen
    result = compact(items(), keep=0, listeners=[telemetry])
    (span,) = spans.get_finished_spans()
    told = dict(span.attributes)
    assert span.name == "ullage.compaction"
    assert told["ullage.compaction.outcome"] == "compacted"
    assert told["ullage.compaction.tokens_after"] == result.report.tokens_after
    assert span.status.is_ok or span.status.is_unset
    found = metrics(reader)
    assert found["ullage.compaction.duration"].sum == 1.0
    freed = result.report.tokens_before - result.report.tokens_after
    assert found["ullage.compaction.freed"].sum == freed
    assert SECRET not in span.to_json()


def test_the_next_inference_says_once_that_it_was_compacted(seen):
    telemetry, *_ = seen
    assert telemetry.request_attributes() == {}
    compact(items(), keep=0, listeners=[telemetry])
    assert telemetry.request_attributes() == {COMPACTED: True}
    assert telemetry.request_attributes() == {}


def test_a_failure_is_an_error_and_retries_are_counted(seen):
    telemetry, spans, reader = seen
    policy = Policy().change({"summary.retries": 1})
    writer = ScriptedSummarizer(after="empty")
    with pytest.raises(CompactionError):
        compact(items(), keep=0, listeners=[telemetry], summarizer=writer, policy=policy)
    (span,) = spans.get_finished_spans()
    assert not span.status.is_ok
    assert span.attributes["ullage.compaction.reason"] == "no_summary"
    names = [event.name for event in span.events]
    assert names == [
        "ullage.compaction.rejected",
        "ullage.compaction.retry",
        "ullage.compaction.rejected",
    ]
    assert metrics(reader)["ullage.compaction.retries"].value == 1
    assert telemetry.request_attributes() == {}


def test_one_that_nobody_ended_is_closed_by_the_next(seen):
    telemetry, spans, _ = seen
    begun = CompactionStarted(
        trigger="auto", messages=1, tokens_before=1, summarizer="x", recompaction=False
    )
    telemetry(begun)
    telemetry(begun)
    (span,) = spans.get_finished_spans()
    assert span.attributes["ullage.compaction.outcome"] == "aborted"


def test_hooks_and_the_cache_are_counted(seen):
    telemetry, _, reader = seen
    telemetry(HookFinished(event_name="PreCompact", hook="x", status="timeout"))
    telemetry(HookFinished(event_name="PreCompact", hook="x", status="ok"))
    telemetry(CacheBroken(source="main", reason="tools", expected_tokens=9000, read_tokens=1000))
    found = metrics(reader)
    assert found["ullage.hook.failures"].value == 1
    assert found["ullage.cache.lost"].value == 8000


def test_the_package_is_named_where_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", None)
    with pytest.raises(MissingExtra) as caught:
        Telemetry()
    assert caught.value.hint == "pip install 'ullage[otel]'"


def test_nothing_of_it_is_loaded_when_it_is_off():
    code = (
        "import sys; from ullage import compact; compact([{'role': 'user', 'content': 'x'}]); "
        "print([m for m in sys.modules if 'opentelemetry' in m or m == 'ullage.observe.telemetry'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_what_a_summary_cost_is_recorded_even_where_it_failed(seen):
    telemetry, spans, reader = seen
    usage = {"input_tokens": 10, "cache_read_input_tokens": 900, "output_tokens": 5}

    def write(request):
        return SummaryReply(text="short", finish_reason="stop", usage=usage)

    policy = Policy().change({"summary.retries": 0})
    with pytest.raises(CompactionError):
        compact(items(), keep=0, listeners=[telemetry], summarizer=write, policy=policy)
    (span,) = spans.get_finished_spans()
    told = dict(span.attributes)
    assert told["ullage.compaction.attempts"] == 1
    assert told["ullage.compaction.cache_read_tokens"] == 900
    assert told["ullage.compaction.written_by"] == "write"
    assert told["ullage.compaction.tokens_before"] == told["ullage.compaction.tokens_after"] > 0
    data = reader.get_metrics_data()
    found = [m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics]
    (spent,) = [metric for metric in found if metric.name == "ullage.summary.tokens"]
    by_kind = {point.attributes["kind"]: point.value for point in spent.data.data_points}
    assert by_kind == {"input": 10, "cache_read": 900, "output": 5}
