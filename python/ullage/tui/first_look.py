"""What the terminal interface shows first; imports little, to start quickly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.text import Text

from ullage.facts.words import blocks_of
from ullage.messages import message_of
from ullage.recall.text import call_title, content_text, visible
from ullage.transcript import Transcript
from ullage.transcript.formats import detect

_BEGIN = 160
_NAME = 44


@dataclass(frozen=True, slots=True)
class MessageRow:
    """One message in the list: its position, its author (`result`: a tool) and its beginning."""

    at: int
    role: str
    begins: str


def glance(path: Path) -> str:
    """What an index tells of a file: indexing 100 MB takes a tenth of the time of reading it.

    Raises:
        InvalidTranscript: Its format is not known.
        StoreError: It cannot be read.
    """
    kind, size = detect(path), path.stat().st_size
    if kind != "claude_code":
        return f"{kind} · {size:,} bytes\n\nreading …"
    transcript = Transcript.open(path)
    rows = [row for row in transcript.rows() if row.type in ("user", "assistant")]
    messages = ((row.at, message_of(transcript.load(row.at)) or {}) for row in rows[-12:])
    newest = [message_row(*message) for message in messages]
    usage = transcript.usage or {}
    tokens = sum(count for key in _PROMPT if isinstance(count := usage.get(key), int))
    head = [
        f"{visible(transcript.model) or 'unknown model'} · {kind} · {size:,} bytes",
        f"{tokens:,} tokens in the newest request · {len(rows):,} lines of messages · {len(transcript.boundaries):,} earlier compactions",
    ]
    lines = (f"{row.role:<10} {row.begins}" for row in newest)
    return "\n".join([*head, "", *lines, "", "reading the rest …"])


_PROMPT = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


def message_row(at: int, message: Mapping[str, Any]) -> MessageRow:
    """A message as the list shows it."""
    text = " · ".join(_begins(message))
    who = str(message.get("role"))
    if who == "user" and any(block.get("type") == "tool_result" for block in blocks_of(message)):
        who = "result"
    return MessageRow(at, who, visible(" ".join(text[:_BEGIN].split())))


def _begins(message: Mapping[str, Any]) -> Iterator[str]:
    for block in blocks_of(message):
        kind = block.get("type")
        if kind == "tool_use":
            yield f"▸ {call_title(block.get('name'), block.get('input'))}"
        elif kind == "tool_result":
            yield f"◂ {content_text(block.get('content'))[:_BEGIN]}"
        else:
            yield str(block.get("text") or block.get("thinking") or f"[{kind}]")[:_BEGIN]


def bar_of(part: int, whole: int, cells: int) -> str:
    """A bar of full and empty cells."""
    full = min(cells, round(cells * part / whole)) if whole else 0
    return "█" * full + "░" * (cells - full)


def rows_text(rows: Sequence[tuple[str, int]], whole: int, width: int) -> Text:
    """The largest with tokens and a bar of the whole, a line each; lists of one width have aligned columns."""
    most = max(16, min(_NAME, width - _FIGURES - _LEAST_BAR))
    bars = max(0, min(_MOST_BAR, width - most - _FIGURES))
    shown = sorted(rows, key=lambda row: -row[1])[:_ROWS]
    text = Text()
    for name, size in shown:
        share = f"{100 * size / whole if whole else 0:5.1f} %"
        text.append(f"{end_of(visible(name), most):<{most}}  {size:>9,}  {share}  ")
        text.append(bar_of(size, whole, bars).rstrip("░") + "\n", style=BAR_STYLE)
    return text


BAR_STYLE = "#4a8fd9"
"""Readable on light and dark backgrounds."""
_ROWS = 12
_FIGURES = 22
"""Cells of tokens and share, with the gaps around them."""
_LEAST_BAR, _MOST_BAR = 16, 40


def end_of(name: str, most: int) -> str:
    """The end of a long path, since most share the beginning."""
    return name if len(name) <= most else f"…{name[1 - most :]}"
