"""Escapes text from files before it is printed, so that it cannot control the terminal or reverse its text direction."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

__all__ = ["SafeConsole", "json_printable", "printable"]

_HIDDEN = "\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
"""DEL, the C1 controls, line separators, and characters that set the direction of text."""

_TEXT = re.compile(f"[\x00-\x08\x0b-\x1f{_HIDDEN}]")
_JSON = re.compile(f"[{_HIDDEN}]")


def printable(text: str) -> str:
    r"""Escape every control character except line ends and tabs, such as `\x1b`."""
    return _TEXT.sub(_escaped, text.replace("\r\n", "\n"))


def json_printable(text: str) -> str:
    r"""The same for JSON, whose own escapes such as `\u202e` mean the character itself."""
    return _JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


class SafeConsole(Console):
    """A console that styles text and escapes the control characters in it."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """See `rich.console.Console`, with printable text."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else _safe(segment)

    def on_broken_pipe(self) -> None:
        """Leaves `ullage … | head` to `main`, which ends with 0; rich itself would end the program with 1."""
        raise BrokenPipeError


def _safe(segment: Segment) -> Segment:
    text: Any = printable(segment.text)
    return segment if text == segment.text else Segment(text, segment.style)
