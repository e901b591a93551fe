"""Messages that need no second look: text, calls with ids of their own, results of open calls.

Most messages of an agent are like that. What is not recognised here is not wrong: it takes the longer way.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple, TypeGuard

from ullage.manager.call_ids import CallIds
from ullage.messages import CLEARED

__all__ = ["Plain", "read_plain"]


class Plain(NamedTuple):
    """What has to be known of such a message.

    Attributes:
        calls: Ids of its calls.
        results: Ids of the calls that it answers.
        longest: Characters of its longest result.
        chars: Of all its results.
    """

    calls: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    longest: int = 0
    chars: int = 0


_TEXT: Final = Plain()
_KEYS: Final = frozenset(
    ("role", "content", "id", "type", "model", "usage", "stop_reason", "stop_sequence")
)
_WORDS: Final = frozenset(("type", "text", "cache_control"))
_CALL: Final = frozenset(("type", "id", "name", "input", "cache_control"))
_RESULT: Final = frozenset(("type", "tool_use_id", "content", "is_error", "cache_control"))
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,40}").fullmatch
_MARKERS: Final = (CLEARED, "[Compacted:", "<persisted-output>")


def read_plain(message: Any, known: CallIds, own: str = "") -> Plain | None:
    """What is known of a plain message; `None`: it takes a closer look.

    Args:
        message: Of Anthropic's form, bare.
        known: Ids that the conversation has used.
        own: The provider's form, whose own spelling of a call may travel with it; empty: none may.
    """
    if type(message) is not dict or not _KEYS.issuperset(message):
        return None
    role, content = message.get("role"), message.get("content")
    if type(role) is not str or message.get("type", "message") != "message":
        return None
    if role == "assistant":
        return _said(content, known, own)
    return _given(content, known) if role == "user" else None


def _said(content: Any, known: CallIds, own: str) -> Plain | None:
    if type(content) is not list:
        return _TEXT if type(content) is str and content else None
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
            if not _WORDS.issuperset(block) or not _is_text(block.get("text")):
                return None
        elif own or not _is_thought(block):
            return None
    return Plain(tuple(names)) if content else None


def _is_thought(block: dict[str, Any]) -> bool:
    """Whether a block is thinking as Anthropic's API gives it; other providers take none of it."""
    if block.get("type") == "redacted_thinking":
        return len(block) == 2 and _is_text(block.get("data"))
    fine = block.get("type") == "thinking" and type(block.get("thinking")) is str
    return fine and len(block) == 3 and _is_text(block.get("signature"))


def _is_call(block: dict[str, Any], own: str) -> bool:
    if type(block.get("name")) is not str or type(block.get("input")) is not dict:
        return False
    if _CALL.issuperset(block):
        return True
    foreign = block.get("foreign")
    return len(block) == 5 and bool(own) and type(foreign) is dict and foreign.keys() == {own}


def _given(content: Any, known: CallIds) -> Plain | None:
    if type(content) is not list:
        return _TEXT if type(content) is str and content else None
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
            chars = len(text) if type(text) is str else _chars_of(text)
            if not chars or name in names or not _RESULT.issuperset(block):
                return None
            if type(text) is str and text.startswith(_MARKERS):
                return None
            names.append(name)
            total += chars
            longest = max(longest, chars)
        elif kind != "text" or not _WORDS.issuperset(block) or not _is_text(block.get("text")):
            return None
    return Plain((), tuple(names), longest, total) if content else None


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
