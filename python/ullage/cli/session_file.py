"""FILE on the command line: a path, the id of a session of this machine, the beginning of one, or `--last`."""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from ullage.exceptions import UllageError

__all__ = ["LAST", "STDIN", "STDOUT", "NoSession", "SessionArgument", "with_last", "with_streams"]

LAST = "--last"
STDIN, STDOUT = "/dev/stdin", "/dev/stdout"
"""What `-` is read as; the names hold on every system."""

HELP = "a transcript of any known format, the id of a session or its beginning (`ullage list`), --last: the newest session, or -: standard input"


class NoSession(Exception):
    """Takes an error past the parser, which would print a `ValueError` in its own words, without the hint."""

    def __init__(self, error: UllageError) -> None:
        super().__init__(str(error))
        self.error = error


def _converted(type_: Any, given: Sequence[Any]) -> Path:
    from ullage.sessions.find import session_path  # commands without a file do not need it

    if given[0].value == STDIN:
        return _from_stdin()
    try:
        return session_path(given[0].value)
    except UllageError as exc:
        raise NoSession(exc) from exc


def _from_stdin() -> Path:
    """Standard input as a private file: formats are recognised, and sessions indexed, in files."""
    folder = tempfile.mkdtemp(prefix="ullage-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder, "stdin")
    with path.open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    return path


SessionArgument = Annotated[Path, Parameter(help=HELP, converter=_converted)]
"""The type of an argument that names a session."""


def with_last(words: list[str]) -> list[str]:
    """The arguments, with the newest session's file in place of the first `--last`; `resume FILE --last 5` is its `--tail 5`.

    Raises:
        InvalidPolicy: There is no session.
    """
    if LAST not in words:
        return words
    at = words.index(LAST)
    if words[0] == "resume" and words[at + 1 : at + 2] and words[at + 1].isdecimal():
        return with_last([*words[:at], "--tail", *words[at + 1 :]])
    from ullage.sessions.find import last_session, opened_path

    file = str(opened_path(last_session()))
    rest = [*words[:at], *words[at + 1 :]]
    return [*rest[:1], file, *rest[1:]]


def with_streams(words: list[str]) -> list[str]:
    """The arguments with `-` named: the parser would take it for the beginning of an option."""
    before = ["", *words]
    return [
        word if word != "-" else STDOUT if last in ("-o", "--output") else STDIN
        for last, word in zip(before, words, strict=False)
    ]
