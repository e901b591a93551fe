"""Work in the background: one piece at a time, time limits, cancellation, forks, and what is raised."""

from __future__ import annotations

import asyncio
import contextvars
import multiprocessing
import os
import sys
import threading
import time
from typing import Any

import pytest

from ullage.effects.background import (
    BackgroundRunner,
    BackgroundWork,
    Late,
    Slots,
    await_watched,
    call_watched,
    call_with_deadline,
)

WAIT = 10.0


class Gated:
    """Work that waits for a gate, and remembers what became of it."""

    def __init__(self, name: str = "", *, is_open: bool = False) -> None:
        self.name, self.gate = name, threading.Event()
        self.results: list[Any] = []
        self.given_up = 0
        if is_open:
            self.gate.set()
        self.work = BackgroundWork(
            self.run, self.arun, done=self.results.append, given_up=self.give_up
        )

    def run(self, cancel: Any) -> str:
        end = time.monotonic() + WAIT
        while not self.gate.wait(0.005) and not cancel.is_set() and time.monotonic() < end:
            pass
        return f"{self.name} by {threading.current_thread().name}"

    async def arun(self, cancel: Any) -> str:
        while not self.gate.is_set() and not cancel.is_set():  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        return f"{self.name} by a task"

    def give_up(self) -> None:
        self.given_up += 1


# ---- one call


def test_a_call_in_time_returns_and_raises_as_it_would_in_place():
    asked = contextvars.ContextVar("asked", default="")
    asked.set("the caller's")
    assert call_with_deadline(asked.get, WAIT) == "the caller's"
    assert call_with_deadline(threading.current_thread, None) is threading.current_thread()
    with pytest.raises(ZeroDivisionError):
        call_with_deadline(lambda: 1 // 0, WAIT)


def test_a_late_call_is_abandoned():
    gate = threading.Event()
    with pytest.raises(Late):
        call_with_deadline(gate.wait, 0.02)
    gate.set()


def test_a_watched_call_ends_when_its_watcher_says_so():
    gate, looks = threading.Event(), list[int]()

    def check() -> None:
        looks.append(1)
        if len(looks) == 2:
            raise TimeoutError("enough")

    with pytest.raises(TimeoutError, match="enough"):
        call_watched(lambda: gate.wait(WAIT), check)
    gate.set()
    assert call_watched(lambda: 7, check) == 7


def test_a_watched_awaitable_is_stopped_and_cancelled():
    seen: list[str] = []

    async def answer() -> None:
        try:
            await asyncio.sleep(WAIT)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    def check() -> None:
        raise TimeoutError("late")

    async def main() -> None:
        with pytest.raises(TimeoutError, match="late"):
            await await_watched(answer(), check, lambda: seen.append("stopped"))

    asyncio.run(main())
    assert seen == ["stopped", "cancelled"]


# ---- where it runs


def test_without_an_event_loop_it_is_a_daemon_thread():
    one, background = Gated("a", is_open=True), BackgroundRunner("ullage-test")
    assert background.submit(one.work) == "begun"
    assert background.wait(WAIT)
    assert one.results == ["a by ullage-test"]


def test_in_an_event_loop_it_is_a_task_unless_a_thread_is_asked_for():
    async def main() -> list[Any]:
        both = []
        for mode in (None, "thread"):
            one, background = Gated("a", is_open=True), BackgroundRunner("ullage-test")
            background.submit(one.work, mode=mode)
            assert background.waits_for_caller() == (mode is None)
            assert await background.settled(WAIT)
            both += one.results
        return both

    assert asyncio.run(main()) == ["a by a task", "a by ullage-test"]


def test_inline_it_is_done_when_submit_returns():
    one = Gated("a", is_open=True)
    BackgroundRunner(mode="inline").submit(one.work)
    assert one.results == ["a by MainThread"]


# ---- one at a time


def test_the_newest_that_came_meanwhile_is_next():
    background, (a, b, c) = BackgroundRunner(), (Gated("a"), Gated("b"), Gated("c", is_open=True))
    said = [background.submit(each.work) for each in (a, b, c)]
    assert said == ["begun", "waiting", "waiting"]
    assert not background.wait(0.02)
    a.gate.set()
    assert background.wait(WAIT)
    assert (len(a.results), b.results, len(c.results)) == (1, [], 1)


@pytest.mark.parametrize("mode", ["inline", "thread"])
def test_what_waits_runs_in_the_mode_in_which_it_was_submitted(mode):
    other = "thread" if mode == "inline" else "inline"
    first, background = Gated("first"), BackgroundRunner(mode=other)
    threads: list[threading.Thread] = []
    first.work.done = lambda _: threads.append(threading.current_thread())
    second = BackgroundWork(
        lambda _: threads.append(threading.current_thread()), unasked, done=lambda _: None
    )
    background.submit(first.work, mode="thread")
    assert background.submit(second, mode=mode) == "waiting"
    first.gate.set()
    assert background.wait(WAIT)
    # Inline is where the first one ended.
    assert (threads[0] is threads[1]) == (mode == "inline")


def test_no_more_run_at_once_than_there_are_slots():
    slots, works = Slots(1), (Gated("a"), Gated("b"))
    one, two = BackgroundRunner(slots=slots), BackgroundRunner(slots=slots)
    assert [one.submit(works[0].work), two.submit(works[1].work)] == ["begun", "no_slot"]
    works[0].gate.set()
    assert one.wait(WAIT)
    works[1].gate.set()
    deadline = time.monotonic() + WAIT
    while two.submit(works[1].work) == "no_slot" and time.monotonic() < deadline:
        time.sleep(0.005)
    assert two.wait(WAIT)
    assert len(works[1].results) == 1


# ---- time


def test_what_waited_too_long_is_dropped():
    clock, one, two = [0.0], Gated("a"), Gated("b", is_open=True)
    background = BackgroundRunner(stale_seconds=60, clock=lambda: clock[0])
    background.submit(one.work)
    background.submit(two.work)
    clock[0] = 100.0
    one.gate.set()
    assert background.wait(WAIT)
    assert (len(one.results), two.results) == (1, [])


def test_what_runs_too_long_is_given_up_when_new_work_comes():
    clock, one, two = [0.0], Gated("a"), Gated("b", is_open=True)
    background = BackgroundRunner(stale_seconds=60, slots=Slots(1), clock=lambda: clock[0])
    background.submit(one.work)
    clock[0] = 61.0
    assert background.busy_seconds() == 61.0
    assert background.submit(two.work) == "begun"
    assert background.wait(WAIT)
    assert (one.given_up, one.work.cancelled.is_set(), one.results) == (1, True, [])
    assert len(two.results) == 1


def test_work_of_a_closed_event_loop_does_not_count():
    background, lost, after = BackgroundRunner(), Gated("a"), Gated("b", is_open=True)
    loop = asyncio.new_event_loop()

    async def begin() -> None:
        background.submit(lost.work)

    loop.run_until_complete(begin())
    loop.close()
    assert not background.running
    assert background.wait(0)
    assert background.submit(after.work) == "begun"
    assert background.wait(WAIT)
    assert lost.given_up == 1
    lost.work.task = None


# ---- cancellation and exceptions


def test_a_cancelled_thread_sees_it_and_what_waits_is_forgotten():
    background, one, two = BackgroundRunner(), Gated("a"), Gated("b", is_open=True)
    background.submit(one.work)
    background.submit(two.work)
    background.cancel()
    assert background.wait(WAIT)
    assert (len(one.results), two.results) == (1, [])


def test_a_cancelled_task_has_no_result():
    async def main() -> list[Any]:
        background, one = BackgroundRunner(), Gated("a")

        async def forever(cancel: Any) -> None:
            await asyncio.sleep(WAIT)

        one.work.arun = forever
        background.submit(one.work)
        await asyncio.sleep(0)
        background.cancel()
        assert await background.settled(WAIT)
        return one.results

    assert asyncio.run(main()) == [None]


async def unasked(cancel: Any) -> None:
    raise AssertionError("there is no event loop")


@pytest.mark.parametrize("error", [ValueError("bad"), SystemExit(3)])
def test_what_is_raised_is_the_result(error):
    def run(cancel: Any) -> None:
        raise error

    found: list[Any] = []
    background = BackgroundRunner()
    background.submit(BackgroundWork(run, unasked, done=found.append))
    assert background.wait(WAIT)
    wanted = error if isinstance(error, Exception) else RuntimeError(repr(error))
    assert repr(found) == repr([wanted])


def test_what_the_receiver_raises_is_reported_and_stops_nothing(monkeypatch):
    reported: list[type[BaseException]] = []
    monkeypatch.setattr(sys, "excepthook", lambda kind, *rest: reported.append(kind))
    background, after = BackgroundRunner(), Gated("b", is_open=True)
    background.submit(
        BackgroundWork(lambda cancel: 1, unasked, done=lambda result: 1 // result // 0)
    )
    assert background.wait(WAIT)
    background.submit(after.work)
    assert background.wait(WAIT)
    assert (reported, len(after.results)) == ([ZeroDivisionError], 1)


# ---- forks


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_begins_idle():
    slots = Slots(1)
    background, one = BackgroundRunner(slots=slots), Gated("a")
    background.submit(one.work)
    context = multiprocessing.get_context("fork")
    said = context.SimpleQueue()

    def child() -> None:
        mine = Gated("b", is_open=True)
        idle = not background.running
        background._lock.acquire(blocking=False)  # as if another thread had held it
        background._process = -1
        said.put([idle, background.submit(mine.work), background.wait(WAIT), len(mine.results)])

    process = context.Process(target=child)
    process.start()
    assert said.get() == [True, "begun", True, 1]
    process.join(WAIT)
    assert background.running
    one.gate.set()
    assert background.wait(WAIT)
