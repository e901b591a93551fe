"""A session by its file, its id, the beginning of its id, or as the newest one of this machine."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ullage.exceptions import InvalidPolicy
from ullage.sessions.usual_folders import FoundSession, found_sessions

__all__ = ["find_session", "last_session", "session_path"]

_LEAST_PREFIX = 4
_SHOWN = 5


def find_session(name: str, known: Sequence[FoundSession] | None = None) -> FoundSession:
    """The session with this id, or the only one whose id begins with it.

    Args:
        name: An id, or at least four characters of its beginning; `ses_` and the like count.
        known: Where to look; `None`: all sessions of this machine.

    Raises:
        InvalidPolicy: None or several sessions fit.
    """
    sessions = found_sessions() if known is None else known
    exact = [each for each in sessions if each.id == name]
    if not exact and len(name) < _LEAST_PREFIX:
        hint = "`ullage list` shows the sessions of this machine"
        reason = f"is not a file, and too short for the id of a session: type at least {_LEAST_PREFIX} characters"
        raise InvalidPolicy("FILE", name, reason, hint=hint)
    fits = exact or [each for each in sessions if _begins(each, name)]
    if len({each.id for each in fits}) == 1:
        return fits[0]  # copies of a session in two folders: the newest
    if not fits:
        hint = "`ullage list` shows the sessions of this machine"
        raise InvalidPolicy(
            "FILE", name, "is not a file, and no session has an id that begins with it", hint=hint
        )
    listed = ", ".join(f"{each.id} ({each.tool})" for each in fits[:_SHOWN])
    raise InvalidPolicy(
        "FILE", name, f"fits {len(fits)} sessions", hint=f"type more of the id: {listed}"
    )


def last_session(known: Sequence[FoundSession] | None = None) -> FoundSession:
    """The session that was written to last.

    Args:
        known: Where to look; `None`: all sessions of this machine.

    Raises:
        InvalidPolicy: There is none.
    """
    sessions = found_sessions() if known is None else known
    if not sessions:
        hint = "CLAUDE_CONFIG_DIR, CODEX_HOME and the like name folders elsewhere"
        raise InvalidPolicy("--last", "", "no session was found on this machine", hint=hint)
    return sessions[0]


def session_path(given: str | os.PathLike[str]) -> Path:
    """The file that a user meant: the path itself if something is there, else the file of a session with that id.

    Args:
        given: A path, an id or the beginning of one.

    Raises:
        InvalidPolicy: Several sessions fit.
    """
    path = Path(given)
    if os.path.lexists(path) or len(path.parts) != 1 or path.suffix:
        return path  # where it is missing, whoever opens it says so
    return opened_path(find_session(str(given)))


def opened_path(session: FoundSession) -> Path:
    """A file that `open_session` reads; a session in a database is exported to one first.

    Raises:
        StoreError: The database cannot be read.
    """
    if session.path.suffix != ".db":
        return session.path
    from ullage.sessions.opencode_store import exported

    return exported(session.path, session.id)


def _begins(session: FoundSession, name: str) -> bool:
    bare = session.id.partition("_")[2] or session.id
    return session.id.startswith(name) or bare.startswith(name)
