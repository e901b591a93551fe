"""Files of one folder and nothing else: every path is checked part by part, links are never followed (MEM-5).

Names come from models. A name is refused where it could mean another file on another system: parent steps, absolute
paths, separators of any kind, control characters, reserved names, a second spelling of a file that exists, letters that
only look like the ones they stand for.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Final, NamedTuple

from ullage.exceptions import LogConflict, PathRefused, StoreError, UllageError

__all__ = ["MAX_FILE_BYTES", "FileInfo", "Sandbox", "checked_parts"]

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
                with _told(path), os.fdopen(handle, "rb", closefd=False) as file:
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
            with _told(path):
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
            with _told(path):
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
        found: list[tuple[str, int, int]] = []
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
                        found.append((entry.path, info.st_size, info.st_mtime_ns))
        return found

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
        with _told(path):
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
            with _told(path), suppress(FileExistsError):
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
        with _told(path):
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
        found, folders = 0, [str(self.root)]
        while folders:
            with suppress(OSError), os.scandir(folders.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    elif entry.inode() == info.st_ino:
                        found += 1
        return found

    def _drafted(self, path: str, name: str, data: bytes, folder: int) -> str:
        draft = f".{name}.{os.urandom(4).hex()}.part"
        with _told(path):
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
        with _told(path):
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
def _told(path: str) -> Iterator[None]:
    try:
        yield
    except UllageError:  # some are OSErrors too
        raise
    except OSError as exc:
        raise StoreError(exc.strerror or str(exc), path=path) from exc
