"""Places in recorded sessions where a context was, or could have been, compacted.

A *cut* has what the model saw before it and what the agent did after it. Real boundaries come with the summary that a
model wrote there; the others lie where the prompt first reached 60, 80 and 95 % of a window of 200 000 tokens.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ullage._engine import core
from ullage.counting.calibration import weights_for
from ullage.exceptions import UllageError
from ullage.sessions import open_session

WINDOW = 200_000
SHARES = (60, 80, 95)
CALLS = 20
"""Tool calls after the cut that are looked at; fewer than this many make no cut."""

Message = dict[str, Any]


@dataclass(frozen=True)
class Cut:
    """One place: `written` is the session's own summary there, "" where there was none."""

    session: str
    kind: str
    before: list[Message]
    after: list[Message]
    written: str = ""


def cuts(folder: Path) -> Iterator[Cut]:
    """All cuts of all sessions under a folder, in the order of the paths."""
    for path in sorted(path for path in folder.rglob("*.json*") if path.is_file()):
        for at, items in enumerate(conversations(path)):
            yield from _of(f"{path.parent.name}/{path.stem}#{at}", items)


def boundaries(folder: Path) -> Iterator[Cut]:
    """Every compaction that an agent made, whatever followed it; `written` is what can be read of what replaced the context."""
    for path in sorted(path for path in folder.rglob("*.json*") if path.is_file()):
        for at, items in enumerate(conversations(path)):
            session = f"{path.parent.name}/{path.stem}#{at}"
            for part, after in _parts(items):
                made = _replacement(after)
                written = "\n\n".join(filter(None, map(text_of, made)))
                before = [item for item in part if said(item) is not None]
                fresh = [item for item in after[len(made) :] if said(item) is not None]
                yield Cut(session, "boundary", before, fresh, written)


def _parts(items: Sequence[Message]) -> Iterator[tuple[Sequence[Message], Sequence[Message]]]:
    """For each boundary what lies between it and the one before, and everything after it."""
    edges = [-1, *(at for at, item in enumerate(items) if is_boundary(item))]
    for start, stop in zip(edges, edges[1:], strict=False):
        yield items[start + 1 : stop], items[stop:]


def _replacement(after: Sequence[Message]) -> Sequence[Message]:
    """The boundary and what stands in place of the context: its summary, or entries that were read from the boundary's own line."""
    line = str(after[0].get("uuid", "")).rpartition("-")[2]
    count = 1
    while count < len(after) and (
        after[count].get("isCompactSummary")
        or (
            "parentUuid" not in after[count]
            and str(after[count].get("uuid", "")).endswith(f"-{line}")
        )
    ):
        count += 1
    return after[:count]


def conversations(path: Path) -> Iterator[list[Message]]:
    """The conversations of a file, as entries or messages."""
    try:
        session = open_session(path)
    except UllageError:
        return
    if session.format == "claude_code":
        # With what was typed while the agent worked, which stands in lines of its own.
        yield [dict(entry) for entry in session.entries() if _counts(entry)]
    elif session.history:
        yield list(session.history)


def _counts(entry: Message) -> bool:
    if entry.get("isSidechain") or entry.get("isApiErrorMessage"):
        return False
    return entry.get("type") in ("user", "assistant") or is_boundary(entry)


def is_boundary(entry: Message) -> bool:
    return entry.get("subtype") == "compact_boundary"


def _of(session: str, items: Sequence[Message]) -> Iterator[Cut]:
    """Between two boundaries lies what one window held; its first message is the summary before it."""
    edges = [-1, *(at for at, item in enumerate(items) if is_boundary(item)), len(items)]
    for start, stop in zip(edges, edges[1:], strict=False):
        part = [item for item in items[start + 1 : stop] if said(item) is not None]
        after = [item for item in items[stop + 1 :] if said(item) is not None]
        written = next((text_of(item) for item in after[:1] if item.get("isCompactSummary")), "")
        fresh = [item for item in after if not item.get("isCompactSummary")]
        yield from _by_share(session, part, fresh)
        if written and len(part) > 1 and _enough(fresh):
            yield Cut(session, "boundary", part, fresh, written)


def _by_share(session: str, part: list[Message], later: list[Message]) -> Iterator[Cut]:
    sizes = _sizes(part)
    for share in SHARES:
        at = next((n for n, size in enumerate(sizes) if size >= WINDOW * share // 100), 0)
        while 0 < at < len(part) and said(part[at])["role"] != "assistant":  # type: ignore[index]
            at += 1
        after = [*part[at:], *later]
        if 0 < at < len(part) and _enough(after):
            yield Cut(session, f"{share} %", part[:at], after)


def _sizes(part: list[Message]) -> list[int]:
    """Tokens of the prompt up to each message: reported, or else estimated."""
    try:
        ledger = core.Ledger(weights_for("claude-opus-4-5"), part)
    except UllageError:
        return []
    reported = [_usage(item) for item in part]
    return [max(ledger.tokens(0, at + 1), known) for at, known in enumerate(reported)]


def _usage(item: Message) -> int:
    usage = (said(item) or {}).get("usage") or {}
    names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    return sum(usage.get(name) or 0 for name in names)


def _enough(after: Sequence[Message]) -> bool:
    return len(calls(after, CALLS)) == CALLS


# ---- what messages say -------------------------------------------------------------------------


def said(item: Message) -> Message | None:
    """The message inside of an entry."""
    message = item if "role" in item else item.get("message")
    known = isinstance(message, dict) and message.get("role") in ("user", "assistant")
    return message if known else None


def blocks(item: Message) -> list[Message]:
    content = (said(item) or {}).get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content or [] if isinstance(block, dict)]


def text_of(item: Message) -> str:
    """What a message shows the model, without thinking and media."""
    return "\n".join(filter(None, map(block_text, blocks(item))))


def block_text(block: Message) -> str:
    kind = block.get("type")
    if kind == "text":
        return str(block.get("text") or "")
    if kind == "thinking":
        return str(block.get("thinking") or "")
    if kind == "tool_use":
        return f"{block.get('name')} {json.dumps(block.get('input'), ensure_ascii=False)}"
    if kind == "tool_result":
        inner = block.get("content")
        return inner if isinstance(inner, str) else "\n".join(map(block_text, inner or []))
    return ""


def calls(after: Sequence[Message], limit: int) -> list[tuple[int, Message]]:
    """The first tool calls, each with the index of its message."""
    found = [
        (at, block)
        for at, item in enumerate(after)
        for block in blocks(item)
        if block.get("type") == "tool_use"
    ]
    return found[:limit]
