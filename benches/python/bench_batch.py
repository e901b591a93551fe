"""Batches on threads: what a second thread costs and gains.

    python benches/python/bench_batch.py [FOLDER]

over the sessions of a folder, or else over made ones (48 MB in 12 files). *Efficiency* is the processor time of one thread
over that of two for the same work: what the lock and its switches waste. *Wall* says how much earlier two threads are done; a
busy machine, or one processor, keeps it at 1. Answers of both are compared first.

    python -m pytest benches/python/bench_batch.py --benchmark-enable

times both.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from ullage import _core
from ullage.batch import TranscriptFile, inspect_file, run_batch
from ullage.batch import search as find_transcripts
from ullage.testing import Layout, scenario, session_file

FILES, MEGABYTES = 12, 4


def index_file(found: TranscriptFile) -> Mapping[str, Any]:
    """What runs without the interpreter's lock."""
    index = _core.TranscriptIndex.open(str(found.path))
    return {"lines": len(index), "bytes": index.size}


TASKS: dict[str, Callable[[TranscriptFile], Mapping[str, Any]]] = {
    "index": index_file,
    "inspect": inspect_file,
}


def make(folder: Path) -> Path:
    seed = 0
    for number in range(FILES):
        with (folder / f"{number}.jsonl").open("wb") as file:
            while file.tell() < MEGABYTES * 1_000_000:
                seed += 1
                file.write(session_file(scenario(seed, turns=60), layout=Layout()).to_bytes())
    return folder


def reports(
    task: Callable[[TranscriptFile], Mapping[str, Any]], files: list[TranscriptFile], workers: int
) -> Any:
    return {done.path: done.report for done in run_batch(task, files, workers=workers)}


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[TranscriptFile]:
    return find_transcripts([make(tmp_path_factory.mktemp("batch"))])


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("name", TASKS)
def test_batch(benchmark: Any, files: list[TranscriptFile], name: str, workers: int) -> None:
    if not benchmark.enabled:
        pytest.skip("benchmarks are off")
    assert reports(TASKS[name], files, 2) == reports(TASKS[name], files, 1)
    benchmark.pedantic(reports, args=(TASKS[name], files, workers), rounds=5, warmup_rounds=1)


def efficiency(
    task: Callable[[TranscriptFile], Mapping[str, Any]], files: list[TranscriptFile], rounds: int
) -> tuple[float, float]:
    """Processor time and wall time of one thread over those of two; medians of interleaved rounds."""
    assert reports(task, files, 2) == reports(task, files, 1)
    cpu: list[float] = []
    wall: list[float] = []
    for _ in range(rounds):
        took = []
        for workers in (1, 2):
            began = (time.process_time(), time.perf_counter())
            reports(task, files, workers)
            took.append((time.process_time() - began[0], time.perf_counter() - began[1]))
        cpu.append(took[0][0] / took[1][0])
        wall.append(took[0][1] / took[1][1])
    return statistics.median(cpu), statistics.median(wall)


def main(arguments: list[str]) -> None:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(arguments[0]) if arguments else make(Path(made))
        files = find_transcripts([folder])
        size = sum(found.path.stat().st_size for found in files) / 1e6
        print(f"{len(files)} files, {size:.0f} MB; two threads against one")
        for name, rounds in (("index", 25), ("inspect", 3)):
            cpu, wall = efficiency(TASKS[name], files, rounds)
            print(f"{name:10} efficiency {cpu:.2f}   wall {wall:.2f}x")


if __name__ == "__main__":
    main(sys.argv[1:])
