"""The state of a session's notes: sections, sizes, and how far they reach."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ullage.compaction.input import read_source
from ullage.counting.estimate import Weights
from ullage.memory.session.ids import covered_end, safe_end
from ullage.memory.session.notes_place import NotesPlace
from ullage.memory.session.template import is_blank, parse_notes
from ullage.memory.session.update import load, measure_of

__all__ = ["NotesState", "look"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NotesState:
    """The notes of a session as they are on the disk.

    Attributes:
        path: Of the notes.
        exists: Whether there are any.
        blank: They are still empty.
        text: The notes.
        tokens: Of all sections.
        sections: Title, tokens, and lines that code wrote, for each section.
        session_id: Whose notes; empty: unknown.
        known: There is a record of how far they reach.
        covered: Name of the last message that they hold; empty: unknown.
        absorbed: Messages of the conversation up to it; `None`: it is not in this conversation.
        messages: Of the conversation.
        absorbable: Messages that an update could absorb now.
    """

    path: str
    exists: bool
    blank: bool
    text: str = field(repr=False)
    tokens: int
    sections: tuple[tuple[str, int, int], ...] = field(repr=False)
    session_id: str
    known: bool
    covered: str
    absorbed: int | None
    messages: int
    absorbable: int


def look(
    folder: NotesPlace,
    items: Sequence[Mapping[str, Any]],
    *,
    config: Sequence[NotesPlace] = (),
    weights: Weights | None = None,
) -> NotesState:
    """The state of the notes in a folder, compared with a conversation.

    Args:
        folder: Where they lie.
        items: The conversation: messages or entries.
        config: Further folders that may hold a template.
        weights: For the estimate; `None`: rough.

    Raises:
        StoreError: The notes cannot be read.
    """
    loaded, source, measure = load(folder, config), read_source(items), measure_of(weights)
    ours = loaded.record.generated
    rows = [
        (s.title, measure(s.text()), len(ours.get(s.title, ())))
        for s in parse_notes(loaded.notes.text)
    ]
    return NotesState(
        path=str(folder.notes_path),
        exists=loaded.notes.exists,
        blank=is_blank(loaded.notes.text, loaded.template),
        text=loaded.notes.text,
        tokens=sum(size for _, size, _ in rows),
        sections=tuple(rows),
        session_id=loaded.record.session_id,
        known=loaded.record.known,
        covered=loaded.record.covered,
        absorbed=covered_end(source.stored, loaded.record.covered),
        messages=len(source.stored),
        absorbable=safe_end(source.context),
    )
