"""What a terminal is shown: styled lines, and tables that fit its width."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence, Set
from typing import TextIO

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from ullage.cli.output import path_end
from ullage.recall.text import visible

BAR_STYLE = "#4a8fd9"
"""Readable on light and dark backgrounds."""


class SafeConsole(Console):
    """A console that styles text and escapes the control characters in it.

    `stream`: standard output or standard error.
    """

    def __init__(self, stream: TextIO) -> None:
        # In a pipe, lines stay whole so that grep can use them; on a terminal its width applies.
        whole_lines = not stream.isatty()
        super().__init__(
            stderr=stream is sys.stderr, highlight=False, emoji=False, soft_wrap=whole_lines
        )

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """See `rich.console.Console`, with printable text."""
        for segment in super().render(renderable, options):
            text = segment.text if segment.control else str(visible(segment.text))
            yield segment if text == segment.text else Segment(text, segment.style)

    def on_broken_pipe(self) -> None:
        """Leave `ullage … | head` to `main`, which exits with 0; rich itself would exit with 1."""
        raise BrokenPipeError

    def print_line(self, text: str, style: str, *, cut: bool) -> None:
        """See `Output.line`."""
        shown = Text(visible(text))
        if cut:
            shown.truncate(self.width, overflow="ellipsis")
        self.print(shown, style=style or None)

    def print_field(self, name: str, text: str, width: int, style: str) -> None:
        """See `Output.field`."""
        grid = Table.grid(padding=0)
        grid.add_column(width=width, no_wrap=True)
        grid.add_column(overflow="fold")
        grid.add_row(name, Text(visible(text), style=style))
        self.print(grid)

    def print_table(
        self,
        columns: Sequence[str],
        rows: Sequence[Sequence[str]],
        *,
        right: Set[int],
        unbroken: Set[int],
        cut: Sequence[int],
        paths: Sequence[int],
    ) -> None:
        """See `Output.table`; `unbroken`: columns that never wrap."""
        most = _room(self.width, [columns, *rows], cut)
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        for index, name in enumerate(columns):
            table.add_column(
                name,
                justify="right" if index in right else "left",
                style="" if name else BAR_STYLE,
                no_wrap=index in unbroken,
                overflow="ellipsis" if index in cut else "fold",
                max_width=most.get(index),
            )
        for row in rows:
            cells = enumerate(row)
            shown = (path_end(cell, most[at]) if at in paths else cell for at, cell in cells)
            table.add_row(*(escape(visible(cell)) for cell in shown))
        self.print(table)


def _room(width: int, rows: Sequence[Sequence[str]], cut: Sequence[int]) -> dict[int, int]:
    """Widths of these columns: each gets a third of what the others leave, the last one the remainder."""
    widths = [max(map(cell_len, column)) + 2 for column in zip(*rows, strict=True)]
    left = width - sum(size for at, size in enumerate(widths) if at not in cut)
    widest: dict[int, int] = {}
    for at in cut:
        share = left if at == cut[-1] else min(widths[at], left // 3)
        widest[at] = max(8, share - 2)
        left -= share
    return widest
