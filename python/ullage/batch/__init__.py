"""Inspects, compacts, validates, counts or replays many transcripts, each separately, resuming where the last run left off.

    from ullage.batch import Manifest, find_transcripts, inspect_file, run_batch

    for done in run_batch(inspect_file, find_transcripts(["sessions/"]), manifest=Manifest.open("done.jsonl")):
        print(done.path, done.status)

`RowTask.row` is the same for one transcript as a value that can be sent to another machine, `process_rows` for a table of Arrow, `run_places` on threads,
Daft or Ray Data, for files and objects of a bucket.

Indexing and counting release the GIL; Python code (summaries, reports) does not run in parallel.
"""

from __future__ import annotations

from ullage.batch.places import (
    find_transcripts as find_transcripts,
)
from ullage.batch.run import (
    ACTIONS as ACTIONS,
    BatchAction as BatchAction,
    BatchRow as BatchRow,
    Done as Done,
    EngineName as EngineName,
    Manifest as Manifest,
    RowTask,
    Status as Status,
    compact_file as compact_file,
    find_places as find_places,
    inspect_file as inspect_file,
    process_rows,
    row_of as row_of,
    run_batch,
    run_places,
    run_rows,
    write_table,
)

__all__ = ["RowTask", "process_rows", "run_batch", "run_places", "run_rows", "write_table"]
