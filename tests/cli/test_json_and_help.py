"""What every command has in common: the JSON envelope, standard input and output, help, completion, the manual page."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path

import pytest

from tests.kit import report, result_of, ullage
from tests.kit.transcripts import session_file
from ullage.testing import scenario

pytest.importorskip("cyclopts")

MODEL = "claude-opus-4-5"


@pytest.fixture(scope="module")
def session(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("json")
    return session_file(scenario(3, turns=6, tokens=40_000, model=MODEL)).write(folder)


@pytest.mark.parametrize(
    "words", [("inspect",), ("validate",), ("replay",), ("resume",), ("compact", "--dry-run")]
)
def test_every_command_has_one_envelope(words, session):
    done = ullage(words[0], session, *words[1:], "--json")
    found = json.loads(done.stdout)
    assert list(found) == ["version", "command", "result"]
    assert found["version"] == 1
    assert found["command"] == words[0]


def test_a_command_of_a_command_is_named_whole(tmp_path):
    done = ullage("memory", "list", "--folder", tmp_path, "--json")
    assert json.loads(done.stdout)["command"] == "memory list"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("inspect", "missing.jsonl"), "store_error"),
        (("validate", "SESSION", "--provider", "nobody"), "invalid_policy"),
        (("inspect", "SESSION", "--nothing"), "usage"),
        (("compact", "SESSION", "--target", "0"), "invalid_policy"),
    ],
)
def test_an_error_is_in_the_envelope_too(words, code, session):
    given = [str(session) if word == "SESSION" else word for word in words]
    done = ullage(*given, "--json")
    assert done.returncode == 2
    found = json.loads(done.stdout)
    assert list(found) == ["version", "command", "error"]
    assert found["error"]["code"] == code
    assert found["error"]["message"]
    assert done.stderr


def test_without_json_nothing_of_an_error_is_on_standard_output(session):
    done = ullage("validate", session, "--provider", "nobody")
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")


class Input:
    def __init__(self, data: bytes) -> None:
        self.buffer = io.BytesIO(data)


def test_a_session_is_read_from_standard_input(session, monkeypatch):
    monkeypatch.setattr(sys, "stdin", Input(session.read_bytes()))
    found = report("inspect", "-")
    monkeypatch.undo()
    assert found["window"] == report("inspect", session)["window"]
    assert found["file"] == "-"


def test_a_compaction_goes_from_standard_input_to_standard_output(session, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "stdin", Input(session.read_bytes()))
    piped = ullage("compact", "-", "--output", "-")
    monkeypatch.setattr(sys, "stdin", Input(session.read_bytes()))
    refused = ullage("compact", "-")
    assert refused.returncode == 2
    assert "-o -" in refused.stderr
    assert piped.returncode == 0
    assert piped.stdout.encode().startswith(session.read_bytes())
    path = tmp_path / "piped.jsonl"
    path.write_text(piped.stdout)
    assert report("inspect", path)["boundaries"]


def test_the_diff_shows_what_left_and_what_came_in(session, tmp_path):
    found = report("compact", session, "--dry-run", "--diff", "--keep", "2000")["diff"]
    assert found[:2] == ["--- before", "+++ after"]
    assert sum(line.startswith("-") for line in found) > 5
    assert any(line.startswith("+user") for line in found)
    shown = ullage("compact", session, "--dry-run", "--diff").stdout
    assert "What changes in the context" in shown
    assert not list(tmp_path.iterdir())


def test_the_tail_of_a_context(session):
    whole = ullage("resume", session).stdout.splitlines()
    some = ullage("resume", session, "--tail", "2").stdout.splitlines()
    assert re.match(r"\d+ earlier messages are not shown", some[0])
    assert some[-1].split() == whole[-1].split()
    numbers = {line.split()[0] for line in some[2:]}
    assert len(numbers) == 2
    assert ullage("resume", session, "--tail", "0").returncode == 2
    everything = report("resume", session, "--tail", "1")["messages"]
    assert len(everything) > 2


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_printed_and_changes_no_file(shell, tmp_path):
    done = ullage("completion", shell, env={"HOME": str(tmp_path)})
    assert done.returncode == 0
    assert "inspect" in done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("columns", ["80", "120"])
def test_help_fits_the_terminal_and_has_examples(columns):
    for name in ("inspect", "compact", "resume", "report"):
        shown = ullage(name, "--help", env={"COLUMNS": columns}).stdout
        assert max(map(len, shown.splitlines())) <= int(columns)
        assert "Examples:" in shown
        assert f"ullage {name}" in shown.split("Examples:")[1]


def test_a_command_s_help_says_all_that_its_docstring_says():
    shown = ullage("list", "--help").stdout
    assert "OpenCode keep" in shown
    assert "Exit code 1: there are none" in " ".join(shown.split())
    assert "hooks and status line" in ullage("claude", "--help").stdout


def test_every_example_of_the_help_is_a_command_with_those_options():
    from ullage.cli.app import EXAMPLES, app

    for text in EXAMPLES.values():
        for line in re.findall("`(.*?)`", text):
            words = re.split(r" [<>] ", line.replace("'", ""))[0].split()[1:]
            if "--last" not in words and "-i" not in words and words[0] != "completion":
                # What would be read is the null device; `-o -` is tried above.
                words = [
                    "/dev/null" if word == "-" or word.endswith(".jsonl") else word
                    for word in words
                ]
                app.parse_args(words, exit_on_error=False, print_error=False)


def test_an_empty_report_has_its_envelope(tmp_path):
    assert result_of(ullage("memory", "list", "--folder", tmp_path, "--json"))["notes"] == []


@pytest.mark.parametrize(
    ("words", "help_of"),
    [
        (("session-memory", "a file.md"), "session-memory "),
        (("memory", "x"), "memory "),
        (("x",), ""),
    ],
)
def test_a_word_that_is_no_command_points_to_the_help_that_lists_them(words, help_of):
    assert ullage(*words).stderr.endswith(f"hint: ullage {help_of}--help\n")


def test_an_edit_is_listed_without_a_size(session, tmp_path):
    path = tmp_path / "edited.jsonl"
    path.write_bytes(session.read_bytes())
    assert ullage("edit", path, "--remove", "r1").returncode == 0
    lines = ullage("inspect", path).stdout.partition("Earlier compactions")[2].splitlines()
    assert lines[2].split()[-3:] == ["manual", "–", "–"]
