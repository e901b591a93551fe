"""One session on the terminal: what fills it, its messages, what the levels would do, a compaction."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, VerticalScroll
from textual.screen import Screen
from textual.widgets import Button, DataTable, Footer, Header, Input, Static, TabbedContent, TabPane

from ullage.exceptions import UllageError
from ullage.recall.text import visible
from ullage.sessions.find import title_of
from ullage.tui.first_look import bar_of, glance, rows_text
from ullage.tui.target_slider import TargetSlider

if TYPE_CHECKING:
    # Loaded next to the first look, which does not need them.
    from ullage.sessions import CompactedSession
    from ullage.tui.shown_session import RemovalRow, ShownSession

FOLLOW_SECONDS = 1.0

_FIRST = {
    "now": "#now VerticalScroll",
    "messages": "#list",
    "levels": "#removals",
    "compact": "#target",
}
"""What has the focus first on each tab."""


class SessionScreen(Screen[None]):
    """Shows a session, and follows it while its tool writes to it.

    Args:
        path: A transcript.
    """

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
                yield Button("Write to a file of its own", id="write", variant="primary")
                with VerticalScroll():
                    yield Static("", id="preview", markup=False)
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Open the file next to the event loop."""
        self.title = visible(self.path.name)
        self.query_one("#list", DataTable).add_columns("#", "who", "tokens", "begins")
        self.query_one("#removals", DataTable).add_columns("request", "level", "freed", "why")
        self._load()
        self.set_interval(FOLLOW_SECONDS, self._look)

    # ---- opening and following

    def _load(self) -> None:
        self.run_worker(self._open, thread=True, exclusive=True, group="open")

    def _open(self) -> None:
        try:
            if self.shown is None:
                self.app.call_from_thread(self._glanced, glance(self.path))
            from ullage.tui.shown_session import ShownSession

            shown = ShownSession(self.path)
        except (UllageError, OSError) as exc:
            self.app.call_from_thread(self._failed, exc)
            return
        self.app.call_from_thread(self._opened, shown)

    def _glanced(self, text: str) -> None:
        self.query_one("#holds", Static).update(Text(text))

    def _failed(self, error: Exception) -> None:
        self.query_one("#holds", Static).update(visible(f"cannot be read: {error}"))

    def _opened(self, shown: ShownSession) -> None:
        self.shown = shown
        self.title = visible(title_of(shown.session)) or self.title
        self._show_now(shown)
        self._list(self.query_one("#words", Input).value)
        self.removals = []

    def on_resize(self) -> None:
        """Bars take what the names leave of a line."""
        if self.shown is not None:
            self._show_now(self.shown)

    def _look(self) -> None:
        if self.follow and self.shown is not None and self.shown.has_changed():
            self._load()

    def _show_now(self, shown: ShownSession) -> None:
        found, marks = shown.holds(), shown.window
        self.messages_tokens = found.anchored_tokens - shown.overhead_tokens()
        head = [
            f"{visible(shown.session.model) or 'unknown model'} · {shown.session.format} · {shown.session.size:,} bytes",
            f"{bar_of(found.anchored_tokens, marks.context, 36)}  {found.anchored_tokens:,} of {marks.context:,} tokens",
            f"automatic compaction at {marks.threshold:,} · {len(shown.session.messages):,} messages · {len(shown.session.boundaries):,} earlier compactions",
        ]
        sections = {
            "By category": list(found.categories.items()),
            "By tool": [(each.name, each.tokens) for each in found.tools],
            "By file": [(each.path, each.tokens) for each in found.files],
            "What each level would free now": [
                (each.level, each.tokens) for each in found.freeable
            ],
        }
        text = Text("\n".join(head) + "\n")
        for name, rows in sections.items():
            text.append(f"\n{name}\n", style="bold")
            text.append(rows_text(rows, found.anchored_tokens, self.size.width - 8))
        self.query_one("#holds", Static).update(text)

    # ---- messages and search

    def action_search(self) -> None:
        """Go to the search."""
        self.action_tab("messages")
        self.query_one("#words", Input).focus()

    def action_tab(self, name: str) -> None:
        """Go to a tab, and into it: the tab of what has the focus is the one that is shown."""
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
        """Show what the cursor is on."""
        key = event.row_key.value if event.row_key else None
        if key is None or self.shown is None:
            return
        if event.data_table.id == "list":
            self.query_one("#message", Static).update(
                _marked(self.shown.text(int(key)), self.words)
            )
        elif int(key) < len(self.removals):
            self.query_one("#removed", Static).update(Text(self.removals[int(key)].text))

    # ---- levels and compaction

    def on_tabbed_content_tab_activated(self, event: TabbedContent.TabActivated) -> None:
        """What takes longer is asked when it is looked at."""
        if event.pane.id == "levels" and not self.removals and self.shown is not None:
            self.run_worker(self._replay, thread=True, exclusive=True, group="replay")
        elif event.pane.id == "compact":
            slider = self.query_one(TargetSlider)
            slider.focus()
            self._preview(slider.percent)

    def _replay(self) -> None:
        from ullage.tui.shown_session import removals_of

        if self.shown is not None:
            self.app.call_from_thread(self._replayed, removals_of(self.shown.session))

    def _replayed(self, found: list[RemovalRow]) -> None:
        self.removals = found
        table = self.query_one("#removals", DataTable)
        table.clear()
        for at, row in enumerate(found):
            table.add_row(
                str(row.request), row.level, f"{row.freed_tokens:,}", Text(row.why), key=str(at)
            )
        if not found and self.shown is not None:
            said = f"In a window of {self.shown.window.context:,} tokens no level had to act.\n\nCLAUDE_CODE_AUTO_COMPACT_WINDOW=200000 ullage tui … tries a smaller one."
            self.query_one("#removed", Static).update(said)

    def on_target_slider_moved(self, event: TargetSlider.Moved) -> None:
        """Try the new size."""
        self._preview(event.percent)

    def _target(self, percent: int) -> int:
        return max(1, self.messages_tokens * percent // 100)

    def _preview(self, percent: int) -> None:
        if self.shown is None:
            return
        shown, target = self.shown, self._target(percent)
        self.query_one("#preview", Static).update(f"trying {target:,} tokens …")
        self.run_worker(lambda: self._try(shown, target), thread=True, exclusive=True, group="try")

    def _try(self, shown: ShownSession, target: int) -> None:
        try:
            text = preview_text(shown.tried(target), target)
        except UllageError as exc:
            text = visible(f"{exc}\n{exc.hint}")
        self.app.call_from_thread(self.query_one("#preview", Static).update, Text(text))

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """Write the compaction next to the session; the session itself stays as it is."""
        if self.shown is None:
            return
        output = self.path.with_name(f"{self.path.stem}.compacted.jsonl")
        try:
            done = self.shown.written(self._target(self.query_one(TargetSlider).percent), output)
        except UllageError as exc:
            self.notify(visible(f"{exc}\n{exc.hint}"), severity="error", markup=False)
            return
        said = f"written: {output}" if done.path else f"nothing to gain: {done.result.reason}"
        self.notify(visible(said), markup=False)

    def action_undo(self) -> None:
        """Say what an undo would do; the second time, do it."""
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
            said = f"u again takes back the compaction of {done.when or 'an unknown time'}: {done.messages_after:,} messages"
            self.notify(said, severity="warning", markup=False)
        self._may_undo = not self._may_undo

    def action_follow(self) -> None:
        """Follow the file, or stop following it."""
        self.follow = not self.follow
        self.notify("following the file" if self.follow else "not following the file")

    def action_back(self) -> None:
        """Out of a search; then to the list of sessions, if it is there."""
        words = self.query_one("#words", Input)
        if words.value or words.has_focus:
            words.value = ""
            self._list("")
            self.query_one("#list", DataTable).focus()
        elif len(self.app.screen_stack) > 2:
            self.app.pop_screen()


def _marked(text: str, words: str) -> Text:
    """A text with the words of a search marked."""
    made = Text(text)
    if words:
        made.highlight_regex(f"(?i){re.escape(words)}", "reverse")
    return made


def preview_text(done: CompactedSession, target: int) -> str:
    """What a compaction would do, with its summary."""
    from ullage.compaction.job import warning_text

    counts = done.result.report
    if not done.result.compacted:
        return f"nothing would change: {done.result.reason.replace('_', ' ')}"
    beside = counts.overhead_tokens
    lines = [
        f"before  {counts.tokens_before:>11,} tokens",
        f"after   {counts.tokens_after:>11,} tokens in {len(done.messages):,} messages",
        f"target  {target:>11,} tokens of messages: {counts.messages_after:,} used; system prompt and tools take {beside:,} more",
        *(f"note: {warning_text(each)}" for each in counts.warnings),
    ]
    summary = next(reversed(done.result.summary_messages), {})
    content = summary.get("message", summary).get("content", "")
    text = (
        content
        if isinstance(content, str)
        else "\n".join(str(each.get("text", "")) for each in content)
    )
    return visible("\n".join([*lines, "", text]))
