"""The tools of the MCP server; each call opens what it needs, since clients write to their sessions all the time."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ullage import _env
from ullage.exceptions import InvalidPolicy, UnknownHandle
from ullage.recall.tool import Recall, number_in, string_in
from ullage.sessions.find import (
    FoundSession,
    claude_project_folder,
    find_session,
    found_sessions,
    opened_path,
)
from ullage.sessions.load import Session, open_session


@dataclass(frozen=True, slots=True)
class ToolReply:
    """A tool's answer."""

    text: str
    is_error: bool = False  # the call failed; the text tells the model what to do
    data: dict[str, Any] | None = None  # the same as data; `None`: text only


def recall(arguments: Mapping[str, Any]) -> ToolReply:
    """Return content that left this session's context: see `ullage.recall.Recall`."""
    from ullage.messages import COPY_OF
    from ullage.recall.store import Archive, FileStore, file_stem, left

    session, opened = _opened(arguments)
    lines = list(opened.transcript.entries()) if opened.transcript else list(opened.history)
    history = [line for line in lines or opened.items if "message" in line and COPY_OF not in line]
    places = {str(line.get("uuid")): at for at, line in enumerate(history)}
    names = [str(item.get(COPY_OF) or item.get("uuid")) for item in opened.items]
    sources: list[int | str] = [places.get(name, name) for name in names]
    store = FileStore(_env.state_folder() / "results" / file_stem(session.id))
    archive = Archive(history, store=store)
    asked = {key: value for key, value in arguments.items() if key != "session"}
    if handle := str(arguments.get("handle") or ""):
        with suppress(UnknownHandle, OSError):
            # The transcript holds only what the hook left of it.
            if (stored := store.get(handle)) is not None:
                block = {"type": "tool_result", "tool_use_id": handle, "content": stored}
                archive = Archive([{"role": "user", "content": [block]}])
    answer = Recall(archive, listing=lambda: left(archive, sources, opened.items)).call(asked)
    return ToolReply(answer.text, is_error=answer.is_error)


def search_sessions(arguments: Mapping[str, Any]) -> ToolReply:
    """Words in all sessions of this machine."""
    from ullage.sessions.search_index import SearchIndex

    with SearchIndex() as index:
        index.update()
        sessions = index.search(
            string_in(arguments, "words"),
            most=number_in({"limit": 8, **arguments}, "limit", 1, 50),
            hits=3,
            tool=string_in(arguments, "tool"),
            cwd=string_in(arguments, "project"),
        )
    rows: list[dict[str, Any]] = [
        {
            "id": session.id,
            "tool": session.tool,
            "title": session.title,
            "project": session.cwd,
            "hits": [asdict(hit) for hit in session.hits],
        }
        for session in sessions
    ]
    lines = []
    for session in sessions:
        where = session.cwd or "no folder"
        lines.append(f"{session.id} ({session.tool}, {where}): {session.title}")
        lines += [f"  {hit.who}: {hit.text}" for hit in session.hits]
    text = "\n".join(lines) or "No session contains these words."
    return ToolReply(text, data={"sessions": rows})


def remember(arguments: Mapping[str, Any]) -> ToolReply:
    """Write a note that outlives the session."""
    from ullage.memory.notes import MemoryFolder

    body, name = string_in(arguments, "text"), string_in(arguments, "name")
    if not body:
        raise InvalidPolicy("text", body, "must not be empty")
    name = name or " ".join(body.split())[:60]
    kind = string_in(arguments, "type") or "project"
    note = MemoryFolder(_memory()).add(name, string_in(arguments, "when"), kind, body)
    return ToolReply(f"Noted as {note.path}.", data={"path": note.path})


def notes(arguments: Mapping[str, Any]) -> ToolReply:
    """Return the notes of earlier sessions, all or those that match a question."""
    from ullage.memory.notes import MemoryFolder, NoteRecall

    folder = _memory()
    memory, question = MemoryFolder(folder), string_in(arguments, "query")
    if not folder.exists():
        return ToolReply("There are no notes.")
    if not question:
        lines = [f"{note.path}: {note.name} – {note.description}" for note in memory.notes()]
        return ToolReply("\n".join(lines) or "There are no notes.")
    most = number_in({"limit": 5, **arguments}, "limit", 1, 20)
    matching = NoteRecall(memory).find(question, most=most).notes
    text = "\n\n".join(f"{note.path}: {note.name}\n{note.body}" for note in matching)
    return ToolReply(text or "No note matches.")


def context_usage(arguments: Mapping[str, Any]) -> ToolReply:
    """How full this session's window is, and with what."""
    from ullage.sessions.inspected import inspect_opened, listed

    session, opened = _opened(arguments)
    row, seen = listed(session), inspect_opened(opened).inspection
    data = {
        "session": session.id,
        "tool": session.tool,
        "model": row.model,
        "tokens": row.tokens,
        "window_tokens": row.window_tokens,
        "percent": round(100 * row.tokens / row.window_tokens, 1) if row.window_tokens else None,
        "autocompact_at_tokens": row.compact_at_tokens,
        "categories": dict(seen.categories),
        "largest_tools": {part.name: part.tokens for part in seen.tools[:8]},
        "largest_files": {part.path: part.tokens for part in seen.files[:8]},
    }
    lines = [
        f"{row.tokens:,} of {row.window_tokens:,} tokens ({data['percent']} %); compaction from {row.compact_at_tokens:,}.",
        *(f"{name}: {count:,}" for name, count in seen.categories.items() if count),
    ]
    return ToolReply("\n".join(lines), data=data)


def _opened(arguments: Mapping[str, Any]) -> tuple[FoundSession, Session]:
    sessions = found_sessions()
    name = string_in(arguments, "session")
    session = find_session(name, sessions) if name else _this_session(sessions)
    return session, open_session(opened_path(session))


def _this_session(sessions: Sequence[FoundSession]) -> FoundSession:
    """The newest session of this project, in which the server is started; nothing says which session it serves."""
    project = _env.text(_env.CLAUDE_PROJECT) or str(Path.cwd())
    slug = claude_project_folder(project)
    opened = 0
    for session in sessions:
        if session.tool == "claude-code":
            if session.path.parent.name == slug:
                return session
            continue
        opened += 1
        # Of other tools the newest few are compared: each has to be opened for its folder.
        if opened <= 12 and _cwd(session) == project:
            return session
    hint = "pass `session`: an id from search_sessions"
    raise InvalidPolicy("session", None, f"none ran in {project}", hint=hint)


def _cwd(session: FoundSession) -> str:
    try:
        return open_session(opened_path(session)).cwd
    except (OSError, ValueError):  # unreadable: not the session of a client that is running
        return ""


def _memory() -> Path:
    folder = os.path.expanduser(_env.text(_env.MEMORY))  # noqa: PTH111 - empty stays empty
    return Path(folder) if folder else _env.state_folder() / "memory"
