"""The memory folder of a project: an index, one note per topic, and the same again for the team (MEM-1, MEM-2)."""

from __future__ import annotations

import errno
import os
import re
import shlex
import stat
import threading
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache, partial
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from ullage._start import optional
from ullage.exceptions import InvalidNote, LogConflict, PathRefused, StoreError, UllageError
from ullage.transcript.log import locked

if TYPE_CHECKING:
    from anthropic.lib.tools import BetaAbstractMemoryTool


# One note: Markdown with a front matter that says its name, what it is about and of which type it is (MEM-1).

MAX_DESCRIPTION: Final = 300  # characters: a description is read in lists of many

MAX_NAME: Final = 120


class NoteType(StrEnum):
    """What a note is about."""

    USER = "user"  # who the user is, how they work
    FEEDBACK = "feedback"  # what the user corrected or confirmed
    PROJECT = "project"  # goals, decisions, dates that the code does not tell
    REFERENCE = "reference"  # where things outside lie


_KEY = re.compile(r"^([A-Za-z_][\w-]*):[ \t]*(.*?)[ \t]*$")
_QUOTED = re.compile(r'^"((?:[^"\\]|\\["\\n])*)"$|^\'((?:[^\']|\'\')*)\'$')


@dataclass(frozen=True, slots=True)
class Note:
    """One note."""

    name: str  # its title
    description: str  # one line: when it matters
    type: NoteType  # what it is about
    body: str = ""  # Markdown; "" where only the head was read
    path: str = ""  # inside the folder; "" if it has not been written
    changed_ns: int = 0  # time of its last change; 0: unknown
    others: tuple[tuple[str, str], ...] = ()  # further keys of the front matter, kept as they are

    def __repr__(self) -> str:
        return f"Note({self.path or self.name!r}, {self.type.value})"

    def __post_init__(self) -> None:
        if not self.name.strip() or len(self.name) > MAX_NAME or "\n" in self.name:
            limit = f"must be one line of 1 to {MAX_NAME} characters"
            raise InvalidNote("name", self.name[:80], limit)
        if len(self.description) > MAX_DESCRIPTION or "\n" in self.description:
            limit = f"must be one line of at most {MAX_DESCRIPTION} characters"
            raise InvalidNote("description", self.description[:80], limit)

    @classmethod
    def parse(cls, text: str, *, path: str = "", changed_ns: int = 0) -> Self:
        """Read a file.

        Raises:
            InvalidNote: The front matter is missing, not closed, without a name, or of no known type.
        """
        lines = text.removeprefix("\ufeff").split("\n")
        try:
            if lines[0].rstrip() != "---":
                raise InvalidNote("front matter", lines[0][:40], "must begin with a line ---")
            end = next((at for at, line in enumerate(lines[1:], 1) if line.rstrip() == "---"), 0)
            if not end:
                raise InvalidNote("front matter", "", "must end with a line ---")
            keys = _keys(lines[1:end])
            name, description = keys.pop("name", ""), keys.pop("description", "")
            kind = _checked_type(keys.pop("type", ""))
            body = "\n".join(lines[end + 1 :]).strip("\n")
            return cls(name, description, kind, body, path, changed_ns, tuple(keys.items()))
        except InvalidNote as exc:
            raise InvalidNote(exc.field, exc.value, exc.limit, path=path) from None

    def render(self) -> str:
        """The file's text."""
        head = [("name", self.name), ("description", self.description), ("type", self.type.value)]
        lines = (f"{key}: {_value(value)}" for key, value in (*head, *self.others))
        return "\n".join(("---", *lines, "---", "", self.body.strip("\n"), ""))


def heads_text(notes: Iterable[Note]) -> str:
    """Notes as a model is shown them to choose from, one a line."""
    return "\n".join(f"{n.path} [{n.type}] {n.name}: {n.description}" for n in notes)


def _checked_type(name: str) -> NoteType:
    if name not in list(NoteType):
        raise InvalidNote("type", name, f"must be one of {', '.join(NoteType)}")
    return NoteType(name)


def _keys(lines: list[str]) -> dict[str, str]:
    """`key: value` lines; indented lines belong to a value that we do not read, and comments to nobody."""
    keys: dict[str, str] = {}
    for number, line in enumerate(lines, 2):
        if not line.strip() or line.lstrip().startswith("#") or line[0] in " \t-":
            continue
        match = _KEY.match(line)
        if match is None:
            raise InvalidNote("front matter", line[:60], f"line {number} must be `key: value`")
        if match[1] in keys:
            raise InvalidNote(match[1], match[2][:60], f"is stated twice (line {number})")
        keys[match[1]] = _plain(match[2])
    return keys


def _plain(value: str) -> str:
    match = _QUOTED.match(value)
    if match is None:
        return value
    if match[1] is not None:
        return re.sub(r"\\(.)", lambda escape: "\n" if escape[1] == "n" else escape[1], match[1])
    return match[2].replace("''", "'")


def _value(value: str) -> str:
    """Quoted where YAML would read something else than the text."""
    plain = re.fullmatch(r"[\w(][\w ().,/+-]*", value) and value == value.strip()
    if (
        plain
        and value.lower() not in ("true", "false", "null", "yes", "no", "on", "off")
        and not value[0].isdigit()
    ):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def slug(name: str) -> str:
    """A file name for a title: lower case letters, digits and hyphens of any script, then `.md`."""
    words = re.findall(r"\w+", name.casefold().replace("_", " "))
    return ("-".join(words)[:60].strip("-") or "note") + ".md"


# Files of one folder and nothing else: every path is checked part by part, links are never followed (MEM-5).
#
# Names come from models. A name is refused where it could mean another file on another system: parent steps, absolute
# paths, separators of any kind, control characters, reserved names, a second spelling of a file that exists, letters that
# only look like the ones they stand for.

MAX_FILE_BYTES: Final = 1_000_000  # bytes of one file; a note is a page, not a database
MAX_NAME_BYTES: Final = 200  # below the 255 of common file systems: a temporary name fits too

MAX_DEPTH: Final = 8

LOOKS: Final = 20
"""How often a file with several names is looked at before one of them is taken to lie outside."""

_RESERVED: Final = frozenset(
    ["con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10))]
)
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,100}(?:\.[A-Za-z0-9]{1,8})?")
"""What nearly all names are; anything else is looked at closely."""

_FORBIDDEN: Final = frozenset('<>:"|?*\\')
_SCRIPTS: Final = frozenset(("LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC"))
"""Scripts whose letters are drawn alike."""

_NO_FOLLOW: Final = getattr(os, "O_NOFOLLOW", 0)
_FOLDER: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _NO_FOLLOW


class FileInfo(NamedTuple):
    """A file: its path inside the folder, bytes, and time of its last change in nanoseconds."""

    path: str
    size: int
    changed_ns: int


def checked_parts(path: str) -> tuple[str, ...]:
    """The parts of a relative path; "" is the folder itself. `PathRefused`: it could mean a file elsewhere."""
    if not isinstance(path, str):
        raise PathRefused(repr(path), "must be text")
    if path.startswith(("/", "~")) or path[1:2] == ":":
        raise PathRefused(path, "must be relative to the folder")
    parts = tuple(path.split("/")) if path else ()
    if len(parts) > MAX_DEPTH:
        raise PathRefused(path, f"has more than {MAX_DEPTH} levels")
    for part in parts:
        if reason := _reason(part):
            raise PathRefused(path, reason)
    return parts


@lru_cache(maxsize=4096)
def _reason(name: str) -> str:
    """Why a name is refused; "" if it is not."""
    if _PLAIN.fullmatch(name):
        return "is a reserved name" if name.split(".")[0].casefold() in _RESERVED else ""
    if name in ("", ".", ".."):
        return "has an empty part, or steps out of the folder"
    if any(
        ord(char) < 32 or char in _FORBIDDEN or unicodedata.category(char)[0] == "C"
        for char in name
    ):
        return "holds a control character, a separator or an invisible character"
    if unicodedata.normalize("NFKC", name) != name:
        return "contains characters that imitate others"
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        return "is not valid Unicode"
    if size > MAX_NAME_BYTES:
        return f"has a part of {size} bytes; the limit is {MAX_NAME_BYTES}"
    if name.startswith(".") or name != name.strip(" ."):
        return "has a part that begins with a dot, or ends with a dot or a space"
    if name.split(".")[0].casefold() in _RESERVED:
        return "is a reserved name"
    stem = name.rpartition(".")[0] or name  # the ending is nearly always Latin
    scripts = {unicodedata.name(char, "").split(" ")[0] for char in stem if char.isalpha()}
    return "mixes letters of scripts that look alike" if len(scripts & _SCRIPTS) > 1 else ""


@dataclass(frozen=True, slots=True)
class Sandbox:
    """One folder. Opened part by part by file descriptors, so that a link put in place meanwhile is not followed either.

    Its methods raise `PathRefused` for a path that leaves the folder, passes through a link, is no regular file or is also
    a file outside, and `StoreError` for a file that is missing, too large, or cannot be read or written.
    """

    root: Path
    """May be a link itself, as it is the host's. Made when the first file is written."""

    def read(self, path: str) -> bytes:
        """The bytes of a file."""
        with self._parent(path) as (folder, name):
            handle = self._opened(path, name, os.O_RDONLY, folder)
            try:
                self._own(path, partial(os.fstat, handle))
                with _named_errors(path), os.fdopen(handle, "rb", closefd=False) as file:
                    data = file.read(MAX_FILE_BYTES + 1)
            finally:
                os.close(handle)
        if len(data) > MAX_FILE_BYTES:
            raise StoreError(f"more than {MAX_FILE_BYTES:,} bytes", path=path)
        return data

    def write(
        self, path: str, data: bytes, *, expected: bytes | None = None, new: bool = False
    ) -> None:
        """Write a file whole, durably, or not at all; another spelling of an existing name is refused.

        Raises `LogConflict` if it holds something else than `expected` (`None`: anything), or exists although it must
        be `new`.
        """
        if len(data) > MAX_FILE_BYTES:
            raise StoreError(f"{len(data):,} bytes; the limit is {MAX_FILE_BYTES:,}", path=path)
        with self._parent(path, make=True) as (folder, name):
            self._no_twin(path, name, folder)
            draft = f".{name}.{os.urandom(4).hex()}.part"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW
            with _named_errors(path):
                handle = os.open(draft, flags, 0o600, dir_fd=folder)
            try:
                with _named_errors(path), os.fdopen(handle, "wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                if expected is not None and not new and self.read(path) != expected:
                    raise LogConflict(f"{path} has changed since it was read")
                self._install(path, draft, name, folder, new=new)
            except BaseException:
                with suppress(OSError):
                    os.unlink(draft, dir_fd=folder)
                raise

    def located(self, path: str) -> str | None:
        """The absolute path of a file or folder that lies inside, from a relative or absolute one; `None`: there is none."""
        root = str(self.root.absolute())
        inner = path.removeprefix("./")
        if path.startswith("/"):
            inner = "" if path.rstrip("/") == root else path.removeprefix(f"{root}/")
        try:
            parts = checked_parts("" if inner == "." else inner.rstrip("/"))
            if parts:
                with self._parent("/".join(parts)) as (folder, name):
                    look = partial(os.stat, name, dir_fd=folder, follow_symlinks=False)
                    if not stat.S_ISDIR(look().st_mode):
                        self._own(path, look)
        except (UllageError, OSError, ValueError):
            return None
        return "/".join((root, *parts))

    def delete(self, path: str) -> None:
        """Remove a file."""
        with self._parent(path) as (folder, name):
            self._regular(path, name, folder)
            with _named_errors(path):
                os.unlink(name, dir_fd=folder)

    def rename(self, path: str, target: str) -> None:
        """Give a file another name. Raises `LogConflict` if the target exists."""
        with self._parent(path) as (old, name), self._parent(target, make=True) as (folder, wanted):
            self._regular(path, name, old)
            self._no_twin(target, wanted, folder)
            with _named_errors(target):
                try:
                    os.link(name, wanted, src_dir_fd=old, dst_dir_fd=folder, follow_symlinks=False)
                except FileExistsError as exc:
                    raise LogConflict(f"{target} exists already") from exc
            with _named_errors(path):
                os.unlink(name, dir_fd=old)

    def files(self, *, suffix: str = "") -> list[FileInfo]:
        """Regular files, by path; links, hidden files and names that are refused are passed over."""
        infos: list[FileInfo] = []
        folders = [(str(self.root), "", MAX_DEPTH)]
        while folders:
            base, lead, depth = folders.pop()
            try:
                entries = list(os.scandir(base))
            except (FileNotFoundError, NotADirectoryError):
                continue
            for entry in entries:
                if _reason(entry.name):
                    continue
                path = lead + entry.name
                if entry.is_dir(follow_symlinks=False) and depth > 1:
                    folders.append((entry.path, f"{path}/", depth - 1))
                elif entry.is_file(follow_symlinks=False) and path.endswith(suffix):
                    with suppress(OSError):  # removed since
                        info = entry.stat(follow_symlinks=False)
                        infos.append(FileInfo(path, info.st_size, info.st_mtime_ns))
        return sorted(infos)

    def stamp(self) -> list[tuple[str, int, int]]:
        """What tells whether any file changed: one look, in the order of the file system, nothing checked or sorted."""
        stamps: list[tuple[str, int, int]] = []
        for entry in self._entries():
            with suppress(OSError):  # removed since
                info = entry.stat(follow_symlinks=False)
                stamps.append((entry.path, info.st_size, info.st_mtime_ns))
        return stamps

    def _entries(self) -> Iterator[os.DirEntry[str]]:
        """All that lies below the root and is no folder, links and drafts included."""
        folders = [str(self.root)]
        while folders:
            with suppress(OSError), os.scandir(folders.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    else:
                        yield entry

    @contextmanager
    def _parent(self, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """The folder of a file as a descriptor, and the file's name."""
        parts = checked_parts(path)
        if not parts:
            raise PathRefused(path, "names no file")
        with _named_errors(path):
            if make:
                self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle = os.open(self.root, _FOLDER & ~getattr(os, "O_NOFOLLOW", 0))
        try:
            for part in parts[:-1]:
                if make:
                    with _named_errors(path), suppress(FileExistsError):
                        self._no_twin(path, part, handle)
                        os.mkdir(part, 0o700, dir_fd=handle)
                inner = self._opened(path, part, _FOLDER, handle)
                os.close(handle)
                handle = inner
            yield handle, parts[-1]
        finally:
            os.close(handle)

    def _opened(self, path: str, name: str, flags: int, folder: int) -> int:
        try:
            # Not to wait for a writer, should it be a pipe.
            return os.open(name, flags | _NO_FOLLOW | getattr(os, "O_NONBLOCK", 0), dir_fd=folder)
        except OSError as exc:
            if exc.errno == errno.ELOOP or (exc.errno == errno.ENOTDIR and _is_link(name, folder)):
                raise PathRefused(path, "passes through a link") from exc
            raise StoreError(exc.strerror or str(exc), path=path) from exc

    def _no_twin(self, path: str, name: str, folder: int) -> None:
        """On some systems `Notes.md` and `notes.md` are one file, on others two."""
        key = name.casefold()
        twin = next(
            (other for other in os.listdir(folder) if other != name and other.casefold() == key), ""
        )
        if twin:
            raise PathRefused(path, f"differs only in case from {twin}")

    def _regular(self, path: str, name: str, folder: int) -> None:
        with _named_errors(path):
            mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        if not stat.S_ISREG(mode):
            raise PathRefused(path, "is not a regular file")

    def _own(self, path: str, look: Callable[[], os.stat_result]) -> None:
        """A regular file whose every name lies in this folder: a hard link would show, or share, a file outside.

        Names come and go while others rename; one outside stands whenever we look.
        """
        for _ in range(LOOKS):
            info = look()
            if not stat.S_ISREG(info.st_mode):
                raise PathRefused(path, "is not a regular file")
            # While a draft is put in place the file has two names.
            inner_names = (entry for entry in self._entries() if entry.inode() == info.st_ino)
            if info.st_nlink <= 1 or info.st_nlink <= sum(1 for _ in inner_names):
                return
        raise PathRefused(path, "is a hard link to a file outside the folder")

    def _install(self, path: str, draft: str, name: str, folder: int, *, new: bool) -> None:
        if _is_link(name, folder):
            raise PathRefused(path, "passes through a link")
        with _named_errors(path):
            if new:
                try:
                    os.link(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
                except FileExistsError as exc:
                    raise LogConflict(f"{path} exists already") from exc
                os.unlink(draft, dir_fd=folder)
            else:
                os.replace(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
            os.fsync(folder)


def _is_link(name: str, folder: int) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        return False


@contextmanager
def _named_errors(path: str) -> Iterator[None]:
    try:
        yield
    except UllageError:  # some are OSErrors too
        raise
    except OSError as exc:
        raise StoreError(exc.strerror or str(exc), path=path) from exc


INDEX: Final = "MEMORY.md"
TEAM: Final = "team"

MAX_INDEX_LINES: Final = 200
MAX_INDEX_BYTES: Final = 25_000  # of the index in the system prompt: it is paid for at every turn
MAX_LINE_BYTES: Final = 2_000
"""Of one line there, where the whole is too long: an entry is a line about one note."""

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
        self._cache: dict[str, tuple[FileInfo, Note | Problem]] = {}  # newest first
        self._stamp: list[tuple[str, int, int]] | None = None
        self._mutex, self._depth = threading.RLock(), 0
        self.version = 0  # grows with every change that was seen

    def __repr__(self) -> str:
        return f"MemoryFolder({str(self.path)!r})"

    def notes(self) -> list[Note]:
        """Front matter of all notes, newest first; `problems` lists broken ones. Files that did not change are not read again."""
        return [note for note in self._all() if isinstance(note, Note)]

    def problems(self) -> list[Problem]:
        """Notes that can't be read, entries of an index without a file, and notes that no index names."""
        problems = [item for item in self._all() if isinstance(item, Problem)]
        for part in ("", TEAM):
            index, text = self._join(part, INDEX), self._index_text(part)
            entries = filter(None, map(_entry, text.split("\n")))
            named = [self._join(part, name) for name in entries if "://" not in name]
            notes = {path for path, (_, head) in self._cache.items() if isinstance(head, Note)}
            unnamed = {path for path in notes if _part(path) == part}.difference(named)
            problems += [
                Problem(index, f"names {path}, which is missing")
                for path in named
                if path not in self._cache
            ]
            problems += [Problem(path, f"is not named in {index}") for path in sorted(unnamed)]
            if cut := _limited(text).cut:
                problems.append(Problem(index, cut))
        return problems

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
            files = self.sandbox.files(suffix=".md")
            infos = [info for info in files if info.path.rpartition("/")[2] != INDEX]
            infos.sort(key=lambda info: (-info.changed_ns, info.path))
            self._cache = {info.path: self._read_head(info) for info in infos}
            self._stamp = stamp
            self.version += 1
        return [head for _, head in self._cache.values()]

    def _read_head(self, info: FileInfo) -> tuple[FileInfo, Note | Problem]:
        cached = self._cache.get(info.path)
        if cached is not None and cached[0] == info:
            return cached
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
        kind, path = _checked_type(type), self._join(TEAM if team else "", slug(name))
        note = Note(name.strip(), description.strip(), kind, body, path)
        with self.lock():
            self.sandbox.write(path, note.render().encode(), new=True)
            self._set_entry(path, _entry_of(note))
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
            self._set_entry(note.path, _entry_of(changed))
        return changed

    def remove(self, path: str) -> None:
        """Delete a note and its line in the index.

        Raises:
            PathRefused, StoreError: It can't be deleted.
        """
        with self.lock():
            self.sandbox.delete(path)
            self._set_entry(path, "")

    def _set_entry(self, path: str, entry: str) -> None:
        """Replace a note's line in its index, or add it; "" removes it."""
        part, name = _part(path), path.removeprefix(f"{TEAM}/")
        text = self._index_text(part)
        lines = text.rstrip("\n").split("\n") if text.strip() else []
        others = [line for line in lines if _entry(line) != name]
        if not entry:
            lines = others
        elif len(others) == len(lines):
            lines.append(entry)
        else:
            lines = [entry if _entry(line) == name else line for line in lines]
        self.sandbox.write(self._join(part, INDEX), "".join(f"{line}\n" for line in lines).encode())

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
            with _named_errors(str(self.path)):
                self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            with locked(self.path / ".lock"):
                self._depth += 1
                try:
                    yield
                finally:
                    self._depth -= 1

    @staticmethod
    def _join(part: str, name: str) -> str:
        return f"{part}/{name}" if part else name


def _text(data: bytes, path: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as exc:
        raise InvalidNote("text", "", f"must be UTF-8 (byte {exc.start})", path=path) from exc


def _part(path: str) -> str:
    return TEAM if path.startswith(f"{TEAM}/") else ""


def _entry_of(note: Note) -> str:
    """A note's line in its index."""
    name = note.path.removeprefix(f"{TEAM}/")
    title = note.name.replace("[", "(").replace("]", ")")
    return f"- [{title}]({name}): {note.description}".rstrip(": ")


def _entry(line: str) -> str:
    match = _ENTRY.match(line)
    return match[1] if match else ""


def _limited(text: str) -> Index:
    """First the lines, then the bytes, as both count; where those are too many, long lines are cut, and then never half a line."""
    lines = text.strip("\n").split("\n") if text.strip() else []
    shown, why = lines[:MAX_INDEX_LINES], []
    if len(lines) > MAX_INDEX_LINES:
        why.append(f"{len(lines)} lines, {MAX_INDEX_LINES} are shown")
    size = len("\n".join(shown).encode("utf-8", "replace"))
    if size > MAX_INDEX_BYTES:
        most = MAX_LINE_BYTES - len("…".encode())
        for at, line in enumerate(shown):
            data = line.encode("utf-8", "replace")
            if len(data) > MAX_LINE_BYTES:
                shown[at] = data[:most].decode("utf-8", "ignore") + "…"
        sizes = accumulate(len(line.encode("utf-8", "replace")) + 1 for line in shown)
        shown = shown[: bisect_right(list(sizes), MAX_INDEX_BYTES + 1)]
        why.append(f"{size:,} bytes, {MAX_INDEX_BYTES:,} are shown")
    cut = f"the index has {' and '.join(why)}: move detail into the notes" if why else ""
    return Index("\n".join(shown), cut)


DEFINITION: Final[Mapping[str, str]] = {"type": "memory_20250818", "name": "memory"}
"""For the request's `tools`; with context editing put `memory` among the excluded tools."""

ROOT: Final = "/memories"
# As Anthropic's tool does, on whose layout models are trained: a folder's listing names what is two levels below it.
LEVELS: Final = 2


class MemoryAnswer(NamedTuple):
    """Text of the tool result, and whether it is an error."""

    text: str
    is_error: bool = False


class MemoryTool:
    """Executes the tool's commands.

    Args:
        folder: Where the files lie; `/memories` is the folder itself.

    Example:
        >>> import tempfile
        >>> tool = MemoryTool(MemoryFolder(tempfile.mkdtemp()))
        >>> tool.call({"command": "create", "path": "/memories/port.md", "file_text": "8123"}).text
        'File created successfully at: /memories/port.md'
        >>> tool.call({"command": "view", "path": "/memories/../secret"}).is_error
        True
    """

    def __init__(self, folder: MemoryFolder) -> None:
        self.folder = folder
        self.refused: list[str] = []

    def definition(self) -> dict[str, str]:
        """For the request's `tools`."""
        return dict(DEFINITION)

    def call(self, given: object) -> MemoryAnswer:
        """The result of a call with this `input` of its `tool_use` block, whatever the model wrote there.

        Bad input and refused paths are errors in it, never raised. Refusals are kept in `refused`.
        """
        if not isinstance(given, Mapping):
            return MemoryAnswer(f"The input must be an object, got: {type(given).__name__}", True)
        name = given.get("command")
        command = _COMMANDS.get(name) if isinstance(name, str) else None
        if command is None:
            return MemoryAnswer(
                f"Unknown command: {name!r}. Use one of {', '.join(_COMMANDS)}.", True
            )
        try:
            return MemoryAnswer(command(self, given))
        except PathRefused as exc:
            self.refused.append(str(exc))
            return MemoryAnswer(
                f"Path {exc.path} would escape {ROOT} directory, or {exc.reason}", True
            )
        except UnicodeError:
            return MemoryAnswer("The text holds characters that are not valid Unicode", True)
        except UllageError as exc:
            return MemoryAnswer(str(exc), True)

    def _view(self, command: Mapping[str, Any]) -> str:
        path = _path(command, "path")
        files = self.folder.sandbox.files()
        if not path or any(info.path.startswith(f"{path}/") for info in files):
            return _listing(path, files)
        lines = self._text(path).split("\n")
        first, last = 1, len(lines)
        match command.get("view_range"):
            case [int(start), int(end)] if bool not in (type(start), type(end)):
                first, last = max(1, start), last if end == -1 else end
        numbered = _numbered(lines, first, last)
        return f"Here's the content of {_shown(path)} with line numbers:\n{numbered}"

    def _create(self, command: Mapping[str, Any]) -> str:
        path = _path(command, "path")
        try:
            self.folder.sandbox.write(path, _text_of(command, "file_text").encode(), new=True)
        except LogConflict:
            raise UllageError(f"File {_shown(path)} already exists") from None
        return f"File created successfully at: {_shown(path)}"

    def _str_replace(self, command: Mapping[str, Any]) -> str:
        path, old = _path(command, "path"), _text_of(command, "old_str")
        new = "" if command.get("new_str") is None else _text_of(command, "new_str")
        text = self._text(path)
        places = [match.start() for match in re.finditer(f"(?={re.escape(old)})", text) if old]
        if not places:
            raise UllageError(
                f"No replacement was performed, old_str `{old}` did not appear verbatim in {_shown(path)}."
            )
        if len(places) > 1:
            lines = ", ".join(str(text.count("\n", 0, at) + 1) for at in places)
            raise UllageError(
                f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: {lines}. Please ensure it is unique"
            )
        changed = text.replace(old, new)
        self.folder.sandbox.write(path, changed.encode(), expected=text.encode())
        at = text.count("\n", 0, places[0])
        snippet = _numbered(changed.split("\n"), max(1, at - 1), at + 3)
        return f"The memory file has been edited. Here is the snippet showing the change (with line numbers):\n{snippet}"

    def _insert(self, command: Mapping[str, Any]) -> str:
        path, at = _path(command, "path"), command.get("insert_line")
        added = _text_of(command, "insert_text")
        text = self._text(path)
        lines = text.removesuffix("\n").split("\n") if text else []
        if type(at) is not int or not 0 <= at <= len(lines):
            raise UllageError(
                f"Invalid `insert_line` parameter: {at}. It should be within the range [0, {len(lines)}]."
            )
        lines.insert(at, added.rstrip("\n"))
        data = ("\n".join(lines) + "\n").encode()
        self.folder.sandbox.write(path, data, expected=text.encode())
        return f"The file {_shown(path)} has been edited."

    def _delete(self, command: Mapping[str, Any]) -> str:
        path = _path(command, "path")
        if not path:
            raise UllageError(f"Cannot delete the {ROOT} directory itself")
        files = [info.path for info in self.folder.sandbox.files()]
        for file in [file for file in files if file.startswith(f"{path}/")] or [path]:
            with _missing_path(file):
                self.folder.sandbox.delete(file)
        return f"Successfully deleted {_shown(path)}"

    def _rename(self, command: Mapping[str, Any]) -> str:
        old, new = _path(command, "old_path"), _path(command, "new_path")
        if not old:
            raise UllageError(f"Cannot rename the {ROOT} directory itself")
        try:
            with _missing_path(old):
                self.folder.sandbox.rename(old, new)
        except LogConflict:
            raise UllageError(f"The destination {_shown(new)} already exists") from None
        return f"Successfully renamed {_shown(old)} to {_shown(new)}"

    def _text(self, path: str) -> str:
        with _missing_path(path, ". Please provide a valid path."):
            return self.folder.sandbox.read(path).decode("utf-8", "replace")


_COMMANDS: Final[dict[str, Callable[[MemoryTool, Mapping[str, Any]], str]]] = {
    "view": MemoryTool._view,
    "create": MemoryTool._create,
    "str_replace": MemoryTool._str_replace,
    "insert": MemoryTool._insert,
    "delete": MemoryTool._delete,
    "rename": MemoryTool._rename,
}


@contextmanager
def _missing_path(path: str, advice: str = "") -> Iterator[None]:
    try:
        yield
    except StoreError as exc:
        if isinstance(exc.__cause__, FileNotFoundError):
            raise UllageError(f"The path {_shown(path)} does not exist{advice}") from exc
        raise


def _text_of(command: Mapping[str, Any], key: str) -> str:
    value = command.get(key)
    if not isinstance(value, str):
        raise UllageError(f"`{key}` must be a string")
    return value


def _path(command: Mapping[str, Any], key: str) -> str:
    """The path below the root; `PathRefused` in the words of the caller's path."""
    value = _text_of(command, key)
    if value != ROOT and not value.startswith(f"{ROOT}/"):
        raise UllageError(f"Path must start with {ROOT}, got: {value}")
    return value.removeprefix(ROOT).strip("/")


def _shown(path: str) -> str:
    return f"{ROOT}/{path}" if path else ROOT


def _numbered(lines: list[str], first: int, last: int) -> str:
    """As Anthropic's tool shows files."""
    chosen = enumerate(lines[first - 1 : last], first)
    return "\n".join(f"{number:>6}\t{line}" for number, line in chosen)


def _listing(path: str, files: list[FileInfo]) -> str:
    """Files, and the folders that lead to them, so far as they lie within the levels that are shown."""
    lead = f"{path}/" if path else ""
    total = 0
    sizes: Counter[str] = Counter()
    for info in files:
        if not info.path.startswith(lead):
            continue
        total += info.size
        *folders, name = info.path[len(lead) :].split("/")
        for depth in range(1, min(len(folders), LEVELS) + 1):
            sizes["/".join(folders[:depth]) + "/"] += info.size
        if len(folders) < LEVELS:
            sizes["/".join([*folders, name])] += info.size
    head = f"Here're the files and directories up to {LEVELS} levels deep in {_shown(path)}, excluding hidden items:"
    lines = (f"{_size(size)}\t{_shown(path)}/{name}" for name, size in sorted(sizes.items()))
    return "\n".join((head, f"{_size(total)}\t{_shown(path)}", *lines))


def _size(count: int) -> str:
    value, unit = float(count), "B"
    for larger in ("K", "M"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.1f}{unit}".replace(".0", "")


def anthropic_tool(folder: MemoryFolder) -> BetaAbstractMemoryTool:
    """The tool for the official SDK's tool runner (`client.beta.messages.tool_runner`).

    Raises:
        MissingExtra: The package `anthropic` is not installed, or too old.
    """
    optional("anthropic.lib.tools", "anthropic")
    from anthropic.lib.tools import BetaAbstractMemoryTool, ToolError

    tool = MemoryTool(folder)

    def run(_: Any, command: Any) -> str:
        answer = tool.call(
            command.model_dump() if hasattr(command, "model_dump") else dict(command)
        )
        if answer.is_error:
            raise ToolError(answer.text)
        return answer.text

    tool_class = type("UllageMemoryTool", (BetaAbstractMemoryTool,), dict.fromkeys(_COMMANDS, run))
    tool_for_runner: BetaAbstractMemoryTool = tool_class()
    return tool_for_runner


# Commands that a model may have run: a few programs that only read, on paths of the notes' folder only (MEM-4).
#
# What is checked is what runs: the words are rebuilt, each path absolute and after `--`, so that neither the folder in
# which the host runs them nor a name that looks like an option changes what they mean.


_SHELL: Final = re.compile(r"[;&|<>`$(){}\\\n\r\0!*?~\[\]]")
"""No pipes, redirections, substitutions or expansions."""


@dataclass(frozen=True, slots=True)
class _Program:
    """A program's options: `flags` stand alone, `valued` take the next word; none of them names a file."""

    flags: str = ""
    valued: str = ""
    number: bool = False  # `-20` is a count
    pattern: bool = False  # the first operand is a pattern
    paths: bool = True


_PROGRAMS: Final[Mapping[str, _Program]] = {
    "cat": _Program("Abens"),
    "date": _Program("u", paths=False),
    "grep": _Program("EFHchilnorsvwx", "ABCm", pattern=True),
    "head": _Program("qv", "cn", number=True),
    "ls": _Program("1AFRSahklrst"),
    "stat": _Program("t"),
    "tail": _Program("qv", "cn", number=True),
    "wc": _Program("Lclmw"),
}
PROGRAMS: Final = tuple(_PROGRAMS)
"""Without those that follow links below a folder, read a list of files, or a repository's history."""


def read_only(command: str, folder: Sandbox) -> list[str] | None:
    """The words to run for a command that can only read, and only in the folder; `None`: it is refused.

    Relative paths are seen from the folder, and no path means the folder; links are not followed.

    Example:
        >>> from pathlib import Path
        >>> notes = Sandbox(Path("/srv/notes"))
        >>> read_only("ls -l", notes)
        ['ls', '-l', '--', '/srv/notes']
        >>> read_only("cat ../secret", notes) is None
        True
    """
    if _SHELL.search(command):
        return None
    try:
        program, *words = shlex.split(command) or [""]
    except ValueError:
        return None
    reader = _PROGRAMS.get(program)
    read = None if reader is None else _options(reader, words)
    if reader is None or read is None:
        return None
    options, operands = read
    if not reader.paths:
        return None if operands else [program, *options]
    if reader.pattern:
        if not operands:
            return None
        options = [*options, "-e", operands.pop(0)]
    paths: list[str] = []
    for operand in operands or [""]:
        path = folder.located(operand)
        if path is None:
            return None
        paths.append(path)
    return [program, *options, "--", *paths]


def _options(program: _Program, words: list[str]) -> tuple[list[str], list[str]] | None:
    """Options and operands apart; `None` for an option that is not listed."""
    options: list[str] = []
    operands: list[str] = []
    left = iter(words)
    for word in left:
        if word == "--":
            operands += left
        elif not word.startswith("-"):
            operands.append(word)
        elif _is_option(program, word):
            options.append(word)
        elif len(word) == 2 and word[1] in program.valued and _is_number(value := next(left, "")):
            options += [word, value]
        else:
            return None
    return options, operands


_is_number: Final[Callable[[str], object]] = re.compile(r"[0-9]{1,9}", re.ASCII).fullmatch


def _is_option(program: _Program, word: str) -> bool:
    body = word[1:]
    valued = body[:1] in program.valued and _is_number(body[1:])
    alone = bool(body) and all(letter in program.flags for letter in body)
    return bool(alone or (body[:1] and valued) or (program.number and _is_number(body)))
