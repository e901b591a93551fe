"""A private draft next to the file to be written: put in place whole, removed later if its process was killed."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path

from ullage.exceptions import LogConflict, StoreError, TranscriptChanged
from ullage.transcript.logfile import sync_folder
from ullage.transcript.pin import FilePin, open_regular

__all__ = ["copy_of", "draft_of", "put_in_place"]

_PIECE = 1 << 20
_STALE_SECONDS = 3_600
_CREATE = (
    os.O_RDWR
    | os.O_CREAT
    | os.O_EXCL
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_CLOEXEC", 0)
)


@contextmanager
def draft_of(target: Path, *, suffix: str = "") -> Iterator[Path]:
    """A private empty file in the target's folder, removed at the end unless it was put in place.

    Args:
        target: What it is to become.
        suffix: What its name ends with, for readers that look at names.

    Raises:
        StoreError: It cannot be made or written.
    """
    _sweep(target)
    name = f".{target.name}.{os.getpid()}-{os.urandom(4).hex()}.part"
    path = target.with_name(name + suffix)
    try:
        os.close(os.open(path, _CREATE, 0o600))
        yield path
    except (StoreError, TranscriptChanged, LogConflict):
        raise
    except OSError as exc:
        hint = "" if target.parent.is_dir() else f"there is no folder {target.parent}"
        reason = f"cannot be written: {exc.strerror or exc}"
        raise StoreError(reason, path=str(target), hint=hint) from exc
    finally:
        with suppress(OSError):
            path.unlink(missing_ok=True)


def copy_of(source: Path, draft: Path, pin: FilePin | None) -> None:
    """Copies what was read of a file into a draft.

    Raises:
        LogConflict: The file grew, or is not the one that was read any more.
    """
    with open_regular(str(source)) as file, draft.open("r+b") as copy:
        _check(pin, file, source)
        left = os.fstat(file.fileno()).st_size
        while left > 0 and (part := file.read(min(_PIECE, left))):
            copy.write(part)
            left -= len(part)
        if left > 0:
            raise LogConflict(f"{source}: the file was cut off while it was copied")
        _check(pin, file, source)


def put_in_place(draft: Path, target: Path, *, like: Path) -> None:
    """Makes a draft the target, on the disk: with the rights of the file that it was made from.

    Args:
        draft: Complete.
        target: Replaced if it is there; then it stays as private as it was.
        like: The file whose content it holds.
    """
    mode = like.stat().st_mode & 0o666
    if target.exists():
        mode &= target.stat().st_mode
    with draft.open("rb+") as file:
        if sys.platform != "win32":
            os.fchmod(file.fileno(), mode)
        os.fsync(file.fileno())
    draft.replace(target)
    sync_folder(str(target))


def _check(pin: FilePin | None, file: FileIO, source: Path) -> None:
    if pin is not None:
        pin.check(os.fstat(file.fileno()), str(source))
        pin.check(source.stat(), str(source))


# ---- what killed runs left -------------------------------------------------------------------


def _sweep(target: Path) -> None:
    """Remove drafts of this target whose process has ended."""
    with suppress(OSError):
        for path in target.parent.iterdir():
            if path.name.startswith(f".{target.name}.") and ".part" in path.name:
                _remove_stale(path, path.name.removeprefix(f".{target.name}."))


def _remove_stale(path: Path, rest: str) -> None:
    digits = rest.split(".part")[0].split("-")[0]
    if not digits.isdigit():
        return
    with suppress(OSError):
        age = time.time() - path.lstat().st_mtime
        # A process elsewhere, on a shared disk, or one that reuses the number of an ended one: age decides.
        if age > _STALE_SECONDS or not _runs(int(digits)):
            path.unlink()


def _runs(process: int) -> bool:
    if sys.platform == "win32" or process == os.getpid():
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OverflowError:
        return False
    except OSError:
        return True
    return True
