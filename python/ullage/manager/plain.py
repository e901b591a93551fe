"""Messages that need no second look: text, calls with ids of their own, results of open calls.

Most messages of an agent are like that. What is not recognised here is not wrong: it takes the longer way.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, TypeGuard

from ullage.manager.call_ids import CallIds
from ullage.messages import CLEARED

__all__ = ["calls_in", "is_plain", "results_in"]


_KEYS: Final = frozenset(
    ("role", "content", "id", "type", "model", "usage", "stop_reason", "stop_sequence")
)
_WORDS: Final = frozenset(("type", "text", "cache_control"))
_CALL: Final = frozenset(("type", "id", "name", "input", "cache_control"))
_RESULT: Final = frozenset(("type", "tool_use_id", "content", "is_error", "cache_control"))
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,40}").fullmatch
_NO_RESULTS: Final[tuple[Sequence[str], int, int]] = ((), 0, 0)
_MARKERS: Final = (CLEARED, "[Compacted:", "<persisted-output>")


def is_plain(message: Any) -> bool:
    """Whether a message has no keys that need a closer look; its content may."""
    if type(message) is not dict or "content" not in message:
        return False
    if type(message.get("role")) is not str:
        return False
    fine = len(message) == 2 or _KEYS.issuperset(message)
    return fine and ("type" not in message or message["type"] == "message")


def calls_in(content: Any, known: CallIds, own: str = "") -> Sequence[str] | None:
    """Ids of the calls in a plain answer; `None`: it takes a closer look.

    Args:
        content: Of an answer in Anthropic's form.
        known: Ids that the conversation has used.
        own: The provider's form, whose own spelling of a call may travel with it; empty: none may.
    """
    if type(content) is not list:
        return () if type(content) is str and content else None
    names: list[str] = []
    for block in content:
        if type(block) is not dict:
            return None
        kind = block.get("type")
        if kind == "tool_use":
            name = block.get("id")
            if type(name) is not str or not _ID(name) or not _is_call(block, own):
                return None
            if name in known.calls or name in known.answered or name in names:
                return None
            names.append(name)
        elif kind == "text":
            if not _is_words(block):
                return None
        elif own or not _is_thought(block):
            return None
    return names if content else None


def _is_words(block: dict[str, Any]) -> bool:
    text = block.get("text")
    return type(text) is str and bool(text) and (len(block) == 2 or _WORDS.issuperset(block))


def _is_thought(block: dict[str, Any]) -> bool:
    """Whether a block is thinking as Anthropic's API gives it; other providers take none of it."""
    if block.get("type") == "redacted_thinking":
        return len(block) == 2 and _is_text(block.get("data"))
    fine = block.get("type") == "thinking" and type(block.get("thinking")) is str
    return fine and len(block) == 3 and _is_text(block.get("signature"))


def _is_call(block: dict[str, Any], own: str) -> bool:
    if type(block.get("name")) is not str or type(block.get("input")) is not dict:
        return False
    if len(block) == 4 or _CALL.issuperset(block):
        return True
    foreign = block.get("foreign")
    return len(block) == 5 and bool(own) and type(foreign) is dict and foreign.keys() == {own}


def results_in(content: Any, known: CallIds) -> tuple[Sequence[str], int, int] | None:
    """Of a plain message of the user: ids of the calls that it answers, characters of its longest result, of all its results.

    Args:
        content: Of a message in Anthropic's form.
        known: Ids that the conversation has used.

    Returns:
        `None`: it takes a closer look.
    """
    if type(content) is not list:
        return _NO_RESULTS if type(content) is str and content else None
    names: list[str] = []
    longest = total = 0
    for block in content:
        if type(block) is not dict:
            return None
        kind = block.get("type")
        if kind == "tool_result":
            name, text = block.get("tool_use_id"), block.get("content")
            if type(name) is not str or name not in known.calls or name in known.answered:
                return None
            if type(text) is str:
                chars = 0 if text.startswith(_MARKERS) else len(text)
            else:
                chars = _chars_of(text)
            if not chars or name in names or not (len(block) == 3 or _RESULT.issuperset(block)):
                return None
            names.append(name)
            total += chars
            if chars > longest:
                longest = chars
        elif kind != "text" or not _is_words(block):
            return None
    return (names, longest, total) if content else None


def _chars_of(content: Any) -> int:
    """At least the characters of texts in a list; 0: it is not one, or one is empty or stands for a result that was removed."""
    if type(content) is not list:
        return 0
    total = 0
    for block in content:
        if type(block) is not dict or len(block) != 2 or block.get("type") != "text":
            return 0
        text = block.get("text")
        if not _is_text(text) or text.startswith(_MARKERS):
            return 0
        total += len(text) + 2
    return total


def _is_text(value: Any) -> TypeGuard[str]:
    return type(value) is str and bool(value)
