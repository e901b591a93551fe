"""The notes for a compaction: wait for an update, read, check, cut (KEEP-1, KEEP-5). No model is asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from ullage.compaction.from_session_notes import Remembered
from ullage.effects import Call, Flow, Wait
from ullage.exceptions import StoreError
from ullage.memory.session.ids import covered_end
from ullage.memory.session.limits import cut_notes
from ullage.memory.session.notes_place import NotesPlace
from ullage.memory.session.template import is_blank
from ullage.memory.session.update import Loaded, foreign, load, told_path
from ullage.messages import Item
from ullage.policy import SessionMemoryPolicy

__all__ = ["recall_flow"]

POLL_SECONDS = 0.1


def recall_flow(
    items: Sequence[Item],
    *,
    folder: NotesPlace,
    session_id: str,
    policy: SessionMemoryPolicy,
    measure: Callable[[str], int],
    config: tuple[NotesPlace, ...] = (),
    busy_seconds: Callable[[], float | None] = lambda: None,
) -> Flow[Remembered | str]:
    """The notes, or why a compaction can't use them.

    Args:
        items: The conversation as the model sees it.
        folder: Where the notes lie.
        session_id: Whose they must be; empty: not compared.
        policy: Limits and times.
        measure: Tokens of a text.
        config: Further folders that may hold a template.
        busy_seconds: Seconds for which an update has been running; `None`: none is.
    """
    yield from _waited(policy, busy_seconds)
    try:
        loaded: Loaded = yield Call(load, (folder, config))
    except StoreError:
        return "unreadable"
    reason = _unusable(loaded, session_id)
    if reason:
        return reason
    start = _start(items, loaded)
    if start is None:
        return "unknown_pointer"
    return Remembered(start, partial(_text, loaded.notes.text, told_path(folder), policy, measure))


def _text(
    notes: str,
    where: str,
    policy: SessionMemoryPolicy,
    measure: Callable[[str], int],
    tokens: int | None,
) -> str:
    total = policy.total_max_tokens if tokens is None else min(tokens, policy.total_max_tokens)
    return cut_notes(
        notes,
        section_tokens=policy.section_max_tokens,
        total_tokens=total,
        measure=measure,
        where=where,
    ).text


def _waited(policy: SessionMemoryPolicy, busy_seconds: Callable[[], float | None]) -> Flow[None]:
    """Wait briefly for an update, but not for a stuck one. The file on the disk is complete at any time."""
    waited = 0.0
    while waited < policy.wait_seconds:
        busy: float | None = yield Call(busy_seconds)
        if busy is None or busy > policy.stale_seconds:
            return
        yield Wait(POLL_SECONDS)
        waited += POLL_SECONDS


def _unusable(loaded: Loaded, session_id: str) -> str:
    if not loaded.notes.exists:
        return "no_memory"
    if is_blank(loaded.notes.text, loaded.template):
        return "empty_template"
    return "another_session" if foreign(loaded.record, session_id) else ""


def _start(items: Sequence[Item], loaded: Loaded) -> int | None:
    found = covered_end(items, loaded.record.covered)
    if found is None and not loaded.record.known:
        # Notes without a record, as after a resume elsewhere: how far they reach is unknown, so only the newest
        # part is kept.
        return len(items)
    return found
