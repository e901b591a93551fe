"""`ullage list`, and sessions in place of a FILE."""

from __future__ import annotations

import json

import pytest

from tests.kit import report, ullage
from tests.machine_kit import IDS, Machine, claude_lines

pytest.importorskip("cyclopts")
pytest.importorskip("rich")


@pytest.fixture
def machine(tmp_path, monkeypatch):
    return Machine(tmp_path, monkeypatch).fill().stored(database=True)


def test_the_list_shows_each_session(machine):
    done = ullage("list")
    assert done.returncode == 0, done.stderr
    rows = done.stdout.splitlines()
    assert rows[0].split() == ["id", "tool", "age", "tokens", "fill", "cost", "project", "title"]
    assert len(rows) == 8
    assert "Fix the parser" in done.stdout
    assert "~/work" in done.stdout


def test_the_list_as_data(machine):
    found = report("list")
    assert found["found"] == 6
    first = found["sessions"][0]
    assert set(first) >= {
        "id",
        "tool",
        "path",
        "title",
        "tokens",
        "window_tokens",
        "dollars",
        "bytes",
    }
    assert {row["tool"] for row in found["sessions"]} == set(IDS)
    assert report("list", "--tool", "codex")["sessions"][0]["id"] == IDS["codex"]
    assert len(report("list", "--number", "2")["sessions"]) == 2


def test_only_sessions_of_this_folder(machine, monkeypatch):
    other = "55555555-aaaa-4bbb-8ccc-000000000001"
    machine.put("x", claude_lines(other, "/elsewhere"), at=f"claude/projects/-e/{other}.jsonl")
    (machine.home / "work").mkdir()
    monkeypatch.chdir(machine.home / "work")
    shown = {row["id"] for row in report("list", "--here")["sessions"]}
    assert other not in shown
    assert IDS["claude-code"] in shown


def test_the_list_is_filtered_sorted_and_added_up(machine):
    rows = report("list")["sessions"]
    assert [row["id"] for row in report("list", "PARSER")["sessions"]] == [
        row["id"] for row in rows if "parser" in row["title"].casefold()
    ]
    largest = report("list", "--sort", "tokens", "-n", "2")
    sizes = sorted((row["tokens"] for row in rows), reverse=True)
    assert [row["tokens"] for row in largest["sessions"]] == sizes[:2]
    assert largest["totals"]["tokens"] == sum(sizes[:2])
    assert f"6 sessions: {sum(sizes):,} tokens, $" in ullage("list").stdout
    nothing = ullage("list", "no", "such", "words")
    says = "of 6 sessions none has 'no such words' in title or project"
    assert (nothing.returncode, says in nothing.stdout) == (1, True)


def test_a_handoff_without_a_tool_offers_them(machine):
    done = ullage("handoff", "--last")
    assert done.returncode == 2
    assert "claude-code, codex, pi, opencode" in done.stderr


def test_a_handoff_takes_sizes_as_other_commands_do(machine):
    done = ullage("handoff", "--last", "--to", "pi", "--window", "20k", "--target", "1k", "-n")
    assert (done.returncode, "nothing written (dry run)" in done.stdout) == (0, True)
    done = ullage("handoff", "--last", "--to", "pi", "--window", "much", "-n")
    assert "--window: must be tokens (200000, 200k, 1m)" in done.stderr


def test_a_machine_without_sessions(tmp_path, monkeypatch):
    Machine(tmp_path, monkeypatch)
    done = ullage("list")
    assert (done.returncode, "no session was found" in done.stdout) == (1, True)
    done = ullage("inspect", "--last")
    assert (done.returncode, "no session was found on this machine\n" in done.stderr) == (2, True)
    assert "hint:" in done.stderr


@pytest.mark.parametrize("command", ["inspect", "resume", "validate"])
def test_commands_take_an_id_its_beginning_or_last(machine, command):
    whole = ullage(command, machine.files["codex"], "--json")
    assert whole.returncode == 0, whole.stderr
    assert ullage(command, IDS["codex"], "--json").stdout == whole.stdout
    assert ullage(command, "019f", "--json").stdout == whole.stdout
    newest = ullage(command, "--last", "--json")
    assert newest.stdout == ullage(command, machine.files["copilot"], "--json").stdout


def test_a_wrong_id_is_one_line_with_a_hint(machine):
    done = ullage("inspect", "feedface")
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "error: FILE: is not a file, and no session has an id that begins with it (got 'feedface')",
        "hint: `ullage list` shows the sessions of this machine",
    ]


def test_a_title_cannot_control_the_terminal(machine):
    made = claude_lines("s", "/w", title="a\x1b[31m\u202eb")
    machine.put("claude-code", made, at="claude/projects/-w/s.jsonl")
    done = ullage("list")
    assert "\x1b[31m" not in done.stdout
    assert "\\x1b[31m\\u202eb" in done.stdout
    assert (
        json.loads(ullage("list", "--json").stdout)["result"]["sessions"][0]["title"]
        == "a\x1b[31m\u202eb"
    )
