"""The store and the log under faults: at every system call a failure or the end of the process leaves what was before or what comes after (BUD-5)."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.crash_kit import Killed, faulty
from ullage import ContextManager, compact
from ullage.exceptions import InvalidPolicy, StoreError
from ullage.recall.store import FileStore, file_stem
from ullage.testing import conversation
from ullage.transcript import Transcript, TranscriptLog

TEXT = "one line of a long output\n" * 4_000


# ---- the store


@pytest.mark.parametrize("kill", [False, True], ids=["fails", "killed"])
def test_a_text_is_kept_whole_or_not_at_all(tmp_path, kill):
    at = done = 0
    while not done:
        at += 1
        store = FileStore(tmp_path / str(at))
        with faulty(at, kill=kill) as faults:
            try:
                store.put("t1", TEXT)
                done = faults.count < at
            except StoreError:
                assert not kill
            except Killed:
                assert kill
        again = FileStore(store.folder)
        assert again.get("t1") in (None, TEXT)
        # And after the restart it works.
        assert again.get("t1") == TEXT or again.put("t1", TEXT)
        assert again.get("t1") == TEXT
    assert at > 5


def test_a_request_under_a_failing_store_has_the_reference_or_a_snip(tmp_path):
    call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": TEXT}
    seen = set()
    for at in range(1, 12):
        store = FileStore(tmp_path / str(at))
        manager = ContextManager(model="claude-opus-4-5", store=store)
        for role, content in (("user", "go"), ("assistant", [call]), ("user", [result])):
            manager.add({"role": role, "content": content})
        with faulty(at, kill=False):
            sent = manager.prepare().messages[-1]["content"][0]["content"]
        kept = store.get("t1") == TEXT
        assert sent.startswith("<persisted-output>") <= kept
        seen.add(sent.startswith("<persisted-output>"))
        assert manager.prepare().messages[-1]["content"][0]["content"] == sent
    assert seen == {True, False}


# ---- the log


def written(path: Path) -> None:
    with TranscriptLog.open(path) as log:
        for message in conversation(3, tokens=12_000, ending="assistant"):
            log.append(message)


def work(path: Path) -> None:
    """One more message, then a compaction in the log."""
    with TranscriptLog.open(path) as log:
        log.append({"role": "user", "content": "and one more thing"})
        compact(log.resume().entries, log=log, keep=1_000)


def seen(path: Path) -> list[dict]:
    return Transcript.open(path).messages()


@pytest.mark.parametrize("kill", [False, True], ids=["fails", "killed"])
def test_a_log_is_as_before_or_as_after_at_every_system_call(tmp_path, kill):
    first = tmp_path / "first.jsonl"
    written(first)
    before, data = seen(first), first.read_bytes()
    added = [*before, {"role": "user", "content": "and one more thing"}]
    at, done, views = 0, False, set()
    while not done:
        at += 1
        path = tmp_path / f"{at}.jsonl"
        path.write_bytes(data)
        with faulty(at, kill=kill) as faults:
            try:
                work(path)
                done = faults.count < at
            except Killed:
                assert kill
            except Exception:
                assert not kill
        view = seen(path)
        compacted = "one more thing" in json.dumps(view) and len(view) < len(before)
        assert view in (before, added) or compacted
        views.add("after" if compacted else len(view) - len(before))
        # Another process can go on.
        with TranscriptLog.open(path) as log:
            log.append({"role": "user", "content": "still here"})
        assert "still here" in json.dumps(seen(path)[-1])
    assert views == {0, 1, "after"}
    assert at > 3


# ---- the real thing

SCRIPT = """
import sys
from pathlib import Path
from ullage.recall.store import FileStore
from ullage.transcript import TranscriptLog
folder = Path(sys.argv[1])
store = FileStore(folder / "results")
with TranscriptLog.open(folder / "s.jsonl") as log:
    print("ready", flush=True)
    number = 0
    while True:
        store.put(f"t{number}", f"result {number} " * 20_000)
        log.append({"role": "user", "content": f"stored {number}"})
        number += 1
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs kill -9")
def test_kill_nine_at_any_moment(tmp_path):
    rng = random.Random(4)
    for round_ in range(4):
        folder = tmp_path / str(round_)
        folder.mkdir()
        child = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(folder)], stdout=subprocess.PIPE, text=True
        )
        try:
            assert child.stdout.readline() == "ready\n"
            time.sleep(rng.uniform(0.01, 0.2))
        finally:
            child.send_signal(signal.SIGKILL)
            child.wait(10)
            child.stdout.close()
        entries = Transcript.open(folder / "s.jsonl").entries()
        messages = [entry["message"]["content"] for entry in entries if "message" in entry]
        assert messages == [f"stored {number}" for number in range(len(messages))]
        store = FileStore(folder / "results")
        for number in range(len(messages)):
            assert store.get(f"t{number}") == f"result {number} " * 20_000
        assert store.get(f"t{len(messages)}") in (None, f"result {len(messages)} " * 20_000)


# ---- ids that try to leave

EVIL = [
    "../evil", "..", ".", "", "/etc/passwd", "a/b", "a\\b", "C:\\x", "nul\0byte", "x" * 300, "CON", "nul", "Aux", "com1", "LPT9",
    "~", "-rf", " ", "a b", "\n", "\ud800", "é", "%2e%2e%2f", "file:///etc/passwd", ".hidden", "t1.txt",
]  # fmt: skip


@pytest.mark.parametrize("name", EVIL)
def test_no_id_leaves_the_store_and_each_comes_back(tmp_path, name):
    store = FileStore(tmp_path / "store")
    place = Path(store.put(name, f"text of {name!r}"))
    assert place.resolve().parent == (tmp_path / "store").resolve()
    assert store.get(name) == f"text of {name!r}"
    assert [path.name for path in tmp_path.iterdir()] == ["store"]
    stem = file_stem(name)
    assert len(stem) <= 100
    assert stem.split(".")[0].lower() not in ("con", "nul", "aux", "com1", "lpt9", "")


def test_ids_stay_apart(tmp_path):
    store = FileStore(tmp_path)
    for name in EVIL:
        store.put(name, f"text of {name!r}")
    assert all(store.get(name) == f"text of {name!r}" for name in EVIL)
    assert len(list(tmp_path.iterdir())) == len(EVIL)


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="needs links")
def test_a_link_in_a_files_place_is_not_followed(tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    folder = tmp_path / "store"
    folder.mkdir()
    store = FileStore(folder)
    place = Path(store.put("t1", "mine"))
    place.unlink()
    place.symlink_to(secret)
    assert store.get("t1") is None
    assert store.get(str(place)) is None
    assert store.put("t1", "mine") == str(place)
    assert store.get("t1") == "mine"
    assert secret.read_text() == "secret"
    assert not place.is_symlink()


@pytest.mark.parametrize("suffix", ["/../x", "", "txt", ".t/x", ".TXT", ".toolongsuffix"])
def test_a_suffix_leads_nowhere(tmp_path, suffix):
    with pytest.raises(InvalidPolicy):
        FileStore(tmp_path).put("t1", "text", suffix=suffix)
    assert not list(tmp_path.iterdir())
