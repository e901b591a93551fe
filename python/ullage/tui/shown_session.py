"""What the terminal interface shows of a session, as plain values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ullage.counting.estimate import weights_for
from ullage.counting.models import UNKNOWN_CONTEXT_WINDOW, ModelTable
from ullage.counting.window import WindowSettings, window_for
from ullage.exceptions import UllageError
from ullage.facts.reading import blocks_of
from ullage.levels.breakdown import Inspection, inspect_messages
from ullage.levels.report import StageReport
from ullage.manager import ContextManager, Request
from ullage.messages import message_of
from ullage.policy import Policy
from ullage.recall import Archive
from ullage.recall.searched_text import call_title, content_text, render
from ullage.recall.visible_text import visible
from ullage.replay import replay_session, script_of
from ullage.sessions import CompactedSession, Session, compact_session, open_session
from ullage.sessions.load import CLAUDE_CODE
from ullage.transcript import Transcript
from ullage.transcript.formats import detect

__all__ = [
    "MessageRow",
    "RemovalRow",
    "ShownSession",
    "bar_of",
    "glance",
    "removals_of",
    "rows_text",
]

MOST_ROWS = 400
"""Messages in the list; a search looks through all of them."""

_BEGIN = 160
_NAME = 44


@dataclass(frozen=True, slots=True)
class MessageRow:
    """One message in the list: its position, its author and its beginning."""

    at: int
    role: str
    begins: str


@dataclass(frozen=True, slots=True)
class RemovalRow:
    """What one level removed in a replay, with the text."""

    request: int
    level: str
    freed_tokens: int
    why: str
    text: str


class ShownSession:
    """A session that is open, and the questions about it.

    Args:
        path: A transcript of any known format.

    Raises:
        InvalidTranscript: It cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.session: Session = open_session(path)
        table, name = ModelTable.builtin(), self.session.model
        # A warning would be printed over the screen: the size of the window is shown there.
        assumed = self.session.window_tokens or UNKNOWN_CONTEXT_WINDOW
        row = table.find(name) or table.stated(name, context_window=assumed)
        self.window = window_for(row, settings=WindowSettings.from_env())
        self.stamp = _stamp(path)

    def has_changed(self) -> bool:
        """Whether the file was written to since it was opened."""
        return _stamp(self.path) != self.stamp

    def holds(self) -> Inspection:
        """What the next request would hold."""
        weights = weights_for(self.session.model or None)
        overhead = self.session.overhead_tokens(weights)
        return inspect_messages(self.session.items, weights=weights, overhead_tokens=overhead)

    def rows(self, words: str = "") -> list[MessageRow]:
        """The newest messages, oldest of them first; with words, the newest that hold them."""
        found: list[MessageRow] = []
        wanted = words.casefold()
        messages = self.session.messages
        for at in range(len(messages) - 1, -1, -1):
            if not wanted or wanted in render(messages[at]).casefold():
                found.append(_row(at, messages[at]))
            if len(found) == MOST_ROWS:
                break
        return found[::-1]

    def text(self, at: int) -> str:
        """All of a message."""
        return visible(render(self.session.messages[at]))

    def tried(self, target_tokens: int) -> CompactedSession:
        """A compaction that is not written."""
        return compact_session(self.session, target_tokens=target_tokens)

    def written(self, target_tokens: int, output: Path) -> CompactedSession:
        """The same, written to a file of its own."""
        return compact_session(self.session, target_tokens=target_tokens, output=output)


def glance(path: Path) -> str:
    """What can be said of a file at once: a transcript of 100 MB is indexed in a tenth of the time that reading it whole takes.

    Raises:
        InvalidTranscript: Its format is not known.
        StoreError: It cannot be read.
    """
    kind, size = detect(path), path.stat().st_size
    if kind != CLAUDE_CODE:
        return f"{kind} · {size:,} bytes\n\nreading …"
    transcript = Transcript.open(path)
    rows = [row for row in transcript.rows() if row.type in ("user", "assistant")]
    newest = [_row(row.at, message_of(transcript.load(row.at)) or {}) for row in rows[-_GLANCE:]]
    usage = transcript.usage or {}
    tokens = sum(count for key in _PROMPT if isinstance(count := usage.get(key), int))
    head = [
        f"{visible(transcript.model) or 'unknown model'} · {kind} · {size:,} bytes",
        f"{tokens:,} tokens in the newest request · {len(rows):,} lines of messages · {len(transcript.boundaries):,} earlier compactions",
    ]
    return "\n".join(
        [*head, "", *(f"{row.role:<10} {row.begins}" for row in newest), "", "reading the rest …"]
    )


_GLANCE = 12
_PROMPT = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


def _stamp(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def _row(at: int, message: Mapping[str, Any]) -> MessageRow:
    text = " · ".join(_begins(message))
    return MessageRow(at, str(message.get("role")), visible(" ".join(text[:_BEGIN].split())))


def _begins(message: Mapping[str, Any]) -> Iterator[str]:
    for block in blocks_of(message):
        kind = block.get("type")
        if kind == "tool_use":
            yield f"▸ {call_title(block.get('name'), block.get('input'))}"
        elif kind == "tool_result":
            yield f"◂ {content_text(block.get('content'))[:_BEGIN]}"
        else:
            yield str(block.get("text") or block.get("thinking") or f"[{kind}]")[:_BEGIN]


def removals_of(session: Session) -> list[RemovalRow]:
    """What the levels would have removed, had the session run under the default policy."""
    script = script_of(session)
    archive, found = Archive(script.messages), list[RemovalRow]()

    def seen(manager: ContextManager, request: Request) -> None:
        found.extend(
            _removal(report, archive)
            for report in request.reports
            if report.tool_use_ids or report.removed
        )

    replay_session(script, Policy.buffered(), seen=seen)
    return found


def _removal(report: StageReport, archive: Archive) -> RemovalRow:
    spans = (f"m{span.start}-m{span.stop - 1}" for span in report.removed)
    texts = (_recalled(archive, handle) for handle in (*report.tool_use_ids, *spans))
    return RemovalRow(
        report.request, report.stage, report.freed, visible(report.why), "\n\n".join(texts)
    )


def _recalled(archive: Archive, handle: str) -> str:
    try:
        found = archive.resolve(handle)
    except UllageError as exc:
        return visible(str(exc))
    return visible(f"── {found.title} ({handle})\n{found.text[:20_000]}")


def bar_of(part: int, whole: int, cells: int) -> str:
    """A bar of full and empty cells."""
    full = min(cells, round(cells * part / whole)) if whole else 0
    return "█" * full + "░" * (cells - full)


def rows_text(rows: Sequence[tuple[str, int]], whole: int, cells: int = 30) -> str:
    """Names with their tokens and a bar each, one line for each."""
    named = [(_end(visible(name)), size) for name, size in rows]
    width = max((len(name) for name, _ in named), default=0)
    return "\n".join(
        f"{name:<{width}}  {size:>11,}  {100 * size / whole if whole else 0:5.1f} %  {bar_of(size, whole, cells)}"
        for name, size in named
    )


def _end(name: str) -> str:
    """The end of a long path: its beginning is the same for most."""
    return name if len(name) <= _NAME else f"…{name[1 - _NAME :]}"
