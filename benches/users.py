"""What users call, each with what else can be called for it: operations of `benches/python/bench_suite.py`.

Every answer is checked when an operation is made, before anything is timed. Of the peers each gets the conversation in its own
messages, and looks at it as it does before each call of a model; none has anything to do in the idle turn.
"""

from __future__ import annotations

import copy
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from importlib.util import find_spec
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from weakref import finalize

import orjson
from benches import bodies, growth, proxy_load
from benches.operation import OURS, SWEEPS, Contender, Operation, Planned, of_children
from benches.peers import context
from benches.python import bench_levels

import ullage
from tests.clients.test_hooks import compacted
from tests.kit.transcripts import Layout, session_file
from ullage import ContextManager, validate
from ullage.batch import find_transcripts, inspect_file, run_batch
from ullage.providers import openai_chat, openai_responses
from ullage.sessions import compact_session, open_session
from ullage.testing import scenario

MODEL = context.MODEL
IDLE_TOKENS = 30_000
LENGTHS = (100, 1_000, 10_000, 90_000)
"""Messages of the conversations that idle turns are timed at; Anthropic's API takes at most 100,000 in a request."""
ACTING_WINDOW = 160_000
TURNS = 100
FILES, LARGE_MB, SMALL_MB = 160, 8, 4
LONG_BODIES = 30_000
"""Messages; more take minutes, and 90,000 as Anthropic's server answers are over the 32 MB that it takes."""
LONG_RUN = 6
"""Hundreds of turns in which an image is removed twice."""
SLOW_SECONDS = 1
"""Who takes longer is timed less often."""
STARTED = {
    "langchain, its middleware": "langchain.agents.middleware",
    "deepagents": "deepagents",
    "pydantic-ai-harness": "pydantic_ai_harness.compaction",
    "openai-agents": "agents",
    "litellm": "litellm",
}
"""What a process imports to use a peer."""
PARSED = "orjson.loads of each line"
"""None of the peers reads session files."""
PEERS = tuple(name for name in context.MAKERS if not name.startswith("ullage"))

Message = dict[str, Any]


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


def idle(form: str, messages: list[Message], *, levels: bool = False) -> Contender:
    """`TURNS` turns at the end of a conversation, which grows by them in each round.

    Args:
        form: Of the messages that are given and sent.
        messages: The conversation, in Anthropic's form.
        levels: Every level is asked each time.
    """
    manager = ContextManager(model=MODEL, provider=form, context_window=100_000_000)
    if levels:
        manager._marks.hold = lambda *_: False
    added = list(messages)
    for message in in_form(form, messages):
        manager.add(message)
    manager.prepare()
    coming = islice(turns(10_000_000), LENGTHS[-1], None)

    def some() -> tuple[tuple[Any, ...], dict[str, Any]]:
        return ([one_round() for _ in range(TURNS)],), {}

    def one_round() -> list[Any]:
        if form == "anthropic":
            return list(next(coming))
        return in_form(form, [{"role": "user", "content": "."}, *next(coming)])[1:]

    def run(rounds: list[list[Any]]) -> None:
        for new in rounds:
            for message in new:
                manager.add(message)
            manager.prepare()

    made = Contender(run, some)
    made.once()
    if form == "anthropic":
        sent = manager.prepare().messages
        assert sent[: len(added)] == added
        assert len(sent) == len(added) + 2 * TURNS
    else:
        assert validate(manager.prepare().messages, provider=form, model=MODEL).ok
    return made


def idle_turn(folder: Path) -> Operation:
    del folder
    messages = scenario(1, tokens=IDLE_TOKENS).messages
    contenders = {
        OURS: idle("anthropic", messages),
        "ullage, OpenAI's chat form": idle("openai_chat", messages),
        "ullage, OpenAI's Responses": idle("openai_responses", messages),
        "ullage, every level asked": idle("anthropic", messages, levels=True),
    }
    for name in PEERS:
        if (found := idle_peer(name, messages)) is not None:
            contenders[name] = found
    title = f"a turn with nothing to do, at {len(messages)} messages"
    return Operation(title, "µs a turn", TURNS, contenders)


def idle_by_length(folder: Path) -> Operation:
    del folder
    contenders = {at_length(count): idle("anthropic", long_talk(count)) for count in LENGTHS}
    return Operation(
        "a turn with nothing to do, by length", "µs a turn", TURNS, contenders, rounds=5
    )


def at_length(count: int) -> str:
    return OURS if count == LENGTHS[0] else f"ullage, at {count:,} messages"


def idle_peer(name: str, messages: list[Message]) -> Contender | None:
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
    return Contender(lambda: contender.run(native), amount=1)


def body_turn(form: str, folder: Path) -> Operation:
    """A turn on a response's body, observed as the provider's server sends it; what is left out in bare messages is in `benches.bodies`."""
    del folder
    made, rounds = {}, 5
    for name, (count, ugly, log) in BODY_WAYS.items():
        ready = (SWEEPS * (rounds + LONG_RUN) + 1) * TURNS
        run, _ = growth.in_form(count, form, ugly=ugly, log=log, turns=ready)
        run()
        made[name] = Contender(run)
    long = made[at_length(LONG_BODIES)].run
    every = Contender(lambda: [long() for _ in range(LONG_RUN)], None, 1, LONG_RUN * TURNS, 1)
    title = f"a turn on a server's body, at 1,000 messages: {form}"
    return Operation(title, "µs a turn", TURNS, {**made, LONG_MEAN: every}, rounds, "median")


def view(folder: Path) -> Operation:
    """A list that is passed again with a call and its result more, as frameworks do; the peers look at such lists as well."""
    del folder
    contenders = {
        OURS: viewed(1_000),
        "ullage, as a server answers": viewed(1_000, ugly=True),
        "ullage, at 10,000 messages": viewed(10_000),
    }
    for name in PEERS:
        if (found := idle_peer(name, long_talk(1_000))) is not None:
            contenders[name] = found
    title = "view of a list with a new tail, at 1,000 messages"
    return Operation(title, "µs a view", 1, contenders)


def viewed(count: int, *, ugly: bool = False) -> Contender:
    manager = ContextManager(model=MODEL, context_window=100_000_000)
    held = [bodies.opening("anthropic")]
    numbers = iter(range(10_000_000))

    def longer() -> tuple[tuple[Any, ...], dict[str, Any]]:
        bodies.lengthen(held, next(numbers), ugly=ugly)
        return (held,), {}

    while len(held) < count:
        longer()
    manager.view(held)
    made = Contender(manager.view, longer, rounds=9)
    sent = made.once().messages
    assert len(sent) == len(held)
    assert ugly or sent == held  # of an answer, fields that are null are not sent
    assert validate(sent, model=MODEL, skip=("A24",)).ok
    return made


def acting_turn(folder: Path) -> Operation:
    """The first request of a session for which old results are cleared; the peers do what they do at this length."""
    del folder
    messages = scenario(1, tokens=context.TOKENS).messages
    at = first_action(messages)
    contenders = {OURS: acting(messages, at), **peers_at(messages[: at + 1])}
    title = f"a turn in which old results are cleared, at {at + 1} messages"
    return Operation(title, "µs a turn", 1, contenders)


def acting(messages: list[Message], at: int) -> Contender:
    """The request after the message at this place, by a manager that has made all before it."""

    def fresh() -> tuple[tuple[Any, ...], dict[str, Any]]:
        manager = ContextManager(model=MODEL, context_window=ACTING_WINDOW)
        for message in messages[:at]:
            live(manager, message)
        return (manager,), {}

    def act(manager: ContextManager) -> None:
        manager.add(messages[at])
        assert manager.prepare().reports

    return Contender(act, fresh)


def first_request(folder: Path) -> Operation:
    """Every level is on and asked, since none has stated when it acts; the peers do what they do at this length."""
    del folder
    messages = scenario(1, tokens=context.TOKENS).messages
    contenders = {OURS: first(messages), **peers_at(messages)}
    title = f"the first request, all levels on, at {len(messages)} messages"
    return Operation(title, "µs a request", 1, contenders)


def first(messages: list[Message]) -> Contender:
    def fresh() -> tuple[tuple[Any, ...], dict[str, Any]]:
        manager = ContextManager(
            model=MODEL, context_window=ACTING_WINDOW, policy=bench_levels.POLICY
        )
        for message in messages:
            manager.add(message)
        return (manager,), {}

    made = Contender(ContextManager.prepare, fresh)
    request = made.once()
    assert request.reports
    assert validate(request.messages, model=MODEL).ok
    return made


def first_action(messages: list[dict[str, Any]]) -> int:
    manager = ContextManager(model=MODEL, context_window=ACTING_WINDOW)
    return next(at for at, message in enumerate(messages) if live(manager, message))


def live(manager: ContextManager, message: Message) -> bool:
    """Adds it; where a response is due, prepares the request. Whether a level acted."""
    manager.add(message)
    return message["role"] == "user" and bool(manager.prepare().reports)


def peers_at(messages: list[Message]) -> dict[str, Contender]:
    """What each peer does with a conversation that is too long, on a copy of its own each time."""
    found = {}
    for name in PEERS:
        try:
            contender = context.MAKERS[name]()
            native = contender.native(in_form(contender.form, messages))
            before = contender.back(copy.deepcopy(native))
            started = time.perf_counter()
            changed = contender.back(contender.run(copy.deepcopy(native))) != before
            slow = time.perf_counter() - started > SLOW_SECONDS
            if not changed:
                print(f"skipped: {name}: it changes nothing", file=sys.stderr)
                continue
            found[name] = Contender(contender.run, copied(native), rounds=1 if slow else None)
        except Exception as error:  # a peer may fail in any way; it is left out and named
            print(f"skipped: {name}: {type(error).__name__}: {str(error)[:120]}", file=sys.stderr)
    return found


def copied(native: Any) -> Callable[[], tuple[tuple[Any, ...], dict[str, Any]]]:
    return lambda: ((copy.deepcopy(native),), {})


# ---- compaction, files, fleets ---------------------------------------------------------------


def compaction(folder: Path) -> Operation:
    """Next to everything that the peers have to make the same conversation smaller, to 40,000 tokens; deepagents has a scripted model."""
    del folder
    messages = scenario(1, tokens=context.TOKENS).messages
    done = ullage.compact(messages, model=MODEL)
    assert done.compacted
    assert validate(context.bare(done.messages), model=MODEL).ok
    contenders = {OURS: Contender(lambda: ullage.compact(messages, model=MODEL))}
    for name in OTHER_WAYS:
        made = context.MAKERS[name]()
        after = made.back(made.run(copy.deepcopy(messages)))
        assert len(after) < len(messages) or after != messages
        assert validate(after, model=MODEL).ok
        contenders[name] = Contender(made.run, copied(messages))
    contenders |= peers_at(messages)
    return Operation("compact of 100,000 tokens, without a model", "µs a compaction", 1, contenders)


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


def one_file(folder: Path) -> Operation:
    path = session(folder / "large.jsonl", LARGE_MB)
    found = find_transcripts([path])
    size = path.stat().st_size / 1e6
    index = ullage._core.TranscriptIndex.open(str(path))  # type: ignore[attr-defined]
    assert inspect_file(found[0])["bytes"] == size * 1e6 == index.size
    runs: dict[str, Callable[[], Any]] = {
        OURS: lambda: inspect_file(found[0]),
        "its index alone": lambda: ullage._core.TranscriptIndex.open(str(path)),  # type: ignore[attr-defined]
        PARSED: lambda: parsed(path),
    }
    return Operation("inspect of a session file", "MB/s", size, contending(runs))


def contending(runs: dict[str, Callable[[], Any]]) -> dict[str, Contender]:
    return {name: Contender(run) for name, run in runs.items()}


def file_compaction(folder: Path) -> Operation:
    path = session(folder / "session.jsonl", SMALL_MB)
    size = path.stat().st_size / 1e6
    made = folder / "compacted.jsonl"

    def run() -> bool:
        done = compact_session(open_session(path), output=made, overwrite=True)
        return done.result.compacted

    assert run()
    assert made.stat().st_size > path.stat().st_size
    runs: dict[str, Callable[[], Any]] = {OURS: run, PARSED: lambda: parsed(path)}
    return Operation("compact of a session file, without a model", "MB/s", size, contending(runs))


def fleet(folder: Path) -> Operation:
    """On a clock: two threads take as much of the processors as one, or more."""
    place = folder / "fleet"
    place.mkdir()
    for number in range(FILES):
        made = session_file(scenario(number, turns=12), layout=Layout())
        (place / f"{number}.jsonl").write_bytes(made.to_bytes())
    found = find_transcripts([place])

    def reports(workers: int) -> dict[Any, Any]:
        return {done.path: done.report for done in run_batch(inspect_file, found, workers=workers)}

    pool = ProcessPoolExecutor(2, mp_context=get_context("spawn"))

    def from_processes() -> dict[Any, Any]:
        """What the machine gives to two that share no lock."""
        made = pool.map(inspect_file, found, chunksize=10)
        return {each.path: report for each, report in zip(found, made, strict=True)}

    assert reports(1) == reports(2) == from_processes()
    runs: dict[str, Callable[[], Any]] = {
        OURS: lambda: reports(2),
        "ullage, one thread": lambda: reports(1),
        "ullage, two processes": from_processes,
        PARSED: lambda: [parsed(path) for path in sorted(place.iterdir())],
    }
    return Operation(
        f"inspect of {FILES} files, two threads", "files a second", FILES, contending(runs)
    )


def start(folder: Path) -> Operation:
    del folder
    programs = {
        OURS: "from ullage import ContextManager",
        "bare Python": "pass",
        "import ullage": "import ullage",
        "ullage --version": "import sys; sys.argv[1:] = ['--version']\n"
        "from ullage.cli import main\nmain()",
    }
    peers = {name: module for name, module in STARTED.items() if find_spec(module.split(".")[0])}
    programs |= {name: f"import {module}" for name, module in peers.items()}
    runs = {name: started(program) for name, program in programs.items()}
    title = "start of a process that imports `ContextManager`"
    return Operation(title, "µs a start", 1, contending(runs))


def started(
    program: str, *arguments: str, given: bytes = b"", answer: bytes = b"", **more: str
) -> Callable[[], Any]:
    command = [sys.executable, *(arguments or ("-c",)), program]
    # Without compiled modules each start would compile the whole package.
    settings = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", **more}

    def run() -> tuple[int, bytes]:
        done = subprocess.run(command, check=False, capture_output=True, env=settings, input=given)
        return done.returncode, done.stdout

    code, said = run()
    assert code == 0
    assert answer in said
    return run


def commands(folder: Path) -> Operation:
    """Processes that a user or a client waits for; the gateway's has relayed an answer when it is ended."""
    small = folder / "small.jsonl"
    small.write_bytes(session_file(scenario(1, turns=2), layout=Layout()).to_bytes())
    given = {"session_id": "s-1", "source": "compact", "transcript_path": str(compacted(folder))}
    event, settings = orjson.dumps(given), {"ULLAGE_HOME": str(folder)}
    words = ("-m", "ullage.clients.hook")
    hook = started("session-start", *words, given=event, answer=b"Never push to main", **settings)
    inspect = started(str(small), "-m", "ullage", "inspect", answer=b"tokens")
    server = proxy_load.started(proxy_load.SERVER)
    gateway = partial(proxy_load.first_answer, server.__enter__()[1], folder)
    finalize(gateway, server.__exit__, None, None, None)
    gateway()
    runs = dict(zip(COMMANDS, (inspect, hook, gateway), strict=True))
    title = "processor time of `ullage inspect` of a small file"
    all_ = contending({**runs, "bare Python": started("pass")})
    return Operation(title, "µs a process", 1, all_)


OTHER_WAYS = tuple(
    name for name in context.MAKERS if name.startswith("ullage") and "compact" not in name
)

BODY_WAYS = {
    OURS: (1_000, True, False),
    at_length(LONG_BODIES): (LONG_BODIES, True, False),
    "ullage, with a log": (1_000, True, True),
    "ullage, bare messages": (1_000, False, False),
    "ullage, bare messages at 30,000": (LONG_BODIES, False, False),
}
"""At how many messages, whether as servers answer, whether with a log."""
LONG_MEAN = "ullage, mean of 600 turns at 30,000"
"""Now and then a turn removes what is too much of something, such as images, and costs a walk."""
COMMANDS = (OURS, "ullage, a hook after a compaction", "ullage, the gateway to its first answer")

OPERATIONS: dict[str, Planned] = {
    "idle turn": Planned(
        idle_turn,
        (
            OURS,
            "ullage, OpenAI's chat form",
            "ullage, OpenAI's Responses",
            "ullage, every level asked",
            *PEERS,
        ),
    ),
    "idle turn by length": Planned(idle_by_length, tuple(map(at_length, LENGTHS))),
    **{
        f"body: {form}": Planned(partial(body_turn, form), (*BODY_WAYS, LONG_MEAN))
        for form in bodies.FORMS
    },
    "view": Planned(
        view, (OURS, "ullage, as a server answers", "ullage, at 10,000 messages", *PEERS)
    ),
    "acting turn": Planned(acting_turn, (OURS, *PEERS)),
    "first request": Planned(first_request, (OURS, *PEERS)),
    "compaction": Planned(compaction, (OURS, *OTHER_WAYS, *PEERS)),
    "inspect of a file": Planned(one_file, (OURS, "its index alone", PARSED)),
    "compaction of a file": Planned(file_compaction, (OURS, PARSED)),
    "fleet": Planned(
        fleet, (OURS, "ullage, one thread", "ullage, two processes", PARSED), time.perf_counter
    ),
    "start": Planned(
        start,
        (OURS, "bare Python", "import ullage", "ullage --version", *STARTED),
        time.perf_counter,
    ),
    "commands": Planned(commands, (*COMMANDS, "bare Python"), of_children),
}
