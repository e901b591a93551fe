"""What Ullage puts into Claude Code's settings, and whether it is there and works."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ullage import _env
from ullage.clients.settings_file import Addition, FileChange, is_ours, with_additions, without_ours
from ullage.sessions.private_file import private_folder, write_private
from ullage.sessions.usual_folders import claude_folder, state_folder

__all__ = [
    "Check",
    "Scope",
    "checks",
    "install_changes",
    "settings_path",
    "uninstall_changes",
    "write_plugin",
]

Scope = Literal["user", "project", "local"]

HOOKS = (
    ("PreCompact", None, "pre-compact", 60),
    ("SessionStart", "compact|resume", "session-start", 30),
    ("PostToolUse", "Bash|mcp__.*", "post-tool-use", 30),
)
"""Event, matcher, the hook's name, seconds that Claude Code waits."""

_SLOW_MS = 500


@dataclass(frozen=True, slots=True)
class Check:
    """One line of a diagnosis.

    Attributes:
        what: What was looked at.
        ok: Whether it is as it should be.
        found: What was found.
        hint: What to do; empty if it is fine.
    """

    what: str
    ok: bool
    found: str
    hint: str = ""


PLUGIN = (
    ("plugin.json", ".claude-plugin/plugin.json"),
    ("hooks.json", "hooks/hooks.json"),
    ("mcp.json", ".mcp.json"),
    ("README.md", "README.md"),
    ("icon.png", ".claude-plugin/icon.png"),
)
"""Files of the plugin, and where Claude Code looks for them: builders of wheels leave out names that begin with a dot."""


def write_plugin(folder: Path) -> Path:
    """Writes the plugin, for `claude --plugin-dir` and for marketplaces; its programs are found on the PATH.

    Args:
        folder: Made if it is missing; what is in it stays, but for the plugin's own files.

    Raises:
        StoreError: It cannot be written.
    """
    for name, place in PLUGIN:
        target = folder / place
        private_folder(target.parent)
        source = Path(__file__).with_name("claude_code_plugin") / name
        write_private(target, source.read_bytes(), mode=0o644)
    return folder


def settings_path(scope: Scope, project: Path) -> Path:
    """The settings file of a scope.

    Args:
        scope: `user`: for all projects. `project`: for everybody who works on this one. `local`: for this user in it.
        project: The project's folder.
    """
    if scope == "user":
        return claude_folder() / "settings.json"
    name = "settings.json" if scope == "project" else "settings.local.json"
    return project / ".claude" / name


def mcp_path(scope: Scope, project: Path) -> Path:
    """Where Claude Code looks for MCP servers of a scope."""
    if scope == "project":
        return project / ".mcp.json"
    # A folder that the variable names holds the file itself, also one named `.claude`.
    own = claude_folder()
    return (own if _env.text(_env.CLAUDE_CONFIG) else own.parent) / ".claude.json"


def install_changes(
    scope: Scope, project: Path, *, mcp: bool = False, statusline: bool = True
) -> list[FileChange]:
    """What an installation would change.

    Args:
        scope: Which settings.
        project: The project's folder.
        mcp: Whether the MCP server is added too; a server's tools change the cached prefix of new sessions once.
        statusline: Whether the status line is set; one of somebody else's stays.

    Raises:
        InvalidPolicy: A settings file is not JSON.
        StoreError: It cannot be read.
    """
    additions = [
        Addition(("hooks", event), _entry(matcher, name, seconds))
        for event, matcher, name, seconds in HOOKS
    ]
    if statusline:
        line = {"type": "command", "command": _shell_command("statusline"), "padding": 0}
        additions.append(Addition(("statusLine",), line, into_list=False))
    changes = [with_additions(settings_path(scope, project), additions)]
    if mcp:
        server = {"type": "stdio", **_program("ullage.clients.mcp_server")}
        added = Addition(("mcpServers", "ullage"), server, into_list=False)
        changes.append(with_additions(mcp_path(scope, project), [added]))
    return changes


def uninstall_changes(scope: Scope, project: Path) -> list[FileChange]:
    """What taking it out again would change.

    Raises:
        InvalidPolicy: A settings file is not JSON.
        StoreError: It cannot be read.
    """
    return [without_ours(settings_path(scope, project)), without_ours(mcp_path(scope, project))]


def _entry(matcher: str | None, name: str, seconds: int) -> dict[str, Any]:
    hook = {"type": "command", **_program("ullage.clients.hook", name), "timeout": seconds}
    return {"hooks": [hook]} if matcher is None else {"matcher": matcher, "hooks": [hook]}


def _program(module: str, *words: str) -> dict[str, Any]:
    # -P: the project's folder is where it runs, and must not be where Python looks for modules.
    return {"command": sys.executable, "args": ["-P", "-m", module, *words]}


def _shell_command(name: str) -> str:
    import shlex

    return shlex.join([sys.executable, "-P", "-m", "ullage.clients.hook", name])


# ---- diagnosis --------------------------------------------------------------------------------


def checks(project: Path) -> Iterator[Check]:
    """What is installed, whether it runs, and what the hooks logged.

    Args:
        project: The project's folder.
    """
    scopes: tuple[Scope, ...] = ("user", "project", "local")
    found = [scope for scope in scopes if _installed(settings_path(scope, project))]
    hint = "" if found else "`ullage claude install` puts the hooks into the settings"
    yield Check("hooks", bool(found), ", ".join(found) or "not installed", hint)
    if len(found) > 1:
        hint = f"`ullage claude uninstall --scope {found[-1]}`: each hook runs once for each"
        yield Check("scopes", False, "installed more than once", hint)
    yield _program_check([settings_path(scope, project) for scope in found])
    yield _run_check()
    log = state_folder() / "hooks.log"
    lines = log.read_bytes().decode("utf-8", "replace").splitlines() if log.exists() else []
    newest = lines[-1] if lines else "empty"
    yield Check("log", not lines, newest, f"{len(lines):,} lines in {log}" if lines else "")


def _installed(path: Path) -> bool:
    return bool(list(_commands(path)))


def _commands(path: Path) -> Iterator[dict[str, Any]]:
    try:
        settings = json.loads(path.read_bytes().decode("utf-8-sig"))
    except (OSError, ValueError):
        return
    hooks = settings.get("hooks") if isinstance(settings, dict) else None
    for entries in hooks.values() if isinstance(hooks, dict) else ():
        for entry in entries if isinstance(entries, list) else ():
            if is_ours(entry):
                yield from entry["hooks"]


def _program_check(paths: list[Path]) -> Check:
    missing = {
        str(hook.get("command"))
        for path in paths
        for hook in _commands(path)
        if not Path(str(hook.get("command"))).exists()
    }
    hint = "`ullage claude install` writes the path of this Python" if missing else ""
    return Check("program", not missing, ", ".join(missing) or sys.executable, hint)


def _run_check() -> Check:
    """Runs a hook that has nothing to do."""
    words = [sys.executable, "-P", "-m", "ullage.clients.hook", "session-start"]
    start = time.perf_counter()
    try:
        done = subprocess.run(words, input=b"{}", capture_output=True, timeout=30, check=False)  # noqa: S603
    except (OSError, subprocess.SubprocessError) as exc:
        return Check("a hook runs", False, str(exc), "is the package installed in this Python?")
    spent = round((time.perf_counter() - start) * 1_000)
    ok = done.returncode == 0 and spent < _SLOW_MS
    return Check("a hook runs", ok, f"exit code {done.returncode}, {spent} ms")
