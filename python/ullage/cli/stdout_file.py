"""`-o -`: what is written as a file first, since it is read back before anyone gets it, goes to standard output."""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
from pathlib import Path

__all__ = ["held_back", "send"]


def held_back() -> Path:
    """A path in a private folder that is removed at the end."""
    folder = tempfile.mkdtemp(prefix="ullage-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder, "session.jsonl")


def send(path: Path) -> None:
    """Copy a file to standard output, byte for byte."""
    sys.stdout.flush()
    with path.open("rb") as file:
        shutil.copyfileobj(file, sys.stdout.buffer)
    sys.stdout.buffer.flush()
