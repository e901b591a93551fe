"""A context manager's log: whatever ends the process, the next request is the one that would have been sent."""

from __future__ import annotations

import json
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from tests.crash_kit import Killed, faulty
from ullage import ContextManager, Policy, SessionMemory, resume
from ullage.exceptions import UllageError
from ullage.legality import validate
from ullage.levels.turn_snip import SNIP_TOOL
from ullage.manager import keeping as lighter
from ullage.manager.keeping import History
from ullage.policy import SessionMemoryPolicy
from ullage.recall.store import FileStore

MODEL = "claude-opus-4-5"
QUIET = {
    "auto.enabled": False,
    "snip.enabled": False,
    "micro.by_supersession": False,
    "truncate.start_percent": 100,
}
Step = Callable[[ContextManager], Any]


def words(rng: random.Random, chars: int) -> str:
    return " ".join(f"w{rng.randrange(10**6)}" for _ in range(chars // 8 + 1))[:chars]


def add(message: dict[str, Any]) -> Step:
    return lambda manager: manager.add(message)


def observe(message: dict[str, Any]) -> Step:
    return lambda manager: manager.observe(message)


def prepare(manager: ContextManager) -> str:
    return json.dumps(manager.prepare().body)


def talk(
    turns: int = 6,
    calls: int = 2,
    said: int = 200,
    found: int = 3_000,
    then: dict[int, list[Step]] | None = None,
    usage: bool = False,
    thinks: bool = False,
    named: bool = False,
) -> list[Step]:
    """Turns of a question, calls with their results, and an answer, as a host tells them; `then`: what else, after a turn."""
    rng, steps = random.Random(7), list[Step]()
    for turn in range(turns):
        question = {"role": "user", "content": f"Question {turn}. {words(rng, said)}"}
        # Ids of turns are made of the names that messages have in the log.
        steps += [add(question | {"uuid": uuid_of(turn)} if named else question), prepare]
        for call in range(calls):
            name = f"toolu_{turn}_{call}"
            use = {
                "type": "tool_use",
                "id": name,
                "name": "Bash",
                "input": {"command": f"make {turn}"},
            }
            told = (
                {"usage": {"input_tokens": 900 + 200 * len(steps), "output_tokens": 40}}
                if usage
                else {}
            )
            answer = {
                "id": f"msg_{turn}_{call}",
                "type": "message",
                "role": "assistant",
                "content": [*thought(turn, call, thinks), use],
            }
            steps.append(observe({**answer, **told} if call else answer))
            text = words(rng, found)
            result = {"type": "tool_result", "tool_use_id": name, "content": text}
            steps += [add({"role": "user", "content": [result]}), prepare]
        done = {"type": "text", "text": f"Answer {turn}. {words(rng, said)}"}
        steps.append(observe({"id": f"msg_{turn}", "role": "assistant", "content": [done]}))
        steps += (then or {}).get(turn, [])
    last = {"role": "user", "content": "And now?"}
    return [*steps, add(last | {"uuid": uuid_of(turns)} if named else last), prepare]


def uuid_of(turn: int) -> str:
    return f"{turn * 7919:08x}-0000-4000-8000-{turn:012x}"


def thought(turn: int, call: int, thinks: bool) -> list[dict[str, Any]]:
    """What an open turn begins with in manual thinking."""
    if not thinks or call:
        return []
    return [{"type": "thinking", "thinking": f"Step {turn}", "signature": f"sig-{turn}-{call}" * 4}]


def snip_first_turn(manager: ContextManager) -> Any:
    sent = json.dumps(manager.messages)
    return manager.answer("Snip", {"ids": re.findall(r"\[id:(\w+)\]", sent)[:1]})


def refused(manager: ContextManager) -> None:
    assert manager.on_overflow("prompt is too long: 213462 tokens > 200000 maximum")


def expand_one(manager: ContextManager) -> None:
    spans = manager.machine.states["collapse"].commits
    if spans:
        manager.expand(next(iter(spans)))


COLLAPSE = {
    "collapse.enabled": True, "collapse.stage_percent": 2, "collapse.commit_percent": 2, "collapse.target_percent": 1,
    "collapse.min_span_tokens": 300, "collapse.keep_recent_rounds": 1, "protect.tool_results": 1,
    "protect.user_inputs": 1, "micro.min_freed_tokens": 0,
}  # fmt: skip
LADDER = {
    "auto.enabled": False, "micro.min_freed_tokens": 0, "snip.enabled": False, "micro.line_start_percent": 2,
    "micro.supersede_start_percent": 1, "protect.tool_results": 1, "micro.keep_recent": 1,
}  # fmt: skip

NOTES = {"enabled": True, "start_tokens": 1_000, "growth_tokens": 500, "tool_calls": 1}

THINKS = {"type": "enabled", "budget_tokens": 1_024}

Scenario = tuple[str, list[Step], dict[str, Any]]
SCENARIOS: dict[str, Scenario] = {
    "offload": ("tool_budget", talk(usage=True), {"policy": {**QUIET, "tool_budget.max_result_chars": 2_000}}),
    "snip": ("snip", talk(usage=True), {"policy": {**QUIET, "snip.enabled": True, "snip.max_chars": 1_000, "snip.start_percent": 0}}),
    "turn snip": (
        "turn_snip", talk(then={2: [snip_first_turn], 4: [snip_first_turn]}, named=True),
        {"policy": QUIET, "tools": [SNIP_TOOL.definition("anthropic")]},
    ),
    "microcompact": ("microcompact", talk(), {"preset": "ladder", "policy": LADDER}),
    "time": ("microcompact", talk(), {"policy": {**QUIET, "micro.by_time": True, "micro.min_freed_tokens": 0,
             "micro.keep_recent": 1, "protect.tool_results": 1, "micro.idle_minutes": 1}}),
    "collapse": ("collapse", talk(10, then={8: [expand_one]}), {"policy": {**QUIET, **COLLAPSE}}),
    "compaction": ("autocompact", talk(12), {"policy": {**QUIET, "auto.enabled": True}, "window": 9_000, "keep": 800}),
    "by hand": ("compact", talk(then={3: [lambda manager: manager.compact("mind the make", keep=500)]}), {"policy": QUIET}),
    "notes": ("session_memory", talk(12), {"policy": {**QUIET, "auto.enabled": True}, "window": 12_000, "notes": NOTES}),
    "fold": ("fold", talk(12), {"policy": {**QUIET, "truncate.start_percent": 60}, "window": 9_000}),
    "truncation": ("truncate", talk(14, 0, 5_000), {"policy": {**QUIET, "truncate.start_percent": 50}, "window": 6_000}),
    "refusal": ("autocompact", talk(then={3: [prepare, refused, prepare]}), {"policy": QUIET, "keep": 300}),
    "rewind": ("snip", talk(then={3: [lambda manager: manager.rewind(len(manager.history) - 7)]}),
               {"policy": {**QUIET, "snip.enabled": True, "snip.max_chars": 1_000, "snip.start_percent": 0}}),
    "torn turn": ("autocompact", talk(3, 14, thinks=True),
                  {"policy": {**QUIET, "auto.enabled": True}, "window": 9_000, "keep": 300, "thinking": THINKS}),
    "refused turn": ("autocompact", talk(2, 6, thinks=True, then={1: [prepare, refused, prepare]}),
                     {"policy": QUIET, "keep": 300, "thinking": THINKS}),
    "pins": ("autocompact", talk(12, then={1: [lambda manager: manager.pin("rule", "Answer 0 stays in force")]}),
             {"policy": {**QUIET, "auto.enabled": True}, "window": 9_000, "keep": 800}),
}  # fmt: skip


class Clock:
    """Goes on by two minutes with each look, from a time that only the number of steps decides."""

    def __init__(self, step: int) -> None:
        self.now = 1_767_225_600_000 + 3_600_000 * step

    def __call__(self) -> int:
        return self.now


class Run:
    """One process's part: the manager, and the steps it takes."""

    def __init__(self, name: str, folder: Path) -> None:
        self.stage, self.steps, self.given = SCENARIOS[name]
        self.folder, self.clock = folder, Clock(0)

    def outside(self) -> dict[str, Any]:
        preset = Policy.ladder() if self.given.get("preset") == "ladder" else Policy.buffered()
        more = {"context_window": self.given["window"]} if "window" in self.given else {}
        more |= {"thinking": self.given["thinking"]} if "thinking" in self.given else {}
        more |= {"keep": self.given["keep"]} if "keep" in self.given else {}
        if self.given.get("notes"):
            more["memory"] = SessionMemory(
                self.folder / "notes",
                mode="inline",
                policy=SessionMemoryPolicy(**self.given["notes"]),
            )
        return {
            "policy": preset.change(self.given["policy"]), "tools": self.given.get("tools", ()),
            "store": FileStore(self.folder / "results"), "clock": self.clock, "transcript_path": "log", **more,
        }  # fmt: skip

    @property
    def path(self) -> Path:
        return self.folder / "s.jsonl"

    def go(self, manager: ContextManager, start: int = 0) -> Iterator[tuple[int, Any]]:
        for at in range(start, len(self.steps)):
            self.clock.now = Clock(at).now
            yield at, self.steps[at](manager)

    def fresh(self) -> ContextManager:
        return ContextManager(model=MODEL, log=self.path, **self.outside())

    def resumed(self) -> ContextManager:
        return ContextManager.resume(self.path, **self.outside())


def plain(request: Any) -> Any:
    """A request wherever the folder lies; `None` for what another step gave."""
    return (
        re.sub(r'/[^\s"\\]*/(results|notes)', r"FOLDER/\1", request)
        if isinstance(request, str)
        else None
    )


class Whole:
    """The run that nothing ends: its requests, and how far the conversation is after each step."""

    def __init__(self, name: str, folder: Path) -> None:
        run = Run(name, folder)
        with run.fresh() as manager:
            self.requests, self.marks = list[Any](), [mark(manager)]
            for _, request in run.go(manager):
                self.requests.append(plain(request))
                self.marks.append(mark(manager))
            self.history = [plain(json.dumps(item)) for item in manager.history]
            self.stages = {report.stage for report in manager.machine.reports}


def mark(manager: ContextManager) -> str:
    saved = manager.save()
    told = [
        saved[key] for key in ("count", "fingerprint", "requests", "tracking", "pins", "states")
    ]
    return re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "UUID", json.dumps(told))


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Callable[[], Path]:
    """One folder, empty whenever it is asked for: notes name their folder, and are cut by what that takes."""
    base = tmp_path_factory.mktemp("run")

    def fresh() -> Path:
        shutil.rmtree(base)
        base.mkdir()
        return base

    return fresh


@pytest.fixture(scope="module")
def wholes(place) -> Callable[[str], Whole]:
    made: dict[str, Whole] = {}

    def of(name: str) -> Whole:
        if name not in made:
            made[name] = Whole(name, place())
        return made[name]

    return of


def goes_on_as(whole: Whole, run: Run, at: int) -> None:
    """Resume after a process that was ended in step `at`, or before it, and go on to the end."""
    with run.resumed() as manager:
        here = mark(manager)
        start = at + 1 if here == whole.marks[at + 1] and here != whole.marks[at] else at
        assert here == whole.marks[start]
        for number, request in run.go(manager, start):
            assert plain(request) == whole.requests[number], f"step {number}, resumed at {start}"
        assert mark(manager) == whole.marks[-1]


@pytest.mark.parametrize("name", SCENARIOS)
def test_each_level_acts_and_every_request_is_the_same_from_any_step_on(
    name, wholes, place, tmp_path
):
    whole = wholes(name)
    run = Run(name, place())
    assert run.stage in whole.stages
    copies = []
    with run.fresh() as manager:
        for at, request in run.go(manager):
            assert plain(request) == whole.requests[at]
            if at % 5 == 1:
                copies.append((at, shutil.copytree(run.folder, tmp_path / str(at))))
    for at, folder in copies:
        again = Run(name, shutil.copytree(folder, place(), dirs_exist_ok=True))
        with again.resumed() as manager:
            for number, request in again.go(manager, at + 1):
                assert plain(request) == whole.requests[number]
                if number > at + 9:
                    break


@pytest.mark.parametrize("name", SCENARIOS)
def test_what_left_memory_changes_no_request_and_comes_back_as_it_was(
    name, wholes, place, monkeypatch
):
    monkeypatch.setattr(lighter, "_FEW", 0)
    whole, run = wholes(name), Run(name, place())
    with run.fresh() as manager:
        for at, request in run.go(manager):
            assert plain(request) == whole.requests[at]
        history = manager.history
        gone = len(history) - len(manager.messages)
        assert isinstance(history, History) or gone <= 0
        texts = [plain(json.dumps(item)) for item in history]
        assert texts == whole.history
        for at, item in enumerate(history):
            shown = manager.recall.get(f"m{at}").items
            assert json.dumps(shown[0]) == json.dumps(item)
        back = max(1, len(history) // 2)
        manager.rewind(back)
        assert [plain(json.dumps(item)) for item in manager.history] == whole.history[:back]


@pytest.mark.parametrize("kill", [False, True], ids=["fails", "killed"])
@pytest.mark.parametrize("name", [name for name in SCENARIOS if name != "notes"])
def test_a_write_that_fails_or_ends_the_process_leaves_what_was_before_or_what_comes_after(
    name, kill, wholes, tmp_path
):
    whole, rng = wholes(name), random.Random(f"{name}{kill}")
    for number in range(1):
        folder = tmp_path / str(number)
        folder.mkdir()
        run = Run(name, folder)
        manager = run.fresh()
        stop = rng.randrange(1, len(run.steps))
        for at, _ in run.go(manager):
            if at + 1 >= stop:
                break
        at = stop
        with faulty(rng.randrange(1, 4), kill=kill):
            try:
                for at, _ in run.go(manager, stop):  # noqa: B007 - the last is where it ended
                    pass
            except Killed:
                assert kill
            except UllageError:
                assert not kill
        manager.close()
        at = next(at for at in range(stop, len(run.steps)) if at_or_after(whole, run, at))
        goes_on_as(whole, run, at)


def at_or_after(whole: Whole, run: Run, at: int) -> bool:
    with run.resumed() as manager:
        return mark(manager) in (whole.marks[at], whole.marks[at + 1])


CHILD = """
import runpy, sys
from pathlib import Path
kit = runpy.run_path(sys.argv[1])
run = kit["Run"](sys.argv[2], Path(sys.argv[3]))
manager = run.fresh()
print("ready", flush=True)
for at, _ in run.go(manager):
    print(at, flush=True)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs kill -9")
@pytest.mark.parametrize(
    "name", ["offload", "turn snip", "collapse", "compaction", "notes", "fold"]
)
def test_kill_nine_at_any_moment(name, wholes, place):
    whole, rng = wholes(name), random.Random(name)
    folder = place()
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, __file__, name, str(folder)],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout.readline() == "ready\n"
        for _ in range(rng.randrange(len(whole.requests) - 2)):
            child.stdout.readline()
        time.sleep(rng.uniform(0, 0.005))
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait(10)
        said = child.stdout.read().split()
        child.stdout.close()
    run = Run(name, folder)
    first = int(said[-1]) + 1 if said else 0
    places = range(max(0, first - 1), len(run.steps))
    at = next(at for at in places if at_or_after(whole, run, at))
    goes_on_as(whole, run, at)


def speakers(messages: list[Any]) -> list[str]:
    """Roles in turn; a reader joins neighbours of one role."""
    return [role for role, _ in groupby(each["role"] for each in messages)]


@pytest.mark.parametrize(
    "name", ["offload", "snip", "turn snip", "microcompact", "compaction", "fold", "by hand"]
)
def test_a_transcript_reader_shows_what_was_sent_and_it_is_legal(name, tmp_path):
    run = Run(name, tmp_path)
    with run.fresh() as manager:
        for _, request in run.go(manager):
            if request is None or not isinstance(request, str):
                continue
            shown = resume(run.path).messages
            errors = [
                each.rule
                for each in validate(shown, model=MODEL).violations
                if each.severity == "error"
            ]
            assert not set(errors) - {"A02", "A03", "A28"}, errors
        sent = json.loads(prepare(manager))["messages"]
        if name != "turn snip":  # short ids are in the request only
            assert speakers(resume(run.path).messages) == speakers(sent)
        else:
            assert "Question 0" not in str(shown)
