"""The terminal interface: a list of sessions, or one session."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.screen import Screen
from textual.widgets import DataTable, Footer, Header, Static

from ullage.recall.text import visible
from ullage.sessions.find import found_sessions, opened_path, tool_folders
from ullage.tui.session_screen import SessionScreen

if TYPE_CHECKING:
    from ullage.sessions.find import ListedSession

MOST_SESSIONS = 60


class SessionsScreen(Screen[None]):
    """The newest sessions of this machine."""

    BINDINGS = [Binding("q", "app.quit", "Quit")]  # noqa: RUF012 - as Textual wants it

    def compose(self) -> ComposeResult:
        """The list."""
        yield Header(show_clock=False)
        yield DataTable(id="sessions", cursor_type="row", zebra_stripes=True)
        yield Static("looking for sessions …", id="state", markup=False)
        yield Footer()

    def on_mount(self) -> None:
        """Read the sessions next to the event loop, newest first."""
        self.title = "Sessions of this machine"
        columns = ("age", "tool", "tokens", "fill", "project", "title")
        self.query_one("#sessions", DataTable).add_columns(*columns)
        self.rows: list[ListedSession] = []
        self.run_worker(self._read, thread=True)

    def _read(self) -> None:
        from ullage.sessions.find import listed  # not for one session's first look

        for each in found_sessions(list(tool_folders()))[:MOST_SESSIONS]:
            self.app.call_from_thread(self._add, listed(each))
        self.app.call_from_thread(self._finished)

    def _add(self, row: ListedSession) -> None:
        self.rows.append(row)
        hours = int(time.time() - row.found.modified) // 3_600
        share = f"{100 * row.tokens // row.window_tokens} %" if row.window_tokens else "–"
        cells = (
            f"{hours:,} h",
            row.found.tool,
            f"{row.tokens:,}",
            share,
            row.cwd,
            row.problem or row.title,
        )
        self.query_one("#sessions", DataTable).add_row(*(Text(visible(cell)) for cell in cells))

    def _finished(self) -> None:
        said = (
            f"{len(self.rows):,} sessions; Enter opens one" if self.rows else "no session was found"
        )
        self.query_one("#state", Static).update(said)

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Open the session."""
        self.app.push_screen(SessionScreen(opened_path(self.rows[event.cursor_row].found)))


class SessionApp(App[None]):
    """Lists sessions and shows one.

    Args:
        path: A transcript; `None`: the list.
    """

    TITLE = "Ullage"
    CSS = """
    #list, #removals { width: 3fr; }
    .detail { width: 2fr; padding: 0 1; border-left: solid $panel; }
    #holds, #preview { padding: 1 2; }
    #state { padding: 0 1; color: $text-muted; }
    TargetSlider { height: 1; margin: 1 2; }
    TargetSlider:focus { background: $boost; text-style: bold; }
    #write { margin: 0 2; }
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        super().__init__()
        self._path = None if path is None else Path(path)

    def on_mount(self) -> None:
        """Show the session, or the list."""
        self.push_screen(SessionsScreen() if self._path is None else SessionScreen(self._path))
