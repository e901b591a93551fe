"""Commands that a model may have run: a few programs that only read, on paths of the notes' folder only (MEM-4).

What is checked is what runs: the words are rebuilt, each path absolute and after `--`, so that neither the folder in
which the host runs them nor a name that looks like an option changes what they mean.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from ullage.memory.notes.sandbox import Sandbox

__all__ = ["PROGRAMS", "read_only"]

_SHELL: Final = re.compile(r"[;&|<>`$(){}\\\n\r\0!*?~\[\]]")
"""No pipes, redirections, substitutions or expansions."""


@dataclass(frozen=True, slots=True)
class _Program:
    """A program's options: `flags` stand alone, `valued` take the next word; none of them names a file."""

    flags: str = ""
    valued: str = ""
    number: bool = False  # `-20` is a count
    pattern: bool = False  # the first operand is a pattern
    paths: bool = True


_PROGRAMS: Final[Mapping[str, _Program]] = {
    "cat": _Program("Abens"),
    "date": _Program("u", paths=False),
    "grep": _Program("EFHchilnorsvwx", "ABCm", pattern=True),
    "head": _Program("qv", "cn", number=True),
    "ls": _Program("1AFRSahklrst"),
    "stat": _Program("t"),
    "tail": _Program("qv", "cn", number=True),
    "wc": _Program("Lclmw"),
}
PROGRAMS: Final = tuple(_PROGRAMS)
"""Without those that follow links below a folder, read a list of files, or a repository's history."""


def read_only(command: str, folder: Sandbox) -> list[str] | None:
    """The words to run for a command that can only read, and only in the folder; `None`: it is refused.

    Args:
        command: As a user would type it; relative paths are seen from the folder, no path means the folder.
        folder: Where its paths must lie, links not followed.

    Example:
        >>> from pathlib import Path
        >>> notes = Sandbox(Path("/srv/notes"))
        >>> read_only("ls -l", notes)
        ['ls', '-l', '--', '/srv/notes']
        >>> read_only("cat ../secret", notes) is None
        True
    """
    if _SHELL.search(command):
        return None
    try:
        program, *words = shlex.split(command) or [""]
    except ValueError:
        return None
    known = _PROGRAMS.get(program)
    read = None if known is None else _options(known, words)
    if known is None or read is None:
        return None
    options, operands = read
    if not known.paths:
        return None if operands else [program, *options]
    if known.pattern:
        if not operands:
            return None
        options = [*options, "-e", operands.pop(0)]
    paths = [folder.located(each) for each in operands or [""]]
    found = [path for path in paths if path is not None]
    return [program, *options, "--", *found] if len(found) == len(paths) else None


def _options(known: _Program, words: list[str]) -> tuple[list[str], list[str]] | None:
    """Options and operands apart; `None` for an option that is not listed."""
    options: list[str] = []
    operands: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "--":
            operands += rest
        elif not word.startswith("-"):
            operands.append(word)
        elif _is_option(known, word):
            options.append(word)
        elif len(word) == 2 and word[1] in known.valued and _is_number(value := next(rest, "")):
            options += [word, value]
        else:
            return None
    return options, operands


_is_number: Final[Callable[[str], object]] = re.compile(r"[0-9]{1,9}", re.ASCII).fullmatch


def _is_option(known: _Program, word: str) -> bool:
    body = word[1:]
    valued = body[:1] in known.valued and _is_number(body[1:])
    alone = bool(body) and all(letter in known.flags for letter in body)
    return bool(alone or (body[:1] and valued) or (known.number and _is_number(body)))
