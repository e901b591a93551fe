"""Files that another program writes while they are read: the bytes that were indexed, or one typed error; never a signal."""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.machine_kit import IDS, claude_lines
from ullage import _reference as twin
from ullage.exceptions import InvalidTranscript, TranscriptChanged
from ullage.sessions import inspect_session, open_session
from ullage.transcript import Transcript, resume

ENGINES = [pytest.param(twin, id="python")]
try:
    from ullage import _core
except ImportError:  # the wheel without the extension
    pass
else:
    ENGINES.append(pytest.param(_core, id="rust"))


def entry(at: int, text: str = "word ", times: int = 40) -> bytes:
    """A line that says itself whether it is whole."""
    content = f"{at}: {text * times}"
    line = {"type": "user", "uuid": f"u{at}", "parentUuid": f"u{at - 1}" if at else None}
    line |= {"sessionId": "s", "sum": hashlib.sha1(content.encode()).hexdigest()}
    return json.dumps({**line, "message": {"role": "user", "content": content}}).encode() + b"\n"


def is_whole(line: dict) -> bool:
    return line["sum"] == hashlib.sha1(line["message"]["content"].encode()).hexdigest()


def written(path: Path, count: int = 60) -> list[bytes]:
    lines = [entry(at) for at in range(count)]
    path.write_bytes(b"".join(lines))
    return lines


def truncate(path: Path, lines: list[bytes]) -> None:
    os.truncate(path, len(b"".join(lines[:9])) + 11)


def empty(path: Path, lines: list[bytes]) -> None:
    os.truncate(path, 0)


def write_over(path: Path, lines: list[bytes]) -> None:
    """Other bytes, as many, with the time of change that the file had."""
    before = path.stat()
    with path.open("r+b") as file:
        file.write(b"".join(lines).replace(b"word", b"WORD"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def write_longer(path: Path, lines: list[bytes]) -> None:
    path.write_bytes(b"".join(entry(at, "other ", 90) for at in range(80)))


CHANGES = [truncate, empty, write_over, write_longer]


@pytest.mark.parametrize("change", CHANGES, ids=lambda each: each.__name__)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_line_is_what_was_indexed_or_an_error(engine, change, tmp_path):
    path = tmp_path / "s.jsonl"
    lines = written(path)
    index = engine.TranscriptIndex.open(str(path))
    change(path, lines)
    told = []
    for at in range(len(index)):
        for read in (index.raw, index.load):
            try:
                found = read(at)
            except TranscriptChanged as error:
                told.append((error.path, error.line, error.offset, bool(error.hint)))
            else:
                assert found in (lines[at].strip(), json.loads(lines[at]))
    places = [(str(path), at + 1, len(b"".join(lines[:at])), True) for at in range(len(lines))]
    assert set(told) <= set(places)
    assert told[-1] == places[-1]


@pytest.mark.parametrize("engine", ENGINES)
def test_what_is_appended_or_put_in_the_place_of_a_file_changes_nothing(engine, tmp_path):
    path = tmp_path / "s.jsonl"
    lines = written(path)
    index = engine.TranscriptIndex.open(str(path))
    with path.open("ab") as file:
        file.write(entry(99))
    other = tmp_path / "other"
    other.write_bytes(b"{}\n")
    other.replace(path)
    assert [index.load(at) for at in range(len(index))] == [json.loads(line) for line in lines]
    assert index.size == len(b"".join(lines))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_last_line_without_its_end_is_kept_as_it_was(engine, tmp_path):
    """A writer may take back a line that it could not finish."""
    path = tmp_path / "s.jsonl"
    whole = entry(0)
    path.write_bytes(whole + entry(1).strip())
    index = engine.TranscriptIndex.open(str(path))
    os.truncate(path, len(whole))
    assert index.load(1) == json.loads(entry(1))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("size", [1, 511, 524_287, 524_288, 524_289, 1_700_000])
def test_lines_of_any_length_are_found_again(engine, size, tmp_path):
    path = tmp_path / "s.jsonl"
    lines = [
        entry(0),
        entry(1, "x", size),
        b"\n",
        entry(2),
        entry(3, "é", size // 2),
        b"not json\n",
    ]
    path.write_bytes(b"\xef\xbb\xbf" + b"".join(lines))
    index = engine.TranscriptIndex.open(str(path))
    filed = [index.raw(at) for at in range(len(index))]
    held = engine.TranscriptIndex.from_bytes(path.read_bytes())
    assert filed == [held.raw(at) for at in range(len(held))]
    assert filed == [line.strip() for line in lines if line.strip()]
    assert (index.bad, index.torn, index.size) == (held.bad, held.torn, held.size)


@pytest.mark.parametrize("change", CHANGES, ids=lambda each: each.__name__)
def test_a_changed_file_is_never_read_as_a_shorter_conversation(change, tmp_path):
    """Lines that are not objects are passed over; lines that were removed must not be."""
    path = tmp_path / "s.jsonl"
    lines = written(path)
    transcript = Transcript.open(path)
    change(path, lines)
    with pytest.raises(TranscriptChanged):
        transcript.messages()
    with pytest.raises(TranscriptChanged):
        list(transcript.entries())


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="POSIX pipes")
def test_a_pipe_stops_nobody(tmp_path):
    path = tmp_path / "f.jsonl"
    os.mkfifo(path)
    program = """
        import sys
        from ullage import InvalidTranscript, open_session, resume
        from ullage.transcript.formats import detect
        for way in (open_session, resume, detect):
            try:
                way(sys.argv[1])
            except InvalidTranscript as error:
                print(error.reason)
    """
    command = [sys.executable, "-c", textwrap.dedent(program), str(path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines() == ["is not a regular file"] * 3


# ---- with a program that never stops writing -----------------------------------------------

WRITER = """
import os, random, sys, time
sys.path.insert(0, os.path.dirname(sys.argv[3]))
from test_changing_files import entry
path, turns = sys.argv[1], int(sys.argv[2])
rng = random.Random(7)
for turn in range(turns):
    count = rng.randrange(1, 400)
    if rng.random() < 0.4:
        size = os.path.getsize(path)
        os.truncate(path, rng.randrange(size + 1))
    lines = [entry(at, f"w{turn} ") for at in range(count)]
    with open(path, "wb", buffering=1 << 12) as file:
        file.writelines(lines)
    time.sleep(0.004)
    print(turn, flush=True)
"""


@pytest.mark.live
@pytest.mark.timeout(900)
@pytest.mark.parametrize("shape", ["claude_code", "other"])
def test_five_hundred_truncations_and_rewrites_of_a_file_that_is_read(shape, tmp_path):
    from ullage.recall.store import Archive

    path = tmp_path / "s.jsonl"
    written(path, 300)
    command = [sys.executable, "-c", WRITER, str(path), "500", __file__]
    rng = random.Random(1)
    seen = {"whole": 0, "errors": 0, "rounds": 0, "recalled": 0}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        while writer.poll() is None:
            seen["rounds"] += 1
            try:
                if shape == "other":
                    assert all(map(is_whole, open_session(path).items))
                    continue
                transcript = Transcript.open(path)
                rows = transcript.rows()
                for at in rng.sample(range(len(rows)), min(60, len(rows))):
                    line = transcript.load(at)
                    if "sum" in line:
                        assert is_whole(line)
                        seen["whole"] += 1
                archive = Archive(transcript=transcript)
                for row in rows[:5]:
                    found = archive.resolve(row.uuid)
                    assert all(map(is_whole, found.items))
                    seen["recalled"] += 1
            except InvalidTranscript:
                seen["errors"] += 1
        turns = writer.stdout.read().split() if writer.stdout else []
    assert writer.returncode == 0
    assert len(turns) == 500
    assert seen["rounds"] > 50
    print(seen)


@pytest.mark.parametrize("place", [0, 3, -1], ids=["first", "in the middle", "newest"])
def test_a_line_that_is_nested_too_deeply_closes_no_session(tmp_path, place):
    made = claude_lines(IDS["claude-code"], "/w", turns=4)
    whole = [json.dumps(line) for line in made]
    deep = '{"type":"assistant","uuid":"d","message":{"role":"assistant","content":%s}}'
    whole.insert(place if place >= 0 else len(whole), deep % ("[" * 100_000 + "]" * 100_000))
    path = tmp_path / "s.jsonl"
    path.write_text("\n".join(whole) + "\n")
    opened = open_session(path)
    number = whole.index(max(whole, key=len)) + 1
    assert opened.warnings == (f"line {number}: nested too deeply, left out",)
    assert (opened.id, opened.messages) == (IDS["claude-code"], resume(made).messages)
    assert inspect_session(path).messages == len(opened.messages)
