"""What users call, each with what else can be called for it: the cases of `benches.table` and of `benches/python/bench_users.py`.

Every answer is checked when a case is made, before anything is timed. Of the peers each gets the conversation in its own
messages, and looks at it as it does before each call of a model; none has anything to do in the idle turn.
"""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import orjson
from benches.peers import context

import ullage
from ullage import ContextManager, validate
from ullage.batch import find_transcripts, inspect_file, run_batch
from ullage.providers import openai_chat, openai_responses
from ullage.sessions import compact_session, open_session
from ullage.testing import Layout, scenario, session_file

MODEL = context.MODEL
IDLE_TOKENS = 30_000
LONG = 90_000
"""Messages of the longest conversation that an idle turn is timed at; Anthropic's API takes at most 100,000 in a request."""
ACTING_WINDOW = 160_000
POOL = 10
"""Fresh conversations for what can be done once only: as many as rounds are timed, with those that only check or warm up."""
TURNS = 100
FILES, LARGE_MB, SMALL_MB = 160, 8, 4
STARTED = (
    "langchain.agents.middleware",
    "deepagents",
    "pydantic_ai_harness.compaction",
    "agents",
    "litellm",
)
"""What a process imports to use a peer."""
PARSED = "orjson.loads of each line"
"""None of the peers reads session files."""
PEERS = tuple(name for name in context.MAKERS if not name.startswith("ullage"))

Run = Callable[[], Any]


class UserCase(NamedTuple):
    """One thing that users do.

    Attributes:
        name: For the table.
        unit: Of the figure: `µs a …`, or what is done in a second.
        amount: How much of it one run of Ullage does.
        runs: By contender; Ullage's own is `ullage`.
        amounts: Of those that do another amount in a run.
        wall: The time that passes counts, not the processor's.
        rounds: How often each is timed.
    """

    name: str
    unit: str
    amount: float
    runs: dict[str, Run]
    amounts: Mapping[str, float] = MappingProxyType({})
    wall: bool = False
    rounds: int = 7


# ---- one turn --------------------------------------------------------------------------------


def turns(count: int) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Rounds of a call and its result, with ids of their own."""
    for number in range(count):
        given = {"command": f"make part-{number}"}
        call = {"type": "tool_use", "id": f"idle{number}", "name": "Bash", "input": given}
        said = {"role": "assistant", "content": [{"type": "text", "text": "Next."}, call]}
        text = f"part {number}: 12 files, all fine\n" * 3
        block = {"type": "tool_result", "tool_use_id": f"idle{number}", "content": text}
        yield said, {"role": "user", "content": [block]}


def in_form(form: str, messages: list[Any]) -> list[Any]:
    """Messages of Anthropic's form in another."""
    if form == "anthropic":
        return messages
    if form == "openai_chat":
        return list(openai_chat.to_provider(messages).parts["messages"])
    return list(openai_responses.to_provider(messages).parts["input"])


def long_talk(count: int) -> list[dict[str, Any]]:
    coming = turns(count)
    asked = {"role": "user", "content": "build all parts"}
    return [asked, *(message for _ in range(count // 2) for message in next(coming))]


def idle_runs(form: str, messages: list[Any], *, levels: bool = False) -> Run:
    """`TURNS` turns at the end of a conversation; what it grows by is negligible.

    Args:
        form: Of the messages that are given and sent.
        messages: The conversation.
        levels: Every level is asked each time.
    """
    manager = ContextManager(model=MODEL, provider=form, context_window=100_000_000)
    manager._turns.enabled = not levels
    added = list(messages)
    for message in in_form(form, messages):
        manager.add(message)
    manager.prepare()
    coming = islice(turns(10_000_000), LONG, None)

    def run() -> None:
        for _ in range(TURNS):
            for message in one_round():
                manager.add(message)
            manager.prepare()

    def one_round() -> list[Any]:
        if form == "anthropic":
            return list(next(coming))
        return in_form(form, [{"role": "user", "content": "."}, *next(coming)])[1:]

    run()
    if form == "anthropic":
        sent = manager.prepare().messages
        assert sent[: len(added)] == added
        assert len(sent) == len(added) + 2 * TURNS
    else:
        assert validate(manager.prepare().messages, provider=form, model=MODEL).ok
    return run


def idle_turn(folder: Path) -> UserCase:
    del folder
    messages = scenario(1, tokens=IDLE_TOKENS).messages
    runs = {
        "ullage": idle_runs("anthropic", messages),
        f"ullage, at {LONG:,} messages": idle_runs("anthropic", long_talk(LONG)),
        "ullage, every level asked": idle_runs("anthropic", messages, levels=True),
    }
    amounts = {}
    for name in PEERS:
        if (run := idle_peer(name, messages)) is not None:
            runs[name], amounts[name] = run, 1
    title = f"a turn with nothing to do, at {len(messages)} messages"
    return UserCase(title, "µs a turn", TURNS, runs, amounts)


def idle_peer(name: str, messages: list[Any]) -> Run | None:
    """What a peer does before a call where nothing is due; `None`: it is not installed, or changes something."""
    try:
        contender = context.MAKERS[name]()
        native = contender.native(in_form(contender.form, messages))
        before = contender.back(copy.deepcopy(native))
        after = contender.back(contender.run(native))
    except Exception as error:  # a peer may fail in any way; it is left out and named
        print(f"skipped: {name}: {type(error).__name__}: {str(error)[:120]}", file=sys.stderr)
        return None
    if len(after) != len(before):
        print(f"skipped: {name}: it changes a conversation that fits", file=sys.stderr)
        return None
    return lambda: contender.run(native)


def acting_turn(folder: Path) -> UserCase:
    """The first request of a session for which old results are cleared; the peers do what they do at this length."""
    del folder
    messages = scenario(1, tokens=context.TOKENS).messages
    at = first_action(messages)

    def fresh() -> ContextManager:
        manager = ContextManager(model=MODEL, context_window=ACTING_WINDOW)
        for message in messages[:at]:
            live(manager, message)
        return manager

    def act(manager: ContextManager) -> None:
        manager.add(messages[at])
        assert manager.prepare().reports

    runs = {"ullage": pooled(fresh, act), **peers_at(messages[: at + 1])}
    title = f"a turn in which old results are cleared, at {at + 1} messages"
    return UserCase(title, "µs a turn", 1, runs)


def live(manager: ContextManager, message: dict[str, Any]) -> bool:
    """Adds it; where a response is due, prepares the request. Whether a level acted."""
    manager.add(message)
    return message["role"] == "user" and bool(manager.prepare().reports)


def first_action(messages: list[dict[str, Any]]) -> int:
    manager = ContextManager(model=MODEL, context_window=ACTING_WINDOW)
    return next(at for at, message in enumerate(messages) if live(manager, message))


def pooled(fresh: Callable[[], Any], act: Callable[[Any], Any]) -> Run:
    """A run that takes one of `POOL` states made in advance; it fails when none is left."""
    states = iter([fresh() for _ in range(POOL)])
    act(next(states))
    return lambda: act(next(states))


def peers_at(messages: list[Any]) -> dict[str, Run]:
    """What each peer does with a conversation that is too long, on a copy of its own each time."""
    found = {}
    for name in PEERS:
        try:
            contender = context.MAKERS[name]()
            native = contender.native(in_form(contender.form, messages))
            before = contender.back(copy.deepcopy(native))
            if contender.back(contender.run(copy.deepcopy(native))) == before:
                print(f"skipped: {name}: it changes nothing", file=sys.stderr)
                continue
            found[name] = pooled(lambda native=native: copy.deepcopy(native), contender.run)
        except Exception as error:  # a peer may fail in any way; it is left out and named
            print(f"skipped: {name}: {type(error).__name__}: {str(error)[:120]}", file=sys.stderr)
    return found


# ---- compaction, files, fleets ---------------------------------------------------------------


def compaction(folder: Path) -> UserCase:
    """Next to everything that the peers have to make the same conversation smaller, to 40,000 tokens; deepagents has a scripted model."""
    del folder
    messages = scenario(1, tokens=context.TOKENS).messages
    done = ullage.compact(messages, model=MODEL)
    assert done.compacted
    assert validate(context.bare(done.messages), model=MODEL).ok
    runs = {"ullage": lambda: ullage.compact(messages, model=MODEL), **peers_at(messages)}
    return UserCase("compact of 100,000 tokens, without a model", "µs a compaction", 1, runs)


def parsed(path: Path) -> int:
    """What any reader of a session file does at the least."""
    return len([orjson.loads(line) for line in path.read_bytes().splitlines()])


def session(path: Path, megabytes: float) -> Path:
    """A session file of about this size."""
    seed = 0
    with path.open("wb") as file:
        while file.tell() < megabytes * 1_000_000:
            seed += 1
            file.write(session_file(scenario(seed, turns=60), layout=Layout()).to_bytes())
    return path


def one_file(folder: Path) -> UserCase:
    path = session(folder / "large.jsonl", LARGE_MB)
    found = find_transcripts([path])
    size = path.stat().st_size / 1e6
    index = ullage._core.TranscriptIndex.open(str(path))  # type: ignore[attr-defined]
    assert inspect_file(found[0])["bytes"] == size * 1e6 == index.size
    runs: dict[str, Run] = {
        "ullage": lambda: inspect_file(found[0]),
        "its index alone": lambda: ullage._core.TranscriptIndex.open(str(path)),  # type: ignore[attr-defined]
        PARSED: lambda: parsed(path),
    }
    return UserCase("inspect of a session file", "MB/s", size, runs)


def file_compaction(folder: Path) -> UserCase:
    path = session(folder / "session.jsonl", SMALL_MB)
    size = path.stat().st_size / 1e6

    made = folder / "compacted.jsonl"

    def run() -> bool:
        done = compact_session(open_session(path), output=made, overwrite=True)
        return done.result.compacted

    assert run()
    assert made.stat().st_size > path.stat().st_size
    runs: dict[str, Run] = {"ullage": run, PARSED: lambda: parsed(path)}
    return UserCase("compact of a session file, without a model", "MB/s", size, runs)


def fleet(folder: Path) -> UserCase:
    place = folder / "fleet"
    place.mkdir()
    for number in range(FILES):
        made = session_file(scenario(number, turns=12), layout=Layout())
        (place / f"{number}.jsonl").write_bytes(made.to_bytes())
    found = find_transcripts([place])

    def reports(workers: int) -> dict[Any, Any]:
        return {done.path: done.report for done in run_batch(inspect_file, found, workers=workers)}

    assert reports(1) == reports(2)
    runs: dict[str, Run] = {
        "ullage": lambda: reports(2),
        "ullage, one thread": lambda: reports(1),
        PARSED: lambda: [parsed(path) for path in sorted(place.iterdir())],
    }
    return UserCase(
        f"inspect of {FILES} files, two threads", "files a second", FILES, runs, wall=True
    )


def start(folder: Path) -> UserCase:
    del folder
    programs = {
        "bare Python": "pass",
        "ullage": "import ullage",
        "from ullage import ContextManager": "from ullage import ContextManager",
        "ullage --version": "import sys; sys.argv[1:] = ['--version']\n"
        "from ullage.cli import main\nmain()",
        **{f"import {name}": f"import {name}" for name in STARTED if find_spec(name.split(".")[0])},
    }
    runs: dict[str, Run] = {name: started(program) for name, program in programs.items()}
    title = "start of a process that imports ullage"
    return UserCase(title, "µs a start", 1, runs, wall=True, rounds=3)


def started(program: str) -> Run:
    command = [sys.executable, "-c", program]
    # Without compiled modules each start would compile the whole package.
    settings = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}

    def run() -> int:
        return subprocess.run(command, check=False, capture_output=True, env=settings).returncode

    run()
    return run


CASES: dict[str, Callable[[Path], UserCase]] = {
    "idle turn": idle_turn,
    "acting turn": acting_turn,
    "compaction": compaction,
    "one file": one_file,
    "compaction of a file": file_compaction,
    "fleet": fleet,
    "start": start,
}
