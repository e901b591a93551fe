"""Session notes with a context manager: kept up to date by what is observed, used when room is needed."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

import pytest

from tests.kit import result, said, use, user
from tests.oracle.legality import assert_legal
from ullage.counting.window import WindowSettings
from ullage.facts.sections import OPENING
from ullage.manager import ContextManager
from ullage.memory.session import SessionMemory, Slots
from ullage.memory.session.session_memory import UpdateOutcome
from ullage.memory.session.template import covered_end, read_record
from ullage.observe.events import LevelActed, SessionMemoryFinished, SessionMemoryStarted
from ullage.policy import SessionMemoryPolicy
from ullage.testing import ScriptedSummarizer

WORDS = "The quick brown fox looks at the lazy dog and thinks about lunch. "


def feed(manager: ContextManager, rounds: int, *, start: int = 0, size: int = 60):
    """Rounds of work; gives each request."""
    for at in range(start, start + rounds):
        call = {
            "type": "tool_use",
            "id": f"t{at}",
            "name": "Bash",
            "input": {"command": f"make {at}"},
        }
        result = {"type": "tool_result", "tool_use_id": f"t{at}", "content": f"{at} {WORDS * size}"}
        manager.add({"role": "user", "content": f"Please do step {at} of the plan."})
        yield manager.prepare()
        manager.observe({"role": "assistant", "content": [call]})
        manager.add({"role": "user", "content": [result]})
        yield manager.prepare()
        manager.observe({"role": "assistant", "content": f"Step {at} is done."})


def made(folder: Path, **options) -> ContextManager:
    memory = SessionMemory(folder, mode="inline", **options)
    return ContextManager(
        model="claude-opus-4-5",
        memory=memory,
        summarizer=ScriptedSummarizer(),
        settings=WindowSettings(auto_compact_window=80_000),
    )


def test_the_first_choice_of_autocompact_needs_no_call(tmp_path):
    manager = made(tmp_path / "m")
    results = []
    for request in feed(manager, 100):
        assert_legal("anthropic", request.messages, model="claude-opus-4-5")
        if request.compaction is not None:
            results.append(request.compaction)
            stages = [report.stage for report in request.reports]
            assert "session_memory" in stages
            assert request.messages[0]["content"].startswith(OPENING)
    assert len(results) >= 1
    assert {r.report.summarizer for r in results} == {"session_memory"}
    assert manager.host.summarizer.calls == 0
    outcomes = {r.outcome for r in manager.host.memory.reports}
    assert outcomes == {UpdateOutcome.UPDATED}
    assert manager.machine.tracking.failures == 0


def test_growth_after_a_compaction_is_counted_from_the_new_size(tmp_path):
    manager = made(tmp_path / "m")
    compacted, updates = None, []
    for at, request in enumerate(feed(manager, 100)):
        if request.compaction is not None and compacted is None:
            compacted = at
        updates.append(manager.host.memory._progress.tokens)
    after = [tokens for tokens in updates[compacted:] if tokens < 40_000]
    assert len(set(after)) > 3


def test_what_comes_back_after_a_compaction_is_no_growth(tmp_path):
    manager = made(tmp_path / "m")
    manager.add(user("Work through this list. " + WORDS * 1_500))
    sizes = []
    for at in range(100):
        manager.observe(said([use(f"t{at}", "Bash", command=f"make {at}")]))
        manager.add(user([result(f"t{at}", f"{at} {WORDS * 60}")]))
        request = manager.prepare()
        if any(each.stage == "session_memory" for each in request.reports):
            sizes.append((manager.host.memory._progress.tokens, manager.machine.tokens))
    assert len(sizes) >= 3
    assert all(counted == real for counted, real in sizes)


def test_a_manual_compaction_without_instructions_tries_the_notes_first(tmp_path):
    manager = made(tmp_path / "m")
    for _ in feed(manager, 30):
        pass
    result = manager.compact("Mind the plan.")
    assert result.report.summarizer == "scripted"
    for _ in feed(manager, 30, start=60):
        pass
    result = manager.compact()
    assert result.report.summarizer == "session_memory"
    assert manager.host.summarizer.calls == 1


def test_without_notes_the_summary_is_written_and_it_is_said_why(tmp_path):
    manager = made(tmp_path / "m", policy=SessionMemoryPolicy(enabled=False))
    for _ in feed(manager, 30):
        pass
    result = manager.compact()
    assert result.report.summarizer == "scripted"
    assert "session_memory_passed:no_memory" in result.report.warnings


def test_other_sources_do_not_touch_the_notes(tmp_path):
    memory = SessionMemory(tmp_path / "m", mode="inline")
    manager = ContextManager(model="claude-opus-4-5", memory=memory, source="subagent")
    for _ in feed(manager, 30):
        pass
    assert not memory.path.exists()
    assert list(memory.reports) == []


def test_facts_of_what_an_earlier_compaction_took_away_are_not_lost(tmp_path):
    manager = made(tmp_path / "m")
    for _ in feed(manager, 100):
        pass
    assert manager.machine.tracking.compactions >= 1
    assert "Please do step 0 of the plan." in manager.host.memory.notes()


def test_events_tell_of_updates(tmp_path):
    events: list = []
    manager = made(tmp_path / "m", listeners=(events.append, lambda event: 1 / 0))
    for _ in feed(manager, 30):
        pass
    assert {type(e) for e in events} == {SessionMemoryStarted, SessionMemoryFinished}
    finished = [e for e in events if isinstance(e, SessionMemoryFinished)]
    assert finished[0].outcome == "updated"
    assert events[0] == SessionMemoryStarted(reason="first", tokens=events[0].tokens)
    assert not [e for e in events if isinstance(e, LevelActed)]


# ---- in the background ------------------------------------------------------------------------


class Slow:
    """A model that answers when it is let."""

    name = "slow"

    def __init__(self) -> None:
        self.go = threading.Event()
        self.calls = 0
        self.longest: list[int] = []

    def summarize(self, request):
        self.calls += 1
        self.longest.append(len(request.messages))
        assert self.go.wait(20)
        return "<done/>"


def conversation(rounds: int) -> list[dict]:
    items = []
    for at in range(rounds):
        items += [
            {"role": "user", "content": f"Step {at}, please."},
            {"role": "assistant", "content": f"Step {at} is done."},
        ]
    return items


def test_the_agent_never_waits_and_requests_coalesce(tmp_path):
    slow = Slow()
    memory = SessionMemory(tmp_path / "m", summarizer=slow, mode="thread")
    items = conversation(40)
    began = time.monotonic()
    for at in range(2, 81, 2):
        memory.answered(items[at - 1], items[:at], tokens=10_000 * at)
    assert time.monotonic() - began < 15  # one answer would have taken 20
    slow.go.set()
    assert memory.wait(20)
    # The first, and the newest of all that came while it ran.
    assert slow.calls == 2
    record = read_record((tmp_path / "m" / "state.json").read_bytes())
    assert covered_end(items, record.covered) == 80


def test_cancelled_work_writes_nothing(tmp_path):
    slow = Slow()
    memory = SessionMemory(tmp_path / "m", summarizer=slow, mode="thread")
    items = conversation(10)
    memory.answered(items[-1], items, tokens=50_000)
    memory.answered(items[-1], items, tokens=90_000)
    memory.close()
    slow.go.set()
    assert memory.wait(20)
    assert [r.outcome for r in memory.reports] == [UpdateOutcome.CANCELLED]
    assert not memory.path.exists()
    assert memory.busy_seconds() is None


def test_stuck_work_is_put_out_and_the_next_goes_on(tmp_path):
    slow = Slow()
    memory = SessionMemory(tmp_path / "m", summarizer=slow, mode="thread")
    clock = [0.0]
    memory._background._clock = lambda: clock[0]
    items = conversation(10)
    memory.answered(items[-1], items, tokens=50_000)
    while not slow.calls:
        time.sleep(0.01)
    clock[0] = 61.0
    assert memory.busy_seconds() == 61.0
    memory._set = type(memory._set)(
        **{
            name: getattr(memory._set, name)
            for name in memory._set.__slots__
            if name != "summarizer"
        },
        summarizer=None,
    )
    memory.answered(items[-1], items, tokens=90_000)
    assert memory.wait(20)
    assert [r.outcome for r in memory.reports] == [UpdateOutcome.DROPPED, UpdateOutcome.UPDATED]
    before = memory.notes()
    slow.go.set()
    time.sleep(0.2)
    assert memory.notes() == before
    assert len(memory.reports) == 2


def test_slots_bound_all_sessions_together(tmp_path):
    slow, slots = Slow(), Slots(2)
    options = {"summarizer": slow, "mode": "thread", "slots": slots}
    memories = [SessionMemory(tmp_path / str(n), **options) for n in range(5)]
    items = conversation(10)
    for memory in memories:
        assert memory.answered(items[-1], items, tokens=50_000).update
    assert [memory.busy_seconds() is not None for memory in memories] == [True, True] + [False] * 3
    slow.go.set()
    assert all(memory.wait(20) for memory in memories)
    # Who found no slot is due again with the next response.
    assert memories[4].answered(items[-1], items, tokens=50_001).update
    assert memories[4].wait(20)
    assert memories[4].path.exists()


def test_a_thread_awaits_a_model_that_has_only_an_asynchronous_form(tmp_path):
    class Asked:
        name = "asked"

        async def asummarize(self, request):
            await asyncio.sleep(0.01)
            return "<done/>"

    memory = SessionMemory(tmp_path / "m", summarizer=Asked(), mode="thread")
    items = conversation(10)
    memory.answered(items[-1], items, tokens=50_000)
    assert memory.wait(20)
    assert [each.outcome for each in memory.reports] != [UpdateOutcome.FAILED]
    assert memory.reports[-1].updater == "asked"


def test_an_asynchronous_host_gets_a_task(tmp_path):
    threads: list[str] = []

    class Asked:
        name = "asked"

        async def asummarize(self, request):
            threads.append(threading.current_thread().name)
            await asyncio.sleep(0.01)
            return "<done/>"

    async def host():
        memory = SessionMemory(tmp_path / "m", summarizer=Asked())
        items = conversation(10)
        memory.answered(items[-1], items, tokens=50_000)
        assert memory.busy_seconds() is None  # waiting in the loop's own thread would help nobody
        assert await memory.settled(20)
        return memory

    memory = asyncio.run(host())
    assert [r.outcome for r in memory.reports] == [UpdateOutcome.UNCHANGED]
    assert threads == [threading.main_thread().name]


def test_a_loop_that_ends_cancels_its_task(tmp_path):
    class Never:
        name = "never"

        async def asummarize(self, request):
            await asyncio.sleep(3600)

    async def host():
        memory = SessionMemory(tmp_path / "m", summarizer=Never())
        items = conversation(10)
        memory.answered(items[-1], items, tokens=50_000)
        await asyncio.sleep(0.1)
        return memory

    memory = asyncio.run(host())
    assert [r.outcome for r in memory.reports] == [UpdateOutcome.CANCELLED]
    assert memory.busy_seconds() is None
    assert (
        SessionMemory(tmp_path / "m", mode="inline").update(conversation(1)).outcome.value
        == "updated"
    )


def test_an_asynchronous_manager_waits_for_its_update(tmp_path):
    memory = SessionMemory(tmp_path / "m")
    manager = ContextManager(model="claude-opus-4-5", memory=memory)

    async def host():
        for at in range(60):
            manager.add({"role": "user", "content": f"Step {at}. {WORDS * 40}"})
            await manager.aprepare()
            manager.observe(
                {"role": "assistant", "content": f"Step {at} is done. {WORDS * 20}".strip()}
            )
        return await manager.acompact()

    result = asyncio.run(host())
    assert result.report.summarizer == "session_memory"


@pytest.mark.parametrize("mode", ["thread", "inline"])
def test_a_summarizer_that_raises_anything_stays_inside(tmp_path, mode):
    def broken(request):
        raise ZeroDivisionError("oh")

    memory = SessionMemory(tmp_path / "m", summarizer=broken, mode=mode)
    items = conversation(10)
    memory.answered(items[-1], items, tokens=50_000)
    assert memory.wait(20)
    assert [r.outcome for r in memory.reports] == [UpdateOutcome.FAILED]


def test_the_managers_listeners_hear_of_updates(tmp_path):
    heard: list[str] = []
    own: list[str] = []

    def listener(event):
        heard.append(type(event).__name__)

    notes = SessionMemory(
        tmp_path / "notes", mode="inline", listeners=[lambda event: own.append("x"), listener]
    )
    manager = ContextManager(model="claude-opus-4-5", memory=notes, listeners=[listener])
    manager.add({"role": "user", "content": "Fix the login page."})
    notes.update(manager.history)
    assert heard.count("SessionMemoryFinished") == len(own) == 1
    quiet = SessionMemory(tmp_path / "other", mode="inline")
    manager = ContextManager(model="claude-opus-4-5", memory=quiet, listeners=[listener])
    manager.add({"role": "user", "content": "Fix the login page."})
    quiet.update(manager.history)
    assert heard.count("SessionMemoryFinished") == 2
