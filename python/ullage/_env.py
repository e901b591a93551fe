"""Every environment variable that Ullage reads, and how its value is understood.

Nothing else in the library looks at `os.environ`.
"""

from __future__ import annotations

import os

__all__ = ["ENGINE", "flag", "text"]

ENGINE = "ULLAGE_ENGINE"
"""`rust` or `python` forces an engine; unset: Rust, and plain Python only where no extension exists."""

_TRUTHY = frozenset({"1", "true", "yes", "on"})


def text(name: str) -> str:
    """The value of a variable without surrounding white space; empty if unset."""
    return os.environ.get(name, "").strip()


def flag(name: str) -> bool:
    """Whether a variable says yes: `1`, `true`, `yes` or `on`, in any case."""
    return text(name).lower() in _TRUTHY
