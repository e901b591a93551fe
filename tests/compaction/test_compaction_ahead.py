"""Summaries ahead of need: written from the soft threshold on, used only if they still fit."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from tests.oracle.legality import assert_legal
from ullage.compaction.api import job_of
from ullage.compaction.effects_runner import Performer
from ullage.compaction.prefetch import Ahead, Prewritten, ahead_flow
from ullage.effects import drive
from ullage.facts.sections import HEADINGS
from ullage.manager import ContextManager
from ullage.policy import Policy
from ullage.testing import ScriptedSummarizer, Step

NINE = "\n\n".join(
    f"## {n}. {title}\nSomething of {title.lower()}." for n, title in enumerate(HEADINGS, 1)
)
TRIGGER = 3  # percent of 200 000: 6 000 tokens
RULES = {
    "auto.start_percent": TRIGGER,
    "auto.background_percent": 60,
    "micro.by_supersession": False,
}


def turn(n: int) -> list[dict[str, Any]]:
    """About 330 tokens."""
    call = {
        "type": "tool_use",
        "id": f"t{n}",
        "name": "Read",
        "input": {"file_path": f"/w/f{n}.py"},
    }
    done = {"type": "tool_result", "tool_use_id": f"t{n}", "content": f"line {n}\n" * 90}
    return [
        {"role": "user", "content": f"Look at file {n}"},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [done]},
        {"role": "assistant", "content": [{"type": "text", "text": f"File {n} is fine."}]},
    ]


def manager(writer: Any, events: list[Any] | None = None, **rules: Any) -> ContextManager:
    return ContextManager(
        model="claude-opus-4-5",
        summarizer=writer,
        policy=Policy().change({**RULES, **rules}),
        listeners=[] if events is None else [events.append],
        keep=500,
    )


def fill(one: ContextManager, tokens: int, start: int = 0) -> int:
    n = start
    while one.usage().tokens < tokens:
        for message in turn(n):
            one.add(message)
        n += 1
    one.add({"role": "user", "content": f"And now number {n}"})
    return n + 1


def names(events: list[Any]) -> list[str]:
    return [type(event).__name__ for event in events]


def test_it_is_written_ahead_and_installed_when_it_is_due():
    writer, events = ScriptedSummarizer(), list[Any]()
    one = manager(writer, events)
    n = fill(one, 4_200)
    assert one.prepare().compaction is None
    assert one.host.ahead.wait(10)
    assert (writer.calls, names(events)[0]) == (1, "BackgroundStarted")
    before = list(one.messages)
    one.add({"role": "assistant", "content": "On it."})
    fill(one, 6_100, n)
    request = one.prepare()
    assert request.compaction is not None
    assert request.compaction.compacted
    assert writer.calls == 1  # nobody was asked a second time
    assert request.compaction.report.summarizer == "scripted"
    assert_legal("anthropic", request.messages)
    kept = [m for m in before if any(m is k for k in one.messages)]
    assert 0 < len(kept) < len(before)  # what came after the cut then stays
    assert all(f"Look at file {k}" in str(request.messages) for k in range(n - 1))
    assert one.machine.tracking.compactions == 1


def test_below_the_soft_threshold_nothing_is_written():
    writer = ScriptedSummarizer()
    one = manager(writer)
    fill(one, 2_000)
    one.prepare()
    assert (writer.calls, one.host.ahead.busy) == (0, False)


@pytest.mark.parametrize("rules", [{"auto.background_percent": 0}, {"auto.enabled": False}])
def test_off_is_off(rules):
    writer = ScriptedSummarizer()
    one = manager(writer, **rules)
    fill(one, 4_200)
    one.prepare()
    assert not one.host.ahead.busy


def test_a_summary_whose_messages_have_changed_is_thrown_away():
    writer = ScriptedSummarizer()
    one = manager(writer)
    n = fill(one, 4_200)
    one.prepare()
    assert one.host.ahead.wait(10)
    one.machine.view.messages[0] = {"role": "user", "content": "Look at file zero"}
    assert one.host.ahead.take(one.messages) is None
    one.add({"role": "assistant", "content": "On it."})
    fill(one, 6_100, n)
    assert one.prepare().compaction.compacted
    assert writer.calls == 2


def test_what_is_still_being_written_is_waited_for():
    writer = ScriptedSummarizer(Step("slow", seconds=0.4))
    one = manager(writer)
    n = fill(one, 4_200)
    one.prepare()
    assert one.host.ahead.running
    one.add({"role": "assistant", "content": "On it."})
    fill(one, 6_100, n)
    assert one.prepare().compaction.compacted
    assert writer.calls == 1


def test_a_failure_ahead_is_not_tried_again_until_it_is_due():
    writer = ScriptedSummarizer("auth")
    one = manager(writer)
    n = fill(one, 4_200)
    one.prepare()
    assert one.host.ahead.wait(10)
    assert "authentication" in one.host.ahead.failure
    one.prepare()
    assert writer.calls == 1
    one.add({"role": "assistant", "content": "On it."})
    fill(one, 6_100, n)
    assert one.prepare().compaction.report.summarizer == "scripted"
    assert one.machine.tracking.failures == 0


def test_a_coroutine_writes_ahead_for_a_synchronous_manager():
    async def writer(request: Any) -> str:
        await asyncio.sleep(0.01)
        return NINE

    one = manager(writer)
    fill(one, 4_200)
    from ullage.compaction.prefetch import Ahead as Writer
    from ullage.manager import prepare

    ahead = Writer()
    ahead.start(prepare.job_for(one.machine, one.host, one.messages, "auto"))
    assert ahead.wait(10)
    assert ahead.failure == ""
    assert ahead.take(one.messages).name == "writer"


def test_asynchronous_it_is_a_task():
    async def main() -> tuple[Any, ScriptedSummarizer]:
        writer = ScriptedSummarizer(Step("slow", seconds=0.05))
        one = manager(writer)
        n = fill(one, 4_200)
        await one.aprepare()
        assert one.host.ahead.running
        while one.host.ahead.running:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        one.add({"role": "assistant", "content": "On it."})
        fill(one, 6_100, n)
        return await one.aprepare(), writer

    request, writer = asyncio.run(main())
    assert request.compaction.compacted
    assert writer.calls == 1


# ---- the parts -------------------------------------------------------------------------------


def written(items: list[Any], **options: Any) -> Prewritten | None:
    given = job_of(items, **{"summarizer": lambda request: NINE, "keep": 300, **options})
    return drive(ahead_flow(given), Performer())


ITEMS = [message for n in range(12) for message in turn(n)]


def test_it_stands_for_the_very_objects():
    found = written(ITEMS)
    assert all(a is b for a, b in zip(found.items, ITEMS, strict=False))
    assert found.begins([*ITEMS, ITEMS[0]])
    assert not found.begins(ITEMS[: len(found.items)])
    assert not found.begins([dict(ITEMS[0]), *ITEMS[1:]])


def test_entries_are_cut_at_a_uuid():
    entries = [
        {"type": m["role"], "uuid": f"u{n}", "parentUuid": f"u{n - 1}" if n else None, "message": m}
        for n, m in enumerate(ITEMS)
    ]
    found = written(entries)
    assert found.at == f"u{len(found.items)}"


def test_too_little_is_not_written():
    assert written(ITEMS[:4]) is None
    assert written(ITEMS, keep=0) is None  # nothing would be kept to cut at


def test_two_starts_are_one():
    calls: list[int] = []
    go = threading.Event()

    def writer(request: Any) -> str:
        calls.append(1)
        go.wait(5)
        return NINE

    ahead, given = Ahead(), job_of(ITEMS, summarizer=writer, keep=300)
    ahead.start(given)
    ahead.start(given)
    go.set()
    assert ahead.wait(5)
    assert calls == [1]
    assert ahead.busy
    assert not ahead.running
