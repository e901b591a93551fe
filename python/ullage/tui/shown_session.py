"""What the terminal interface shows of a session, as plain values."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ullage._engine import core
from ullage.counting.calibration import weights_for
from ullage.counting.models import UNKNOWN_CONTEXT_WINDOW, ModelTable
from ullage.counting.window import WindowSettings, window_for
from ullage.exceptions import UllageError
from ullage.manager import ContextManager, Request
from ullage.policy import Policy
from ullage.recall import Archive
from ullage.recall.text import render, visible
from ullage.replay import replay_session, script_of
from ullage.sessions import Session, open_session
from ullage.tui.session_app import MessageRow, message_row

MOST_ROWS = 400
"""Messages in the list; a search looks through all of them."""


@dataclass(frozen=True, slots=True)
class RemovalRow:
    """What one level removed in a replay, with the text."""

    request: int
    level: str
    freed_tokens: int
    why: str
    text: str


class ShownSession:
    """An open session, and the questions about it; `InvalidTranscript`: it cannot be read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.session: Session = open_session(path)
        table, name = ModelTable.builtin(), self.session.model
        # A warning would be printed over the screen, which shows the window's size anyway.
        assumed = self.session.window_tokens or UNKNOWN_CONTEXT_WINDOW
        row = table.find(name) or table.stated(name, context_window=assumed)
        self.window = window_for(row, settings=WindowSettings.from_env())
        self.weights = weights_for(name or None)
        self._ledger = core.Ledger(self.weights, self.session.messages)

    def has_changed(self) -> bool:
        """Whether the file changed since it was opened."""
        look, pin = self.path.stat(), self.session.pin
        return pin is None or (look.st_size, look.st_mtime_ns) != (pin.size, pin.modified)

    def rows(self, words: str = "") -> list[MessageRow]:
        """The newest messages, oldest first; with words, the newest that contain them."""
        newest: list[MessageRow] = []
        wanted = words.casefold()
        messages = self.session.messages
        for at in range(len(messages) - 1, -1, -1):
            if not wanted or wanted in render(messages[at]).casefold():
                newest.append(message_row(at, messages[at]))
            if len(newest) == MOST_ROWS:
                break
        return newest[::-1]

    def tokens(self, at: int) -> int:
        """Estimated tokens of a message."""
        return int(self._ledger.tokens(at, at + 1))

    def text(self, at: int) -> str:
        """A whole message as text."""
        return visible(render(self.session.messages[at]))


def removals_of(session: Session) -> list[RemovalRow]:
    """What the levels would have removed, had the session run under the default policy."""
    script = script_of(session)
    archive, removals = Archive(script.messages), list[RemovalRow]()

    def seen(manager: ContextManager, request: Request) -> None:
        for report in request.reports:
            spans = (f"m{span.start}-m{span.stop - 1}" for span in report.removed)
            texts = [_recalled(archive, handle) for handle in (*report.tool_use_ids, *spans)]
            if texts:
                row = (report.request, report.stage, report.freed, visible(report.why))
                removals.append(RemovalRow(*row, "\n\n".join(texts)))

    replay_session(script, Policy.buffered(), seen=seen)
    return removals


def _recalled(archive: Archive, handle: str) -> str:
    try:
        recalled = archive.resolve(handle)
    except UllageError as exc:
        return visible(str(exc))
    return visible(f"── {recalled.title} ({handle})\n{recalled.text[:20_000]}")
