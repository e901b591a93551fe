"""The terminal interface: a list of sessions, or one session."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.screen import Screen
from textual.widgets import DataTable, Footer, Header, HelpPanel, Input, Static

from ullage.recall.text import visible
from ullage.sessions.find import (
    ORDER,
    Sorting,
    age,
    found_sessions,
    holds,
    home_relative,
    opened_path,
    tool_folders,
)
from ullage.tui.session_screen import SessionScreen

if TYPE_CHECKING:
    from ullage.sessions.find import ListedSession

MOST_SESSIONS = 60


class SessionsScreen(Screen[None]):
    """The newest sessions of this machine."""

    BINDINGS = [  # noqa: RUF012 - as Textual wants it
        Binding("slash", "filter", "Filter"),
        Binding("s", "sort", "Sort"),
        Binding("escape", "back", "Back", show=False),
        Binding("question_mark", "app.keys", "Keys"),
        Binding("q", "app.quit", "Quit"),
    ]

    def compose(self) -> ComposeResult:
        """The list."""
        yield Header(show_clock=False)
        yield Input(placeholder="words of a title or project, then Enter", id="filter")
        yield DataTable(id="sessions", cursor_type="row", zebra_stripes=True)
        yield Static("looking for sessions …", id="state", markup=False)
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Read the sessions next to the event loop, newest first."""
        self.title = "Sessions of this machine"
        self.query_one("#sessions", DataTable).focus()
        self.found: list[ListedSession] = []
        self.rows: list[ListedSession] = []
        self.sorting: Sorting = "age"
        self.reading = True
        self.run_worker(self._read, thread=True)

    def _read(self) -> None:
        from ullage.sessions.find import listed  # not for one session's first look

        for each in found_sessions(list(tool_folders()))[:MOST_SESSIONS]:
            self.app.call_from_thread(self._add, listed(each))
        self.app.call_from_thread(self._finished)

    def _add(self, row: ListedSession) -> None:
        self.found.append(row)
        self._show()

    def _finished(self) -> None:
        self.reading = False
        self._show()

    def on_resize(self) -> None:
        """A narrow terminal shows fewer columns, so that titles are seen."""
        if hasattr(self, "found"):
            self._show()

    def _show(self) -> None:
        """The rows that the filter leaves, in their order; the cursor stays on its session."""
        table = self.query_one("#sessions", DataTable)
        at = self.rows[table.cursor_row] if self.rows else None
        words = self.query_one("#filter", Input).value.split()
        self.rows = sorted(
            (row for row in self.found if holds(row, words)), key=ORDER[self.sorting]
        )
        table.clear(columns=True)
        width = self.size.width
        names, wide = (_WIDE if width >= _NARROW else _SLIM), 0
        rows = [
            [Text(text, justify=_side(name)) for name, text in _cells(row, names)]
            for row in self.rows
        ]
        for column, name in enumerate(names[:-1]):
            room = max([len(name), *(row[column].cell_len for row in rows)])
            wide += room + 2
            table.add_column(Text(name, justify=_side(name)), width=room)
        rest = max(10, width - wide - _BESIDE)
        table.add_column(names[-1], width=rest)
        for row in rows:
            row[-1].truncate(rest, overflow="ellipsis")
            table.add_row(*row)
        if at in self.rows:
            table.move_cursor(row=self.rows.index(at))
        self.query_one("#state", Static).update(self._state())

    def _state(self) -> str:
        if not self.found:
            return "looking for sessions …" if self.reading else "no session was found"
        dollars = sum(row.dollars or 0 for row in self.rows)
        size = sum(row.tokens for row in self.rows)
        count = f"{len(self.rows):,}" + (
            f" of {len(self.found):,}" if len(self.rows) < len(self.found) else ""
        )
        return f"{count} sessions by {self.sorting}: {size:,} tokens, ${dollars:,.2f}{'; reading …' if self.reading else ''}"

    def action_filter(self) -> None:
        """Go to the words."""
        self.query_one("#filter", Input).focus()

    def on_input_changed(self) -> None:
        """Filter while somebody types."""
        self._show()

    def on_input_submitted(self) -> None:
        """Go to the list."""
        self.query_one("#sessions", DataTable).focus()

    def action_sort(self) -> None:
        """By age, by tokens, by cost, and again."""
        ways = list(ORDER)
        self.sorting = ways[(ways.index(self.sorting) + 1) % len(ways)]
        self._show()

    def action_back(self) -> None:
        """Without the filter's words."""
        self.query_one("#filter", Input).value = ""
        self.query_one("#sessions", DataTable).focus()

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Open the session."""
        self.app.push_screen(SessionScreen(opened_path(self.rows[event.cursor_row].found)))


_NARROW = 100
_BESIDE = 5
"""Cells that the last column's borders and a scroll bar take."""
_WIDE = ("age", "tool", "tokens", "fill", "cost", "project", "title")
_SLIM = ("age", "tokens", "fill", "cost", "project", "title")
_FIGURES = ("age", "tokens", "fill", "cost")
_PROJECT = {_WIDE: 28, _SLIM: 14}
"""Most of a project's end that is seen."""


def _side(name: str) -> Literal["left", "right"]:
    return "right" if name in _FIGURES else "left"


def _cells(row: ListedSession, names: tuple[str, ...]) -> list[tuple[str, str]]:
    project, most = home_relative(row.cwd), _PROJECT[names]
    found = {
        "age": age(row.found.modified),
        "tool": row.found.tool,
        "tokens": f"{row.tokens:,}",
        "fill": f"{100 * row.tokens / row.window_tokens:.0f} %" if row.window_tokens else "–",
        "cost": "–" if row.dollars is None else f"${row.dollars:,.2f}",
        "project": project if len(project) <= most else f"…{project[1 - most :]}",
        "title": row.problem or row.title,
    }
    return [(name, visible(found[name])) for name in names]


class SessionApp(App[None]):
    """Lists sessions and shows one.

    Args:
        path: A transcript; `None`: the list.
    """

    TITLE = "Ullage"
    CSS = """
    #sessions { height: 1fr; }
    #list, #removals { width: 3fr; }
    .detail { width: 2fr; padding: 0 1; border-left: solid $panel; }
    #holds, #preview { padding: 1 2; }
    #state { padding: 0 1; color: $text-muted; }
    Input { height: 1; border: none; padding: 0 1; background: $boost; }
    TargetSlider { height: 1; margin: 1 2; }
    TargetSlider:focus { background: $boost; text-style: bold; }
    #write { margin: 0 2; }
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        super().__init__()
        self._path = None if path is None else Path(path)

    def action_keys(self) -> None:
        """Show what each key does, or hide it again."""
        if self.screen.query(HelpPanel):
            self.action_hide_help_panel()
        else:
            self.action_show_help_panel()

    def on_mount(self) -> None:
        """Show the session, or the list."""
        self.push_screen(SessionsScreen() if self._path is None else SessionScreen(self._path))
