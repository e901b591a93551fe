"""A file of Ullage's own, for its owner's eyes: whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from ullage.exceptions import StoreError

__all__ = ["private_folder", "write_private"]


def private_folder(path: Path) -> Path:
    """The folder, made with those above it if it is missing.

    Raises:
        StoreError: It cannot be made.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as exc:
        raise StoreError(f"cannot be made: {exc.strerror or exc}", path=str(path)) from exc
    return path


def write_private(path: Path, data: bytes, *, mode: int = 0o600, new: bool = False) -> None:
    """Replaces a file's content with one rename; a reader finds the old one or the new one.

    Args:
        path: The file; its folder exists.
        data: All of it.
        mode: Its rights.
        new: Refuse to replace a file that is there.

    Raises:
        StoreError: The disk is full or another fault; the file is as it was. Or `new`, and it exists.
    """
    draft = path.with_name(f".{path.name[:100]}.{os.getpid()}-{os.urandom(4).hex()}.part")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    try:
        with os.fdopen(os.open(draft, flags | getattr(os, "O_BINARY", 0), mode), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if new:
            os.link(draft, path)
        else:
            draft.replace(path)
    except FileExistsError as exc:
        raise StoreError("exists already", path=str(path)) from exc
    except OSError as exc:
        raise StoreError(f"cannot be written: {exc.strerror or exc}", path=str(path)) from exc
    finally:
        draft.unlink(missing_ok=True)
