"""Messages of LangChain at the edges of a cut: which may stand there, and which calls and results belong together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["Kinds", "ending", "without_parted"]

Kinds = str | type | Sequence[str | type] | None
"""Types of messages, by name or class; `None`: any."""


_CALLING, _ANSWERING = frozenset(("ai", "AIMessageChunk")), frozenset(("tool", "ToolMessageChunk"))
_NAMELESS: frozenset[Any] = frozenset((None, ""))


def ending(messages: list[Any], kinds: Kinds) -> list[Any]:
    """Without what follows the last message of these kinds; `None`: all."""
    while kinds and messages and not _is(messages[-1], kinds):
        messages = messages[:-1]
    return messages


def _is(message: Any, kinds: str | type | Sequence[str | type]) -> bool:
    each = [kinds] if isinstance(kinds, str | type) else kinds
    return message.type in [k for k in each if isinstance(k, str)] or isinstance(
        message, tuple(k for k in each if isinstance(k, type))
    )


def without_parted(
    kept: list[Any], given: list[Any], *, start_on: Kinds = None, end_on: Kinds = None
) -> list[Any]:
    """What was kept without results whose call was cut off, and without calls whose results were.

    What had no counterpart in `given` stays. Types to start and end on hold afterwards too.
    """
    if len(kept) == len(given):
        return kept
    calls, results = _ids(given)
    both = calls & results
    while True:
        held_calls, held_results = _ids(kept)
        lost = both - (held_calls & held_results)
        if not lost:
            return kept
        whole = [each for each in kept if not lost & _own(each)]
        whole = ending(ending(whole, end_on)[::-1], start_on)[::-1]
        if len(whole) == len(kept):
            return kept
        kept = whole


def _own(message: Any) -> set[str]:
    """The ids of a message's calls, or of the call that it answers."""
    return set().union(*_ids([message]))


def _ids(messages: list[Any]) -> tuple[set[str], set[str]]:
    """The ids of calls and of results."""
    called: set[str] = set()
    answered: set[str] = set()
    for message in messages:
        kind = message.type  # asking a message for a field that it does not have is slow
        if kind in _CALLING:
            for call in message.tool_calls:
                called.add(call["id"])
            for wrong in message.invalid_tool_calls:
                called.add(wrong["id"])
        elif kind in _ANSWERING:
            answered.add(message.tool_call_id)
    return called - _NAMELESS, answered - _NAMELESS
