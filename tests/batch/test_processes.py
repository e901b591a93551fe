"""Batches on processes: the same reports, one manifest, and no process that outlives its caller."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import ullage.cli.batch as command
from tests.kit.transcripts import Layout, session_file
from ullage.batch import Manifest, RowTask, find_places, find_transcripts, run_batch, run_rows
from ullage.cli import main
from ullage.exceptions import InvalidPolicy, UllageError
from ullage.testing import scenario

pytestmark = pytest.mark.timeout(120)
SCRIPT = """
import sys
from tests.batch.test_processes import sleeps
from ullage.batch import find_transcripts, run_batch

if __name__ == "__main__":
    list(run_batch(sleeps, find_transcripts([sys.argv[1]]), engine="processes"))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sessions")
    for number in range(5):
        content = session_file(scenario(number, turns=12), layout=Layout()).to_bytes()
        (folder / f"{number}.jsonl").write_bytes(content)
    (folder / "broken.jsonl").write_bytes(b"{no json")
    return folder


def sleeps(found) -> dict[str, int]:
    found.path.with_suffix(".pid").write_text(str(os.getpid()))
    time.sleep(60)
    return {}


def ends_itself(found) -> dict[str, int]:
    if found.path.name == "3.jsonl":
        os.kill(os.getpid(), signal.SIGKILL)
    return {}


@pytest.mark.parametrize("action", ["inspect", "compact", "count"])
def test_processes_report_what_threads_do(folder: Path, tmp_path: Path, action: str) -> None:
    found = find_transcripts([folder])
    reports, output = {}, tmp_path / "out"
    task = RowTask(action=action, output=str(output))
    for engine in ("threads", "processes"):
        path = tmp_path / f"{engine}.done"
        options = {"engine": engine, "manifest": Manifest.open(path), "records": True}
        done = list(run_batch(task.report, found, **options))
        assert len(done) == len(path.read_bytes().splitlines()) == len(options["manifest"]) == 6
        again = run_batch(task.report, found, **options)
        assert {str(each.status) for each in again} == {"kept", "failed"}
        written = {path.name: path.read_bytes() for path in output.glob("*.jsonl")}
        assert len(written) == (5 if action == "compact" else 0)
        reports[engine] = {each.path.name: dict(each.report) for each in done}, written
        shutil.rmtree(output, ignore_errors=True)
    assert reports["threads"] == reports["processes"]
    assert reports["processes"][0]["broken.jsonl"]["code"] == "invalid_transcript"


def test_rows_of_places_too(folder: Path) -> None:
    places = [{"path": place.path, "relative": ""} for place in find_places([str(folder)])]
    task = RowTask(action="count")
    by_engine = [
        sorted(run_rows(places, task, engine=engine, workers=0), key=lambda row: row.path)
        for engine in ("threads", "processes")
    ]
    assert by_engine[0] == by_engine[1]
    assert len(by_engine[0]) == 6


def test_a_worker_that_is_killed_is_an_error_that_says_what_to_do(folder: Path) -> None:
    with pytest.raises(UllageError, match="ended from outside") as caught:
        list(run_batch(ends_itself, find_transcripts([folder]), engine="processes"))
    assert "fewer workers" in caught.value.hint


def test_a_task_that_cannot_be_sent_is_loud(folder: Path) -> None:
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        list(run_batch(lambda found: {}, find_transcripts([folder]), engine="processes"))


def test_another_engine_is_refused(folder: Path) -> None:
    with pytest.raises(InvalidPolicy, match="engine: must be one of threads, processes"):
        run_batch(sleeps, find_transcripts([folder]), engine="daft")


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_no_process_outlives_a_caller_that_is_killed(folder: Path, tmp_path: Path) -> None:
    place = tmp_path / "one.jsonl"
    place.write_bytes((folder / "0.jsonl").read_bytes())
    script = tmp_path / "caller.py"
    script.write_text(SCRIPT)
    paths = os.pathsep.join(filter(None, [str(Path.cwd()), os.environ.get("PYTHONPATH", "")]))
    caller = subprocess.Popen([sys.executable, str(script), str(tmp_path)], env={**os.environ, "PYTHONPATH": paths})  # fmt: skip
    pid = tmp_path / "one.pid"
    until(lambda: pid.exists() and pid.read_text() != "")
    worker = int(pid.read_text())
    os.kill(worker, 0)  # it is there
    caller.kill()
    caller.wait()
    until(lambda: not runs(worker))


def until(holds, seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")  # one that nobody has waited for has ended
    return not (status.exists() and status.read_text().rpartition(")")[2].split()[0] == "Z")


@pytest.mark.parametrize(("many", "engine"), [(6, "processes"), (7, "threads")])
def test_many_files_are_done_on_processes(
    folder: Path, monkeypatch: pytest.MonkeyPatch, many: int, engine: str
) -> None:
    engines = []

    def noted(*args, **options):
        engines.append(options["engine"])
        return run_batch(*args, **options)

    monkeypatch.setattr(command, "run_batch", noted)
    monkeypatch.setitem(command.MANY_FILES, "count", many)
    assert main(["batch", "count", str(folder), "--json"]) == 1  # one is broken
    assert engines == [engine]
