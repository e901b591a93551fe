"""T01: every string is valid Unicode. A lone surrogate cannot be written as UTF-8: an SDK raises before it sends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from ullage.legality.findings import Violation
from ullage.messages import SystemPrompt, Tools, message_of

__all__ = ["check_unicode", "is_valid", "valid"]

# Deeper values are refused by rules of their own.
MAX_DEPTH = 300
DETAIL = "a string has a lone surrogate, which UTF-8 cannot hold"


def check_unicode(
    messages: Sequence[Any], *, system: SystemPrompt | None = None, tools: Tools | None = None
) -> Iterator[Violation]:
    """Where strings stand that cannot be sent.

    Args:
        messages: In the form of any provider; of an envelope only its message counts.
        system: The system prompt.
        tools: Tool definitions.
    """
    if _writable([messages, system, tools]):
        return
    for name, value in (("system", system), ("tools", tools)):
        if not is_valid(value):
            yield Violation("T01", "error", -1, -1, f"{name}: {DETAIL}")
    for index, item in enumerate(messages):
        message = message_of(item) or item
        for block in _broken(message):
            yield Violation("T01", "error", index, block, DETAIL)


def is_valid(value: Any, depth: int = 0) -> bool:
    """Whether no string in a value, keys included, has a lone surrogate."""
    if isinstance(value, str):
        return _is_text(value)
    if depth > MAX_DEPTH:
        return True
    if isinstance(value, Mapping):
        return all(
            is_valid(key, depth + 1) and is_valid(each, depth + 1) for key, each in value.items()
        )
    if isinstance(value, list | tuple):
        return all(is_valid(each, depth + 1) for each in value)
    return True


def valid(value: Any, depth: int = 0) -> Any:
    """The value with U+FFFD for each lone surrogate; the same object if it has none."""
    if isinstance(value, str):
        if _is_text(value):
            return value
        # Two halves that stand side by side are one character.
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if depth > MAX_DEPTH or is_valid(value, depth):
        return value
    if isinstance(value, Mapping):
        return {valid(key, depth + 1): valid(each, depth + 1) for key, each in value.items()}
    return [valid(each, depth + 1) for each in value]


def _broken(message: Any) -> Iterator[int]:
    """Blocks with such a string; -1: a field outside of the blocks."""
    if not isinstance(message, Mapping):
        yield from () if is_valid(message) else (-1,)
        return
    beside = True
    for key, value in message.items():
        if key in ("content", "parts") and isinstance(value, list | tuple):
            yield from (at for at, block in enumerate(value) if not is_valid(block))
        else:
            beside = beside and is_valid(key) and is_valid(value)
    yield from () if beside else (-1,)


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _writable(value: Any) -> bool:
    try:
        orjson.dumps(value, default=_plain, option=orjson.OPT_NON_STR_KEYS)
    except TypeError:
        return False
    return True


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else repr(value)
