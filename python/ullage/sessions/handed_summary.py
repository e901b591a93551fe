"""Summaries that the gateway gave to a client, for the hook that runs next: what stands in one need not be restored."""

from __future__ import annotations

import hashlib
import time
from contextlib import suppress
from pathlib import Path

from ullage.sessions.private_file import private_folder, write_private
from ullage.sessions.usual_folders import state_folder

__all__ = ["hand_over", "handed_summary"]

FRESH_SECONDS = 600
"""A client installs a summary within seconds; an older one is of an earlier compaction."""

KEPT = 20
"""Summaries of so many sessions stay."""


def hand_over(session: str, text: str) -> None:
    """Keeps the newest summary of a session.

    Args:
        session: Its id, as the client calls it.
        text: The summary.

    Raises:
        StoreError: It cannot be written.
    """
    path = _path(session)
    private_folder(path.parent)
    write_private(path, text.encode("utf-8", "surrogatepass"))
    known = sorted(path.parent.glob("*.txt"), key=lambda each: each.stat().st_mtime)
    for old in known[:-KEPT]:
        old.unlink(missing_ok=True)


def handed_summary(session: str, now: float | None = None) -> str:
    """The summary that a session was just given; empty if there was none.

    Args:
        session: Its id.
        now: Seconds since the epoch; `None`: the clock's.
    """
    with suppress(OSError):
        path = _path(session)
        age = (time.time() if now is None else now) - path.stat().st_mtime
        if session and age <= FRESH_SECONDS:
            return path.read_bytes().decode("utf-8", "replace")
    return ""


def _path(session: str) -> Path:
    """A file's name for any id: ids come from outside, and none may lead elsewhere."""
    name = hashlib.sha256(session.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return state_folder() / "handed" / f"{name}.txt"
