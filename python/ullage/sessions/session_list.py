"""What a list of sessions says of each: title, project, model, fill, cost."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from ullage.counting.estimate import weights_for
from ullage.counting.models import ModelTable
from ullage.counting.window import WindowSettings, window_for
from ullage.exceptions import UllageError
from ullage.facts.reading import text_of
from ullage.facts.words import Kind, words_of
from ullage.messages import Item, is_summary, role_of
from ullage.sessions.find import opened_path
from ullage.sessions.load import Session, open_session
from ullage.sessions.spending import spending_of
from ullage.sessions.usual_folders import FoundSession

__all__ = ["ListedSession", "listed", "title_of"]

_TITLE_CHARS = 80
_TITLES = (("custom-title", "customTitle"), ("ai-title", "aiTitle"), ("summary", "summary"))
_UNTITLED = (Kind.NONE, Kind.HOST, Kind.INTERRUPT, Kind.SHELL)


@dataclass(frozen=True, slots=True)
class ListedSession:
    """One row.

    Attributes:
        found: Which file, id and tool.
        title: As its tool names it, else how the user's first words begin; empty if there are none.
        cwd: Where it ran; empty if the file does not say.
        model: The newest model; empty if none is named.
        messages: In the context now.
        tokens: Size of the context: the newest reported figure with an estimate of what follows, or an estimate of all.
        window_tokens: The model's context window.
        compact_at_tokens: Where automatic compaction starts by Ullage's defaults.
        dollars: What it cost by the model table's prices; `None`: unknown.
        problem: Why the file could not be read; then only `found` counts. Empty: it was.
    """

    found: FoundSession
    title: str = ""
    cwd: str = ""
    model: str = ""
    messages: int = 0
    tokens: int = 0
    window_tokens: int = 0
    compact_at_tokens: int = 0
    dollars: Decimal | None = None
    problem: str = ""


def listed(found: FoundSession, table: ModelTable | None = None) -> ListedSession:
    """What a list says of a session; a file that cannot be read becomes a row that says why.

    Args:
        found: From `found_sessions`.
        table: Windows and prices; `None`: the built-in table.
    """
    try:
        opened = open_session(opened_path(found))
        return _row(found, opened, table or ModelTable.builtin())
    except (UllageError, OSError) as exc:
        reason = getattr(exc, "reason", "") or str(exc)
        return ListedSession(found, problem=str(reason))


def _row(found: FoundSession, opened: Session, table: ModelTable) -> ListedSession:
    name = opened.model
    # An unknown model makes no noise in a list: the window says what is assumed.
    model = table.find(name) or table.stated(name or "unknown", context_window=200_000)
    if opened.window_tokens:
        model = dataclasses.replace(model, context_window=opened.window_tokens)
    marks = window_for(model, settings=WindowSettings.from_env())
    return ListedSession(
        found,
        title_of(opened),
        opened.cwd,
        name,
        len(opened.messages),
        context_tokens(opened),
        marks.context,
        marks.threshold,
        spending_of(opened, table).dollars,
    )


def context_tokens(opened: Session) -> int:
    """Tokens of a session's context: what its provider reported last and an estimate of what follows, or an estimate of all."""
    weights = weights_for(opened.model or None)
    reported = opened.reported_tokens(weights)
    if reported is not None:
        return reported
    from ullage._engine import core

    whole = int(core.Ledger(weights, opened.items).tokens())
    return whole + opened.overhead_tokens(weights)


def title_of(opened: Session) -> str:
    """The title that its tool gave a session, else how the user's first words begin; empty without any."""
    if opened.title:
        return _short(opened.title)
    metadata = opened.transcript.metadata if opened.transcript else {}
    for kind, key in _TITLES:
        if isinstance(title := metadata.get(kind, {}).get(key), str) and title.strip():
            return _short(title)
    lines = opened.transcript.entries() if opened.transcript else opened.history or opened.items
    return next((title for title in map(_words, lines) if title), "")


def _words(line: Item) -> str:
    if role_of(line) != "user" or line.get("isMeta") is True or is_summary(line):
        return ""
    words = words_of(text_of(line))
    return "" if words.kind in _UNTITLED else _short(words.text)


def _short(text: str) -> str:
    line = " ".join(text[: 4 * _TITLE_CHARS].split())
    return line if len(line) <= _TITLE_CHARS else line[: _TITLE_CHARS - 1] + "…"


def home_relative(path: str) -> str:
    """A path with `~` for the user's home, for display."""
    home = str(Path.home())
    return "~" + path[len(home) :] if path == home or path.startswith(home + "/") else path
