"""One transcript as one row: the action and its result, even if it fails. Plain data in and out, for any engine."""

from __future__ import annotations

import dataclasses
import enum
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

import orjson

from ullage._start import extra_module
from ullage.batch.places import (
    RemoteFile,
    TranscriptFile,
    fetched,
    find_remote,
    find_transcripts,
    is_remote,
    put_remote,
)
from ullage.compaction import CompactionResult
from ullage.counting.calibration import Ledger, weights_for
from ullage.counting.models import ModelTable
from ullage.counting.window import WindowSettings, window_for
from ullage.exceptions import InvalidPolicy, StoreError, UllageError
from ullage.policy import Policy
from ullage.recall.store import write_whole
from ullage.replay import replay_session, script_of
from ullage.sessions import (
    InspectedSession,
    Session,
    compact_session,
    inspect_session,
    open_session,
)

# The tasks of a batch for one file. They return plain data and raise the library's own errors.


def inspect_file(
    file: TranscriptFile, *, model: str | None = None, policy: Policy | None = None
) -> dict[str, Any]:
    """Summarise a session in a few numbers.

    `model`: model whose window and tokenizer apply; `None`: the one in the file. `policy`: decides what each level would free; `None`:
    `Policy.buffered()`.

    Returns:
        Format, bytes, messages, tokens (calibrated, or by the provider's newest usage where there is
        one), window, state and how much each level would free.

    Raises:
        InvalidTranscript, InvalidMessage: The file is not a session.
    """
    session = inspect_session(file.path, model=model, policy=policy)
    held = session.inspection
    row = ModelTable.builtin().lookup(session.model)
    marks = window_for(row, settings=WindowSettings.from_env())
    return {
        **_facts(session),
        "model": session.model or None,
        "messages": session.messages,
        "rounds": held.rounds,
        "tokens": held.anchored_tokens,
        "from_usage": held.anchored,
        "window_tokens": marks.context,
        "above_autocompact": marks.state(held.anchored_tokens).above_autocompact,
        "categories": dict(held.categories),
        "freeable": {level.level: level.tokens for level in held.freeable},
    }


def compact_file(
    file: TranscriptFile,
    *,
    output: Path | None = None,
    overwrite: bool = False,
    options: Mapping[str, Any] | None = None,
    record: Callable[[Mapping[str, Any]], object] | None = None,
) -> dict[str, Any]:
    """Compact a session into a folder.

    `output`: a folder; the file is written at its relative path below it. `None`: nothing is written. `overwrite`: whether an existing
    file may be replaced. `options`: arguments of `ullage.compact`, such as `keep`. `record`: called with the return value before a new
    file is put in place; see `run_batch`.

    Returns:
        Outcome, tokens before and after, and the path written; the outcome `nothing_to_do` is not an error.

    Raises:
        StoreError: It cannot be written, or would overwrite the session itself.
        InvalidTranscript, InvalidMessage, CompactionError: See `open_session` and `compact`.
    """
    session = open_session(file.path)
    target = None if output is None else _target(file, output)
    extra = dict(options or {})
    # A file to replace exists either way: it is recorded afterwards, and a run killed in between replaces it again.
    if record is not None and target is not None and not target.exists():
        extra["before_write"] = lambda result: record(_compacted(session, result, target))
    done = compact_session(session, output=target, overwrite=overwrite, **extra)
    return _compacted(session, done.result, done.path)


def _compacted(session: Session, result: CompactionResult, path: Path | None) -> dict[str, Any]:
    return {
        **_facts(session),
        "outcome": result.outcome.value,
        "reason": result.reason,
        "notice": result.user_notice,
        "tokens_before": result.report.tokens_before,
        "tokens_after": result.report.tokens_after,
        "written": None if path is None else str(path),
    }


def _facts(session: Session | InspectedSession) -> dict[str, Any]:
    return {
        "format": session.format,
        "bytes": session.size,
        "boundaries": len(session.boundaries),
        "warnings": list(session.warnings),
    }


def _target(file: TranscriptFile, output: Path) -> Path:
    target = output / file.relative.with_suffix(".jsonl")
    if target.resolve() == file.path.resolve():
        raise StoreError("would be overwritten", path=str(file.path), hint="name another folder")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise StoreError(f"cannot be created: {exc.strerror}", path=str(target.parent)) from exc
    return target


BatchAction: TypeAlias = Literal["inspect", "compact", "validate", "count", "replay"]

ACTIONS: tuple[BatchAction, ...] = ("inspect", "compact", "validate", "count", "replay")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRow:
    """The result of one transcript.

    Attributes:
        path: The requested path.
        outcome: `done`, `legal`, `refused`, the outcome of a compaction, or `failed`.
        format: Name of its format; empty if it could not be read.
        tokens_before: Tokens of the context.
        tokens_after: After a compaction, otherwise the same.
        freed: The difference.
        written: Path of the compacted transcript; empty: none.
        output: The compacted transcript itself, if no folder was named.
        report: Everything else, as JSON.
        code: The error's code; empty: no error.
        error: What went wrong.
        hint: What to do about it.
    """

    path: str
    outcome: str = "failed"
    format: str = ""
    tokens_before: int = 0
    tokens_after: int = 0
    freed: int = 0
    written: str = ""
    output: bytes | None = field(default=None, repr=False)
    report: str = "{}"
    code: str = ""
    error: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowTask:
    """The action on each transcript; a value that can be sent to another process.

    Attributes:
        action: Which of `ACTIONS`.
        output: `compact`: a folder or the address of one (`s3://bucket/out`); empty: the transcript is in the row.
        dry: `compact`: write nothing; without an output, the row has no transcript either.
        overwrite: `compact`: whether an existing output may be replaced. Objects in a bucket always are.
        keep: `compact`: tokens of the newest messages to keep; `None`: the policy's.
        model: `None`: the one in each transcript.
        provider: `validate`: whose rules apply.
        policy: `None`: `Policy.buffered()`.
    """

    action: BatchAction
    output: str = ""
    dry: bool = False
    overwrite: bool = False
    keep: int | None = None
    model: str | None = None
    provider: str = "anthropic"
    policy: Policy | None = None

    def row(self, path: str, relative: str = "", content: bytes | None = None) -> BatchRow:
        """Run it on one transcript; an error is part of the row.

        Args:
            path: A file, an address (`s3://…`), or any name with `content`.
            relative: Its path below the output; empty: its last part.
            content: The transcript itself; `None`: it is read from `path`.
        """
        place = path
        try:
            with ExitStack() as open_until:
                file = self._file_of(open_until, path, relative, content)
                place = str(file.path)
                return self._done(path, file)
        except (UllageError, OSError) as exc:
            failure = failure_of(exc)
            return row_of(path, {**failure, "error": failure["error"].replace(place, path)})

    def report(self, file: TranscriptFile, record: Record | None = None) -> Mapping[str, Any]:
        """The report on a local file, for `run_batch`.

        Args:
            file: The file.
            record: `compact`: called with the report before a new file is put in place; `None`: not called.

        Raises:
            StoreError, InvalidTranscript, InvalidMessage, CompactionError: See `open_session` and `compact`.
        """
        output = None if self.dry or not self.output else Path(self.output)
        return self._reported(file, output, None, record)

    # ---- one transcript ----------------------------------------------------------------------

    def _file_of(
        self, open_until: ExitStack, path: str, relative: str, content: bytes | None
    ) -> TranscriptFile:
        if content is None and not is_remote(path):
            root = Path(path[: -len(relative)]) if relative and path.endswith(relative) else None
            return TranscriptFile(Path(path), root or Path(path).parent)
        folder = Path(open_until.enter_context(tempfile.TemporaryDirectory(prefix="ullage-")))
        below = Path(relative or path.rpartition("/")[2] or "transcript")
        if below.is_absolute() or ".." in below.parts:
            raise StoreError("could lead out of its folder", path=str(below))
        target = folder / "in" / below
        target.parent.mkdir(parents=True)
        target.write_bytes(fetched(path) if content is None else content)
        return TranscriptFile(target, folder / "in")

    def _done(self, path: str, file: TranscriptFile) -> BatchRow:
        local = bool(self.output) and not is_remote(self.output)
        if self.action != "compact" or self.dry or local:
            return _row(path, file, self.report(file))
        below = file.relative.with_suffix(".jsonl").as_posix()
        place = f"{self.output.rstrip('/')}/{below}" if self.output else path
        with tempfile.TemporaryDirectory(prefix="ullage-") as folder:
            row = _row(path, file, self._reported(file, Path(folder), place))
            if not row.written:
                return row
            data = Path(row.written).read_bytes()
        if not self.output:
            return replace(row, written="", output=data)
        put_remote(place, data)
        return replace(row, written=place)

    def _reported(
        self,
        file: TranscriptFile,
        output: Path | None,
        place: str | None,
        record: Record | None = None,
    ) -> Mapping[str, Any]:
        try:
            match self.action:
                case "compact":
                    options: dict[str, Any] = {"keep": self.keep, "policy": self.policy}
                    options |= {"transcript_path": place}  # never that of a temporary file
                    options |= {"model": self.model} if self.model else {}
                    again = self.overwrite
                    return compact_file(
                        file, output=output, overwrite=again, options=options, record=record
                    )
                case "inspect":
                    return inspect_file(file, model=self.model, policy=self.policy)
                case "validate":
                    return _validate(file, self.provider, self.model)
                case "count":
                    return _count(file, self.model)
                case "replay":
                    return _replay(file, self.model, self.policy)
            raise InvalidPolicy("action", self.action, f"must be one of {', '.join(ACTIONS)}")
        except (UllageError, OSError):
            raise
        except Exception as exc:  # one bad file must not end a run over many
            hint = "this is a bug in Ullage: report it with the file's format"
            raise UllageError(f"{type(exc).__name__}: {exc}", hint=hint) from exc


def _row(path: str, file: TranscriptFile, report: Mapping[str, Any]) -> BatchRow:
    shown = {key: path if value == str(file.path) else value for key, value in report.items()}
    return row_of(path, shown)


def row_of(path: str, report: Mapping[str, Any]) -> BatchRow:
    """The row of a report, as `RowTask.report` gives it, or of a failure."""
    if "error" in report:
        code, error, hint = (str(report.get(name) or "") for name in ("code", "error", "hint"))
        return BatchRow(path=path, code=code, error=error, hint=hint)
    others = {name: value for name, value in report.items() if name != "written"}
    before = report.get("tokens_before", report.get("tokens", 0))
    after = report.get("tokens_after", before)
    return BatchRow(
        path=path,
        outcome=report.get("outcome", "done"),
        format=report.get("format", ""),
        tokens_before=before,
        tokens_after=after,
        freed=before - after,
        written=report.get("written") or "",
        report=orjson.dumps(others, option=orjson.OPT_NON_STR_KEYS).decode(),
    )


# The manifest of a batch: one line of JSON per finished file, so that a later run can continue.
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
        manifest = cls(path)
        try:
            data = path.read_bytes() if path.exists() else b""
        except OSError as exc:
            raise StoreError(f"cannot be read: {exc.strerror}", path=str(path)) from exc
        *lines, unfinished = data.split(b"\n")
        for number, line in enumerate(lines, 1):
            record = _record(line, number, path)
            manifest._records[record["task"], record["path"]] = record
        if unfinished:  # it would merge with the next line
            with _writing(path):
                os.truncate(path, len(data) - len(unfinished))
        return manifest

    def __len__(self) -> int:
        return len(self._records)

    def __repr__(self) -> str:
        return f"Manifest({self.path or 'in memory'}, {len(self)} files)"

    def find(self, task: str, path: str, *, size: int, changed: int) -> Mapping[str, Any] | None:
        """The record of a file, if it has not changed since.

        `task`: name and options of the task, as passed to `add`. `changed`: its current modification time, in nanoseconds.
        """
        record = self._records.get((task, path))
        if record is None or (record["size"], record["changed"]) != (size, changed):
            return None
        return record

    def add(
        self, task: str, path: str, *, size: int, changed: int, record: Mapping[str, Any]
    ) -> None:
        """Append a record as one line, whole or not at all, unless it is there already.

        Raises:
            StoreError: It cannot be written.
        """
        line = {"v": VERSION, "task": task, "path": path, "size": size, "changed": changed}
        line.update(record)
        if self._records.get((task, path)) == line:
            return
        if self.path is not None:
            data = orjson.dumps(line, option=orjson.OPT_NON_STR_KEYS) + b"\n"
            # As private as the transcripts whose paths and sizes it holds.
            private = partial(os.open, mode=0o600)
            with _writing(self.path), open(self.path, "ab", 0, opener=private) as file:
                file.write(data)
        self._records[task, path] = line


@contextmanager
def _writing(path: Path | str) -> Iterator[None]:
    try:
        yield
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


Item = TypeVar("Item")
Result = TypeVar("Result")
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
    """One file of a batch."""

    path: Path | str  # the file, or an object's address
    status: Status
    report: Mapping[str, Any]  # what the task returned; for a failure `code`, `error` and `hint`

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
    """Run a task over files; a file that fails does not stop the others.

    Files that an earlier run finished come first, then the others as they finish. At most twice as many files as
    workers are started before the caller takes a result. If the caller stops early, files in progress are finished, and the manifest
    has everything that was done.

    Args:
        task: Called with one file, on a thread; returns plain data.
        files: From `find_transcripts`.
        name: The task with its options, the key in the manifest; empty: the task's own name.
        workers: Threads, 1 to 64.
        manifest: Results of earlier runs; `None`: none.
        retry_failed: Whether to retry files that failed before.
        records: Whether the task takes a second argument, to call with its report before its output is put in place, so that
            a run killed in between leaves no output that the manifest lacks.

    Yields:
        Each file once.

    Raises:
        InvalidPolicy: A number of workers out of range.
        StoreError: The manifest cannot be written.
    """
    if not 1 <= workers <= MAX_WORKERS:
        raise InvalidPolicy("workers", workers, f"must be from 1 to {MAX_WORKERS}")
    key = name or getattr(task, "__name__", "task")
    book = _Book(Manifest() if manifest is None else manifest, key, retry_failed)
    return _run(files, book, partial(_one, task, book, records), workers)


def _run(
    files: Sequence[TranscriptFile],
    book: _Book,
    work: Callable[[TranscriptFile], Done],
    workers: int,
) -> Generator[Done, None, None]:
    earlier = {file: done for file in files if (done := book.earlier(file.path, _mark(file.path)))}
    yield from earlier.values()
    yield from _on_threads(work, [file for file in files if file not in earlier], workers)


def _one(task: Task, book: _Book, records: bool, file: TranscriptFile) -> Done:
    """Run a task on a file, and record it: a caller that stops may take no result of what is in progress.

    The next run would refuse to replace output that it does not know.
    """
    mark = _mark(file.path)  # at the time the task begins

    def record(report: Mapping[str, Any]) -> None:
        book.keep(Done(file.path, Status.DONE, report), mark)

    try:
        report = task(file, record) if records else task(file)
        done = Done(file.path, Status.DONE, dict(report))
    except (UllageError, OSError) as exc:
        done = Done(file.path, Status.FAILED, failure_of(exc))
    return book.keep(done, mark)


_Mark: TypeAlias = tuple[int, int]
"""A file's size and modification time."""


def _mark(path: Path) -> _Mark:
    try:
        stat = path.stat()
    except OSError:
        return -1, -1
    return stat.st_size, stat.st_mtime_ns


def _on_threads(
    work: Callable[[Item], Result], items: Iterable[Item], workers: int
) -> Generator[Result, None, None]:
    """What work returns for each item, as it ends; at most twice as many as workers begin before the caller takes one."""
    left = iter(items)
    pool = ThreadPoolExecutor(workers or None, thread_name_prefix="ullage-batch")
    begun: set[Future[Result]] = set()
    try:
        begun = {pool.submit(work, item) for item in islice(left, 2 * (workers or 8))}
        while begun:
            ended, begun = wait(begun, return_when=FIRST_COMPLETED)
            begun |= {pool.submit(work, item) for item in islice(left, len(ended))}
            yield from sorted([future.result() for future in ended], key=attrgetter("path"))
    finally:
        # A caller that stops early, or is interrupted, waits only for what is in progress.
        pool.shutdown(wait=True, cancel_futures=True)
        for future in begun:
            failure = None if future.cancelled() else future.exception()
            if isinstance(failure, StoreError):  # the manifest could not be written
                raise failure


def failure_of(exc: Exception) -> dict[str, str]:
    """An error as a report."""
    code, hint = getattr(exc, "code", "os_error"), getattr(exc, "hint", "")
    return {"code": str(code), "error": str(exc), "hint": str(hint)}


@dataclass(frozen=True, slots=True)
class _Book:
    """The manifest, for one task."""

    manifest: Manifest
    task: str
    retry_failed: bool

    def earlier(self, path: Path | str, mark: _Mark) -> Done | None:
        """What an earlier run did with a file; `None` if it is to be done again, as where its output is missing."""
        record = self.manifest.find(self.task, _key(path), size=mark[0], changed=mark[1])
        failed = record is not None and record["status"] == Status.FAILED
        if record is None or (failed and self.retry_failed):
            return None
        written = record["report"].get("written")
        if written and not is_remote(written) and not Path(written).exists():
            return None
        return Done(path, Status.FAILED if failed else Status.KEPT, record["report"])

    def keep(self, done: Done, mark: _Mark) -> Done:
        record = {"status": str(done.status), "report": dict(done.report)}
        path, (size, changed) = _key(done.path), mark
        self.manifest.add(self.task, path, size=size, changed=changed, record=record)
        return done


def _key(path: Path | str) -> str:
    return path if isinstance(path, str) else str(path.resolve())


# More tasks for one file: what a provider would refuse, how long it is, how large its requests would be under a policy.


def _validate(file: TranscriptFile, provider: str, model: str | None) -> Mapping[str, Any]:
    session = open_session(file.path)
    checked = session.check(provider=provider, model=model)
    ledger = Ledger(weights_for(model or session.model or None), session.items)
    return {
        "format": session.format,
        "bytes": session.size,
        "messages": len(session.messages),
        "tokens": int(ledger.anchored().total),
        "outcome": "legal" if checked.ok else "refused",
        "rules": dict(Counter(fault.rule for fault in checked.errors)),
        "warnings": len(checked.warnings),
    }


def _count(file: TranscriptFile, model: str | None) -> Mapping[str, Any]:
    session = inspect_session(file.path, model=model)
    held = session.inspection
    return {
        "format": session.format,
        "bytes": session.size,
        "messages": session.messages,
        # Without a reported figure, system prompt and tools are not counted.
        "tokens": held.anchored_tokens if held.anchored else held.tokens,
    }


def _replay(file: TranscriptFile, model: str | None, policy: Policy | None) -> Mapping[str, Any]:
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


# The batch as one pure function over Arrow: a table of transcripts in, a table of results out. Any engine with Arrow can run it.
#
# import pyarrow as pa
# from ullage.batch import RowTask, process_rows
#
# table = process_rows(pa.record_batch({"path": ["a.jsonl"]}), RowTask(action="inspect"))


class ArrowBatch(Protocol):
    """A `pyarrow.RecordBatch`, or a table."""

    @property
    def num_rows(self) -> int:
        """How many."""
        ...

    def to_pylist(self) -> list[dict[str, object]]:
        """Its rows."""
        ...


def arrow_schema() -> Any:
    """Columns of the result: the fields of `BatchRow`.

    Raises:
        MissingExtra: pyarrow is not installed.
    """
    arrow = extra_module("pyarrow", "daft")
    kinds = dict.fromkeys(("tokens_before", "tokens_after", "freed"), arrow.int64())
    kinds["output"] = arrow.large_binary()
    names = [column.name for column in dataclasses.fields(BatchRow)]
    return arrow.schema([arrow.field(name, kinds.get(name, arrow.string())) for name in names])


def process_rows(batch: ArrowBatch, task: RowTask) -> ArrowBatch:
    """Run a task on every row.

    Args:
        batch: With a column `path` (files or addresses), or `content` (transcripts as binary or text), or both; `relative`: paths
            below the output. Other columns are ignored.
        task: The task.

    Returns:
        A `pyarrow.RecordBatch` with as many rows in the same order and the fields of `BatchRow` as columns, errors included.

    Raises:
        InvalidPolicy: It has neither column.
        MissingExtra: pyarrow is not installed.
    """
    schema = arrow_schema()
    rows = [dataclasses.asdict(row) for row in rows_of(batch.to_pylist(), task)]
    result: ArrowBatch = extra_module("pyarrow", "daft").RecordBatch.from_pylist(
        rows, schema=schema
    )
    return result


def rows_of(rows: Iterable[Mapping[str, Any]], task: RowTask) -> Iterator[BatchRow]:
    """The same over plain rows.

    Raises:
        InvalidPolicy: A row has neither `path` nor `content`.
    """
    for number, row in enumerate(rows):
        if "path" not in row and "content" not in row:
            raise InvalidPolicy("batch", sorted(row), "must have a column path or content")
        path, content = row.get("path"), row.get("content")
        if path is None and content is None:
            error = "the row is empty"
            yield BatchRow(path=f"row {number}", code="invalid_transcript", error=error)
            continue
        data = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
        yield task.row(str(path or f"row-{number}"), str(row.get("relative") or ""), data)


def write_table(path: str, rows: Iterable[BatchRow]) -> None:
    """Write rows as a Parquet file, whole or not at all.

    Raises:
        MissingExtra: pyarrow is not installed.
        StoreError: It cannot be written.
    """
    arrow, parquet = extra_module("pyarrow", "daft"), extra_module("pyarrow.parquet", "daft")
    table = arrow.Table.from_pylist([*map(dataclasses.asdict, rows)], schema=arrow_schema())
    sink = arrow.BufferOutputStream()
    parquet.write_table(table, sink)
    data = sink.getvalue().to_pybytes()
    if is_remote(path):
        put_remote(path, data)
        return
    with _writing(path):
        write_whole(Path(path), data)


EngineName: TypeAlias = Literal["threads", "daft", "ray"]

_PER_TASK = 16  # rows: few, so that a large file delays only these

Place: TypeAlias = Mapping[str, str]


def run_rows(
    places: Sequence[Place], task: RowTask, *, engine: EngineName = "threads", workers: int = 2
) -> Iterator[BatchRow]:
    """Run a task on every place; rows come as they finish, in no order.

    Args:
        places: Each with `path` and `relative`; the largest first, so that no large one is left at the end.
        task: What is done.
        engine: `threads`; `daft`: processes of this machine, or Ray where `daft.set_runner_ray` was called or
            `DAFT_RUNNER=ray` is set; `ray`: Ray Data.
        workers: Threads; 0: one per processor. The other engines decide themselves.

    Raises:
        InvalidPolicy: No such engine.
        MissingExtra: It is not installed.
    """
    engines = {"threads": _threads, "daft": _daft, "ray": _ray}
    if engine not in engines:
        raise InvalidPolicy("engine", engine, f"must be one of {', '.join(engines)}")
    return engines[engine](places, task, workers) if places else iter(())


def _threads(places: Sequence[Place], task: RowTask, workers: int) -> Iterator[BatchRow]:
    def work(place: Place) -> BatchRow:
        return task.row(place["path"], place.get("relative", ""))

    return _on_threads(work, places, workers)


def _daft(places: Sequence[Place], task: RowTask, workers: int) -> Iterator[BatchRow]:
    daft, arrow = extra_module("daft", "daft"), extra_module("pyarrow", "daft")
    kind = arrow.struct(list(arrow_schema()))

    def work(path: Any, relative: Any) -> Any:
        columns = {"path": path.to_arrow(), "relative": relative.to_arrow()}
        done = process_rows(arrow.RecordBatch.from_pydict(columns), task)
        return arrow.array(done.to_pylist(), type=kind)

    returned = daft.DataType.from_arrow_type(kind)
    call = daft.func.batch(return_dtype=returned, batch_size=_PER_TASK, use_process=True)(work)
    names = ("path", "relative")
    frame = daft.from_pydict({name: [place.get(name, "") for place in places] for name in names})
    done = frame.into_batches(_PER_TASK).select(call(*map(daft.col, names)).alias("row"))
    yield from (BatchRow(**place["row"]) for place in done.iter_rows())


def _ray(places: Sequence[Place], task: RowTask, workers: int) -> Iterator[BatchRow]:
    data, arrow = extra_module("ray.data", "ray"), extra_module("pyarrow", "ray")

    def work(table: Any) -> Any:
        done = [process_rows(batch, task) for batch in table.to_batches()]
        return arrow.Table.from_batches(done, schema=arrow_schema())

    frame = data.from_items([dict(place) for place in places])
    done = frame.map_batches(work, batch_format="pyarrow", batch_size=_PER_TASK)
    yield from (BatchRow(**row) for row in done.iter_rows())


# A task over files and objects on any engine, recorded as it goes, so that a killed run can continue.


def find_places(paths: Iterable[str], *, pattern: str = "") -> list[RemoteFile]:
    """Files and objects that may be transcripts, sorted, each once.

    `paths`: folders and files, see `find_transcripts`; addresses, see `find_remote`. `pattern`: see `find_transcripts`; for addresses
    put it into them. Raises what both do.
    """
    addresses = list(paths)
    local = find_transcripts([path for path in addresses if not is_remote(path)], pattern=pattern)
    places: dict[str, RemoteFile] = {}
    for file in local:
        path, stat = str(file.path.resolve()), file.path.stat()
        relative = file.relative.as_posix()
        places[path] = RemoteFile(path, relative, stat.st_size, stat.st_mtime_ns)
    for address in filter(is_remote, addresses):
        places.update({place.path: place for place in find_remote(address)})
    return sorted(places.values())


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
    """Run a task on every place on an engine; one that fails does not stop the others.

    Results of earlier runs come first, then the others as they finish, starting with the largest.

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
    book = _Book(Manifest() if manifest is None else manifest, name, retry_failed)
    left: dict[str, RemoteFile] = {}
    for place in places:
        done = book.earlier(place.path, (place.size, place.changed))
        if done is None:
            left[place.path] = place
        else:
            yield done
    order = sorted(left.values(), key=lambda remote: -remote.size)
    asked = [{"path": remote.path, "relative": remote.relative} for remote in order]
    for row in run_rows(asked, task, engine=engine, workers=workers):
        place, status = left[row.path], Status.FAILED if row.error else Status.DONE
        report: dict[str, Any] = {"code": row.code, "error": row.error, "hint": row.hint}
        if not row.error:
            report = orjson.loads(row.report)
            report |= {"written": row.written} if row.written else {}
        yield book.keep(Done(place.path, status, report), (place.size, place.changed))
