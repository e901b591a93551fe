"""The terminal interface, driven by Textual's pilot: what it shows, what it writes, and that a session cannot control the terminal."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.kit import result, said, use, user
from tests.kit.transcripts import session_file
from tests.machine_kit import Machine, claude_lines
from ullage.exceptions import MissingExtra
from ullage.sessions import compact_session, open_session
from ullage.sessions.inspected import inspect_opened
from ullage.testing import scenario
from ullage.transcript import Transcript, TranscriptLog
from ullage.tui import run_tui

pytest.importorskip("textual")

from textual.widgets import DataTable, HelpPanel, Static
from textual.worker import WorkerCancelled

from ullage.tui.session_app import SessionApp, SessionScreen, TargetSlider, bar_of, glance
from ullage.tui.shown_session import MOST_ROWS, ShownSession, removals_of


@pytest.fixture(scope="module")
def made():
    return session_file(scenario(7, tokens=90_000, model="claude-opus-4-5")).to_bytes()


@pytest.fixture
def path(made, tmp_path) -> Path:
    target = tmp_path / "session.jsonl"
    target.write_bytes(made)
    return target


def drive(app, steps, size=(120, 40)):
    async def run():
        async with app.run_test(size=size) as pilot:
            await settle(pilot)
            await steps(pilot)

    asyncio.run(run())


async def settle(pilot):
    for _ in range(3):
        # A newer worker of its group cancels an older one; what it does is awaited in the next round.
        with suppress(WorkerCancelled):
            await pilot.app.workers.wait_for_complete()
        await pilot.pause()


def shown(app, name):
    return str(app.screen.query_one(name, Static).render())


def test_what_the_next_request_holds_is_what_inspect_says(path):
    holds = inspect_opened(open_session(path)).inspection

    async def steps(pilot):
        text = shown(pilot.app, "#holds")
        assert f"{holds.anchored_tokens:,} of 200,000 tokens" in text
        for name, tokens in holds.categories.items():
            assert name in text
            assert f"{tokens:,}" in text

    drive(SessionApp(path), steps)


def test_a_search_lists_messages_and_the_cursor_shows_one_whole(path):
    async def steps(pilot):
        await pilot.press("slash")
        await pilot.press(*"test", "enter")
        await settle(pilot)
        table = pilot.app.screen.query_one("#list", DataTable)
        wanted = ShownSession(path).rows("test")
        assert table.row_count == len(wanted) > 1
        assert (
            shown(pilot.app, "#message").strip() == ShownSession(path).text(wanted[-1].at).strip()
        )
        await pilot.press("up")
        await pilot.pause()
        assert (
            shown(pilot.app, "#message").strip() == ShownSession(path).text(wanted[-2].at).strip()
        )

    drive(SessionApp(path), steps)


def test_what_the_levels_would_remove_is_listed_with_its_text(path):
    found = removals_of(open_session(path))
    assert found

    async def steps(pilot):
        await pilot.press("l")
        await settle(pilot)
        assert pilot.app.screen.query_one("#removals", DataTable).row_count == len(found)
        assert found[0].text[:60].splitlines()[0] in shown(pilot.app, "#removed")

    drive(SessionApp(path), steps)


def test_the_slider_tries_a_compaction_and_writes_only_when_asked(path):
    async def steps(pilot):
        await pilot.press("c")
        await settle(pilot)
        first = shown(pilot.app, "#preview")
        assert "limit" in first
        assert "## 1." in first
        await pilot.press("left", "left")
        await settle(pilot)
        assert pilot.app.screen.query_one(TargetSlider).percent == 10
        assert shown(pilot.app, "#preview") != first
        assert [each.name for each in path.parent.iterdir()] == ["session.jsonl"]
        pilot.app.screen.query_one("#write").press()
        await settle(pilot)
        written = path.with_name("session.compacted.jsonl")
        assert open_session(written).boundaries

    drive(SessionApp(path), steps)


def test_a_large_file_is_shown_before_it_is_read_whole(path, monkeypatch):
    first = []
    monkeypatch.setattr(SessionScreen, "_glanced", lambda screen, text: first.append(text))

    async def steps(pilot):
        newest = pilot.app.screen.shown.rows()[-1].begins
        assert newest in first[0]
        assert f"{path.stat().st_size:,} bytes" in first[0]
        assert "of 200,000 tokens" in shown(pilot.app, "#holds")  # by now it is read

    drive(SessionApp(path), steps)
    calls = []
    monkeypatch.setattr(Transcript, "load", lambda self, at: calls.append(at) or {})
    glance(path)
    assert len(calls) <= 20  # of hundreds of lines


def test_a_file_of_another_tool_is_glanced_at_too(tmp_path):
    path = tmp_path / "chat.json"
    path.write_text(json.dumps([{"role": "user", "content": "hello"}]))
    assert glance(path).startswith("openai_chat")


def test_undo_asks_first(path):
    target = path.with_name("done.jsonl")
    compact_session(open_session(path), output=target)
    before = target.read_bytes()

    async def steps(pilot):
        await pilot.press("u")
        await settle(pilot)
        assert target.read_bytes() == before
        await pilot.press("u")
        await settle(pilot)
        assert target.read_bytes().startswith(before)
        assert len(target.read_bytes()) > len(before)

    drive(SessionApp(target), steps)


def test_a_file_that_grows_is_followed(path):
    async def steps(pilot):
        messages = len(pilot.app.screen.shown.session.messages)
        with TranscriptLog.open(path, durability="none") as log:
            log.append({"role": "user", "content": "one more"})
        pilot.app.screen._look()
        pilot.app.screen._look()  # the file is being opened: it is not opened twice
        assert len([one for one in pilot.app.workers if one.group == "open"]) == 1
        await settle(pilot)
        assert len(pilot.app.screen.shown.session.messages) >= messages
        assert "one more" in pilot.app.screen.shown.text(-1)
        await pilot.press("f")
        assert pilot.app.screen.follow is False

    drive(SessionApp(path), steps)


def test_text_of_a_session_cannot_control_the_terminal(tmp_path):
    evil = "\x1b]52;c;ZQ==\x07 \x9b31m \u202e [bold]no markup[/bold]"
    path = tmp_path / "evil.jsonl"
    with TranscriptLog.open(path, durability="none") as log:
        log.append(user(evil))
        log.append(said([use("t1", "Read" + evil, file_path=evil)]))
        log.append(user([result("t1", evil * 900)]))

    async def steps(pilot):
        for key in ("slash", "enter", "l", "c", "n"):
            await pilot.press(key)
            await settle(pilot)
            screen = pilot.app.export_screenshot()
            assert not set(screen) & {"\x1b", "\x07", "\x9b", "\u202e"}
        assert "[bold]no markup[/bold]" in pilot.app.screen.shown.text(0)
        assert "\\x1b" in pilot.app.screen.shown.text(0)

    drive(SessionApp(path), steps)


def test_a_file_that_cannot_be_read_is_said_to_be(tmp_path):
    path = tmp_path / "no.jsonl"
    path.write_text("not a session\n")

    async def steps(pilot):
        assert "cannot be read" in shown(pilot.app, "#holds")

    drive(SessionApp(path), steps)


def test_without_a_file_the_sessions_of_the_machine_are_listed(made, tmp_path, monkeypatch):
    folder = tmp_path / "projects" / "-w"
    folder.mkdir(parents=True)
    (folder / "0a000000-0000-4000-8000-000000000000.jsonl").write_bytes(made)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))

    async def steps(pilot):
        assert pilot.app.screen.query_one("#sessions", DataTable).row_count == 1
        await pilot.press("enter")
        await settle(pilot)
        assert "of 200,000 tokens" in shown(pilot.app, "#holds")
        await pilot.press("escape")
        await pilot.pause()
        assert pilot.app.screen.query_one("#sessions", DataTable)

    drive(SessionApp(), steps)


def test_the_list_sorts_and_filters_within_eighty_columns(tmp_path, monkeypatch):
    machine = Machine(tmp_path, monkeypatch).fill()
    machine.put(
        "claude-code",
        claude_lines("big", "/elsewhere", title="Big " * 60),
        at="claude/projects/-b/big.jsonl",
    )

    async def steps(pilot):
        screen = pilot.app.screen
        table = screen.query_one("#sessions", DataTable)
        assert max(len(row.title) for row in screen.rows) > 70
        assert table.virtual_size.width <= 80
        await pilot.press("s")
        sizes = [row.tokens for row in screen.rows]
        assert sizes == sorted(sizes, reverse=True)
        await pilot.press("slash", *"elsewhere", "enter")
        await settle(pilot)
        assert [row.cwd for row in screen.rows] == ["/elsewhere"]
        assert f"1 of {len(sizes)} sessions by tokens" in shown(pilot.app, "#state")
        await pilot.press("escape")
        await settle(pilot)
        assert table.row_count == len(sizes)

    drive(SessionApp(), steps, size=(80, 24))


def test_escape_leaves_a_search_and_no_line_wraps_in_eighty_columns(path):
    async def steps(pilot):
        screen = pilot.app.screen
        assert max(map(len, shown(pilot.app, "#holds").splitlines())) <= 76
        await pilot.press("slash", *"test", "enter")
        await settle(pilot)
        found, whole = (
            screen.query_one("#list", DataTable).row_count,
            len(screen.shown.session.messages),
        )
        assert f"{found:,} of {whole:,} messages hold “test”" in shown(
            pilot.app, "#messages #state"
        )
        assert screen.shown.tokens(0) > 0
        await pilot.press("escape")
        await settle(pilot)
        assert screen.query_one("#list", DataTable).row_count == whole > found
        await pilot.press("question_mark")
        await settle(pilot)
        assert screen.query(HelpPanel)

    drive(SessionApp(path), steps, size=(80, 24))


def test_a_long_list_ends_with_the_newest(tmp_path):
    path = tmp_path / "long.jsonl"
    lines = [
        {"type": role, "uuid": f"{at:08d}-0000-4000-8000-000000000000", "sessionId": "s",
         "parentUuid": f"{at - 1:08d}-0000-4000-8000-000000000000" if at else None,
         "message": {"role": role, "content": f"message {at}"}}
        for at, role in enumerate(["user", "assistant"] * 400)
    ]  # fmt: skip
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    rows = ShownSession(path).rows()
    assert len(rows) == MOST_ROWS
    assert rows[-1].begins == "message 799"
    assert [row.at for row in ShownSession(path).rows("message 7")][-1] == 799


def test_bars_are_as_long_as_their_cells():
    assert [bar_of(part, 10, 10) for part in (0, 5, 10, 20)] == [
        "░" * 10,
        "█" * 5 + "░" * 5,
        "█" * 10,
        "█" * 10,
    ]
    assert bar_of(0, 0, 4) == "░░░░"


def test_without_the_extra_the_error_names_it(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "ullage.tui.session_app", None)
    with pytest.raises(ModuleNotFoundError):
        run_tui()
    assert MissingExtra("textual", "tui").hint == "pip install 'ullage[tui]'"


def test_the_first_look_waits_for_no_room_that_it_does_not_need():
    """Compaction, replay and the manager load while it is shown."""
    program = (
        "import sys, ullage.tui.session_app; print(*(name for name in sys.modules if name in "
        "('ullage.manager.manager', 'ullage.replay', 'ullage.compaction.flow', 'ullage.tui.shown_session')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout.split() == []
