"""A request's decisions on their way into the log and the store, and the process killed at each call to the system, for real."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.crash_kit import Killed, faulty
from ullage.exceptions import StoreError, UllageError
from ullage.facts.sections import OPENING
from ullage.manager import ContextManager
from ullage.policy import Policy
from ullage.recall.store import FileStore
from ullage.transcript import Transcript, TranscriptLog

MODEL = "claude-opus-4-5"
TEXT = "one line of a long output\n" * 4_000
POLICY = Policy.buffered().change(
    {
        "micro.by_supersession": False, "collapse.enabled": True, "collapse.stage_percent": 1,
        "collapse.commit_percent": 1, "collapse.target_percent": 1, "collapse.min_span_tokens": 300,
        "collapse.keep_recent_rounds": 2, "protect.tool_results": 1, "protect.user_inputs": 1,
        "micro.min_freed_tokens": 100,
    }
)  # fmt: skip


def written(path: Path) -> None:
    """Some rounds, and a call whose result is still to come."""
    with TranscriptLog.open(path) as log:
        for turn in range(6):
            call = {"type": "tool_use", "id": f"t{turn}", "name": "Bash", "input": {"command": "x"}}
            found = {"type": "tool_result", "tool_use_id": f"t{turn}", "content": "word " * 1_500}
            said = {"role": "assistant", "content": [{"type": "text", "text": f"Part {turn}."}]}
            log.append({"role": "user", "content": f"Look at part {turn}."})
            log.append({"role": "assistant", "content": [call]})
            log.extend([{"role": "user", "content": [found]}, said] if turn < 5 else [])


class Broken(FileStore):
    """A store on a full disk: the result is snipped instead."""

    def put(self, name: str, text: str, *, suffix: str = ".txt") -> str:
        raise StoreError("no space left on device")


def work(folder: Path, store: type[FileStore] = FileStore) -> Iterator[str]:
    """What a host does for a request; yields the name of each thing that is done."""
    result = {"type": "tool_result", "tool_use_id": "t5", "content": TEXT}
    with TranscriptLog.open(folder / "s.jsonl") as log:
        manager = ContextManager(model=MODEL, policy=POLICY, store=store(folder / "results"))
        for entry in log.resume().entries:
            manager.add(entry)
        manager.add(log.append({"role": "user", "content": [result]}))
        yield "added"
        request = manager.prepare()
        assert [report.stage for report in request.reports] == ["tool_budget", "collapse"]
        yield "prepared"
        for record in request.records:  # one by one or all at once: a line is a decision
            log.append(record)
            yield record["type"]
        log.sync()
        yield "told"


def seen(folder: Path) -> list[Any]:
    return Transcript.open(folder / "s.jsonl").messages()


def fresh(first: Path, folder: Path) -> Path:
    folder.mkdir()
    shutil.copy(first, folder / "s.jsonl")
    return folder


@pytest.fixture
def first(tmp_path: Path) -> Path:
    path = tmp_path / "first.jsonl"
    written(path)
    return path


@pytest.fixture
def views(first: Path, tmp_path: Path) -> set[str]:
    """The views before and after each thing, where nothing fails but perhaps the store; a reference says where the text lies."""
    found = set()
    for name, store in (("whole", FileStore), ("broken", Broken)):
        folder = fresh(first, tmp_path / name)
        found.add(named(folder))
        done = []
        for each in work(folder, store):
            done.append(each)
            found.add(named(folder))
        assert done[2] == "content-replacement"
        assert "collapse-commit" in done
        assert done[-2] == "collapse-snapshot"
    return found


def named(folder: Path) -> str:
    """The view, whatever the folder's name."""
    return json.dumps(seen(folder)).replace(str(folder), "FOLDER")


def assert_whole(folder: Path, views: set[str]) -> None:
    view = named(folder)
    assert view in views
    kept = FileStore(folder / "results").get("t5")
    assert kept in (None, TEXT)
    # What stands for a text is never there before the text is.
    assert "<persisted-output>" not in view or kept == TEXT
    # And another process goes on.
    with TranscriptLog.open(folder / "s.jsonl") as log:
        log.append({"role": "user", "content": "still here"})
    assert "still here" in json.dumps(seen(folder)[-1])


@pytest.mark.parametrize("kill", [False, True], ids=["fails", "killed"])
def test_at_every_call_to_the_system_the_view_is_as_before_or_as_after(
    first, views, tmp_path, kill
):
    at, done = 0, False
    while not done:
        at += 1
        folder = fresh(first, tmp_path / str(at))
        with faulty(at, kill=kill) as faults:
            try:
                for _ in work(folder):
                    pass
                done = faults.count < at
            except Killed:
                assert kill
            except UllageError:
                assert not kill
        assert_whole(folder, views)
    assert at > 12


# ---- for real, at every call that changes anything

CALLS = (
    "write", "pwrite64", "fsync", "fdatasync", "rename", "renameat", "renameat2", "mkdir", "mkdirat",
    "unlink", "unlinkat", "ftruncate", "openat",
)  # fmt: skip

CHILD = f"""
import os, runpy, sys
from pathlib import Path
kit = runpy.run_path({str(Path(__file__))!r})
folder = Path(sys.argv[1])
os.mkdir(folder / "begun")
for _ in kit["work"](folder):
    pass
compact = __import__("ullage").compact
with kit["TranscriptLog"].open(folder / "s.jsonl") as log:
    compact(log.resume().entries, log=log, keep=1_000)
os.mkdir(folder / "ended")
"""


def traced(folder: Path, trace: Path, *inject: str) -> list[str]:
    """Runs the child under strace; gives the calls in their order."""
    given = [
        "strace",
        "-f",
        "-qq",
        "-o",
        str(trace),
        "-e",
        f"trace={','.join(CALLS)}",
    ]
    for each in inject:
        given += ["-e", f"inject={each}"]
    subprocess.run(
        [*given, sys.executable, "-B", "-c", CHILD, str(folder)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60, check=False,
    )  # fmt: skip
    return trace.read_text().splitlines()


def can_trace() -> bool:
    if shutil.which("strace") is None:
        return False
    asked = [
        "strace",
        "-f",
        "-qq",
        "-o",
        "/dev/null",
        "-e",
        "inject=fsync:error=EIO",
        "true",
    ]
    return subprocess.run(asked, capture_output=True, timeout=20, check=False).returncode == 0


def places(lines: list[str]) -> Iterator[tuple[str, int]]:
    """Name and number of each call between the child's two marks; numbers are counted from the process's start."""
    counts: Counter[str] = Counter()
    inside = False
    for line in lines:
        found = re.match(r"\d+\s+(\w+)\(", line)
        if found is None:
            continue
        counts[found[1]] += 1
        inside = inside or "begun" in line
        if "ended" in line:
            return
        changes = found[1] != "openat" or "O_CREAT" in line
        if inside and changes and "begun" not in line:
            yield found[1], counts[found[1]]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("fault", ["signal=KILL", "error=ENOSPC"])
def test_a_process_under_strace(first, views, tmp_path, fault):
    if not can_trace():
        pytest.skip("no strace that may trace and inject")
    folder = fresh(first, tmp_path / "traced")
    wanted = list(places(traced(folder, tmp_path / "trace")))
    assert {"write", "fsync", "mkdir"} <= {name for name, _ in wanted}
    assert len(wanted) > 12
    hit = 0
    for at, (name, number) in enumerate(wanted):
        here = fresh(first, tmp_path / f"fault-{at}")
        lines = traced(here, tmp_path / f"trace-{at}", f"{name}:{fault}:when={number}")
        hit += any("killed by SIGKILL" in line or "INJECTED" in line for line in lines)
        compacted = OPENING in json.dumps(seen(here)[0])
        assert compacted >= (here / "ended").exists()
        if not compacted:
            assert_whole(here, views)
    assert hit == len(wanted)
