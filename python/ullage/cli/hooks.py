"""Ullage in other programs: `ullage claude` and `ullage hooks` install, remove and check it; `ullage mcp` serves them."""

from __future__ import annotations

import dataclasses
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from ullage import _env
from ullage.cli.compact import DIFF_STYLES
from ullage.cli.output import Json, Output
from ullage.clients.installation import (
    TRUST,
    Check,
    OtherClient,
    Scope,
    checks,
    codex_checks,
    install_changes,
    other_checks,
    other_install,
    other_uninstall,
    uninstall_changes,
    write_plugin,
)
from ullage.clients.mcp_server import main
from ullage.clients.settings_file import FileChange
from ullage.counting.models import ModelTable
from ullage.exceptions import InvalidPolicy

claude_app = App(name="claude")

ClaudeScope = Annotated[
    Scope,
    Parameter(
        name="--scope",
        help="user: all projects; project: this one, for everyone; local: this one, for you",
    ),
]
Yes = Annotated[bool, Parameter(name=["--yes", "-y"], help="do not ask")]
DryRun = Annotated[bool, Parameter(name=["--dry-run", "-n"], help="show the change, write nothing")]


@claude_app.command(name="install")
def claude_install(
    *,
    scope: ClaudeScope = "user",
    mcp: bool = False,
    statusline: Annotated[bool, Parameter(negative="--no-statusline")] = True,
    idle: bool = False,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> int:
    """Show the change to Claude Code's settings, ask, and write it. Exit code 1: nothing was written.

    Args:
        mcp: add the MCP server too (`ullage mcp`)
        statusline: set the status line, unless there is one
        idle: compact a session that you left, in its file, once the provider's cache has expired
    """
    changes = install_changes(scope, Path.cwd(), mcp=mcp, statusline=statusline, idle=idle)
    return carry_out(changes, yes=yes, dry_run=dry_run, done="installed already")


@claude_app.command(name="uninstall")
def claude_uninstall(
    *, scope: ClaudeScope = "user", yes: Yes = False, dry_run: DryRun = False
) -> int:
    """Remove it again; restores the settings to the byte. Exit code 1: nothing was written."""
    changes = uninstall_changes(scope, Path.cwd())
    return carry_out(changes, yes=yes, dry_run=dry_run, done="not installed here")


@claude_app.command(name="plugin")
def claude_plugin(
    folder: Path | None = None,
) -> int:
    """Write a plugin folder instead, and print how to start Claude Code with it.

    Args:
        folder: where to write; default: claude-plugin in Ullage's own folder
    """
    out = Output()
    written = write_plugin((folder or _env.state_folder() / "claude-plugin").absolute())
    out.line(f"claude --plugin-dir {shlex.quote(str(written))}")
    return 0


@claude_app.command(name="doctor")
def claude_doctor(*, json: Json = False) -> int:
    """Say what is installed, whether it runs, and what the hooks logged. Exit code 1: something is wrong."""
    age = Check("model table", True, f"compared on {ModelTable.builtin().version}")
    return print_checks([*checks(Path.cwd()), age], as_json=json)


def print_checks(results: Sequence[Check], *, as_json: bool) -> int:
    """Print a diagnosis; exit code 1 if something is wrong."""
    out = Output(as_json=as_json)
    if as_json:
        out.json({"checks": [dataclasses.asdict(check) for check in results]})
    else:
        rows = (
            ("ok" if check.ok else "no", check.what, check.found, check.hint) for check in results
        )
        out.table(("", "what", "found", "to do"), rows)
    return 0 if all(check.ok for check in results) else 1


def carry_out(changes: Sequence[FileChange], *, yes: bool, dry_run: bool, done: str) -> int:
    """Show changes, ask, and write them; exit code 1 if nothing was written. `done` is printed if there is nothing to change."""
    out = Output()
    due = [change for change in changes if change.changed]
    for change in due:
        for line in change.diff().splitlines():
            out.text(line, style=DIFF_STYLES.get(line[:1], ""))
    for note in (note for change in changes for note in change.notes):
        out.note(f"note: {note}")
    if not due:
        for change in () if dry_run else changes:
            change.forget_former()
        out.line(done)
        return 0
    if dry_run:
        out.line("nothing written (dry run)")
        return 1
    if not yes:
        if not sys.stdin.isatty():
            limit = "is needed without a terminal to ask on"
            raise InvalidPolicy("--yes", False, limit, hint="the diff above is what it would write")
        print("Write this? [y/N] ", end="", flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            out.line("nothing written")
            return 1
    for change in changes:
        if not change.changed:
            change.forget_former()
            continue
        change.write()
        out.line(f"written {change.path}" if change.after is not None else f"removed {change.path}")
    return 0


hooks_app = App(name="hooks")

HooksScope = Annotated[
    Literal["user", "project"], Parameter(name="--scope", help="all projects, or this one")
]


@hooks_app.command(name="install")
def hooks_install(
    client: OtherClient,
    *,
    scope: HooksScope = "user",
    yes: Yes = False,
    dry_run: DryRun = False,
) -> int:
    """Show the change to the client's folder, ask, and write it. Exit code 1: nothing was written.

    Args:
        client: for Claude Code see `ullage claude`
    """
    changes = other_install(client, scope, Path.cwd())
    code = carry_out(changes, yes=yes, dry_run=dry_run, done="installed already")
    if client == "codex" and not code and not all(check.ok for check in codex_checks(Path.cwd())):
        Output().note(f"note: Codex runs no hook before you trust it: {TRUST}")
    return code


@hooks_app.command(name="uninstall")
def hooks_uninstall(
    client: OtherClient,
    *,
    scope: HooksScope = "user",
    yes: Yes = False,
    dry_run: DryRun = False,
) -> int:
    """Remove it again, and nothing else. Exit code 1: nothing was written.

    Args:
        client: codex or opencode
    """
    changes = other_uninstall(client, scope, Path.cwd())
    return carry_out(changes, yes=yes, dry_run=dry_run, done="not installed here")


@hooks_app.command(name="doctor")
def hooks_doctor(*, json: Json = False) -> int:
    """Say whether Codex has the hooks and runs them, and whether OpenCode's plugin is the current one. Exit code 1: something is wrong."""
    return print_checks(other_checks(Path.cwd()), as_json=json)


# `ullage mcp`: the MCP server on standard input and output.


def mcp_command() -> int:
    """Serve recall, search over all sessions, notes and context usage over standard input and output.

    For a client's configuration use the program `ullage-mcp`, which starts faster.
    """
    return main()
