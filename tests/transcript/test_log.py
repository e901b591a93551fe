"""The append-only log: whole records or none, one writer, nothing lost (LOG-1, LOG-4, P-6)."""

from __future__ import annotations

import errno
import itertools
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tests.kit import user
from ullage.exceptions import InvalidMessage, InvalidPolicy, LogConflict, StoreError
from ullage.transcript import Transcript, TranscriptLog, resume
from ullage.transcript.log import LogFile

ENVELOPE = {"sessionId": "s", "cwd": "/w", "gitBranch": "main", "version": "9"}


def ids(prefix="id"):
    count = itertools.count()
    return lambda: f"{prefix}{next(count)}"


def open_log(path, **options):
    options = {"ids": ids(), "clock": lambda: 0, "envelope": ENVELOPE} | options
    return TranscriptLog.open(path, **options)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "s.jsonl"


# ---- entries ---------------------------------------------------------------------------------


def test_bare_message_gets_an_envelope(path):
    with open_log(path) as log:
        entry = log.append(user("hi"))
    assert json.loads(path.read_bytes()) == entry
    assert entry == {
        "parentUuid": None,
        "isSidechain": False,
        "userType": "external",
        "version": "9",
        "sessionId": "s",
        "cwd": "/w",
        "gitBranch": "main",
        "type": "user",
        "message": user("hi"),
        "uuid": "id0",
        "timestamp": "1970-01-01T00:00:00.000Z",
    }


def test_entries_link_to_the_one_before_but_never_to_a_sidechain_or_metadata(path):
    with open_log(path) as log:
        first, side, title, second = log.extend(
            [
                user("a"),
                {"type": "user", "message": user("sub"), "isSidechain": True},
                {"type": "custom-title", "customTitle": "t"},
                {"role": "assistant", "content": [{"type": "text", "text": "b"}]},
            ]
        )
        assert side["parentUuid"] == first["uuid"] == second["parentUuid"]
        assert title == {"type": "custom-title", "customTitle": "t", "sessionId": "s"}
        assert log.leaf == second["uuid"]


def test_what_an_entry_has_already_stays_and_the_item_is_not_changed(path):
    item = {"type": "user", "uuid": "mine", "parentUuid": "p", "cwd": "/x", "message": user("a")}
    before = json.dumps(item)
    with open_log(path) as log:
        entry = log.append(item)
    assert entry.items() >= item.items()
    assert json.dumps(item) == before


def test_envelope_is_carried_over_from_the_newest_entry(path):
    with open_log(path) as log:
        log.append(user("a"))
        log.append({"type": "mode", "mode": "normal"})
    with TranscriptLog.open(path) as log:
        assert log.leaf == "id0"
        assert log.session_id == "s"
        entry = log.append(user("b"))
    assert entry.items() >= {**ENVELOPE, "parentUuid": "id0"}.items()


def test_fresh_log_makes_a_session_of_its_own(path):
    with TranscriptLog.open(path, ids=ids()) as log:
        assert log.leaf is None
        assert log.session_id == "id0"


@pytest.mark.parametrize(
    ("item", "field"),
    [
        ("text", ""),
        ({"role": "system", "content": "x"}, "role"),
        ({"role": "user"}, "message.content"),
        ({"type": "user", "message": {"role": "user", "content": 3}}, "message.content"),
        ({"content": "x"}, "type"),
        ({"role": "user", "content": [{"type": "text", "text": object()}]}, ""),
        ({"role": "user", "content": [{"n": float("nan"), "m": "\ud800"}]}, ""),
    ],
)
def test_what_is_no_entry_is_refused_and_nothing_of_the_group_is_written(path, item, field):
    with open_log(path) as log:
        log.append(user("a"))
        before, leaf = path.read_bytes(), log.leaf
        with pytest.raises(InvalidMessage) as caught:
            log.extend([user("b"), item])
        assert caught.value.index == 1
        assert caught.value.field == field
        assert path.read_bytes() == before
        assert log.leaf == leaf


def test_what_orjson_refuses_is_written_all_the_same(path):
    message = {"role": "user", "content": [{"type": "text", "text": "\ud800", "n": 1 << 70}]}
    deep = "x"
    for _ in range(300):
        deep = [deep]
    with open_log(path) as log:
        log.extend(
            [message, {"role": "user", "content": [{"type": "text", "text": "", "x": deep}]}]
        )
        entries = list(log.transcript().entries())
    assert entries[0]["message"] == message
    assert entries[1]["message"]["content"][0]["x"] == deep


def test_a_record_is_one_system_call(path):
    calls = []

    def write(fd, data):
        calls.append(bytes(data))
        return os.write(fd, data)

    log = TranscriptLog(LogFile(str(path), write=write), envelope=ENVELOPE)
    log.extend([user("a"), user("b")])
    log.append(user("c"))
    log.close()
    assert [call.count(b"\n") for call in calls] == [2, 1]
    assert b"".join(calls) == path.read_bytes()


def test_empty_group_writes_nothing(path):
    with open_log(path) as log:
        assert log.extend([]) == []
    assert path.read_bytes() == b""


def test_new_files_are_for_the_owner_only(path):
    open_log(path).close()
    if os.name == "posix":
        assert path.stat().st_mode & 0o077 == 0


# ---- incomplete tails ------------------------------------------------------------------------------


def whole(path):
    with open_log(path) as log:
        log.extend([user("one"), user("two"), user("three ✓")])
    return path.read_bytes()


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["plain", "byte-order mark"])
def test_cut_at_every_byte_nothing_is_lost_and_the_next_record_is_whole(path, mark):
    data = mark + whole(path)
    starts = [len(mark), *(at + 1 for at, byte in enumerate(data) if byte == 10)]
    for cut in range(len(mark), len(data) + 1):
        path.write_bytes(data[:cut])
        complete = sum(start <= cut for start in starts[1:])
        # A record that lacks nothing but its line end is whole.
        complete += cut + 1 in starts[1:]
        torn = cut - starts[complete] if cut > starts[complete] else 0
        assert Transcript.open(path).index.torn == ((starts[complete], torn) if torn else None)
        with open_log(path, ids=ids("new")) as log:
            assert log.unfinished == ((starts[complete], torn) if torn else None)
            assert log.leaf == (f"id{complete - 1}" if complete else None)
            log.append(user("next"))
        assert path.read_bytes().startswith(data[:cut])
        transcript = Transcript.open(path)
        texts = [entry["message"]["content"] for entry in transcript.entries()]
        assert texts == [*["one", "two", "three ✓"][:complete], "next"]
        assert transcript.index.torn is None
        assert len(transcript.index.bad) == bool(torn)


def test_opening_alone_changes_nothing(path):
    path.write_bytes(whole(path)[:-5])
    before = path.read_bytes()
    open_log(path).close()
    assert path.read_bytes() == before


def test_long_lines_and_garbage_are_read_past_on_opening(path):
    with open_log(path) as log:
        log.append(user("a"))
    with path.open("ab") as file:
        file.write(b'{"type":"mode","x":"' + b"x" * 300_000 + b'"}\n\0\0\0\n[1]\n\n{"type":"mo')
    with open_log(path) as log:
        assert log.leaf == "id0"


# ---- faults ----------------------------------------------------------------------------------


class Full:
    """Stands for `os.write` on a disk with so many bytes left."""

    def __init__(self, room):
        self.room = room

    def __call__(self, fd, data):
        if not self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        count = min(len(data), self.room)
        self.room -= count
        return os.write(fd, bytes(data[:count]))


def test_full_disk_at_any_byte_leaves_the_log_as_it_was(path):
    data = whole(path)
    size = len(json.dumps(user("next"))) + 250
    for room in range(0, size, 7):
        file = LogFile(str(path), write=Full(room))
        log = TranscriptLog(file, ids=ids("new"), clock=lambda: 0, envelope=ENVELOPE)
        with pytest.raises(StoreError, match="no space left on device") as caught:
            log.append(user("next" * 60))
        assert caught.value.path == str(path)
        assert path.read_bytes() == data
        assert log.leaf == "id2"
        file._write = os.write
        log.append(user("later"))
        log.close()
        assert len(Transcript.open(path)) == 4
        path.write_bytes(data)


def test_full_disk_that_cannot_even_be_cut_back_leaves_a_incomplete_line(path, monkeypatch):
    data = whole(path)
    file = LogFile(str(path), write=Full(20))
    log = TranscriptLog(file, envelope=ENVELOPE)

    def refuse(fd, size):
        raise OSError(errno.EIO, "I/O error")

    monkeypatch.setattr(os, "ftruncate", refuse)
    with pytest.raises(StoreError, match="no space"):
        log.append(user("next"))
    file._write = os.write
    log.append(user("later"))
    log.close()
    assert path.read_bytes().startswith(data)
    transcript = Transcript.open(path)
    assert len(transcript.index.bad) == 1
    assert transcript.messages()[0]["content"][-1]["text"] == "later"


@pytest.mark.skipif(sys.platform == "win32", reason="no size limits there")
def test_file_size_limit_of_the_system(path):
    script = """if True:
        import resource, sys
        from ullage.exceptions import StoreError
        from ullage.transcript import TranscriptLog
        log = TranscriptLog.open(sys.argv[1])
        log.append({"role": "user", "content": "fits"})
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
        try:
            log.append({"role": "user", "content": "x" * 5000})
        except StoreError as error:
            print(error.reason)
        log.append({"role": "user", "content": "fits too"})
    """
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "file too large"
    texts = [entry["message"]["content"] for entry in Transcript.open(path).entries()]
    assert texts == ["fits", "fits too"]


def test_interrupt_while_writing_leaves_the_log_as_it_was(path):
    data = whole(path)

    def interrupted(fd, data):
        os.write(fd, bytes(data[:9]))
        raise KeyboardInterrupt

    with open_log(path) as log:
        log._file._write = interrupted
        with pytest.raises(KeyboardInterrupt):
            log.append(user("next"))
    assert path.read_bytes() == data


@pytest.mark.parametrize("create", [True, False])
def test_places_where_no_log_can_be(tmp_path, create):
    for bad in (tmp_path, tmp_path / "no" / "s.jsonl"):
        with pytest.raises(StoreError):
            TranscriptLog.open(bad, create=create)


def test_missing_file_is_made_only_on_request(path):
    with pytest.raises(StoreError, match="no such file"):
        TranscriptLog.open(path, create=False)
    assert not path.exists()


def test_closed_log_refuses(path):
    log = open_log(path)
    log.close()
    with pytest.raises(StoreError, match="closed"):
        log.append(user("a"))


# ---- writers ---------------------------------------------------------------------------------


def test_second_writer_is_kept_out_until_the_first_has_left(path):
    with open_log(path), pytest.raises(LogConflict, match="another writer"):
        open_log(path)
    open_log(path).close()


@pytest.mark.skipif(sys.platform == "win32", reason="a folder in use cannot be removed there")
def test_a_lock_in_a_folder_that_is_no_longer_there_is_an_error(tmp_path):
    script = "import os; os.rmdir(os.getcwd())\nfrom pathlib import Path\nfrom ullage.transcript.log import locked\nwith locked(Path('.lock')): pass"
    (tmp_path / "left").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path / "left",
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "StoreError" in done.stderr


def test_lock_of_a_killed_writer_is_free(path):
    script = """if True:
        import sys, time
        from ullage.transcript import TranscriptLog
        log = TranscriptLog.open(sys.argv[1])
        print("held", flush=True)
        time.sleep(60)
    """
    child = subprocess.Popen(
        [sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE, text=True
    )
    with child:
        try:
            assert child.stdout.readline() == "held\n"
            with pytest.raises(LogConflict):
                open_log(path)
        finally:
            child.kill()
    open_log(path).close()


def test_change_by_a_writer_without_the_lock_is_noticed(path):
    with open_log(path) as log, open_log(path, lock=False, ids=ids("other")) as other:
        log.append(user("a"))
        with pytest.raises(LogConflict, match="its writer left 0"):
            other.append(user("b"))
        with open_log(path, lock=False, ids=ids("later")) as later:
            assert later.append(user("b"))["parentUuid"] == "id0"
        with pytest.raises(LogConflict):
            log.append(user("c"))
    assert len(Transcript.open(path)) == 2


def test_moved_and_replaced_logs_are_noticed(path):
    log = open_log(path)
    path.rename(path.with_suffix(".old"))
    with pytest.raises(LogConflict, match="moved or deleted"):
        log.append(user("a"))
    path.touch()
    with pytest.raises(LogConflict, match="another file"):
        log.append(user("a"))
    log.close()


def test_readers_see_whole_records_while_a_writer_writes(path):
    script = """if True:
        import sys, time
        from ullage.transcript import TranscriptLog
        log = TranscriptLog.open(sys.argv[1])
        for _ in range(200):
            log.extend([{"role": "user", "content": "x" * 40_000}] * 3)
            time.sleep(0.002)
    """
    child = subprocess.Popen([sys.executable, "-c", script, str(path)])
    with child:
        try:
            deadline = time.monotonic() + 20
            while not (path.exists() and path.stat().st_size) and time.monotonic() < deadline:
                time.sleep(0.01)
            for _ in range(10):
                index = Transcript.open(path).index
                assert index.bad == []
                assert all(len(index.load(at)["uuid"]) == 36 for at in range(len(index)))
        finally:
            child.kill()


# ---- durability ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("durability", "appended", "asked"), [("none", 0, 0), ("flush", 0, 1), ("fsync", 1, 2)]
)
def test_when_the_disk_is_waited_for(path, monkeypatch, durability, appended, asked):
    synced = []
    path.touch()
    log = open_log(path, durability=durability)
    monkeypatch.setattr(os, "fsync", synced.append)
    log.append(user("a"))
    assert len(synced) == appended
    log.sync()
    assert len(synced) == asked
    log.close()


def test_name_of_a_new_file_is_made_durable_too(path, monkeypatch):
    synced = []
    log = open_log(path)
    monkeypatch.setattr(os, "fsync", synced.append)
    log.sync()
    log.sync()
    log.close()
    assert len(synced) == (3 if os.name == "posix" else 2)


def test_unknown_durability_is_refused_and_holds_no_lock(path):
    with pytest.raises(InvalidPolicy, match="durability"):
        open_log(path, durability="maybe")
    open_log(path).close()


# ---- kill -9 ---------------------------------------------------------------------------------

WRITER = """if True:
    import sys
    from ullage.transcript import TranscriptLog
    with TranscriptLog.open(sys.argv[1]) as log:
        for number in range(10_000):
            log.append({"role": "user", "content": f"{number} " + "x" * 9000})
            print(number, flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL there")
@pytest.mark.parametrize("after", [0, 3, 40])
def test_kill_in_the_middle_loses_nothing_that_was_acknowledged(path, after):
    child = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE)
    with child:
        for _ in range(after + 1):
            child.stdout.readline()
        child.send_signal(signal.SIGKILL)
        done = after + len(child.stdout.readlines())
    transcript = Transcript.open(path)
    numbers = [int(e["message"]["content"].split()[0]) for e in transcript.entries()]
    assert numbers == list(range(len(numbers)))
    assert len(numbers) > done
    with open_log(path) as log:
        log.append(user("next"))
    assert resume(path).messages[0]["content"][-1]["text"] == "next"


def test_a_path_in_place_of_a_file_is_refused_with_the_call_that_takes_one(tmp_path):
    with pytest.raises(InvalidPolicy, match="is a path") as caught:
        TranscriptLog(str(tmp_path / "log.jsonl"))
    assert "TranscriptLog.open" in str(caught.value.hint)
