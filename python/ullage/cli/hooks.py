"""`ullage hooks`: hooks in Codex, a plugin in OpenCode."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from ullage.cli.claude import carry_out, print_checks
from ullage.cli.output import Output
from ullage.clients.mcp_server import main
from ullage.clients.other_clients import (
    TRUST,
    OtherClient,
    codex_checks,
    other_install,
    other_uninstall,
)

hooks_app = App(
    name="hooks",
    help="Install, remove or check Ullage's hooks in Codex; install or remove its plugin in OpenCode.",
)

Scope = Annotated[
    Literal["user", "project"], Parameter(name="--scope", help="all projects, or this one")
]
Yes = Annotated[bool, Parameter(name=["--yes", "-y"], negative="", help="do not ask")]
DryRun = Annotated[
    bool, Parameter(name=["--dry-run", "-n"], negative="", help="show the change, write nothing")
]


@hooks_app.command(name="install")
def install_command(
    client: Annotated[OtherClient, Parameter(help="for Claude Code see `ullage claude`")],
    *,
    scope: Scope = "user",
    yes: Yes = False,
    dry_run: DryRun = False,
) -> int:
    """Show what would change in the client's folder, ask, and write it. Exit code 1: nothing was written."""
    changes = other_install(client, scope, Path.cwd())
    code = carry_out(changes, yes=yes, dry_run=dry_run, done="installed already")
    if client == "codex" and not code and not all(check.ok for check in codex_checks(Path.cwd())):
        Output().note(f"note: Codex runs no hook before you trust it: {TRUST}")
    return code


@hooks_app.command(name="uninstall")
def uninstall_command(
    client: Annotated[OtherClient, Parameter(help="codex or opencode")],
    *,
    scope: Scope = "user",
    yes: Yes = False,
    dry_run: DryRun = False,
) -> int:
    """Take it out again; what is not Ullage's stays as it is. Exit code 1: nothing was written."""
    changes = other_uninstall(client, scope, Path.cwd())
    return carry_out(changes, yes=yes, dry_run=dry_run, done="not installed here")


@hooks_app.command(name="doctor")
def doctor_command(
    *, json: Annotated[bool, Parameter(negative="", help="print JSON")] = False
) -> int:
    """Say whether Codex has the hooks and runs them. Exit code 1: something is wrong."""
    return print_checks(list(codex_checks(Path.cwd())), as_json=json)


# `ullage mcp`: the MCP server on standard input and output.


def mcp_command() -> int:
    """Serve recall, search over all sessions, notes and context usage over standard input and output.

    For a client's configuration use the program `ullage-mcp`, which starts faster.
    """
    return main()
