"""What a program lives through: sessions past the window, compactions, faults, interruptions, restarts.

A scenario is played with the gateway and without; what came of it is a `Result`, a row of the table in benches/TABLES.md.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from tests.programs.backend import TOO_LONG, Asked, Backend, Turn
from tests.programs.kit import ClaudeCode, Codex, Gateway, MiniSwe, Program, Ran, Vibe
from ullage.testing import Step
from ullage.testing.generator import png
from ullage.testing.script import Failure

__all__ = ["SCENARIOS", "Result", "Scenario", "Stage", "judge", "of", "outputs", "play_out"]

CONTINUED = "This session is being continued from a previous conversation"
"""How a summary of Claude Code begins, and one of Ullage's."""

PROMPT = "Port the parser to the new tokens."


@dataclass(frozen=True)
class Result:
    """What came of a scenario.

    Attributes:
        ended: The program said its last word and ended with exit code 0, each time that it was started.
        requests: For the main conversation and its sub-agents, refused ones included.
        illegal: Rules of the provider that requests broke.
        too_long: Requests refused as longer than the window.
        tokens: Of the requests that were answered, by the server's count.
        largest: The largest of them.
        rules: The fewest of the project's 80 rules in a request of the main conversation.
        compactions: Requests for a summary that reached the provider.
        compaction_tokens: What those took, with their answers.
        reopened: How often a session was resumed, and how often the next request held what was said before.
        opening: The user's first message stands verbatim in the newest request of the main conversation.
        summaries: How many summaries stand there.
        seconds: From the first start to the last end.
        said: What the program printed.
    """

    client: str
    scenario: str
    gateway: bool
    ended: bool
    requests: int
    illegal: tuple[str, ...]
    too_long: int
    tokens: int
    largest: int
    rules: int
    compactions: int
    compaction_tokens: int
    reopened: tuple[int, int]
    opening: bool
    summaries: int
    seconds: float
    said: str = ""


@dataclass
class Stage:
    """A program, the back end, and the gateway between them where there is one."""

    backend: Backend
    folder: Path
    gateway: bool
    options: Sequence[str]
    stack: ExitStack
    program: Program = field(init=False)
    runs: list[Ran] = field(default_factory=list)
    reopened: list[bool] = field(default_factory=list)
    session: str = ""

    def url(self) -> str:
        """Where the program is to send its requests; with a gateway, one that has just been started."""
        if not self.gateway:
            return self.backend.url
        started = Gateway(self.backend.url, self.folder / "state", *self.options)
        return self.stack.enter_context(started).url

    def restart(self) -> None:
        """Another gateway over the decisions of the one before."""
        self.stack.close()
        self.program.point_at(self.url())

    def run(self, prompt: str = PROMPT, *more: str) -> Ran:
        """Start a session and wait for its end."""
        return self.note(self.program.run(prompt, *more))

    def note(self, ran: Ran) -> Ran:
        """Remember how a run ended, and its session."""
        self.runs.append(ran)
        self.session = ran.session or self.session
        return ran

    def reopen(self, prompt: str = "Go on with the next file.", *more: str) -> Ran:
        """Resume the session; it has been reopened if what was said before is in the next request."""
        before = len(self.backend.asked)
        ran = self.note(self.program.run(prompt, *more, resume=self.session))
        new = [each for each in self.backend.asked[before:] if each.kind == "main"]
        self.reopened.append(bool(new) and new[0].answered and _holds_history(new[0]))
        return ran


def _holds_history(asked: Asked) -> bool:
    given = asked.body.get("messages", asked.body.get("input"))
    said = [
        each for each in given if each.get("role") == "assistant" or "call" in str(each.get("type"))
    ]
    return bool(said) or "summary" in str(given).lower()


def run_once(stage: Stage) -> None:
    """One session from its start to its end."""
    stage.run()


@dataclass(frozen=True)
class Scenario:
    """What a program is to live through.

    Attributes:
        play: Makes the responses of its model.
        window: Of the back end; `None`: the model's.
        drive: Starts the program, as often as the scenario wants.
        options: Of the gateway.
        settings: Of the program: arguments of its class.
        alone: Whether it ends without the gateway too.
    """

    client: type[Program]
    name: str
    play: Callable[[Path], Sequence[Turn]]
    window: int | None = None
    drive: Callable[[Stage], None] = run_once
    options: tuple[str, ...] = ()
    settings: tuple[tuple[str, object], ...] = ()
    alone: bool = True

    def __str__(self) -> str:
        return f"{self.client.__name__}-{self.name}".replace(" ", "-")


def play_out(scenario: Scenario, folder: Path, *, gateway: bool) -> Result:
    """Play a scenario and say what came of it."""
    began = time.monotonic()
    work = folder / "work"
    work.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack, Backend(window=scenario.window) as backend:
        backend.play = list(scenario.play(work))
        stage = Stage(backend, folder, gateway, scenario.options, stack)
        stage.program = scenario.client(folder, stage.url(), **dict(scenario.settings))
        stage.program.with_rules()
        scenario.drive(stage)
        assert not backend.errors, backend.errors
        return _result(scenario, stage, time.monotonic() - began)


def _result(scenario: Scenario, stage: Stage, seconds: float) -> Result:
    asked = stage.backend.asked
    ours = [each for each in asked if each.kind in ("main", "sub")]
    answered = [each for each in ours if each.answered]
    compactions = stage.backend.of("compaction")
    main = [each for each in stage.backend.of("main") if each.answered]
    newest = json.dumps(main[-1].body, ensure_ascii=False) if main else ""
    return Result(
        scenario.client.package,
        scenario.name,
        stage.gateway,
        ended=all(ran.code == 0 for ran in stage.runs) and not stage.backend.play,
        requests=len(ours),
        illegal=tuple(stage.backend.illegal),
        too_long=sum(any(rule in TOO_LONG for rule in each.refused) for each in asked),
        tokens=sum(each.tokens for each in answered),
        largest=max((each.tokens for each in answered), default=0),
        rules=min((each.rules for each in main), default=0),
        compactions=len(compactions),
        compaction_tokens=sum(each.tokens + each.output for each in compactions if each.answered),
        reopened=(len(stage.reopened), sum(stage.reopened)),
        opening=PROMPT in newest,
        summaries=newest.count(CONTINUED),
        seconds=seconds,
        said="\n".join(map(str, stage.runs)),
    )


# ---- plays ---------------------------------------------------------------------------------------


def outputs(client: type[Program], turns: int, parallel: int, lines: int = 4_200) -> list[Turn]:
    """Turns of `parallel` calls whose outputs have so many lines of seven characters, all different."""
    made = []
    for n in range(turns):
        first = [100_000 + (n * parallel + at) * 5_000 for at in range(parallel)]
        calls = tuple(client.shell(f"seq {at} {at + lines - 1}") for at in first)
        made.append(Turn(f"Step {n} of the port.", calls))
    return made


def _of_claude_code(work: Path, turns: int = 40) -> list[Turn]:
    """Parallel tools, two images and two sub-agents among large outputs."""
    play = outputs(ClaudeCode, turns, 2)
    for n, at in enumerate((turns // 8, turns // 2)):
        (work / f"shot{n}.png").write_bytes(png(600 + n, 400))
        play.insert(
            at, Turn("The screenshot.", (("Read", {"file_path": str(work / f"shot{n}.png")}),))
        )
        task = {"description": f"Look around {n}", "prompt": f"Find what reads tokens ({n})."}
        play.insert(at + 2, Turn("", (("Agent", task | {"subagent_type": "general-purpose"}),)))
    return play


def _of_codex(work: Path, turns: int = 30) -> list[Turn]:
    play = outputs(Codex, turns, 4)
    play.insert(
        5, Turn("", (("multi_agent_v1.spawn_agent", {"message": "Find what reads tokens."}),))
    )
    return play


def _faults(client: type[Program]) -> list[Turn]:
    """429, 500, three times 529, a broken stream, an error event, a slow stream; each is tried again."""
    rate = Failure(429, "rate_limit_error", "Slow down.", headers={"retry-after": "1"})
    faults = [
        Step("refuse", failure=rate),
        Step("server_error"),
        *[Step("overloaded")] * 3,
        Step("cut_stream"),
        Step("stream_error"),
    ]
    play = outputs(client, 10, 1, 300)
    for n, fault in enumerate(faults):
        play.insert(2 * n + 1, Turn("A part of an answer that breaks off here. " * 40, fault=fault))
    slow = Turn("This one comes late.", (client.shell("echo slow"),), Step("slow", seconds=1.0))
    return [*play, slow]


def _ended(play: Sequence[Turn]) -> list[Turn]:
    """The play of mini-swe-agent, which ends a task by a call."""
    return [*play, Turn("", MiniSwe.done)]


def _stalled(client: type[Program]) -> list[Turn]:
    """The fourth response stops in the middle and is never finished."""
    stall = Turn("Half of an answer. " * 200, fault=Step("stall", seconds=6.0))
    return [*outputs(client, 3, 1, 400), stall, *outputs(client, 2, 1, 200)]


def _stalls(asked: Asked) -> bool:
    return asked.recorded.fault is not None and asked.recorded.fault.kind == "stall"


# ---- courses -------------------------------------------------------------------------------------


def interrupted(stage: Stage) -> None:
    """Ctrl-C in the middle of a stream, then the session is resumed."""
    running = stage.program.start(PROMPT)
    deadline = time.monotonic() + 60
    while not any(map(_stalls, stage.backend.asked)) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.5)  # the first half of the stream is with the client
    stage.session = running.interrupt().session or stage.program.newest_session()
    stage.reopen()


def resumed(stage: Stage) -> None:
    """A session, another gateway over the same state, and the session twice again."""
    stage.run()
    for _ in range(2):
        stage.backend.play = outputs(type(stage.program), 2, 1, 200)
        stage.restart()
        stage.reopen()


def with_image(stage: Stage) -> None:
    """The same with an image in the user's first message."""
    picture = stage.program.work / "shot.png"
    picture.write_bytes(png(600, 400))
    stage.run(PROMPT, "-i", str(picture))
    stage.backend.play = outputs(type(stage.program), 2, 1, 200)
    stage.restart()
    stage.reopen()


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(ClaudeCode, "past the window", _of_claude_code),
    Scenario(
        ClaudeCode,
        "the default model, faults",
        lambda work: [*_faults(ClaudeCode), *outputs(ClaudeCode, 20, 2)],
        window=200_000,
        settings=(("model", "default"),),
    ),
    Scenario(
        ClaudeCode,
        "own compactions",
        lambda work: outputs(ClaudeCode, 36, 2),
        options=("--no-levels",),
        settings=(("CLAUDE_CODE_AUTO_COMPACT_WINDOW", "100000"),),
    ),
    Scenario(ClaudeCode, "interrupted", lambda work: _stalled(ClaudeCode), drive=interrupted),
    Scenario(ClaudeCode, "resumed twice", lambda work: outputs(ClaudeCode, 16, 2), drive=resumed),
    Scenario(Codex, "past the window", _of_codex, window=200_000, alone=False),
    Scenario(Codex, "faults", lambda work: _faults(Codex)),
    Scenario(
        Codex,
        "own compactions",
        lambda work: outputs(Codex, 20, 4),
        settings=(("limit", 60_000),),
    ),
    Scenario(
        Codex,
        "own compactions, provider OpenAI",
        lambda work: outputs(Codex, 20, 4),
        settings=(("limit", 60_000), ("provider", "OpenAI")),
    ),
    Scenario(Codex, "interrupted", lambda work: _stalled(Codex), drive=interrupted),
    Scenario(Codex, "image, resumed", lambda work: outputs(Codex, 4, 2), drive=with_image),
    Scenario(
        MiniSwe,
        "past the window",
        lambda work: _ended(outputs(MiniSwe, 10, 8)),
        window=128_000,
        alone=False,
    ),
    Scenario(MiniSwe, "faults", lambda work: _ended(_faults(MiniSwe))),
    Scenario(
        Vibe, "past the window", lambda work: outputs(Vibe, 10, 8), window=128_000, alone=False
    ),
    Scenario(Vibe, "faults", lambda work: _faults(Vibe)),
    Scenario(Vibe, "interrupted", lambda work: _stalled(Vibe), drive=interrupted),
    Scenario(Vibe, "resumed twice", lambda work: outputs(Vibe, 4, 2), drive=resumed),
)


def of(client: type[Program]) -> list[Scenario]:
    """The scenarios of one program."""
    return [each for each in SCENARIOS if each.client is client]


def judge(scenario: Scenario, result: Result) -> list[str]:
    """What is wrong with a result; empty: nothing is."""
    found = [f"the session was resumed {result.reopened[0]} times, reopened {result.reopened[1]}"]
    found = found if len(set(result.reopened)) > 1 else []
    if not result.gateway:
        as_expected = result.ended == scenario.alone
        return found if as_expected else [*found, f"without the gateway ended is {result.ended}"]
    wrong = {
        "it did not end": not result.ended,
        f"refused as illegal: {result.illegal}": bool(result.illegal),
        f"{80 - result.rules} of 80 rules are lost": bool(scenario.client.rules_file)
        and result.rules < 80,
        f"{result.compactions} compactions reached the provider": result.compactions > 0,
        "the user's first message is lost": not result.opening,
        f"{result.summaries} summaries stand in one request": result.summaries > 1,
    }
    return [*found, *(text for text, holds in wrong.items() if holds)]
