"""The command line: arguments and printing only; everything it does is a function of the library.

Exit codes: 0 done, 1 the answer is no (a check failed, nothing could be freed), 2 bad input or usage, 130 interrupted.
"""

from __future__ import annotations

import io
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from ullage.exceptions import MissingExtra, UllageError

__all__ = ["main"]

EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130


def _complain(error: UllageError | OSError) -> int:
    _tell(f"error: {error}")
    hint = getattr(error, "hint", "")
    if hint:
        _tell(f"hint: {hint}")
    return EXIT_BAD_INPUT


def _tell(text: str) -> None:
    """A line on standard error; a file's name or a line of it may hold anything."""
    try:
        from ullage.cli.printable import printable
    except ModuleNotFoundError:  # an extra is missing, which is what is told
        print(text, file=sys.stderr)
    else:
        print(printable(text), file=sys.stderr)


def _closed_pipe() -> int:
    # `ullage ... | head` is no error; without this Python would complain once more when it flushes.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


class _Notes:
    """Warnings as a person reads them: each once, without file name and line of code."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def __call__(self, message: Warning | str, *more: Any, **others: Any) -> None:
        if str(message) not in self._told:
            self._told.add(str(message))
            _tell(f"note: {message}")


def _printable() -> None:
    """What the terminal's encoding lacks, and lone surrogates, are printed as escapes, not as a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: Arguments without the program's name; `None`: those of the process.

    Returns:
        The exit code. No traceback reaches a user for bad input.
    """
    try:
        try:
            from ullage.cli.app import run
        except ModuleNotFoundError as exc:
            if exc.name not in ("cyclopts", "rich"):
                raise
            raise MissingExtra(exc.name, "cli") from exc
        _printable()
        with warnings.catch_warnings():
            warnings.showwarning = _Notes()
            warnings.simplefilter("always", UserWarning)  # they are notes for a person here
            return run(sys.argv[1:] if argv is None else list(argv))
    except BrokenPipeError:
        return _closed_pipe()
    except KeyboardInterrupt:
        print("interrupted; nothing was changed that is not reported above", file=sys.stderr)
        return EXIT_INTERRUPTED
    except (UllageError, OSError) as exc:
        return _complain(exc)
