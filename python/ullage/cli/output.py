"""Output of the commands: tables and bars on a terminal, plain text in a pipe, JSON on demand.

A report is plain data (dicts, lists, numbers, strings); it is printed as JSON, or rendered by one function per command.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import orjson
from rich.cells import cell_len
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from ullage.cli.printable import SafeConsole, json_printable, printable

__all__ = ["COMMAND", "Output", "bar", "counted", "envelope", "share", "tokens"]

JSON_VERSION = 1
"""Of the envelope and of the keys in it: goes up when one changes its meaning or goes away, not when one is added."""

COMMAND: ContextVar[str] = ContextVar("ullage_command", default="")
"""The command that is running, such as `memory list`."""

BAR_CELLS = 28
MOST_NOTES = 8

PROGRESS_AFTER_SECONDS = 1.0
"""What is done sooner needs no bar."""


def tokens(count: int) -> str:
    """`1234567` as `1,234,567`."""
    return f"{count:,}"


def share(part: int, whole: int) -> str:
    """A percentage with one digit; an en dash where there is no whole."""
    return f"{100 * part / whole:.1f} %" if whole else "–"


def counted(count: int, noun: str) -> str:
    """`1 file`, `2 files`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def bar(part: int, whole: int, cells: int = BAR_CELLS) -> str:
    """A bar of eighth blocks; never longer than `cells`, never empty for a part above zero."""
    if whole <= 0 or part <= 0:
        return ""
    eighths = max(1, min(cells * 8, round(cells * 8 * part / whole)))
    full, rest = divmod(eighths, 8)
    return "█" * full + ("" if rest == 0 else "▏▎▍▌▋▊▉"[rest - 1])


def _one_line(cell: str) -> str:
    return printable(" ".join(cell.splitlines()))


def _room(width: int, rows: Sequence[Sequence[str]], cut: Sequence[int]) -> dict[int, int]:
    """How wide each of these columns may be: a third of what the others leave, the last one the rest."""
    widths = [max(map(cell_len, column)) + 2 for column in zip(*rows, strict=True)]
    left = width - sum(size for at, size in enumerate(widths) if at not in cut)
    found: dict[int, int] = {}
    for at in cut:
        share = left if at == cut[-1] else min(widths[at], left // 3)
        found[at] = max(8, share - 2)
        left -= share
    return found


def envelope(**content: Any) -> str:
    """What every command prints with `--json`: `version`, `command`, and `result` or `error`."""
    report = {"version": JSON_VERSION, "command": COMMAND.get(), **content}
    option = orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS
    try:
        text = orjson.dumps(report, option=option).decode()
    except TypeError:  # orjson refuses lone surrogates and integers over 64 bits
        text = json.dumps(report, indent=2)
    return json_printable(text)


class Output:
    """Where a command prints: standard output for results, standard error for progress and notes.

    Control characters are printed as escapes, on a terminal and in a pipe.

    Args:
        as_json: Print reports as JSON, nothing else on standard output.
    """

    def __init__(self, *, as_json: bool = False) -> None:
        self.as_json = as_json
        self.piped = not sys.stdout.isatty()
        # In a pipe, lines stay whole so that grep can use them; on a terminal its width applies.
        self.console = SafeConsole(highlight=False, soft_wrap=self.piped)
        self.errors = SafeConsole(stderr=True, highlight=False, soft_wrap=not sys.stderr.isatty())

    def json(self, report: Any) -> None:
        """Print a report as JSON in the envelope, keys in their own order."""
        # Not printed by rich, which would wrap long strings at the terminal's width.
        sys.stdout.write(envelope(result=report) + "\n")

    def heading(self, text: str, *, cut: bool = False) -> None:
        """One bold line with space before it; `cut` as in `line`."""
        self.console.print()
        self.line(text, style="bold", cut=cut)

    def line(self, text: str, *, style: str = "", cut: bool = False) -> None:
        """One line of text, printed as it is; with `cut` without what does not fit a terminal's line."""
        shown = Text(printable(text))
        if cut and not self.piped:
            shown.truncate(self.console.width, overflow="ellipsis")
        self.console.print(shown, style=style or None)

    def field(self, name: str, text: str, *, width: int, style: str = "") -> None:
        """A name and its text; on a terminal, the lines of a long text stand below each other.

        Args:
            name: What it is.
            text: One line, whatever its length.
            width: Columns of the names.
            style: Of the text.
        """
        if self.piped:
            self.line(f"{name:<{width}}{text}")
            return
        grid = Table.grid(padding=0)
        grid.add_column(width=width, no_wrap=True)
        grid.add_column(overflow="fold")
        grid.add_row(name, Text(printable(text), style=style))
        self.console.print(grid)

    def text(self, text: str, *, style: str = "") -> None:
        """Text of any length, not wrapped and not interpreted."""
        self.console.print(printable(text), markup=False, soft_wrap=True, style=style or None)

    def table(
        self,
        columns: Sequence[str],
        rows: Iterable[Sequence[str]],
        *,
        right: Iterable[int] = (),
        whole: Iterable[int] = (),
        cut: Sequence[int] = (),
    ) -> None:
        """A table without lines.

        Args:
            columns: Their names.
            rows: Their cells.
            right: Columns that hold numbers.
            whole: Columns that are never broken, such as names that are copied.
            cut: Columns that lose their end on a terminal, so that a row is one line; they share what the others leave.
        """
        numbers, rows = set(right), list(rows)
        if self.piped:
            self._plain(columns, rows, numbers)
            return
        kept = numbers.union(whole, cut)
        most = _room(self.console.width, [columns, *rows], cut)
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        for index, name in enumerate(columns):
            table.add_column(
                name,
                justify="right" if index in numbers else "left",
                no_wrap=index in kept,
                overflow="ellipsis" if index in cut else "fold",
                max_width=most.get(index),
            )
        for row in rows:
            table.add_row(*(escape(printable(cell)) for cell in row))
        self.console.print(table)

    def _plain(
        self, columns: Sequence[str], rows: Sequence[Sequence[str]], numbers: set[int]
    ) -> None:
        """One line per row, whatever its length, without trailing space."""
        cells = [list(map(_one_line, row)) for row in (columns, *rows)]
        widths = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]
        for row in cells:
            padded = (
                " " * (width - cell_len(cell)) + cell
                if at in numbers
                else cell + " " * (width - cell_len(cell))
                for at, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            self.text("  ".join(padded).rstrip())

    def note(self, text: str) -> None:
        """A remark on standard error."""
        self.errors.print(escape(printable(text)), style="yellow")

    def notes(self, texts: Sequence[str]) -> None:
        """Print the first few remarks; `inspect --json` lists all."""
        for text in texts[:MOST_NOTES]:
            self.note(f"note: {text}")
        if len(texts) > MOST_NOTES:
            self.note(
                f"note: and {len(texts) - MOST_NOTES:,} more (ullage inspect --json lists all)"
            )

    @contextmanager
    def progress(self, label: str, total: int) -> Iterator[Any]:
        """A progress bar on standard error; yields a function that takes the amount done.

        Nothing is drawn in the first second, and where standard error is not a terminal.
        """
        if not self.errors.is_terminal:
            yield lambda done: None
            return
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        several = (MofNCompleteColumn(), TimeRemainingColumn(compact=True)) if total > 1 else ()
        columns = (TextColumn(label), BarColumn(), *several, TimeElapsedColumn())
        shown = Progress(*columns, console=self.errors, transient=True)
        # A single step says nothing about how much of it is done: its bar pulses.
        task = shown.add_task(label, total=total if total > 1 else None)
        late = threading.Timer(PROGRESS_AFTER_SECONDS, shown.start)
        late.daemon = True
        late.start()
        try:
            yield lambda done: shown.advance(task, done)
        finally:
            late.cancel()
            late.join()
            shown.stop()
