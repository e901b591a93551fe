"""Session files that Ullage changed, opened by the programs that wrote them: they send what `ullage resume` shows.

Compared are the calls, how their results begin, what assistant and user said, and the order of all of it; not the
reminders that the programs add to each request.
"""

from __future__ import annotations

import json
import random
import struct
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.programs.kit import RULES, Backend, ClaudeCode, Codex, Program, Turn
from tests.programs.scenarios import PROMPT, outputs
from ullage.sessions import open_session
from ullage.sessions.save import shown
from ullage.testing.server import Event, Recorded, Reply

SIZES = {
    "0.3": (4, 1_500, 0),
    "0.8": (30, 1_000, 0),
    "4": (30, 500, 140),
    "5": (30, 500, 158),
    "6": (30, 500, 175),
    "12": (30, 500, 253),
}
"""Megabytes of a Claude Code file: turns, lines of an output, and pixels on a side of the images in every other turn.

Beyond about 5 MB the client reads a file from its newest boundary on; images make a file large, not its context.
"""

BEGINNING = 80
_OF_THE_CLIENT = ("<system-reminder>", "No response requested.")
"""How Claude Code's own texts begin: the second answers a summary that nothing follows."""
NEXT = "Go on with it."


# ---- what is compared ------------------------------------------------------------------------------


def said(messages: Iterable[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """What stands in messages of Anthropic's API."""
    return [part for message in messages for part in _parts(message)]


def _parts(message: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for block in _blocks(message["content"]):
        kind = block["type"]
        if kind == "tool_use":
            yield "call", block["id"], json.dumps(block["input"], sort_keys=True)
        elif kind == "tool_result":
            yield "result", block["tool_use_id"], _beginning(_blocks(block["content"]))
        elif kind == "text" and not block["text"].lstrip().startswith(_OF_THE_CLIENT):
            yield message["role"], block["text"].strip()[:BEGINNING]


def _beginning(blocks: Iterable[Mapping[str, Any]]) -> str:
    text = "".join(block["text"] if block["type"] == "text" else "image" for block in blocks)
    return text.partition("<system-reminder>")[0].strip()[:BEGINNING]


def _blocks(content: Any) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def items_said(items: Iterable[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """What stands in items of the Responses API, without what Codex puts in for itself."""
    return [part for item in items for part in _item_parts(item)]


def _item_parts(item: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    kind, role = item.get("type", "message"), item.get("role")
    if kind == "function_call":
        yield "call", item["call_id"], item["arguments"]
    elif kind == "function_call_output":
        texts = [part.get("text", "") for part in _blocks(item["output"])]
        yield "result", item["call_id"], "".join(texts).strip()[:BEGINNING]
    elif kind == "message" and role in ("user", "assistant"):
        for part in _blocks(item["content"]):
            text = part["text"].strip()
            if not text.startswith(("<", "You are a coding agent", "You are Codex")):
                yield role, text[:BEGINNING]


def of_file(path: Path) -> list[tuple[str, ...]]:
    session = open_session(path)
    if session.format == "codex":
        return items_said(shown("codex", session.messages))
    return said(session.messages)


def of_request(body: Mapping[str, Any]) -> list[tuple[str, ...]]:
    return said(body["messages"]) if "messages" in body else items_said(body["input"])


def goes_on(program: Program, path: Path) -> None:
    """The program sends what the file shows, works on, and what it adds is read in its order too."""
    before, backend = of_file(path), program.backend
    known = len(backend.asked)
    backend.play += [Turn("Going on.", (program.shell("echo more"),)), Turn("Done again.")]
    ran = program.run(NEXT, resume=path.stem[-36:])
    assert ran.code == 0, ran
    first, *_, last = (each.body for each in backend.asked[known:] if each.kind == "main")
    assert of_request(first) == [*before, ("user", NEXT)]
    assert of_file(path) == [*of_request(last), ("assistant", "Done again.")]
    assert not backend.illegal


# ---- sessions ----------------------------------------------------------------------------------------


class Provider(Backend):
    """Its ids of calls are never used twice: the scripted server counts messages, of which a compaction leaves fewer."""

    def handle(self, recorded: Recorded) -> Reply:
        reply = super().handle(recorded)
        if reply.events is not None:
            reply.events = [self._with_own_ids(event) for event in reply.events]
        return reply

    def _with_own_ids(self, event: Event) -> Event:
        text = json.dumps(event.data).replace("toolu_01scripted", f"toolu_01r{len(self.asked):05}x")
        return Event(event.name, json.loads(text))


def noise(path: Path, side: int) -> None:
    """An image that no compression makes smaller."""
    rows = b"".join(b"\0" + random.Random(row).randbytes(side * 3) for row in range(side))

    def chunk(name: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        )

    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    parts = chunk(b"IHDR", head), chunk(b"IDAT", zlib.compress(rows, 1)), chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(parts))


def play(program: Program, turns: int, lines: int, side: int) -> Iterator[Turn]:
    for n in range(turns):
        calls = [program.shell(f"echo begin {n}; seq {n} {n + lines}")]
        if side and n % 2:
            noise(program.work / f"shot{n}.png", side)
            calls = [("Read", {"file_path": str(program.work / f"shot{n}.png")})]
        if n % 4 == 0:
            calls.append(program.shell(f"echo second {n}"))
        yield Turn(f"Step {n} of the port." if n % 3 else "", tuple(calls))


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Program]]:
    """A program with one session, made by the program itself; its back end lives on, so that no id comes twice."""
    with ExitStack() as stack:

        @cache
        def start(
            kind: type[Program], *size: int, window: int | None = None, **more: Any
        ) -> Program:
            backend = stack.enter_context(Provider(window=window))
            program = kind(tmp_path_factory.mktemp("program"), backend.url, **more)
            program.backend = backend
            backend.play += play(program, *size)
            ran = program.run("Port the parser; never touch billing.")
            assert ran.code == 0, ran
            assert not backend.illegal
            (program.first,) = program.sessions
            return program

        yield start


def copy_of(program: Program) -> Path:
    """The session again, under an id of its own."""
    old, new = program.first.stem[-36:], str(uuid.uuid4())
    path = program.first.with_name(program.first.name.replace(old, new))
    path.write_bytes(program.first.read_bytes().replace(old.encode(), new.encode()))
    return path


def fresh(program: Program, *command: str) -> Path:
    """The session that a command writes next to the others."""
    known = set(program.sessions)
    program.ullage(*command)
    (path,) = set(program.sessions) - known
    return path


# ---- what Ullage does to them --------------------------------------------------------------------------


def untouched(program: Program, path: Path) -> Path:
    return path


def in_place(program: Program, path: Path) -> Path:
    program.ullage("compact", str(path), "--in-place", "--keep", "2000")
    return path


def new_session(program: Program, path: Path) -> Path:
    return fresh(program, "compact", str(path), "--new-session", "--keep", "2000")


def edit(program: Program, path: Path) -> Path:
    program.ullage("edit", str(path), "--remove", "r2")
    return path


def undo(program: Program, path: Path) -> Path:
    program.ullage("undo", str(in_place(program, path)))
    return path


def undone_edit(program: Program, path: Path) -> Path:
    program.ullage("undo", str(edit(program, path)))
    return path


def hand_over(program: Program, path: Path) -> Path:
    tool = "codex" if isinstance(program, Codex) else "claude-code"
    return fresh(program, "handoff", str(path), "--to", tool)


def twice(program: Program, path: Path) -> Path:
    goes_on(program, in_place(program, path))
    program.ullage("compact", str(path), "--in-place", "--keep", "0")
    return path


def undo_later(program: Program, path: Path) -> Path:
    goes_on(program, in_place(program, path))
    program.ullage("undo", str(path))
    return path


CHANGES = [
    untouched, in_place, new_session, edit, undo, undone_edit, hand_over, twice, undo_later,
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
@pytest.mark.parametrize("size", SIZES)
def test_claude_code_goes_on_from_what_ullage_shows(started, size, change):
    program = started(ClaudeCode, *SIZES[size])
    path = copy_of(program)
    assert abs(path.stat().st_size / 1e6 / float(size) - 1) < 0.3
    was = of_file(path)
    path = change(program, path)
    if change in (in_place, new_session, twice):
        assert of_file(path)[0][1].startswith("This session is being continued")
    if change in (undo, undone_edit, hand_over):
        assert of_file(path) == was
    goes_on(program, path)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_codex_goes_on_from_what_ullage_shows(started, change):
    program = started(Codex, *SIZES["0.8"])
    path = copy_of(program)
    was = of_file(path)
    path = change(program, path)
    if change in (undo, undone_edit, hand_over):
        assert of_file(path) == was
    goes_on(program, path)


@pytest.mark.parametrize("kind", [ClaudeCode, Codex], ids=lambda kind: kind.__name__)
def test_after_a_compaction_the_program_puts_its_rules_in_again_and_they_stand_once(kind, tmp_path):
    with Backend(*outputs(kind, 4, 1, 1_500)) as backend:
        program = kind(tmp_path, backend.url)
        program.with_rules()
        assert program.run(PROMPT).code == 0
        (path,) = program.sessions
        in_place(program, path)
        assert program.run(NEXT, resume=path.stem[-36:]).code == 0
        newest = backend.of("main")[-1]
        assert newest.tokens < backend.of("main")[-2].tokens
        text = json.dumps(newest.body, ensure_ascii=False)
        assert {text.count(rule) for rule in RULES} == {1}
        assert not backend.illegal


# ---- sessions that the programs compacted themselves -------------------------------------------------------


LONG = {ClaudeCode: {"window": 60_000}, Codex: {"limit": 20_000}}
"""Where each program compacts a session of its own accord."""


def compacted(started: Callable[..., Program], kind: type[Program]) -> Program:
    program = started(kind, 24, 2_500, 0, **LONG[kind])
    assert any(each.kind == "compaction" for each in program.backend.asked)
    return program


def undo_its_own(program: Program, path: Path) -> Path:
    program.ullage("undo", str(path))
    return path


@pytest.mark.parametrize(
    "change",
    [untouched, in_place, undo, undo_its_own, hand_over],
    ids=lambda change: change.__name__,
)
@pytest.mark.parametrize("kind", [ClaudeCode, Codex], ids=lambda kind: kind.__name__)
def test_a_session_that_the_program_compacted_is_read_in_its_order(started, kind, change):
    program = compacted(started, kind)
    goes_on(program, change(program, copy_of(program)))


def test_claude_code_writes_before_its_summary_what_does_not_follow_it(started):
    """What made the order wrong: two attachments between the boundary and the summary, the kept part before both."""
    first = compacted(started, ClaudeCode).first
    lines = [json.loads(line) for line in first.read_bytes().splitlines()]
    cut = max(at for at, line in enumerate(lines) if line.get("subtype") == "compact_boundary")
    tree = [line for line in lines[cut + 1 :] if "uuid" in line]
    summary = next(at for at, line in enumerate(tree) if line.get("isCompactSummary"))
    assert {line["type"] for line in tree[:summary]} == {"attachment"}
    kept = lines[cut]["compactMetadata"]["preservedMessages"]["uuids"]
    assert {line["uuid"] for line in lines[:cut] if "uuid" in line}.issuperset(kept)
    order = [item["uuid"] for item in open_session(first).items]
    read = [uuid for uuid in kept if uuid in order]  # some attachments are not for the model
    start = order.index(tree[summary]["uuid"]) + 1
    assert len(read) > 2
    assert order[start : start + len(read)] == read
