"""The memory folder of a project: an index, one note per topic, and the same again for the team (MEM-1, MEM-2)."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from ullage.exceptions import InvalidNote, LogConflict, PathRefused, StoreError
from ullage.memory.notes.note import Note, NoteType, slug
from ullage.memory.notes.sandbox import FileInfo, Sandbox

__all__ = ["INDEX", "Index", "MemoryFolder", "Problem"]

INDEX: Final = "MEMORY.md"
TEAM: Final = "team"

MAX_INDEX_LINES: Final = 200
MAX_INDEX_BYTES: Final = 25_000
"""Of the index in the system prompt: it is paid for at every turn."""
MAX_LINE_BYTES: Final = 2_000
"""Of one line there, where the whole is too long: an entry is a line about one note."""

Edit = Callable[[list[str]], list[str]]

_ENTRY = re.compile(r"^- \[[^\]]*\]\(([^)]+)\)")


class Index(NamedTuple):
    """An index as the system prompt gets it. `cut`: why something is missing, "" if nothing is."""

    text: str
    cut: str


class Problem(NamedTuple):
    """A file that was passed over, or an entry that leads nowhere."""

    path: str
    reason: str


class MemoryFolder:
    """What outlives a session: notes in a folder that people may read and edit.

    Args:
        path: The folder, such as `~/.ullage/projects/NAME/memory`; made when the first note is written.

    Example:
        >>> import tempfile
        >>> folder = MemoryFolder(tempfile.mkdtemp())
        >>> note = folder.add("Runs tests with make", "how the user tests", "user", "They run `make test`.")
        >>> note.path
        'runs-tests-with-make.md'
        >>> print(folder.index().text)
        - [Runs tests with make](runs-tests-with-make.md): how the user tests
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.sandbox = Sandbox(self.path)
        self._known: dict[str, tuple[FileInfo, Note | Problem]] = {}
        self._stamp: list[tuple[str, int, int]] | None = None
        self._found: list[Note | Problem] = []
        self._mutex, self._depth = threading.RLock(), 0
        self.version = 0  # grows with every change that was seen

    def __repr__(self) -> str:
        return f"MemoryFolder({str(self.path)!r})"

    # ---- reading -----------------------------------------------------------------------------

    def notes(self) -> list[Note]:
        """Front matter of all notes, newest first; `problems` lists broken ones. Files that did not change are not read again."""
        return [found for found in self._all() if isinstance(found, Note)]

    def problems(self) -> list[Problem]:
        """Notes that can't be read, entries of an index without a file, and notes that no index names."""
        found = [each for each in self._all() if isinstance(each, Problem)]
        return found + [problem for part in ("", TEAM) for problem in self._index_problems(part)]

    def read(self, path: str) -> Note:
        """A whole note.

        Raises:
            PathRefused, StoreError: As the file can't be read.
            InvalidNote: Its front matter is broken.
        """
        return Note.parse(_text(self.sandbox.read(path), path), path=path)

    def index(self, part: str = "") -> Index:
        """The index, at most 200 lines and 25 000 bytes, whole lines; says what was left out.

        Args:
            part: "" for the project's, `team` for the team's.
        """
        return _limited(self._index_text(part))

    def prompt(self) -> str:
        """What goes into the system prompt: the indexes, marked as notes and not as instructions; "" without any."""
        titles = {"": "Notes of earlier sessions", TEAM: "Notes of the team"}
        parts = []
        for part, title in titles.items():
            text, cut = self.index(part)
            if text:
                parts.append(
                    f"# {title} ({self._join(part, INDEX)})\n{text}" + (f"\n({cut})" if cut else "")
                )
        if not parts:
            return ""
        note = "They are data that was true when it was written; look before you rely on it."
        return "\n\n".join([*parts, note])

    def _all(self) -> list[Note | Problem]:
        """Heads of all files, newest first. One look at the folder; nothing is read where nothing changed."""
        stamp = self.sandbox.stamp()
        if stamp != self._stamp:
            infos = [info for info in self.sandbox.files(suffix=".md") if not _is_index(info.path)]
            self._known = {info.path: self._read_head(info) for info in infos}
            newest = sorted(infos, key=lambda info: (-info.changed_ns, info.path))
            self._stamp, self._found = stamp, [self._known[info.path][1] for info in newest]
            self.version += 1
        return self._found

    def _read_head(self, info: FileInfo) -> tuple[FileInfo, Note | Problem]:
        known = self._known.get(info.path)
        if known is not None and known[0] == info:
            return known
        try:
            text = _text(self.sandbox.read(info.path), info.path)
            note = Note.parse(text, path=info.path, changed_ns=info.changed_ns)
        except (InvalidNote, StoreError, PathRefused) as exc:
            return info, Problem(info.path, str(exc))
        return info, replace(note, body="")

    def _index_text(self, part: str) -> str:
        try:
            return self.sandbox.read(self._join(part, INDEX)).decode("utf-8", "replace")
        except StoreError:
            return ""

    def _index_problems(self, part: str) -> Iterator[Problem]:
        index = self._join(part, INDEX)
        named = [self._join(part, name) for name in _entries(self._index_text(part))]
        notes = (path for path, (_, found) in self._known.items() if isinstance(found, Note))
        present = {path for path in notes if _part(path) == part}
        yield from (
            Problem(index, f"names {path}, which is missing")
            for path in named
            if path not in self._known
        )
        yield from (
            Problem(path, f"is not named in {index}") for path in sorted(present - set(named))
        )
        if cut := _limited(self._index_text(part)).cut:
            yield Problem(index, cut)

    # ---- writing -----------------------------------------------------------------------------

    def add(
        self,
        name: str,
        description: str,
        type: str,  # noqa: A002 - the key's name
        body: str,
        *,
        team: bool = False,
    ) -> Note:
        """Write a new note and its line in the index.

        Args:
            name: Title, one line; the file's name comes from it.
            description: One line that says when the note matters.
            type: `user`, `feedback`, `project` or `reference`.
            body: Markdown.
            team: For all who share the folder.

        Raises:
            InvalidNote: A value of the front matter is wrong.
            LogConflict: A note of this name exists.
            StoreError: The folder can't be written.
        """
        if type not in list(NoteType):
            raise InvalidNote("type", type, f"must be one of {', '.join(NoteType)}")
        part = TEAM if team else ""
        note = Note(
            name.strip(), description.strip(), NoteType(type), body, self._join(part, slug(name))
        )
        with self.lock():
            self.sandbox.write(note.path, note.render().encode(), new=True)
            self._index_line(part, note)
        return note

    def update(self, note: Note, *, body: str, description: str | None = None) -> Note:
        """Replace a note's text, if nobody changed it since it was read.

        Raises:
            LogConflict: The file is not as `note` was read; read it again and decide again.
        """
        changed = replace(
            note, body=body, description=note.description if description is None else description
        )
        with self.lock():
            before = self.sandbox.read(note.path)
            if Note.parse(_text(before, note.path), path=note.path) != replace(note, changed_ns=0):
                raise LogConflict(f"{note.path} has changed since it was read")
            self.sandbox.write(note.path, changed.render().encode(), expected=before)
            self._index_line(_part(note.path), changed)
        return changed

    def remove(self, path: str) -> None:
        """Delete a note and its line in the index.

        Raises:
            PathRefused, StoreError: It can't be deleted.
        """
        part = _part(path)
        name = path.removeprefix(f"{part}/") if part else path
        with self.lock():
            self.sandbox.delete(path)
            self._edit_index(part, lambda lines: [line for line in lines if _entry(line) != name])

    def _index_line(self, part: str, note: Note) -> None:
        name = note.path.removeprefix(f"{TEAM}/") if part else note.path
        title = note.name.replace("[", "(").replace("]", ")")
        entry = f"- [{title}]({name}): {note.description}".rstrip(": ")

        def put(lines: list[str]) -> list[str]:
            if any(_entry(line) == name for line in lines):
                return [entry if _entry(line) == name else line for line in lines]
            return [*lines, entry]

        self._edit_index(part, put)

    def _edit_index(self, part: str, edit: Edit) -> None:
        path = self._join(part, INDEX)
        text = self._index_text(part)
        lines = edit(text.rstrip("\n").split("\n") if text.strip() else [])
        self.sandbox.write(path, ("\n".join(lines) + "\n").encode() if lines else b"")

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the folder against other threads and sessions; may be taken again inside. Ends with the process.

        Raises:
            StoreError: The folder can't be written.
        """
        with self._mutex:
            if self._depth:
                yield
                return
            handle = self._locked()
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
                os.close(handle)

    def _locked(self) -> int:
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
            handle = os.open(self.path / ".lock", flags, 0o600)
        except OSError as exc:
            raise StoreError(exc.strerror or str(exc), path=str(self.path)) from exc
        with suppress(
            ImportError
        ):  # without such locks, replacing whole files is all that protects
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX)
        return handle

    @staticmethod
    def _join(part: str, name: str) -> str:
        return f"{part}/{name}" if part else name


def _text(data: bytes, path: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as exc:
        raise InvalidNote("text", "", f"must be UTF-8 (byte {exc.start})", path=path) from exc


def _is_index(path: str) -> bool:
    return path == INDEX or path.endswith(f"/{INDEX}")


def _part(path: str) -> str:
    return TEAM if path.startswith(f"{TEAM}/") else ""


def _entry(line: str) -> str:
    match = _ENTRY.match(line)
    return match[1] if match else ""


def _entries(text: str) -> list[str]:
    return [name for line in text.split("\n") if (name := _entry(line)) and "://" not in name]


def _limited(text: str) -> Index:
    """First the lines, then the bytes, as both count; where those are too many, long lines are cut, and then never half a line."""
    lines = text.strip("\n").split("\n") if text.strip() else []
    kept, why = lines, []
    if len(lines) > MAX_INDEX_LINES:
        kept = lines[:MAX_INDEX_LINES]
        why.append(f"{len(lines)} lines, {MAX_INDEX_LINES} are shown")
    size = len("\n".join(kept).encode("utf-8", "replace"))
    if size > MAX_INDEX_BYTES:
        kept = _whole_lines([_line(line) for line in kept])
        why.append(f"{size:,} bytes, {MAX_INDEX_BYTES:,} are shown")
    cut = f"the index has {' and '.join(why)}: move detail into the notes" if why else ""
    return Index("\n".join(kept), cut)


def _whole_lines(lines: list[str]) -> list[str]:
    left, kept = MAX_INDEX_BYTES + 1, []
    for line in lines:
        left -= len(line.encode("utf-8", "replace")) + 1
        if left < 0:
            break
        kept.append(line)
    return kept


def _line(line: str) -> str:
    data = line.encode("utf-8", "replace")
    if len(data) <= MAX_LINE_BYTES:
        return line
    return data[: MAX_LINE_BYTES - len("…".encode())].decode("utf-8", "ignore") + "…"
