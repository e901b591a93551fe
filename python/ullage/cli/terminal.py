"""The console of a terminal, which a pipe does not load: rich takes longer to import than most reports to make."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from ullage.recall.text import visible


class SafeConsole(Console):
    """A console that styles text and escapes the control characters in it."""

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, highlight=False, emoji=False)
        # In a pipe, lines stay whole so that grep can use them; on a terminal its width applies.
        self.soft_wrap = not self.file.isatty()

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """See `rich.console.Console`, with printable text."""
        for segment in super().render(renderable, options):
            text = segment.text if segment.control else str(visible(segment.text))
            yield segment if text == segment.text else Segment(text, segment.style)

    def on_broken_pipe(self) -> None:
        """Leave `ullage … | head` to `main`, which exits with 0; rich itself would exit with 1."""
        raise BrokenPipeError
