"""The digest vocabulary, where the twin's other files look for it."""

from __future__ import annotations

from enum import IntFlag
from typing import TYPE_CHECKING

from ullage._engine.digests import (
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
    "Plain",
    "Role",
    "Violation",
    "plain",
]


class Plain:
    """The values of flags by their names."""

    def __init__(self, values: dict[str, int]) -> None:
        self.__dict__.update(values)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> int: ...


def plain(flags: type[IntFlag]) -> Plain:
    """Flags as plain numbers: arithmetic on members of an enumeration takes ten times as long."""
    return Plain({flag.name: flag.value for flag in flags if flag.name})
