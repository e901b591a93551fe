"""Each request as a span and as metrics by the gen-ai conventions, with what its cache should have done; no content, and nothing on the host's thread."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.kit import said, user
from ullage import ContextManager
from ullage.observe import Telemetry, TurnTelemetry
from ullage.observe.cache_monitor import CacheForecast, cache_use

SECRET = "the user's own words"
MODEL = "claude-opus-4-5"


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
    telemetry = TurnTelemetry(tracer_provider=provider, meter_provider=meters, flush_seconds=3600)
    yield telemetry, spans, reader, provider
    telemetry.close()
    meters.shutdown()
    provider.shutdown()


def points(reader: Any) -> dict[str, list[Any]]:
    data = reader.get_metrics_data()
    if data is None:
        return {}
    found = [m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics]
    return {metric.name: list(metric.data.data_points) for metric in found}


def talk(turns: Any, count: int = 3) -> None:
    manager, cached = ContextManager(model=MODEL), 0
    for number in range(count):
        manager.add(user(f"{SECRET} {number} " * 200))
        request = manager.prepare()
        turns.sent(request)
        usage = {"input_tokens": 4, "cache_read_input_tokens": cached, "output_tokens": 7}
        usage["cache_creation_input_tokens"] = request.tokens - cached - 4
        cached = request.tokens - 4
        turns.received(usage)
        manager.observe({**said("Fine."), "usage": usage})


def test_a_conversation_by_the_conventions(seen):
    telemetry, spans, reader, _ = seen
    talk(telemetry.of("c1", model=MODEL))
    assert not spans.get_finished_spans()  # nothing happens on the host's thread
    telemetry.flush()
    found = spans.get_finished_spans()
    assert [span.name for span in found] == [f"chat {MODEL}"] * 3
    told = dict(found[-1].attributes)
    assert told["gen_ai.operation.name"] == "chat"
    assert told["gen_ai.provider.name"] == "anthropic"
    assert told["gen_ai.conversation.id"] == "c1"
    read = told["gen_ai.usage.cache_read.input_tokens"]
    assert told["ullage.cache.predicted.read_tokens"] == read > 0
    assert found[-1].end_time >= found[-1].start_time
    metrics = points(reader)
    kinds = {p.attributes["gen_ai.token.type"]: p for p in metrics["gen_ai.client.token.usage"]}
    assert (kinds["input"].count, kinds["output"].sum) == (3, 21)
    assert metrics["gen_ai.client.operation.duration"][0].count == 3
    reads = {p.attributes["ullage.cache.source"]: p.value for p in metrics["ullage.cache.read"]}
    assert reads["predicted"] == reads["reported"] > 0
    shown = str([span.to_json() for span in found]) + str(metrics)
    assert SECRET not in shown
    # One series for each conversation would be too many.
    assert "conversation.id" not in str(metrics)


def test_a_failed_request(seen):
    telemetry, spans, reader, _ = seen
    turns = telemetry.of("", model=MODEL)
    manager = ContextManager(model=MODEL)
    manager.add(user("hi"))
    turns.sent(manager.prepare())
    turns.received(None, error="RateLimitError")
    turns.received({"input_tokens": 1})  # nothing was sent
    telemetry.flush()
    (span,) = spans.get_finished_spans()
    assert span.attributes["error.type"] == "RateLimitError"
    assert span.status.status_code.name == "ERROR"
    assert "gen_ai.client.token.usage" not in points(reader)


def test_spans_belong_to_what_ran(seen):
    telemetry, spans, _, provider = seen
    with provider.get_tracer("host").start_as_current_span("agent") as outer:
        talk(telemetry.of("c1", model=MODEL), 1)
    telemetry.flush()
    inner = next(span for span in spans.get_finished_spans() if span.name.startswith("chat"))
    assert inner.parent.span_id == outer.get_span_context().span_id


def test_only_metrics(seen):
    _, spans, _, provider = seen
    from opentelemetry.sdk.metrics import MeterProvider

    meters = MeterProvider(metric_readers=[])
    telemetry = TurnTelemetry(tracer_provider=provider, meter_provider=meters, spans=False)
    talk(telemetry.of("c1", model=MODEL), 1)
    telemetry.close()
    meters.shutdown()
    assert not spans.get_finished_spans()


def test_what_waits_is_bounded(seen):
    telemetry, spans, reader, _ = seen
    telemetry._most = 2
    talk(telemetry.of("c1", model=MODEL), 5)
    telemetry.flush()
    assert len(spans.get_finished_spans()) == 2
    assert points(reader)["ullage.telemetry.dropped"][0].value == 3


def test_many_threads(seen):
    telemetry, spans, _, _ = seen
    threads = [
        threading.Thread(target=talk, args=(telemetry.of(f"c{n}", model=MODEL), 4))
        for n in range(4)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    telemetry.flush()
    assert len(spans.get_finished_spans()) == 16


def test_nothing_is_imported_where_it_is_off():
    code = "import sys, ullage, ullage.manager, ullage.observe; print([m for m in sys.modules if 'opentelemetry' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# ---- what is expected of the cache -----------------------------------------------------------


def wrote(rest: int, read: int, written: int) -> dict[str, int]:
    return {
        "input_tokens": rest,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": written,
    }


def test_a_forecast_of_anthropic():
    forecast = CacheForecast(ttl_seconds=300)
    assert forecast.expect(5_000) == (0, 5_000)
    forecast.learn(wrote(3, 0, 5_000))
    # Three tokens stand after the mark again.
    assert forecast.expect(6_000, idle_seconds=299) == (5_000, 997)
    assert forecast.expect(6_000, idle_seconds=301) == (0, 5_997)
    assert forecast.expect(6_000, same_tokens=2_000) == (2_000, 3_997)
    assert forecast.expect(1_000) == (997, 0)
    assert forecast.expect(2) == (2, 0)
    forecast.learn(None)
    assert forecast.expect(6_000) == (0, 6_000)


def test_a_host_that_marks_only_the_system_prompt():
    forecast = CacheForecast()
    forecast.learn(wrote(900, 0, 4_000))
    forecast.learn(wrote(2_000, 4_000, 0))
    assert forecast.expect(7_000) == (4_000, 0)
    assert forecast.expect(9_000, idle_seconds=400) == (0, 4_000)
    forecast.learn(wrote(5, 4_000, 3_000))  # from now on it marks the end
    assert forecast.expect(8_000) == (7_000, 995)


def test_a_host_that_marks_nothing():
    forecast = CacheForecast()
    forecast.learn({"input_tokens": 6_000, "output_tokens": 5})
    assert forecast.expect(7_000) == (0, 0)


def test_a_prompt_too_short_for_the_cache():
    forecast = CacheForecast(least_tokens=4_096)
    assert forecast.expect(4_000) == (0, 0)
    forecast.learn({"input_tokens": 4_000, "output_tokens": 5})
    assert forecast.expect(4_500) == (0, 4_500)  # the marks were there, as far as can be known


def test_a_forecast_of_openai():
    forecast = CacheForecast()
    forecast.learn(
        {
            "prompt_tokens": 2_000,
            "completion_tokens": 5,
            "prompt_tokens_details": {"cached_tokens": 0},
        }
    )
    assert forecast.expect(3_000) == (1_920, 1_024)
    forecast.learn(
        {"input_tokens": 900, "output_tokens": 5, "input_tokens_details": {"cached_tokens": 0}}
    )
    assert forecast.expect(1_000) == (0, 0)


@pytest.mark.parametrize(
    "usage", [{}, {"input_tokens": None}, {"prompt_tokens": "x"}, {"input_tokens": -1}]
)
def test_usage_without_figures(usage):
    assert cache_use(usage)[:4] == (0, 0, 0, 0)


# ---- the dashboard ---------------------------------------------------------------------------


def test_the_dashboard_shows_metrics_that_exist():
    path = Path(__file__).parents[2] / "docs" / "grafana.json"
    board = json.loads(path.read_text())
    asked = " ".join(target["expr"] for panel in board["panels"] for target in panel["targets"])
    named = set(
        re.findall(
            r"\b((?:ullage|gen_ai_client)_[a-z_]+?)(?:_seconds)?(?:_total|_bucket|_count|_sum)\b",
            asked,
        )
    )
    sources = "".join(
        Path(sys.modules[kind.__module__].__file__).read_text()
        for kind in (Telemetry, TurnTelemetry)
    )
    made = set(re.findall(r'"((?:ullage|gen_ai\.client)\.[a-z_.]+)"', sources))
    assert named <= {name.replace(".", "_") for name in made}
    assert len(named) >= 10
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
