"""Messages of LangChain at the edges of a cut: which may stand there, and which calls and results belong together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["Kinds", "ending", "without_parted"]

Kinds = str | type | Sequence[str | type] | None
"""Types of messages, by name or class; `None`: any."""


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
    while True:
        calls, results = _ids(given)
        held_calls, held_results = _ids(kept)
        lost = (results & calls) - (held_calls & held_results)
        whole = [each for each in kept if not lost & _own(each)]
        whole = ending(ending(whole, end_on)[::-1], start_on)[::-1]
        if len(whole) == len(kept):
            return kept
        kept = whole


def _own(message: Any) -> set[str]:
    return _called(message) | _answered(message)


def _ids(messages: list[Any]) -> tuple[set[str], set[str]]:
    """The ids of calls and of results."""
    called = (each for message in messages for each in _called(message))
    answered = (each for message in messages for each in _answered(message))
    return set(called), set(answered)


def _called(message: Any) -> set[str]:
    calls = (getattr(message, name, None) or () for name in ("tool_calls", "invalid_tool_calls"))
    return {call["id"] for each in calls for call in each if call.get("id")}


def _answered(message: Any) -> set[str]:
    answered = getattr(message, "tool_call_id", None)
    return {answered} if answered else set()
