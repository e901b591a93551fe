"""A slider for the size of the new context's messages."""

from __future__ import annotations

from rich.text import Text
from textual.binding import Binding
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

from ullage.tui.first_look import bar_of

STEP = 5


class TargetSlider(Widget):
    """A share of the messages' current size in percent, moved by the arrow keys; system prompt and tools are not counted."""

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
        return Text(f"{bar_of(self.percent, 100, 40)}  {self.percent} % of its messages  (← →)")
