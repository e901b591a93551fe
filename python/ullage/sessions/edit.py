"""Turns and tool results of a session by name and size, and a view without some of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ullage._engine import core
from ullage.counting.calibration import weights_for
from ullage.exceptions import InvalidPolicy
from ullage.facts.words import blocks_of, is_user_input, text_of
from ullage.messages import BOUNDARY, CLEARED, COPY_OF, Item, is_summary
from ullage.recall.text import call_title, content_text
from ullage.sessions.inspected import context_tokens
from ullage.sessions.load import Session, blocks_in, cuts_in
from ullage.sessions.save import (
    append_view,
    check_rewritable,
    newest_change,
    nothing_to_undo,
    without_change,
)
from ullage.summarizers.budgeted_text import one_line
from ullage.transcript import Conversation, resume
from ullage.transcript.records import as_strings, metadata_of
from ullage.transcript.render import project

# One line of a terminal.
_TITLE_CHARS = 100


@dataclass(frozen=True, slots=True)
class SessionPart:
    """Something that can be removed from the view."""

    # `t3`: the third turn, everything from a user's input to the next. `r7`: the seventh tool result.
    name: str
    kind: Literal["turn", "result"]  # `turn`, or `result`
    title: str  # how the input begins, or the call and its target
    tokens: int  # estimated
    messages: int  # of a turn; 1 for a result
    first: int  # position in the context of its first entry
    last: int  # position of its last one
    call: str = ""  # id of the call that a result answers; empty for a turn
    cleared: bool = False  # a result of which the view shows a marker already


def session_parts(session: Session) -> list[SessionPart]:
    """The turns and results in a session's context, in its order; a turn stands before its results.

    Args:
        session: From `open_session`.
    """
    items = session.items
    ledger = core.Ledger(weights_for(session.model or None), items)
    # A list may begin in the middle of a turn, as after a compaction that kept part of one.
    starts = [
        at for at, item in enumerate(items) if not at or is_user_input(item) or is_summary(item)
    ]
    titles = {
        str(block.get("id")): call_title(block.get("name"), block.get("input"))
        for block in blocks_in(items, "tool_use")
    }
    parts: list[SessionPart] = []
    results = 0
    # A turn ends where the next begins: what stands between belongs to it.
    ends = [*starts[1:], len(items)]
    for number, (start, stop) in enumerate(zip(starts, ends, strict=True), start=1):
        title = one_line(text_of(items[start]), _TITLE_CHARS)
        size = int(ledger.tokens(start, stop))
        parts.append(SessionPart(f"t{number}", "turn", title, size, stop - start, start, stop - 1))
        for at in range(start, stop):
            for index, block in enumerate(blocks_of(items[at])):
                if block.get("type") != "tool_result":
                    continue
                results += 1
                call = str(block.get("tool_use_id"))
                title = one_line(titles.get(call, call), _TITLE_CHARS)
                sizes = ledger.blocks(at)
                size = int(sizes[index].tokens) if index < len(sizes) else 0
                cleared = content_text(block.get("content")) == CLEARED
                name = f"r{results}"
                parts.append(SessionPart(name, "result", title, size, 1, at, at, call, cleared))
    return parts


def remove_parts(session: Session, names: Iterable[str], *, write: bool = True) -> Session:
    """Removes parts from what the model is shown; every line stays in the file, and `undo_compaction` takes it back.

    A removed result leaves a marker, since its call needs an answer; a removed turn leaves nothing.

    Args:
        session: From `open_session`.
        names: Names of parts; a result also by the id of its call.
        write: Whether the file is changed; else the result is what it would become.

    Raises:
        InvalidPolicy: An unknown name; nothing would be left, or nothing would change; or the format has no words for it.
        StoreError: It cannot be written.
        LogConflict: The file changed since it was opened.
    """
    check_rewritable(session)
    parts = session_parts(session)
    by_name = {part.name: part for part in parts} | {part.call: part for part in parts if part.call}
    chosen = []
    for name in names:
        if name not in by_name:
            hint = "`ullage edit FILE` lists the names"
            limit = "names no turn or result of the context"
            raise InvalidPolicy("--remove", name, limit, hint=hint)
        chosen.append(by_name[name])
    calls = {part.call for part in chosen if part.kind == "result"}
    out = {at for part in chosen if part.kind == "turn" for at in range(part.first, part.last + 1)}
    texts = dict.fromkeys(calls, CLEARED)
    items = [project(item, texts) for at, item in enumerate(session.items) if at not in out]
    if not items:
        raise InvalidPolicy("--remove", sorted(names), "leaves nothing of the session")
    bare = [{key: value for key, value in item.items() if key != "parentUuid"} for item in items]
    view = replace(session, items=items, messages=resume(bare).messages)
    left = view.request().left
    if left:
        limit = f"would be refused by the provider: {left[0].detail}"
        raise InvalidPolicy("--remove", sorted(names), limit)
    return append_view(session, items) if write else view


@dataclass(frozen=True, slots=True)
class Undone:
    """What an undo did."""

    session: Session  # the file as it is now; as it would be, if nothing was written
    undone: str  # uuid of the boundary that was taken back
    when: str  # its timestamp; empty if the file has none
    messages_before: int  # in the context before the undo
    messages_after: int  # in the context now
    tokens_before: int  # size of the context before, as `context_tokens` counts
    tokens_after: int  # size now; 0 if nothing was written
    left: int  # how many compactions can still be taken back


def undo_compaction(session: Session, *, write: bool = True) -> Undone:
    """Takes back the newest compaction that was not taken back yet.

    Only lines are appended: called again, it takes back the compaction before that one.

    Args:
        session: From `open_session`.
        write: Whether the file is changed; else the result says what would be.

    Raises:
        InvalidPolicy: There is no compaction to take back, or the format has no words for it.
        StoreError: It cannot be written.
        LogConflict: The file changed since it was opened.
    """
    check_rewritable(session)
    view: Session | Conversation
    if session.format == "pi":
        record, since, left = newest_change(session)
        name = str(record.get("id"))
        view = without_change(session, record, since, write=write)
        now = view if write else session
    else:
        lines = session.entries()
        places = _standing(lines)
        if not places:
            raise nothing_to_undo(session)
        record, left = lines[places[-1]], len(places) - 1
        name = str(record.get("uuid"))
        view = resume(_without(lines, places[-1]))
        now = append_view(session, view.entries, undoes=name) if write else session
    return Undone(
        session=now,
        undone=name,
        when=str(record.get("timestamp") or ""),
        messages_before=len(session.messages),
        messages_after=len(view.messages),
        tokens_before=context_tokens(session),
        tokens_after=context_tokens(now) if write else 0,
        left=left,
    )


def _standing(lines: Sequence[Item]) -> list[int]:
    """Places of compactions that were neither taken back nor take one back."""
    undoes = {at: metadata_of(lines[at]).get("undoes") for at in cuts_in(lines)}
    undone = set(undoes.values())
    return [at for at in undoes if not undoes[at] and lines[at].get("uuid") not in undone]


def _without(lines: Sequence[Item], at: int) -> list[Item]:
    """The lines as if this compaction and what was written with it, and all views after it, had never been written."""
    marks = [lines[cut] for cut in cuts_in(lines) if cut >= at]
    written = {name for mark in marks for name in as_strings(metadata_of(mark).get("groupUuids"))}
    places = {_place(mark) for mark in marks} - {""}
    lines_left = list(lines[:at])
    for line in lines[at:]:
        added = is_summary(line) or COPY_OF in line or line.get("uuid") in written
        if line.get("subtype") != BOUNDARY and not added and _place(line) not in places:
            lines_left.append(line)
    return lines_left


def _place(line: Item) -> str:
    """The line of the file, where a reader gave the id: a replaced history stands on the line of its boundary."""
    uuid = str(line.get("uuid") or "")
    return "" if "parentUuid" in line else uuid.rpartition("-")[2]
