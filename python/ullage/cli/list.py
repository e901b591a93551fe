"""`ullage list`: the sessions of this machine."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from ullage.cli.output import Output, share, tokens
from ullage.sessions.session_list import ListedSession, home_relative, listed
from ullage.sessions.usual_folders import found_sessions, tool_folders

__all__ = ["list_command"]

_ID_CHARS = 13
_ALL_COLUMNS = 100
"""On a narrower terminal the fill says how large a session is, so that more of its title is seen."""
_UNITS = (("y", 31_536_000), ("d", 86_400), ("h", 3_600), ("m", 60))


def list_command(
    *,
    tool: Annotated[
        Literal["claude-code", "codex", "pi", "gemini", "copilot", "opencode"] | None,
        Parameter(help="only sessions of this tool"),
    ] = None,
    here: Annotated[
        bool, Parameter(negative="", help="only sessions of the current folder")
    ] = False,
    number: Annotated[
        int, Parameter(alias="-n", help="how many of the newest; 0: all of them")
    ] = 20,
    json: Annotated[bool, Parameter(negative="", help="print JSON")] = False,
) -> int:
    """List the sessions of this machine, newest first. Exit code 1: there are none.

    Looks where Claude Code, Codex, pi, the Gemini CLI, the Copilot CLI and OpenCode keep them, or where their own
    environment variables point. Any command takes an id from this list, or its beginning, in place of a file.
    """
    out = Output(as_json=json)
    folders = [each for each in tool_folders() if tool in (None, each.tool)]
    found = found_sessions(folders)
    rows: list[ListedSession] = []
    with out.progress("reading", min(number, len(found)) or len(found)) as step:
        for each in found:
            row = listed(each)
            if not here or row.cwd == str(Path.cwd()):
                rows.append(row)
                step(1)
            if number and len(rows) >= number:
                break
    if json:
        out.json({"sessions": [_data(row) for row in rows], "found": len(found)})
    else:
        _show(out, rows, len(found))
    return 0 if rows else 1


def _data(row: ListedSession) -> dict[str, Any]:
    return {
        "id": row.found.id,
        "tool": row.found.tool,
        "path": str(row.found.path),
        "title": row.title,
        "cwd": row.cwd,
        "model": row.model or None,
        "modified": row.found.when,
        "bytes": row.found.size,
        "messages": row.messages,
        "tokens": row.tokens,
        "window_tokens": row.window_tokens,
        "autocompact_at_tokens": row.compact_at_tokens,
        "dollars": None if row.dollars is None else round(float(row.dollars), 4),
        "problem": row.problem or None,
    }


def _show(out: Output, rows: list[ListedSession], found: int) -> None:
    if not rows:
        out.line("no session was found; `ullage list --help` says where it looks")
        return
    columns = ("id", "tool", "age", "tokens", "fill", "cost", "project", "title")
    cells = [columns, *map(_cells, rows)]
    if not out.piped and out.console.width < _ALL_COLUMNS:
        cells = [row[:3] + row[4:] for row in cells]
    last = len(cells[0]) - 1
    figures, long = tuple(range(2, last - 1)), (last - 1, last)
    out.table(cells[0], cells[1:], right=figures, whole=(0, 1), cut=long)
    if len(rows) < found:
        out.note(f"note: {len(rows):,} of {found:,} sessions; --number 0 shows all")


def _cells(row: ListedSession) -> tuple[str, ...]:
    head = (_short_id(row.found.id), row.found.tool, age(row.found.modified))
    if row.problem:
        return (
            *head,
            "–",
            "–",
            "–",
            home_relative(str(row.found.path)),
            f"cannot be read: {row.problem}",
        )
    cost = "–" if row.dollars is None else f"${row.dollars:,.2f}"
    fill = share(row.tokens, row.window_tokens)
    return (*head, tokens(row.tokens), fill, cost, home_relative(row.cwd), row.title)


def _short_id(name: str) -> str:
    """As much of an id as tells two sessions apart that began within the same minute."""
    bare = name.partition("_")[2]
    return (
        name[: _ID_CHARS + len(name) - len(bare)] if name.startswith("ses_") else name[:_ID_CHARS]
    )


def age(modified: float, now: float | None = None) -> str:
    """How long ago something was written to: `3m`, `5h`, `12d`, `2y`; `now` within a minute.

    Args:
        modified: Seconds since the epoch.
        now: Likewise; `None`: the clock's.
    """
    passed = int((time.time() if now is None else now) - modified)
    return next((f"{passed // size:,}{unit}" for unit, size in _UNITS if passed >= size), "now")
