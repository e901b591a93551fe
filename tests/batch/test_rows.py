"""One transcript as one row, a table of them, files and objects: whatever goes wrong is in the row."""

from __future__ import annotations

import json
import pickle
from dataclasses import fields
from pathlib import Path

import pytest

from tests.kit import said, use, user
from tests.kit.transcripts import Layout, session_file
from ullage import Policy
from ullage.batch import (
    ACTIONS,
    BatchRow,
    Manifest,
    RowTask,
    Status,
    find_places,
    run_places,
    run_rows,
)
from ullage.batch.places import _fits
from ullage.exceptions import InvalidPolicy, MissingExtra
from ullage.sessions import open_session
from ullage.testing import scenario


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sessions")
    for seed, name in enumerate(("a/one.jsonl", "b/two.jsonl"), 1):
        path = folder / name
        path.parent.mkdir()
        path.write_bytes(session_file(scenario(seed, turns=8), layout=Layout()).to_bytes())
    (folder / "bad.jsonl").write_text("{no json")
    return folder


def plain(row: BatchRow) -> dict[str, object]:
    """Without what is different each time: ids and times."""
    return {each.name: getattr(row, each.name) for each in fields(row) if each.name != "output"}


@pytest.mark.parametrize("action", ACTIONS)
def test_a_file_and_its_contents_make_the_same_row(folder, action):
    path = folder / "a" / "one.jsonl"
    task = pickle.loads(pickle.dumps(RowTask(action=action, policy=Policy.ladder(), keep=2_000)))
    of_file, of_bytes = task.row(str(path)), task.row(str(path), content=path.read_bytes())
    assert plain(of_file) == plain(of_bytes)
    assert (of_file.error, of_file.format) == ("", "claude_code")
    assert of_file.freed == of_file.tokens_before - of_file.tokens_after
    assert json.loads(of_file.report)["messages" if action != "compact" else "bytes"] > 0
    assert (of_file.output is not None) is (action == "compact")


def test_what_was_compacted_can_be_opened_again(folder, tmp_path):
    path = folder / "a" / "one.jsonl"
    row = RowTask(action="compact", keep=2_000).row(str(path))
    again = tmp_path / "again.jsonl"
    again.write_bytes(row.output)
    found = open_session(again)
    assert len(found.boundaries) == 1
    assert str(path) in str(found.messages[0])  # where the whole conversation is
    assert "/tmp/ullage-" not in str(found.messages)


def test_a_legal_and_a_refused_transcript(folder):
    task = RowTask(action="validate")
    assert task.row(str(folder / "a" / "one.jsonl")).outcome == "legal"
    said_so = [said([use("t1")]), user("and now?"), said("nothing")]
    content = b"".join(
        json.dumps(
            {"type": each["role"], "uuid": f"{at}", "parentUuid": f"{at - 1}" if at else None,
             "sessionId": "s", "message": each}
        ).encode() + b"\n"
        for at, each in enumerate([user("hi"), *said_so])
    )  # fmt: skip
    row = task.row("refused.jsonl", content=content)
    assert row.outcome == "refused", row
    assert sum(json.loads(row.report)["rules"].values()) >= 1


@pytest.mark.parametrize(
    ("content", "said_of_it"),
    [
        (b"{no json", "no known format"),
        (b"", "empty"),
        (b"\xff\xfe\0", ""),
        (b'{"a": ' * 5_000, ""),
    ],
)
def test_a_poisoned_transcript_is_a_row(content, said_of_it):
    for action in ACTIONS:
        row = RowTask(action=action).row("x.jsonl", content=content)
        assert row.outcome == "failed"
        assert row.code
        assert said_of_it in row.error
        assert "/ullage-" not in row.error


def test_a_fault_of_ours_is_a_row(folder, monkeypatch):
    def broken(*given: object, **more: object) -> None:
        raise ZeroDivisionError("of ours")

    monkeypatch.setattr("ullage.batch.run.inspect_file", broken)
    row = RowTask(action="inspect").row(str(folder / "a" / "one.jsonl"))
    assert (row.outcome, row.error) == ("failed", "ZeroDivisionError: of ours")
    assert "report it" in row.hint


@pytest.mark.parametrize("relative", ["../out.jsonl", "/etc/out.jsonl"])
def test_a_row_cannot_lead_out_of_its_folder(folder, relative):
    content = (folder / "a" / "one.jsonl").read_bytes()
    row = RowTask(action="inspect").row("x", relative, content)
    assert "lead out" in row.error


def test_a_run_goes_on_where_it_was_killed(folder, tmp_path):
    task, name = RowTask(action="inspect"), "inspect"
    places = find_places([str(folder)])
    assert [each.relative for each in places] == ["a/one.jsonl", "b/two.jsonl", "bad.jsonl"]
    running = run_places(task, places, name=name, manifest=Manifest.open(tmp_path / "m"))
    first = next(running)
    running.close()
    again = list(run_places(task, places, name=name, manifest=Manifest.open(tmp_path / "m")))
    assert len(again) == 3
    kept = {done.path for done in again if done.status is Status.KEPT}
    assert first.path in kept or first.status is Status.FAILED
    failed = [done for done in again if done.status is Status.FAILED]
    assert [done.report["code"] for done in failed] == ["invalid_transcript"]


@pytest.mark.parametrize(
    ("glob", "fits", "not_"),
    [
        ("a/**/*.jsonl", ["a/x.jsonl", "a/b/c/x.jsonl"], ["b/x.jsonl", "a/x.json", "a/.jsonl/x"]),
        ("a/*/x.json*", ["a/b/x.json", "a/b/x.jsonl"], ["a/x.json", "a/b/c/x.json"]),
        ("[ab]?.jsonl", ["a1.jsonl"], ["c1.jsonl", "a/.jsonl", "a12.jsonl"]),
    ],
)
def test_patterns_of_addresses(glob, fits, not_):
    assert all(_fits(path.split("/"), glob.split("/")) for path in fits)
    assert not any(_fits(path.split("/"), glob.split("/")) for path in not_)


def test_engines_that_are_none():
    with pytest.raises(InvalidPolicy, match="engine"):
        run_rows([{"path": "x"}], RowTask(action="count"), engine="spark")  # type: ignore[arg-type]


def test_engines_that_are_not_installed(monkeypatch):
    import sys

    for name, extra in (("daft", "daft"), ("ray.data", "ray")):
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(MissingExtra) as told:
            list(run_rows([{"path": "x"}], RowTask(action="count"), engine=extra))  # type: ignore[arg-type]
        assert told.value.extra == extra
