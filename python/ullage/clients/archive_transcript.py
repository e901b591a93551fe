"""Keeps a copy of a transcript as it was before the client compacted it, in Ullage's own folder."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import time
from pathlib import Path

from ullage.sessions.usual_folders import state_folder

__all__ = ["archive", "archives_of"]

KEPT = 5
"""Copies of one session; the oldest go first. Clients append, so the newest copy holds what the others hold."""

MAX_BYTES = 1 << 30


def archive(path: str, session: str, trigger: str) -> Path | None:
    """Copies a transcript; a client may call this several times for one compaction, and gets one copy.

    Args:
        path: The transcript.
        session: Its session's id; empty: the file's name.
        trigger: `manual` or `auto`; part of the copy's name.

    Returns:
        The copy; `None` if the newest one holds the same.

    Raises:
        OSError: It is missing, too large, or cannot be copied; nothing incomplete stays.
    """
    source = Path(path)
    look = source.stat()
    if not source.is_file() or look.st_size > MAX_BYTES:
        raise OSError(f"{path}: no regular file, or larger than {MAX_BYTES:,} bytes")
    folder = state_folder() / "archives" / _named(session or source.stem)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    known = archives_of(folder)
    if known and (known[-1].stat().st_size, known[-1].stat().st_mtime_ns) == (
        look.st_size,
        look.st_mtime_ns,
    ):
        return None
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    target = folder / f"{stamp}-{look.st_mtime_ns % 10**9:09}-{_named(trigger or 'unknown')}.jsonl"
    _copied(source, target, look)
    for old in archives_of(folder)[:-KEPT]:
        old.unlink(missing_ok=True)
    return target


def archives_of(folder: Path) -> list[Path]:
    """The copies in a session's folder, oldest first."""
    return sorted(folder.glob("*.jsonl"))


def _copied(source: Path, target: Path, look: os.stat_result) -> None:
    draft = target.with_suffix(f".{os.getpid()}.part")
    try:
        os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        shutil.copyfile(source, draft)
        os.utime(draft, ns=(look.st_atime_ns, look.st_mtime_ns))
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


def _named(text: str) -> str:
    """A file's name for any id: ids come from outside, and none may lead elsewhere."""
    if re.fullmatch(r"[A-Za-z0-9_-]{1,80}", text):
        return text
    return "id-" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
