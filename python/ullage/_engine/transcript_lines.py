"""The value of one line of a transcript, for both engines: fast where that is exact, tolerant where it must be."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

import orjson

from ullage.exceptions import TranscriptChanged

# An integer of more digits may be one of more than 64 bits, which the fast parser would round.
_LONG_DIGITS = re.compile(rb"[0-9]{19}")


def parse_line(raw: bytes) -> Any:
    """The value of JSON bytes, `None` if they are none.

    Lone surrogates and control characters are let through, bytes that are no UTF-8 replaced: a line
    is not lost for one of them.
    """
    value = plain(raw)
    return decoded(raw) if value is None else value


def plain(line: bytes) -> Any:
    """The value of a line that the fast parser reads exactly, else `None`."""
    if _LONG_DIGITS.search(line):
        return None
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        return None


def refused(name: str) -> NoReturn:
    """For `parse_constant`: JSON has no `NaN` and no infinity."""
    raise ValueError(name)


_EXACT = json.JSONDecoder(strict=False, parse_constant=refused)


def decoded(raw: bytes, decoder: json.JSONDecoder = _EXACT) -> Any:
    """What a decoder of text makes of the bytes, `None` if it refuses them."""
    try:
        return decoder.decode(raw.decode(errors="replace"))
    except (ValueError, RecursionError):
        return None


def transcript_changed(
    path: str, line: int | None = None, offset: int | None = None
) -> TranscriptChanged:
    """The error for a file that does not hold any more what was read of it."""
    hint = "open it again: another program cut it off or wrote over it"
    return TranscriptChanged(
        "changed since it was read", path=path, line=line, offset=offset, hint=hint
    )
