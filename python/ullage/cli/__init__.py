"""The command line: parses arguments and prints; the library does everything else.

Exit codes: 0 success, 1 negative result (a check failed, nothing could be freed), 2 bad input or usage, 130 interrupted.
"""

from __future__ import annotations

import gc
import io
import os
import sys
import warnings
from collections.abc import Sequence
from functools import cache

from ullage._version import VERSION
from ullage.exceptions import MissingExtra, UllageError


def _complain(error: UllageError | OSError, *, as_json: bool) -> int:
    hint, message = getattr(error, "hint", ""), str(error)
    if not isinstance(error, UllageError) and error.filename:
        message = f"{error.filename}: {error.strerror}"
    if as_json and not isinstance(error, MissingExtra):
        from ullage.cli.output import envelope

        code = getattr(error, "code", "os_error")
        print(envelope(error={"code": code, "message": message, "hint": hint or None}))
    _tell(f"error: {message}")
    if hint:
        _tell(f"hint: {hint}")
    return 2


def _tell(text: str) -> None:
    """Print a line on standard error, escaped, since file names and lines may contain anything."""
    try:
        from ullage.recall.text import visible
    except (ModuleNotFoundError, UllageError):  # no extra, or no engine: the message says so
        print(text, file=sys.stderr)
    else:
        print(visible(text), file=sys.stderr)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: Arguments without the program's name; `None`: `sys.argv`.

    Returns:
        The exit code. No traceback reaches a user for bad input.
    """
    # Not `list(...)`: once that command has run, `list` is its module here.
    words = sys.argv[1:] if argv is None else [*argv]
    if argv is None:  # the process is ours, and most of what it makes in a second is no garbage
        gc.set_threshold(100_000, 20, 20)
    try:
        if words == ["--version"]:  # the parser takes much longer to load than the answer
            print(VERSION)
            return 0
        try:
            from ullage.cli.app import run
        except ModuleNotFoundError as exc:
            if exc.name not in ("cyclopts", "rich"):
                raise
            raise MissingExtra(exc.name, "cli") from exc
        if argv is None:
            gc.freeze()  # what was imported stays: not even the end of the process looks through it
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                # What the terminal's encoding lacks, and lone surrogates, as escapes.
                stream.reconfigure(errors="backslashreplace")
        with warnings.catch_warnings():
            # Each once, without file name and source line.
            note = cache(lambda text: _tell(f"note: {text}"))
            warnings.showwarning = lambda message, *more, **others: note(str(message))
            # On the command line they are notes for the user.
            warnings.simplefilter("always", UserWarning)
            return run(words)
    except BrokenPipeError:
        # `ullage ... | head` is not an error; without this, Python would report one when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print("interrupted; every change made so far is reported above", file=sys.stderr)
        return 130
    except (UllageError, OSError) as exc:
        return _complain(exc, as_json="--json" in words)
