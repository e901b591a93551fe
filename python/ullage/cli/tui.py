"""`ullage tui`: sessions on the terminal."""

from __future__ import annotations

from ullage.cli.session_file import SessionArgument
from ullage.tui import run_tui

__all__ = ["tui_command"]


def tui_command(file: SessionArgument | None = None) -> int:
    """Show sessions on the terminal: what fills them, what the levels would do, a compaction with a preview."""
    run_tui(file)
    return 0
