"""A compacted session under an id of its own, next to the one that it came from, and the line that resumes it."""

from __future__ import annotations

import re
import shlex
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from ullage.exceptions import InvalidPolicy
from ullage.sessions.load import Session, open_session
from ullage.sessions.private_file import write_private
from ullage.sessions.save import CompactedSession
from ullage.transcript.log import line_of

__all__ = ["FreshSession", "new_session", "resume_line"]

_TOOLS = {"claude_code": "claude-code", "codex": "codex", "pi": "pi"}


@dataclass(frozen=True, slots=True)
class FreshSession:
    """A new session.

    Attributes:
        id: Its id.
        path: Its file.
        resume_line: The command that goes on from it, to be run in the project's folder.
        done: The compaction.
    """

    id: str
    path: Path
    resume_line: str
    done: CompactedSession


def resume_line(tool: str, name: str, path: Path) -> str:
    """The command with which a tool goes on from a session.

    Args:
        tool: `claude-code`, `codex`, `pi`, `gemini`, `copilot` or `opencode`.
        name: The session's id.
        path: Its file.
    """
    quoted = shlex.quote(name)
    lines = {
        "claude-code": f"claude --resume {quoted}",
        "codex": f"codex resume {quoted}",
        "pi": f"pi --session {shlex.quote(str(path))}",
        "gemini": f"gemini --resume {quoted}",
        "copilot": f"copilot --resume {quoted}",
        "opencode": f"opencode --session {quoted}",
    }
    return lines[tool]


def new_session(
    session: Session,
    compact: Callable[[Session, Path], CompactedSession],
    *,
    name: str = "",
    now: datetime | None = None,
) -> FreshSession:
    """Copies a session's file under a new id, and compacts the copy.

    Args:
        session: From `open_session`; of Claude Code, Codex or pi.
        compact: Compacts a session into its own file.
        name: The new id; empty: a random one.
        now: For the file's name; `None`: the clock's.

    Returns:
        The new session; where nothing was compacted, its file is removed again.

    Raises:
        InvalidPolicy: Of another format.
        StoreError: It cannot be written.
    """
    if session.format not in _TOOLS:
        hint = "`ullage handoff FILE --to claude-code` writes one for another tool"
        limit = f"needs a session of Claude Code, Codex or pi, this is one of {session.format}"
        raise InvalidPolicy("--new-session", str(session.path), limit, hint=hint)
    name = name or str(uuid.uuid4())
    path = session.path.with_name(_file_name(session, name, now or datetime.now(UTC)))
    write_private(path, _renamed(session, name), new=True)
    try:
        done = compact(open_session(path), path)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    if not done.result.compacted:
        path.unlink(missing_ok=True)
    return FreshSession(name, path, resume_line(_TOOLS[session.format], name, path), done)


def _file_name(session: Session, name: str, now: datetime) -> str:
    if session.format == "codex":
        return f"rollout-{now:%Y-%m-%dT%H-%M-%S}-{name}.jsonl"
    if session.format == "pi":
        return f"{now:%Y-%m-%dT%H-%M-%S}-{now.microsecond // 1_000:03}Z_{name}.jsonl"
    return f"{name}.jsonl"


def _renamed(session: Session, name: str) -> bytes:
    data = session.path.read_bytes()
    if session.format == "claude_code":
        # Inside of a string the quotes would be escaped: this finds keys only, and leaves every other byte.
        old = re.escape(session.id.encode())
        return re.sub(
            rb'("sessionId"\s*:\s*")' + old + b'"', rb"\g<1>" + name.encode() + b'"', data
        )
    kind = "session_meta" if session.format == "codex" else "session"
    lines = data.splitlines(keepends=True)
    for at, line in enumerate(lines):
        found = _loaded(line)
        if found.get("type") == kind:
            lines[at] = line_of(_head(session, found, name), at)
            break
    return b"".join(lines)


def _loaded(line: bytes) -> dict[str, Any]:
    try:
        found = orjson.loads(line)
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def _head(session: Session, line: dict[str, Any], name: str) -> dict[str, Any]:
    if session.format == "pi":
        return {**line, "id": name, "parentSession": str(session.path)}
    payload = {**line["payload"], "id": name, "forked_from_id": line["payload"].get("id")}
    if "session_id" in payload:
        payload["session_id"] = name
    return {**line, "payload": payload}
