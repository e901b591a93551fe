"""The table of tools and commands in `docs/clients.md`, cell by cell, next to what the commands do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit import report, ullage
from tests.machine_kit import IDS, Machine

pytest.importorskip("cyclopts")
pytest.importorskip("rich")

PAGE = Path(__file__).parents[2] / "docs" / "clients.md"
NAMES = {
    "Claude Code": "claude-code",
    "Codex": "codex",
    "pi": "pi",
    "Gemini CLI": "gemini",
    "Copilot CLI": "copilot",
    "OpenCode": "opencode",
}


def cells():
    """(tool, command, yes or no) of each cell."""
    text = PAGE.read_text().split("## What works for which tool")[1]
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|")]
    (_, *commands), _, *rest = rows[:8]
    return [
        (NAMES[tool], command, said)
        for tool, *says in rest
        for command, said in zip(commands, says, strict=True)
    ]


@pytest.fixture
def machine(tmp_path, monkeypatch):
    return Machine(tmp_path, monkeypatch).fill(turns=12).stored(database=True, turns=12)


def run(command, name):
    if command == "list":
        return ullage("list", "--tool", name, "--json")
    if command == "search":
        return ullage("search", "parser", "--tool", name, "--json")
    if command == "compact --new-session":
        return ullage("compact", IDS[name], "--new-session", "--keep", "500")
    if command == "undo":
        if name in ("claude-code", "codex", "pi"):
            assert report("compact", IDS[name], "--in-place", "--keep", "500")["written"]
        return ullage("undo", IDS[name])
    if command == "edit --remove":
        return ullage("edit", IDS[name], "--remove", "t1")
    if command == "handoff":
        return ullage("handoff", IDS[name], "--to", "codex" if name == "pi" else "pi")
    return ullage("handoff", IDS["codex"], "--to", name)


def test_the_table_has_every_tool_and_command():
    assert len(cells()) == 6 * 7
    assert {said for _, _, said in cells()} == {"yes", "no"}


@pytest.mark.parametrize(("tool", "command", "said"), cells())
def test_a_cell_is_true(machine, tool, command, said):
    files = {path: path.read_bytes() for path in machine.home.rglob("*") if path.is_file()}
    done = run(command, tool)
    if said == "yes":
        assert done.returncode == 0, done.stderr
        found = [line for line in done.stdout.splitlines() if IDS[tool] in line]
        assert found or command not in ("list", "search")
        return
    assert done.returncode == 2
    assert done.stdout == ""
    assert "handoff" in done.stderr
    own = machine.home / "state"
    after = [path for path in machine.home.rglob("*") if path.is_file() and own not in path.parents]
    assert {path: path.read_bytes() for path in after} == files


@pytest.mark.parametrize("command", [["undo"], ["edit", "--remove", "t1"]])
@pytest.mark.parametrize("tool", ["gemini", "copilot", "opencode"])
def test_a_dry_run_promises_nothing_that_would_be_refused(machine, tool, command):
    done = ullage(command[0], IDS[tool], *command[1:], "--dry-run")
    assert (done.returncode, done.stdout) == (2, "")
    assert "Claude Code, Codex and pi" in done.stderr
    assert "hint: `ullage handoff" in done.stderr
