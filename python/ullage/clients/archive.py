"""Keeps a copy of a transcript from before the client's compaction, in Ullage's own folder."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

from ullage import _env
from ullage.recall.store import file_stem

MOST_COPIES = 5
"""Maximum copies of one session; the oldest are removed first. Clients append, so the newest copy contains the others."""

# A copy is made while the client waits, and five are kept, so large files are skipped.
MAX_BYTES = 1 << 30


def archive(path: str, session: str, trigger: str) -> Path | None:
    """Copy a transcript; several calls for one compaction make one copy.

    `session`: its session's id; empty: the file's name. `trigger`: `manual` or `auto`; part of the copy's name.

    Returns:
        The copy; `None` if the newest one holds the same.

    Raises:
        OSError: It is missing, too large, or cannot be copied; no partial copy stays.
    """
    source = Path(path)
    look = source.stat()
    if not source.is_file() or look.st_size > MAX_BYTES:
        raise OSError(f"{path}: no regular file, or larger than {MAX_BYTES:,} bytes")
    folder = _env.state_folder() / "archives" / file_stem(session or source.stem)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    newest = [copy.stat() for copy in archives_of(folder)[-1:]]
    # Size and time show whether it changed: comparing 64 MB would take longer than copying.
    if [(copy.st_size, copy.st_mtime_ns) for copy in newest] == [(look.st_size, look.st_mtime_ns)]:
        return None
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    name = f"{stamp}-{look.st_mtime_ns % 10**9:09}-{file_stem(trigger or 'unknown')}.jsonl"
    target = folder / name
    _copied(source, target, look)
    for old in archives_of(folder)[:-MOST_COPIES]:
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
        # The copy has the original's time, so that the next call sees that nothing is new.
        os.utime(draft, ns=(look.st_atime_ns, look.st_mtime_ns))
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)
