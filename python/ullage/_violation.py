"""What the verifier finds: the one class that both engines make."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Violation"]


class Violation(NamedTuple):
    """One broken rule. `message` -1: the request as a whole; `block` -1: the message as a whole."""

    rule: str  # such as "A05"
    severity: str  # "error" or "warning"
    message: int
    block: int
    detail: str
