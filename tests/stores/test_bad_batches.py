"""Batches over what cannot be read, reached or written: a row with an error, or exit code 2 before anything is done."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.kit import report, ullage
from tests.kit.transcripts import Layout, session_file
from tests.stores.servers import free_port
from ullage.testing import scenario

pytest.importorskip("cyclopts")
pytest.importorskip("rich")
CHAT = b'{"role": "user", "content": "hi"}\n{"role": "assistant", "content": "hello"}\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    long = session_file(scenario(1, turns=12), layout=Layout()).to_bytes()
    for name, data in (
        ("claude.jsonl", long), ("chat.jsonl", CHAT), ("bad.jsonl", b"{no json"), ("empty.jsonl", b""),
    ):  # fmt: skip
        (folder / name).write_bytes(data)
    return folder


def refused(*command: object) -> str:
    """The error of a batch that did nothing: exit code 2."""
    done = ullage("batch", *map(str, command))
    assert (done.returncode, done.stdout) == (2, ""), done
    return done.stderr


def test_mixed_formats_and_unreadable_rows(folder):
    found = report("batch", "count", folder, code=1)
    said = {Path(each["file"]).name: each for each in found["files"]}
    assert said["claude.jsonl"]["format"] == "claude_code"
    assert said["chat.jsonl"]["format"] == "openai_chat"
    assert said["bad.jsonl"]["code"] == "invalid_transcript"
    assert "empty" in said["empty.jsonl"]["error"]
    assert (found["totals"]["done"], found["totals"]["failed"]) == (2, 2)


def test_a_disk_that_refuses_is_a_row_and_leaves_nothing_half_written(folder, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "claude.jsonl").mkdir()  # in the way of the file
    found = report("batch", "compact", folder, "-o", out, "--keep", "1000", code=1)
    said = {Path(each["file"]).name: each["status"] for each in found["files"]}
    assert said["claude.jsonl"] == "failed"
    left = {path.name for path in out.rglob("*") if path.is_file()}
    assert left <= {"chat.jsonl", "ullage-batch.jsonl.manifest"}


@pytest.mark.parametrize("place", ["no/table.parquet", "."])
def test_a_table_that_could_not_be_written_is_refused_before_the_work(folder, tmp_path, place):
    pytest.importorskip("pyarrow")
    said = refused("count", folder, "--table", tmp_path / place)
    assert str(tmp_path) in said
    assert list(tmp_path.iterdir()) == [folder]


def test_wrong_buckets(folder, bucket):
    pytest.importorskip("obstore")
    for command in (
        ("count", "s3://nothing/x"),
        ("compact", folder, "--keep", "1000", "--out", "s3://nothing/out"),
    ):
        assert "no such bucket" in refused(*command)
    assert "holds no transcript" in refused("count", "s3://fleet/empty-as-well")
    pytest.importorskip("pyarrow")
    assert "no such bucket" in refused("count", folder, "--table", "s3://nothing/t.parquet")


def test_a_server_that_is_not_there_and_no_credentials(folder, bucket, monkeypatch):
    pytest.importorskip("obstore")
    for name in ("AWS_ENDPOINT", "AWS_METADATA_ENDPOINT"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    assert "s3://fleet" in refused("count", "s3://fleet/x")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    assert "s3://fleet" in refused("compact", folder, "--out", "s3://fleet/out")


def test_an_engine_that_is_not_installed(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "daft", None)
    said = refused("count", folder, "--engine", "daft")
    assert "ullage[daft]" in said
