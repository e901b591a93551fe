"""Another view of a pi session: from the first entry that changes on, its branch is copied with the changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ullage.exceptions import StoreError
from ullage.facts.reading import blocks_of
from ullage.messages import Block, Item, as_blocks, is_summary
from ullage.sessions.load import Session
from ullage.sessions.pi_branch import (
    EDIT,
    Line,
    PiEntry,
    appended,
    copied_below,
    path_to_tip,
    record,
)
from ullage.transcript.formats import OpenedFile

__all__ = ["branch_with"]


def branch_with(session: Session, items: Sequence[Item], wanted: Sequence[Item]) -> Session:
    """Appends a branch that shows these items, and opens the file again.

    Args:
        session: From `open_session`; its file must not have changed since.
        items: Items of the session, in their order; tool results in them may have other content.
        wanted: The messages that are to be read back.

    Raises:
        InvalidPolicy: The file is of a version without ids.
        StoreError: It cannot be written, or reads back differently.
        LogConflict: The file changed since it was opened.
    """
    path = path_to_tip(session)
    chosen = _chosen(session, path, items)
    first = next((at for at, entry in enumerate(chosen) if entry is not path[at]), len(path))
    parent = path[first - 1]["id"] if first else None
    made = _copied(session, path, chosen, first, parent)
    end = made[-1]["id"] if made else parent

    def check(tried: Session) -> None:
        if _comparable(tried.messages) != _comparable(wanted):
            raise StoreError("reads back differently from what was chosen", path=str(session.path))

    lines = [*made, record(EDIT, end, tip=path[-1]["id"])]
    return appended(session, lines, write=True, check=check)


def _comparable(messages: Sequence[Item]) -> list[Any]:
    return [
        (message["role"], [_flat(block) for block in blocks_of(message)]) for message in messages
    ]


def _flat(block: Any) -> Any:
    if block.get("type") != "tool_result":
        return block
    return {**block, "content": as_blocks(block.get("content") or "")}


# ---- which entries stay --------------------------------------------------------------------------


def _chosen(
    session: Session, path: Sequence[PiEntry], items: Sequence[Item]
) -> list[PiEntry | None]:
    """For each entry of the path itself, a changed one in its place, or `None` where it goes."""
    kept = {item["uuid"]: item for item in items}
    shown = _shown_items(session, path)
    # Without its summary, all that it stood for would be shown again.
    gone = [
        at
        for at, item in enumerate(shown)
        if item and is_summary(item) and item["uuid"] not in kept
    ]
    hidden = max(gone, default=-1)
    found: list[PiEntry | None] = []
    for at, (entry, item) in enumerate(zip(path, shown, strict=True)):
        if item is not None:
            found.append(_with_content(entry, item, kept.get(item["uuid"])))
        elif at < hidden and entry.get("type") in ("message", "compaction"):
            found.append(None)
        else:
            found.append(entry)
    return found


def _shown_items(session: Session, path: Sequence[PiEntry]) -> list[Item | None]:
    """For each entry the item in which the model is shown it; results in a row are one item."""
    numbers = {line.get("id"): number for number, line in OpenedFile(session.path).lines()}
    by_line = {int(str(item["uuid"]).rpartition("-")[2]): item for item in session.items}
    answers = {block.get("tool_use_id"): i for i in session.items for block in _results(i)}
    found: list[Item | None] = []
    for entry in path:
        item, call = by_line.get(numbers[entry["id"]]), _answered(entry)
        if item is None and call:
            before = found[-1] if found else None
            item = before if before and _result_in(before, call) else answers.get(call)
        found.append(item)
    return found


def _with_content(entry: PiEntry, old: Item, new: Item | None) -> PiEntry | None:
    if new is None or new is old:
        return None if new is None else entry
    call = _answered(entry)
    before, after = _result_in(old, call), _result_in(new, call)
    if before is None or after is None or before.get("content") == after.get("content"):
        return entry
    content = as_blocks(after.get("content") or "")
    return {**entry, "message": {**entry["message"], "content": content}}


def _answered(entry: PiEntry) -> str:
    """Id of the call that a line with a result answers; empty for any other line."""
    message = entry.get("message")
    return str(message.get("toolCallId") or "") if isinstance(message, dict) else ""


def _results(item: Item) -> list[Block]:
    return [dict(block) for block in blocks_of(item) if block.get("type") == "tool_result"]


def _result_in(item: Item, call: str) -> Block | None:
    """The result of a call; the reader adds a number to an id that was used before."""
    for block in _results(item):
        name, _, number = str(block.get("tool_use_id")).rpartition("-")
        if block.get("tool_use_id") == call or (name == call and number.isdigit()):
            return block
    return None


# ---- copies ----------------------------------------------------------------------------------------


def _copied(
    session: Session,
    path: Sequence[PiEntry],
    chosen: Sequence[PiEntry | None],
    first: int,
    parent: Any,
) -> list[Line]:
    """What stays from `first` on; a compaction among it keeps from the same entry on, or from the next that is left."""
    places = [at for at in range(first, len(path)) if chosen[at] is not None]
    made = copied_below(parent, [entry for entry in chosen[first:] if entry is not None])
    names = {at: line["id"] for at, line in zip(places, made, strict=True)}
    starts = _kept_from(session, path)
    for at, line in zip(places, made, strict=True):
        if at in starts:
            start = next(i for i in range(starts[at], at + 1) if chosen[i] is not None)
            line.pop("firstKeptEntryIndex", None)
            line["firstKeptEntryId"] = names.get(start) or path[start]["id"]
    return made


def _kept_from(session: Session, path: Sequence[PiEntry]) -> dict[int, int]:
    """For the place of each compaction the place from which on it keeps entries; its own: it keeps none."""
    order = {line.get("id"): at for at, (_, line) in enumerate(OpenedFile(session.path).lines())}
    ids = {entry["id"]: at for at, entry in enumerate(path)}
    found: dict[int, int] = {}
    for at, entry in enumerate(path):
        if entry.get("type") == "compaction":
            index = entry.get("firstKeptEntryIndex")
            start = ids.get(entry.get("firstKeptEntryId"), at)
            if isinstance(index, int):
                start = next((i for i in range(at) if order[path[i]["id"]] >= index), at)
            found[at] = start
    return found
