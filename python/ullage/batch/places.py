"""Finds transcripts: files in folders, by name, and objects in buckets, through obstore."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from ullage._start import extra_module
from ullage.exceptions import InvalidPolicy, StoreError

NOTES = "session-memory"
"""Note folders that `ullage session-memory` keeps next to a session: their files are not transcripts."""

SUFFIXES = (".jsonl", ".json", ".traj")
"""Suffixes of session files of the supported tools; the content decides later."""


@dataclass(frozen=True, slots=True, order=True)
class TranscriptFile:
    """A file and the folder it was found in, so that output keeps the same relative path."""

    path: Path
    root: Path  # the folder that was searched; the file's own folder if the file itself was named

    @property
    def relative(self) -> Path:
        """The path below the given folder."""
        return self.path.relative_to(self.root)


def find_transcripts(
    paths: Iterable[str | os.PathLike[str]], *, pattern: str = ""
) -> list[TranscriptFile]:
    """Files that may be transcripts, sorted, without hidden files and folders and the notes of sessions.

    `paths`: folders, searched to any depth, and files with any name. `pattern`: only files in folders whose name or path below the
    folder matches, such as `*.jsonl` or `2026-*/*.jsonl`. Empty: `.jsonl`, `.json` and `.traj`.

    Returns:
        Each file once, even if named several times.

    Raises:
        StoreError: A path does not exist or cannot be listed.
    """
    transcripts: dict[Path, TranscriptFile] = {}
    for path in map(Path, paths):
        for transcript in _below(path, pattern):
            transcripts.setdefault(transcript.path.resolve(), transcript)
    return sorted(transcripts.values())


def _below(path: Path, pattern: str) -> Iterator[TranscriptFile]:
    if path.is_file():
        yield TranscriptFile(path, path.parent)
        return
    if not path.is_dir():
        raise StoreError("is neither a file nor a folder", path=str(path))
    for folder, folders, names in os.walk(path, onerror=_refuse):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != NOTES)
        for name in names:
            transcript = TranscriptFile(Path(folder, name), path)
            suits = transcript.relative.match(pattern) if pattern else name.endswith(SUFFIXES)
            if suits and not name.startswith(".") and transcript.path.is_file():
                yield transcript


def _refuse(error: OSError) -> None:
    raise StoreError(f"cannot be listed: {error.strerror}", path=str(error.filename)) from error


_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]+://")
_MAGIC = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True, order=True)
class RemoteFile:
    """An object."""

    path: str
    relative: str  # its path below the requested address
    size: int
    changed: int  # modification time, in nanoseconds since the epoch


def is_remote(path: str) -> bool:
    """Whether this is an address such as `s3://bucket/key`, not a file."""
    return _ADDRESS.match(path) is not None


def find_remote(address: str) -> list[RemoteFile]:
    """Objects that may be transcripts, sorted.

    `address`: `s3://bucket/folder`, searched to any depth, or with `*`, `**`, `?` in its path; one object by its full name.

    Raises:
        InvalidPolicy: It is not an address.
        MissingExtra: obstore is not installed.
        StoreError: The bucket does not exist or cannot be read, or holds no transcript there.
    """
    root, path = _split(address)
    if root.endswith("://") and root != "memory://":
        raise InvalidPolicy("paths", address, "must name a bucket, as s3://bucket/folder")
    magic = _MAGIC.search(path)
    base = path[: magic.start()].rpartition("/")[0] if magic else path.rstrip("/")
    globs = path.split("/")
    objects = [
        RemoteFile(
            f"{root}/{key}", key[len(base) :].lstrip("/") or key.rpartition("/")[2], size, at
        )
        for key, size, at in _listed(root, base)
        if (_fits(key.split("/"), globs) if magic else key == base or key.endswith(SUFFIXES))
    ]
    if not objects:
        raise StoreError("holds no transcript", path=address)
    return sorted(objects)


def _fits(parts: Sequence[str], globs: Sequence[str]) -> bool:
    """As in a shell, `*` and `?` stay within a folder; `**` is any number of folders."""
    if not (globs and parts):
        return not (globs or parts)
    if globs[0] == "**":
        return any(_fits(parts[at:], globs[1:]) for at in range(len(parts)))
    return fnmatchcase(parts[0], globs[0]) and _fits(parts[1:], globs[1:])


def _listed(root: str, base: str) -> Iterator[tuple[str, int, int]]:
    with _opened(root) as (library, store):
        if base:
            with suppress(FileNotFoundError):
                one = library.head(store, base)
                yield base, one["size"], _ns(one)
                return
        for part in library.list(store, f"{base}/" if base else None, chunk_size=1000):
            for entry in part:
                yield entry["path"], entry["size"], _ns(entry)


def fetched(path: str) -> bytes:
    """An object's bytes.

    Raises:
        StoreError: It does not exist, or cannot be read.
    """
    root, key = _split(path)
    with _opened(root, path) as (library, store):
        return bytes(library.get(store, key).bytes())


def put_remote(path: str, data: bytes) -> None:
    """Write an object whole or not at all.

    Raises:
        StoreError: It cannot be written.
    """
    root, key = _split(path)
    with _opened(root, path) as (library, store):
        library.put(store, key, data)


def check_place(path: str) -> None:
    """Check, before hours of work, whether a file could be written there; writes nothing.

    Raises:
        StoreError: The bucket does not exist or cannot be reached; the folder does not exist or is not writable.
    """
    if is_remote(path):
        root, key = _split(path)
        next(_listed(root, f"{key}/none-such"), None)
        return
    folder = Path(path).absolute().parent
    if Path(path).is_dir():
        raise StoreError("is a folder", path=path)
    if not folder.is_dir():
        raise StoreError("there is no such folder", path=str(folder))
    if not os.access(folder, os.W_OK):
        raise StoreError("is not writable", path=str(folder))


def _split(path: str) -> tuple[str, str]:
    scheme, _, bucket_path = path.partition("://")
    bucket, _, key = bucket_path.partition("/")
    return f"{scheme}://{bucket}", key


@contextmanager
def _opened(root: str, path: str = "") -> Iterator[tuple[Any, Any]]:
    """The library and a bucket; a failure names the path that was asked for, or the bucket."""
    library, stores = extra_module("obstore", "objects"), extra_module("obstore.store", "objects")
    named = root
    try:
        store, named = stores.from_url(root), path or root
        yield library, store
    except Exception as exc:
        raise _failed(exc, named) from exc


def _failed(exc: Exception, path: str) -> StoreError:
    if "NoSuchBucket" in str(exc):
        return StoreError("there is no such bucket", path=path)
    if isinstance(exc, FileNotFoundError):
        return StoreError("does not exist", path=path)
    return StoreError(str(exc).strip().split("\n")[0][:300], path=path)


def _ns(moment: Any) -> int:
    return int(moment["last_modified"].timestamp() * 1_000_000_000)
