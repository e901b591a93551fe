"""T01: a request is UTF-8, so no string in it may hold a lone surrogate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.oracle.checker.report import Finding, error

__all__ = ["check_text"]

_WORDS = "'utf-8' codec can't encode character: surrogates not allowed"


def check_text(body: dict[str, Any]) -> Iterator[Finding]:
    """One finding for each message with such a string, and one for the rest of the body."""
    lists = [body[key] for key in ("messages", "input", "contents") if key in body]
    for index, message in enumerate(lists[0] if lists and isinstance(lists[0], list) else ()):
        if _lone(message):
            yield error("T01", (index, -1), _WORDS)
    rest = [value for key, value in body.items() if key not in ("messages", "input", "contents")]
    if _lone(rest):
        yield error("T01", (-1, -1), _WORDS)


def _lone(value: Any) -> bool:
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str) and any("\ud800" <= char <= "\udfff" for char in one):
            return True
        if isinstance(one, dict):
            waiting += [*one, *one.values()]
        elif isinstance(one, list):
            waiting += one
    return False
