"""Texts that repairs put into a request, as constants, so that equal requests stay equal to the byte.

None of them speaks for the user, agrees to anything or asks the model to go on.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "DISPLACED",
    "DOCUMENT",
    "EARLIER",
    "EMPTY_ERROR",
    "IMAGE",
    "INTERRUPTED",
    "NO_MESSAGES",
    "NO_REPLY",
    "ORPHANS",
    "RECEIVED",
    "SYSTEM_HEAD",
    "TURN_CLOSED",
    "left_out",
]

INTERRUPTED: Final = "[No result: the tool call was interrupted before it returned.]"
ORPHANS: Final = "[Tool results whose calls are no longer in this conversation were left out.]"
DISPLACED: Final = "[A tool result that belongs to no open call of this conversation:]"
NO_REPLY: Final = "[The user has not replied yet.]"
NO_MESSAGES: Final = "[There are no messages yet.]"
TURN_CLOSED: Final = (
    "[Earlier reasoning was removed because earlier parts of this conversation changed.]"
)
EARLIER: Final = "[Earlier messages are not shown.]"
RECEIVED: Final = "[Tool results received.]"
SYSTEM_HEAD: Final = "[System message]\n"
EMPTY_ERROR: Final = "[The tool failed without a message.]"
IMAGE: Final = "[image]"
DOCUMENT: Final = "[document]"


def left_out(kind: str) -> str:
    """Stands where a block was that its message may not hold."""
    return f"[{kind}]"
