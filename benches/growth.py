"""How the cost of what users do grows: processor time a message (or a turn) by length, a megabyte by the size of a session's file.

    python -m benches.growth            prints the curves
    python -m benches.growth --write    also draws them into docs/growth.svg, docs/growth-turns.svg and docs/growth-files.svg
    python -m benches.growth --files    only those of files
    python -m benches.growth --turns    only turns, as a table: each provider's form in its plainest and its ugliest shape

Each curve is drawn relative to its shortest conversation, so that linear growth is a level line and no figure depends on the
machine. `tests/manager/test_growth.py` fails where a curve rises. Four minutes.
"""

from __future__ import annotations

import argparse
import atexit
import gc
import math
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple
from weakref import finalize

from benches import bodies

from tests.kit.transcripts import Layout, session_file
from ullage import ContextManager, compact, validate
from ullage._engine import core
from ullage.batch import find_transcripts, inspect_file
from ullage.sessions import compact_session, open_session
from ullage.testing import scenario

MODEL = "claude-opus-4-5"
WINDOW = 900_000_000
DOCS = Path(__file__).parents[1] / "docs"
TURNS = 100
Message = dict[str, Any]


@cache
def _folder() -> Path:
    """Of the files that are measured; it is there as long as the process."""
    made = Path(tempfile.mkdtemp(prefix="ullage-growth-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


class Curve(NamedTuple):
    """What is done at each length; `prepare(n)` gives what is timed, and by what its time is divided."""

    name: str
    prepare: Callable[[int], tuple[Callable[[], object], int]]
    longest: int = 100_000


# ---- what is done ----------------------------------------------------------------------------


def rounds(count: int, start: int = 0) -> Iterator[Message]:
    """A call and its result, over and over: all messages of one kind, so that their number alone differs."""
    for number in range(start, start + count // 2):
        given = {"command": f"make part-{number}"}
        call = {"type": "tool_use", "id": f"t{number}", "name": "Bash", "input": given}
        yield {"role": "assistant", "content": [{"type": "text", "text": "Next."}, call]}
        text = f"part {number}: 12 files, all fine\n" * 3
        block = {"type": "tool_result", "tool_use_id": f"t{number}", "content": text}
        yield {"role": "user", "content": [block]}


def talk(count: int) -> list[Message]:
    return [{"role": "user", "content": "build all parts"}, *rounds(count)]


def grown(messages: Sequence[Message]) -> ContextManager:
    manager = ContextManager(model=MODEL, context_window=WINDOW)
    for message in messages:
        manager.add(message)
    manager.prepare()
    return manager


def scan(count: int) -> tuple[Callable[[], object], int]:
    messages = talk(count)
    return lambda: core.Ledger(None, messages), count


def first_request(count: int) -> tuple[Callable[[], object], int]:
    messages = talk(count)
    return lambda: grown(messages), count


def idle_turns(count: int) -> tuple[Callable[[], object], int]:
    manager = grown(talk(count))
    coming = iter(list(rounds(20 * TURNS * 2, start=count)))

    def run() -> None:
        for _ in range(TURNS):
            manager.add(next(coming))
            manager.add(next(coming))
            manager.prepare()

    return run, TURNS


def other_form(count: int) -> tuple[Callable[[], object], int]:
    from ullage.providers import openai_chat

    manager = ContextManager(model="gpt-5.4", provider="openai_chat", context_window=WINDOW)
    chat = iter(openai_chat.to_provider(talk(count + 20 * TURNS * 2)).parts["messages"])
    for _ in range(count + 1):
        manager.add(next(chat))
    manager.prepare()

    def run() -> None:
        for _ in range(TURNS):
            manager.add(next(chat))
            manager.add(next(chat))
            manager.prepare()

    return run, TURNS


def take(manager: ContextManager, given: bodies.Turn) -> None:
    for item in [given.answer] if given.whole else given.answer:
        (manager.observe if given.whole else manager.add)(item)
    for item in given.results:
        manager.add(item)


def in_form(
    count: int, form: str, *, ugly: bool, log: bool = False, turns: int = 20 * TURNS
) -> tuple[Callable[[], object], int]:
    """Turns at the end of a conversation of so many messages, as the provider's server gives them; so many are ready."""
    tools = [{"name": name, "input_schema": {"type": "object"}} for name in ("Bash", "Read")]
    path = _folder() / f"turns-{count}.jsonl" if log else None
    if path is not None:
        path.unlink(missing_ok=True)
    manager = ContextManager(
        model=bodies.FORMS[form][0],
        provider=form,
        context_window=WINDOW,
        tools=tools,
        system="Build.",
        log=path,
    )
    numbers = iter(range(count + turns))
    manager.add(bodies.opening(form))
    while len(manager.messages) < count:
        for number in islice(numbers, 50):
            take(manager, bodies.turn(form, number, ugly=ugly))
    prepared, model = manager.prepare().messages, bodies.FORMS[form][0]
    # All of the rules but that of the model's own window, which is far smaller than what is measured here.
    assert validate(prepared, provider=form, model=model, tools=tools, skip=("A24", "O09")).ok
    coming = [bodies.turn(form, number, ugly=ugly) for number in numbers]
    turns = iter(coming)
    take(manager, last := next(turns))
    assert list(manager.prepare().messages[-len(last.results) :]) == last.results

    def run() -> None:
        for each in islice(turns, TURNS):
            take(manager, each)
            manager.prepare()

    finalize(run, manager.close)
    return run, TURNS


def acting(count: int) -> tuple[Callable[[], object], int]:
    """The first request of a conversation that is over its window: results are shortened, the older part is folded."""
    messages = talk(count)
    tokens = int(core.Ledger(None, messages).tokens())

    def run() -> None:
        manager = ContextManager(
            model=MODEL,
            context_window=max(2_000, tokens // 2),
            policy=_ACTING,
        )
        for message in messages:
            manager.add(message)
        manager.prepare()

    return run, count


def extractive(count: int) -> tuple[Callable[[], object], int]:
    messages = talk(count)
    return lambda: compact(messages, model=MODEL, keep=2_000), count


def chat(count: int) -> tuple[Callable[[], object], int]:
    """Words of the user alone, each message its own, and short responses: what gives way is chosen among hundreds."""
    messages: list[Message] = []
    for number in range(count // 2):
        asked = f"question {number}: " + "why does it say so, and where? " * 8
        messages.append({"role": "user", "content": asked})
        messages.append(
            {"role": "assistant", "content": f"response {number}: because of part {number}."}
        )
    messages.append({"role": "user", "content": "and then?"})
    return lambda: compact(messages, model=MODEL, keep=2_000, target_tokens=1_500), count


def _acting_policy() -> Any:
    from ullage import Policy

    return Policy.ladder().change({"auto.enabled": False})


_ACTING = _acting_policy()

_SHAPES = ((False, "bare messages"), (True, "bodies of servers"))

TURNS_OF = tuple(
    Curve(f"a turn, {name}, {shape}", partial(in_form, form=form, ugly=ugly, log=log), 31_622)
    for name, form, log in (
        *((form, form, False) for form in bodies.FORMS),
        ("anthropic with a log", "anthropic", True),
    )
    for ugly, shape in _SHAPES
)

CURVES = (
    Curve("scan, a message", scan),
    Curve("add all and the first request, a message", first_request),
    Curve("an idle turn", idle_turns),
    Curve("an idle turn in the chat form", other_form, longest=10_000),
    *TURNS_OF,
    Curve("levels that act, a message", acting, longest=10_000),
    Curve("compact without a model, a message", extractive, longest=3_162),
    Curve("compact of a chat without a model, a message", chat, longest=3_162),
)


# ---- files -----------------------------------------------------------------------------------

MEGABYTES = (1, 4, 16, 63, 400)


def one_session(path: Path, megabytes: int) -> Path:
    """A file that is one conversation, of about this size; a larger one takes minutes to make."""
    turns = max(1, round(13.5 * megabytes))
    path.write_bytes(session_file(scenario(1, turns=turns), layout=Layout()).to_bytes())
    return path


def many_sessions(path: Path, megabytes: int) -> Path:
    """A file that is as large, of one session over and over: what reads lines one by one sees no difference."""
    lines = session_file(scenario(1, turns=14), layout=Layout()).to_bytes()
    with path.open("wb") as file:
        for _ in range(max(1, round(megabytes * 1e6 / len(lines)))):
            file.write(lines)
    return path


def inspected(megabytes: int) -> tuple[Callable[[], object], int]:
    path = many_sessions(_folder() / f"many-{megabytes}.jsonl", megabytes)
    found = find_transcripts([path])[0]
    return lambda: inspect_file(found), path.stat().st_size


def compacted(megabytes: int) -> tuple[Callable[[], object], int]:
    path = one_session(_folder() / f"one-{megabytes}.jsonl", megabytes)
    made = _folder() / "compacted.jsonl"
    size = path.stat().st_size
    return lambda: compact_session(open_session(path), output=made, overwrite=True), size


def resumed(turns: int) -> tuple[Callable[[], object], int]:
    """A manager's log, read back; every turn wrote a message and a line of its state."""
    path = _folder() / f"log-{turns}.jsonl"
    with ContextManager(model=MODEL, context_window=WINDOW, log=path) as manager:
        for message in talk(2 * turns):
            manager.add(message)
            if message["role"] == "user":
                manager.prepare()

    def run() -> None:
        ContextManager.resume(path).close()

    return run, turns


RESUME = Curve("resume of a manager from its log, a turn", resumed, longest=10_000)

FILES = (
    Curve("inspect of a file, a byte", inspected, longest=400),
    Curve("compact of a file without a model, a byte", compacted, longest=16),
)


# ---- measuring -------------------------------------------------------------------------------


def costs(curve: Curve, lengths: Sequence[int], rounds: int = 2) -> list[float]:
    """Seconds of processor time a unit at each length, the best of some rounds."""
    found = []
    for length in lengths:
        run, units = curve.prepare(length)
        run()
        found.append(min(clock(run) for _ in range(rounds)) / units)
    return found


def clock(run: Callable[[], object]) -> float:
    gc.collect()
    gc.disable()
    started = time.thread_time()
    answer = run()
    seconds = time.thread_time() - started
    gc.enable()
    del answer
    return seconds


def slope(lengths: Sequence[int], found: Sequence[float]) -> float:
    """By which power of the length a unit's cost grows (least squares in logarithms); 0: linear in all."""
    xs, ys = [math.log(each) for each in lengths], [math.log(each) for each in found]
    x, y = sum(xs) / len(xs), sum(ys) / len(ys)
    return sum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True)) / sum(
        (a - x) ** 2 for a in xs
    )


class Axis(NamedTuple):
    """What a picture shows from left to right."""

    title: str
    ticks: tuple[int, ...]
    unit: str = ""


LENGTHS = Axis(
    "cost of a message or turn, relative to 100 messages (level: linear)",
    (100, 1_000, 10_000, 100_000),
)
SIZES = Axis(
    "cost of a byte, relative to a file of 1 MB (level: linear)", (1, 10, 100, 1_000), " MB"
)


# The API takes no more than 100,000 messages: the longest conversation stays below.
def lengths_of(curve: Curve) -> list[int]:
    return [
        each for each in (100, 316, 1_000, 3_162, 10_000, 31_622, 95_000) if each <= curve.longest
    ]


# ---- drawing ---------------------------------------------------------------------------------

WIDTH, HEIGHT, LEFT, TOP = 760, 420, 60, 30
COLOURS = (
    "#1b6ca8",
    "#c8553d",
    "#3a7d44",
    "#7b4b94",
    "#b8860b",
    "#444444",
    "#d17bb0",
    "#5bb5c5",
)


Measured = tuple[Curve, list[int], list[float]]


def drawn(measured: Sequence[Measured], axis: Axis = LENGTHS) -> str:
    """The curves as an SVG picture."""
    right, bottom = WIDTH - 40, HEIGHT - 140
    most = 4.0

    def x(length: int) -> float:
        least, largest = (math.log10(each) for each in (axis.ticks[0], axis.ticks[-1]))
        return LEFT + (right - LEFT) * (math.log10(length) - least) / (largest - least)

    def y(ratio: float) -> float:
        return bottom - (bottom - TOP) * (math.log2(min(max(ratio, 0.25), most)) + 2) / 4

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="18">{axis.title}</text>',
    ]
    for ratio in (0.25, 0.5, 1, 2, 4):
        at = y(ratio)
        lines.append(f'<path d="M{LEFT} {at:.0f}H{right}" stroke="#ddd"/>')
        lines.append(f'<text x="{LEFT - 8}" y="{at + 4:.0f}" text-anchor="end">{ratio:g}</text>')
    for length in axis.ticks:
        at = x(length)
        lines.append(f'<path d="M{at:.0f} {TOP}V{bottom}" stroke="#eee"/>')
        lines.append(
            f'<text x="{at:.0f}" y="{bottom + 16}" text-anchor="middle">{length:,}{axis.unit}</text>'
        )
    for number, (curve, lengths, found) in enumerate(measured):
        colour = COLOURS[number % len(COLOURS)]
        points = [
            f"{x(n):.1f},{y(cost / found[0]):.1f}" for n, cost in zip(lengths, found, strict=True)
        ]
        lines.append(
            f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour}" stroke-width="2"/>'
        )
        column, row = number % 2, number // 2
        left, at = LEFT + 360 * column, bottom + 42 + 20 * row
        lines.append(f'<path d="M{left} {at - 4}h22" stroke="{colour}" stroke-width="3"/>')
        lines.append(f'<text x="{left + 28}" y="{at}">{curve.name}</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="benches.growth")
    parser.add_argument("--write", action="store_true", help="draw docs/growth.svg")
    parser.add_argument("--files", action="store_true", help="only the curves of files")
    parser.add_argument("--turns", action="store_true", help="only turns, as a table")
    chosen = parser.parse_args(arguments)
    if chosen.turns:
        print(turns_table())
        return 0
    files = [measure(curve, [n for n in MEGABYTES if n <= curve.longest]) for curve in FILES]
    pictures = {"growth-files.svg": drawn(files, SIZES)}
    if not chosen.files:
        talks = [curve for curve in CURVES if curve not in TURNS_OF]
        for name, curves in (("growth.svg", talks), ("growth-turns.svg", TURNS_OF[1::2])):
            pictures[name] = drawn([measure(curve, lengths_of(curve)) for curve in curves])
    if chosen.write:
        for name, picture in pictures.items():
            (DOCS / name).write_text(picture, encoding="utf-8")
    return 0


def turns_table(lengths: Sequence[int] = (100, 1_000, 10_000)) -> str:
    """What a turn costs in each form, in µs of processor time at each length: of bare messages, then of bodies as servers answer them."""
    head = [f"{shape}, {length:,}" for _, shape in _SHAPES for length in lengths]
    lines = [
        f"| a turn in µs, at so many messages | {' | '.join(head)} |",
        "| --- " + "| --: " * len(head) + "|",
    ]
    for bare, ugly in zip(TURNS_OF[::2], TURNS_OF[1::2], strict=True):
        found = [*costs(bare, lengths, rounds=5), *costs(ugly, lengths, rounds=5)]
        name = bare.name.split(", ")[1]
        lines.append(f"| {name} | " + " | ".join(f"{each * 1e6:.0f}" for each in found) + " |")
    return "\n".join(lines)


def measure(curve: Curve, lengths: list[int]) -> Measured:
    """The curve's costs, printed."""
    found = costs(curve, lengths)
    told = "  ".join(f"{each / found[0]:.2f}" for each in found)
    print(
        f"{curve.name:<42} {found[0] * 1e6:8.3f} µs   {told}   slope {slope(lengths, found):+.2f}",
        flush=True,
    )
    return curve, lengths, found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
