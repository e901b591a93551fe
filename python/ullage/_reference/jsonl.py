"""Index of a transcript: where each line is and what it says, without keeping any object.

The twin of `rust/core/src/jsonl.rs`. Containers in a line that nothing counts (the `toolUseResult` of a
tool, above all) are skipped by their brackets and quotes and are not checked for more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ullage._engine.digests import FoldedContext, LineDigest, MessageDigest, MessageFlag
from ullage._engine.transcript_lines import parse_line, plain
from ullage._reference.context import GivenMark, fold
from ullage._reference.items import read_item
from ullage._reference.ledger import Ledger
from ullage._reference.lines import FiledLines
from ullage._reference.scan import scan
from ullage._reference.survey import Survey
from ullage._reference.view import Strings
from ullage.exceptions import InvalidMessage, InvalidTranscript

__all__ = ["TranscriptIndex"]

BOM = b"\xef\xbb\xbf"
SPACE = b" \t\r"
LONG_LINE = 512
"""Bytes of a line from which on a part of it is worth leaving out."""

NOT_AN_OBJECT = "not a JSON object"
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
        made = TranscriptIndex(data, weights, str(path))
        lines.remember(data, [(line.offset, line.length) for line in made._lines])
        made._data = lines
        return made

    @staticmethod
    def from_bytes(data: bytes, weights: Any = None) -> TranscriptIndex:
        """Indexes bytes in memory."""
        return TranscriptIndex(data, weights)

    def _add(self, data: bytes, number: int, offset: int, stop: int, *, ended: bool) -> None:
        offset, stop = _trim(data, offset, stop)
        if offset == stop:
            return
        value, problem = _entry(data[offset:stop])
        if not ended and problem not in ("", NOT_UTF8):
            self.torn = (offset, len(data) - offset)
            return
        if problem:
            self.bad.append((number, problem))
        self._lines.append(self._digest(value, offset, stop - offset, number))

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
        known = len(self._strings)
        try:
            message, blocks = read_item(value, self._weights, self._strings)
        except InvalidMessage:
            self._strings.rollback(known)
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
        return [self._head(line) for line in self._lines]

    def _head(self, line: LineDigest) -> tuple[str, str, str, str, int]:
        flags = line.message.flags if line.message else 0
        text = self._strings.get
        return text(line.type), text(line.subtype), text(line.uuid), text(line.parent), flags

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
        known = [at for at in indices if self.line(at).message is not None]
        items = (_entry(self.raw(at))[0] for at in known)
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


def _trim(data: bytes, offset: int, stop: int) -> tuple[int, int]:
    while offset < stop and data[offset] in SPACE:
        offset += 1
    while stop > offset and data[stop - 1] in SPACE:
        stop -= 1
    return offset, stop


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
    found, broken = scan(line)
    return found, broken or problem
