"""Many transcripts at once: inspected or compacted on threads, each file by itself, from where the last run stopped.

    from ullage.batch import Manifest, find_transcripts, inspect_file, run_batch

    for done in run_batch(inspect_file, find_transcripts(["sessions/"]), manifest=Manifest.open("done.jsonl")):
        print(done.path, done.status)

Indexing and counting run without the interpreter's lock; what is Python (summaries, reports) takes turns.
"""

from __future__ import annotations

from ullage.batch.files import Found, find_transcripts
from ullage.batch.manifest import Manifest
from ullage.batch.run import Done, Status, run_batch
from ullage.batch.tasks import compact_file, inspect_file

__all__ = [
    "Done",
    "Found",
    "Manifest",
    "Status",
    "compact_file",
    "find_transcripts",
    "inspect_file",
    "run_batch",
]
