"""`ullage batch` as a user meets it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.kit import result_of, ullage
from tests.kit.transcripts import Layout, session_file
from ullage.batch import run_batch
from ullage.testing import scenario

pytest.importorskip("cyclopts")
pytest.importorskip("rich")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sessions")
    for seed, name in enumerate(("one.jsonl", "two.jsonl"), 1):
        path = folder / "project" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(session_file(scenario(seed, turns=12), layout=Layout()).to_bytes())
    return folder


def test_inspect_in_words_and_as_json(folder: Path) -> None:
    done = ullage("batch", "inspect", folder)
    assert done.returncode == 0, done.stderr
    assert "one.jsonl" in done.stdout
    assert "2 files: 2 done\ntotal: " in done.stdout
    found = result_of(ullage("batch", "inspect", folder, "--json"))
    assert [Path(each["file"]).name for each in found["files"]] == ["one.jsonl", "two.jsonl"]
    assert found["totals"]["done"] == 2
    assert found["totals"]["tokens"] == sum(each["tokens"] for each in found["files"])


def test_compact_goes_on_where_it_stopped(folder: Path, tmp_path: Path) -> None:
    command = ("compact", folder, "-o", tmp_path, "--keep", "2000", "--json")
    first = result_of(ullage("batch", *command))
    assert first["totals"]["done"] == 2
    assert (tmp_path / "project" / "one.jsonl").is_file()
    second = result_of(ullage("batch", *command))
    assert second["totals"] == {**first["totals"], "done": 0, "kept": 2}
    # Other settings are another task; the files of the first stand in the way.
    other = ullage("batch", "compact", folder, "-o", tmp_path, "--keep", "1000", "--json")
    assert other.returncode == 1
    assert result_of(other)["totals"]["failed"] == 2


@pytest.mark.parametrize(
    ("words", "workers"), [(["count"], 2), (["validate"], 1), (["validate", "-w", "3"], 3)]
)
def test_one_thread_where_two_are_slower(folder, monkeypatch, capsys, words, workers) -> None:
    from ullage.cli import batch, main

    asked = []

    def noted(*args, **options):
        asked.append(options["workers"])
        return run_batch(*args, **options)

    monkeypatch.setattr(batch, "run_batch", noted)
    assert main(["batch", *words, str(folder), "--json"]) == 0
    assert asked == [workers]


@pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_asked_to_end_goes_on_without_failures(folder, tmp_path, stop) -> None:
    content, many, out = (
        (folder / "project" / "one.jsonl").read_bytes(),
        tmp_path / "in",
        tmp_path / "out",
    )
    many.mkdir()
    for number in range(120):
        (many / f"{number:03}.jsonl").write_bytes(content)
    command = [
        sys.executable,
        "-m",
        "ullage",
        "batch",
        "compact",
        many,
        "-o",
        out,
        "--keep",
        "2000",
    ]
    # A shell's background job ignores SIGINT, and so would what it starts.
    run = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    deadline = time.monotonic() + 60
    while len(list(out.glob("*.jsonl"))) < 10 and time.monotonic() < deadline:
        time.sleep(0.005)
    run.send_signal(stop)
    _, errors = run.communicate(timeout=60)
    assert run.returncode == 130
    assert "the same command continues from there" in errors
    assert len(list(out.glob("*.jsonl"))) < 120, "it ended before it was interrupted"
    again = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert again.returncode == 0, again.stderr
    assert len(list(out.glob("*.jsonl"))) == 120
    assert not list(out.glob("*.part"))


KILL = "lambda *given: os.kill(os.getpid(), signal.SIGKILL)"


@pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")
@pytest.mark.parametrize("written", [0, 1])
def test_a_run_that_is_killed_where_it_writes_goes_on_without_failures(folder, tmp_path, written):
    # Before its draft becomes the file, or right after that.
    point = ("drafts.Path.replace", "drafts.sync_folder")[written]
    program = f"import os, signal\nfrom ullage.sessions import save as drafts\nfrom ullage.cli import main\n{point} = {KILL}\nmain()"
    command = ["batch", "compact", folder, "-o", tmp_path, "--keep", "2000", "--workers", "1"]
    run = subprocess.run([sys.executable, "-c", program, *command], capture_output=True)
    assert run.returncode == -signal.SIGKILL, run.stderr
    assert len(list(tmp_path.rglob("*.jsonl"))) == written
    again = result_of(ullage(*command, "--json"))
    assert (again["totals"]["kept"], again["totals"]["done"]) == (written, 2 - written)
    assert len(list(tmp_path.rglob("*.jsonl"))) == 2
    assert not list(tmp_path.rglob("*.part"))


def test_a_bad_file_is_reported_and_the_others_are_done(folder: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text('{"x"')
    done = ullage("batch", "inspect", folder, bad)
    assert done.returncode == 1
    assert "failed: " in done.stderr
    assert "bad.json" in done.stderr
    assert "3 files: 2 done, 1 failed" in done.stdout


def test_wrong_words_are_refused(tmp_path: Path) -> None:
    for words in (("inspect",), ("inspect", tmp_path / "none"), ("melt", tmp_path)):
        done = ullage("batch", *words)
        assert done.returncode == 2
        assert "Traceback" not in done.stderr
    empty = ullage("batch", "inspect", tmp_path)
    assert (empty.returncode, empty.stdout) == (0, "0 files: nothing to do\n")
