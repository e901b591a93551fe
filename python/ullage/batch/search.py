"""Which files of some folders are transcripts, by their names."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ullage.exceptions import StoreError

NOTES = "session-memory"
"""Note folders that `ullage session-memory` keeps next to a session: their files are not transcripts."""

SUFFIXES = (".jsonl", ".json", ".traj")
"""Suffixes of session files of the supported tools; the content decides later."""


@dataclass(frozen=True, slots=True, order=True)
class TranscriptFile:
    """A file and the folder that was given, so that output keeps the same path below it.

    Attributes:
        path: The file.
        root: The given folder in which it was found; the file's own folder if the file itself was given.
    """

    path: Path
    root: Path

    @property
    def relative(self) -> Path:
        """The path below the given folder."""
        return self.path.relative_to(self.root)


def find_transcripts(
    paths: Iterable[str | os.PathLike[str]], *, pattern: str = ""
) -> list[TranscriptFile]:
    """Files that may be transcripts, sorted; hidden files and folders, and the notes of sessions, are left out.

    Args:
        paths: Folders, searched to any depth, and files, taken whatever their name.
        pattern: Only files in folders whose name or path below the folder matches, such as `*.jsonl`
            or `2026-*/*.jsonl`. Empty: `.jsonl`, `.json` and `.traj`.

    Returns:
        Each file once, however often it was given.

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
            if (
                not name.startswith(".")
                and _fits(transcript, pattern)
                and transcript.path.is_file()
            ):
                yield transcript


def _refuse(error: OSError) -> None:
    raise StoreError(f"cannot be listed: {error.strerror}", path=str(error.filename)) from error


def _fits(transcript: TranscriptFile, pattern: str) -> bool:
    if pattern:
        return transcript.relative.match(pattern)
    return transcript.path.suffix in SUFFIXES
