"""The commands, by name. Each is loaded only when it is run."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Literal

from cyclopts import (
    App,
    CycloptsError,
    MissingArgumentError,
    Parameter,
    UnknownCommandError,
    UnusedCliTokensError,
)

import ullage
from ullage._start import late, table
from ullage.cli.output import COMMAND, NoSession, Output, envelope, with_last, with_streams

HELP = """Shrink an LLM agent's conversation so that it fits the context window.

Reads transcripts of Claude Code, Codex, pi, Cline, SWE-agent and OpenAI chat. Nothing is sent anywhere unless you name a
summarizer that asks a model: compaction works without one and without a key.

Start with `ullage demo`, then `ullage inspect FILE`.
"""

_COMMANDS = table(__file__, "commands.toml")
EXAMPLES = {
    # Two spaces at the end of a line: Markdown keeps the line break.
    name: "Examples:\n\n" + "  \n".join(f"`{line}`" for line in command["examples"])
    for name, command in _COMMANDS.items()
    if "examples" in command
}
"""Below the options of a command's `--help`, as Markdown."""


def _default(value: object) -> str | None:
    """The default in a help text; nothing if it is off or empty."""
    return None if value in (False, "", None) else str(value)


def completion_command(
    shell: Literal["bash", "zsh", "fish"],
) -> int:
    """Print a script that completes commands and options. No file of yours is changed.

    Args:
        shell: which shell's script
    """
    print(app.generate_completion(shell=shell))
    return 0


app = App(
    name="ullage",
    help=HELP,
    version=ullage.__version__,
    help_format="markdown",
    default_parameter=Parameter(show_default=_default, negative_bool=()),  # no `--no-json`
)
for _name, _command in _COMMANDS.items():
    _place = _command.get("place", f"{_name}:{_name}_command")
    _more = {"help_epilogue": EXAMPLES[_name]} if _name in EXAMPLES else {}
    app.command(f"ullage.cli.{_place}", name=_name, help=_command["help"], **_more)


def command_apps(parent: App = app, before: str = "") -> Iterator[tuple[str, App]]:
    """Every command with its name; subcommands such as `memory list` follow their command."""
    for name in sorted(word for word in parent if not word.startswith("-")):
        full = f"{before} {name}".strip()
        yield full, parent[name]
        yield from command_apps(parent[name], full)


def run(argv: list[str]) -> int:
    """Run one command and return its exit code."""
    COMMAND.set(_command_of(argv))
    if (name := argv[0] if argv else "") in _COMMANDS and {"--help", "-h"} & {*argv}:
        command = app[name]
        # The line of the list stands in for the docstring of a command that is not loaded.
        command.help = None if command.default_command else command.help
    try:
        code = app(
            with_last(with_streams(argv)),
            # Its own would be kept, with the width of the first run; most commands print no help.
            console=late(lambda: import_module("rich.console").Console()),
            result_action="return_value",
            exit_on_error=False,
            print_error=False,
            help_on_error=False,
        )
    except CycloptsError as exc:
        return _usage_error(exc, as_json="--json" in argv)
    except NoSession as exc:
        raise exc.args[0] from exc
    return code if isinstance(code, int) else 0


def _usage_error(error: CycloptsError, *, as_json: bool) -> int:
    message = _plain_words(error)
    of = COMMAND.get()
    if isinstance(error, UnknownCommandError):
        group, space, _ = of.partition(" ")
        of = group if space else ""
    hint = " ".join(filter(None, ("ullage", of, "--help")))
    if as_json:
        print(envelope(error={"code": "usage", "message": message, "hint": hint}))
    errors = Output().errors
    errors.print(f"error: {message}", markup=False)
    errors.print(f"hint: {hint}", markup=False)
    return 2


def _plain_words(error: CycloptsError) -> str:
    """What is wrong with the command line, in the user's terms instead of the parser's."""
    if isinstance(error, UnusedCliTokensError):
        words = ", ".join(repr(word) for word in error.unused_tokens or ())
        return f"the command takes no further argument: {words}"
    if isinstance(error, MissingArgumentError) and error.argument and not error.keyword:
        name = error.argument.name.lstrip("-").upper()
        return f"{name} is missing"
    return " ".join(str(error).split())


def _command_of(words: list[str]) -> str:
    """The command, with its subcommand; empty: there is none."""
    first, second = [*(word if word[:1] != "-" else "" for word in words[:2]), "", ""][:2]
    is_group = first in ("claude", "hooks", "memory", "session-memory")
    return f"{first} {second}" if is_group and second else first
