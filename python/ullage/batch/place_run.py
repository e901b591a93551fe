"""A task over files and objects on any engine, recorded as it goes, so that a run that was killed continues."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any

import orjson

from ullage.batch.engines import EngineName, run_rows
from ullage.batch.manifest import Manifest
from ullage.batch.places import RemoteFile, find_remote, is_remote
from ullage.batch.row_task import BatchRow, RowTask
from ullage.batch.run import Done, Status
from ullage.batch.search import TranscriptFile, find_transcripts

__all__ = ["find_places", "run_places"]


def find_places(paths: Iterable[str], *, pattern: str = "") -> list[RemoteFile]:
    """Files and objects that may be transcripts, sorted, each once.

    Args:
        paths: Folders and files, see `find_transcripts`; addresses, see `find_remote`.
        pattern: See `find_transcripts`; for addresses put it into them.

    Raises:
        InvalidPolicy, MissingExtra, StoreError: See both.
    """
    given = list(paths)
    local = find_transcripts([path for path in given if not is_remote(path)], pattern=pattern)
    found = {each.path: each for each in map(_of_file, local)}
    for address in filter(is_remote, given):
        found.update({each.path: each for each in find_remote(address)})
    return sorted(found.values())


def run_places(
    task: RowTask,
    places: Iterable[RemoteFile],
    *,
    name: str,
    engine: EngineName = "threads",
    workers: int = 2,
    manifest: Manifest | None = None,
    retry_failed: bool = False,
) -> Generator[Done, None, None]:
    """Does a task to every place on an engine; one that fails does not stop the others.

    What an earlier run has done comes first, then the others as they are done, begun with the largest.

    Args:
        task: What is done.
        places: From `find_places`.
        name: The task with its options, the key in the manifest.
        engine: See `run_rows`.
        workers: See `run_rows`.
        manifest: What earlier runs have done; `None`: nothing.
        retry_failed: Whether those that failed before are tried again.

    Raises:
        InvalidPolicy, MissingExtra: See `run_rows`.
        StoreError: The manifest cannot be written.
    """
    book = Manifest() if manifest is None else manifest
    left: dict[str, RemoteFile] = {}
    for place in places:
        done = _known(book, name, place, retry_failed=retry_failed)
        if done is None:
            left[place.path] = place
        else:
            yield done
    order = sorted(left.values(), key=lambda each: -each.size)
    asked = [{"path": each.path, "relative": each.relative} for each in order]
    for row in run_rows(asked, task, engine=engine, workers=workers):
        place, status, report = left[row.path], _status(row), _report(row)
        record = {"status": str(status), "report": report}
        book.add(name, place.path, size=place.size, changed=place.changed, record=record)
        yield Done(place.path, status, report)


def _of_file(found: TranscriptFile) -> RemoteFile:
    path = found.path.resolve()
    stat = path.stat()
    return RemoteFile(str(path), found.relative.as_posix(), stat.st_size, stat.st_mtime_ns)


def _known(book: Manifest, name: str, place: RemoteFile, *, retry_failed: bool) -> Done | None:
    record = book.find(name, place.path, size=place.size, changed=place.changed)
    if record is None or (record["status"] == Status.FAILED and retry_failed):
        return None
    written = record["report"].get("written")
    if written and not is_remote(written) and not Path(written).exists():
        return None
    failed = record["status"] == Status.FAILED
    return Done(place.path, Status.FAILED if failed else Status.KEPT, record["report"])


def _status(row: BatchRow) -> Status:
    return Status.FAILED if row.error else Status.DONE


def _report(row: BatchRow) -> dict[str, Any]:
    if row.error:
        return {"code": row.code, "error": row.error, "hint": row.hint}
    report: dict[str, Any] = orjson.loads(row.report)
    return {**report, "written": row.written} if row.written else report
