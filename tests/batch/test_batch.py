"""Batches: which files, what is kept, what happens when one fails or the run stops early."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from tests.kit.transcripts import Layout, session_file
from ullage.batch import Manifest, Status, compact_file, find_transcripts, inspect_file, run_batch
from ullage.exceptions import InvalidPolicy, InvalidTranscript, StoreError
from ullage.sessions import open_session
from ullage.testing import scenario


@pytest.fixture(scope="module")
def content() -> bytes:
    return session_file(scenario(3, turns=12), layout=Layout()).to_bytes()


@pytest.fixture
def folder(tmp_path: Path, content: bytes) -> Path:
    for name in ("b/two.jsonl", "a.jsonl", "b/c/three.jsonl", ".hidden/no.jsonl", "b/notes.md"):
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return tmp_path / "in"


def names(found) -> list[str]:
    return [each.relative.as_posix() for each in found]


class Counting:
    """A task that says which files it was called with."""

    def __init__(self, fail: str = "") -> None:
        self.calls: list[str] = []
        self.fail = fail
        self.lock = threading.Lock()

    def __call__(self, found):
        with self.lock:
            self.calls.append(found.path.name)
        if found.path.name == self.fail:
            raise InvalidTranscript("is broken", path=str(found.path))
        return {"bytes": found.path.stat().st_size}


# ---- which files -----------------------------------------------------------------------------


def test_folders_are_searched_to_any_depth_without_hidden_files(folder: Path) -> None:
    assert names(find_transcripts([folder])) == ["a.jsonl", "b/c/three.jsonl", "b/two.jsonl"]


def test_a_pattern_and_a_named_file(folder: Path) -> None:
    assert names(find_transcripts([folder], pattern="b/*.jsonl")) == ["b/two.jsonl"]
    assert names(find_transcripts([folder], pattern="*.md")) == ["b/notes.md"]
    assert names(find_transcripts([folder / "b" / "notes.md"])) == ["notes.md"]


def test_each_file_comes_once(folder: Path) -> None:
    twice = find_transcripts([folder, folder / "b", folder / "a.jsonl"])
    assert len(twice) == 3


def test_a_path_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is neither a file nor a folder") as caught:
        find_transcripts([tmp_path / "none"])
    assert caught.value.path == str(tmp_path / "none")


# ---- running ---------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_every_file_is_done_once_and_failures_stop_nothing(folder: Path, workers: int) -> None:
    task = Counting(fail="two.jsonl")
    done = list(run_batch(task, find_transcripts([folder]), workers=workers))
    assert sorted(task.calls) == ["a.jsonl", "three.jsonl", "two.jsonl"]
    assert {each.path.name: str(each.status) for each in done} == {
        "a.jsonl": "done",
        "three.jsonl": "done",
        "two.jsonl": "failed",
    }
    failed = next(each for each in done if each.status == Status.FAILED)
    assert failed.report["code"] == "invalid_transcript"
    assert "is broken" in failed.report["error"]


@pytest.mark.parametrize("workers", [0, 65])
def test_workers_out_of_range(workers: int) -> None:
    with pytest.raises(InvalidPolicy, match="workers: must be from 1 to 64"):
        run_batch(Counting(), [], workers=workers)


def test_a_fault_of_the_task_itself_is_loud(folder: Path) -> None:
    def broken(found):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(run_batch(broken, find_transcripts([folder])))


# ---- the manifest ----------------------------------------------------------------------------


def again(folder: Path, path: Path, task=None, **options) -> tuple[list[str], dict[str, str]]:
    task = task or Counting()
    found = run_batch(task, find_transcripts([folder]), manifest=Manifest.open(path), **options)
    status = {each.path.name: str(each.status) for each in found}
    return sorted(task.calls), status


def test_a_second_run_does_nothing_again(folder: Path, tmp_path: Path) -> None:
    manifest = tmp_path / "done"
    first, _ = again(folder, manifest)
    second, status = again(folder, manifest)
    assert (len(first), second) == (3, [])
    assert set(status.values()) == {"kept"}


def test_what_changed_is_done_again(folder: Path, tmp_path: Path) -> None:
    manifest = tmp_path / "done"
    again(folder, manifest)
    with (folder / "a.jsonl").open("ab") as file:
        file.write(b"\n")
    os.utime(folder / "b" / "two.jsonl", ns=(1, 1))
    calls, _ = again(folder, manifest)
    assert calls == ["a.jsonl", "two.jsonl"]


def test_another_task_is_another_matter(folder: Path, tmp_path: Path) -> None:
    manifest = tmp_path / "done"
    again(folder, manifest, name="one")
    assert len(again(folder, manifest, name="two")[0]) == 3
    assert again(folder, manifest, name="one")[0] == []


def test_failures_are_kept_unless_they_are_tried_again(folder: Path, tmp_path: Path) -> None:
    manifest = tmp_path / "done"
    again(folder, manifest, Counting(fail="a.jsonl"), name="x")
    calls, status = again(folder, manifest, name="x")
    assert (calls, status["a.jsonl"]) == ([], "failed")
    calls, status = again(folder, manifest, name="x", retry_failed=True)
    assert (calls, status["a.jsonl"]) == (["a.jsonl"], "done")


def test_a_run_that_stops_early_goes_on_from_there(folder: Path, tmp_path: Path) -> None:
    manifest = tmp_path / "done"
    task = Counting()
    running = run_batch(
        task, find_transcripts([folder]), name="x", workers=1, manifest=Manifest.open(manifest)
    )
    next(running)
    running.close()
    before = len(manifest.read_bytes().splitlines())
    assert before >= 1
    calls, status = again(folder, manifest, name="x")
    assert len(calls) == 3 - before
    assert len(status) == 3


def test_files_that_have_begun_when_a_run_stops_are_recorded(folder: Path, tmp_path: Path) -> None:
    stopping, begun = threading.Event(), []

    def work(found):
        begun.append(found.path.name)
        if len(begun) > 1:
            stopping.wait(20)
        return {}

    found = find_transcripts([folder])
    run = run_batch(work, found, workers=2, manifest=Manifest.open(tmp_path / "m"))
    next(run)
    threading.Timer(0.2, stopping.set).start()  # `close` waits for those that have begun
    run.close()
    assert len(begun) >= 2
    assert len(Manifest.open(tmp_path / "m")) == len(begun)


def test_a_line_that_a_killed_run_did_not_finish_is_cut_off(folder: Path, tmp_path: Path) -> None:
    manifest = tmp_path / "done"
    again(folder, manifest)
    whole = manifest.read_bytes()
    manifest.write_bytes(whole[:-7])
    calls, _ = again(folder, manifest)
    assert len(calls) == 1
    lines = manifest.read_bytes().splitlines()
    assert [sorted(json.loads(line)) for line in lines] == [
        ["changed", "path", "report", "size", "status", "task", "v"]
    ] * 3


@pytest.mark.parametrize("line", [b"{}", b"[]", b"not json", b'{"v":2,"task":"","path":""}'])
def test_a_file_that_is_no_manifest_is_refused_and_stays(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "mine"
    path.write_bytes(line + b"\n")
    with pytest.raises(StoreError, match="line 1 is not a batch record"):
        Manifest.open(path)
    assert path.read_bytes() == line + b"\n"


# ---- the tasks -------------------------------------------------------------------------------


def test_inspecting_says_what_the_session_holds(folder: Path) -> None:
    (found,) = find_transcripts([folder / "a.jsonl"])
    report = inspect_file(found)
    assert report["format"] == "claude_code"
    assert report["messages"] == len(open_session(found.path).messages)
    assert report["tokens"] > 0
    assert json.loads(json.dumps(report)) == report


def test_compacting_writes_below_the_output_and_can_be_resumed(folder: Path, tmp_path) -> None:
    out = tmp_path / "out"
    found = find_transcripts([folder])[1]
    report = compact_file(found, output=out, options={"keep": 2_000})
    assert report["outcome"] == "compacted"
    assert report["written"] == str(out / "b" / "c" / "three.jsonl")
    assert report["tokens_after"] < report["tokens_before"]
    assert open_session(report["written"]).boundaries
    with pytest.raises(StoreError, match="exists already"):
        compact_file(found, output=out, options={"keep": 2_000})


def test_a_session_is_never_written_over(folder: Path, content: bytes) -> None:
    for found in find_transcripts([folder]):
        with pytest.raises(StoreError, match="would be overwritten"):
            compact_file(found, output=folder, overwrite=True, options={"keep": 2_000})
        assert found.path.read_bytes() == content


def test_output_that_was_removed_is_made_again(folder: Path, tmp_path: Path) -> None:
    out, manifest = tmp_path / "out", tmp_path / "done"

    def task(found):
        return compact_file(found, output=out, options={"keep": 2_000})

    def run() -> list[str]:
        found = run_batch(task, find_transcripts([folder]), manifest=Manifest.open(manifest))
        return sorted(str(each.status) for each in found)

    assert run() == ["done"] * 3
    assert run() == ["kept"] * 3
    (out / "a.jsonl").unlink()
    assert run() == ["done", "kept", "kept"]
