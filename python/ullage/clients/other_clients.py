"""Hooks of Codex and a plugin of OpenCode: the same programs as Claude Code's hooks, installed for these tools."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from ullage import _env
from ullage.clients.claude_code import (
    HOOKS,
    Check,
    Hook,
    hook_additions,
    hook_program,
    hooks_in,
)
from ullage.clients.settings_file import FileChange, with_additions, without_ours
from ullage.exceptions import InvalidPolicy

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
