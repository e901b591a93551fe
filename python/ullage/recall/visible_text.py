"""Text of a session for a screen: what would control it, or reverse the direction of text, is shown as an escape."""

from __future__ import annotations

__all__ = ["visible"]

_HIDDEN = {
    code: f"\\u{code:04x}"
    for code in (*range(0x9), 0xB, *range(0xE, 0x20), *range(0x7F, 0xA0), 0x61C, 0x200E, 0x200F,
                 *range(0x2028, 0x202F), *range(0x2066, 0x206A), *range(0xD800, 0xE000))
}  # fmt: skip


def visible(text: str) -> str:
    """The text with control characters, except line ends and tabs, and lone surrogates as escapes."""
    return text.translate(_HIDDEN)
