"""Instruction counts of the hot paths against what was recorded: a change that makes one more expensive fails.

    python -m benches.gates            compares; exit code 1 if a count grew by more than the tolerance
    python -m benches.gates --write    records this machine's counts in benches/gates.json

Instructions are free of a busy machine's noise, which times are not. They are counted by valgrind's callgrind in one
process; each case runs once before it is counted, so that tables are loaded and caches have their usual state. Counts
depend a little on the interpreter (it makes the calls and owns the dicts) and on the processor (string searches
choose their code by it): the tolerance covers both, on x86-64 with AVX2. Another CPython than the one recorded gets
three times the tolerance, another architecture is not compared.

What a process takes to start is counted in processes of their own, whose bytecode is written before.

    python -m benches.gates --profile scan

prints by function where the instructions of the cases go that have this word in their names (`make profile CASE=scan` builds
the extension with names for it first). With `--keep` the files stay, for `callgrind_annotate --auto=yes` by source lines.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import os
import platform
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

RECORDED = Path(__file__).with_name("gates.json")
TOLERANCE_PERCENT = 5
LIMIT_SECONDS = 600
MESSAGES = 1_000
ROUNDS = 100
FORMS = ("anthropic", "openai_chat", "openai_responses", "gemini", "bedrock", "mistral")


ROW = re.compile(r" *[\d,]+ \( *[\d.]+%\)")
SHOWN = 40


class Case(NamedTuple):
    """What is counted, and by what its count is divided."""

    name: str
    unit: str
    prepare: Callable[[Path, Any], tuple[Callable[[], object], int]]


class Start(NamedTuple):
    """A process of its own, counted from its beginning to its end; without arguments a gateway until its first answer."""

    name: str
    arguments: tuple[str, ...]  # of the interpreter; `{folder}`: that of the inputs
    unit: str = "process"
    given: str = ""


# ---- inputs, made outside of valgrind ---------------------------------------------------------


def write_inputs(folder: Path) -> None:
    """Everything that the cases read: the same bytes on every machine."""
    from benches.python.bench_bpe import generated_json, generated_logs
    from benches.python.bench_ledger import conversation

    from tests.clients.test_hooks import compacted
    from tests.kit.transcripts import Layout, session_file
    from ullage.testing import scenario

    compacted(folder)
    rng = random.Random(1)
    (folder / "messages.json").write_text(json.dumps(conversation(MESSAGES)))
    (folder / "session.json").write_text(json.dumps(scenario(1, tokens=100_000).messages))
    (folder / "new.json").write_text(json.dumps(conversation(2, 7)))
    sessions = [session_file(scenario(seed, turns=30), layout=Layout()) for seed in range(1, 4)]
    (folder / "session.jsonl").write_bytes(b"".join(each.to_bytes() for each in sessions))
    small = session_file(scenario(1, turns=2), layout=Layout())
    (folder / "small.jsonl").write_bytes(small.to_bytes())
    texts = {"code.txt": generated_json(rng) + generated_logs(rng), "scripts.txt": scripts(rng)}
    for name, text in texts.items():
        (folder / name).write_text(text[:300_000], encoding="utf-8")


def scripts(rng: random.Random) -> str:
    """Words of eight scripts from their commonest letters; no language, but as hard to split."""
    ranges = [(0x430, 0x44F), (0x3B1, 0x3C9), (0x5D0, 0x5EA), (0x627, 0x64A)]
    ranges += [(0x915, 0x939), (0xE01, 0xE2E), (0x3042, 0x3093), (0x4E00, 0x5200), (0xAC00, 0xB000)]
    words = (
        "".join(chr(rng.randint(*letters)) for _ in range(rng.randint(2, 8)))
        for letters in (rng.choice(ranges) for _ in range(80_000))
    )
    return " ".join(words)


# ---- cases, run inside of valgrind -----------------------------------------------------------


def loaded(folder: Path, name: str) -> Any:
    return json.loads((folder / name).read_text())


def scan(folder: Path, core: Any) -> tuple[Callable[[], object], int]:
    items = loaded(folder, "messages.json")
    return lambda: core.Ledger(None, items), MESSAGES


def turn(folder: Path, core: Any) -> tuple[Callable[[], object], int]:
    ledger, new = core.Ledger(None, loaded(folder, "messages.json")), loaded(folder, "new.json")

    def run() -> None:
        for _ in range(ROUNDS):
            ledger.extend(new)
            ledger.anchored()
            ledger.truncate(MESSAGES)

    return run, ROUNDS


def again(folder: Path, core: Any) -> tuple[Callable[[], object], int]:
    items = loaded(folder, "messages.json")
    ledger = core.Ledger(None, items)

    def run() -> None:
        for _ in range(ROUNDS):
            ledger.sync(items)
            ledger.anchored()

    return run, ROUNDS


def index(folder: Path, core: Any) -> tuple[Callable[[], object], int]:
    path = str(folder / "session.jsonl")
    return lambda: core.TranscriptIndex.open(path), Path(path).read_bytes().count(b"\n")


def exact(name: str) -> Callable[[Path, Any], tuple[Callable[[], object], int]]:
    def prepare(folder: Path, core: Any) -> tuple[Callable[[], object], int]:
        text = (folder / name).read_text(encoding="utf-8")
        half = len(text) // 2
        # The first half comes before it is counted, the second is text that no cache has seen.
        parts = iter([text[:half], text[half:]])
        return lambda: core.count_text(next(parts)), len(text[half:].encode()) // 1000

    return prepare


def verify(folder: Path, core: Any) -> tuple[Callable[[], object], int]:
    ledger = core.Ledger(None, loaded(folder, "messages.json"))
    return lambda: core.check(ledger, "anthropic", {}), MESSAGES


def estimate(folder: Path, core: Any) -> tuple[Callable[[], object], int]:
    from ullage.counting import weights_for
    from ullage.counting.models import ModelTable

    weights = weights_for(ModelTable.builtin().lookup("claude-sonnet-4-5"))
    text = (folder / "code.txt").read_text(encoding="utf-8")
    return lambda: core.estimate_text(text, weights), len(text) // 1000


def idle(folder: Path, core: Any) -> tuple[Callable[[], object], int]:
    from benches import growth

    return growth.idle_turns(MESSAGES)


def real(
    form: str, *, ugly: bool = True, log: bool = False
) -> Callable[[Path, Any], tuple[Callable[[], object], int]]:
    """Turns as the provider's server answers them; at more messages they cost the same."""

    def prepare(folder: Path, core: Any) -> tuple[Callable[[], object], int]:
        from benches import growth

        return growth.in_form(ROUNDS, form, ugly=ugly, log=log, turns=2 * growth.TURNS + 1)

    return prepare


def acting(folder: Path, core: Any) -> tuple[Callable[[], object], int]:
    from benches import users

    messages = loaded(folder, "session.json")
    return twice(users.acting(messages, users.first_action(messages)))


def first(folder: Path, core: Any) -> tuple[Callable[[], object], int]:
    from benches import users

    return twice(users.first(loaded(folder, "session.json")))


def viewed(folder: Path, core: Any) -> tuple[Callable[[], object], int]:
    from benches import users

    return users.viewed(MESSAGES).once, 1


def twice(contender: Any, units: int = 1) -> tuple[Callable[[], object], int]:
    """What is done to something of its own each time, made before it is counted."""
    each = iter([contender.setup(), contender.setup()])

    def once() -> None:
        args, named = next(each)
        contender.run(*args, **named)

    return once, units


def collapse(folder: Path, core: Any) -> tuple[Callable[[], object], int]:
    from benches.operation import Contender
    from benches.python import bench_levels

    messages = bench_levels.talk(MESSAGES)
    act = bench_levels.checked("context collapse", messages)
    made = Contender(act, lambda: ((bench_levels.view_of(messages),), {}))
    return twice(made, len(messages))


def compaction(folder: Path, core: Any) -> tuple[Callable[[], object], int]:
    import ullage

    items, count = loaded(folder, "messages.json"), MESSAGES // 5
    parts = [items[at : at + count] for at in range(0, MESSAGES, count)]

    def compacted(part: list[Any]) -> object:
        return ullage.compact(part, model="claude-sonnet-4-5")

    # Other conversations go before: what a compaction keeps for a second one of the same would take a quarter off, and patterns are made
    # when a conversation first needs them.
    for part in parts[2:]:
        compacted(part)
    each = iter(parts[1::-1])
    return lambda: compacted(next(each)), count


CASES = (
    Case("scan of 1,000 messages", "message", scan),
    Case("a turn: two appended, counted, cut back", "turn", turn),
    Case("a manager's idle turn: two added, a request", "turn", idle),
    *(Case(f"a turn of a server's body, {form}", "turn", real(form)) for form in FORMS),
    *(Case(f"a turn of bare messages, {form}", "turn", real(form, ugly=False)) for form in FORMS),
    Case("a turn of a server's body, anthropic, with a log", "turn", real("anthropic", log=True)),
    Case("a turn in which old results are cleared", "turn", acting),
    Case("the first request, all levels on", "request", first),
    Case("view of a list of 1,000 with a new tail", "view", viewed),
    Case("context collapse of 996 messages", "message", collapse),
    Case("compaction of 200 messages, without a model", "message", compaction),
    Case("the same list of 1,000 passed again", "pass", again),
    Case("index of a transcript", "line", index),
    Case("exact count, JSON and logs, unseen", "kilobyte", exact("code.txt")),
    Case("exact count, other scripts, unseen", "kilobyte", exact("scripts.txt")),
    Case("verifier over 1,000 messages", "message", verify),
    Case("calibrated estimate of JSON and logs", "kilobyte", estimate),
)


IMPORT = "from ullage import ContextManager"
REQUEST = (
    "; manager = ContextManager(model='claude-sonnet-4-5')"
    "; manager.add({'role': 'user', 'content': 'hello'}); manager.prepare()"
)
HOOK = '{"session_id": "s-1", "source": "compact", "transcript_path": "{folder}/s-1.jsonl"}'
STARTS = (
    Start("import of ContextManager", ("-c", IMPORT)),
    Start("import and a first request", ("-c", IMPORT + REQUEST)),
    Start("ullage inspect of a small file", ("-m", "ullage", "inspect", "{folder}/small.jsonl")),
    Start("a hook after a compaction", ("-m", "ullage.clients.hook", "session-start"), given=HOOK),
    Start("the gateway to its first answer", ()),
    Start("bare Python", ("-c", "pass")),
)


def child(folder: Path) -> None:
    """Runs every case between two calls that valgrind watches for; prints what to divide by."""
    core = importlib.import_module("ullage._core")
    units = []
    for case in CASES:
        run, count = case.prepare(folder, core)
        run()
        # When the collector comes depends on all that was allocated before, and it walks whatever is loaded.
        gc.collect()
        gc.disable()
        os.getppid()
        run()
        os.getppid()
        gc.enable()
        units.append(count)
    print(json.dumps(units))


# ---- counting and comparing ------------------------------------------------------------------


def counts(folder: Path) -> list[float]:
    """Instructions a unit of each case, then those of each start."""
    units = watched(folder)
    # Part 1 is all before the first mark; every second part from there is a case.
    found = [total(part(folder, at)) / n for at, n in enumerate(units)]
    return [*found, *(float(started(folder, start)) for start in STARTS)]


def started(folder: Path, start: Start) -> int:
    """Instructions of a process whose bytecode was written by one before it."""
    from benches import proxy_load

    out = folder / "start"
    given, *arguments = (
        each.replace("{folder}", str(folder)) for each in (start.given, *start.arguments)
    )
    places = {"PYTHONPYCACHEPREFIX": str(folder / "pyc"), "ULLAGE_HOME": str(folder)}
    environment = {**os.environ, "PYTHONHASHSEED": "0", **places}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    for tool in ((), ("valgrind", "-q", "--tool=callgrind", f"--callgrind-out-file={out}")):
        if not arguments:
            with proxy_load.started(proxy_load.SERVER) as (_, direct):
                proxy_load.first_answer(direct, folder, tool, environment)
            continue
        subprocess.run(
            [*tool, sys.executable, *arguments],
            check=True,
            capture_output=True,
            timeout=LIMIT_SECONDS,
            env=environment,
            input=given.encode(),
        )
    return total(out)


def part(folder: Path, case: int) -> Path:
    return folder / f"callgrind.{2 * case + 2}"


def watched(folder: Path) -> list[int]:
    """Runs all cases under callgrind; what to divide each by."""
    out = folder / "callgrind"
    tool = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", "--dump-before=getppid"]
    command = [*tool, sys.executable, "-m", "benches.gates", "--child", str(folder)]
    # Hashes of strings decide how often a dict is probed.
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    run = subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=LIMIT_SECONDS, env=environment
    )
    units: list[int] = json.loads(run.stdout)
    return units


def total(path: Path) -> int:
    found = re.search(r"^(?:summary|totals): (\d+)", path.read_text(), re.MULTILINE)
    assert found is not None, path
    return int(found[1])


def profile(folder: Path, word: str) -> bool:
    """Prints the functions that take most, for each case with this word; whether there is one."""
    chosen = [at for at, case in enumerate(CASES) if word.lower() in case.name.lower()]
    if chosen:
        watched(folder)
    for at in chosen:
        print(f"\n== {CASES[at].name}: {total(part(folder, at)):,} instructions", flush=True)
        said = subprocess.run(
            ["callgrind_annotate", "--threshold=100", str(part(folder, at))],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
        # What was under way when counting began is charged with all that it called.
        rows = [row for row in said.stdout.splitlines() if ROW.match(row) and "(100.0%)" not in row]
        print("\n".join(row[:160] for row in rows[:SHOWN]))
    return bool(chosen)


def compare(found: list[float], recorded: dict[str, Any]) -> bool:
    """Print each case next to its record; returns whether none grew too much."""
    tolerance = recorded["tolerance_percent"]
    if recorded["python"] != python():
        tolerance *= 3
        print(
            f"recorded with CPython {recorded['python']}, this is {python()}: {tolerance} % allowed"
        )
    good = True
    for case, count in zip((*CASES, *STARTS), found, strict=True):
        before = recorded["instructions"].get(case.name)
        change = 100 * (count / before - 1) if before else 0.0
        dearer = change > tolerance
        good &= bool(before) and not dearer
        verdict = "TOO MUCH" if dearer else "cheaper: record it" if change < -tolerance else "ok"
        verdict = verdict if before else "NOT RECORDED"
        print(f"{case.name:<42}{count:>12,.0f} a {case.unit:<9}{change:>+7.1f} %  {verdict}")
    return good


def python() -> str:
    return ".".join(platform.python_version_tuple()[:2])


def record(found: list[float]) -> None:
    data = {
        "architecture": platform.machine(),
        "python": python(),
        "tolerance_percent": TOLERANCE_PERCENT,
        "instructions": {
            case.name: round(count) for case, count in zip((*CASES, *STARTS), found, strict=True)
        },
    }
    RECORDED.write_text(json.dumps(data, indent=2) + "\n")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="benches.gates")
    parser.add_argument("--write", action="store_true", help="record the counts")
    parser.add_argument("--profile", metavar="WORD", help="where the instructions of cases go")
    parser.add_argument("--keep", action="store_true", help="keep the folder with the profiles")
    parser.add_argument("--child", type=Path, help="run the cases on the inputs in this folder")
    chosen = parser.parse_args(arguments)
    if chosen.child:
        child(chosen.child)
        return 0
    recorded = json.loads(RECORDED.read_text()) if RECORDED.exists() else None
    if shutil.which("valgrind") is None:
        print("gates skipped: valgrind is not installed")
        return 0
    if recorded and recorded["architecture"] != platform.machine() and not chosen.write:
        print(f"gates skipped: recorded on {recorded['architecture']}")
        return 0
    folder = Path(tempfile.mkdtemp(prefix="ullage-gates-"))
    try:
        write_inputs(folder)
        if chosen.profile is not None:
            return 0 if profile(folder, chosen.profile) else 2
        found = counts(folder)
    finally:
        if chosen.keep:
            print(f"profiles: {folder}")
        else:
            shutil.rmtree(folder)
    if chosen.write or recorded is None:
        record(found)
        return 0
    return 0 if compare(found, recorded) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
