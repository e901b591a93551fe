"""Index of a transcript: where each line is and what it says, without keeping any object.

The twin of `rust/core/src/jsonl.rs`. Containers in a line that nothing counts (the `toolUseResult` of a
tool, above all) are skipped by their brackets and quotes and are not checked for more.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator, Sequence
from io import FileIO
from pathlib import Path
from typing import Any

from ullage._engine.digests import LineDigest, MessageDigest, MessageFlag
from ullage._engine.transcript_lines import decoded, parse_line, plain, refused, transcript_changed
from ullage._reference.read import Strings, read_item
from ullage.exceptions import InvalidMessage, InvalidTranscript, StoreError

# A JSONL file that other programs write, read again by the line. The twin of `rust/python/src/lines.rs`.
#
# Each line is compared with what the index was made of: a file that was cut off or written over is an error.


class FiledLines:
    """An open file with what tells whether its lines are still those that were indexed."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = _open(path)
        self._sums: list[int] = []
        self._tail, self._tail_at = b"", 0

    def __del__(self) -> None:
        if file := getattr(self, "_file", None):
            file.close()

    def read(self) -> bytes:
        """The file up to the end that it had when it was opened."""
        try:
            before = os.fstat(self._file.fileno())
            data = _exactly(self._file, before.st_size)
            after = os.fstat(self._file.fileno())
            same = (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)
            if len(data) == before.st_size and not same:
                self._file.seek(0)
                same = _exactly(self._file, before.st_size) == data
        except OSError as exc:
            raise _store_error(exc, self._path) from exc
        if len(data) < before.st_size or not same:
            raise transcript_changed(self._path)
        return data

    def remember(self, data: bytes, places: Sequence[tuple[int, int]]) -> None:
        """Keeps what tells of each line (offset, length) whether it is still there, and the last one itself."""
        self._tail_at = data.rfind(b"\n") + 1
        # A writer may take back a line that it could not finish.
        self._tail = data[self._tail_at :]
        self._sums = [hash(data[offset : offset + length]) for offset, length in places]

    def line(self, index: int, offset: int, length: int, number: int) -> bytes:
        """The bytes of a line, as they were indexed."""
        if offset >= self._tail_at:
            start = offset - self._tail_at
            return self._tail[start : start + length]
        try:
            self._file.seek(offset)
            line = _exactly(self._file, length)
        except OSError as exc:
            raise _store_error(exc, self._path) from exc
        if hash(line) != self._sums[index]:
            raise transcript_changed(self._path, number, offset)
        return line


def _exactly(file: FileIO, length: int) -> bytes:
    """So many bytes, fewer only at the end of the file."""
    parts = []
    while length > 0 and (part := file.read(length)):
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


def _open(path: str) -> FileIO:
    """A regular file; a pipe that stands in its place does not stop the caller."""
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    try:
        _refuse(Path(path).stat().st_mode, path)
        file = FileIO(os.open(path, flags | getattr(os, "O_NONBLOCK", 0)), "r")
        try:
            _refuse(os.fstat(file.fileno()).st_mode, path)
        except BaseException:
            file.close()
            raise
    except OSError as exc:
        raise _store_error(exc, path) from exc
    return file


def _refuse(mode: int, path: str) -> None:
    if not stat.S_ISREG(mode):
        kind = "is a directory" if stat.S_ISDIR(mode) else "is not a regular file"
        raise InvalidTranscript(kind, path=path)


def _store_error(exc: OSError, path: str) -> StoreError:
    return StoreError((exc.strerror or str(exc)).lower(), path=path)


# The structure of a line that a strict parser refuses. The twin of `rust/core/src/jsonl/{scan,tape}.rs`.
#
# Escapes of lone surrogates, control characters inside strings, and anything at all inside containers
# that nothing counts are no reason to give a line up.


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
        members: dict[str, Any] = {}
        end = _object(line, at, members)
        if _blank(line, end) < len(line):
            return None, TRAILING
    except _Broken as broken:
        return None, str(broken)
    except RecursionError:
        return {}, ""
    return members, ""


def _integer(digits: str) -> int:
    return int(digits) if len(digits) <= _MAX_DIGITS else _TOO_LARGE


_ANY_SIZE = json.JSONDecoder(strict=False, parse_int=_integer, parse_constant=refused)


def _object(line: bytes, start: int, members: dict[str, Any] | None) -> int:
    """Walks over an object, into `members` if it is the line's own, and returns the place after it."""
    at = _expect(line, start + 1, b'"}')
    while line[at : at + 1] == b'"':
        stop = _string(line, at)
        value = _blank(line, _expect(line, stop, b":") + 1)
        end = _member(line, line[at:stop], value, members)
        at = _expect(line, end, b",}")
        if line[at : at + 1] == b",":
            at = _expect(line, at + 1, b'"')
    return at + 1


def _member(line: bytes, key: bytes, at: int, members: dict[str, Any] | None) -> int:
    if members is None:
        return _value(line, at)
    skipped = line[at : at + 1] in (b"{", b"[") and b"\\" not in key and key[1:-1] not in COUNTED
    end = _container(line, at) if skipped else _value(line, at)
    members[decoded(key)] = {} if skipped else decoded(line[at:end], _ANY_SIZE)
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


_PART = re.compile(rb'[,:]|"[^"\\]*(?:\\.[^"\\]*)*"|[^]},:"{[ \t\r\n][^]},: \t\r\n]*', re.DOTALL)


def json_parts(raw: bytes, at: int) -> list[tuple[int, int]] | None:
    """Where the parts of the list or object that begins at `at` stand, keys too; the twin of `parts` in `rust/core/src/json.rs`."""
    if raw[at : at + 1] not in (b"[", b"{"):
        return None
    parts: list[tuple[int, int]] = []
    at = _blank(raw, at + 1)
    try:
        while raw[at : at + 1] not in (b"]", b"}"):
            part = _PART.match(raw, at)
            end = part.end() if part else _container(raw, at)
            if raw[at] not in b",:":
                parts.append((at, end))
            at = _blank(raw, end)
    except _Broken:
        return None
    return parts


BOM = b"\xef\xbb\xbf"
SPACE = b" \t\r"
LONG_LINE = 512
"""Bytes of a line from which on a part of it is worth leaving out."""
NOT_UTF8 = "not UTF-8, read with replacement characters"


class TranscriptIndex:
    """Offsets and digests of a JSONL file; objects are built for the lines that are asked for."""

    def __init__(self, data: bytes, weights: Any = None, path: str = "") -> None:
        self._data: bytes | FiledLines = data
        self._size = len(data)
        self._weights = weights
        self._path = path
        self._strings = Strings()
        self._lines: list[LineDigest] = []
        self._block_count = 0
        self.torn: tuple[int, int] | None = None
        self.bad: list[tuple[int, str]] = []
        for number, offset, stop, ended in _split(data):
            self._add(data, number, offset, stop, ended=ended)

    @staticmethod
    def open(path: str, weights: Any = None) -> TranscriptIndex:
        """Indexes a file."""
        lines = FiledLines(str(path))
        data = lines.read()
        index = TranscriptIndex(data, weights, str(path))
        lines.remember(data, [(line.offset, line.length) for line in index._lines])
        index._data = lines
        return index

    @staticmethod
    def from_bytes(data: bytes, weights: Any = None) -> TranscriptIndex:
        """Indexes bytes in memory."""
        return TranscriptIndex(data, weights)

    def _add(self, data: bytes, number: int, offset: int, stop: int, *, ended: bool) -> None:
        padded = data[offset:stop].rstrip(SPACE)
        line = padded.lstrip(SPACE)
        if not line:
            return
        offset += len(padded) - len(line)
        value, problem = _entry(line)
        if not ended and problem not in ("", NOT_UTF8):
            self.torn = (offset, len(data) - offset)
            return
        if problem:
            self.bad.append((number, problem))
        self._lines.append(self._digest(value, offset, len(line), number))

    def _digest(
        self, value: dict[str, Any] | None, offset: int, length: int, number: int
    ) -> LineDigest:
        if value is None:
            return LineDigest(offset, length, number, 0, 0, 0, 0, None)
        texts = [value.get(key) for key in ("type", "subtype", "uuid", "parentUuid")]
        refs = [self._strings.intern(text) if isinstance(text, str) else 0 for text in texts]
        kind, subtype, uuid, parent = refs
        message = self._read_item(value)
        return LineDigest(offset, length, number, kind, subtype, uuid, parent, message)

    def _read_item(self, value: dict[str, Any]) -> MessageDigest | None:
        before = len(self._strings)
        try:
            message, blocks = read_item(value, self._weights, self._strings)
        except InvalidMessage:
            self._strings.rollback(before)
            return None
        first = self._block_count
        self._block_count += len(blocks)
        return message._replace(first_block=first)

    def __len__(self) -> int:
        return len(self._lines)

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self._size

    def heads(self) -> list[tuple[str, str, str, str, int]]:
        """What each line says of itself: type, subtype, uuid, parent, flags of its message."""
        text, heads = self._strings.get, list[tuple[str, str, str, str, int]]()
        for line in self._lines:
            flags = line.message.flags if line.message else 0
            words = text(line.type), text(line.subtype), text(line.uuid), text(line.parent)
            heads.append((*words, flags))
        return heads

    def line(self, index: int) -> LineDigest:
        """The digest of a line."""
        if not 0 <= index < len(self._lines):
            raise IndexError(f"line {index} of {len(self._lines)}")
        return self._lines[index]

    def raw(self, index: int) -> bytes:
        """The bytes of a line, without line end and white space around it."""
        line = self.line(index)
        if isinstance(self._data, FiledLines):
            return self._data.line(index, line.offset, line.length, line.number)
        return self._data[line.offset : line.offset + line.length]

    def load(self, index: int, *, lean: bool = False) -> dict[str, Any]:
        """The object of a line; a lean one without the copy of a result that an interface keeps."""
        raw = self.raw(index)
        value = parse_line(raw)
        if not isinstance(value, dict):
            line = self.line(index)
            raise InvalidTranscript(
                NOT_AN_OBJECT, path=self._path, line=line.number, offset=line.offset
            )
        if lean and len(raw) > LONG_LINE and isinstance(value.get("toolUseResult"), dict | list):
            return _without_copy(value, raw)
        return value

    def string(self, ref: int) -> str:
        """The string of a number."""
        if not 0 <= ref < len(self._strings):
            raise IndexError(f"string {ref} of {len(self._strings)}")
        return self._strings.get(ref)

    def outline(self, subtype: str) -> tuple[list[int], int | None]:
        """Lines with a subtype, or with this type and none, and the newest response that a model gave."""
        heads = self.heads()
        aside = MessageFlag.SIDECHAIN | MessageFlag.SYNTHETIC
        spoken = (
            at for at, head in enumerate(heads) if head[0] == "assistant" and not head[4] & aside
        )
        marked = [
            at for at, head in enumerate(heads) if subtype and (head[1] or head[0]) == subtype
        ]
        return marked, max(spoken, default=None)

    def context(self, *_: object) -> None:
        """`None`: a replay of the transcript tells, which this and a survey of lines save the Rust engine."""

    def __repr__(self) -> str:
        return f"TranscriptIndex({len(self)} lines, {self.size} bytes)"


def _without_copy(value: dict[str, Any], raw: bytes) -> dict[str, Any]:
    """With `None` in place of a copy that nobody reads; what a user answered stands only there."""
    try:
        raw.decode()
    except UnicodeDecodeError:
        return value
    return value if b'"answers"' in raw else {**value, "toolUseResult": None}


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


def _entry(line: bytes) -> tuple[dict[str, Any] | None, str]:
    """The object of a line, without what is not counted if need be, and what is wrong with it."""
    value = plain(line)
    if value is not None:
        return (value, "") if isinstance(value, dict) else (None, NOT_AN_OBJECT)
    problem = ""
    try:
        line.decode()
    except UnicodeDecodeError:
        line = line.decode(errors="replace").encode()
        problem = NOT_UTF8
    members, broken = scan(line)
    return members, broken or problem
