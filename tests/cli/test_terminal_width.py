"""What the commands print on a terminal of 80 and of 120 columns, and what they say of wrong words."""

from __future__ import annotations

import io
import re

import pytest

pytest.importorskip("cyclopts")
pytest.importorskip("rich")

from tests.kit import ullage
from ullage.cli.output import Output
from ullage.testing import scenario, session_file


class Terminal(io.StringIO):
    def isatty(self):
        return True


def drawn(monkeypatch, columns, draw):
    shown = Terminal()
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr("sys.stdout", shown)
    draw(Output())
    return re.sub(r"\x1b\[[0-9;]*m", "", shown.getvalue()).splitlines()


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    return session_file(scenario(3, tokens=20_000)).write(tmp_path_factory.mktemp("width"))


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_a_long_cell_is_cut_so_that_a_row_is_one_line_and_names_stay_whole(monkeypatch, columns):
    row = ("514bc195-9e6d", "/home/dev/" + "deep/" * 20, "A long title. " * 20)

    def draw(out):
        out.table(("id", "project", "title"), [row, row], whole=(0,), cut=(1, 2))

    lines = drawn(monkeypatch, columns, draw)
    assert len(lines) == 3
    assert all(line.startswith("514bc195-9e6d  /home") and "…" in line for line in lines[1:])
    assert max(map(len, lines)) <= columns


def test_the_newest_messages_by_last(session):
    assert ullage("resume", session, "--last", "2") == ullage("resume", session, "--tail", "2")


@pytest.mark.parametrize(
    ("words", "said", "hint"),
    [
        (["resume", "FILE", "b", "c"], "takes no further argument: 'b', 'c'", "ullage resume --help"),
        (["compact"], "FILE is missing", "ullage compact --help"),
        (["comapct", "x"], 'Did you mean "compact"?', "ullage --help"),
        (["compact", "FILE", "--nope"], "Unknown option: --nope", "ullage compact --help"),
    ],
)  # fmt: skip
def test_wrong_words_are_named_with_the_next_step(session, words, said, hint):
    done = ullage(*(session if word == "FILE" else word for word in words))
    assert done.returncode == 2
    assert done.stdout == ""
    first, second = done.stderr.splitlines()
    assert first.startswith("error: ")
    assert said in first
    assert second == f"hint: {hint}"


def test_help_names_no_default_that_is_off():
    shown = " ".join(re.sub("[│|]", " ", ullage("compact", "--help").stdout).split())
    assert "[default: extractive]" in shown
    assert not re.search(r'default: (False|""|\])', shown)
