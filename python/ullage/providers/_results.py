"""Puts tool results after their calls while a conversation is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ullage.messages import Block

__all__ = ["place_result"]


def place_result(messages: list[dict[str, Any]], block: Block) -> bool:
    """Puts a result into the user message right after its call, and makes that message if need be.

    Args:
        messages: Internal messages so far; changed in place. Results that were placed before may grow.
        block: A `tool_result`.

    Returns:
        `False` if the result did not stand there by itself: something came between it and its call,
        or it has no call; then it is a message of its own at the end.
    """
    at = _index_of_call(messages, block.get("tool_use_id"))
    if at is None:
        messages.append({"role": "user", "content": [block]})
        return False
    follower = messages[at + 1] if at + 1 < len(messages) else None
    last = follower is None or at + 2 == len(messages)
    if follower is not None and holds_results(follower):
        follower["content"].append(block)
        return last
    messages.insert(at + 1, {"role": "user", "content": [block]})
    return follower is None


def holds_results(message: Mapping[str, Any]) -> bool:
    """Whether a message starts with a tool result."""
    blocks = message.get("content")
    first = blocks[0] if isinstance(blocks, list) and blocks else None
    return isinstance(first, Mapping) and first.get("type") == "tool_result"


_NEAR = 64
"""Messages that are searched backwards: a result that comes later than that has lost its call."""


def _index_of_call(messages: list[dict[str, Any]], call: Any) -> int | None:
    for at in range(len(messages) - 1, max(-1, len(messages) - 1 - _NEAR), -1):
        message = messages[at]
        if message["role"] != "assistant" or not isinstance(message["content"], list):
            continue
        if any(
            block.get("type") == "tool_use" and block.get("id") == call
            for block in message["content"]
        ):
            return at
    return None
