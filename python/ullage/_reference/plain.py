"""Messages that need no second look: text, calls with ids of their own, results of open calls.

Most messages of an agent are like that. What is not recognised here is not wrong: it takes the longer way. The twin of
`rust/core/src/read/plain.rs`.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple, TypeGuard

__all__ = ["Plain", "read_plain"]


_KEYS: Final = frozenset(
    ("role", "content", "id", "type", "model", "usage", "stop_reason", "stop_sequence")
)
_WORDS: Final = frozenset(("type", "text", "cache_control"))
_CALL: Final = frozenset(("type", "id", "name", "input", "cache_control"))
_RESULT: Final = frozenset(("type", "tool_use_id", "content", "is_error", "cache_control"))
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,40}").fullmatch
_MARKERS: Final = ("[Old tool result content cleared]", "[Compacted:", "<persisted-output>")


class Plain(NamedTuple):
    """What is known of a plain message.

    Attributes:
        answer: Whether the model said it; else the user, or the host on their behalf.
        names: Ids of its calls, or of the calls that its results answer.
        longest: Characters of its longest result.
        chars: Characters of all its results.
    """

    answer: bool
    names: list[str]
    longest: int = 0
    chars: int = 0


def read_plain(message: Any, own: str = "") -> Plain | None:
    """Reads a message in Anthropic's form; `None`: it takes a closer look.

    Args:
        message: Anything.
        own: The provider's form, whose own spelling of a call may travel with it and which takes no thinking; empty: Anthropic's.
    """
    if type(message) is not dict or not _KEYS.issuperset(message):
        return None
    role, content = message.get("role"), message.get("content")
    if type(role) is not str or role not in ("user", "assistant"):
        return None
    if "type" in message and message["type"] != "message":
        return None
    if _is_text(content):
        return Plain(role == "assistant", [])
    if type(content) is not list or not content:
        return None
    return _answer(content, own) if role == "assistant" else _input(content)


def _answer(content: list[Any], own: str) -> Plain | None:
    names: list[str] = []
    for block in content:
        if type(block) is not dict:
            return None
        kind = block.get("type")
        if kind == "tool_use":
            if not _is_call(block, own):
                return None
            names.append(block["id"])
        elif kind == "text":
            if not _is_words(block):
                return None
        elif own or not _is_thought(block):
            return None
    return Plain(True, names)


def _input(content: list[Any]) -> Plain | None:
    names: list[str] = []
    longest = total = 0
    for block in content:
        if type(block) is not dict:
            return None
        if block.get("type") == "tool_result":
            chars = _result_chars(block)
            if not chars:
                return None
            names.append(block["tool_use_id"])
            longest, total = max(longest, chars), total + chars
        elif block.get("type") != "text" or not _is_words(block):
            return None
    return Plain(False, names, longest, total)


def _is_words(block: dict[str, Any]) -> bool:
    return _is_text(block.get("text")) and _WORDS.issuperset(block)


def _is_thought(block: dict[str, Any]) -> bool:
    """Whether a block is thinking as Anthropic's API gives it."""
    if block.get("type") == "redacted_thinking":
        return len(block) == 2 and _is_text(block.get("data"))
    fine = block.get("type") == "thinking" and type(block.get("thinking")) is str
    return fine and len(block) == 3 and _is_text(block.get("signature"))


def _is_call(block: dict[str, Any], own: str) -> bool:
    name = block.get("id")
    if type(name) is not str or not _ID(name):
        return False
    if type(block.get("name")) is not str or type(block.get("input")) is not dict:
        return False
    if _CALL.issuperset(block):
        return True
    foreign = block.get("foreign")
    return len(block) == 5 and bool(own) and type(foreign) is dict and foreign.keys() == {own}


def _result_chars(block: dict[str, Any]) -> int:
    """At least the characters of a result; 0: it takes a closer look."""
    if type(block.get("tool_use_id")) is not str or not _RESULT.issuperset(block):
        return 0
    content = block.get("content")
    if type(content) is not list:
        return _own_chars(content)
    total = 0
    for part in content:
        if type(part) is not dict or len(part) != 2 or part.get("type") != "text":
            return 0
        chars = _own_chars(part.get("text"))
        if not chars:
            return 0
        total += chars + 2
    return total


def _own_chars(text: Any) -> int:
    """Characters of a text; 0: it is none, or empty, or stands for a result that was removed."""
    return len(text) if _is_text(text) and not text.startswith(_MARKERS) else 0


def _is_text(value: Any) -> TypeGuard[str]:
    return type(value) is str and bool(value)
