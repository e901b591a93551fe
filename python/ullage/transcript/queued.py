"""Messages that a user typed while the agent worked, and that stand in `queue-operation` lines only.

Claude Code writes `enqueue` with the text, and `remove` where it handed that to the model in the middle of a turn. Newer
versions write the text again, as a user entry or an attachment; others write it nowhere else.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ullage.messages import Item, as_blocks, message_of
from ullage.transcript.apply_records import RecordLine

__all__ = ["QUEUE_LINE", "queued_entries"]

QUEUE_LINE = "queue-operation"

_NAMESPACE = uuid.UUID("8a1e0d0a-5b4e-5f0c-9d0e-0c1f0f5f7a27")
_LINES_LATER = 60
"""So soon after its removal a text is written again by a version that does: the next entries, with progress in between."""

Load = Callable[[int], Mapping[str, Any]]


def queued_entries(rows: Sequence[RecordLine], load: Load) -> dict[int, Item]:
    """A user's entry for each text that a model was handed from the queue and that no other line holds.

    Args:
        rows: All lines of a file.
        load: The object of a line.

    Returns:
        By the place of the line that removed it from the queue, where the model was shown it.
    """
    waiting: deque[tuple[int, Mapping[str, Any]]] = deque()
    entries: dict[int, Item] = {}
    for row in rows:
        if row.type != QUEUE_LINE:
            continue
        line = load(row.at)
        operation = line.get("operation")
        if operation == "enqueue":
            waiting.append((row.at, line))
        elif operation == "popAll":  # put back where it was typed
            waiting.clear()
        elif waiting:
            start, asked = waiting.popleft()
            text = asked.get("content")
            if operation == "remove" and isinstance(text, str) and text.strip():
                if not _is_written(text.strip(), rows[start : row.at + _LINES_LATER], load):
                    entries[row.at] = _entry(line, asked, _before(rows, row.at))
    return entries


def _is_written(text: str, rows: Sequence[RecordLine], load: Load) -> bool:
    """Whether a user's entry or an attachment among these lines says it."""
    talk = (row for row in rows if row.type in ("user", "attachment"))
    return any(text == said.strip() for row in talk for said in _texts(load(row.at)))


def _texts(entry: Mapping[str, Any]) -> Iterator[str]:
    attachment = entry.get("attachment")
    content = (message_of(entry) or {}).get("content")
    if isinstance(attachment, Mapping):
        content = attachment.get("prompt")
    blocks: list[Any] = as_blocks(content) if isinstance(content, str | list) else []
    for block in blocks:
        if isinstance(block, Mapping) and isinstance(block.get("text"), str):
            yield block["text"]


def _before(rows: Sequence[RecordLine], at: int) -> str | None:
    """The entry after which it was said: what is rewound with that is rewound with it."""
    return next((row.uuid for row in reversed(rows[:at]) if row.uuid), None)


def _entry(line: Mapping[str, Any], asked: Mapping[str, Any], parent: str | None) -> Item:
    name = "\x1f".join(str(asked.get(key)) for key in ("sessionId", "timestamp", "content"))
    return {
        "parentUuid": parent,
        "isSidechain": False,
        "type": "user",
        "message": {"role": "user", "content": asked["content"]},
        "uuid": str(uuid.uuid5(_NAMESPACE, name)),
        "timestamp": line.get("timestamp") or asked.get("timestamp") or "",
        "sessionId": asked.get("sessionId") or "",
        "promptSource": "queued",
    }
