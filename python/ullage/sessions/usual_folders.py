"""Where the tools of this machine keep their sessions, and what their files are named."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ullage import _env

__all__ = ["FoundSession", "ToolFolder", "found_sessions", "state_folder", "tool_folders"]

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_GEMINI_ID = re.compile(rb'"sessionId"\s*:\s*"([\w-]{1,100})"')
_HEAD_BYTES = 512


@dataclass(frozen=True, slots=True)
class ToolFolder:
    """A folder in which a tool keeps sessions.

    Attributes:
        tool: `claude-code`, `codex`, `pi`, `gemini`, `copilot` or `opencode`.
        path: The folder; it need not exist.
        pattern: What the path of a session's file below it matches.
    """

    tool: str
    path: Path
    pattern: str


@dataclass(frozen=True, slots=True)
class FoundSession:
    """A session's file, as its name and the folder say.

    Attributes:
        tool: See `ToolFolder`.
        id: By which its tool resumes it.
        path: The file; for a session in OpenCode's database, that database.
        size: Bytes; 0 for a session in a database.
        modified: When it was written to last, in seconds since the epoch.
    """

    tool: str
    id: str
    path: Path
    size: int
    modified: float

    @property
    def when(self) -> str:
        """`modified` as ISO text in UTC."""
        moment = datetime.fromtimestamp(self.modified, UTC)
        return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def tool_folders() -> tuple[ToolFolder, ...]:
    """The usual folders of every tool, or those that its own environment variables name."""
    gemini = _env.folder(_env.GEMINI_HOME) / ".gemini"
    codex, copilot = (
        _env.folder(_env.CODEX_HOME, ".codex"),
        _env.folder(_env.COPILOT_HOME, ".copilot"),
    )
    opencode = _env.folder(_env.DATA_HOME, ".local", "share") / "opencode"
    return (
        ToolFolder("claude-code", claude_folder() / "projects", r"[^/]+/(?!agent-)[^/]+\.jsonl"),
        ToolFolder("codex", codex / "sessions", r"(.*/)?rollout-[^/]*\.jsonl"),
        ToolFolder("codex", codex / "archived_sessions", r"(.*/)?rollout-[^/]*\.jsonl"),
        ToolFolder("pi", pi_folder() / "sessions", r"(.*/)?[^/]+\.jsonl"),
        ToolFolder(
            "gemini", gemini / "tmp", r"[^/]+/(chats/session-[^/]*|checkpoint[^/]*)\.jsonl?"
        ),
        ToolFolder("copilot", copilot / "session-state", r"([^/]+/events|[^/]+)\.jsonl"),
        ToolFolder("opencode", opencode / "storage" / "session", r"[^/]+/ses_[^/]*\.json"),
        ToolFolder("opencode", opencode, r"opencode\.db"),
    )


def claude_folder() -> Path:
    """Claude Code's own folder."""
    return _env.folder(_env.CLAUDE_CONFIG, ".claude")


def codex_folder() -> Path:
    """Codex' own folder."""
    return _env.folder(_env.CODEX_HOME, ".codex")


def pi_folder() -> Path:
    """Pi's own folder."""
    return _env.folder(_env.PI_HOME, ".pi", "agent")


def state_folder() -> Path:
    """Where Ullage keeps what outlives a run; it need not exist."""
    if given := _env.text(_env.HOME):
        return Path(given).expanduser()
    return _env.folder(_env.STATE_HOME, ".local", "state") / "ullage"


def found_sessions(folders: Sequence[ToolFolder] | None = None) -> list[FoundSession]:
    """The sessions in some folders, newest first; folders that are missing or may not be read hold none.

    Only names and times are read, and the first bytes of Gemini's files: this is fast for thousands of files.

    Args:
        folders: Where to look; `None`: `tool_folders()`.
    """
    found = [each for folder in folders or tool_folders() for each in _in_folder(folder)]
    return sorted(found, key=lambda each: (-each.modified, str(each.path), each.id))


def _in_folder(folder: ToolFolder) -> Iterator[FoundSession]:
    fits = re.compile(folder.pattern)
    if folder.pattern == r"opencode\.db":
        from ullage.sessions.opencode_store import database_sessions

        yield from database_sessions(folder.path / "opencode.db")
        return
    for path in _files(folder.path):
        if fits.fullmatch(path.relative_to(folder.path).as_posix()):
            try:
                look = path.stat()
            except OSError:  # removed meanwhile
                continue
            name = _id(folder.tool, path)
            yield FoundSession(folder.tool, name, path, look.st_size, look.st_mtime)


def _files(folder: Path) -> Iterable[Path]:
    for place, _, names in os.walk(folder):
        yield from (Path(place, name) for name in names if not name.startswith("."))


def _id(tool: str, path: Path) -> str:
    """The id that the name of a file holds; a file of an unusual name goes by that name.

    Gemini's names hold the beginning of it; its files begin with the whole.
    """
    if tool == "copilot" and path.name == "events.jsonl":
        return path.parent.name
    if tool in ("codex", "pi") and (ids := _UUID.findall(path.stem)):
        return str(ids[-1])
    if tool == "gemini" and (stated := _GEMINI_ID.search(_head(path))):
        return stated[1].decode()
    return path.stem


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_HEAD_BYTES)
    except OSError:
        return b""
