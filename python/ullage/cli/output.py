"""Output of the commands: tables and bars on a terminal, plain text in a pipe, JSON on demand.

A report is plain data (dicts, lists, numbers, strings); it is printed as JSON, or rendered by one function per command.
"""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TextIO, TypeAlias

from cyclopts import Parameter
from rich.cells import cell_len

from ullage import _env
from ullage._start import json, orjson, pattern
from ullage.counting.window import WindowSettings
from ullage.exceptions import InvalidPolicy, UllageError
from ullage.recall.text import HIDDEN, visible

if TYPE_CHECKING:
    from ullage.cli.terminal import SafeConsole
    from ullage.sessions import Session

_JSON = pattern(f"[{HIDDEN}]")


def json_printable(text: str) -> str:
    r"""Like `visible`, for JSON, where an escape such as `\u202e` means the character itself."""
    return _JSON.sub(lambda char: f"\\u{ord(char[0]):04x}", text)


JSON_VERSION = 1
"""Version of the envelope and its keys: raised when a key changes meaning or is removed, not when one is added."""

COMMAND: ContextVar[str] = ContextVar("ullage_command", default="")
"""The command that is running, such as `memory list`."""

BAR_CELLS = 28
MOST_NOTES = 8


def share(part: int, whole: int) -> str:
    """A percentage with one digit; an en dash if the whole is 0."""
    return f"{100 * part / whole:.1f} %" if whole else "–"


def counted(count: int, noun: str) -> str:
    """`1 file`, `2 files`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


BAR_STYLE = "#4a8fd9"
"""Readable on light and dark backgrounds."""


def bar(part: int, whole: int) -> str:
    """A bar of eighth blocks; never longer than `BAR_CELLS`, never empty for a part above zero."""
    if whole <= 0 or part <= 0:
        return ""
    eighths = max(1, min(BAR_CELLS * 8, round(BAR_CELLS * 8 * part / whole)))
    full, part_cell = divmod(eighths, 8)
    return "█" * full + ("" if part_cell == 0 else "▏▎▍▌▋▊▉"[part_cell - 1])


def path_end(path: str, width: int) -> str:
    """A path cut to the width from the left, since names tell files apart."""
    if cell_len(path) <= width:
        return path
    begins = (at.start() for at in re.finditer("/", path))
    whole = next((path[at:] for at in begins if cell_len(path) - at < width), "")
    return "…" + (whole or path[1 - width :])


def _room(width: int, rows: Sequence[Sequence[str]], cut: Sequence[int]) -> dict[int, int]:
    """Widths of these columns: each gets a third of what the others leave, the last one the remainder."""
    widths = [max(map(cell_len, column)) + 2 for column in zip(*rows, strict=True)]
    left = width - sum(size for at, size in enumerate(widths) if at not in cut)
    widest: dict[int, int] = {}
    for at in cut:
        share = left if at == cut[-1] else min(widths[at], left // 3)
        widest[at] = max(8, share - 2)
        left -= share
    return widest


def envelope(**content: Any) -> str:
    """What every command prints with `--json`: `version`, `command`, and `result` or `error`."""
    report = {"version": JSON_VERSION, "command": COMMAND.get(), **content}
    return json_printable(as_json(report, indent=2))


def as_json(value: Any, *, indent: int | None = None) -> str:
    """Compact JSON, or with an indent of 2; the standard library writes what orjson refuses (lone surrogates, large numbers)."""
    option = orjson.OPT_NON_STR_KEYS | (orjson.OPT_INDENT_2 if indent else 0)
    try:
        return orjson.dumps(value, option=option).decode()
    except (TypeError, ValueError):
        separators = None if indent else (",", ":")
        return json.dumps(value, indent=indent, separators=separators)


def is_plain(stream: TextIO) -> bool:
    """Whether nothing but text may be written to a stream: a pipe, unless a variable says that it takes colours."""
    return not (stream.isatty() or any(map(_env.text, _env.COLOURS)))


def write(text: str, stream: TextIO) -> None:
    """Print text with tabs as spaces, as a terminal is shown it."""
    lines = visible(text).split("\n")
    print("\n".join(map(_without_tabs, lines)), file=stream, flush=True)


def _without_tabs(line: str) -> str:
    shown, *parts = line.split("\t")
    for part in parts:
        shown += " " * (8 - cell_len(shown) % 8) + part
    return shown


class Output:
    """A command's output: results on standard output (`as_json`: nothing else), progress and notes on standard error.

    Control characters are printed as escapes, on a terminal and in a pipe.
    """

    def __init__(self, *, as_json: bool = False) -> None:
        self.as_json = as_json
        self.piped = not sys.stdout.isatty()

    @cached_property
    def console(self) -> SafeConsole:
        """Standard output, for what is drawn."""
        from ullage.cli.terminal import SafeConsole

        return SafeConsole()

    @cached_property
    def errors(self) -> SafeConsole:
        """Standard error, for what is drawn."""
        from ullage.cli.terminal import SafeConsole

        return SafeConsole(stderr=True)

    def json(self, report: Any) -> None:
        """Print a report as JSON in the envelope, keys in their own order."""
        # Not printed by rich, which would wrap long strings at the terminal's width.
        sys.stdout.write(envelope(result=report) + "\n")

    def heading(self, text: str, *, cut: bool = False) -> None:
        """One bold line with space before it; `cut` as in `line`."""
        self.line("")
        self.line(text, style="bold", cut=cut)

    def file_heading(self, path: str, after: str = "") -> None:
        """A heading that names a file, in one line on a terminal; `after` follows the path."""
        if not self.piped:
            from ullage.sessions.find import home_relative

            path = path_end(home_relative(path), self.console.width - cell_len(after))
        self.heading(path + after)

    def line(self, text: str, *, style: str = "", cut: bool = False) -> None:
        """One line of text, printed as it is; with `cut` without what does not fit a terminal's line."""
        if is_plain(sys.stdout):
            return write(text, sys.stdout)
        from rich.text import Text

        shown = Text(visible(text))
        if cut and not self.piped:
            shown.truncate(self.console.width, overflow="ellipsis")
        self.console.print(shown, style=style or None)

    def field(self, name: str, text: str, *, width: int, style: str = "") -> None:
        """A name, in `width` cells, and its text in one line; on a terminal, a long text wraps under itself."""
        if self.piped:
            return self.line(f"{name:<{width}}{text}")
        from rich.table import Table
        from rich.text import Text

        grid = Table.grid(padding=0)
        grid.add_column(width=width, no_wrap=True)
        grid.add_column(overflow="fold")
        grid.add_row(name, Text(visible(text), style=style))
        self.console.print(grid)

    def text(self, text: str, *, style: str = "") -> None:
        """Text of any length, not wrapped and not interpreted."""
        if is_plain(sys.stdout):
            return write(text, sys.stdout)
        self.console.print(visible(text), markup=False, soft_wrap=True, style=style or None)

    def table(
        self,
        columns: Sequence[str],
        rows: Iterable[Sequence[str]],
        *,
        right: Iterable[int] = (),
        whole: Iterable[int] = (),
        cut: Sequence[int] = (),
        paths: Sequence[int] = (),
    ) -> None:
        """A table without rules; a column without a heading holds bars.

        `right`: columns of numbers. `whole`: those that never wrap, such as names to copy. `cut`: those cut at the right on a terminal,
        so that a row is one line; they share what the others leave. `paths`: of these, those cut at the left.
        """
        numbers, rows = set(right), list(rows)
        if self.piped:
            return self._plain(columns, rows, numbers)
        from rich.markup import escape
        from rich.table import Table

        unbroken = numbers.union(whole, cut)
        most = _room(self.console.width, [columns, *rows], cut)
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        for index, name in enumerate(columns):
            table.add_column(
                name,
                justify="right" if index in numbers else "left",
                style="" if name else BAR_STYLE,
                no_wrap=index in unbroken,
                overflow="ellipsis" if index in cut else "fold",
                max_width=most.get(index),
            )
        for row in rows:
            cells = enumerate(row)
            shown = (path_end(cell, most[at]) if at in paths else cell for at, cell in cells)
            table.add_row(*(escape(visible(cell)) for cell in shown))
        self.console.print(table)

    def _plain(
        self, columns: Sequence[str], rows: Sequence[Sequence[str]], numbers: set[int]
    ) -> None:
        """One line per row, whatever its length, without trailing space."""
        cells = [[visible(" ".join(cell.splitlines())) for cell in row] for row in (columns, *rows)]
        widths = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]
        for row in cells:
            padded = []
            for at, (cell, width) in enumerate(zip(row, widths, strict=True)):
                space = " " * (width - cell_len(cell))
                padded.append(space + cell if at in numbers else cell + space)
            self.text("  ".join(padded).rstrip())

    def note(self, text: str) -> None:
        """A note on standard error."""
        if is_plain(sys.stderr):
            return write(text, sys.stderr)
        self.errors.print(visible(text), markup=False, style="yellow")

    def notes(self, texts: Sequence[str]) -> None:
        """Print the first few notes; `inspect --json` lists all."""
        for text in texts[:MOST_NOTES]:
            self.note(f"note: {text}")
        if (more := len(texts) - MOST_NOTES) > 0:
            self.note(f"note: and {more:,} more (ullage inspect --json lists all)")

    @contextmanager
    def progress(self, label: str, total: int) -> Iterator[Any]:
        """A progress bar on standard error; yields a function to call with the amount done.

        Nothing is drawn in the first second, or if standard error is not a terminal.
        """
        if is_plain(sys.stderr) or not self.errors.is_terminal:
            yield lambda done: None
            return
        import threading

        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        several = (MofNCompleteColumn(), TimeRemainingColumn(compact=True)) if total > 1 else ()
        columns = (TextColumn(label), BarColumn(), *several, TimeElapsedColumn())
        shown = Progress(*columns, console=self.errors, transient=True)
        # A single step has no measurable progress: its bar pulses.
        task = shown.add_task(label, total=total if total > 1 else None)
        late = threading.Timer(1.0, shown.start)
        late.daemon = True
        late.start()
        try:
            yield lambda done: shown.advance(task, done)
        finally:
            late.cancel()
            late.join()
            shown.stop()


# FILE on the command line: a path, the id of a session of this machine, the beginning of one, or `--last`.


LAST = "--last"
STDIN, STDOUT = "/dev/stdin", "/dev/stdout"
"""What `-` stands for, on every system."""

HELP = "a transcript of any known format, a session's id or its beginning (`ullage list`), --last (the newest session) or - (standard input)"


class NoSession(Exception):
    """Carries an error past the parser, which would reword a `ValueError` and drop its hint."""


def _converted(type_: Any, words: Sequence[Any]) -> Path:
    from ullage.sessions.find import session_path  # commands without a file do not need it

    if words[0].value == STDIN:
        # A private file, since formats are recognised and sessions indexed in files.
        path = held_back("stdin")
        import shutil

        with path.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        return path
    try:
        return session_path(words[0].value)
    except UllageError as exc:
        raise NoSession(exc) from exc


def file_name(session: Path) -> str:
    """A session's file as the user named it: `-` for standard input."""
    return "-" if session.match("ullage-*/stdin") else str(session)


SessionArgument = Annotated[Path, Parameter(help=HELP, converter=_converted)]
"""The type of an argument that names a session."""

WhichConversation = Annotated[
    int, Parameter(help="which conversation, from 0, if the file holds several")
]
"""The type of `--conversation`."""


def with_last(words: list[str]) -> list[str]:
    """The arguments, with the newest session's file in place of the first `--last`; `resume FILE --last 5` means `--tail 5`."""
    if LAST not in words:
        return words
    at = words.index(LAST)
    if words[0] == "resume" and words[at + 1 : at + 2] and words[at + 1].isdecimal():
        return with_last([*words[:at], "--tail", *words[at + 1 :]])
    from ullage.sessions.find import last_session, opened_path

    file = str(opened_path(last_session()))
    others = [*words[:at], *words[at + 1 :]]
    return [*others[:1], file, *others[1:]]


def with_streams(words: list[str]) -> list[str]:
    """The arguments with `-` replaced by a name: the parser would take it for an option."""
    before = ["", *words]
    return [
        word if word != "-" else STDOUT if last in ("-o", "--output") else STDIN
        for last, word in zip(before, words, strict=False)
    ]


# `-o -`: the output is first a file, since it is verified by reading it back, then copied to standard output.


def held_back(name: str = "session.jsonl") -> Path:
    """A path in a private folder that is removed at the end."""
    import atexit
    import shutil
    import tempfile

    folder = tempfile.mkdtemp(prefix="ullage-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder, name)


def send(path: Path) -> None:
    """Copy a file to standard output, byte for byte."""
    import shutil

    sys.stdout.flush()
    with path.open("rb") as file:
        shutil.copyfileobj(file, sys.stdout.buffer)
    sys.stdout.buffer.flush()


# `--from` and `--up-to`: which part of a session is summarised.


def part_of(
    opened: Session, start: str | None, end: str | None
) -> tuple[Literal["full", "from", "up_to"], str | None]:
    """The direction, and the uuid of the entry where it starts or ends; `full` and `None` without either option.

    Both options take a uuid or a prefix of one; `InvalidPolicy`: both are given, or no entry or several entries have it.
    """
    if start is not None and end is not None:
        raise InvalidPolicy("--from", start, "cannot be given together with --up-to")
    prefix = end if start is None else start
    if prefix is None:
        return "full", None
    uuids = (item.get("uuid") for item in opened.items)
    named = [uuid for uuid in uuids if isinstance(uuid, str)]
    matches = [uuid for uuid in named if prefix and uuid.startswith(prefix)]
    if prefix not in matches and len(matches) != 1:
        reason = f"is a prefix of {len(matches)} uuids"
        if not matches:
            reason = "is not the uuid of an entry in this session"
        option = "--up-to" if start is None else "--from"
        hint = "each line of the file holds its `uuid`"
        raise InvalidPolicy(option, prefix, reason, hint=hint)
    return "up_to" if start is None else "from", prefix if prefix in matches else matches[0]


# The values of `--target` and `--window`: tokens, or a share of the current size of the context.


_SIZE = pattern(r"([0-9]{1,12})|([0-9]{1,12}(?:\.[0-9]{1,6})?) ?([km%])", re.IGNORECASE)
_THOUSANDS = pattern(r"(?<=[0-9])[_,](?=[0-9]{3}(?![0-9]))")
_UNITS = {"": 1, "k": 1_000, "m": 1_000_000}

WindowOption: TypeAlias = Annotated[
    str | None,
    Parameter(
        name="--window",
        help="tokens of the window to work in (200000, 200k); default: the model's, or of one above 200,000 the part that costs least",
    ),
]
"""`--window` of commands that compare a session with a window."""


PricesOption: TypeAlias = Annotated[
    Path | None,
    Parameter(name="--prices", help="a TOML file of models and prices, in the form of models.toml"),
]

# Options of several commands, in the words that each of them prints.

Json: TypeAlias = Annotated[bool, Parameter(help="print JSON")]
Force: TypeAlias = Annotated[bool, Parameter(help="replace an existing output file")]
DryRun: TypeAlias = Annotated[
    bool, Parameter(alias="-n", help="write nothing, show what would happen")
]
WindowModel: TypeAlias = Annotated[
    str | None,
    Parameter(help="model whose window and tokenizer apply; default: the one in the file"),
]
PolicyOption: TypeAlias = Annotated[
    Path | None, Parameter(help="a TOML file with settings, or a preset: ladder")
]
Ladder: TypeAlias = Annotated[
    bool, Parameter(help="use the preset whose thresholds are shares of the window")
]
BaseUrl: TypeAlias = Annotated[
    str, Parameter(help="URL of a compatible server, for the summarizer")
]


def read_window(value: str | None) -> WindowSettings:
    """The settings of the environment with the window of `--window`; `None` without the option."""
    settings = WindowSettings.from_env()
    if value is None:
        return settings
    number, unit = _parsed(value)
    if unit not in _UNITS:
        raise InvalidPolicy("--window", value, "must be tokens (200000, 200k, 1m)")
    tokens = int(number * _UNITS[unit])
    if tokens < 1:
        raise InvalidPolicy("--window", value, "must be at least 1 token")
    return dataclasses.replace(settings, auto_compact_window=tokens)


def _parsed(value: str) -> tuple[float, str]:
    """Number and unit; the unit `?` if it is neither tokens nor a share."""
    match = _SIZE.fullmatch(_THOUSANDS.sub("", value.strip()))
    return (float(match[1] or match[2]), (match[3] or "").lower()) if match else (0.0, "?")


def read_target(value: str | None, session: Session, *, model: str | None = None) -> int | None:
    """The maximum number of tokens for the new context, from `20000`, `20k`, `1.5m` or `10%`; `None` without a target.

    A percentage refers to the size before the compaction, as reported, by the tokenizer of `model` (`None`: the session's).
    """
    if value is None:
        return None
    number, unit = _parsed(value)
    if unit == "?":
        limit = "must be tokens (20000, 20k, 1.5m) or a share of the context (10%)"
        raise InvalidPolicy("--target", value, limit)
    if unit == "%" and not 0 < number <= 100:
        raise InvalidPolicy("--target", value, "must be more than 0% and at most 100%")
    if unit == "%":
        # `inspect` uses `--window` too, and must not load the compaction.
        from ullage.compaction.api import job_of
        from ullage.compaction.cut import prepare

        state = prepare(job_of(session.items, model=model or session.model or None))
        tokens = int(number / 100 * (state.size - state.overhead))
    else:
        tokens = int(number * _UNITS[unit])
    if tokens < 1:
        raise InvalidPolicy("--target", value, "must be at least 1 token")
    return tokens
