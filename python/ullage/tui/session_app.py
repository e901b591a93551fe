"""The terminal interface: the list of sessions, and one session with what fills it, its messages, what the levels would do, a compaction."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, VerticalScroll
from textual.message import Message
from textual.reactive import reactive
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import (
    Button,
    DataTable,
    Footer,
    Header,
    HelpPanel,
    Input,
    Static,
    TabbedContent,
    TabPane,
)

from ullage.exceptions import UllageError
from ullage.facts.words import blocks_of
from ullage.messages import message_of
from ullage.recall.text import call_title, content_text, visible
from ullage.sessions.find import found_sessions, home_relative, opened_path, tool_folders
from ullage.sessions.inspected import ORDER, Sorting, age, holds, inspect_opened, title_of
from ullage.transcript import Transcript
from ullage.transcript.formats import detect

if TYPE_CHECKING:
    from ullage.sessions import CompactedSession
    from ullage.sessions.inspected import ListedSession
    from ullage.tui.shown_session import RemovalRow, ShownSession


# What is shown of a file before it is read, and of a message in a list.


_BEGIN = 160


@dataclass(frozen=True, slots=True)
class MessageRow:
    """One message in the list: its position, its author (`result`: a tool) and its beginning."""

    at: int
    role: str
    begins: str


def glance(path: Path) -> str:
    """What an index tells of a file: indexing 100 MB takes a tenth of the time of reading it.

    Raises:
        InvalidTranscript: Its format is not known.
        StoreError: It cannot be read.
    """
    kind, size = detect(path), path.stat().st_size
    if kind != "claude_code":
        return f"{kind} · {size:,} bytes\n\nreading …"
    transcript = Transcript.open(path)
    rows = [row for row in transcript.rows() if row.type in ("user", "assistant")]
    messages = ((row.at, message_of(transcript.load(row.at)) or {}) for row in rows[-12:])
    newest = [message_row(*message) for message in messages]
    usage = transcript.usage or {}
    tokens = sum(count for key in _PROMPT if isinstance(count := usage.get(key), int))
    head = [
        f"{visible(transcript.model) or 'unknown model'} · {kind} · {size:,} bytes",
        f"{tokens:,} tokens in the newest request · {len(rows):,} lines of messages · {len(transcript.boundaries):,} earlier compactions",
    ]
    lines = (f"{row.role:<10} {row.begins}" for row in newest)
    return "\n".join([*head, "", *lines, "", "reading the rest …"])


_PROMPT = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


def message_row(at: int, message: Mapping[str, Any]) -> MessageRow:
    """A message as the list shows it."""
    text = " · ".join(_begins(message))
    who = str(message.get("role"))
    if who == "user" and any(block.get("type") == "tool_result" for block in blocks_of(message)):
        who = "result"
    return MessageRow(at, who, visible(" ".join(text[:_BEGIN].split())))


def _begins(message: Mapping[str, Any]) -> Iterator[str]:
    for block in blocks_of(message):
        kind = block.get("type")
        if kind == "tool_use":
            yield f"▸ {call_title(block.get('name'), block.get('input'))}"
        elif kind == "tool_result":
            yield f"◂ {content_text(block.get('content'))[:_BEGIN]}"
        else:
            yield str(block.get("text") or block.get("thinking") or f"[{kind}]")[:_BEGIN]


def bar_of(part: int, whole: int, cells: int) -> str:
    """A bar of full and empty cells."""
    full = min(cells, round(cells * part / whole)) if whole else 0
    return "█" * full + "░" * (cells - full)


def rows_text(rows: Sequence[tuple[str, int]], whole: int, width: int) -> Text:
    """The largest with tokens and a bar of the whole, a line each; lists of one width have aligned columns."""
    # In cells; those of tokens and share have the gaps around them.
    figures, least_bar, most_bar = 22, 16, 40
    most = max(16, min(44, width - figures - least_bar))
    bars = max(0, min(most_bar, width - most - figures))
    shown = sorted(rows, key=lambda row: -row[1])[:12]
    text = Text()
    for name, size in shown:
        share = f"{100 * size / whole if whole else 0:5.1f} %"
        text.append(f"{end_of(visible(name), most):<{most}}  {size:>9,}  {share}  ")
        text.append(bar_of(size, whole, bars).rstrip("░") + "\n", style=BAR_STYLE)
    return text


BAR_STYLE = "#4a8fd9"
"""Readable on light and dark backgrounds."""


def end_of(name: str, most: int) -> str:
    """The end of a long path, since most share the beginning."""
    return name if len(name) <= most else f"…{name[1 - most :]}"


# The screens.


STEP = 5


class TargetSlider(Widget):
    """A share of the messages' current size in percent, without system prompt and tools, set by the arrow keys."""

    can_focus = True

    class Moved(Message):
        """The share has changed."""

        def __init__(self, percent: int) -> None:
            super().__init__()
            self.percent = percent

    BINDINGS = [  # noqa: RUF012 - as Textual wants it
        Binding("left", "move(-1)", "Smaller", show=False),
        Binding("right", "move(1)", "Larger", show=False),
    ]

    percent: reactive[int] = reactive(20)

    def action_move(self, steps: int) -> None:
        """Move by steps of five percent."""
        self.percent = max(STEP, min(100, self.percent + steps * STEP))
        self.post_message(self.Moved(self.percent))

    def render(self) -> Text:
        """The bar and its share."""
        text = Text(bar_of(self.percent, 100, 40), style=BAR_STYLE)
        return text.append(f"  {self.percent} % of its messages  (← →)", style="default")


_FIRST = {
    "now": "#now VerticalScroll",
    "messages": "#list",
    "levels": "#removals",
    "compact": "#target",
}
"""What has the focus first on each tab."""


class SessionScreen(Screen[None]):
    """Shows a session and follows its file."""

    BINDINGS = [  # noqa: RUF012 - as Textual wants it
        Binding("slash", "search", "Search"),
        Binding("n", "tab('now')", "Now"),
        Binding("m", "tab('messages')", "Messages", show=False),
        Binding("l", "tab('levels')", "Levels"),
        Binding("c", "tab('compact')", "Compact"),
        Binding("u", "undo", "Undo"),
        Binding("f", "follow", "Follow on/off", show=False),
        Binding("escape", "back", "Back"),
        Binding("question_mark", "app.keys", "Keys"),
        Binding("q", "app.quit", "Quit"),
    ]

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.shown: ShownSession | None = None
        self.removals: list[RemovalRow] = []
        self.follow = True
        self.messages_tokens = 0
        self.words = ""
        self._may_undo = False

    def compose(self) -> ComposeResult:
        """The tabs."""
        yield Header(show_clock=False)
        with TabbedContent(initial="now"):
            with TabPane("Now", id="now"), VerticalScroll():
                yield Static("opening …", id="holds", markup=False)
            with TabPane("Messages", id="messages"):
                yield Input(placeholder="search: words in a message, then Enter", id="words")
                yield Static("", id="state", markup=False)
                with Horizontal():
                    yield DataTable(id="list", cursor_type="row", zebra_stripes=True)
                    with VerticalScroll(classes="detail"):
                        yield Static("", id="message", markup=False)
            with TabPane("What would leave", id="levels"), Horizontal():
                yield DataTable(id="removals", cursor_type="row", zebra_stripes=True)
                with VerticalScroll(classes="detail"):
                    yield Static("", id="removed", markup=False)
            with TabPane("Compact", id="compact"):
                yield TargetSlider(id="target")
                yield Button("Write to a new file", id="write", variant="primary")
                with VerticalScroll():
                    yield Static("", id="preview", markup=False)
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Open the file outside the event loop."""
        self.title = visible(self.path.name)
        self.query_one("#list", DataTable).add_columns("#", "who", "tokens", "begins")
        self.query_one("#removals", DataTable).add_columns("request", "level", "freed", "why")
        self._load()
        self.set_interval(1.0, self._look)

    # ---- opening and following

    @work(thread=True, exclusive=True, group="open")
    def _load(self) -> None:
        try:
            if self.shown is None:
                self.app.call_from_thread(self._glanced, glance(self.path))
            from ullage.tui.shown_session import ShownSession

            shown = ShownSession(self.path)
        except (UllageError, OSError) as exc:
            self.app.call_from_thread(self._glanced, visible(f"cannot be read: {exc}"))
            return
        self.app.call_from_thread(self._opened, shown)

    def _glanced(self, text: str) -> None:
        self.query_one("#holds", Static).update(Text(text))

    def _opened(self, shown: ShownSession) -> None:
        self.shown = shown
        self.title = visible(title_of(shown.session)) or self.title
        self._show_now(shown)
        self._list(self.query_one("#words", Input).value)
        self.removals = []

    def on_resize(self) -> None:
        """Bars fill what the names leave of a line."""
        if self.shown is not None:
            self._show_now(self.shown)

    def _look(self) -> None:
        if not self.follow or self.shown is None or not self.shown.has_changed():
            return
        # A thread cannot be stopped, so a file that grows faster than it opens is opened by one thread at a time.
        mine = (worker for worker in self.app.workers if worker.node is self)
        if not any(worker.group == "open" and worker.is_running for worker in mine):
            self._load()

    def _show_now(self, shown: ShownSession) -> None:
        inspection, marks = inspect_opened(shown.session).inspection, shown.window
        # No compaction shrinks system prompt and tools.
        overhead = shown.session.overhead_tokens(shown.weights)
        self.messages_tokens = inspection.anchored_tokens - overhead
        bar = bar_of(inspection.anchored_tokens, marks.context, 36)
        head = [
            f"{visible(shown.session.model) or 'unknown model'} · {shown.session.format} · {shown.session.size:,} bytes",
            f"{bar}  {inspection.anchored_tokens:,} of {marks.context:,} tokens",
            f"automatic compaction at {marks.threshold:,} · {len(shown.session.messages):,} messages · earlier compactions: {len(shown.session.boundaries):,}",
        ]
        sections = {
            "By category": list(inspection.categories.items()),
            "By tool": [(part.name, part.tokens) for part in inspection.tools],
            "By file": [(part.path, part.tokens) for part in inspection.files],
            "What each level would free now": [(p.level, p.tokens) for p in inspection.freeable],
        }
        text = Text("\n".join(head) + "\n")
        text.highlight_words([bar], BAR_STYLE)
        for name, rows in sections.items():
            text.append(f"\n{name}\n", style="bold")
            text.append(rows_text(rows, inspection.anchored_tokens, self.size.width - 8))
        self.query_one("#holds", Static).update(text)

    # ---- messages and search

    def action_search(self) -> None:
        """Go to the search."""
        self.action_tab("messages")
        self.query_one("#words", Input).focus()

    def action_tab(self, name: str) -> None:
        """Show a tab and focus on its content."""
        self.query_one(TabbedContent).active = name
        self.query_one(_FIRST[name]).focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Search."""
        self._list(event.value)
        self.query_one("#list", DataTable).focus()

    def _list(self, words: str) -> None:
        if self.shown is None:
            return
        self.words = words.strip()
        table = self.query_one("#list", DataTable)
        table.clear()
        for row in self.shown.rows(self.words):
            size = Text(f"{self.shown.tokens(row.at):,}", justify="right")
            begins = _marked(row.begins, self.words)
            table.add_row(str(row.at), row.role, size, begins, key=str(row.at))
        table.move_cursor(row=table.row_count - 1)
        count, whole = table.row_count, len(self.shown.session.messages)
        holds = f" hold “{visible(self.words)}”; Esc shows all" if self.words else ""
        self.query_one("#messages #state", Static).update(f"{count:,} of {whole:,} messages{holds}")

    def on_data_table_row_highlighted(self, event: DataTable.RowHighlighted) -> None:
        """Show the message under the cursor."""
        key = event.row_key.value
        if key is None or self.shown is None:
            return
        if event.data_table.id == "list":
            text = _marked(self.shown.text(int(key)), self.words)
            self.query_one("#message", Static).update(text)
        elif int(key) < len(self.removals):
            self.query_one("#removed", Static).update(Text(self.removals[int(key)].text))

    # ---- levels and compaction

    def on_tabbed_content_tab_activated(self, event: TabbedContent.TabActivated) -> None:
        """Load slow content when its tab is shown."""
        if event.pane.id == "levels" and not self.removals and self.shown is not None:
            self._replay(self.shown)
        elif event.pane.id == "compact":
            slider = self.query_one(TargetSlider)
            slider.focus()
            self._preview(slider.percent)

    @work(thread=True, exclusive=True, group="replay")
    def _replay(self, shown: ShownSession) -> None:
        from ullage.tui.shown_session import removals_of

        self.app.call_from_thread(self._replayed, shown, removals_of(shown.session))

    def _replayed(self, shown: ShownSession, removals: list[RemovalRow]) -> None:
        self.removals = removals
        table = self.query_one("#removals", DataTable)
        table.clear()
        for at, row in enumerate(removals):
            figures = (str(row.request), f"{row.freed_tokens:,}")
            request, freed = (Text(figure, justify="right") for figure in figures)
            table.add_row(request, row.level, freed, Text(row.why), key=str(at))
        if not removals:
            window = shown.window.context
            smaller = min(200_000, window // 2)
            hint = f"In a window of {window:,} tokens no level had to act.\n\nCLAUDE_CODE_AUTO_COMPACT_WINDOW={smaller} ullage tui … tries a smaller one."
            self.query_one("#removed", Static).update(hint)

    def on_target_slider_moved(self, event: TargetSlider.Moved) -> None:
        """Try the new size."""
        self._preview(event.percent)

    def _target(self, percent: int) -> int:
        return max(1, self.messages_tokens * percent // 100)

    def _preview(self, percent: int) -> None:
        if self.shown is None:
            return
        target = self._target(percent)
        self.query_one("#preview", Static).update(f"trying {target:,} tokens …")
        self._try(self.shown, target)

    @work(thread=True, exclusive=True, group="try")
    def _try(self, shown: ShownSession, target: int) -> None:
        from ullage.sessions import compact_session

        try:
            text = preview_text(compact_session(shown.session, target_tokens=target), target)
        except UllageError as exc:
            text = visible(f"{exc}\n{exc.hint}")
        self.app.call_from_thread(self.query_one("#preview", Static).update, Text(text))

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """Write the compaction next to the session, which is not changed."""
        if self.shown is None:
            return
        from ullage.sessions import compact_session

        output = self.path.with_name(f"{self.path.stem}.compacted.jsonl")
        target = self._target(self.query_one(TargetSlider).percent)
        try:
            done = compact_session(self.shown.session, target_tokens=target, output=output)
        except UllageError as exc:
            self.notify(visible(f"{exc}\n{exc.hint}"), severity="error", markup=False)
            return
        message = f"written: {output}" if done.path else f"nothing to gain: {done.result.reason}"
        self.notify(visible(message), markup=False)

    def action_undo(self) -> None:
        """Say what an undo would do; when pressed again, do it."""
        if self.shown is None:
            return
        from ullage.sessions.edit import undo_compaction

        try:
            done = undo_compaction(self.shown.session, write=self._may_undo)
        except UllageError as exc:
            self.notify(visible(getattr(exc, "reason", str(exc))), severity="warning", markup=False)
            return
        if self._may_undo:
            self.notify(f"undone: {done.messages_after:,} messages are shown again", markup=False)
            self._load()
        else:
            message = f"press u again to undo the compaction of {done.when or 'an unknown time'}: {done.messages_after:,} messages"
            self.notify(message, severity="warning", markup=False)
        self._may_undo = not self._may_undo

    def action_follow(self) -> None:
        """Follow the file, or stop following it."""
        self.follow = not self.follow
        self.notify("following the file" if self.follow else "not following the file")

    def action_back(self) -> None:
        """Leave the search, or else return to the list of sessions, if there is one."""
        words = self.query_one("#words", Input)
        if words.value or words.has_focus:
            words.value = ""
            self._list("")
            self.query_one("#list", DataTable).focus()
        elif len(self.app.screen_stack) > 2:
            self.app.pop_screen()


def _marked(text: str, words: str) -> Text:
    """A text with the words of a search marked."""
    marked = Text(text)
    if words:
        marked.highlight_regex(f"(?i){re.escape(words)}", "reverse")
    return marked


def preview_text(done: CompactedSession, target: int) -> str:
    """What a compaction would do, with its summary."""
    from ullage.compaction.job import warning_text
    from ullage.facts.words import text_of

    counts = done.result.report
    if not done.result.compacted:
        return f"nothing would change: {done.result.reason.replace('_', ' ')}"
    overhead = counts.overhead_tokens
    lines = [
        f"before  {counts.tokens_before:>11,} tokens",
        f"after   {counts.tokens_after:>11,} tokens in {len(done.messages):,} messages",
        f"target  {target:>11,} tokens of messages: {counts.messages_after:,} used; system prompt and tools take {overhead:,} more",
        *(f"note: {warning_text(part)}" for part in counts.warnings),
    ]
    return visible("\n".join([*lines, "", *map(text_of, done.result.summary_messages[-1:])]))


class SessionsScreen(Screen[None]):
    """The newest sessions of this machine."""

    BINDINGS = [  # noqa: RUF012 - as Textual wants it
        Binding("slash", "filter", "Filter"),
        Binding("s", "sort", "Sort"),
        Binding("escape", "back", "Back", show=False),
        Binding("question_mark", "app.keys", "Keys"),
        Binding("q", "app.quit", "Quit"),
    ]

    def compose(self) -> ComposeResult:
        """The list."""
        yield Header(show_clock=False)
        yield Input(placeholder="words of a title or project, then Enter", id="filter")
        yield DataTable(id="sessions", cursor_type="row", zebra_stripes=True)
        yield Static("looking for sessions …", id="state", markup=False)
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Read the sessions outside the event loop, newest first."""
        self.title = "Sessions of this machine"
        self.query_one("#sessions", DataTable).focus()
        self.listed_rows: list[ListedSession] = []
        self.rows: list[ListedSession] = []
        self.sorting: Sorting = "age"
        self.reading = True
        self._read()

    @work(thread=True)
    def _read(self) -> None:
        from ullage.sessions.inspected import listed  # not for one session's first look

        for session in found_sessions(list(tool_folders()))[:60]:
            self.app.call_from_thread(self._add, listed(session))
        self.app.call_from_thread(self._finished)

    def _add(self, row: ListedSession) -> None:
        self.listed_rows.append(row)
        self._show()

    def _finished(self) -> None:
        self.reading = False
        self._show()

    def on_resize(self) -> None:
        """A narrow terminal shows fewer columns, to keep titles visible."""
        if hasattr(self, "listed_rows"):
            self._show()

    def _show(self) -> None:
        """Show the rows that match the filter, sorted; the cursor stays on its session."""
        table = self.query_one("#sessions", DataTable)
        at = self.rows[table.cursor_row] if self.rows else None
        words = self.query_one("#filter", Input).value.split()
        held = [row for row in self.listed_rows if holds(row, words)]
        self.rows = sorted(held, key=ORDER[self.sorting])
        table.clear(columns=True)
        width = self.size.width
        names, wide = (_WIDE if width >= 100 else _SLIM), 0
        rows = [
            [Text(text, justify=_side(name)) for name, text in _cells(row, names)]
            for row in self.rows
        ]
        for column, name in enumerate(names[:-1]):
            room = max([len(name), *(row[column].cell_len for row in rows)])
            wide += room + 2
            table.add_column(Text(name, justify=_side(name)), width=room)
        width_left = max(10, width - wide - 5)  # cells of its borders and of the scroll bar
        table.add_column(names[-1], width=width_left)
        for row in rows:
            row[-1].truncate(width_left, overflow="ellipsis")
            table.add_row(*row)
        if at in self.rows:
            table.move_cursor(row=self.rows.index(at))
        self.query_one("#state", Static).update(self._state())

    def _state(self) -> str:
        if not self.listed_rows:
            return "looking for sessions …" if self.reading else "no session was found"
        dollars = sum(row.dollars or 0 for row in self.rows)
        size = sum(row.tokens for row in self.rows)
        shown, whole = len(self.rows), len(self.listed_rows)
        count = f"{shown:,} of {whole:,}" if shown < whole else f"{shown:,}"
        cost = f", ${dollars:,.2f}" if dollars else ""
        reading = "; reading …" if self.reading else ""
        return f"{count} sessions by {self.sorting}: {size:,} tokens{cost}{reading}"

    def action_filter(self) -> None:
        """Focus on the filter."""
        self.query_one("#filter", Input).focus()

    def on_input_changed(self) -> None:
        """Filter while the user types."""
        self._show()

    def on_input_submitted(self) -> None:
        """Go to the list."""
        self.query_one("#sessions", DataTable).focus()

    def action_sort(self) -> None:
        """Cycle through age, tokens and cost."""
        ways = list(ORDER)
        self.sorting = ways[(ways.index(self.sorting) + 1) % len(ways)]
        self._show()

    def action_back(self) -> None:
        """Clear the filter."""
        self.query_one("#filter", Input).value = ""
        self.query_one("#sessions", DataTable).focus()

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Open the session."""
        self.app.push_screen(SessionScreen(opened_path(self.rows[event.cursor_row].session)))


_WIDE = ("age", "tool", "tokens", "fill", "cost", "project", "title")
_SLIM = ("age", "tokens", "fill", "cost", "project", "title")
_FIGURES = ("age", "tokens", "fill", "cost")
_PROJECT = {_WIDE: 28, _SLIM: 14}
"""Visible length of a project's end."""


def _side(name: str) -> Literal["left", "right"]:
    return "right" if name in _FIGURES else "left"


def _cells(row: ListedSession, names: tuple[str, ...]) -> list[tuple[str, str]]:
    project, most = home_relative(row.cwd), _PROJECT[names]
    texts = {
        "age": age(row.session.modified),
        "tool": row.session.tool,
        "tokens": f"{row.tokens:,}",
        "fill": f"{100 * row.tokens / row.window_tokens:.0f} %" if row.window_tokens else "–",
        "cost": "–" if row.dollars is None else f"${row.dollars:,.2f}",
        "project": end_of(project, most),
        "title": row.problem or row.title,
    }
    return [(name, visible(texts[name])) for name in names]


class SessionApp(App[None]):
    """Lists sessions, or shows the one of a transcript."""

    TITLE = "Ullage"
    CSS_PATH = "session_app.tcss"

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        super().__init__()
        self._path = None if path is None else Path(path)

    def action_keys(self) -> None:
        """Show what each key does, or hide it again."""
        if self.screen.query(HelpPanel):
            self.action_hide_help_panel()
        else:
            self.action_show_help_panel()

    def on_mount(self) -> None:
        """Show the session, or the list."""
        self.push_screen(SessionsScreen() if self._path is None else SessionScreen(self._path))
