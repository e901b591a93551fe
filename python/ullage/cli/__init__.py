"""The command line: arguments and printing only; everything it does is a function of the library.

Exit codes: 0 done, 1 the answer is no (a check failed, nothing could be freed), 2 bad input or usage, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from ullage.exceptions import MissingExtra, UllageError

__all__ = ["main"]

EXIT_NO = 1
EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130


def _complain(error: UllageError | OSError) -> int:
    print(f"error: {error}", file=sys.stderr)
    hint = getattr(error, "hint", "")
    if hint:
        print(f"hint: {hint}", file=sys.stderr)
    return EXIT_BAD_INPUT


def _closed_pipe() -> int:
    # `ullage ... | head` is no error; without this Python would complain once more when it flushes.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _tell(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
    """A warning as a person reads it: no file name, no line of code."""
    print(f"note: {message}", file=sys.stderr)


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
        with warnings.catch_warnings():
            warnings.showwarning = _tell
            return run(sys.argv[1:] if argv is None else list(argv))
    except BrokenPipeError:
        return _closed_pipe()
    except KeyboardInterrupt:
        print("interrupted; nothing was changed that is not reported above", file=sys.stderr)
        return EXIT_INTERRUPTED
    except (UllageError, OSError) as exc:
        return _complain(exc)
