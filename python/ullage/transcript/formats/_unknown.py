"""What a file is that no reader knows: the place and the value that a user can look at."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ullage.transcript.formats._source import OpenedFile

__all__ = ["described"]

_LOOKED_AT = 1 << 20
"""Characters of a file that are parsed for the place where it stops to be JSON."""

_SHOWN = 40


def described(source: OpenedFile) -> str:
    """Why a file is not a transcript, in a few words to follow a colon.

    Args:
        source: The file.
    """
    try:
        text = source.data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return f"byte {error.start:,} is not UTF-8"
    told = text[:_LOOKED_AT].lstrip()
    try:
        value, _ = json.JSONDecoder().raw_decode(told)
    except RecursionError:
        return "it is nested too deeply"
    except json.JSONDecodeError as error:
        skipped = text[: len(text) - len(text.lstrip())].count("\n")
        cut = len(told) < len(text.lstrip())
        if cut and (error.pos >= len(told) or error.msg.startswith("Unterminated")):
            return f"its first value is not at its end after {_LOOKED_AT:,} characters"
        found = told[error.pos : error.pos + 20]
        here = f"at {found!r}" if found else "where it ends"
        return f"line {error.lineno + skipped}, column {error.colno} is not JSON, {here}"
    return f"it holds {_named(value)}"


def _named(value: Any) -> str:
    if isinstance(value, Mapping):
        if "role" in value:
            return f"a message whose role is {_short(value['role'])}"
        keys = ", ".join(_short(key) for key in list(value)[:5])
        return f"an object with the keys {keys}" if keys else "an empty object"
    if isinstance(value, list):
        return f"a list that begins with {_named(value[0])}" if value else "an empty list"
    return f"the {type(value).__name__} {_short(value)}" if value is not None else "null"


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= _SHOWN else shown[:_SHOWN] + "…"
