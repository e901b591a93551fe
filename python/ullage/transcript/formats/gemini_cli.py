"""Histories of the Gemini CLI: a list of contents.

After a compression the history opens with a `<state_snapshot>` and the model's thanks for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ullage.providers import gemini
from ullage.transcript.formats._model import EntryList, ReadSession, ReadTranscript
from ullage.transcript.formats._source import OpenedFile

__all__ = ["read", "sniff"]

_SNAPSHOT = "<state_snapshot>"


def sniff(source: OpenedFile) -> bool:
    """Whether a file is a list of contents, at its top or under `history` or `contents`."""
    return bool(_contents(source))


def _contents(source: OpenedFile) -> list[Any]:
    items: Any = source.listed()
    for key in ("history", "contents"):
        items = items or source.keyed(key).get(key)
    if not isinstance(items, list):
        return []
    known = all(isinstance(item, Mapping) and isinstance(item.get("parts"), list) for item in items)
    return items if known else []


def read(source: OpenedFile) -> ReadTranscript:
    """Reads a history: one session."""
    contents = _contents(source)
    internal = gemini.from_provider({"contents": contents})
    entries = EntryList(source.stem, source.warn)
    for position, message in enumerate(internal.messages, start=1):
        if position == 1 and _is_snapshot(message):
            entries.boundary(line=position)
            entries.add(message, line=position, isCompactSummary=True)
        else:
            entries.add(message, line=position)
    session = ReadSession(source.stem, entries.entries, system=internal.system)
    return ReadTranscript("gemini_cli", source.path, (session,), warnings=tuple(source.warnings))


def _is_snapshot(message: Mapping[str, Any]) -> bool:
    content = message["content"]
    first = content[0].get("text", "") if isinstance(content, list) and content else content
    return isinstance(first, str) and first.lstrip().startswith(_SNAPSHOT)
