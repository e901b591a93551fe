"""Sessions on the terminal: what fills them, what the levels would do, a compaction with a preview."""

from __future__ import annotations

import os

from ullage._start import extra_module


def run_tui(path: str | os.PathLike[str] | None = None) -> None:
    """Open the terminal interface and return when the user leaves it.

    Args:
        path: A transcript; `None`: the list of the sessions of this machine.

    Raises:
        MissingExtra: Textual is not installed (`pip install 'ullage[tui]'`).
    """
    extra_module("textual", "tui")
    from ullage.tui.session_app import SessionApp

    SessionApp(path).run()
