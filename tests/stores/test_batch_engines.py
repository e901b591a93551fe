"""The batch over Arrow, on Daft, from bucket to bucket."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from tests.kit import report
from tests.kit.transcripts import Layout, session_file
from ullage.batch import BatchRow, RowTask, find_places, process_rows, run_rows
from ullage.batch.run import arrow_schema
from ullage.exceptions import InvalidPolicy, StoreError
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


def test_a_table_in_and_out(folder):
    arrow = pytest.importorskip("pyarrow")
    path = folder / "a" / "one.jsonl"
    given = {
        "path": [str(path), str(folder / "bad.jsonl"), None, "named"],
        "content": [None, None, None, path.read_bytes()],
        "other": [1, 2, 3, 4],
    }
    done = process_rows(arrow.RecordBatch.from_pydict(given), RowTask(action="count"))
    assert done.schema == arrow_schema()
    rows = done.to_pylist()
    assert [row["outcome"] for row in rows] == ["done", "failed", "failed", "done"]
    assert rows[0]["tokens_before"] == rows[3]["tokens_before"] > 0
    assert rows[2]["error"] == "the row is empty"
    text = arrow.RecordBatch.from_pydict({"content": [path.read_text()]})
    assert process_rows(text, RowTask(action="count")).to_pylist()[0]["outcome"] == "done"
    with pytest.raises(InvalidPolicy, match="path or content"):
        process_rows(arrow.RecordBatch.from_pydict({"file": ["x"]}), RowTask(action="count"))


# Daft and Ray leave files of their processes to the collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("other", ["daft", "ray"])
@pytest.mark.parametrize("action", ["compact", "validate"])
@pytest.mark.timeout(400)  # Ray starts a cluster
def test_other_engines_find_what_threads_find(folder, tmp_path, monkeypatch, action, other):
    pytest.importorskip(other)
    # Seconds, 30 by default: two busy processors need more.
    monkeypatch.setenv("RAY_raylet_start_wait_time_s", "180")
    places = [{"path": each.path, "relative": each.relative} for each in find_places([str(folder)])]
    found = []
    for engine in ("threads", other):
        task = RowTask(action=action, output=str(tmp_path / "out"), keep=2_000, overwrite=True)
        rows = sorted(run_rows(places, task, engine=engine), key=lambda row: row.path)
        found.append([plain(row) for row in rows])
    assert found[0] == found[1]
    assert [row["outcome"] for row in found[0]][2] == "failed"


def test_from_bucket_to_bucket(folder, tmp_path, bucket):
    for name in ("obstore", "daft", "cyclopts", "rich"):
        pytest.importorskip(name)
    store = pytest.importorskip("obstore.store").from_url("s3://fleet")
    for name in ("a/one.jsonl", "b/two.jsonl", "bad.jsonl"):
        store.put(f"in/{name}", (folder / name).read_bytes())
    table = tmp_path / "report.parquet"
    command = (
        "batch", "compact", "s3://fleet/in/**/*.jsonl", "--out", "s3://fleet/out", "--engine", "daft",
        "--table", table, "--keep", "2000", "--manifest", tmp_path / "manifest",
    )  # fmt: skip
    assert report(*command, code=1)["totals"]["failed"] == 1
    again = report(*command, code=1)
    assert (again["totals"]["kept"], again["totals"]["done"]) == (2, 0)
    rows = pytest.importorskip("pyarrow.parquet").read_table(table).to_pylist()
    assert [row["outcome"] for row in rows] == ["compacted", "compacted", "failed"]
    assert rows[0]["written"] == "s3://fleet/out/a/one.jsonl"
    written = tmp_path / "one.jsonl"
    written.write_bytes(bytes(store.get("out/a/one.jsonl").bytes()))
    assert len(open_session(written).boundaries) == 1


def test_buckets_that_are_none(bucket):
    pytest.importorskip("obstore")
    for address, what in (
        ("s3://nothing/x", "no such bucket"),
        ("s3://fleet/empty-folder", "no transcript"),
    ):
        with pytest.raises(StoreError, match=what):
            find_places([address])
    with pytest.raises(InvalidPolicy, match="bucket"):
        find_places(["s3://"])
    row = RowTask(action="count").row("s3://fleet/nothing.jsonl")
    assert "does not exist" in row.error
