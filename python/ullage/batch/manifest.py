"""What a batch has done: one line of JSON per file, appended when it is finished, so that a later run can continue.

A line is valid while its file has the recorded size and modification time, and the task and its options are
the same; an unfinished last line, from a run that was killed, does not count.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from ullage.exceptions import StoreError

__all__ = ["Manifest"]

VERSION = 1


class Manifest:
    """Finished files by path and task; `Manifest()` keeps nothing on disk.

    Example:
        >>> manifest = Manifest()
        >>> manifest.add("inspect", "a.jsonl", size=10, changed=1, record={"status": "done", "report": {}})
        >>> manifest.find("inspect", "a.jsonl", size=10, changed=1)["status"]
        'done'
        >>> manifest.find("inspect", "a.jsonl", size=11, changed=2) is None
        True
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self._records: dict[tuple[str, str], Mapping[str, Any]] = {}

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Manifest:
        """Read a manifest; if it does not exist, the first record creates it.

        Raises:
            StoreError: It cannot be read, or is not a manifest.
        """
        path = Path(path)
        made, whole = cls(path), 0
        for record, length in _read(path):
            made._records[record["task"], record["path"]] = record
            whole += length
        _cut(path, whole)
        return made

    def __len__(self) -> int:
        return len(self._records)

    def __repr__(self) -> str:
        return f"Manifest({self.path or 'in memory'}, {len(self)} files)"

    def find(self, task: str, path: str, *, size: int, changed: int) -> Mapping[str, Any] | None:
        """The record of a file, if it has not changed since.

        Args:
            task: Name and options of the task, as passed to `add`.
            path: The file.
            size: Its bytes now.
            changed: Its current modification time, in nanoseconds.
        """
        record = self._records.get((task, path))
        if record is None or (record["size"], record["changed"]) != (size, changed):
            return None
        return record

    def add(
        self, task: str, path: str, *, size: int, changed: int, record: Mapping[str, Any]
    ) -> None:
        """Append a record as one line, whole or not at all; one that is there already is not repeated.

        Raises:
            StoreError: It cannot be written.
        """
        line = {
            "v": VERSION,
            "task": task,
            "path": path,
            "size": size,
            "changed": changed,
            **record,
        }
        if self._records.get((task, path)) == line:
            return
        if self.path is not None:
            _append(self.path, orjson.dumps(line, option=orjson.OPT_NON_STR_KEYS) + b"\n")
        self._records[task, path] = line


def _read(path: Path) -> Iterator[tuple[dict[str, Any], int]]:
    """Records with the bytes of their lines."""
    try:
        lines = path.read_bytes().splitlines(keepends=True)
    except FileNotFoundError:
        return
    except OSError as exc:
        raise StoreError(f"cannot be read: {exc.strerror}", path=str(path)) from exc
    for number, line in enumerate(lines, 1):
        if not line.endswith(b"\n"):
            return
        yield _record(line, number, path), len(line)


def _cut(path: Path, length: int) -> None:
    """Remove an unfinished last line, which would merge with the next one."""
    try:
        if path.exists() and path.stat().st_size > length:
            os.truncate(path, length)
    except OSError as exc:
        raise StoreError(f"cannot be written: {exc.strerror}", path=str(path)) from exc


def _record(line: bytes, number: int, path: Path) -> dict[str, Any]:
    try:
        record: Any = orjson.loads(line)
        wanted = {"v": int, "task": str, "path": str, "size": int, "changed": int}
        wanted |= {"status": str, "report": dict}
        good = all(isinstance(record[key], kind) for key, kind in wanted.items())
    except (ValueError, KeyError, TypeError):
        good = False
    if not good or record["v"] != VERSION:
        hint = "name another file, or remove this one to start again"
        raise StoreError(f"line {number} is not a batch record", path=str(path), hint=hint)
    return dict(record)


def _append(path: Path, line: bytes) -> None:
    try:
        # As private as the transcripts whose paths and sizes it holds.
        with open(path, "ab", buffering=0, opener=_private) as file:
            file.write(line)
    except OSError as exc:
        raise StoreError(f"cannot be written: {exc.strerror}", path=str(path)) from exc


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
