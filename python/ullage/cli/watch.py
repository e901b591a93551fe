"""`ullage watch`: a live session in the terminal."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from ullage.cli.output import BAR_CELLS, Output, SessionArgument, bar, share, tokens
from ullage.facts.words import blocks_of, text_of
from ullage.messages import Item, role_of
from ullage.recall.text import call_title
from ullage.sessions import open_session
from ullage.sessions.find import FoundSession, ListedSession, listed

if TYPE_CHECKING:
    from rich.text import Text

_SHOWN = 12
_LINE_CHARS = 200
_WHO_CELLS = 9


def watch_command(
    file: SessionArgument,
    *,
    interval: Annotated[float, Parameter(help="seconds between two looks at the file")] = 1.0,
    once: Annotated[bool, Parameter(negative="", help="show it once, and end")] = False,
    json: Annotated[
        bool, Parameter(negative="", help="one JSON object for each change, a line each")
    ] = False,
) -> int:
    """Follow a live session: how full its window is, what it cost, its newest messages. Ends with Ctrl-C.

    The file is only read. In a pipe, one line is printed for each change.
    """
    out = Output()
    live = not (once or json or out.piped)
    if live:
        _live(out, file, interval)
        return 0
    seen: tuple[int, int] | None = None
    while True:
        look = file.stat()
        if (look.st_size, look.st_mtime_ns) != seen:
            seen = (look.st_size, look.st_mtime_ns)
            _print(out, _state(file), as_json=json)
        if once:
            return 0
        time.sleep(max(interval, 0.1))


def _state(file: Path) -> tuple[ListedSession, list[tuple[str, str]]]:
    look = file.stat()
    session = FoundSession("", file.stem, file, look.st_size, look.st_mtime)
    items = open_session(file).items
    newest = [row for item in items[-_SHOWN:] for row in _rows(item)]
    return listed(session), newest[-_SHOWN:]


def _rows(item: Item) -> list[tuple[str, str]]:
    rows = []
    for block in blocks_of(item):
        if block.get("type") == "tool_use":
            rows.append(("call", call_title(block.get("name"), block.get("input"))))
        elif block.get("type") == "tool_result":
            rows.append(("result", "failed" if block.get("is_error") is True else "ok"))
    text = " ".join(text_of(item)[: 4 * _LINE_CHARS].split())[:_LINE_CHARS]
    return [*([(str(role_of(item)), text)] if text else []), *rows]


def _print(
    out: Output, state: tuple[ListedSession, list[tuple[str, str]]], *, as_json: bool
) -> None:
    row, newest = state
    if as_json:
        import orjson

        from ullage.cli.output import json_printable

        print(json_printable(orjson.dumps(_data(row, newest)).decode()), flush=True)
        return
    for line in _lines(row, newest):
        out.line(line, cut=True)


def _data(row: ListedSession, newest: list[tuple[str, str]]) -> dict[str, Any]:
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
    due = f"{tokens(left)} before compaction" if left > 0 else "compaction is due"
    cost = "" if row.dollars is None else f"  ${row.dollars:,.2f}"
    fill = f"{tokens(row.tokens)} of {tokens(row.window_tokens)} tokens ({share(row.tokens, row.window_tokens)})"
    return [
        row.title or row.found.id,
        f"{bar(row.tokens, row.window_tokens):<{BAR_CELLS}}  {fill}",
        f"{row.messages:,} messages  {due}{cost}  {row.model}",
        *(f"{who:>{_WHO_CELLS}}  {text}" for who, text in newest),
    ]


def _live(out: Output, file: Path, interval: float) -> None:
    from rich.live import Live

    seen: tuple[int, int] | None = None
    with Live(console=out.console, auto_refresh=False) as shown:
        while True:
            look = file.stat()
            if (look.st_size, look.st_mtime_ns) != seen:
                seen = (look.st_size, look.st_mtime_ns)
                shown.update(_drawn(*_state(file)), refresh=True)
            time.sleep(max(interval, 0.1))


def _drawn(row: ListedSession, newest: list[tuple[str, str]]) -> Text:
    """The lines in colour; each is cut at the edge of the terminal, with a sign that it is."""
    from rich.text import Text

    title, filled, *others = _lines(row, newest)
    drawn = Text(no_wrap=True, overflow="ellipsis")
    drawn.append(f"{title}\n", "bold")
    full = min(BAR_CELLS, round(BAR_CELLS * row.tokens / max(1, row.window_tokens)))
    drawn.append("█" * full, _colour(row))
    drawn.append("░" * (BAR_CELLS - full), "dim")
    drawn.append(f"{filled[BAR_CELLS:]}\n")
    drawn.append(f"{others[0]}")
    for line in others[1:]:
        drawn.append(f"\n{line[:_WHO_CELLS]}", "dim")
        drawn.append(line[_WHO_CELLS:])
    return drawn


def _colour(row: ListedSession) -> str:
    """By how near the next compaction is."""
    tenths = 10 * row.tokens // max(1, row.compact_at_tokens)
    return "green" if tenths < 6 else "yellow" if tenths < 9 else "red"
