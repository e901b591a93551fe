"""The cache monitor: an unannounced break is reported, with what changed; an announced one is not."""

from __future__ import annotations

from typing import Any

import pytest

from ullage.compaction import compact
from ullage.observe.cache_monitor import CacheMonitor, cache_use
from ullage.observe.events import CacheBroken, CacheReset

BODY: dict[str, Any] = {
    "model": "m",
    "system": "You help.",
    "tools": [{"name": "Read"}],
    "messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}],
}
LOST = {"cache_read_input_tokens": 0, "cache_creation_input_tokens": 20_000}


def more(*texts: str, **changes: Any) -> dict[str, Any]:
    added = [{"role": "user", "content": text} for text in texts]
    return {**BODY, "messages": [*BODY["messages"], *added], **changes}


def begun(**options: Any) -> CacheMonitor:
    monitor = CacheMonitor(**options)
    monitor.sent(BODY, now_seconds=0)
    assert monitor.received({"cache_creation_input_tokens": 20_000}).kind == "first"
    return monitor


def test_a_growing_conversation_keeps_its_prefix():
    monitor = begun()
    marked = [{"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}]
    moved = [{"role": "user", "content": marked}, *BODY["messages"][1:]]
    monitor.sent({**BODY, "messages": [*moved, {"role": "user", "content": "go"}]})
    verdict = monitor.received({"cache_read_input_tokens": 19_900})
    assert (verdict.kind, verdict.expected_tokens, verdict.read_tokens) == ("kept", 20_000, 19_900)


@pytest.mark.parametrize(
    ("body", "reason", "message"),
    [
        (more(model="n"), "model", None),
        (more(system="You do."), "system", None),
        (more(tools=[]), "tools", None),
        (more(tool_choice={"type": "any"}), "parameters", None),
        (
            {**BODY, "messages": [{"role": "user", "content": "ho"}, BODY["messages"][1]]},
            "messages",
            0,
        ),
        ({**BODY, "messages": BODY["messages"][:1]}, "messages", 1),
        (more("go"), "unknown", None),
    ],
)
def test_a_break_is_reported_with_what_changed(body, reason, message):
    told: list[Any] = []
    monitor = begun(listeners=[told.append])
    monitor.sent(body, now_seconds=10)
    verdict = monitor.received(LOST)
    assert (verdict.kind, verdict.reason, verdict.message) == ("broken", reason, message)
    broken = CacheBroken(
        source="main", reason=reason, expected_tokens=20_000, read_tokens=0, message=message
    )
    assert told == [broken]


def test_a_pause_makes_it_cold():
    monitor = begun()
    monitor.sent(more("go"), now_seconds=301)
    assert monitor.received(LOST).reason == "expired"


def test_what_was_announced_is_no_break_once():
    told: list[Any] = []
    monitor = begun(listeners=[told.append])
    monitor(CacheReset(reason="compaction", details={}))
    monitor.sent({**BODY, "messages": [{"role": "user", "content": "summary"}]})
    assert monitor.received(LOST).kind == "announced"
    monitor.sent({**BODY, "messages": [{"role": "user", "content": "another"}]})
    assert monitor.received(LOST).kind == "broken"
    assert len(told) == 1


def test_a_compaction_announces_itself():
    monitor = begun()
    answer = {"role": "assistant", "content": "a long answer " * 200}
    items = [m for n in range(20) for m in ({"role": "user", "content": f"step {n}"}, answer)]
    assert compact(items, keep=0, listeners=[monitor]).compacted
    monitor.sent(more("go"))
    assert monitor.received(LOST).reason == "compaction"


def test_sources_are_apart():
    monitor = begun()
    monitor.sent({**BODY, "system": "a helper"}, source="subagent")
    assert (
        monitor.received({"cache_creation_input_tokens": 9_000}, source="subagent").kind == "first"
    )
    monitor.sent(more("go"))
    assert monitor.received({"cache_read_input_tokens": 20_000}).kind == "kept"


def test_openai_usage_is_read_too():
    monitor = CacheMonitor()
    monitor.sent(more("a"))
    usage = {"prompt_tokens": 10_000, "prompt_tokens_details": {"cached_tokens": 0}}
    assert monitor.received(usage).kind == "first"
    monitor.sent(more("a", "b"))
    kept = {"prompt_tokens": 10_300, "prompt_tokens_details": {"cached_tokens": 9_984}}
    assert monitor.received(kept).kind == "kept"
    monitor.sent(more("x"))
    assert monitor.received(usage).reason == "messages"


def test_reported_writes_count_where_details_are_missing():
    monitor, wrote = CacheMonitor(), {"cache_creation_input_tokens": 19_000}
    usage = {"prompt_tokens": 20_000, "prompt_tokens_details": None, **wrote}
    monitor.sent(more("a"))
    assert monitor.received(usage).kind == "first"
    monitor.sent({**more("a"), "system": "another"})
    assert monitor.received(usage).kind == "broken"


def test_a_prompt_that_openai_counts_holds_what_its_cache_had():
    apart = {"input_tokens": 12, "cache_read_input_tokens": 40_000}
    again = {"prompt_tokens_details": {"cached_tokens": 40_000}}
    assert cache_use({**apart, **again}).prompt == 40_012
    assert cache_use({"prompt_tokens": 10_000, "cache_read_input_tokens": 8_000}).prompt == 10_000
    assert cache_use({"prompt_tokens": 5_000, "input_tokens": 20}).prompt == 5_000


def test_little_is_no_break_and_no_usage_expects_nothing():
    monitor = begun()
    monitor.sent(more("go"))
    assert monitor.received({"cache_read_input_tokens": 18_500}).kind == "kept"
    monitor.sent(more("go", "on"))
    monitor.received(None)
    monitor.sent(more("x"))
    assert monitor.received(LOST).kind == "first"


def test_it_keeps_no_text():
    monitor = begun()
    assert "You help" not in repr(vars(monitor))


def test_losses_add_up_by_their_reason():
    monitor = begun()
    monitor.announce("snip")
    monitor.sent(more("go"), now_seconds=10)
    monitor.received({"cache_read_input_tokens": 5_000, "cache_creation_input_tokens": 16_000})
    for seconds, read in ((20, 21_000), (900, 0)):
        monitor.sent(more("go", "on"), now_seconds=seconds)
        monitor.received({"cache_read_input_tokens": read, "cache_creation_input_tokens": 0})
    assert monitor.lost_tokens == {"snip": 15_000, "expired": 21_000}
    assert (monitor.expected_tokens, monitor.read_tokens) == (20_000 + 2 * 21_000, 26_000)


def test_a_cache_point_that_moves_is_no_change():
    monitor, point = CacheMonitor(), {"cachePoint": {"type": "default"}}
    first = {"role": "user", "content": [{"text": "hi"}]}
    monitor.sent({"messages": [{**first, "content": [*first["content"], point]}]})
    monitor.received({"cache_creation_input_tokens": 20_000})
    monitor.sent({"messages": [first, {"role": "user", "content": [{"text": "go"}, point]}]})
    verdict = monitor.received({"cache_read_input_tokens": 0})
    assert (verdict.reason, verdict.message) == ("unknown", None)
