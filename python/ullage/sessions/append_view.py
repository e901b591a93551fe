"""Another view of a session, appended to its file: what the model is shown from now on, while every line before stays.

In a Claude Code file it is a boundary, followed by copies on one chain of parents, so that a reader that walks the parents and
one that takes what follows the boundary find the same. In a Codex file it is a line with a replaced history, in a pi file a branch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from ullage.compaction.chain import Copies
from ullage.exceptions import InvalidPolicy, StoreError
from ullage.messages import Item
from ullage.sessions.drafts import copy_of, draft_of
from ullage.sessions.load import CLAUDE_CODE, Session, open_session
from ullage.sessions.native_append import continued, replaced_history, shown
from ullage.sessions.pi_view import branch_with
from ullage.transcript import TranscriptLog, records, resume
from ullage.transcript.formats import OpenedFile
from ullage.transcript.log import line_of
from ullage.transcript.logfile import LogFile
from ullage.transcript.write import envelope_of, session_lines

__all__ = ["REWRITTEN", "append_view", "check_rewritable"]

REWRITTEN = (CLAUDE_CODE, "codex", "pi")
"""Formats whose files can be given another view by appended lines."""


def check_rewritable(session: Session) -> None:
    """Refuses a session whose tool would not read an appended view.

    Raises:
        InvalidPolicy: A format without words for it.
    """
    if session.format not in REWRITTEN:
        limit = f"files of Claude Code, Codex and pi can be changed, this is one of {session.format}: its tool reads no other view from its end"
        hint = "`ullage handoff FILE --to claude-code` writes it as one that can"
        raise InvalidPolicy("FILE", str(session.path), limit, hint=hint)


def append_view(session: Session, items: Sequence[Item], **about: str) -> Session:
    """Appends a view, and opens the file again.

    The lines are tried on a copy first: unless that reads back as these items, nothing is written.

    Args:
        session: From `open_session`; its file must not have changed since.
        items: Entries of the session, in the order of the context.
        **about: Recorded with the boundary, such as `undoes`.

    Raises:
        InvalidPolicy: A format without words for it.
        StoreError: It cannot be written, or reads back differently.
        LogConflict: The file changed since it was opened.
    """
    check_rewritable(session)
    wanted = resume(_bare(items)).messages
    if session.format == "pi":
        return branch_with(session, items, wanted)
    with draft_of(session.path) as draft:
        copy_of(session.path, draft, session.pin)
        size = draft.stat().st_size
        _write(session, draft, items, wanted, about)
        read = open_session(draft).messages
        if shown(session.format, read) != shown(session.format, wanted):
            raise StoreError("reads back differently from what was chosen", path=str(session.path))
        with draft.open("rb") as file:
            file.seek(size)
            added = file.read()
    with closing(LogFile(str(session.path), create=False)) as log:
        log.append(added.removeprefix(b"\n"), session.pin)
        log.sync()
    return open_session(session.path)


def _bare(items: Sequence[Item]) -> list[Item]:
    """The messages without their links, which name entries that are not among them."""
    kept = ("type", "uuid", "message", "isMeta", "isCompactSummary")
    return [{key: item[key] for key in kept if key in item} for item in items]


def _write(
    session: Session,
    draft: Path,
    items: Sequence[Item],
    messages: Sequence[Item],
    about: Mapping[str, str],
) -> None:
    if session.format == CLAUDE_CODE:
        with TranscriptLog.open(draft, create=False, durability="none") as log:
            lines = _copies(log, _whole(session, items), about)
            history = log.transcript()
            lines = envelope_of(history, str(session.path)).over(lines)
            log.write([*lines, *session_lines(history, lines)])
        return
    source = OpenedFile(draft)
    lines = replaced_history(source, messages, **about)
    lines = continued(session.format, source, lines, str(session.path))
    with closing(LogFile(str(draft), create=False)) as file:
        file.append(b"".join(line_of(line, at) for at, line in enumerate(lines)))


def _whole(session: Session, items: Sequence[Item]) -> list[Item]:
    """The items as the file holds them: attachments, and copies of results for the interface that shows the new view."""
    transcript = session.transcript
    if transcript is None:
        return list(items)
    places = {row.uuid: row for row in transcript.rows() if row.uuid}

    def whole(item: Item) -> Item:
        row = places.get(str(item.get("uuid")))
        if row is not None and row.type == "attachment":
            return transcript.load(row.at)
        left = "toolUseResult" in item and item["toolUseResult"] is None
        if row is None or not left:
            return item
        return {**item, "toolUseResult": transcript.load(row.at).get("toolUseResult")}

    return [whole(item) for item in items]


def _copies(
    log: TranscriptLog, items: Sequence[Item], about: Mapping[str, str]
) -> list[dict[str, Any]]:
    metadata = {"trigger": "manual", "preTokens": 0, "replacementHistory": True, **about}
    mark = log.entry(records.compact_boundary(metadata, content="View changed"), parent=log.leaf)
    parent = str(mark["uuid"])
    made, copies = [mark], Copies(parent)
    for item in items:
        entry = log.entry(copies.of(item, parent), parent=parent)
        made.append(entry)
        parent = str(entry["uuid"])
    mark["compactMetadata"]["groupUuids"] = [entry["uuid"] for entry in made[1:]]
    return made
