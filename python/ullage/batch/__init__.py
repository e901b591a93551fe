"""Inspects or compacts many transcripts on threads, each file separately, resuming where the last run left off.

    from ullage.batch import Manifest, search as find_transcripts, inspect_file, run_batch

    for done in run_batch(inspect_file, find_transcripts(["sessions/"]), manifest=Manifest.open("done.jsonl")):
        print(done.path, done.status)

Indexing and counting release the GIL; Python code (summaries, reports) does not run in parallel.
"""

from __future__ import annotations

from ullage.batch.file_work import compact_file, inspect_file
from ullage.batch.manifest import Manifest
from ullage.batch.run import Done, Status, run_batch
from ullage.batch.search import TranscriptFile, find_transcripts

__all__ = [
    "Done",
    "Manifest",
    "Status",
    "TranscriptFile",
    "compact_file",
    "find_transcripts",
    "inspect_file",
    "run_batch",
]
