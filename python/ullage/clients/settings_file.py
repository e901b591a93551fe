"""Changes to settings files of other programs: shown first, written whole, reverted to the byte."""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

from ullage import _env
from ullage._start import Frozen, pattern
from ullage.exceptions import InvalidPolicy, StoreError
from ullage.sessions.load import private_folder, write_private

# Inserts members into a JSON file and removes them again, leaving every other byte.
#
# Parsing and writing would change the layout of the whole file, so this finds where values begin and end, and edits the text.
# Removing the last insertion restores the bytes.


Step = str | int
"""A key of an object, or a position in a list."""

_SPACE = pattern(r"[ \t\r\n]*")
_INDENT = pattern(r"[ \t]*")
_DECODER = json.JSONDecoder()


@dataclass(slots=True)
class _Node:
    """A value in the text, from `start` to `end`, and the members of an object or list."""

    start: int
    end: int
    kind: str
    keys: list[str] = field(default_factory=list)
    begins: list[int] = field(default_factory=list)  # of the members: in an object, of the key
    values: list[tuple[int, int]] = field(default_factory=list)  # where they begin and end


class JsonText:
    """A JSON document as text.

    Raises:
        ValueError: It is not JSON.
    """

    def __init__(self, text: str) -> None:
        self.text = text

    @property
    def value(self) -> Any:
        """The document, parsed."""
        return json.loads(self.text)

    def added(self, path: Sequence[str], item: Any, *, into_list: bool) -> JsonText:
        """The document with a value added; missing objects and lists on the way are created.

        `path`: keys from the top. `into_list`: whether to append it to the list at `path`; otherwise it becomes the value of that
        key, which must be missing.

        Raises:
            ValueError: Another kind of value is on the way, or the key exists already.
        """
        node, left = self._root(), list(path)
        while left and node.kind == "object" and left[0] in node.keys:
            node = self._node(node.values[node.keys.index(left.pop(0))][0])
        if not left and (not into_list or node.kind != "list"):
            raise ValueError(f"{'.'.join(path)} exists already and is not a list")
        if left and node.kind != "object":
            raise ValueError(f"{'.'.join(path[: len(path) - len(left)])} must be a mapping")
        if left and into_list:
            item = [item]
        for key in reversed(left[1:]):
            item = {key: item}
        return JsonText(self._with_member(node, left[0] if left else None, item))

    def removed(self, path: Sequence[Step]) -> JsonText:
        """The document without the value at a path and without the text between it and the previous value.

        Raises:
            LookupError: There is none.
        """
        node = self._root()
        for step in path[:-1]:
            at = node.keys.index(step) if isinstance(step, str) else step
            node = self._node(node.values[at][0])
        last = path[-1]
        at = node.keys.index(last) if isinstance(last, str) else last
        if at > 0:
            start, stop = node.values[at - 1][1], node.values[at][1]
        elif len(node.values) > 1:
            start, stop = node.begins[0], node.begins[1]
        else:
            start, stop = node.start + 1, node.end - 1
        return JsonText(self.text[:start] + self.text[stop:])

    def _with_member(self, node: _Node, key: str | None, item: Any) -> str:
        line_end = "\r\n" if "\r\n" in self.text else "\n"
        match = re.search(r"[{\[]\r?\n([ \t]+)\S", self.text)
        unit = match[1] if match else "  "
        indent = _INDENT.match(self.text, self.text.rfind("\n", 0, node.start) + 1)
        outer = indent[0] if indent else ""
        one_line = bool(node.values) and "\n" not in self.text[node.start : node.begins[0]]
        if one_line:
            body = json.dumps(item, ensure_ascii=False)
        else:
            body = json.dumps(item, ensure_ascii=False, indent=unit)
            body = body.replace("\n", line_end + outer + unit)
        member = body if key is None else f"{json.dumps(key, ensure_ascii=False)}: {body}"
        if node.values:
            place = node.values[-1][1]
            gap = " " if one_line else line_end + outer + unit
            return f"{self.text[:place]},{gap}{member}{self.text[place:]}"
        inner = line_end + outer + unit + member + line_end + outer
        return self.text[: node.start + 1] + inner + self.text[node.end - 1 :]

    def _root(self) -> _Node:
        json.loads(self.text)  # says what is wrong with it, and where
        return self._node(self._past_space(0))

    def _past_space(self, at: int) -> int:
        match = _SPACE.match(self.text, at)
        return match.end() if match else at

    def _node(self, at: int) -> _Node:
        """The value at a place; of an object or list, with its members."""
        kind = {"{": "object", "[": "list"}.get(self.text[at], "plain")
        node = _Node(at, _DECODER.raw_decode(self.text, at)[1], kind)
        at = node.end if kind == "plain" else self._past_space(at + 1)
        while at < node.end - 1:
            node.begins.append(at)
            if kind == "object":
                key, at = _DECODER.raw_decode(self.text, at)
                node.keys.append(key)
                at = self._past_space(self._past_space(at) + 1)  # the colon
            end = _DECODER.raw_decode(self.text, at)[1]
            node.values.append((at, end))
            at = self._past_space(end)
            if self.text[at] == ",":
                at = self._past_space(at + 1)
        return node


def _paths_of_ours(value: Any, path: tuple[Step, ...] = ()) -> Iterator[tuple[Step, ...]]:
    if is_ours(value):
        yield path
    elif isinstance(value, dict | list):
        for key, child in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _paths_of_ours(child, (*path, key))


MARKS = ("ullage.clients.hook", "ullage-hook", "ullage.clients.mcp_server")
"""Words of a command by which Ullage's entries are recognised."""

_BOM = "\ufeff"


class Addition(Frozen):
    """One value to add."""

    path: tuple[str, ...]  # keys from the top of the file
    value: Any  # what is added there
    into_list: bool = True  # append it to the list at `path`; else it is the value of that key


class FileChange(Frozen):
    """A file before and after."""

    path: Path  # the file; a symbolic link's target
    before: bytes | None  # its bytes; `None`: it is missing
    after: bytes | None  # what it becomes; `None`: it is removed
    notes: tuple[str, ...] = ()  # what was left alone, and why
    forgets: bool = False  # the copy of the former file, with any keys in it, is useless then

    @property
    def changed(self) -> bool:
        """Whether there is anything to write."""
        return self.before != self.after

    def diff(self) -> str:
        """The change as a unified diff."""
        old, new = map(_lines, (self.before, self.after))
        name = str(self.path)
        lines = difflib.unified_diff(old, new, name, "(removed)" if self.after is None else name)
        return "".join(line if line.endswith("\n") else line + "\n" for line in lines)

    def write(self) -> None:
        """Write it, unless the file changed since it was read; keep the former content, to restore it to the byte.

        Raises:
            StoreError: It cannot be written, or another program changed it meanwhile.
        """
        if _read(self.path) != self.before:
            raise StoreError("was changed by another program meanwhile", path=str(self.path))
        if self.after is None:
            self.path.unlink(missing_ok=True)
            # Folders of a project that exist only for such files.
            if self.path.parent.name in (".claude", ".codex"):
                with suppress(OSError):  # one that holds anything else stays
                    self.path.parent.rmdir()
        else:
            private_folder(self.path.parent)
            if not self.forgets:
                _remember(self.path, self.before, self.after)
            mode = self.path.stat().st_mode & 0o777 if self.before is not None else 0o600
            write_private(self.path, self.after, mode=mode)
        self.forget_former()

    def forget_former(self) -> None:
        """Remove the copy of the former file, if this change makes it useless."""
        if self.forgets:
            _record(self.path).unlink(missing_ok=True)


def _lines(data: bytes | None) -> list[str]:
    return (data or b"").decode("utf-8", "replace").splitlines(keepends=True)


def with_additions(path: Path, additions: Sequence[Addition]) -> FileChange:
    """A settings file, which need not exist, with what it lacks of some additions.

    Raises:
        InvalidPolicy: The file is not JSON, or holds something else where an object or a list belongs.
        StoreError: It cannot be read.
    """
    path = Path(os.path.realpath(path))
    before = _read(path)
    text, bom = _text(before, path)
    document, notes = JsonText(text if text.strip() else "{}\n"), []
    for addition in additions:
        try:
            document, note = _with(document, addition)
        except ValueError as exc:
            raise InvalidPolicy("settings", str(path), f"cannot be changed: {exc}") from exc
        notes += note
    after = before if document.text == text else (bom + document.text).encode()
    return FileChange(path, before, after, tuple(notes))


def _with(document: JsonText, addition: Addition) -> tuple[JsonText, list[str]]:
    there: Any = document.value
    for key in addition.path:
        there = there.get(key) if isinstance(there, dict) else None
    if addition.into_list and isinstance(there, list):
        if addition.value in there:
            return document, []
        wanted = addition.value.get("matcher")
        for at in reversed(range(len(there))):  # older ones of Ullage's for the same event
            if is_ours(there[at]) and there[at].get("matcher") == wanted:
                document = document.removed((*addition.path, at))
    elif there is not None and not addition.into_list:
        if there == addition.value:
            return document, []
        if not is_ours(there):
            name = ".".join(addition.path)
            return document, [f"{name} is set to something else and was left alone"]
        document = document.removed(addition.path)
    return document.added(addition.path, addition.value, into_list=addition.into_list), []


def without_ours(path: Path) -> FileChange:
    """A settings file without Ullage's additions: the original bytes, if nobody changed the file since.

    Raises:
        InvalidPolicy: The file is not JSON.
        StoreError: It cannot be read.
    """
    path = Path(os.path.realpath(path))
    before = _read(path)
    if before is None:
        return FileChange(path, None, None, forgets=True)
    record = _remembered(path)
    if record is not None and record["after"] == hashlib.sha256(before).hexdigest():
        return FileChange(path, before, _former(record), forgets=True)
    text, bom = _text(before, path)
    document = JsonText(text)
    while place := next(_paths_of_ours(document.value), None):
        document = document.removed(place)
        while place[:-1] and not reduce(getitem, place[:-1], document.value):
            place = place[:-1]
            document = document.removed(place)
    after = (bom + document.text).encode() if document.text != text else before
    return FileChange(path, before, after, forgets=True)


def is_ours(value: Any) -> bool:
    """Whether an entry, or every hook in it, runs a program of Ullage's."""
    if not isinstance(value, dict):
        return False
    hooks = value.get("hooks")
    if isinstance(hooks, list):
        return bool(hooks) and all(is_ours(hook) for hook in hooks)
    arguments = value.get("args") or []
    words = [value.get("command"), *arguments] if isinstance(arguments, list) else []
    return any(isinstance(word, str) and any(mark in word for mark in MARKS) for word in words)


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise StoreError(f"cannot be read: {exc.strerror or exc}", path=str(path)) from exc


def _text(data: bytes | None, path: Path) -> tuple[str, str]:
    """The text without the byte-order mark, and that mark."""
    try:
        text = (data or b"").decode()
        if text.removeprefix(_BOM).strip():
            json.loads(text.removeprefix(_BOM))
    except ValueError as exc:
        hint = "nothing was changed: correct the file first"
        raise InvalidPolicy("settings", str(path), f"is not JSON: {exc}", hint=hint) from exc
    return (text[1:], _BOM) if text.startswith(_BOM) else (text, "")


def _record(path: Path) -> Path:
    name = hashlib.sha256(os.fsencode(path)).hexdigest()[:32]
    return _env.state_folder() / "installed" / f"{name}.json"


def _remember(path: Path, first: bytes | None, after: bytes) -> None:
    """Keep the file as it was before Ullage's first change, and as it is now."""
    earlier = _remembered(path)
    if earlier and first is not None and earlier["after"] == hashlib.sha256(first).hexdigest():
        first = _former(earlier)
    record = {
        "path": os.fsencode(path).decode("utf-8", "backslashreplace"),
        "before": None if first is None else first.decode("utf-8", "surrogateescape"),
        "after": hashlib.sha256(after).hexdigest(),
    }
    write_private(_record(path), json.dumps(record).encode())


def _former(record: dict[str, Any]) -> bytes | None:
    """The file before Ullage's first change; `None`: it was missing."""
    text: str | None = record["before"]
    return None if text is None else text.encode("utf-8", "surrogateescape")


def _remembered(path: Path) -> dict[str, Any] | None:
    try:
        record = json.loads(_record(path).read_bytes())
    except (OSError, ValueError):
        return None
    complete = isinstance(record, dict) and {"before", "after"} <= record.keys()
    return record if complete else None
