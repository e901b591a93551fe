"""The record kept with the notes: how far they reach, and which lines code wrote (SM-5).

The record is written after the notes. If the process is killed in between, the notes hold more than the record says: then more of the
conversation stays than necessary, never less.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

__all__ = ["Record", "read_record", "write_record"]

VERSION = 1
MAX_REMOVED = 500


@dataclass(frozen=True, slots=True)
class Record:
    """The state of a session's notes.

    Attributes:
        session_id: The session of the notes; empty: unknown.
        covered: Name of the last message that the notes have absorbed; empty: unknown.
        written: Digest of the notes when code wrote them last.
        generated: Lines that code wrote, by section: all others are a user's or a model's.
        removed: Hashes of lines that code wrote and the user deleted; they are not written again.
        known: There is a record; false: the file is missing or cannot be read.
    """

    session_id: str = ""
    covered: str = ""
    written: str = ""
    generated: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)
    removed: tuple[str, ...] = field(default=(), repr=False)
    known: bool = False


def read_record(data: bytes | None) -> Record:
    """The record in a file's bytes; an empty one where they are missing or broken."""
    try:
        found = orjson.loads(data) if data else None
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, dict) or found.get("version") != VERSION:
        return Record()
    return Record(
        session_id=_text(found.get("session_id")),
        covered=_text(found.get("covered")),
        written=_text(found.get("written")),
        generated=_generated(found.get("generated")),
        removed=_texts(found.get("removed")),
        known=True,
    )


def write_record(record: Record) -> bytes:
    """The bytes of a record; the same for the same record."""
    fields = {
        "version": VERSION,
        "session_id": record.session_id,
        "covered": record.covered,
        "written": record.written,
        "generated": {title: list(lines) for title, lines in record.generated.items()},
        "removed": list(record.removed[-MAX_REMOVED:]),
    }
    return orjson.dumps(fields, option=orjson.OPT_INDENT_2)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: Any) -> tuple[str, ...]:
    listed = value if isinstance(value, list) else []
    return tuple(part for part in listed if isinstance(part, str))


def _generated(value: Any) -> dict[str, tuple[str, ...]]:
    rows = value if isinstance(value, dict) else {}
    return {str(title): _texts(lines) for title, lines in rows.items()}
