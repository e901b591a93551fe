"""What the commands print on a terminal of 80 and of 120 columns, and what they say of wrong words."""

from __future__ import annotations

import io
import re

import pytest

pytest.importorskip("cyclopts")
pytest.importorskip("rich")

from rich.cells import cell_len

from tests.kit import ullage
from tests.kit.transcripts import session_file
from tests.machine_kit import Machine
from ullage.cli import main
from ullage.cli.output import Output
from ullage.cli.policy import policy_command
from ullage.cli.search import list_command
from ullage.testing import scenario

EVERYWHERE = (
    "batch inspect {session}", "claude install --dry-run", "compact {session} --dry-run --diff", "completion bash",
    "demo --size 20000 --directory demo", "edit {session}", "handoff {session} --to codex --dry-run",
    "hooks install codex --dry-run", "inspect {session}", "list", "memory list --folder notes", "policy",
    "replay {session}", "report {session} -o report.html", "resume {session}", "schema list", "search parser",
    "session-memory show {session}", "undo {session} --dry-run", "validate {session}", "watch {session} --once",
)  # fmt: skip
"""A call of each command; the others run until they are stopped."""


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


@pytest.mark.parametrize("columns", [80, 120])
def test_a_line_is_cut_by_what_it_takes_on_the_screen_and_whole_in_a_pipe(monkeypatch, columns):
    text = "今朝から失敗します。" * 20
    lines = drawn(monkeypatch, columns, lambda out: out.line(text, cut=True))
    assert [cell_len(line) for line in lines] in ([columns], [columns - 1])
    assert lines[0].endswith("…")
    piped = io.StringIO()
    monkeypatch.setattr("sys.stdout", piped)
    Output().line(text, cut=True)
    assert piped.getvalue() == f"{text}\n"


def test_a_narrow_list_leaves_its_room_to_the_titles(monkeypatch, tmp_path):
    Machine(tmp_path, monkeypatch).fill()
    narrow, wide = (drawn(monkeypatch, columns, lambda _: list_command()) for columns in (80, 120))
    assert "tokens" not in narrow[0]
    assert "tokens" in wide[0]
    assert max(map(cell_len, narrow)) <= 80
    assert any("Fix the parser" in line for line in narrow)


def test_on_a_narrow_terminal_the_reason_of_a_setting_stands_below_it(monkeypatch):
    lines = drawn(monkeypatch, 80, lambda _: policy_command())
    at = next(at for at, line in enumerate(lines) if line.startswith("snip.max_chars"))
    assert lines[at].split() == ["snip.max_chars", "10,000", "characters"]
    assert lines[at + 1].strip() == "a result above this keeps its head and tail"
    assert max(map(cell_len, lines)) <= 80


@pytest.mark.parametrize("words", EVERYWHERE, ids=lambda words: words.split()[0])
def test_without_colour_where_no_color_is_set_and_without_escapes_in_a_pipe(
    monkeypatch, session, tmp_path, words
):
    """`NO_COLOR` leaves bold and dim, which carry no colour."""
    monkeypatch.chdir(tmp_path)
    given = [each.format(session=session) for each in words.split()]
    assert "\x1b" not in "".join(ullage(*given)[1:])
    shown = Terminal()
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(f"sys.{name}", shown)
    for name, value in {"NO_COLOR": "1", "COLUMNS": "80", "TERM": "xterm"}.items():
        monkeypatch.setenv(name, value)
    main(given)
    colours = re.findall(r"\x1b\[(?:[\d;]*;)?(?:3\d|4\d|9[0-7])(?:;[\d;]*)?m", shown.getvalue())
    assert shown.getvalue()
    assert colours == []


def test_every_command_that_shows_something_is_looked_at_without_colour():
    from ullage.cli.app import command_apps

    commands = {name.split()[0] for name, app in command_apps() if app.default_command is not None}
    assert commands - {each.split()[0] for each in EVERYWHERE} == {"mcp", "proxy", "tui"}


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
