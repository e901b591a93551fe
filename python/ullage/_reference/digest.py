"""The digest vocabulary, where the twin's other files look for it."""

from __future__ import annotations

from ullage.digests import (
    BlockDigest,
    BlockFlag,
    BlockKind,
    MessageDigest,
    MessageFlag,
    Role,
    Violation,
)

__all__ = [
    "BlockDigest",
    "BlockFlag",
    "BlockKind",
    "MessageDigest",
    "MessageFlag",
    "Role",
    "Violation",
]
