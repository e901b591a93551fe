"""Runs a task over files on threads, and records what was done."""

from __future__ import annotations

import enum
import itertools
import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeAlias

import orjson

from ullage.batch.places import TranscriptFile
from ullage.counting.calibration import Ledger, weights_for
from ullage.exceptions import InvalidPolicy, StoreError, UllageError
from ullage.policy import Policy
from ullage.replay import replay_session, script_of
from ullage.sessions import inspect_session, open_session

# What a batch has done: one line of JSON per file, appended when it is finished, so that a later run can continue.
#
# A line is valid while its file has the recorded size and modification time, and the task and its options are
# the same; an unfinished last line, from a run that was killed, does not count.


VERSION = 1


class Manifest:
    """Finished files by path and task; `Manifest()` keeps nothing on disk.

    Example:
        >>> manifest = Manifest()
        >>> manifest.add("inspect", "a.jsonl", size=10, changed=1, record={"status": "done", "report": {}})
        >>> manifest.find("inspect", "a.jsonl", size=10, changed=1)["status"]
        'done'
        >>> manifest.find("inspect", "a.jsonl", size=11, changed=2) is None
        True
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self._records: dict[tuple[str, str], Mapping[str, Any]] = {}

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Manifest:
        """Read a manifest; if it does not exist, the first record creates it.

        Raises:
            StoreError: It cannot be read, or is not a manifest.
        """
        path = Path(path)
        manifest, whole = cls(path), 0
        for record, length in _read(path):
            manifest._records[record["task"], record["path"]] = record
            whole += length
        _cut(path, whole)
        return manifest

    def __len__(self) -> int:
        return len(self._records)

    def __repr__(self) -> str:
        return f"Manifest({self.path or 'in memory'}, {len(self)} files)"

    def find(self, task: str, path: str, *, size: int, changed: int) -> Mapping[str, Any] | None:
        """The record of a file, if it has not changed since.

        Args:
            task: Name and options of the task, as passed to `add`.
            path: The file.
            size: Its bytes now.
            changed: Its current modification time, in nanoseconds.
        """
        record = self._records.get((task, path))
        if record is None or (record["size"], record["changed"]) != (size, changed):
            return None
        return record

    def add(
        self, task: str, path: str, *, size: int, changed: int, record: Mapping[str, Any]
    ) -> None:
        """Append a record as one line, whole or not at all; one that is there already is not repeated.

        Raises:
            StoreError: It cannot be written.
        """
        line = {
            "v": VERSION,
            "task": task,
            "path": path,
            "size": size,
            "changed": changed,
            **record,
        }
        if self._records.get((task, path)) == line:
            return
        if self.path is not None:
            _append(self.path, orjson.dumps(line, option=orjson.OPT_NON_STR_KEYS) + b"\n")
        self._records[task, path] = line


def _read(path: Path) -> Iterator[tuple[dict[str, Any], int]]:
    """Records with the bytes of their lines."""
    try:
        lines = path.read_bytes().splitlines(keepends=True)
    except FileNotFoundError:
        return
    except OSError as exc:
        raise StoreError(f"cannot be read: {exc.strerror}", path=str(path)) from exc
    for number, line in enumerate(lines, 1):
        if not line.endswith(b"\n"):
            return
        yield _record(line, number, path), len(line)


def _cut(path: Path, length: int) -> None:
    """Remove an unfinished last line, which would merge with the next one."""
    try:
        if path.exists() and path.stat().st_size > length:
            os.truncate(path, length)
    except OSError as exc:
        raise StoreError(f"cannot be written: {exc.strerror}", path=str(path)) from exc


def _record(line: bytes, number: int, path: Path) -> dict[str, Any]:
    try:
        record: Any = orjson.loads(line)
        wanted = {"v": int, "task": str, "path": str, "size": int, "changed": int}
        wanted |= {"status": str, "report": dict}
        good = all(isinstance(record[key], kind) for key, kind in wanted.items())
    except (ValueError, KeyError, TypeError):
        good = False
    if not good or record["v"] != VERSION:
        hint = "name another file, or remove this one to start again"
        raise StoreError(f"line {number} is not a batch record", path=str(path), hint=hint)
    return dict(record)


def _append(path: Path, line: bytes) -> None:
    try:
        # As private as the transcripts whose paths and sizes it holds.
        with open(path, "ab", buffering=0, opener=_private) as file:
            file.write(line)
    except OSError as exc:
        raise StoreError(f"cannot be written: {exc.strerror}", path=str(path)) from exc


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


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
    records_of = Manifest() if manifest is None else manifest
    book = _Book(records_of, name or getattr(task, "__name__", "task"), retry_failed)
    work = partial(_one, task, book if records else None)
    return _run(work, files, workers, book)


def _run(
    work: _Work, files: Sequence[TranscriptFile], workers: int, book: _Book
) -> Generator[Done, None, None]:
    done_before = {file: done for file in files if (done := book.recorded(file)) is not None}
    yield from done_before.values()
    left = iter([file for file in files if file not in done_before])
    pool = ThreadPoolExecutor(workers, thread_name_prefix="ullage-batch")
    ended: SimpleQueue[_Ended] = SimpleQueue()
    unrecorded: set[_Ended] = set()

    def begin(most: int) -> None:
        for file in itertools.islice(left, most):
            future = pool.submit(work, file)
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
            pending for pending in unrecorded if not pending.cancelled() and not pending.exception()
        ]:
            record(future)


def _all_of(ended: SimpleQueue[_Ended]) -> list[_Ended]:
    """What has ended; waits for the first."""
    results = [ended.get()]
    while not ended.empty():
        results.append(ended.get())
    return results


def _in_order(finished: list[_Ended]) -> list[_Ended]:
    return sorted(finished, key=lambda future: future.result()[0].file)


@dataclass(frozen=True, slots=True)
class _Mark:
    """A file at the time its task began."""

    file: TranscriptFile
    size: int
    changed: int

    @classmethod
    def of(cls, file: TranscriptFile) -> _Mark:
        try:
            stat = file.path.stat()
        except OSError:
            return cls(file, -1, -1)
        return cls(file, stat.st_size, stat.st_mtime_ns)


_Work: TypeAlias = Callable[[TranscriptFile], tuple[_Mark, Done]]
_Ended: TypeAlias = "Future[tuple[_Mark, Done]]"


def _one(task: Task, book: _Book | None, file: TranscriptFile) -> tuple[_Mark, Done]:
    mark = _Mark.of(file)

    def record(report: Mapping[str, Any]) -> None:
        if book is not None:
            book.keep(mark, Done(file.path, Status.DONE, report))

    try:
        report = task(file) if book is None else task(file, record)
        return mark, Done(file.path, Status.DONE, dict(report))
    except (UllageError, OSError) as exc:
        return mark, Done(file.path, Status.FAILED, failure_of(exc))


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

    def recorded(self, file: TranscriptFile) -> Done | None:
        mark = _Mark.of(file)
        path = str(file.path.resolve())
        record = self.manifest.find(self.task, path, size=mark.size, changed=mark.changed)
        if record is None or (record["status"] == Status.FAILED and self.retry_failed):
            return None
        written = record["report"].get("written")
        if written and not Path(written).exists():
            return None
        failed = record["status"] == Status.FAILED
        return Done(file.path, Status.FAILED if failed else Status.KEPT, record["report"])

    def keep(self, mark: _Mark, done: Done) -> Done:
        self.manifest.add(
            self.task,
            str(mark.file.path.resolve()),
            size=mark.size,
            changed=mark.changed,
            record={"status": str(done.status), "report": dict(done.report)},
        )
        return done


# Further tasks of a batch for one file: what a provider would refuse, how long it is, how large its requests would be under a policy.


def validate_file(
    file: TranscriptFile, *, provider: str = "anthropic", model: str | None = None
) -> Mapping[str, Any]:
    """What a provider would refuse of a session.

    Returns:
        Outcome `legal` or `refused`, and the rules that are broken, with how often.

    Raises:
        InvalidTranscript, InvalidMessage, InvalidPolicy: See `open_session` and `Session.check`.
    """
    session = open_session(file.path)
    checked = session.check(provider=provider, model=model)
    rules: dict[str, int] = {}
    for fault in checked.errors:
        rules[fault.rule] = rules.get(fault.rule, 0) + 1
    return {
        "format": session.format,
        "bytes": session.size,
        "messages": len(session.messages),
        "tokens": _tokens(session.items, model or session.model),
        "outcome": "legal" if checked.ok else "refused",
        "rules": rules,
        "warnings": len(checked.warnings),
    }


def count_file(file: TranscriptFile, *, model: str | None = None) -> Mapping[str, Any]:
    """How long a session's context is, and nothing else.

    Raises:
        InvalidTranscript, InvalidMessage: See `open_session`.
    """
    session = inspect_session(file.path, model=model)
    held = session.inspection
    return {
        "format": session.format,
        "bytes": session.size,
        "messages": session.messages,
        # Without a figure, what was sent besides the messages is not counted.
        "tokens": held.anchored_tokens if held.anchored else held.tokens,
    }


def replay_file(
    file: TranscriptFile, *, model: str | None = None, policy: Policy | None = None
) -> Mapping[str, Any]:
    """The requests that a session would have made under a policy.

    Raises:
        InvalidTranscript, InvalidMessage: See `open_session`.
    """
    session = open_session(file.path)
    run = replay_session(script_of(session), policy or Policy.buffered(), model=model or "")
    return {
        "format": session.format,
        "bytes": session.size,
        "messages": len(session.messages),
        "requests": len(run.turns),
        "over_window": run.refused,
        "rewrites": run.rewrites,
        "tokens_before": max((turn.unmanaged_tokens for turn in run.turns), default=0),
        "tokens_after": max((turn.tokens for turn in run.turns), default=0),
        "cache_read_tokens": run.total("read_tokens"),
        "cache_write_tokens": run.total("written_tokens"),
        "prompt_nanousd": run.nanousd,
        "ended": run.error,
    }


def _tokens(items: Any, model: str) -> int:
    ledger = Ledger(weights_for(model or None), items)
    return int(ledger.anchored().total)
