"""Files that their own program still writes to: a compaction loses no line of theirs, or is refused (LOG-6)."""

from __future__ import annotations

import errno
import json
import os
import random
import re
import stat
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from ullage.compaction.job import CompactionResult
from ullage.exceptions import LogConflict, StoreError
from ullage.sessions import compact_session, open_session
from ullage.transcript import resume
from ullage.transcript.log import LogFile

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions and links")
FORMATS = ["claude_code", "codex", "pi"]
FILLER = "the parser drops the last row when the file has no line end "


def line_of(shape: str, at: int, last: str | None, times: int = 30) -> tuple[bytes, str | None]:
    """One turn's line of a program, marked; and what the next one is linked to."""
    text = f"MARK{at:05d}. {FILLER * times}"
    role = "assistant" if at % 2 else "user"
    stamp = f"2026-01-01T{at // 3600:02}:{at // 60 % 60:02}:{at % 60:02}.000Z"
    line: dict = {"timestamp": stamp}
    if shape == "claude_code":
        line |= {"type": role, "uuid": f"live-{at}", "parentUuid": last, "sessionId": "s"}
        line["message"] = {"role": role, "content": text}
    elif shape == "codex":
        kind = "output_text" if at % 2 else "input_text"
        said = {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}
        line |= {"type": "response_item", "payload": said}
    else:
        line |= {"type": "message", "id": f"{at:08x}", "parentId": last}
        line["message"] = {"role": role, "content": [{"type": "text", "text": text}]}
    return json.dumps(line).encode() + b"\n", line.get("uuid") or line.get("id")


def begun(path: Path, shape: str, count: int = 40) -> Path:
    heads = {
        "claude_code": [],
        "codex": [{"type": "session_meta", "payload": {"id": "s1", "cwd": "/w"}}],
        "pi": [{"type": "session", "id": "s1", "cwd": "/w", "timestamp": "t"}],
    }
    last = None
    with path.open("wb") as file:
        for head in heads[shape]:
            file.write(json.dumps(head).encode() + b"\n")
        for at in range(count):
            line, last = line_of(shape, at, last)
            file.write(line)
    return path


def marks(said) -> set[str]:
    return set(re.findall(r"MARK\d{5}", json.dumps(said)))


def grow(path: Path, shape: str, at: int = 90_000) -> None:
    with path.open("ab") as file:
        file.write(line_of(shape, at, line_of(shape, 39, None)[1])[0])


def swap(path: Path, shape: str) -> None:
    """Another file with the same bytes."""
    other = path.with_name("other")
    other.write_bytes(path.read_bytes())
    other.replace(path)


def cut(path: Path, shape: str) -> None:
    os.truncate(path, path.stat().st_size - 700)


def edit(path: Path, shape: str) -> None:
    """Other bytes, as many."""
    data = path.read_bytes().replace(b"parser", b"PARSER")
    with path.open("r+b") as file:
        file.write(data)
    os.utime(path, ns=(1, path.stat().st_mtime_ns + 1))


# ---- the file is not the one that was read ----------------------------------------------------


@pytest.mark.parametrize("change", [grow, swap, cut, edit], ids=lambda each: each.__name__)
@pytest.mark.parametrize("where", ["in place", "elsewhere"])
@pytest.mark.parametrize("shape", FORMATS)
def test_a_file_that_changed_since_it_was_opened_is_refused(shape, where, change, tmp_path):
    path = begun(tmp_path / "s.jsonl", shape)
    target = path if where == "in place" else tmp_path / "out.jsonl"
    opened = open_session(path)
    change(path, shape)
    before = path.read_bytes()
    with pytest.raises(LogConflict) as found:
        compact_session(opened, output=target, keep=400)
    assert "open it again" in found.value.hint
    assert path.read_bytes() == before
    assert sorted(each.name for each in tmp_path.iterdir()) == ["s.jsonl"]
    again = compact_session(open_session(path), output=target, keep=400)
    assert again.result.compacted
    assert marks(resume(again.messages).messages) <= marks(open_session(path).messages) | marks(
        again.messages
    )


@pytest.mark.parametrize("shape", FORMATS)
def test_it_is_looked_at_again_directly_before_the_write(shape, tmp_path, monkeypatch):
    path = begun(tmp_path / "s.jsonl", shape)
    opened = open_session(path)
    append = LogFile.append

    def late(self, data, pin=None):
        if pin is not None:
            grow(path, shape)  # after the copy was made and read back, under the lock
        return append(self, data, pin)

    monkeypatch.setattr(LogFile, "append", late)
    with pytest.raises(LogConflict):
        compact_session(opened, output=path, keep=400)
    monkeypatch.undo()
    assert "MARK90000" in marks(open_session(path).messages)
    assert len(open_session(path).messages) >= len(opened.messages)


@pytest.mark.parametrize("shape", FORMATS)
def test_a_line_that_comes_between_look_and_write_is_not_hidden(shape, tmp_path, monkeypatch):
    """No lock keeps the other program out: what was written after its line is taken back, its line is not."""
    path = begun(tmp_path / "s.jsonl", shape)
    opened = open_session(path)
    before = path.read_bytes()
    theirs = line_of(shape, 90_000, line_of(shape, 39, None)[1])[0]
    write, once = os.write, []

    def slow(fd, data):
        if not once and os.fstat(fd).st_ino == path.stat().st_ino:
            once.append(True)
            with path.open("ab") as file:
                file.write(theirs)
        return write(fd, data)

    init = LogFile.__init__
    monkeypatch.setattr(
        LogFile, "__init__", lambda self, *args, **more: init(self, *args, **more, write=slow)
    )
    with pytest.raises(LogConflict):
        compact_session(opened, output=path, keep=400)
    monkeypatch.undo()
    data = path.read_bytes()
    assert data.startswith(before + theirs)
    assert not data[len(before + theirs) :].strip()
    assert "MARK90000" in marks(open_session(path).messages)
    assert marks(opened.messages) < marks(open_session(path).messages)


def test_a_compaction_that_does_not_account_for_every_entry_is_not_written(tmp_path, monkeypatch):
    import ullage.sessions.save as writing

    path = begun(tmp_path / "s.jsonl", "claude_code")
    before = path.read_bytes()
    compact = writing._compacted

    def careless(*args, **more) -> CompactionResult:
        from dataclasses import replace

        result = compact(*args, **more)
        report = replace(result.report, removed=result.report.removed[1:])
        return replace(result, report=report)

    monkeypatch.setattr(writing, "_compacted", careless)
    with pytest.raises(LogConflict, match="accounts for 39 entries of 40"):
        compact_session(open_session(path), output=path, keep=400)
    assert path.read_bytes() == before


# ---- a write that fails ------------------------------------------------------------------------


class Interrupted:
    """A system that writes some bytes, lets another program write, and fails."""

    def __init__(self, path: Path, own: int, *, foreign: bytes, after: bytes = b"") -> None:
        self.path, self.own, self.foreign, self.after = path, own, foreign, after
        self.calls = 0

    def __call__(self, fd, data):
        self.calls += 1
        if self.calls > 1 or not self.own:
            self.add(self.after if self.calls > 1 else self.foreign)
            raise OSError(errno.ENOSPC, "full")
        written = os.write(fd, bytes(data)[: self.own])
        self.add(self.foreign)
        return written

    def add(self, data: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(data)


@pytest.mark.parametrize("own", [0, 1, 5, 7])
@pytest.mark.parametrize("before", [b'{"a":1}\n', b'{"a":1}\n{"torn', b""])
@pytest.mark.parametrize("after", [b"", b'{"uuid":"late"}\n'])
def test_a_rollback_takes_back_its_own_bytes_only(own, before, after, tmp_path):
    path = tmp_path / "s.jsonl"
    path.write_bytes(before)
    foreign = b'{"uuid":"foreign"}\n'
    log = LogFile(str(path), write=Interrupted(path, own, foreign=foreign, after=after))
    with pytest.raises(StoreError):
        log.append(b'{"b":2}\n')
    log.close()
    data = path.read_bytes()
    assert data.startswith(before)
    assert data.count(foreign) == 1
    assert data.count(b"late") == (1 if after and own else 0)
    assert b"b" not in data.replace(b'"foreign"', b"").replace(foreign, b"")
    rest = data[len(before) :].replace(foreign, b"").replace(after, b"")
    assert not rest.strip()


def test_a_failed_write_that_nobody_disturbed_leaves_the_file_as_it_was(tmp_path):
    path = tmp_path / "s.jsonl"
    path.write_bytes(b'{"a":1}\n')
    log = LogFile(str(path), write=Interrupted(path, 5, foreign=b""))
    with pytest.raises(StoreError):
        log.append(b'{"b":2}\n')
    assert path.read_bytes() == b'{"a":1}\n'
    log.close()


# ---- what is written is private, and whole -----------------------------------------------------


@POSIX
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644, 0o400])
@pytest.mark.parametrize("shape", FORMATS)
def test_a_written_session_is_as_private_as_its_source(shape, mode, tmp_path):
    path = begun(tmp_path / "s.jsonl", shape)
    path.chmod(mode)
    seen = []
    before = os.umask(0)
    try:
        for form in {shape, "claude_code"}:
            target = tmp_path / f"{form}.jsonl"
            done = compact_session(open_session(path), output=target, keep=400, format=form)
            assert done.result.compacted
            seen.append(stat.S_IMODE(target.stat().st_mode))
    finally:
        os.umask(before)
    assert set(seen) == {mode}


@POSIX
def test_an_output_that_is_written_over_does_not_become_more_public(tmp_path):
    path = begun(tmp_path / "s.jsonl", "claude_code")
    path.chmod(0o644)
    target = tmp_path / "out.jsonl"
    target.write_text("old")
    target.chmod(0o600)
    compact_session(open_session(path), output=target, keep=400, overwrite=True)
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


@POSIX
@pytest.mark.parametrize("shape", FORMATS)
def test_a_draft_is_private_while_it_is_written(shape, tmp_path, monkeypatch):
    import ullage.sessions.save as writing

    path = begun(tmp_path / "s.jsonl", shape)
    seen = []
    install = writing._install

    def watched(session, draft, target, size):
        seen.append((stat.S_IMODE(draft.stat().st_mode), draft.parent))
        return install(session, draft, target, size)

    monkeypatch.setattr(writing, "_install", watched)
    before = os.umask(0)
    try:
        compact_session(open_session(path), output=tmp_path / "out.jsonl", keep=400)
    finally:
        os.umask(before)
    assert seen == [(0o600, tmp_path)]


KILLED = """
import os, signal, sys
import ullage.sessions.save as writing
from ullage import compact_session, open_session
writing._install = lambda *given: os.kill(os.getpid(), signal.SIGKILL)
compact_session(open_session(sys.argv[1]), output=sys.argv[2], keep=400)
"""


@POSIX
@pytest.mark.parametrize("shape", FORMATS)
def test_drafts_of_killed_runs_are_swept_up_and_others_are_not(shape, tmp_path):
    path, target = begun(tmp_path / "s.jsonl", shape), tmp_path / "out.jsonl"
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", KILLED, str(path), str(target)], timeout=60, check=False
        )
        assert done.returncode == -9
    left = [each for each in tmp_path.iterdir() if each.name.endswith(".part")]
    assert len(left) == 1  # each run sweeps up what the one before it left
    assert not target.exists()
    old = tmp_path / f".{target.name}.{_gone()}.part"  # as versions before named them
    old.write_text("x")
    alive = tmp_path / f".{target.name}.1-abcd.part"
    alive.write_text("somebody is at work")
    other = tmp_path / ".theirs.jsonl.part"
    other.write_text("x")
    compact_session(open_session(path), output=target, keep=400)
    names = {each.name for each in tmp_path.iterdir()}
    assert names == {path.name, target.name, alive.name, other.name}


def _gone() -> int:
    """The number of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as done:
        done.wait()
    return done.pid


@POSIX
def test_a_link_in_the_place_of_a_draft_is_not_followed(tmp_path, monkeypatch):
    path = begun(tmp_path / "s.jsonl", "claude_code")
    victim = tmp_path / "victim"
    victim.write_text("mine")
    monkeypatch.setattr(os, "urandom", lambda count: b"\0" * count)
    link = tmp_path / f".out.jsonl.{os.getpid()}-00000000.part"
    link.symlink_to(victim)
    with pytest.raises(StoreError):
        compact_session(open_session(path), output=tmp_path / "out.jsonl", keep=400)
    assert victim.read_text() == "mine"


@POSIX
def test_the_name_of_a_written_file_is_on_the_disk_too(tmp_path, monkeypatch):
    path = begun(tmp_path / "s.jsonl", "claude_code")
    synced = []
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (synced.append(os.fstat(fd).st_ino), fsync(fd))[1])
    target = tmp_path / "out.jsonl"
    compact_session(open_session(path), output=target, keep=400)
    assert synced[-2:] == [target.stat().st_ino, tmp_path.stat().st_ino]


# ---- with a program that goes on -------------------------------------------------------------

WRITER = """
import os, random, sys, time
sys.path.insert(0, os.path.dirname(sys.argv[4]))
from test_live_files import line_of
path, shape, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
rng, last = random.Random(5), line_of(shape, 39, None)[1]
for at in range(40, 40 + count):
    data, last = line_of(shape, at, last)
    fd = os.open(path, os.O_WRONLY | os.O_APPEND)  # as these programs do: no lock, one write
    os.write(fd, data)
    os.close(fd)
    time.sleep(rng.random() * 0.05)
    if at % 5 == 4:
        sys.stdin.readline()  # each burst overlaps with one compaction at least
"""


@pytest.mark.live
@pytest.mark.timeout(900)
@pytest.mark.parametrize("shape", FORMATS)
def test_two_hundred_compactions_in_place_during_a_thousand_appends(shape, tmp_path):
    path = begun(tmp_path / "s.jsonl", shape)
    command = [sys.executable, "-c", WRITER, str(path), shape, "1000", __file__]
    accounted: set[str] = set()
    done = conflicts = beside = 0
    with subprocess.Popen(command, stdin=subprocess.PIPE, bufsize=0) as writer:
        while writer.poll() is None or done < 200:
            alive = writer.poll() is None
            opened = open_session(path)
            try:
                found = compact_session(opened, output=path, keep=400)
            except LogConflict:
                conflicts += 1
                continue
            if found.result.compacted:
                done += 1
                beside += alive
                if alive and writer.stdin:
                    with suppress(BrokenPipeError):
                        writer.stdin.write(b"\n")
                accounted |= marks(opened.messages)
                # Each of its entries is in the summary or stays; both were made of what was read.
                told = len(found.result.report.removed) + len(found.result.report.kept)
                assert told == len(opened.items)
            elif not alive:
                break
    assert writer.returncode == 0
    accounted |= marks(open_session(path).messages)
    every = {f"MARK{at:05d}" for at in range(1_040)}
    assert every - accounted == set()
    data = path.read_bytes()
    for at in range(1_040):
        assert data.count(f"MARK{at:05d}. the parser".encode()) >= 1
    print(shape, {"compactions": done, "beside": beside, "conflicts": conflicts})
    assert beside >= 200


def test_compactions_during_appends_lose_nothing(tmp_path):
    """The same, short: it runs with every test run."""
    path = begun(tmp_path / "s.jsonl", "claude_code")
    accounted: set[str] = set()
    stop = threading.Event()

    def write():
        rng = random.Random(3)
        for at in range(40, 100):
            with path.open("ab") as file:
                file.write(line_of("claude_code", at, f"live-{at - 1}")[0])
            stop.wait(rng.random() * 0.02)

    writer = threading.Thread(target=write)
    writer.start()
    while writer.is_alive():
        opened = open_session(path)
        try:
            done = compact_session(opened, output=path, keep=400)
        except LogConflict:
            continue
        if done.result.compacted:
            accounted |= marks(opened.messages)
    writer.join()
    accounted |= marks(open_session(path).messages)
    assert accounted == {f"MARK{at:05d}" for at in range(100)}
