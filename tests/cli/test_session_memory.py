"""`ullage session-memory` and `ullage compact --session-memory` as a user meets them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.kit import report, ullage

pytest.importorskip("cyclopts")
pytest.importorskip("rich")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo")
    done = ullage("demo", "--seed", "3", "--size", "60000", "--directory", folder)
    assert done.returncode == 0, done.stderr
    return folder / "session-3.jsonl"


@pytest.fixture
def session(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(made, tmp_path))


def test_update_show_and_compact(session, tmp_path):
    assert report("session-memory", "show", session, code=1)["exists"] is False
    updated = report("session-memory", "update", session)
    notes = tmp_path / "session-3" / "session-memory" / "summary.md"
    assert updated["outcome"] == "updated"
    assert updated["path"] == str(notes)
    shown = report("session-memory", "show", session)
    assert shown["text"] == notes.read_text()
    assert len(shown["sections"]) == 10
    assert (
        shown["absorbed_messages"] == updated["absorbed_messages"] == shown["absorbable_messages"]
    )
    assert shown["covered"] == updated["covered"]
    assert report("session-memory", "update", session)["reason"] == "nothing new"
    out = tmp_path / "out.jsonl"
    compacted = report("compact", "--session-memory", session, "--output", out)
    assert compacted["summarizer"] == "session_memory"
    # The log keeps its lines: thinking that is bound to what was summarised is repaired where the context is read.
    found = report("validate", out, code=1)
    assert {each["rule"] for each in found["violations"]} == {"A15"}
    assert found["left"] == []
    sent = ullage("resume", out, "--lines").stdout.splitlines()[0]
    assert "# Current State" in sent


def test_without_notes_a_summary_is_written_and_it_is_said_why(session):
    found = report("compact", "--session-memory", session, "--dry-run")
    assert found["summarizer"] == "extractive"
    assert "session_memory_passed:no_memory" in found["warnings"]


def test_another_folder(session, tmp_path):
    folder = tmp_path / "elsewhere"
    report("session-memory", "update", session, "--folder", folder)
    assert (folder / "summary.md").exists()
    found = report("compact", session, "--memory-folder", folder, "--dry-run")
    assert found["summarizer"] == "session_memory"


def test_for_a_user(session):
    done = ullage("session-memory", "show", session)
    assert done.returncode == 1
    assert "there are no notes" in done.stdout
    assert "updated" in ullage("session-memory", "update", session).stdout
    shown = ullage("session-memory", "show", session).stdout
    assert "# Current State" in shown
    assert "tokens of 12,000; they cover" in shown


def test_bad_input_is_reported_without_a_traceback(session, tmp_path):
    done = ullage("session-memory", "update", tmp_path / "no.jsonl")
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    (tmp_path / "session-3").symlink_to(tmp_path)
    found = report("session-memory", "update", session, code=1)
    assert "link" in found["reason"]
    shown = ullage("session-memory", "show", session)
    assert shown.returncode != 0
    assert "Traceback" not in shown.stderr
