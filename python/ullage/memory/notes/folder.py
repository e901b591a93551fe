"""The memory folder of a project: an index, one note per topic, and the same again for the team (MEM-1, MEM-2)."""

from __future__ import annotations

import errno
import os
import re
import stat
import threading
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache, partial
from pathlib import Path
from typing import Final, NamedTuple, Self

from ullage.exceptions import InvalidNote, LogConflict, PathRefused, StoreError, UllageError

# One note: Markdown with a front matter that says its name, what it is about and of which type it is (MEM-1).


MAX_DESCRIPTION: Final = 300
"""Characters: a description is read in lists of many."""

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
    """One note.

    Attributes:
        name: Its title.
        description: One line: when it matters.
        type: What it is about.
        body: Markdown; "" where only the head was read.
        path: Inside the folder; "" if it has not been written.
        changed_ns: Time of its last change; 0: unknown.
        others: Further keys of the front matter, kept as they are.
    """

    name: str
    description: str
    type: NoteType
    body: str = ""
    path: str = ""
    changed_ns: int = 0
    others: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        return f"Note({self.path or self.name!r}, {self.type.value})"

    def __post_init__(self) -> None:
        if not self.name.strip() or len(self.name) > MAX_NAME or "\n" in self.name:
            raise InvalidNote(
                "name", self.name[:80], f"must be one line of 1 to {MAX_NAME} characters"
            )
        if len(self.description) > MAX_DESCRIPTION or "\n" in self.description:
            raise InvalidNote(
                "description",
                self.description[:80],
                f"must be one line of at most {MAX_DESCRIPTION} characters",
            )

    @classmethod
    def parse(cls, text: str, *, path: str = "", changed_ns: int = 0) -> Self:
        """Read a file.

        Raises:
            InvalidNote: The front matter is missing, not closed, without a name, or of no known type.
        """
        lines = text.removeprefix("\ufeff").split("\n")
        if lines[0].rstrip() != "---":
            raise InvalidNote(
                "front matter", lines[0][:40], "must begin with a line ---", path=path
            )
        end = next((at for at, line in enumerate(lines[1:], 1) if line.rstrip() == "---"), 0)
        if not end:
            raise InvalidNote("front matter", "", "must end with a line ---", path=path)
        keys = _keys(lines[1:end], path)
        kind_name = keys.pop("type", "")
        if kind_name not in list(NoteType):
            raise InvalidNote("type", kind_name, f"must be one of {', '.join(NoteType)}", path=path)
        try:
            return cls(
                keys.pop("name", ""),
                keys.pop("description", ""),
                NoteType(kind_name),
                "\n".join(lines[end + 1 :]).strip("\n"),
                path,
                changed_ns,
                tuple(keys.items()),
            )
        except InvalidNote as exc:
            raise InvalidNote(exc.field, exc.value, exc.limit, path=path) from None

    def render(self) -> str:
        """The file's text."""
        head = [("name", self.name), ("description", self.description), ("type", self.type.value)]
        lines = (f"{key}: {_value(value)}" for key, value in (*head, *self.others))
        return "\n".join(("---", *lines, "---", "", self.body.strip("\n"), ""))


def _keys(lines: list[str], path: str) -> dict[str, str]:
    """`key: value` lines; indented lines belong to a value that we do not read, and comments to nobody."""
    keys: dict[str, str] = {}
    for number, line in enumerate(lines, 2):
        if not line.strip() or line.lstrip().startswith("#") or line[0] in " \t-":
            continue
        match = _KEY.match(line)
        if match is None:
            raise InvalidNote(
                "front matter", line[:60], f"line {number} must be `key: value`", path=path
            )
        if match[1] in keys:
            raise InvalidNote(
                match[1], match[2][:60], f"is stated twice (line {number})", path=path
            )
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


MAX_FILE_BYTES: Final = 1_000_000
"""Bytes of one file; a note is a page, not a database."""

MAX_NAME_BYTES: Final = 200
"""Below the 255 of common file systems, so that a temporary name fits too."""

MAX_DEPTH: Final = 8

LOOKS: Final = 20
"""How often a file with several names is looked at before one of them is taken to lie outside."""

_RESERVED: Final = frozenset(
    ["con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10))]
)
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,100}(?:\.[A-Za-z0-9]{1,8})?")
"""What nearly all names are; anything else is looked at closely."""

_FORBIDDEN: Final = frozenset('<>:"|?*\\')
_SCRIPTS: Final = ("LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC")
"""Scripts whose letters are drawn alike."""

_NO_FOLLOW: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_FOLDER: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _NO_FOLLOW


class FileInfo(NamedTuple):
    """A file: its path inside the folder, bytes, and time of its last change in nanoseconds."""

    path: str
    size: int
    changed_ns: int


# ---- names -------------------------------------------------------------------------------------


def checked_parts(path: str) -> tuple[str, ...]:
    """The parts of a relative path.

    Args:
        path: With `/` between its parts; "" is the folder itself.

    Raises:
        PathRefused: It could leave the folder, or mean another file on another system.
    """
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
    return "mixes letters of scripts that look alike" if len(_scripts(stem)) > 1 else ""


def _scripts(name: str) -> set[str]:
    names = (unicodedata.name(char, "").split(" ")[0] for char in name if char.isalpha())
    return {script for script in names if script in _SCRIPTS}


# ---- the folder --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sandbox:
    """One folder. Opened part by part by file descriptors, so that a link put in place meanwhile is not followed either.

    Args:
        root: The folder; it may be a link itself, as it is the host's. Made when the first file is written.
    """

    root: Path

    def read(self, path: str) -> bytes:
        """The bytes of a file.

        Raises:
            PathRefused: The path leaves the folder, passes through a link, is no regular file, or is also a file outside.
            StoreError: The file is missing, too large or cannot be read.
        """
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
        """Write a file whole, durably, or not at all.

        Args:
            path: Inside the folder.
            data: All of it.
            expected: What the file held when it was read; `None`: whatever it holds is replaced.
            new: Refuse to replace a file.

        Raises:
            PathRefused: See `read`, or another spelling of the name exists.
            LogConflict: The file changed since it was read, or exists although it must be new; nothing is lost.
            StoreError: Too large, or it cannot be written; nothing has changed.
        """
        if len(data) > MAX_FILE_BYTES:
            raise StoreError(f"{len(data):,} bytes; the limit is {MAX_FILE_BYTES:,}", path=path)
        with self._parent(path, make=True) as (folder, name):
            self._no_twin(path, name, folder)
            draft = self._drafted(path, name, data, folder)
            try:
                self._unchanged(path, expected, new=new)
                self._installed(path, draft, name, folder, new=new)
            except BaseException:
                with suppress(OSError):
                    os.unlink(draft, dir_fd=folder)
                raise

    def located(self, path: str) -> str | None:
        """The absolute path of a file or folder that lies inside; `None`: it does not, or is not there.

        Args:
            path: Relative to the folder, or absolute; "" and "." are the folder itself.
        """
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
        """Remove a file.

        Raises:
            PathRefused: See `read`.
            StoreError: It is missing or cannot be removed.
        """
        with self._parent(path) as (folder, name):
            self._regular(path, name, folder)
            with _named_errors(path):
                os.unlink(name, dir_fd=folder)

    def rename(self, path: str, target: str) -> None:
        """Give a file another name.

        Raises:
            PathRefused: See `read`.
            LogConflict: The target exists.
            StoreError: The file is missing or cannot be renamed.
        """
        with self._parent(path) as (old, name), self._parent(target, make=True) as (folder, wanted):
            self._regular(path, name, old)
            self._no_twin(target, wanted, folder)
            try:
                os.link(name, wanted, src_dir_fd=old, dst_dir_fd=folder, follow_symlinks=False)
            except FileExistsError as exc:
                raise LogConflict(f"{target} exists already") from exc
            except OSError as exc:
                raise StoreError(exc.strerror or str(exc), path=target) from exc
            with _named_errors(path):
                os.unlink(name, dir_fd=old)

    def files(self, folder: str = "", *, suffix: str = "") -> Iterator[FileInfo]:
        """Regular files below a folder, by path; links, hidden files and names that are refused are passed over."""
        parts = checked_parts(folder)
        base = self.root.joinpath(*parts)
        if any(self.root.joinpath(*parts[: n + 1]).is_symlink() for n in range(len(parts))):
            return
        yield from sorted(self._walk(base, "/".join(parts), suffix, MAX_DEPTH - len(parts)))

    def stamp(self) -> list[tuple[str, int, int]]:
        """What tells whether any file changed: one look, in the order of the file system, nothing checked or sorted."""
        stamps: list[tuple[str, int, int]] = []
        folders = [str(self.root)]
        while folders:
            try:
                entries = os.scandir(folders.pop())
            except OSError:
                continue
            with entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                        continue
                    with suppress(OSError):  # removed since
                        info = entry.stat(follow_symlinks=False)
                        stamps.append((entry.path, info.st_size, info.st_mtime_ns))
        return stamps

    def _walk(self, base: Path, prefix: str, suffix: str, depth: int) -> Iterator[FileInfo]:
        try:
            entries = list(os.scandir(base))
        except (FileNotFoundError, NotADirectoryError):
            return
        lead = f"{prefix}/" if prefix else ""
        for entry in entries:
            name = entry.name
            if _reason(name):
                continue
            if entry.is_file(follow_symlinks=False):
                if not name.endswith(suffix):
                    continue
                with suppress(OSError):  # removed since
                    info = entry.stat(follow_symlinks=False)
                    yield FileInfo(lead + name, info.st_size, info.st_mtime_ns)
            elif depth > 1 and entry.is_dir(follow_symlinks=False):
                yield from self._walk(Path(entry.path), lead + name, suffix, depth - 1)

    # ---- inside ------------------------------------------------------------------------------

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
                inner = self._entered(path, part, handle, make=make)
                os.close(handle)
                handle = inner
            yield handle, parts[-1]
        finally:
            os.close(handle)

    def _entered(self, path: str, part: str, handle: int, *, make: bool) -> int:
        if make:
            with _named_errors(path), suppress(FileExistsError):
                self._no_twin(path, part, handle)
                os.mkdir(part, 0o700, dir_fd=handle)
        return self._opened(path, part, _FOLDER, handle)

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
            if info.st_nlink <= 1 or info.st_nlink <= self._names(info):
                return
        raise PathRefused(path, "is a hard link to a file outside the folder")

    def _names(self, info: os.stat_result) -> int:
        """How often a file is named below the root, drafts included: while one is put in place it has two names."""
        count, folders = 0, [str(self.root)]
        while folders:
            with suppress(OSError), os.scandir(folders.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    elif entry.inode() == info.st_ino:
                        count += 1
        return count

    def _drafted(self, path: str, name: str, data: bytes, folder: int) -> str:
        draft = f".{name}.{os.urandom(4).hex()}.part"
        with _named_errors(path):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW
            handle = os.open(draft, flags, 0o600, dir_fd=folder)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
            except BaseException:
                with suppress(OSError):
                    os.unlink(draft, dir_fd=folder)
                raise
        return draft

    def _unchanged(self, path: str, expected: bytes | None, *, new: bool) -> None:
        if expected is None or new:
            return
        if self.read(path) != expected:
            raise LogConflict(f"{path} has changed since it was read")

    def _installed(self, path: str, draft: str, name: str, folder: int, *, new: bool) -> None:
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
        self._cache: dict[str, tuple[FileInfo, Note | Problem]] = {}
        self._stamp: list[tuple[str, int, int]] | None = None
        self._heads: list[Note | Problem] = []
        self._mutex, self._depth = threading.RLock(), 0
        self.version = 0  # grows with every change that was seen

    def __repr__(self) -> str:
        return f"MemoryFolder({str(self.path)!r})"

    # ---- reading -----------------------------------------------------------------------------

    def notes(self) -> list[Note]:
        """Front matter of all notes, newest first; `problems` lists broken ones. Files that did not change are not read again."""
        return [note for note in self._all() if isinstance(note, Note)]

    def problems(self) -> list[Problem]:
        """Notes that can't be read, entries of an index without a file, and notes that no index names."""
        problems = [item for item in self._all() if isinstance(item, Problem)]
        return problems + [problem for part in ("", TEAM) for problem in self._index_problems(part)]

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
            self._cache = {info.path: self._read_head(info) for info in infos}
            newest = sorted(infos, key=lambda info: (-info.changed_ns, info.path))
            self._stamp, self._heads = stamp, [self._cache[info.path][1] for info in newest]
            self.version += 1
        return self._heads

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

    def _index_problems(self, part: str) -> Iterator[Problem]:
        index = self._join(part, INDEX)
        named = [self._join(part, name) for name in _entries(self._index_text(part))]
        notes = (path for path, (_, head) in self._cache.items() if isinstance(head, Note))
        present = {path for path in notes if _part(path) == part}
        yield from (
            Problem(index, f"names {path}, which is missing")
            for path in named
            if path not in self._cache
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
    shown, why = lines, []
    if len(lines) > MAX_INDEX_LINES:
        shown = lines[:MAX_INDEX_LINES]
        why.append(f"{len(lines)} lines, {MAX_INDEX_LINES} are shown")
    size = len("\n".join(shown).encode("utf-8", "replace"))
    if size > MAX_INDEX_BYTES:
        shown = _whole_lines([_line(line) for line in shown])
        why.append(f"{size:,} bytes, {MAX_INDEX_BYTES:,} are shown")
    cut = f"the index has {' and '.join(why)}: move detail into the notes" if why else ""
    return Index("\n".join(shown), cut)


def _whole_lines(lines: list[str]) -> list[str]:
    left, whole = MAX_INDEX_BYTES + 1, []
    for line in lines:
        left -= len(line.encode("utf-8", "replace")) + 1
        if left < 0:
            break
        whole.append(line)
    return whole


def _line(line: str) -> str:
    data = line.encode("utf-8", "replace")
    if len(data) <= MAX_LINE_BYTES:
        return line
    return data[: MAX_LINE_BYTES - len("…".encode())].decode("utf-8", "ignore") + "…"
