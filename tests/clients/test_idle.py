"""A session that its user left is compacted once the provider's cache has run out, by a process that the hook leaves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.kit.transcripts import session_287k, session_file
from tests.machine_kit import Machine
from ullage.cli import main
from ullage.clients.idle import CACHE_SECONDS, LONG_CACHE_SECONDS, compact_left
from ullage.clients.installation import settings_path
from ullage.sessions import open_session
from ullage.testing import scenario


@pytest.fixture
def left(tmp_path: Path) -> Path:
    """A large session, as its client leaves it."""
    return session_file(session_287k(5)).write(tmp_path)


def waited(path: Path, during=lambda: None) -> tuple[bool, list[float]]:
    """What became of it, and the waits; `during` happens in each."""
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        during()

    return compact_left(str(path), sleep=sleep), waits


def test_a_large_session_is_compacted_when_the_cache_has_run_out_and_can_be_taken_back(left):
    before, messages = left.read_bytes(), len(open_session(left).messages)
    done, waits = waited(left)
    assert done
    assert waits == [pytest.approx(CACHE_SECONDS, abs=30)]
    assert left.read_bytes().startswith(before)
    assert len(open_session(left).messages) < messages / 2
    assert main(["undo", str(left)]) == 0
    assert len(open_session(left).messages) == messages


def test_a_session_that_somebody_goes_on_with_is_left_alone(left):
    def goes_on():
        with left.open("ab") as file:
            file.write(b'{"type": "summary"}\n')

    assert waited(left, goes_on)[0] is False
    assert b'"compact_boundary"' not in left.read_bytes()


def test_a_small_session_is_left_alone(tmp_path):
    path = session_file(scenario(3, tokens=20_000)).write(tmp_path)
    before = path.read_bytes()
    assert waited(path)[0] is False
    assert path.read_bytes() == before


def test_a_cache_of_an_hour_is_waited_for(left):
    text = left.read_text(encoding="utf-8")
    entries = [json.loads(line) for line in text.splitlines()]
    answered = [each for each in entries if "usage" in each.get("message", {})]
    answered[-1]["message"]["usage"]["cache_creation"] = {"ephemeral_1h_input_tokens": 900}
    left.write_text("".join(json.dumps(each) + "\n" for each in entries), encoding="utf-8")
    done, waits = waited(left)
    assert done
    assert waits[-1] == pytest.approx(LONG_CACHE_SECONDS, abs=30)


def test_automatic_compaction_that_is_off_stays_off(left, monkeypatch):
    monkeypatch.setenv("DISABLE_COMPACT", "1")
    assert waited(left)[0] is False


def test_the_hook_leaves_a_process_that_does_it(left, tmp_path, monkeypatch):
    machine = Machine(tmp_path / "home", monkeypatch)
    os.utime(left, (time.time() - 7_200,) * 2)
    size = left.stat().st_size
    words = [sys.executable, "-P", "-m", "ullage.clients.hook", "session-end"]
    event = {"session_id": "s-1", "hook_event_name": "SessionEnd", "reason": "other"}
    given = json.dumps({**event, "transcript_path": str(left)}).encode()
    done = subprocess.run(words, input=given, capture_output=True, timeout=30, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    until = time.monotonic() + 60
    while left.stat().st_size == size and time.monotonic() < until:
        time.sleep(0.1)
    assert b'"compact_boundary"' in left.read_bytes()[size:]
    assert not (machine.home / "state" / "hooks.log").exists()


def test_it_is_installed_only_where_it_is_asked_for(tmp_path, monkeypatch, capsys):
    Machine(tmp_path, monkeypatch)
    for words, there in (([], False), (["--idle"], True)):
        assert main(["claude", "install", "--yes", *words]) == 0
        settings = json.loads(settings_path("user", tmp_path).read_text())
        assert ("SessionEnd" in settings["hooks"]) is there
        assert main(["claude", "uninstall", "--yes"]) == 0
    capsys.readouterr()
