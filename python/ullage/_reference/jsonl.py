"""Index of a transcript: where each line is and what it says, without keeping any object.

The twin of `rust/core/src/jsonl.rs`. A line is judged by its structure: one object, its strings and
brackets closed, its keys and scalars well formed. Values that nothing counts (the `toolUseResult` of
a tool, above all) are skipped over by their brackets and quotes and never checked.
"""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from ullage._reference.digest import MessageFlag
from ullage.exceptions import InvalidTranscript, StoreError

__all__ = ["LineDigest", "LineHead", "TranscriptIndex"]

BOM = b"\xef\xbb\xbf"
SPACE = b" \t\r"

NOT_AN_OBJECT = "not a JSON object"
UNFINISHED = "ends inside the object"
MALFORMED = "malformed JSON"
TRAILING = "text after the object"
NOT_UTF8 = "not UTF-8, read with replacement characters"


class LineDigest(NamedTuple):
    """One line of a transcript."""

    offset: int
    length: int
    number: int
    type: int
    subtype: int
    uuid: int
    parent: int
    message: Any


class LineHead(NamedTuple):
    """What a line says of itself; "" where it says nothing."""

    type: str
    subtype: str
    uuid: str
    parent: str
    flags: int


class _Line(NamedTuple):
    offset: int
    length: int
    number: int
    head: LineHead


class TranscriptIndex:
    """Offsets and digests of a JSONL file; objects are built for the lines that are asked for."""

    def __init__(self, data: bytes, weights: Any = None, path: str = "") -> None:
        self._data = data
        self._weights = weights
        self._path = path
        self._lines: list[_Line] = []
        self._strings: list[str] = [""]
        self._refs: dict[str, int] = {"": 0}
        self.torn: tuple[int, int] | None = None
        self.bad: list[tuple[int, str]] = []
        for number, offset, stop, ended in _split(data):
            self._add(number, offset, stop, ended=ended)

    @staticmethod
    def open(path: str, weights: Any = None) -> TranscriptIndex:
        """Indexes a file."""
        return TranscriptIndex(_read(path), weights, str(path))

    @staticmethod
    def from_bytes(data: bytes, weights: Any = None) -> TranscriptIndex:
        """Indexes bytes in memory."""
        return TranscriptIndex(data, weights)

    def _add(self, number: int, offset: int, stop: int, *, ended: bool) -> None:
        offset, stop = _trim(self._data, offset, stop)
        if offset == stop:
            return
        head, reason = _head(self._data[offset:stop])
        if not ended and reason not in ("", NOT_UTF8):
            self.torn = (offset, len(self._data) - offset)
            return
        if reason:
            self.bad.append((number, reason))
        self._lines.append(_Line(offset, stop - offset, number, head))

    def __len__(self) -> int:
        return len(self._lines)

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return len(self._data)

    def heads(self) -> list[LineHead]:
        """What each line says of itself."""
        return [line.head for line in self._lines]

    def line(self, index: int) -> LineDigest:
        """The digest of a line."""
        line = self._at(index)
        kind, subtype, uuid, parent = (self._ref(text) for text in line.head[:4])
        place = line.offset, line.length, line.number
        return LineDigest(*place, kind, subtype, uuid, parent, None)

    def raw(self, index: int) -> bytes:
        """The bytes of a line, without line end and white space around it."""
        line = self._at(index)
        return self._data[line.offset : line.offset + line.length]

    def load(self, index: int) -> dict[str, Any]:
        """The object of a line."""
        line = self._at(index)
        value = _parse(self.raw(index))
        if not isinstance(value, dict):
            raise InvalidTranscript(
                "not a JSON object", path=self._path, line=line.number, offset=line.offset
            )
        return value

    def string(self, ref: int) -> str:
        """The string of an index."""
        return self._strings[ref]

    def _at(self, index: int) -> _Line:
        if not 0 <= index < len(self._lines):
            raise IndexError(f"line {index} of {len(self._lines)}")
        return self._lines[index]

    def _ref(self, text: str) -> int:
        if text not in self._refs:
            self._refs[text] = len(self._strings)
            self._strings.append(text)
        return self._refs[text]


def _read(path: str) -> bytes:
    file = Path(path)
    try:
        mode = file.stat().st_mode
        if not stat.S_ISREG(mode):
            kind = "is a directory" if stat.S_ISDIR(mode) else "is not a regular file"
            raise InvalidTranscript(kind, path=str(path))
        return file.read_bytes()
    except OSError as exc:
        raise StoreError((exc.strerror or str(exc)).lower(), path=str(path)) from exc


def _split(data: bytes) -> Iterator[tuple[int, int, int, bool]]:
    """Line number from 1, first byte, byte after the last, and whether a line end follows."""
    offset = len(BOM) if data.startswith(BOM) else 0
    number = 0
    while offset < len(data):
        number += 1
        stop = data.find(b"\n", offset)
        if stop < 0:
            yield number, offset, len(data), False
            return
        yield number, offset, stop, True
        offset = stop + 1


def _trim(data: bytes, offset: int, stop: int) -> tuple[int, int]:
    while offset < stop and data[offset] in SPACE:
        offset += 1
    while stop > offset and data[stop - 1] in SPACE:
        stop -= 1
    return offset, stop


# ---- one line --------------------------------------------------------------------------------

EMPTY = LineHead("", "", "", "", 0)


def _head(line: bytes) -> tuple[LineHead, str]:
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        return _hard(line)
    return (_facts(value), "") if isinstance(value, dict) else (EMPTY, NOT_AN_OBJECT)


def _hard(line: bytes) -> tuple[LineHead, str]:
    """A line that the fast parser refuses; it can still be good enough to be read."""
    reason = ""
    try:
        line.decode()
    except UnicodeDecodeError:
        line = line.decode(errors="replace").encode()
        reason = NOT_UTF8
    members, broken = _members(line)
    if broken:
        return EMPTY, broken
    return _facts(members), reason


def _facts(value: dict[str, Any]) -> LineHead:
    keys = ("type", "subtype", "uuid", "parentUuid")
    kind, subtype, uuid, parent = (_text(value.get(key)) for key in keys)
    return LineHead(kind, subtype, uuid, parent, _flags(value))


def _flags(value: dict[str, Any]) -> int:
    inner = value.get("message")
    message = inner if isinstance(inner, dict) else value
    flags = 0
    if value.get("isMeta") is True:
        flags |= MessageFlag.META
    if value.get("isCompactSummary") is True:
        flags |= MessageFlag.SUMMARY
    if value.get("isSidechain") is True:
        flags |= MessageFlag.SIDECHAIN
    if value.get("isApiErrorMessage") is True or message.get("model") == "<synthetic>":
        flags |= MessageFlag.SYNTHETIC
    if message.get("role") == "user" and not flags & ~MessageFlag.SIDECHAIN and _says(message):
        flags |= MessageFlag.USER_INPUT
    return int(flags)


def _says(message: dict[str, Any]) -> bool:
    content = message.get("content")
    if not isinstance(content, list):
        return isinstance(content, str)
    kinds = [block.get("type") if isinstance(block, dict) else None for block in content]
    return any(kind != "tool_result" for kind in kinds)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _parse(raw: bytes) -> Any:
    """The value of JSON bytes; lone surrogates, control characters and bad UTF-8 are let through."""
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        try:
            return json.loads(raw.decode(errors="replace"), strict=False)
        except (ValueError, RecursionError):
            return None


# ---- structure -------------------------------------------------------------------------------

_BLANK = re.compile(rb"[ \t\r]*")
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_WORD = re.compile(rb"[-+.0-9A-Za-z]+")
_SCALAR = re.compile(rb"true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_BRACKET = re.compile(rb'["{}\[\]]')
_CLOSED = (b"}", b",")


class _Broken(Exception):
    """The line is not one object; the argument says why."""


def _members(line: bytes) -> tuple[dict[str, Any], str]:
    """Members of the object in a line; values that do not parse are `None`."""
    found: dict[str, Any] = {}
    try:
        at = _skip_blank(line, 0)
        if line[at : at + 1] != b"{":
            return found, NOT_AN_OBJECT
        at = _skip_blank(line, at + 1)
        if line[at : at + 1] != b"}":
            at = _object(line, at, found)
        if _skip_blank(line, at + 1) < len(line):
            return {}, TRAILING
    except _Broken as broken:
        return {}, str(broken)
    return found, ""


def _object(line: bytes, at: int, found: dict[str, Any]) -> int:
    """Reads members up to the closing bracket, and returns its place."""
    while True:
        stop = _string_end(line, at)
        key = _parse(line[at:stop])
        at = _expect(line, stop, (b":",))
        at = _skip_blank(line, at + 1)
        stop = _value_end(line, at)
        if isinstance(key, str):
            found[key] = _parse(line[at:stop])
        at = _expect(line, stop, _CLOSED)
        if line[at : at + 1] == b"}":
            return at
        at = _skip_blank(line, at + 1)


def _skip_blank(line: bytes, at: int) -> int:
    match = _BLANK.match(line, at)
    return match.end() if match else at


def _expect(line: bytes, at: int, wanted: tuple[bytes, ...]) -> int:
    at = _skip_blank(line, at)
    if at >= len(line):
        raise _Broken(UNFINISHED)
    if line[at : at + 1] not in wanted:
        raise _Broken(MALFORMED)
    return at


def _string_end(line: bytes, at: int) -> int:
    at = _expect(line, at, (b'"',))
    match = _STRING.match(line, at)
    if match is None:
        raise _Broken(UNFINISHED)
    return match.end()


def _value_end(line: bytes, at: int) -> int:
    first = line[at : at + 1]
    if first == b'"':
        return _string_end(line, at)
    if first in (b"{", b"["):
        return _container_end(line, at)
    word = _WORD.match(line, at)
    if not first or (word is not None and word.end() == len(line)):
        raise _Broken(UNFINISHED)
    if word is None or not _SCALAR.fullmatch(word.group()):
        raise _Broken(MALFORMED)
    return word.end()


def _container_end(line: bytes, at: int) -> int:
    depth = 0
    while match := _BRACKET.search(line, at):
        at = match.end()
        mark = match.group()
        if mark == b'"':
            at = _string_end(line, at - 1)
            continue
        depth += 1 if mark in b"{[" else -1
        if depth == 0:
            return at
    raise _Broken(UNFINISHED)
