"""`ullage compact --diff`: what left the context and what came in, one line for each block."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ullage.cli.output import Output
from ullage.cli.resume import preview_rows

__all__ = ["DIFF_STYLES", "context_diff", "show_diff"]

DIFF_STYLES = {"-": "red", "+": "green", "@": "cyan"}


def context_diff(
    before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]
) -> list[str]:
    """A unified diff of two contexts, with the beginning of each block as its line."""
    lines = difflib.unified_diff(_lines(before), _lines(after), "before", "after", lineterm="", n=1)
    return list(lines)


def _lines(messages: Iterable[Mapping[str, Any]]) -> list[str]:
    return [" ".join(row) for message in messages for row in preview_rows(message)]


def show_diff(out: Output, lines: Sequence[str]) -> None:
    """Print a diff in its usual colours; nothing for an empty one."""
    if lines:
        out.heading("What changes in the context")
    # On a terminal one row for each block; in a pipe the whole of what is known of it.
    for line in lines:
        out.line(line, style=DIFF_STYLES.get(line[:1], ""), cut=True)
