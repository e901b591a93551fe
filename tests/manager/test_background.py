"""Summaries of spans are asked for in the background, and one call at a time prepares a request of it."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.oracle.legality import assert_legal
from ullage.counting.window import WindowSettings
from ullage.exceptions import ManagerBusy
from ullage.levels import collapse as spans
from ullage.manager import ContextManager
from ullage.policy import Policy

MODEL = "claude-opus-4-5"
WINDOW = 50_000  # of which 40 000 are effective
POLICY = Policy.buffered().change(
    {
        "collapse.enabled": True,
        "collapse.min_span_tokens": 800,
        "snip.enabled": False,
        "micro.by_supersession": False,
    }
)
WAIT = 10.0
GO_ON = {"role": "user", "content": "Go on."}


def step(number: int) -> list[dict[str, Any]]:
    """About 1 100 tokens."""
    given = {"file_path": f"/src/part_{number}.py"}
    call = {"type": "tool_use", "id": f"t{number}", "name": "Read", "input": given}
    block = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "word " * 1_000}
    return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [block]}]


def manager_of(writer: Any, **changes: Any) -> ContextManager:
    return ContextManager(
        model=MODEL,
        policy=POLICY.change(changes),
        summarizer=writer,
        settings=WindowSettings(auto_compact_window=WINDOW),
    )


def filled(manager: ContextManager, percent: int, start: int = 0) -> int:
    """Until the next request takes so many percent of the effective window."""
    if not manager.history:
        manager.add({"role": "user", "content": "Read all parts."})
    number = start
    while manager.usage().tokens * 100 < manager.window.effective * percent:
        for message in step(number):
            manager.add(message)
        number += 1
    return number


def staged(manager: ContextManager) -> list[Any]:
    return manager.machine.states["collapse"].staged


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT
    while not true():
        assert time.monotonic() < end
        time.sleep(0.005)


class Gate:
    """A summarizer that answers when it is let."""

    name = "gate"

    def __init__(self, *, is_open: bool = True) -> None:
        self.open, self.threads = threading.Event(), list[str]()
        if is_open:
            self.open.set()

    def summarize(self, request: Any) -> str:
        self.threads.append(threading.current_thread().name)
        assert self.open.wait(WAIT)
        return f"All of it was fine, says {self.name}."


def words(request: Any) -> str:
    return str(request.messages)


# ---- a thread


def test_spans_are_summarised_in_the_background_of_a_synchronous_conversation_and_reported_with_the_next_request():
    writer = Gate()
    manager = manager_of(writer)
    number = filled(manager, 75)
    assert not manager.prepare().reports
    until(lambda: manager.host.background.answered or not manager.host.background.running)
    assert threading.current_thread().name not in writer.threads
    assert not staged(manager)  # only a call of the conversation takes the steps
    filled(manager, 80, number)
    while not (reports := manager.prepare().reports):
        manager.add({"role": "assistant", "content": "Well."})
        manager.add(GO_ON)
    assert [(report.stage, report.freed) for report in reports] == [("collapse", 0)]
    assert "summarised ahead of need" in reports[0].why
    assert [record["type"] for record in reports[0].records] == ["collapse-snapshot"]
    filled(manager, 92, 100)
    request = manager.prepare()
    assert "says gate" in words(request)
    assert_legal("anthropic", request.messages, model=MODEL)


def test_what_is_being_written_is_waited_for_from_the_last_mark_on():
    writer = Gate(is_open=False)
    manager = manager_of(writer)
    number = filled(manager, 75)
    manager.prepare()
    filled(manager, 92, number)
    assert "says gate" not in words(manager.prepare())  # not yet at the mark
    filled(manager, 96, 100)
    threading.Timer(0.05, writer.open.set).start()
    request = manager.prepare()
    assert "says gate" in words(request)
    assert request.tokens * 100 < manager.window.effective * 90


def test_where_nobody_was_asked_a_request_does_not_wait():
    writer = Gate(is_open=False)
    manager = manager_of(writer)
    filled(manager, 96)
    request = manager.prepare()  # the first request there is
    assert [report.stage for report in request.reports] == ["collapse"]
    assert "- `Read /src/part_0.py`" in words(request)
    writer.open.set()


@pytest.mark.parametrize("form", ["function", "coroutine"])
def test_a_function_is_a_summarizer_here_too(form):
    async def later(request: Any) -> str:
        await asyncio.sleep(0)
        return "All of it was fine, says the function."

    def now(request: Any) -> str:
        return "All of it was fine, says the function."

    manager = manager_of(now if form == "function" else later)
    number = filled(manager, 75)
    manager.prepare()
    assert manager.stage_ahead() > 0
    filled(manager, 92, number)
    assert "says the function" in words(manager.prepare())


def test_a_line_names_a_summarizer_when_the_manager_is_made():
    with pytest.raises(ValueError, match="summarizer: must be one of"):
        manager_of("nobody:model")


def test_off_and_without_a_model_nothing_is_asked_in_the_background():
    for writer, changes in ((None, {}), (Gate(), {"collapse.enabled": False})):
        manager = manager_of(writer, **changes)
        filled(manager, 75)
        manager.prepare()
        assert not manager.host.background.running


def test_two_batches_are_not_asked_for_at_once():
    writer = Gate(is_open=False)
    manager = manager_of(writer)
    number = filled(manager, 75)
    manager.prepare()
    until(lambda: len(writer.threads) > 0)
    asked = len(writer.threads)
    filled(manager, 88, number)
    manager.prepare()
    assert len(writer.threads) == asked
    writer.open.set()
    assert manager.stage_ahead() > 0
    spans = sorted((each.first, each.last) for each in staged(manager))
    assert all(a[1] < b[0] for a, b in itertools.pairwise(spans))


# ---- a task


def test_in_an_event_loop_it_is_a_task():
    asked: list[str] = []

    async def writer(request: Any) -> str:
        asked.append(threading.current_thread().name)
        await asyncio.sleep(0.01)
        return "All of it was fine, says the task."

    async def main() -> tuple[ContextManager, Any]:
        manager = manager_of(writer)
        number = filled(manager, 75)
        await manager.aprepare()
        while manager.host.background.running:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        assert staged(manager)
        filled(manager, 92, number)
        return manager, await manager.aprepare()

    _, request = asyncio.run(main())
    assert set(asked) == {threading.current_thread().name}
    assert "says the task" in words(request)


def test_a_synchronous_call_ends_the_task_that_its_loop_could_not_go_on_with():
    async def writer(request: Any) -> str:
        await asyncio.sleep(WAIT)
        return "never"

    async def main() -> None:
        manager = manager_of(writer)
        number = filled(manager, 75)
        await manager.aprepare()
        await asyncio.sleep(0.01)
        assert manager.machine.states["collapse"].running == 1
        filled(manager, 96, number)
        begun = time.monotonic()
        assert "- `Read /src/part_0.py`" in words(manager.prepare())
        assert time.monotonic() - begun < WAIT / 2
        assert not manager.host.background._in_loop

    asyncio.run(main())


# ---- where collapse is at its end


def test_where_collapse_makes_too_little_room_a_compaction_comes_after_all(monkeypatch):
    monkeypatch.setattr(spans, "candidates", lambda *given: [])
    manager = manager_of(None)
    number = filled(manager, 99)
    assert not manager.prepare().reports
    assert manager.decide().code == "collapse"
    filled(manager, 102, number)
    request = manager.prepare()
    assert [report.stage for report in request.reports] == ["autocompact"]
    assert request.reports[0].why == "context collapse could not make enough room"
    assert request.tokens < manager.window.effective // 2


@pytest.mark.parametrize("changes", [{"auto.enabled": False}, {"auto.reactive_only": True}])
def test_but_not_where_compactions_are_off(monkeypatch, changes):
    monkeypatch.setattr(spans, "candidates", lambda *given: [])
    manager = manager_of(None, **changes)
    filled(manager, 102)
    assert not manager.prepare().reports


# ---- one call at a time


def slow(begun: asyncio.Event) -> Any:
    async def writer(request: Any) -> str:
        begun.set()
        await asyncio.sleep(WAIT)
        return "never"

    return writer


def compacting(begun: asyncio.Event) -> ContextManager:
    """Its next request waits for a summary."""
    manager = manager_of(slow(begun), **{"collapse.enabled": False, "auto.start_percent": 10})
    filled(manager, 50)
    return manager


OVERFLOW = "prompt is too long: 213462 tokens > 200000 maximum"
SECOND: dict[str, Callable[[ContextManager], Any]] = {
    "prepare": lambda manager: manager.prepare(),
    "aprepare": lambda manager: manager.aprepare(),
    "on_overflow": lambda manager: manager.on_overflow(OVERFLOW),
    "aon_overflow": lambda manager: manager.aon_overflow(OVERFLOW),
}


async def called(second: Callable[[ContextManager], Any], manager: ContextManager) -> None:
    outcome = second(manager)
    if asyncio.iscoroutine(outcome):
        await outcome


@pytest.mark.parametrize("name", SECOND)
def test_a_second_call_is_refused_by_name_and_changes_nothing(name):
    async def main() -> None:
        begun = asyncio.Event()
        manager = compacting(begun)
        first = asyncio.create_task(manager.aprepare())
        await begun.wait()
        before = manager.save()
        with pytest.raises(ManagerBusy) as caught:
            await called(SECOND[name], manager)
        assert (caught.value.asked, caught.value.running) == (name, "aprepare")
        assert str(caught.value).startswith(f"{name} was called while aprepare is running")
        assert manager.save() == before
        manager.add(GO_ON)  # what comes meanwhile is taken
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        # Nobody is at work any more.
        begun.clear()
        again = asyncio.create_task(manager.aprepare())
        await begun.wait()
        again.cancel()

    asyncio.run(main())


def test_of_two_at_once_one_is_refused_and_the_other_is_as_alone():
    async def main() -> list[Any]:
        async def writer(request: Any) -> str:
            await asyncio.sleep(0.02)
            return ""

        manager = manager_of(writer, **{"collapse.enabled": False, "auto.start_percent": 10})
        filled(manager, 50)
        return await asyncio.gather(manager.aprepare(), manager.aprepare(), return_exceptions=True)

    first, second = asyncio.run(main())
    assert isinstance(second, ManagerBusy)
    assert first.number == 1
    assert [report.stage for report in first.reports] == ["autocompact"]


def test_in_threads_too():
    writer = Gate(is_open=False)
    manager = manager_of(writer, **{"collapse.enabled": False, "auto.start_percent": 10})
    filled(manager, 50)
    got: list[Any] = []
    thread = threading.Thread(target=lambda: got.append(manager.prepare()))
    thread.start()
    until(lambda: bool(writer.threads))
    with pytest.raises(ManagerBusy, match="prepare was called while prepare is running"):
        manager.prepare()
    writer.open.set()
    thread.join(WAIT)
    assert got[0].number == 1


def test_a_listener_that_asks_for_a_request_inside_of_one_is_refused_and_nothing_else_happens():
    refused: list[Exception] = []

    def listener(event: Any) -> None:
        try:
            manager.prepare()
        except ManagerBusy as error:
            refused.append(error)

    policy = Policy.buffered().change({"snip.start_percent": 0, "snip.on_arrival": True})
    manager = ContextManager(model=MODEL, policy=policy, listeners=[listener])
    call, result = step(1)
    result["content"][0]["content"] = "word " * 9_000  # is snipped, of which listeners are notified
    for message in (GO_ON, call, result):
        manager.add(message)
    assert [report.stage for report in manager.prepare().reports] == ["snip"]
    assert [(each.asked, each.running) for each in refused] == [("prepare", "prepare")]
