"""What a check finds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

__all__ = ["Finding", "error", "ident", "warning", "worst_first"]


class Finding(NamedTuple):
    """One broken rule.

    Attributes:
        rule: Its id, such as `A05`.
        severity: `error`: the API refuses the request; `warning`: some platform or model does.
        message: Index of the message, -1 for the request as a whole.
        block: Index of the block in it, -1 for the message as a whole.
        text: What the API answers, as far as its words are known.
        status: HTTP status of that answer.
        code: Machine-readable code of that answer, or empty.
    """

    rule: str
    severity: str
    message: int
    block: int
    text: str
    status: int = 400
    code: str = ""


def error(
    rule: str, at: tuple[int, int], text: str, *, status: int = 400, code: str = ""
) -> Finding:
    """A broken rule that is refused."""
    return Finding(rule, "error", *at, text, status, code)


def warning(rule: str, at: tuple[int, int], text: str) -> Finding:
    """A broken rule that is refused elsewhere, or costs."""
    return Finding(rule, "warning", *at, text)


def ident(value: Any) -> str:
    """An id or name to compare by; what is no string stands as its repr."""
    return value if isinstance(value, str) else repr(value)


def worst_first(found: Iterable[Finding]) -> list[Finding]:
    """Errors before warnings, then by place; equal findings once."""
    return sorted(set(found), key=lambda f: (f.severity, f.message, f.block, f.rule, f.text))
