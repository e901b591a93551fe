"""Extraction in the background: when it begins, what it reads, and what cancels it."""

from __future__ import annotations

import asyncio
import json
import threading

import pytest

from ullage import compact
from ullage.memory.notes import MemoryFolder, NoteKeeper
from ullage.memory.session import SessionMemory, Slots

READ = json.dumps({"read": [], "run": []})


def turn(at: int, text: str = "") -> list[dict]:
    call = {"type": "tool_use", "id": f"t{at}", "name": "Bash", "input": {"command": "make"}}
    result = {"type": "tool_result", "tool_use_id": f"t{at}", "content": "ok"}
    return [
        {"role": "user", "content": text or f"Please do step {at}."},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
        {"role": "assistant", "content": f"Step {at} is done."},
    ]


def note(name: str) -> str:
    made = {"name": name, "description": "d", "type": "project", "body": name}
    return json.dumps({"write": [made]})


class Model:
    name = "scripted"

    def __init__(self, *answers, gate: threading.Event | None = None) -> None:
        self.answers, self.gate, self.shown = list(answers), gate, []
        self.began = threading.Event()

    def summarize(self, request):
        self.began.set()
        assert self.gate is None or self.gate.wait(20)
        self.shown.append([m["content"] for m in request.messages if isinstance(m["content"], str)])
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def folder(tmp_path):
    return MemoryFolder(tmp_path / "memory")


def feed(keeper: NoteKeeper, turns: int, *, start: int = 0, items=None) -> list[dict]:
    items = [] if items is None else items
    for at in range(start, start + turns):
        for message in turn(at):
            items.append(message)
            keeper.answered(message, items)
    return items


def test_it_begins_when_a_turn_ends_and_reads_what_is_new(folder):
    model = Model(READ, note("One"), READ, note("Two"))
    keeper = NoteKeeper(folder, model=model, mode="inline")
    items = feed(keeper, 2)
    assert [n.name for n in sorted(folder.notes(), key=lambda n: n.name)] == ["One", "Two"]
    assert model.shown[0] == ["Please do step 0.", "Step 0 is done."]
    assert model.shown[2] == ["Please do step 1.", "Step 1 is done."]
    assert not keeper.answered(items[-3], items[:-2])
    assert not keeper.answered(items[-1], items, source="subagent")


def test_without_a_model_lasting_instructions_are_copied(folder):
    keeper = NoteKeeper(folder, mode="inline")
    items = turn(0, "From now on always run make lint before you commit.")
    assert keeper.answered(items[-1], items)
    assert len(folder.notes()) == 1
    items += turn(1)
    keeper.answered(items[-1], items)
    assert len(folder.notes()) == 1


def test_a_failure_is_read_again_and_makes_it_wait(folder):
    model = Model(RuntimeError("down"), READ, note("Both"))
    keeper = NoteKeeper(folder, model=model, mode="inline")
    items = feed(keeper, 1)
    assert not folder.notes()
    assert list(keeper.reports) == []
    feed(keeper, 1, start=1, items=items)
    assert len(model.shown) == 1  # after a failure two turns are waited for
    feed(keeper, 1, start=2, items=items)
    assert [n.name for n in folder.notes()] == ["Both"]
    assert model.shown[1][0] == "Please do step 0."


def test_every_few_turns(folder):
    model = Model(READ, note("One"))
    keeper = NoteKeeper(folder, model=model, mode="inline", every_turns=3)
    feed(keeper, 5)
    assert len(model.shown) == 2
    assert model.shown[0][0] == "Please do step 0."
    assert model.shown[0][-1] == "Step 2 is done."


def test_what_was_there_before_a_resume_is_not_read(folder):
    model = Model(READ, note("One"))
    keeper = NoteKeeper(folder, model=model, mode="inline")
    items = turn(0)
    keeper.begin(items)
    feed(keeper, 1, start=1, items=items)
    assert model.shown[0] == ["Please do step 1.", "Step 1 is done."]


def test_after_a_compaction_the_summary_is_not_read_as_news(folder):
    model = Model(*[READ, '{"write": []}'] * 3)
    keeper = NoteKeeper(folder, model=model, mode="inline")
    items = [m for at in range(40) for m in turn(at, "Please go on with the plan. " * 20)]
    keeper.answered(items[-1], items)
    short = [*compact(items, keep=0).messages, *turn(99)]
    keeper.answered(short[-1], short)
    assert model.shown[2] == ["Please do step 99.", "Step 99 is done."]


def test_turns_that_end_meanwhile_are_read_together(folder):
    gate = threading.Event()
    model = Model(READ, note("One"), READ, note("Two"), gate=gate)
    keeper = NoteKeeper(folder, model=model, mode="thread")
    items = feed(keeper, 1)
    assert model.began.wait(20)
    feed(keeper, 5, start=1, items=items)
    gate.set()
    assert keeper.wait(20)
    assert len(model.shown) == 4
    assert model.shown[2][0] == "Please do step 1."
    assert model.shown[2][-1] == "Step 5 is done."


def test_cancelled_while_the_model_thinks_nothing_is_written(folder):
    gate = threading.Event()
    model = Model(READ, note("One"), gate=gate)
    keeper = NoteKeeper(folder, model=model, mode="thread")
    items = feed(keeper, 1)
    assert model.began.wait(20)
    keeper.close()
    gate.set()
    assert keeper.wait(20)
    assert not folder.notes()
    assert list(keeper.reports) == []
    assert not keeper.answered(items[-1], items)


def test_slots_are_shared_with_the_notes_of_the_session(folder, tmp_path):
    gate, slots = threading.Event(), Slots(1)
    model = Model(READ, note("One"), gate=gate)
    keeper = NoteKeeper(folder, model=model, mode="thread", slots=slots)
    items = feed(keeper, 1)
    memory = SessionMemory(tmp_path / "s", mode="thread", slots=slots)
    memory.answered(items[-1], items, tokens=50_000)
    assert memory.busy_seconds() is None
    gate.set()
    assert keeper.wait(20)
    memory.answered(items[-1], items, tokens=50_000)
    assert memory.wait(20)
    assert memory.path.exists()


def test_an_asynchronous_host_gets_a_task(folder):
    async def host():
        keeper = NoteKeeper(folder, model=Model(READ, note("One")))
        feed(keeper, 1)
        assert keeper.busy_seconds() is not None
        assert await keeper.settled(20)

    asyncio.run(host())
    assert [n.name for n in folder.notes()] == ["One"]
