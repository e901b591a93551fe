"""`ullage man`: the manual page, made of the commands' own help."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated

from cyclopts import App, Parameter

import ullage
from ullage.cli.examples import EXAMPLES

__all__ = ["command_apps", "man_command", "man_page"]

ENDS = (
    ("0", "success"),
    ("1", "a negative result: a check failed, or there was nothing to gain"),
    ("2", "bad input or usage"),
    ("130", "interrupted"),
)


def man_command(*, section: Annotated[int, Parameter(help="section of the manual")] = 1) -> int:
    """Print the manual page: `ullage man > ~/.local/share/man/man1/ullage.1`."""
    print(man_page(section), end="")
    return 0


def command_apps() -> Iterator[tuple[str, App]]:
    """Every command with its name; `memory list` and the like after the command that they belong to."""
    from ullage.cli.app import app

    yield from _below(app, "")


def _below(app: App, before: str) -> Iterator[tuple[str, App]]:
    for name in sorted(each for each in app if not each.startswith("-")):
        full = f"{before} {name}".strip()
        inner = app[name]
        yield full, inner
        yield from _below(inner, full)


def man_page(section: int = 1) -> str:
    """The manual page as roff.

    Args:
        section: Of the manual.
    """
    from ullage.cli.app import HELP

    lines = [f'.TH ULLAGE {section} "" "ullage {ullage.__version__}"', ".SH NAME"]
    lines += ["ullage \\- keep room in an LLM agent's context window", ".SH SYNOPSIS"]
    lines += [".B ullage", "COMMAND [OPTIONS]", ".SH DESCRIPTION", _plain(HELP), ".SH COMMANDS"]
    for name, inner in command_apps():
        lines += _command(name, inner)
    lines.append(".SH EXIT STATUS")
    for code, meaning in ENDS:
        lines += [".TP", f".B {code}", meaning]
    return "\n".join(lines) + "\n"


def _command(name: str, app: App) -> Iterator[str]:
    yield f".SS ullage {_plain(name)}"
    yield _plain(str(app.help).strip().split("\n\n")[0])
    if app.default_command is None:
        return
    for argument in app.assemble_argument_collection():
        if argument.parameter.show is not False:
            yield ".TP"
            yield f".B {_plain(', '.join(argument.names))}"
            yield _plain(str(argument.parameter.help or ""))
    for example in re.findall("`(.*?)`", EXAMPLES.get(name, "")):
        yield from (".PP", ".nf", _plain(example), ".fi")


def _plain(text: str) -> str:
    """Text without Markdown, with what roff would read as its own escaped."""
    escaped = text.replace("`", "").replace("\\", "\\e").replace("-", "\\-")
    return "\n".join(
        f"\\&{line}" if line.startswith((".", "'")) else line for line in escaped.splitlines()
    ).replace("\n\n", "\n.PP\n")
