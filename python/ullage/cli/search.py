"""`ullage search`: words in all sessions of this machine."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from cyclopts import Parameter

from ullage.cli.output import (
    BAR_CELLS,
    Json,
    Output,
    SessionArgument,
    as_json,
    bar,
    counted,
    json_printable,
    share,
)
from ullage.facts.words import blocks_of, text_of
from ullage.messages import Item, role_of
from ullage.recall.text import call_title
from ullage.sessions import open_session
from ullage.sessions.find import FoundSession, found_sessions, home_relative, tool_folders
from ullage.sessions.inspected import ORDER, ListedSession, Sorting, age, holds, listed
from ullage.sessions.search_index import SearchedSession, SearchIndex

if TYPE_CHECKING:
    from rich.text import Text

# `ullage list`: the sessions of this machine.


OnlyTool: TypeAlias = Annotated[
    Literal["claude-code", "codex", "pi", "gemini", "copilot", "opencode"] | None,
    Parameter(help="only sessions of this tool"),
]


def list_command(
    *words: str,
    tool: OnlyTool = None,
    here: bool = False,
    sort: Sorting = "age",
    number: Annotated[int, Parameter(alias="-n")] = 20,
    json: Json = False,
) -> int:
    """List the sessions of this machine, newest first, with their sum. Exit code 1: there are none.

    Looks where Claude Code, Codex, pi, Gemini CLI, Copilot CLI and OpenCode keep them, or where their environment
    variables point. Every command takes an id from this list, or its beginning, in place of a file.

    Args:
        words: only sessions with all of these words in title or project
        here: only sessions of the current folder
        sort: age: newest first; tokens, cost: largest first
        number: how many; 0: all of them
    """
    out = Output(as_json=json)
    folders = [place for place in tool_folders() if tool in (None, place.tool)]
    present = found_sessions(folders)
    # File times show the newest; the largest and most expensive are known only after reading all.
    enough = number if number and sort == "age" else len(present)
    folder, rows = str(Path.cwd()) if here else "", list[ListedSession]()
    with out.progress("reading", len(present) if words or here else enough) as step:
        for session in present:
            if len(rows) == enough:
                break
            row = listed(session)
            step(1)
            if folder in ("", row.cwd) and holds(row, words):
                rows.append(row)
    rows = sorted(rows, key=ORDER[sort])[: number or None]
    if json:
        sums = {"tokens": sum(row.tokens for row in rows), "dollars": _dollars(rows)}
        sessions = [_list_data(row) for row in rows]
        out.json({"sessions": sessions, "found": len(present), "totals": sums})
    else:
        _show(out, rows, len(present), words)
    return 0 if rows else 1


def _dollars(rows: Sequence[ListedSession]) -> float:
    return round(float(sum(row.dollars or 0 for row in rows)), 4)


def _list_data(row: ListedSession) -> dict[str, Any]:
    return {
        "id": row.session.id,
        "tool": row.session.tool,
        "path": str(row.session.path),
        "title": row.title,
        "cwd": row.cwd,
        "model": row.model or None,
        "modified": row.session.when,
        "bytes": row.session.size,
        "messages": row.messages,
        "tokens": row.tokens,
        "window_tokens": row.window_tokens,
        "autocompact_at_tokens": row.compact_at_tokens,
        "dollars": None if row.dollars is None else round(float(row.dollars), 4),
        "problem": row.problem or None,
    }


def _show(out: Output, rows: list[ListedSession], count: int, words: Sequence[str]) -> None:
    if not rows and words and count:
        looked_at = f"of {counted(count, 'session')} none has {' '.join(words)!r}"
        out.line(f"{looked_at} in title or project; `ullage list` shows all")
        return
    if not rows:
        others = f"; {counted(count, 'session')} elsewhere on this machine" if count else ""
        out.line(f"no session was found{others}; `ullage list --help` says where it looks")
        return
    columns = ("id", "tool", "age", "tokens", "fill", "cost", "project", "title")
    cells = [columns, *map(_cells, rows)]
    # On a narrow terminal only the fill shows a session's size, to leave room for its title.
    if not out.piped and out.console.width < 100:
        cells = [row[:3] + row[4:] for row in cells]
    last = len(cells[0]) - 1
    figures, long = tuple(range(2, last - 1)), (last - 1, last)
    out.table(cells[0], cells[1:], right=figures, whole=(0, 1), cut=long, paths=long[:1])
    total = f"{counted(len(rows), 'session')}: {sum(row.tokens for row in rows):,} tokens"
    cost = _dollars(rows)
    # Without a cost: no file states usage.
    out.line(f"{total}, ${cost:,.2f}" if cost else total, style="dim")
    if len(rows) < count:
        out.note(f"note: {len(rows):,} of {count:,} sessions; --number 0 shows all")


def _cells(row: ListedSession) -> tuple[str, ...]:
    # Enough of an id to tell apart two sessions that began within the same minute.
    most = 13 + len("ses_") * row.session.id.startswith("ses_")
    head = (row.session.id[:most], row.session.tool, age(row.session.modified))
    if row.problem:
        place = home_relative(str(row.session.path))
        return (*head, "–", "–", "–", place, f"cannot be read: {row.problem}")
    cost = "–" if row.dollars is None else f"${row.dollars:,.2f}"
    fill = share(row.tokens, row.window_tokens)
    return (*head, f"{row.tokens:,}", fill, cost, home_relative(row.cwd), row.title)


def search_command(
    *words: str,
    tool: OnlyTool = None,
    project: str = "",
    number: Annotated[int, Parameter(alias="-n")] = 10,
    hits: int = 3,
    json: Json = False,
) -> int:
    """Find words in all sessions of this machine, best matches first. Exit code 1: no match.

    The first search indexes every session; later ones read only what changed.

    Args:
        words: words, or phrases in double quotes
        project: only sessions that ran in this folder
        number: maximum number of sessions
        hits: maximum number of places in each
    """
    out = Output(as_json=json)
    sessions = found_sessions()
    with SearchIndex() as index:
        with out.progress("reading sessions", len(sessions)) as step:
            problems = index.update(sessions, step=step)
        matches = index.search(
            " ".join(words), most=number, hits=hits, tool=tool or "", cwd=project
        )
    if json:
        out.json({"words": " ".join(words), "sessions": [_data(session) for session in matches]})
    elif not matches:
        out.line("no session contains these words")
    for session in [] if json else matches:
        out.heading(f"{session.id}  {session.title}", cut=True)
        where = home_relative(session.cwd) or session.path
        line = f"{session.tool}, {age(session.modified)}, {where}"
        out.line(line, style="dim", cut=True)
        for hit in session.hits:
            out.line(f"  {hit.who:<9} {hit.text}", cut=True)
    out.notes([f"{path}: {reason}" for path, reason in problems.items()])
    return 0 if matches else 1


def _data(session: SearchedSession) -> dict[str, object]:
    return {
        "id": session.id,
        "tool": session.tool,
        "path": str(session.path),
        "title": session.title,
        "cwd": session.cwd,
        "score": round(session.score, 3),
        "hits": [asdict(hit) for hit in session.hits],
    }


_SHOWN = 12
_LINE_CHARS = 200
_WHO_CELLS = 9


def watch_command(
    file: SessionArgument,
    *,
    interval: float = 1.0,
    once: bool = False,
    json: bool = False,
) -> int:
    """Follow a live session: how full its window is, what it cost, its newest messages. Ctrl-C ends it.

    The file is only read. In a pipe, each change prints one line.

    Args:
        interval: seconds between checks of the file
        once: show it once, and exit
        json: print one JSON object per change, each on a line
    """
    out = Output()
    live = not (once or json or out.piped)
    if live:
        from rich.live import Live

        with Live(console=out.console, auto_refresh=False) as shown:
            for state in _changes(file, interval):
                shown.update(_drawn(*state), refresh=True)
    for row, newest in _changes(file, interval):
        if json:
            print(json_printable(as_json(_state_data(row, newest))), flush=True)
        else:
            for line in _lines(row, newest):
                out.line(line, cut=True)
        if once:
            break
    return 0


def _changes(file: Path, interval: float) -> Iterator[tuple[ListedSession, list[tuple[str, str]]]]:
    """The session's state now, and after each change of its file."""
    seen: tuple[int, int] | None = None
    while True:
        look = file.stat()
        if (look.st_size, look.st_mtime_ns) != seen:
            seen = (look.st_size, look.st_mtime_ns)
            session = FoundSession("", file.stem, file, look.st_size, look.st_mtime)
            items = open_session(file).items
            newest = [row for item in items[-_SHOWN:] for row in _rows(item)]
            yield listed(session), newest[-_SHOWN:]
        time.sleep(max(interval, 0.1))


def _rows(item: Item) -> list[tuple[str, str]]:
    rows = []
    for block in blocks_of(item):
        if block.get("type") == "tool_use":
            rows.append(("call", call_title(block.get("name"), block.get("input"))))
        elif block.get("type") == "tool_result":
            rows.append(("result", "failed" if block.get("is_error") is True else "ok"))
    text = " ".join(text_of(item)[: 4 * _LINE_CHARS].split())[:_LINE_CHARS]
    return [*([(str(role_of(item)), text)] if text else []), *rows]


def _state_data(row: ListedSession, newest: list[tuple[str, str]]) -> dict[str, Any]:
    return {
        "tokens": row.tokens,
        "window_tokens": row.window_tokens,
        "autocompact_at_tokens": row.compact_at_tokens,
        "messages": row.messages,
        "dollars": None if row.dollars is None else round(float(row.dollars), 4),
        "newest": {"who": newest[-1][0], "text": newest[-1][1]} if newest else None,
    }


def _lines(row: ListedSession, newest: list[tuple[str, str]]) -> list[str]:
    left = row.compact_at_tokens - row.tokens
    due = f"{left:,} before compaction" if left > 0 else "compaction is due"
    cost = "" if row.dollars is None else f"  ${row.dollars:,.2f}"
    fill = (
        f"{row.tokens:,} of {row.window_tokens:,} tokens ({share(row.tokens, row.window_tokens)})"
    )
    return [
        row.title or row.session.id,
        f"{bar(row.tokens, row.window_tokens):<{BAR_CELLS}}  {fill}",
        f"{row.messages:,} messages  {due}{cost}  {row.model}",
        *(f"{who:>{_WHO_CELLS}}  {text}" for who, text in newest),
    ]


def _drawn(row: ListedSession, newest: list[tuple[str, str]]) -> Text:
    """The lines in colour, each cut at the edge of the terminal with an ellipsis."""
    from rich.text import Text

    title, filled, *others = _lines(row, newest)
    drawn = Text(no_wrap=True, overflow="ellipsis")
    drawn.append(f"{title}\n", "bold")
    full = min(BAR_CELLS, round(BAR_CELLS * row.tokens / max(1, row.window_tokens)))
    tenths = 10 * row.tokens // max(1, row.compact_at_tokens)  # how near the next compaction is
    drawn.append("█" * full, "green" if tenths < 6 else "yellow" if tenths < 9 else "red")
    drawn.append("░" * (BAR_CELLS - full), "dim")
    drawn.append(f"{filled[BAR_CELLS:]}\n")
    drawn.append(f"{others[0]}")
    for line in others[1:]:
        drawn.append(f"\n{line[:_WHO_CELLS]}", "dim")
        drawn.append(line[_WHO_CELLS:])
    return drawn
