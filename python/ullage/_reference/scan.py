"""The structure of a line that a strict parser refuses. The twin of `rust/core/src/jsonl/{scan,tape}.rs`.

Escapes of lone surrogates, control characters inside strings, and anything at all inside containers
that nothing counts are no reason to give a line up.
"""

from __future__ import annotations

import json
import re
from typing import Any

from ullage._engine.transcript_lines import decoded, refused

__all__ = ["scan"]

NOT_AN_OBJECT = "not a JSON object"
UNFINISHED = "ends inside the object"
MALFORMED = "malformed JSON"
TRAILING = "text after the object"

COUNTED = frozenset(
    b"message content usage tool_calls function_call reasoning_content refusal".split()
)
"""Keys of an entry whose containers are looked into."""

_BLANK = re.compile(rb"[ \t\r\n]*")
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_ESCAPES = re.compile(rb'(?:[^\\]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*', re.DOTALL)
_WORD = re.compile(rb"[-+.0-9A-Za-z]*")
_SCALAR = re.compile(rb"true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_BRACKET = re.compile(rb'["{}\[\]]')
# More digits than Python converts; a number that no digest accepts stands for them.
_MAX_DIGITS = 4300
_TOO_LARGE = 1 << 20_000


class _Broken(Exception):
    """The line is not one object; the argument says why."""


def scan(line: bytes) -> tuple[dict[str, Any] | None, str]:
    """The object in a line of UTF-8, uncounted containers empty, or what is wrong with it."""
    try:
        at = _blank(line, 0)
        if line[at : at + 1] != b"{":
            return None, NOT_AN_OBJECT
        found: dict[str, Any] = {}
        end = _object(line, at, found)
        if _blank(line, end) < len(line):
            return None, TRAILING
    except _Broken as broken:
        return None, str(broken)
    except RecursionError:
        return {}, ""
    return found, ""


def _integer(digits: str) -> int:
    return int(digits) if len(digits) <= _MAX_DIGITS else _TOO_LARGE


_ANY_SIZE = json.JSONDecoder(strict=False, parse_int=_integer, parse_constant=refused)


def _object(line: bytes, start: int, found: dict[str, Any] | None) -> int:
    """Walks over an object, into `found` if it is the line's own, and returns the place after it."""
    at = _expect(line, start + 1, b'"}')
    while line[at : at + 1] == b'"':
        stop = _string(line, at)
        value = _blank(line, _expect(line, stop, b":") + 1)
        end = _member(line, line[at:stop], value, found)
        at = _expect(line, end, b",}")
        if line[at : at + 1] == b",":
            at = _expect(line, at + 1, b'"')
    return at + 1


def _member(line: bytes, key: bytes, at: int, found: dict[str, Any] | None) -> int:
    if found is None:
        return _value(line, at)
    skipped = line[at : at + 1] in (b"{", b"[") and b"\\" not in key and key[1:-1] not in COUNTED
    end = _container(line, at) if skipped else _value(line, at)
    found[decoded(key)] = {} if skipped else decoded(line[at:end], _ANY_SIZE)
    return end


def _array(line: bytes, start: int) -> int:
    at = _blank(line, start + 1)
    if line[at : at + 1] == b"]":
        return at + 1
    while True:
        at = _expect(line, _value(line, at), b",]")
        if line[at : at + 1] == b"]":
            return at + 1
        at = _blank(line, at + 1)


def _value(line: bytes, at: int) -> int:
    match line[at : at + 1]:
        case b'"':
            return _string(line, at)
        case b"{":
            return _object(line, at, None)
        case b"[":
            return _array(line, at)
    return _scalar(line, at)


def _blank(line: bytes, at: int) -> int:
    match = _BLANK.match(line, at)
    return match.end() if match else at


def _expect(line: bytes, at: int, wanted: bytes) -> int:
    at = _blank(line, at)
    if at >= len(line):
        raise _Broken(UNFINISHED)
    if line[at] not in wanted:
        raise _Broken(MALFORMED)
    return at


def _string(line: bytes, at: int) -> int:
    match = _STRING.match(line, at)
    if match is None:
        raise _Broken(UNFINISHED)
    if not _ESCAPES.fullmatch(line, at + 1, match.end() - 1):
        raise _Broken(MALFORMED)
    return match.end()


def _scalar(line: bytes, at: int) -> int:
    word = _WORD.match(line, at)
    end = word.end() if word else at
    if end == len(line):
        raise _Broken(UNFINISHED)
    if not _SCALAR.fullmatch(line, at, end):
        raise _Broken(MALFORMED)
    return end


def _container(line: bytes, at: int) -> int:
    """The place after a container that is skipped: its brackets balance, of whatever shape."""
    depth = 0
    while match := _BRACKET.search(line, at):
        at = match.end()
        mark = match.group()
        if mark == b'"':
            string = _STRING.match(line, at - 1)
            if string is None:
                break
            at = string.end()
            continue
        depth += 1 if mark in b"{[" else -1
        if depth == 0:
            return at
    raise _Broken(UNFINISHED)
