"""OpenCode's database: which sessions it holds, and one of them as the JSON that `opencode export` writes."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson

from ullage.exceptions import StoreError
from ullage.sessions.private_file import private_folder, write_private
from ullage.sessions.usual_folders import FoundSession, state_folder

__all__ = ["database_sessions", "exported"]


def database_sessions(database: Path) -> Iterator[FoundSession]:
    """The sessions of a database, those of sub-agents left out; none if it is missing or of another form."""
    if not database.is_file():
        return
    sizes = "SELECT session_id, SUM(LENGTH(data)) AS size FROM part GROUP BY session_id"
    query = (
        "SELECT s.id, s.time_updated, COALESCE(p.size, 0) FROM session s "  # noqa: S608 - no value in it
        f"LEFT JOIN ({sizes}) p ON p.session_id = s.id WHERE s.parent_id IS NULL"
    )
    try:
        with closing(_opened(database)) as store:
            rows = store.execute(query).fetchall()
    except sqlite3.Error:
        return
    for name, updated, size in rows:
        yield FoundSession("opencode", str(name), database, int(size), float(updated or 0) / 1_000)


def exported(database: Path, session: str) -> Path:
    """A file with one session, in Ullage's own folder, made again each time.

    Raises:
        StoreError: The database cannot be read, or the file not be written.
    """
    try:
        with closing(_opened(database)) as store:
            document = _document(store, session)
    except (sqlite3.Error, ValueError) as exc:
        raise StoreError(f"cannot be read: {exc}", path=str(database)) from exc
    folder = private_folder(state_folder() / "opencode")
    path = folder / f"{quote(session, safe='')[:120]}.json"
    write_private(path, orjson.dumps(document))
    return path


def _opened(database: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True, timeout=2)


def _document(store: sqlite3.Connection, session: str) -> dict[str, Any]:
    query = "SELECT title, directory, project_id, version, time_created, time_updated FROM session WHERE id = ?"
    row = store.execute(query, (session,)).fetchone()
    if row is None:
        raise ValueError(f"there is no session {session}")
    title, directory, project, version, created, updated = row
    info = {"id": session, "projectID": project, "directory": directory, "title": title}
    info |= {"version": version, "time": {"created": created, "updated": updated}}
    parts: dict[str, list[Any]] = {}
    named = "SELECT id, message_id, data FROM part WHERE session_id = ? ORDER BY id"
    for name, message, data in store.execute(named, (session,)):
        own = {"id": name, "sessionID": session, "messageID": message}
        parts.setdefault(message, []).append({**own, **orjson.loads(data)})
    messages = [
        {
            "info": {"id": name, "sessionID": session, **orjson.loads(data)},
            "parts": parts.get(name, []),
        }
        for name, data in store.execute(
            "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id",
            (session,),
        )
    ]
    return {"info": info, "messages": messages}
