"""The batch as one pure function over Arrow: a table of transcripts in, a table of what came of them out. Any engine that has Arrow can run it.

import pyarrow as pa
from ullage.batch import RowTask, process_rows

table = process_rows(pa.record_batch({"path": ["a.jsonl"]}), RowTask(action="inspect"))
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from ullage.batch.places import is_remote, put_remote
from ullage.batch.row_task import BatchRow, RowTask
from ullage.exceptions import InvalidPolicy, MissingExtra, StoreError
from ullage.recall.store import write_whole

__all__ = ["ArrowBatch", "arrow_schema", "process_rows", "rows_of", "write_table"]


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
            arrow.field(each.name, kinds.get(each.name, arrow.string()))
            for each in dataclasses.fields(BatchRow)
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
    made: ArrowBatch = _arrow().RecordBatch.from_pylist(rows, schema=schema)
    return made


def rows_of(given: Iterable[Mapping[str, Any]], task: RowTask) -> Iterator[BatchRow]:
    """The same over plain rows.

    Raises:
        InvalidPolicy: A row has neither `path` nor `content`.
    """
    for number, row in enumerate(given):
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
