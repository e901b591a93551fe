"""Ullage's hooks in Claude Code, in Codex and (as a plugin) in OpenCode: what an installation changes there, and whether it works."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

from ullage import _env
from ullage._start import Frozen
from ullage.clients.settings_file import Addition, FileChange, is_ours, with_additions, without_ours
from ullage.exceptions import InvalidPolicy
from ullage.sessions.load import write_private

Scope = Literal["user", "project", "local"]

Hook = tuple[str, str | None, str, int]
"""Event, matcher, the hook's name, seconds that the client waits."""

HOOKS: tuple[Hook, ...] = (
    ("PreCompact", None, "pre-compact", 60),
    ("SessionStart", "compact|resume", "session-start", 30),
    ("PostToolUse", "Bash|mcp__.*", "post-tool-use", 30),
)

IDLE_HOOK: Hook = ("SessionEnd", None, "session-end", 5)
"""Only on request, since it adds to a session's file when nobody is looking."""

# A user waits for a hook at each tool call; from half a second on that is noticed.
_SLOW_MS = 500


class Check(Frozen):
    """One line of a diagnosis."""

    what: str
    ok: bool  # whether it is as it should be
    found: str
    hint: str = ""  # what to do; empty if it is fine


PLUGIN = (
    ("plugin.json", ".claude-plugin/plugin.json"),
    ("hooks.json", "hooks/hooks.json"),
    ("mcp.json", ".mcp.json"),
    ("README.md", "README.md"),
    ("icon.png", ".claude-plugin/icon.png"),
)
"""Files of the plugin, and where Claude Code looks for them; stored without the dot, since wheel builders skip names that begin with one."""


def write_plugin(folder: Path) -> Path:
    """Write the plugin, for `claude --plugin-dir` and for marketplaces; its programs must be on the PATH.

    `folder`: created if missing; other files in it stay.

    Raises:
        StoreError: It cannot be written.
    """
    for name, place in PLUGIN:
        target = folder / place
        source = Path(__file__).with_name("claude_code_plugin") / name
        write_private(target, source.read_bytes(), mode=0o644)
    return folder


def settings_path(scope: Scope, project: Path) -> Path:
    """The settings file of a scope.

    `scope`: `user`: for all projects. `project`: for everybody who works on this one. `local`: for this user in it.
    """
    if scope == "user":
        return _env.claude_folder() / "settings.json"
    name = "settings.json" if scope == "project" else "settings.local.json"
    return project / ".claude" / name


def mcp_path(scope: Scope, project: Path) -> Path:
    """Where Claude Code looks for MCP servers of a scope."""
    if scope == "project":
        return project / ".mcp.json"
    # A folder named by the variable holds the file itself, even if it is called `.claude`.
    own = _env.claude_folder()
    return (own if _env.text(_env.CLAUDE_CONFIG) else own.parent) / ".claude.json"


def install_changes(
    scope: Scope, project: Path, *, mcp: bool = False, statusline: bool = True, idle: bool = False
) -> list[FileChange]:
    """The changes that an installation makes.

    `mcp`: whether the MCP server is added too; a server's tools change the cached prefix of new sessions once. `statusline`: whether to
    set the status line; an existing one stays. `idle`: whether to compact abandoned sessions once the provider's cache has expired. Raises
    what `with_additions` does.
    """
    hooks = (*HOOKS, IDLE_HOOK) if idle else HOOKS
    additions = hook_additions(hooks, lambda name: _as_command(hook_program(name)))
    if statusline:
        words = shlex.join(hook_program("statusline"))
        line = {"type": "command", "command": words, "padding": 0}
        additions.append(Addition(("statusLine",), line, into_list=False))
    changes = [with_additions(settings_path(scope, project), additions)]
    if mcp:
        server = {"type": "stdio", **_as_command(hook_program(module="ullage.clients.mcp_server"))}
        added = Addition(("mcpServers", "ullage"), server, into_list=False)
        changes.append(with_additions(mcp_path(scope, project), [added]))
    return changes


def uninstall_changes(scope: Scope, project: Path) -> list[FileChange]:
    """The changes that an uninstallation makes; raises what `without_ours` does."""
    return [without_ours(settings_path(scope, project)), without_ours(mcp_path(scope, project))]


def hook_additions(
    hooks: Iterable[Hook], command: Callable[[str], dict[str, Any]]
) -> list[Addition]:
    """What hooks add to a client's settings; `command`: how that client names the program of a hook."""
    additions = []
    for event, matcher, name, seconds in hooks:
        hook = {"type": "command", **command(name), "timeout": seconds}
        entry = {"hooks": [hook]} if matcher is None else {"matcher": matcher, "hooks": [hook]}
        additions.append(Addition(("hooks", event), entry))
    return additions


def hook_program(*words: str, module: str = "ullage.clients.hook") -> list[str]:
    """The command line of a hook, or of another module's program."""
    # -P: it runs in the project's folder, where Python must not look for modules.
    return [sys.executable, "-P", "-m", module, *words]


def _as_command(program: list[str]) -> dict[str, Any]:
    return {"command": program[0], "args": program[1:]}


def checks(project: Path) -> Iterator[Check]:
    """What is installed, whether it runs, and what the hooks logged."""
    scopes: tuple[Scope, ...] = ("user", "project", "local")
    hooks = {scope: list(hooks_in(settings_path(scope, project))) for scope in scopes}
    installed_in = [scope for scope in scopes if hooks[scope]]
    hint = "" if installed_in else "`ullage claude install` adds the hooks to the settings"
    yield Check("hooks", bool(installed_in), ", ".join(installed_in) or "not installed", hint)
    if len(installed_in) > 1:
        hint = f"`ullage claude uninstall --scope {installed_in[-1]}`: each hook runs once for each"
        yield Check("scopes", False, "installed more than once", hint)
    programs = {str(hook.get("command")) for own in hooks.values() for *_, hook in own}
    missing = [program for program in programs if not Path(program).exists()]
    hint = "`ullage claude install` writes the path of this Python" if missing else ""
    yield Check("program", not missing, ", ".join(missing) or sys.executable, hint)
    yield _run_check()
    log = _env.state_folder() / "hooks.log"
    lines = log.read_bytes().decode("utf-8", "replace").splitlines() if log.exists() else []
    newest = lines[-1] if lines else "empty"
    yield Check("log", not lines, newest, f"{len(lines):,} lines in {log}" if lines else "")


def hooks_in(path: Path) -> Iterator[tuple[str, int, int, dict[str, Any]]]:
    """Ullage's hooks in a client's settings: event, number of the group, number of the hook in it, and the hook."""
    try:
        settings = json.loads(path.read_bytes().decode("utf-8-sig"))
    except (OSError, ValueError):
        return
    events = settings.get("hooks") if isinstance(settings, dict) else None
    for event, groups in events.items() if isinstance(events, dict) else ():
        for group, entry in enumerate(groups if isinstance(groups, list) else ()):
            hooks = entry.get("hooks") if isinstance(entry, dict) else None
            for at, hook in enumerate(hooks if isinstance(hooks, list) else ()):
                if is_ours(hook):
                    yield event, group, at, hook


def _run_check() -> Check:
    """Run a hook that has nothing to do."""
    words = hook_program("session-start")
    start = time.perf_counter()
    try:
        done = subprocess.run(words, input=b"{}", capture_output=True, timeout=30, check=False)  # noqa: S603
    except (OSError, subprocess.SubprocessError) as exc:
        return Check("a hook runs", False, str(exc), "is the package installed in this Python?")
    spent = round((time.perf_counter() - start) * 1_000)
    ok = done.returncode == 0 and spent < _SLOW_MS
    return Check("a hook runs", ok, f"exit code {done.returncode}, {spent} ms")


# Codex and OpenCode: the same programs as Claude Code's hooks.


OtherClient = Literal["codex", "opencode"]

CODEX_HOOKS: tuple[Hook, ...] = (*HOOKS[:2], ("PostToolUse", None, "post-tool-use", 30))

TRUST = "start `codex`, choose “Trust all and continue”, or trust them in /hooks"

MARK = "// ullage.clients.hook"
"""The first line of the shim, by which it is recognised."""


def other_install(
    client: OtherClient, scope: Literal["user", "project"], project: Path
) -> list[FileChange]:
    """The changes that an installation makes.

    `client`: `codex`: its `hooks.json`. `opencode`: a file in its folder of plugins. `scope`: `user`: for all projects. `project`: for
    this one. Raises what `with_additions` does, and `InvalidPolicy` for a plugin that is not Ullage's.
    """
    path = _path(client, scope, project)
    if client == "codex":
        # One line for a shell: unlike Claude Code, Codex is not known to take separate arguments.
        added = hook_additions(
            CODEX_HOOKS, lambda name: {"command": shlex.join(hook_program(name))}
        )
        return [with_additions(path, added)]
    before = path.read_bytes() if path.exists() else None
    if before is not None and not before.startswith(MARK.encode()):
        hint = "move it away first"
        raise InvalidPolicy("plugin", str(path), "was not written by Ullage", hint=hint)
    return [FileChange(path, before, opencode_plugin().encode())]


def other_uninstall(
    client: OtherClient, scope: Literal["user", "project"], project: Path
) -> list[FileChange]:
    """The changes that an uninstallation makes; raises what `without_ours` does."""
    path = _path(client, scope, project)
    if client == "codex":
        return [without_ours(path)]
    before = path.read_bytes() if path.exists() else None
    ours = before is not None and before.startswith(MARK.encode())
    return [FileChange(path, before, None if ours else before)]


def other_checks(project: Path) -> list[Check]:
    """Of each client in which something is installed; if nothing is, that is what is wrong."""
    codex, opencode = list(codex_checks(project)), list(_opencode_checks(project))
    return opencode if opencode and not codex[0].ok else [*codex, *opencode]


def _opencode_checks(project: Path) -> Iterator[Check]:
    """Whether each plugin is the one that would be installed now: it names the Python that it starts."""
    for scope in ("user", "project"):
        path = _path("opencode", scope, project)
        if path.exists():
            same = path.read_bytes() == opencode_plugin().encode()
            verdict = str(path) if same else f"{path}: of another version, or for another Python"
            yield Check("plugin", same, verdict, "" if same else "`ullage hooks install opencode`")


def codex_checks(project: Path) -> Iterator[Check]:
    """Whether Codex has the hooks, and whether it trusts them; otherwise it ignores them."""
    places = [_path("codex", scope, project).resolve() for scope in ("user", "project")]
    # Codex's names for hooks: path, event, number of the group, number of the hook in it.
    hooks = list[str]()
    for place in places:
        for event, group, at, _ in hooks_in(place):
            name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", event).lower()
            hooks.append(f"{place}:{name}:{group}:{at}")
    hint = "" if hooks else "`ullage hooks install codex`"
    yield Check("hooks", bool(hooks), f"{len(hooks)} in hooks.json" if hooks else "none", hint)
    if not hooks:
        return
    trusted = _trusted_keys()
    missing = [key.split(":")[-3] for key in hooks if key not in trusted]
    verdict = f"not: {', '.join(missing)}" if missing else "all"
    yield Check("trusted", not missing, verdict, TRUST if missing else "")


def _trusted_keys() -> set[str]:
    """Hooks whose hash Codex keeps: it trusts those versions."""
    try:
        hooks = tomllib.loads((_env.codex_folder() / "config.toml").read_text("utf-8")).get("hooks")
    except (OSError, ValueError):
        return set()
    state = hooks.get("state") if isinstance(hooks, dict) else None
    rows = state if isinstance(state, dict) else {}
    return {key for key, row in rows.items() if isinstance(row, dict) and "trusted_hash" in row}


def _path(client: OtherClient, scope: str, project: Path) -> Path:
    if client == "codex":
        return (_env.codex_folder() if scope == "user" else project / ".codex") / "hooks.json"
    own = _env.folder(_env.CONFIG_HOME, ".config") / "opencode" / "plugins"
    return (own if scope == "user" else project / ".opencode" / "plugins") / "ullage.js"


def opencode_plugin() -> str:
    """The plugin's JavaScript: it starts the hooks, and continues without them if they fail or take too long."""
    program = json.dumps(hook_program())
    source = Path(__file__).with_name("opencode_plugin.js")
    return source.read_text("utf-8").replace("[PROGRAM]", program)
