"""Long output of a command that only shows things goes to a pager, on a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar

from rich.console import Console
from rich.pager import Pager, SystemPager

from ullage import _env

__all__ = ["NO_PAGER", "paged", "pages"]

NO_PAGER = "--no-pager"

COMMANDS = (
    "edit",
    "inspect",
    "list",
    "memory check",
    "memory list",
    "memory search",
    "memory show",
    "policy",
    "replay",
    "resume",
    "search",
    "session-memory show",
    "validate",
)
"""Those that write nothing worth seeing at once, and ask nothing."""

LESS = "FRX"
"""Options of `less` where the user has none: ends by itself if a screen is enough, shows colours, leaves the text on the screen."""

_OPEN: ContextVar[ExitStack | None] = ContextVar("ullage_pager", default=None)


class LongPager(Pager):
    """The user's pager (`PAGER`, else `less` or `more`) for what is longer than the screen."""

    def __init__(self, lines: int) -> None:
        self._lines = lines

    def show(self, content: str) -> None:
        """Print a text at once, or in the pager."""
        if content.count("\n") < self._lines:
            sys.stdout.write(content)
            sys.stdout.flush()
            return
        os.environ.setdefault("LESS", LESS)  # of the pager, which inherits it
        SystemPager().show(content)


@contextmanager
def pages(command: str, *, wanted: bool) -> Iterator[None]:
    """What `paged` consoles print in this block is held back and shown at its end; at once if it raises.

    Args:
        command: That runs, such as `memory list`.
        wanted: Whether the user leaves it to Ullage.
    """
    if not wanted or command not in COMMANDS or _env.text(_env.NO_PAGER):
        yield
        return
    with ExitStack() as stack:
        token = _OPEN.set(stack)
        try:
            yield
        finally:
            _OPEN.reset(token)


def paged(console: Console) -> None:
    """Holds back what a console on a terminal prints, if the running command has a pager."""
    stack = _OPEN.get()
    if stack is not None:
        stack.enter_context(console.pager(LongPager(console.height), styles=True))
