"""Engines that run a task over many rows: threads of this process, Daft on one machine or a cluster, Ray Data."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import islice
from typing import Any, Literal, TypeAlias

from ullage.batch.arrow_rows import arrow_schema, process_rows
from ullage.batch.row_task import BatchRow, RowTask
from ullage.exceptions import InvalidPolicy, MissingExtra

__all__ = ["ENGINES", "EngineName", "run_rows"]

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
        return {pool.submit(task.row, each["path"], each.get("relative", "")) for each in chosen}

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
        {name: [each.get(name, "") for each in places] for name in ("path", "relative")}
    )
    frame = frame.into_batches(PER_TASK)
    done = frame.select(call(daft.col("path"), daft.col("relative")).alias("row"))
    yield from (BatchRow(**each["row"]) for each in done.iter_rows())


def _ray(places: Sequence[Place], task: RowTask, workers: int) -> Iterator[BatchRow]:
    data = _library("ray.data", "ray")
    arrow = _library("pyarrow", "ray")

    def work(table: Any) -> Any:
        done = [process_rows(batch, task) for batch in table.to_batches()]
        return arrow.Table.from_batches(done, schema=arrow_schema())

    frame = data.from_items([dict(each) for each in places])
    done = frame.map_batches(work, batch_format="pyarrow", batch_size=PER_TASK)
    yield from (BatchRow(**row) for row in done.iter_rows())


def _library(name: str, extra: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as exc:
        raise MissingExtra(name.partition(".")[0], extra) from exc
