"""How a tool call ended: refused, failed or successful, with the line that shows it.

What counts as a failure, a verdict or a host's framing is in `_reference/outcome.py`, and in Rust in `outcome.rs`.
"""

from __future__ import annotations

from typing import NamedTuple

from ullage._engine import core
from ullage.facts.words import feedback_of

__all__ = ["CallOutcome", "is_framing", "read_outcome"]


class CallOutcome(NamedTuple):
    """`ok` is `None` where the call was refused or stopped, and so never ran."""

    ok: bool | None
    exit_code: int | None
    line: str  # the error's first informative line, or the last line of a success; may be empty
    feedback: str  # what the user said when refusing


_REFUSED = ("The user doesn't want to", "[Request interrupted by user")
HEAD_CHARS = 600


def is_framing(line: str) -> bool:
    """Whether a host wrote a line around a result: exit code, time, size; or nobody wrote a word."""
    return core.is_framing(line)


def read_outcome(text: str, *, is_error: bool) -> CallOutcome:
    """The outcome of a call, from its result's text and error flag."""
    if text[:HEAD_CHARS].lstrip().startswith(_REFUSED):
        # Hosts mark a refusal as an error; any tool may print its words.
        return CallOutcome(None, None, "", feedback_of(text) if is_error else "")
    failed, code, line = core.read_result(text, is_error)
    return CallOutcome(not failed, code, line, "")
