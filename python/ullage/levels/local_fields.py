"""What of an item goes to the provider: its message, without what only a response or a log holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ullage.messages import message_of

__all__ = ["message_of", "wire"]

_LOCAL = frozenset(
    "id type model usage stop_reason stop_sequence stop_details container context_management diagnostics "
    "uuid timestamp".split()
)
"""Keys of a response or of an entry that no request takes."""


def wire(item: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The message as it is sent; the same object where nothing must be left out.

    Returns:
        `None` for an item that is no message, such as a boundary.
    """
    message = message_of(item)
    if message is None or _LOCAL.isdisjoint(message):
        return message
    return {key: value for key, value in message.items() if key not in _LOCAL}
