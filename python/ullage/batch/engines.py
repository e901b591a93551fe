"""Engines that run a task over many rows: threads of this process, Daft on one machine or a cluster, Ray Data."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import islice
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

import orjson

from ullage.batch.places import (
    RemoteFile,
    TranscriptFile,
    find_remote,
    find_transcripts,
    is_remote,
    put_remote,
)
from ullage.batch.row_task import BatchRow, RowTask
from ullage.batch.run import Done, Manifest, Status
from ullage.exceptions import InvalidPolicy, MissingExtra, StoreError
from ullage.recall.store import write_whole

# The batch as one pure function over Arrow: a table of transcripts in, a table of what came of them out. Any engine that has Arrow can run it.
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


def _arrow(name: str = "pyarrow") -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as exc:
        raise MissingExtra("pyarrow", "daft") from exc


def arrow_schema() -> Any:
    """Columns of the result: the fields of `BatchRow`.

    Raises:
        MissingExtra: pyarrow is not installed.
    """
    arrow = _arrow()
    kinds = {"tokens_before": arrow.int64(), "tokens_after": arrow.int64(), "freed": arrow.int64()}
    kinds["output"] = arrow.large_binary()
    return arrow.schema(
        [
            arrow.field(column.name, kinds.get(column.name, arrow.string()))
            for column in dataclasses.fields(BatchRow)
        ]
    )


def process_rows(batch: ArrowBatch, task: RowTask) -> ArrowBatch:
    """Does a task to every row.

    Args:
        batch: With a column `path` (files or addresses), or `content` (transcripts as binary or text), or both; `relative`: paths
            below the output. Other columns are not looked at.
        task: What is done.

    Returns:
        A `pyarrow.RecordBatch` of as many rows in the same order, its columns the fields of `BatchRow`; what goes wrong with a row is in it.

    Raises:
        InvalidPolicy: It has neither column.
        MissingExtra: pyarrow is not installed.
    """
    schema = arrow_schema()
    rows = [dataclasses.asdict(row) for row in rows_of(batch.to_pylist(), task)]
    result: ArrowBatch = _arrow().RecordBatch.from_pylist(rows, schema=schema)
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
            yield BatchRow(
                path=f"row {number}", code="invalid_transcript", error="the row is empty"
            )
            continue
        data = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
        yield task.row(str(path or f"row-{number}"), str(row.get("relative") or ""), data)


def write_table(path: str, rows: Iterable[BatchRow]) -> None:
    """Writes rows as a Parquet file, whole or not at all.

    Raises:
        MissingExtra: pyarrow is not installed.
        StoreError: It cannot be written.
    """
    arrow, parquet = _arrow(), _arrow("pyarrow.parquet")
    table = arrow.Table.from_pylist([*map(dataclasses.asdict, rows)], schema=arrow_schema())
    sink = arrow.BufferOutputStream()
    parquet.write_table(table, sink)
    data = sink.getvalue().to_pybytes()
    if is_remote(path):
        put_remote(path, data)
        return
    try:
        write_whole(Path(path), data)
    except OSError as exc:
        raise StoreError(f"cannot be written: {exc.strerror}", path=path) from exc


EngineName: TypeAlias = Literal["threads", "daft", "ray"]

ENGINES: tuple[EngineName, ...] = ("threads", "daft", "ray")

PER_TASK = 16
"""Rows of one task: few, so that a large file holds up only these."""

Place: TypeAlias = Mapping[str, str]


def run_rows(
    places: Sequence[Place], task: RowTask, *, engine: EngineName = "threads", workers: int = 2
) -> Iterator[BatchRow]:
    """Does a task to every place; rows come as they are done, in no order.

    Args:
        places: Each with `path`, and `relative`; the largest first, so that none is left at the end.
        task: What is done.
        engine: `threads`; `daft`: processes of this machine, or Ray where `daft.set_runner_ray` was called or
            `DAFT_RUNNER=ray` is set; `ray`: Ray Data.
        workers: Threads; 0: as many as there are processors. The other engines decide themselves.

    Raises:
        InvalidPolicy: No such engine.
        MissingExtra: It is not installed.
    """
    if engine not in ENGINES:
        raise InvalidPolicy("engine", engine, f"must be one of {', '.join(ENGINES)}")
    run = {"threads": _threads, "daft": _daft, "ray": _ray}[engine]
    return run(places, task, workers) if places else iter(())


def _threads(places: Sequence[Place], task: RowTask, workers: int) -> Iterator[BatchRow]:
    left = iter(places)
    pool = ThreadPoolExecutor(workers or None, thread_name_prefix="ullage-batch")

    def submit(count: int) -> set[Future[BatchRow]]:
        chosen = islice(left, count)
        return {pool.submit(task.row, place["path"], place.get("relative", "")) for place in chosen}

    try:
        begun = submit(2 * (workers or 8))
        while begun:
            finished, begun = wait(begun, return_when=FIRST_COMPLETED)
            begun |= submit(len(finished))
            yield from (future.result() for future in finished)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _daft(places: Sequence[Place], task: RowTask, workers: int) -> Iterator[BatchRow]:
    daft, arrow = _library("daft", "daft"), _library("pyarrow", "daft")
    kind = arrow.struct(list(arrow_schema()))

    def work(path: Any, relative: Any) -> Any:
        columns = {"path": path.to_arrow(), "relative": relative.to_arrow()}
        done = process_rows(arrow.RecordBatch.from_pydict(columns), task)
        return arrow.array(done.to_pylist(), type=kind)

    call = daft.func.batch(
        return_dtype=daft.DataType.from_arrow_type(kind), batch_size=PER_TASK, use_process=True
    )(work)
    frame = daft.from_pydict(
        {name: [place.get(name, "") for place in places] for name in ("path", "relative")}
    )
    frame = frame.into_batches(PER_TASK)
    done = frame.select(call(daft.col("path"), daft.col("relative")).alias("row"))
    yield from (BatchRow(**place["row"]) for place in done.iter_rows())


def _ray(places: Sequence[Place], task: RowTask, workers: int) -> Iterator[BatchRow]:
    data = _library("ray.data", "ray")
    arrow = _library("pyarrow", "ray")

    def work(table: Any) -> Any:
        done = [process_rows(batch, task) for batch in table.to_batches()]
        return arrow.Table.from_batches(done, schema=arrow_schema())

    frame = data.from_items([dict(place) for place in places])
    done = frame.map_batches(work, batch_format="pyarrow", batch_size=PER_TASK)
    yield from (BatchRow(**row) for row in done.iter_rows())


def _library(name: str, extra: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as exc:
        raise MissingExtra(name.partition(".")[0], extra) from exc


# A task over files and objects on any engine, recorded as it goes, so that a run that was killed continues.


def find_places(paths: Iterable[str], *, pattern: str = "") -> list[RemoteFile]:
    """Files and objects that may be transcripts, sorted, each once.

    Args:
        paths: Folders and files, see `find_transcripts`; addresses, see `find_remote`.
        pattern: See `find_transcripts`; for addresses put it into them.

    Raises:
        InvalidPolicy, MissingExtra, StoreError: See both.
    """
    addresses = list(paths)
    local = find_transcripts([path for path in addresses if not is_remote(path)], pattern=pattern)
    places = {place.path: place for place in map(_of_file, local)}
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
        done = _recorded(book, name, place, retry_failed=retry_failed)
        if done is None:
            left[place.path] = place
        else:
            yield done
    order = sorted(left.values(), key=lambda remote: -remote.size)
    asked = [{"path": remote.path, "relative": remote.relative} for remote in order]
    for row in run_rows(asked, task, engine=engine, workers=workers):
        place, status, report = left[row.path], _status(row), _report(row)
        record = {"status": str(status), "report": report}
        book.add(name, place.path, size=place.size, changed=place.changed, record=record)
        yield Done(place.path, status, report)


def _of_file(file: TranscriptFile) -> RemoteFile:
    path = file.path.resolve()
    stat = path.stat()
    return RemoteFile(str(path), file.relative.as_posix(), stat.st_size, stat.st_mtime_ns)


def _recorded(book: Manifest, name: str, place: RemoteFile, *, retry_failed: bool) -> Done | None:
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
