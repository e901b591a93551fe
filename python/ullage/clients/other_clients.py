"""Hooks of Codex and a plugin of OpenCode: the same programs as Claude Code's hooks, in the places of these tools."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any, Literal

from ullage import _env
from ullage.clients.settings_file import Addition, FileChange, with_additions, without_ours
from ullage.exceptions import InvalidPolicy
from ullage.sessions.usual_folders import codex_folder

__all__ = ["OtherClient", "other_install", "other_uninstall"]

OtherClient = Literal["codex", "opencode"]

CODEX_HOOKS = (
    ("PreCompact", None, "pre-compact", 60),
    ("SessionStart", "compact|resume", "session-start", 30),
    ("PostToolUse", None, "post-tool-use", 30),
)

MARK = "// ullage.clients.hook"
"""How the shim begins: by this line it is known as Ullage's."""


def other_install(
    client: OtherClient, scope: Literal["user", "project"], project: Path
) -> list[FileChange]:
    """What an installation would change.

    Args:
        client: `codex`: its `hooks.json`. `opencode`: a file in its folder of plugins.
        scope: `user`: for all projects. `project`: for this one.
        project: The project's folder.

    Raises:
        InvalidPolicy: A file that is there is not JSON, or not Ullage's.
        StoreError: It cannot be read.
    """
    path = _path(client, scope, project)
    if client == "codex":
        additions = [Addition(("hooks", event), _entry(matcher, name, seconds))
                     for event, matcher, name, seconds in CODEX_HOOKS]  # fmt: skip
        return [with_additions(path, additions)]
    before = path.read_bytes() if path.exists() else None
    if before is not None and not before.startswith(MARK.encode()):
        raise InvalidPolicy(
            "plugin", str(path), "is a file of somebody else's", hint="move it away first"
        )
    return [FileChange(path, before, opencode_plugin().encode())]


def other_uninstall(
    client: OtherClient, scope: Literal["user", "project"], project: Path
) -> list[FileChange]:
    """What taking it out again would change.

    Raises:
        InvalidPolicy: The file is not JSON.
        StoreError: It cannot be read.
    """
    path = _path(client, scope, project)
    if client == "codex":
        return [without_ours(path)]
    before = path.read_bytes() if path.exists() else None
    ours = before is not None and before.startswith(MARK.encode())
    return [FileChange(path, before, None if ours else before)]


def _path(client: OtherClient, scope: str, project: Path) -> Path:
    if client == "codex":
        return (codex_folder() if scope == "user" else project / ".codex") / "hooks.json"
    own = _env.folder(_env.CONFIG_HOME, ".config") / "opencode" / "plugins"
    return (own if scope == "user" else project / ".opencode" / "plugins") / "ullage.js"


def _entry(matcher: str | None, name: str, seconds: int) -> dict[str, Any]:
    # One line for a shell: unlike Claude Code, Codex is not known to take arguments apart from it.
    line = shlex.join([sys.executable, "-P", "-m", "ullage.clients.hook", name])
    hook = {"type": "command", "command": line, "timeout": seconds}
    return {"hooks": [hook]} if matcher is None else {"matcher": matcher, "hooks": [hook]}


def opencode_plugin() -> str:
    """The plugin's JavaScript: it starts the hooks and goes on without them if they fail or take too long."""
    program = json.dumps([sys.executable, "-P", "-m", "ullage.clients.hook"])
    return (
        Path(__file__)
        .with_name("opencode_plugin.js")
        .read_text("utf-8")
        .replace("[PROGRAM]", program)
    )
