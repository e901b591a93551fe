"""Runs a task over files on threads, and records what was done."""

from __future__ import annotations

import enum
import itertools
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeAlias

from ullage.batch.manifest import Manifest
from ullage.batch.search import TranscriptFile
from ullage.exceptions import InvalidPolicy, UllageError

__all__ = ["Done", "Record", "Status", "Task", "failure_of", "run_batch"]

Task = Callable[..., Mapping[str, Any]]
Record: TypeAlias = Callable[[Mapping[str, Any]], object]
MAX_WORKERS = 64


class Status(enum.StrEnum):
    """How one file ended."""

    DONE = "done"
    FAILED = "failed"
    KEPT = "kept"
    """Done by an earlier run; the report is from that run."""


@dataclass(frozen=True, slots=True, repr=False)
class Done:
    """One file of a batch.

    Attributes:
        path: The file, or an object's address.
        status: How it ended.
        report: What the task returned; for a failure `code`, `error` and `hint`.
    """

    path: Path | str
    status: Status
    report: Mapping[str, Any]

    def __repr__(self) -> str:
        return f"Done({Path(self.path).name}, {self.status})"


def run_batch(
    task: Task,
    files: Sequence[TranscriptFile],
    *,
    name: str = "",
    workers: int = 2,
    manifest: Manifest | None = None,
    retry_failed: bool = False,
    records: bool = False,
) -> Generator[Done, None, None]:
    """Runs a task over files; a file that fails does not stop the others.

    Files that an earlier run finished come first, then the others as they finish. At most twice as many files as
    workers are started before the caller takes a result. If the caller stops early, files that have begun are finished, and
    the manifest holds all that was done.

    Args:
        task: Called with one file, on a thread; returns plain data.
        files: From `find_transcripts`.
        name: The task with its options, the key in the manifest; empty: the task's own name.
        workers: Threads, 1 to 64.
        manifest: What earlier runs have done; `None`: nothing.
        retry_failed: Whether files that failed before are tried again.
        records: Whether the task is passed a second argument, to be called with its report before its output is put in place: a run that is
            killed between the two has output that the manifest knows.

    Yields:
        Each file once.

    Raises:
        InvalidPolicy: A number of workers out of range.
        StoreError: The manifest cannot be written.
    """
    if not 1 <= workers <= MAX_WORKERS:
        raise InvalidPolicy("workers", workers, f"must be from 1 to {MAX_WORKERS}")
    kept = Manifest() if manifest is None else manifest
    book = _Book(kept, name or getattr(task, "__name__", "task"), retry_failed)
    work = partial(_one, task, book if records else None)
    return _run(work, files, workers, book)


def _run(
    work: _Work, files: Sequence[TranscriptFile], workers: int, book: _Book
) -> Generator[Done, None, None]:
    kept = {found: done for found in files if (done := book.known(found)) is not None}
    yield from kept.values()
    left = iter([found for found in files if found not in kept])
    pool = ThreadPoolExecutor(workers, thread_name_prefix="ullage-batch")
    ended: SimpleQueue[_Ended] = SimpleQueue()
    unrecorded: set[_Ended] = set()

    def begin(most: int) -> None:
        for found in itertools.islice(left, most):
            future = pool.submit(work, found)
            unrecorded.add(future)
            future.add_done_callback(ended.put)

    def record(future: _Ended) -> Done:
        done = book.keep(*future.result())
        unrecorded.discard(future)
        return done

    try:
        begin(2 * workers)
        while unrecorded:
            finished = _all_of(ended)
            begin(len(finished))
            # All are recorded before the caller sees the first, since it may stop there.
            yield from [record(future) for future in _in_order(finished)]
    finally:
        # A caller that stops early, or is interrupted, waits only for the files that are being written. They are recorded too:
        # the next run would refuse to replace output that nothing says is ours.
        pool.shutdown(wait=True, cancel_futures=True)
        for future in [
            each for each in unrecorded if not each.cancelled() and not each.exception()
        ]:
            record(future)


def _all_of(ended: SimpleQueue[_Ended]) -> list[_Ended]:
    """What has ended; waits for the first."""
    found = [ended.get()]
    while not ended.empty():
        found.append(ended.get())
    return found


def _in_order(finished: list[_Ended]) -> list[_Ended]:
    return sorted(finished, key=lambda future: future.result()[0].found)


@dataclass(frozen=True, slots=True)
class _Mark:
    """A file at the time its task began."""

    found: TranscriptFile
    size: int
    changed: int

    @classmethod
    def of(cls, found: TranscriptFile) -> _Mark:
        try:
            stat = found.path.stat()
        except OSError:
            return cls(found, -1, -1)
        return cls(found, stat.st_size, stat.st_mtime_ns)


_Work: TypeAlias = Callable[[TranscriptFile], tuple[_Mark, Done]]
_Ended: TypeAlias = "Future[tuple[_Mark, Done]]"


def _one(task: Task, book: _Book | None, found: TranscriptFile) -> tuple[_Mark, Done]:
    mark = _Mark.of(found)

    def record(report: Mapping[str, Any]) -> None:
        if book is not None:
            book.keep(mark, Done(found.path, Status.DONE, report))

    try:
        report = task(found) if book is None else task(found, record)
        return mark, Done(found.path, Status.DONE, dict(report))
    except (UllageError, OSError) as exc:
        return mark, Done(found.path, Status.FAILED, failure_of(exc))


def failure_of(exc: Exception) -> dict[str, str]:
    """What a report says of an error."""
    code, hint = getattr(exc, "code", "os_error"), getattr(exc, "hint", "")
    return {"code": str(code), "error": str(exc), "hint": str(hint)}


@dataclass(frozen=True, slots=True)
class _Book:
    """The manifest, for one task."""

    manifest: Manifest
    task: str
    retry_failed: bool

    def known(self, found: TranscriptFile) -> Done | None:
        mark = _Mark.of(found)
        path = str(found.path.resolve())
        record = self.manifest.find(self.task, path, size=mark.size, changed=mark.changed)
        if record is None or (record["status"] == Status.FAILED and self.retry_failed):
            return None
        written = record["report"].get("written")
        if written and not Path(written).exists():
            return None
        failed = record["status"] == Status.FAILED
        return Done(found.path, Status.FAILED if failed else Status.KEPT, record["report"])

    def keep(self, mark: _Mark, done: Done) -> Done:
        self.manifest.add(
            self.task,
            str(mark.found.path.resolve()),
            size=mark.size,
            changed=mark.changed,
            record={"status": str(done.status), "report": dict(done.report)},
        )
        return done
