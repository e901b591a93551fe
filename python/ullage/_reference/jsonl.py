"""Index of a transcript: where each line is and what it says, without keeping any object.

The twin of `rust/core/src/jsonl.rs`. Containers in a line that nothing counts (the `toolUseResult` of a
tool, above all) are skipped by their brackets and quotes and are not checked for more.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import FileIO
from pathlib import Path
from typing import Any, NamedTuple

from ullage._engine.digests import FoldedContext, LineDigest, MessageDigest, MessageFlag
from ullage._engine.transcript_lines import decoded, parse_line, plain, refused, transcript_changed
from ullage._reference.ledger import Ledger
from ullage._reference.read import Strings, read_item
from ullage._reference.survey import Survey
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


# Which lines of a transcript are in the model's context, where nothing but compactions took something out of it.
#
# The twin of `rust/core/src/jsonl/context.rs`.


BOUNDARY = "compact_boundary"
RECORDS = (
    "microcompact_boundary",
    "snip_boundary",
    "content-replacement",
    "collapse-expand",
    "collapse-commit",
    "marble-origami-commit",
    "collapse-snapshot",
    "marble-origami-snapshot",
)
SPEAKS = ("user", "assistant", "attachment")

GivenMark = tuple[int, str, list[str], bool, list[str], str, str, str]
"""Line, logical parent, group, whether it needs no summary, kept entries, head and tail of a kept segment, anchor."""

Head = tuple[str, str, str, str, int]


class _Mark(NamedTuple):
    at: int
    parent: str
    group: list[str]
    replaced: bool
    preserved: list[str]
    head: str
    tail: str
    anchor: str


class _Row(NamedTuple):
    at: int
    kind: str
    uuid: str
    parent: str
    flags: int
    mark: _Mark | None

    @property
    def aside(self) -> bool:
        return bool(self.flags & (MessageFlag.SIDECHAIN | MessageFlag.SYNTHETIC))

    @property
    def summary(self) -> bool:
        return bool(self.flags & MessageFlag.SUMMARY)

    @property
    def prompt(self) -> bool:
        typed = self.kind == "user" and bool(self.flags & MessageFlag.USER_INPUT)
        return typed and not self.aside and not self.summary


class _Unknown(Exception):
    """More than compactions changed the context, or a boundary has no mark."""


def fold(heads: Sequence[Head], given_marks: Iterable[GivenMark]) -> FoldedContext | None:
    """The lines in context; `None` if that takes more than this fold knows."""
    marks = {mark[0]: _Mark(*mark) for mark in given_marks}
    try:
        rows = [_row(at, head, marks) for at, head in enumerate(heads)]
        return _Fold().run(rows, _left_out(rows))
    except _Unknown:
        return None


def _row(at: int, head: Head, marks: Mapping[int, _Mark]) -> _Row:
    kind, subtype, uuid, parent, flags = head
    bounds = subtype == BOUNDARY
    # A boundary of another type counts in some places and not in others.
    if (kind != "system" and bounds) or kind == BOUNDARY or (bounds and at not in marks):
        raise _Unknown
    record = subtype if kind == "system" else kind
    return _Row(
        at,
        record if record in RECORDS else kind,
        uuid,
        parent,
        flags,
        marks.get(at) if bounds else None,
    )


# ---- what never counts -----------------------------------------------------------------------


def _left_out(rows: Sequence[_Row]) -> set[int]:
    out = {row.at for row in rows if row.aside}
    # A rewind can take back a compaction, so branches come first.
    tops = _rewound(list(_left(rows, out)))
    if tops:
        out |= _below(list(_left(rows, out)), tops)
    return out | _unfinished(list(_left(rows, out)))


def _left(rows: Iterable[_Row], out: set[int]) -> Iterator[_Row]:
    return (row for row in rows if row.at not in out)


def _rewound(rows: Sequence[_Row]) -> list[_Row]:
    """Prompts of the user that have a later sibling."""
    linked = {row.parent for row in rows}
    newest: dict[tuple[str, int], _Row] = {}
    segments, segment = [], 0
    for row in rows:
        segment += row.mark is not None
        if row.prompt and row.uuid:
            # Roots are siblings within a segment, but only where entries are linked at all.
            key = (row.parent, 0 if row.parent else segment)
            older = newest.get(key)
            if older is not None and (row.parent or older.uuid in linked):
                segments.append(older)
            newest[key] = row
    return segments


def _below(rows: Sequence[_Row], tops: Sequence[_Row]) -> set[int]:
    children: defaultdict[str, list[_Row]] = defaultdict(list)
    for row in rows:
        parent = row.parent or (row.mark.parent if row.mark else "")
        if parent:
            children[parent].append(row)
    stack, below = list(tops), set[int]()
    while stack:
        row = stack.pop()
        if row.at not in below:
            below.add(row.at)
            stack.extend(children.pop(row.uuid, ()))
    return below


def _unfinished(rows: Sequence[_Row]) -> set[int]:
    """Boundaries without a summary, and what was written with them: a crash came between."""
    uuids = {row.uuid for row in rows if row.uuid}
    out, partial, summarized = set[int](), set[str](), False
    for row in reversed(rows):
        if row.mark is None:
            summarized = summarized or row.summary
            continue
        if not (summarized or row.mark.replaced) or not uuids.issuperset(row.mark.group):
            out.add(row.at)
            partial.update(row.mark.group)
        summarized = False
    return out | {row.at for row in rows if row.uuid in partial}


# ---- the fold --------------------------------------------------------------------------------


class _Fold:
    def __init__(self) -> None:
        self.context: list[_Row] = []
        self.newest: _Row | None = None
        # Kept entries wait until their anchor has been placed, whatever a client wrote before it.
        self.waiting: list[_Row] = []
        self.anchor = ""
        self.anchored = False  # it is still to come
        self.anchors: dict[str, int] = {}
        self.missing = 0

    def run(self, rows: Sequence[_Row], out: set[int]) -> FoldedContext:
        named = {row.mark.anchor for row in rows if row.mark}
        spoken = (row for row in _left(rows, out) if row.kind in SPEAKS)
        self.anchors = {row.uuid: row.at for row in spoken if row.uuid and row.uuid in named}
        for row in _left(rows, out):
            if row.kind in SPEAKS:
                self._talk(row)
            elif row.kind in RECORDS:
                raise _Unknown
            elif row.mark is not None:
                self._boundary(row, row.mark)
        self._place()
        return self._finish()

    def _place(self) -> None:
        self.context += self.waiting
        self.waiting = []

    def _talk(self, row: _Row) -> None:
        if self.waiting and not row.summary and not self.anchored:
            self._place()
        self.context.append(row)
        if row.uuid == self.anchor:
            self._place()

    def _boundary(self, row: _Row, mark: _Mark) -> None:
        self._place()
        self.waiting, self.context = self._preserved(mark), []
        self.newest, self.anchor = row, mark.anchor
        self.anchored = self.anchors.get(mark.anchor, -1) > row.at
        if self.anchor == row.uuid:
            self._place()

    def _preserved(self, mark: _Mark) -> list[_Row]:
        places = {row.uuid: at for at, row in enumerate(self.context) if row.uuid}
        if mark.preserved:
            preserved = [self.context[places[uuid]] for uuid in mark.preserved if uuid in places]
            self.missing += len(mark.preserved) - len(preserved)
            return preserved
        if mark.head in places and mark.tail in places:
            return self.context[places[mark.head] : places[mark.tail] + 1]
        self.missing += sum(bool(uuid) and uuid not in places for uuid in (mark.head, mark.tail))
        return []

    def _finish(self) -> FoldedContext:
        mark = self.newest.mark if self.newest else None
        boundary, preserved = (mark.at, set(mark.preserved)) if mark else (0, set[str]())
        return FoldedContext(
            [row.at for row in self.context],
            [place for place, row in enumerate(self.context) if row.kind == "attachment"],
            [row.at for row in self.context if row.at < boundary or row.uuid in preserved],
            self.missing,
        )


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

    def heads(self) -> list[Head]:
        """What each line says of itself: type, subtype, uuid, parent, flags of its message."""
        text, heads = self._strings.get, list[Head]()
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

    def ledger(self, indices: Sequence[int]) -> Ledger:
        """A ledger of some lines, without those that hold no message or entry."""
        with_message = [at for at in indices if self.line(at).message is not None]
        items = (_entry(self.raw(at))[0] for at in with_message)
        return Ledger(self._weights, [item for item in items if item is not None])

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

    def context(self, stop: int, marks: Sequence[GivenMark]) -> FoldedContext | None:
        """The lines in context, where nothing but compactions changed it."""
        return fold(self.heads()[:stop], marks)

    def survey(
        self,
        lines: Sequence[int],
        others: Sequence[tuple[int, list[Mapping[str, Any]]]],
        unmeasured: Sequence[int],
    ) -> Survey:
        """What fills the context of some lines."""
        instead, stale = dict(others), set(unmeasured)
        items: list[Mapping[str, Any] | None] = []
        for place, at in enumerate(lines):
            line = self.line(at)
            if place in instead:
                items += instead[place]
            elif line.message is None:
                items.append(None)
            else:
                item = _entry(self.raw(at))[0] or {}
                items.append(_unmeasured(item) if at in stale else item)
        return Survey.of_lines(self._weights, items)

    def __repr__(self) -> str:
        return f"TranscriptIndex({len(self)} lines, {self.size} bytes)"


def _without_copy(value: dict[str, Any], raw: bytes) -> dict[str, Any]:
    """With `None` in place of a copy that nobody reads; what a user answered stands only there."""
    try:
        raw.decode()
    except UnicodeDecodeError:
        return value
    return value if b'"answers"' in raw else {**value, "toolUseResult": None}


def _unmeasured(item: dict[str, Any]) -> dict[str, Any]:
    """Without the usage, in the message and, for a bare one, in the item."""
    bare = {key: value for key, value in item.items() if key != "usage"}
    message = item.get("message")
    if "role" in item or not isinstance(message, dict):
        return bare
    return {**item, "message": {key: message[key] for key in message if key != "usage"}}


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
