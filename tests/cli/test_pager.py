"""Long output of commands that only show things goes to the pager, on a terminal and nowhere else."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys

import pytest

from tests.kit import ullage

pytest.importorskip("cyclopts")

MARKS = "sed s/^/paged:/"


def on_a_terminal(*words, **env):
    """What a command prints on a terminal of 24 lines."""
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    given = {"PAGER": MARKS, "TERM": "xterm", "LINES": "24", "COLUMNS": "80", **env}
    settings = {name: value for name, value in os.environ.items() if "PAGER" not in name}
    command = [sys.executable, "-m", "ullage", *map(str, words)]
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, env=settings | given
    ) as process:
        os.close(theirs)
        text = b""
        with contextlib.suppress(OSError):  # the other end is closed
            while found := os.read(ours, 65536):
                text += found
        assert process.stderr is not None
        problems = process.stderr.read().decode()
    os.close(ours)
    assert "Traceback" not in problems
    return text.decode()


def test_what_is_longer_than_the_screen_is_paged_with_its_colours():
    shown = on_a_terminal("policy")
    lines = shown.splitlines()
    assert len(lines) > 24
    assert all(line.startswith("paged:") for line in lines)
    assert "\x1b[1m" in shown


@pytest.mark.parametrize(
    ("words", "env"),
    [
        (["policy", "--no-pager"], {}),
        (["--no-pager", "policy"], {}),
        (["policy"], {"NO_PAGER": "1"}),
        (["policy", "--json"], {}),
        (["man"], {}),
    ],
)
def test_it_is_printed_at_once(words, env):
    shown = on_a_terminal(*words, **env)
    assert len(shown.splitlines()) > 24
    assert "paged:" not in shown


def test_what_fits_the_screen_and_an_error_are_not_paged(tmp_path):
    shown = on_a_terminal("memory", "check", "--folder", tmp_path)
    assert "no problems" in shown
    assert "paged:" not in shown
    assert "paged:" not in on_a_terminal("inspect", tmp_path / "missing.jsonl")


def test_a_pipe_has_no_pager(monkeypatch):
    monkeypatch.setenv("PAGER", MARKS)
    monkeypatch.delenv("NO_PAGER", raising=False)
    done = ullage("policy")
    assert done.returncode == 0
    assert done.stdout.count("\n") > 24
    assert "paged:" not in done.stdout
