"""`ullage watch`: what it shows of a session, and that it follows the file."""

from __future__ import annotations

import io
import json
import subprocess
import sys

import pytest

from tests.kit import ullage
from tests.machine_kit import IDS, Machine

pytest.importorskip("cyclopts")


@pytest.fixture
def machine(tmp_path, monkeypatch):
    return Machine(tmp_path, monkeypatch).fill()


@pytest.mark.parametrize("columns", ["80", "120"])
def test_it_shows_fill_cost_and_what_was_said(machine, columns):
    done = ullage("watch", IDS["claude-code"], "--once", env={"COLUMNS": columns})
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "Fix the parser"
    assert "of 200,000 tokens" in done.stdout
    assert "before compaction" in done.stdout
    assert "call  Read /w/src/file_2.py" in done.stdout
    assert "assistant  Done with 2." in done.stdout


def test_it_follows_a_file_that_grows(machine):
    path = machine.files["claude-code"]
    words = [sys.executable, "-m", "ullage", "watch", str(path), "--json", "--interval", "0.1"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        last = json.loads(path.read_text().splitlines()[-2])
        more = {"type": "user", "uuid": "new", "parentUuid": last["uuid"], "sessionId": "s"}
        with path.open("a") as file:
            file.write(json.dumps({**more, "message": {"role": "user", "content": "go on"}}) + "\n")
        second = json.loads(process.stdout.readline())
        process.terminate()
    assert second["messages"] == first["messages"] + 1
    assert second["newest"] == {"who": "user", "text": "go on"}


@pytest.mark.parametrize("columns", [80, 120])
def test_on_a_terminal_no_line_is_longer_than_it_and_what_is_cut_says_so(machine, columns):
    from rich.console import Console, Group

    from ullage.cli.search import _changes, _drawn

    row, said = next(_changes(machine.files["claude-code"], interval=1))
    console = Console(width=columns, force_terminal=True, record=True, file=io.StringIO())
    console.print(Group(_drawn(row, [*said, ("user", "words " * 60)])))
    lines = console.export_text().splitlines()
    assert len(lines) == 4 + len(said)
    assert all(len(line) <= columns for line in lines)
    assert lines[-1].endswith("…")
    assert {"█", "░"} & set(lines[1])
    assert lines[1].count("█") + lines[1].count("░") == 28


def test_a_file_that_is_not_there_is_named_as_by_other_commands():
    done = ullage("watch", "missing.jsonl", "--once")
    assert (done.returncode, done.stderr) == (
        2,
        "error: missing.jsonl: No such file or directory\n",
    )
