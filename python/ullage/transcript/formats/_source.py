"""A file as the readers see it: lines of JSON, or one JSON document."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from functools import cached_property
from io import FileIO
from pathlib import Path
from typing import Any

import orjson

from ullage.exceptions import InvalidTranscript, StoreError, TranscriptChanged
from ullage.transcript.formats._model import ReadWarning
from ullage.transcript.pin import FilePin, open_regular

__all__ = ["OpenedFile"]

_BOM = b"\xef\xbb\xbf"
"""What editors on some systems put in front of a file; no part of its text."""

_HEAD_BYTES = 1 << 18
_HEAD_LINES = 40
"""Enough to know a format: every known one names itself in its first lines."""


class OpenedFile:
    """A file, read when it is asked for.

    Attributes:
        pin: Which file the whole of it was read from, and how much; `None` until then.

    Raises:
        InvalidTranscript: The path is a directory or no regular file, or the file is empty.
        StoreError: The file is missing or cannot be read.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self.warnings: list[ReadWarning] = []
        self.pin: FilePin | None = None

    @property
    def stem(self) -> str:
        """The file's name without its last ending."""
        return Path(self.path).stem

    @cached_property
    def data(self) -> bytes:
        """The whole file, without the byte-order mark that it may begin with."""
        data = self._read(-1).removeprefix(_BOM)
        if not data.strip():
            raise InvalidTranscript("is empty", path=self.path)
        return data

    def _read(self, limit: int) -> bytes:
        with open_regular(self.path) as file:
            try:
                before = os.fstat(file.fileno())
                data = file.read(limit)
                after = os.fstat(file.fileno())
                if limit < 0 and not _still(file, data, before, after):
                    hint = "open it again: another program cut it off or wrote over it"
                    raise TranscriptChanged("changed while it was read", path=self.path, hint=hint)
            except OSError as error:
                raise StoreError(
                    f"cannot be read: {error.strerror or error}", path=self.path
                ) from error
        if limit < 0:
            self.pin = FilePin.of(before, after, len(data))
        return data

    @cached_property
    def head(self) -> list[dict[str, Any]]:
        """Objects of the first lines, as far as they are JSON objects; the rest is not read."""
        found: list[dict[str, Any]] = []
        for line in self._start().split(b"\n", _HEAD_LINES)[:_HEAD_LINES]:
            found.extend(value for value in _values(line) or () if isinstance(value, dict))
        return found

    def _start(self) -> bytes:
        """Whole lines from the start of the file; the first one however long it is."""
        start = self._read(_HEAD_BYTES)
        whole = len(start) < _HEAD_BYTES
        start = start.removeprefix(_BOM)
        if whole:
            return start or self.data  # which says that there is nothing
        end = start.rfind(b"\n")
        return start[:end] if end > 0 else self.data.split(b"\n", 1)[0]

    @cached_property
    def document(self) -> Any:
        """The file as one JSON document; `None` if it is none."""
        start = self.data.lstrip()[:1]
        if start not in (b"{", b"["):
            return None
        values = _values(self.data)
        return values[0] if values is not None and len(values) == 1 else None

    def keyed(self, *keys: str) -> Mapping[str, Any]:
        """The document if it is an object with all these keys, else an empty one."""
        document = self.document
        known = isinstance(document, dict) and all(key in document for key in keys)
        return document if known else {}

    def listed(self) -> list[Any]:
        """The document if it is a list of objects, else an empty one."""
        document = self.document
        known = isinstance(document, list) and all(isinstance(item, dict) for item in document)
        return document if known else []

    def lines(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Line numbers from 1 and the objects of each line.

        A line with several objects gives all of them. A line that is no JSON is passed over with a
        warning; a writer that was killed leaves one at the end.
        """
        lines = self.data.split(b"\n")
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            values = _values(line)
            if values is None:
                torn = number == len(lines)
                self.warn(
                    number, "unfinished last line, left out" if torn else "not JSON, left out"
                )
                continue
            if len(values) > 1:
                self.warn(number, f"holds {len(values)} values in one line, all read")
            for value in values:
                if isinstance(value, dict):
                    yield number, value
                else:
                    self.warn(number, "no JSON object, left out")

    def newest(self, count: int) -> list[dict[str, Any]]:
        """The objects of so many lines at the end, oldest first; what is no JSON object is passed over."""
        lines = self.data.rstrip().rsplit(b"\n", count)[-count:]
        values = (value for line in lines for value in _values(line) or ())
        return [value for value in values if isinstance(value, dict)]

    def warn(self, line: int, reason: str) -> None:
        """Record what was skipped or repaired."""
        self.warnings.append(ReadWarning(line, reason))


def _still(file: FileIO, data: bytes, before: os.stat_result, after: os.stat_result) -> bool:
    """Whether what was read is still there: lines that were appended meanwhile change nothing of it."""
    if (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns):
        return True
    file.seek(0)
    return len(data) >= before.st_size and file.read(len(data)) == data


def _values(text: bytes) -> list[Any] | None:
    """The JSON values in a text, usually one; `None` if it is no JSON."""
    try:
        return [orjson.loads(text)]
    except orjson.JSONDecodeError:
        return _slowly(text)


def _slowly(text: bytes) -> list[Any] | None:
    """Takes what orjson refuses: several values in a row, lone surrogates, `NaN`."""
    decoder, found, at = json.JSONDecoder(), [], 0
    told = text.decode("utf-8", "replace").strip()
    while at < len(told):
        try:
            value, at = decoder.raw_decode(told, at)
        except (ValueError, RecursionError):
            return None
        found.append(value)
        while at < len(told) and told[at].isspace():
            at += 1
    return found or None
