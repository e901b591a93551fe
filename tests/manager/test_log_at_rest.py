"""A request for which no level had anything to do is one short line of the log; what it changed is made again from there."""

from __future__ import annotations

import json
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from benches import bodies

from tests.crash_kit import faulty
from tests.manager.test_context_log import MODEL, QUIET, SCENARIOS, Run
from ullage import ContextManager, Policy
from ullage.exceptions import InvalidTranscript, StoreError
from ullage.manager.journal import Journal
from ullage.manager.keeping import MOST_TOLD

STATE, RESTED = 1, 2


def after(name: str, folder: Path, steps: int) -> tuple[Run, dict[str, Any]]:
    """A process that took so many steps, and its whole state; saving it changes nothing in the log that is left."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    run = Run(name, folder)
    with run.fresh() as manager:
        for at, _ in run.go(manager):
            if at + 1 == steps:
                break
        log = run.path.read_bytes()
        saved = manager.save(history=True)
    run.path.write_bytes(log)
    return run, plain(saved)


def plain(saved: Any) -> Any:
    return json.loads(json.dumps(saved))


def forms(path: Path) -> list[int]:
    lines = map(json.loads, path.read_bytes().splitlines())
    return [line["format"] for line in lines if line["type"] == "ullage-manager"]


@pytest.mark.parametrize("name", [name for name in SCENARIOS if name != "notes"])
def test_a_resumed_conversation_is_in_the_whole_state_of_the_one_that_ended(name, tmp_path):
    steps = len(Run(name, tmp_path).steps)
    for stop in range(steps // 5, steps, steps // 5):
        run, saved = after(name, tmp_path / "run", stop)
        with run.resumed() as manager:
            assert plain(manager.save(history=True)) == saved


@pytest.mark.parametrize("name", ["compaction", "refused turn", "by hand", "pins"])
def test_a_log_with_a_line_of_the_state_for_each_request_is_read_as_before(
    name, tmp_path, monkeypatch
):
    run, saved = after(name, tmp_path / "run", 40)
    assert RESTED in forms(run.path)
    monkeypatch.setattr(Journal, "_holds", lambda self, machine: False)
    run, as_before = after(name, tmp_path / "run", 40)
    assert RESTED not in forms(run.path)
    with run.resumed() as manager:
        # Its names of messages are its own.
        resumed = plain(manager.save(history=True))
    for state in (saved, as_before, resumed):
        del state["uuids"]
    assert saved == as_before == resumed


def quiet(path: Path | None, turns: int = 0) -> ContextManager:
    policy = Policy.buffered().change(QUIET)
    manager = ContextManager(model=MODEL, policy=policy, log=path, clock=lambda: 1_767_225_600_000)
    for number in range(turns):
        turn(manager, number)
    return manager


def turn(manager: ContextManager, number: int) -> None:
    manager.add({"role": "user", "content": f"Question {number}."})
    manager.prepare()
    text = {"type": "text", "text": f"Answer {number}."}
    usage = {"input_tokens": 300 + 30 * number, "output_tokens": 10}
    manager.observe({"id": f"m{number}", "role": "assistant", "content": [text], "usage": usage})


def test_a_turn_at_rest_says_no_more_than_that_a_request_was_made(tmp_path):
    with quiet(tmp_path / "s.jsonl", 20) as manager:
        before = (tmp_path / "s.jsonl").stat().st_size
        manager.add({"role": "user", "content": "And now?"})
        manager.prepare()
        with (tmp_path / "s.jsonl").open("rb") as file:
            file.seek(before)
            said, made = map(json.loads, file)
    assert said["ullage"] == {"at": 40}
    assert made == {
        "type": "ullage-manager", "format": RESTED, "what": "prepare", "sessionId": said["sessionId"],
        "at": 41, "number": 21, "tokens": manager.machine.records[-1].tokens, "now_ms": 1_767_225_600_000,
    }  # fmt: skip


def test_what_is_known_of_requests_is_the_same_after_a_resume(tmp_path):
    path = tmp_path / "s.jsonl"
    quiet(path, 2 * MOST_TOLD + 90).close()
    alone = quiet(None, 2 * MOST_TOLD + 90)
    with ContextManager.resume(path) as manager:
        remembered = {record.number: record for record in alone.machine.records}
        assert len(manager.machine.records) >= MOST_TOLD
        for record in manager.machine.records:
            assert remembered.get(record.number, record) == record
        assert manager.machine.records[-1] == alone.machine.records[-1]
        turn(manager, 10_000)
    with ContextManager.resume(path) as again:
        assert again.machine.records[-1].number == alone.machine.requests + 1


@pytest.mark.parametrize("kind", ["fails", "interrupted"])
def test_a_request_at_rest_that_cannot_be_written_was_not_made(tmp_path, kind, monkeypatch):
    path = tmp_path / "s.jsonl"
    with quiet(path, 9) as manager, quiet(tmp_path / "twin.jsonl", 9) as twin:
        for each in (manager, twin):
            each.add({"role": "user", "content": "And now?"})
        log = path.read_bytes()
        if kind == "fails":
            with faulty(1, kill=False), pytest.raises(StoreError):
                refill(manager).prepare()
        else:
            monkeypatch.setattr(Journal, "rested", interrupt)
            with pytest.raises(KeyboardInterrupt):
                manager.prepare()
            monkeypatch.undo()
        assert path.read_bytes() == log
        assert RESTED in forms(path)
        ours, theirs = (plain(each.save(history=True)) for each in (manager, twin))
        del ours["uuids"], theirs["uuids"]
        assert ours == theirs
        assert manager.prepare().body == twin.prepare().body
    with ContextManager.resume(path) as again:
        assert again.machine.requests == 10


def refill(manager: ContextManager) -> ContextManager:
    """The log's file writes as `faulty` says, though it was opened before."""
    import os

    manager.log._file._write = os.write
    return manager


def interrupt(*_: object) -> bool:
    raise KeyboardInterrupt


def test_what_another_thread_adds_while_a_request_is_made_is_not_taken_for_a_part_of_it(
    tmp_path, monkeypatch
):
    path = tmp_path / "s.jsonl"
    with quiet(path, 6) as manager:
        manager.add({"role": "user", "content": "And now?"})
        rested = Journal.rested

        def late(*args: Any) -> bool:
            adding = threading.Thread(
                target=manager.add, args=({"role": "user", "content": "Wait."},)
            )
            adding.start()
            adding.join()
            return rested(*args)

        monkeypatch.setattr(Journal, "rested", late)
        sent = len(manager.prepare().messages)
        log = path.read_bytes()
        saved = plain(manager.save(history=True))
        assert saved["view"]["sent"] == sent == saved["count"] - 1
    path.write_bytes(log)
    with ContextManager.resume(path, policy=Policy.buffered().change(QUIET)) as again:
        assert plain(again.save(history=True)) == saved


@pytest.mark.parametrize("gone", ["message", "request"])
def test_a_log_that_lacks_a_line_is_refused(tmp_path, gone):
    path = tmp_path / "s.jsonl"
    quiet(path, 6).close()
    lines = path.read_bytes().splitlines(keepends=True)
    at = next(
        at
        for at in range(8, len(lines))
        if (b'"ullage-manager"' in lines[at]) == (gone == "request")
    )
    path.write_bytes(b"".join(lines[:at] + lines[at + 1 :]))
    with pytest.raises(InvalidTranscript, match="cannot be read"):
        ContextManager.resume(path)


def test_a_line_whose_request_was_taken_back_does_not_count(tmp_path):
    path = tmp_path / "s.jsonl"
    quiet(path, 6).close()
    lines = path.read_bytes().splitlines(keepends=True)
    at = max(at for at, line in enumerate(lines) if b'"ullage-manager"' in line)
    path.write_bytes(b"".join([*lines[: at + 1], lines[at], *lines[at + 1 :]]))
    with ContextManager.resume(path) as manager:
        assert manager.machine.requests == 6


# ---- answers of several messages


def served(path: Path, form: str, turns: int) -> ContextManager:
    """A conversation on bodies as a server of this form answers; the newest answer has no results yet."""
    manager = ContextManager(
        model=bodies.FORMS[form][0], provider=form, context_window=900_000, log=path
    )
    manager.add(bodies.opening(form))
    for number in range(turns):
        manager.prepare()
        given = bodies.turn(form, number, ugly=True)
        for item in [given.answer] if given.whole else given.answer:
            (manager.observe if given.whole else manager.add)(item)
        if number < turns - 1:
            for item in given.results:
                manager.add(item)
    return manager


@pytest.mark.parametrize("form", bodies.FORMS)
@pytest.mark.parametrize("turns", [1, 2, 7])
def test_answers_of_servers_count_again_after_a_resume(tmp_path, form, turns):
    path = tmp_path / "s.jsonl"
    with served(path, form, turns) as manager:
        log = path.read_bytes()
        saved = plain(manager.save(history=True))
    path.write_bytes(log)
    with ContextManager.resume(path) as again:
        assert plain(again.save(history=True)) == saved
        for item in bodies.turn(form, turns - 1, ugly=True).results:
            again.add(item)
        again.prepare()


def test_an_answer_of_several_messages_takes_no_line_of_the_state(tmp_path):
    path = tmp_path / "s.jsonl"
    served(path, "openai_responses", 4).close()
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    newest = next(line for line in reversed(lines) if line["type"] == "ullage-manager")
    assert (newest["what"], newest["format"], newest["messages"]) == ("observe", RESTED, 4)
    assert [line["ullage"]["waits"] for line in lines[-5:-1]] == [True] * 4


def test_an_answer_that_was_not_written_whole_was_not_given(tmp_path):
    whole, path = tmp_path / "whole.jsonl", tmp_path / "s.jsonl"
    served(whole, "openai_responses", 4).close()
    log = whole.read_bytes()
    lines = log.splitlines(keepends=True)
    start = len(log) - sum(map(len, lines[-5:]))
    states = []
    for end in (start, start + 10, start + len(lines[-5]), len(log) - len(lines[-1]), len(log) - 9):
        path.write_bytes(log[:end])
        with ContextManager.resume(path) as manager:
            states.append(plain(manager.save(history=True)))
    assert states[0]["requests"] == 4
    assert all(state == states[0] for state in states)


def test_an_answer_of_several_messages_that_cannot_be_written_was_not_given(tmp_path):
    path = tmp_path / "s.jsonl"
    with served(path, "openai_responses", 4) as manager:
        given = bodies.turn("openai_responses", 3, ugly=True)
        for item in given.results:
            manager.add(item)
        manager.prepare()
        log = path.read_bytes()
        answer = bodies.turn("openai_responses", 4, ugly=True).answer
        with faulty(1, kill=False), pytest.raises(StoreError):
            refill(manager).observe(answer)
        assert path.read_bytes() == log
        history = len(manager.history)
        manager.observe(answer)
        assert len(manager.history) > history + 1
        saved = plain(manager.save(history=True))
    with ContextManager.resume(path) as again:
        assert plain(again.save(history=True)) == saved


@pytest.mark.parametrize("count", [0, 5, 17])
def test_a_rewind_that_cannot_be_written_takes_nothing_back(tmp_path, count):
    path = tmp_path / "s.jsonl"
    with quiet(path, 9) as manager:
        log, history = path.read_bytes(), list(manager.history)
        with faulty(1, kill=False), pytest.raises(StoreError):
            refill(manager).rewind(count)
        assert path.read_bytes() == log
        assert manager.history == history
        turn(manager, 9)
        log = path.read_bytes()
        saved = plain(manager.save(history=True))
    path.write_bytes(log)
    with ContextManager.resume(path) as again:
        assert plain(again.save(history=True)) == saved
