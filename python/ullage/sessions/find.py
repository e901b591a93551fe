"""Where the tools of this machine keep their sessions, and what their files are named."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from ullage import _env
from ullage._start import Frozen, hashlib, pattern
from ullage.exceptions import InvalidPolicy
from ullage.sessions.load import write_private

_UUID = pattern(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_GEMINI_ID = pattern(rb'"sessionId"\s*:\s*"([\w-]{1,100})"')
# Gemini's recordings begin with their id; the rest of a file need not be read to list it.
_HEAD_BYTES = 512


class ToolFolder(Frozen):
    """A folder in which a tool keeps sessions."""

    tool: str  # `claude-code`, `codex`, `pi`, `gemini`, `copilot` or `opencode`
    path: Path  # the folder; it need not exist
    pattern: str  # what the path of a session's file below it matches


class FoundSession(Frozen):
    """A session's file, as its name and the folder say."""

    tool: str  # see `ToolFolder`
    id: str  # by which its tool resumes it
    path: Path  # the file; for a session in OpenCode's database, that database
    size: int  # bytes; 0 for a session in a database
    modified: float  # when it was written to last, in seconds since the epoch

    @property
    def when(self) -> str:
        """`modified` as ISO text in UTC."""
        moment = datetime.fromtimestamp(self.modified, UTC)
        return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def tool_folders() -> tuple[ToolFolder, ...]:
    """The usual folders of every tool, or those that its own environment variables name."""
    gemini = _env.folder(_env.GEMINI_HOME) / ".gemini" / "tmp"
    codex, copilot = _env.codex_folder(), _env.folder(_env.COPILOT_HOME, ".copilot")
    opencode = _env.folder(_env.DATA_HOME, ".local", "share") / "opencode"
    return (
        ToolFolder(
            "claude-code", _env.claude_folder() / "projects", r"[^/]+/(?!agent-)[^/]+\.jsonl"
        ),
        ToolFolder("codex", codex / "sessions", r"(.*/)?rollout-[^/]*\.jsonl"),
        ToolFolder("codex", codex / "archived_sessions", r"(.*/)?rollout-[^/]*\.jsonl"),
        ToolFolder("pi", _env.pi_folder() / "sessions", r"(.*/)?[^/]+\.jsonl"),
        ToolFolder("gemini", gemini, r"[^/]+/(chats/session-[^/]*|checkpoint[^/]*)\.jsonl?"),
        ToolFolder("copilot", copilot / "session-state", r"([^/]+/events|[^/]+)\.jsonl"),
        ToolFolder("opencode", opencode / "storage" / "session", r"[^/]+/ses_[^/]*\.json"),
        ToolFolder("opencode", opencode, r"opencode\.db"),
    )


def found_sessions(folders: Sequence[ToolFolder] | None = None) -> list[FoundSession]:
    """The sessions in some folders, newest first; folders that are missing or may not be read hold none.

    Only names and times are read, and the first bytes of Gemini's files: this is fast for thousands of files.

    Args:
        folders: Where to look; `None`: `tool_folders()`.
    """
    sessions = [session for folder in folders or tool_folders() for session in _in_folder(folder)]
    return sorted(sessions, key=lambda session: (-session.modified, str(session.path), session.id))


def _in_folder(folder: ToolFolder) -> Iterator[FoundSession]:
    fits = re.compile(folder.pattern)
    if folder.pattern == r"opencode\.db":
        from ullage.sessions.handoff import database_sessions

        yield from database_sessions(folder.path / "opencode.db")
        return
    for place, _, names in os.walk(folder.path):
        for path in (Path(place, name) for name in names if not name.startswith(".")):
            if not fits.fullmatch(path.relative_to(folder.path).as_posix()):
                continue
            with suppress(OSError):  # removed meanwhile
                look = path.stat()
                name = _id(folder.tool, path)
                yield FoundSession(folder.tool, name, path, look.st_size, look.st_mtime)


def _id(tool: str, path: Path) -> str:
    """The id that the name of a file holds; a file of an unusual name goes by that name.

    Gemini's names hold the beginning of it; its files begin with the whole.
    """
    if tool == "copilot" and path.name == "events.jsonl":
        return path.parent.name
    if tool in ("codex", "pi") and (ids := _UUID.findall(path.stem)):
        return str(ids[-1])
    if tool == "gemini":
        with suppress(OSError), path.open("rb") as file:
            if stated := _GEMINI_ID.search(file.read(_HEAD_BYTES)):
                return stated[1].decode()
    return path.stem


# With fewer characters of a hexadecimal id, two of a few hundred sessions begin alike.
_LEAST_PREFIX = 4
# A longer list of candidates is no help; the id needs more characters then.
_SHOWN = 5


def find_session(name: str, sessions: Sequence[FoundSession] | None = None) -> FoundSession:
    """The session with this id, or the only one whose id begins with it.

    Args:
        name: An id, or at least four characters of its beginning; `ses_` and the like count.
        sessions: Where to look; `None`: all sessions of this machine.

    Raises:
        InvalidPolicy: None or several sessions fit.
    """
    sessions = found_sessions() if sessions is None else sessions
    exact = [session for session in sessions if session.id == name]
    if not exact and len(name) < _LEAST_PREFIX:
        hint = "`ullage list` shows the sessions of this machine"
        reason = f"is not a file, and too short for the id of a session: type at least {_LEAST_PREFIX} characters"
        raise InvalidPolicy("FILE", name, reason, hint=hint)
    fits = exact or [
        session
        for session in sessions
        if session.id.startswith(name) or session.id.partition("_")[2].startswith(name)
    ]
    if len({session.id for session in fits}) == 1:
        return fits[0]  # copies of a session in two folders: the newest
    if not fits:
        hint = "`ullage list` shows the sessions of this machine"
        reason = "is not a file, and no session has an id that begins with it"
        raise InvalidPolicy("FILE", name, reason, hint=hint)
    listed = ", ".join(f"{session.id} ({session.tool})" for session in fits[:_SHOWN])
    hint = f"type more of the id: {listed}"
    raise InvalidPolicy("FILE", name, f"fits {len(fits)} sessions", hint=hint)


def last_session(sessions: Sequence[FoundSession] | None = None) -> FoundSession:
    """The session that was written to last.

    Args:
        sessions: Where to look; `None`: all sessions of this machine.

    Raises:
        InvalidPolicy: There is none.
    """
    sessions = found_sessions() if sessions is None else sessions
    if not sessions:
        hint = "name a FILE; CLAUDE_CONFIG_DIR, CODEX_HOME and the like name folders elsewhere; `ullage demo` needs none"
        raise InvalidPolicy("--last", None, "no session was found on this machine", hint=hint)
    return sessions[0]


def claude_project_folder(cwd: str) -> str:
    """The name of the folder in which Claude Code keeps the sessions of a project."""
    return "".join(char if char.isascii() and char.isalnum() else "-" for char in cwd)


def session_path(name: str | os.PathLike[str]) -> Path:
    """The file that a user meant: the path itself if something is there, else the file of a session whose id begins so.

    `InvalidPolicy`: several sessions fit.
    """
    path = Path(name)
    if os.path.lexists(path) or len(path.parts) != 1 or path.suffix:
        return path  # where it is missing, whoever opens it says so
    return opened_path(find_session(str(name)))


def opened_path(session: FoundSession) -> Path:
    """A file that `open_session` reads; a session in a database is exported to one first (`StoreError`)."""
    if session.path.suffix != ".db":
        return session.path
    from ullage.sessions.handoff import exported

    return exported(session.path, session.id)


def home_relative(path: str) -> str:
    """A path with `~` for the user's home, for display."""
    home = str(Path.home())
    return "~" + path[len(home) :] if path == home or path.startswith(home + "/") else path


# Summaries that the gateway gave to a client, for the hook that runs next: what stands in one need not be restored.

FRESH_SECONDS = 600  # a client installs a summary within seconds: an older one is stale
MOST_SUMMARIES = 20  # summaries of so many sessions stay


def hand_over(session: str, text: str) -> None:
    """Keeps the newest summary of a session, by the id that the client calls it; `StoreError`: it cannot be written."""
    path = _handed_file(session)
    write_private(path, text.encode("utf-8", "surrogatepass"))
    summaries = sorted(path.parent.glob("*.txt"), key=lambda file: file.stat().st_mtime)
    for old in summaries[:-MOST_SUMMARIES]:
        old.unlink(missing_ok=True)


def handed_summary(session: str) -> str:
    """The summary that a session was just given; empty if there was none."""
    if session and _handed_folder().is_dir():
        with suppress(OSError):
            path = _handed_file(session)
            if time.time() - path.stat().st_mtime <= FRESH_SECONDS:
                return path.read_bytes().decode("utf-8", "replace")
    return ""


def _handed_folder() -> Path:
    return _env.state_folder() / "handed"


def _handed_file(session: str) -> Path:
    """A file's name for any id: ids come from outside, and none may lead elsewhere."""
    name = hashlib.sha256(session.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return _handed_folder() / f"{name}.txt"
