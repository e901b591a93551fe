"""Search over all sessions: what is found, what is read again, and what a damaged index does."""

from __future__ import annotations

import json
import sqlite3
import stat

import pytest

from tests.kit import report, ullage
from tests.machine_kit import IDS, Machine, claude_lines, lines
from ullage.exceptions import InvalidPolicy, StoreError
from ullage.sessions import found_sessions
from ullage.sessions.search_index import SearchIndex


@pytest.fixture
def machine(tmp_path, monkeypatch):
    return Machine(tmp_path, monkeypatch).fill().stored(database=True)


@pytest.fixture
def index(machine):
    with SearchIndex() as made:
        assert made.update() == {}
        yield made


def add(path, text, uuid="new"):
    last = json.loads(path.read_text().splitlines()[-1])
    more = {"type": "user", "uuid": uuid, "parentUuid": last.get("uuid"), "sessionId": "s"}
    with path.open("a") as file:
        file.write(json.dumps({**more, "message": {"role": "user", "content": text}}) + "\n")


def read_lately(index, sessions=None):
    count = []
    index.update(sessions, step=count.append)
    return len(count)


def test_words_are_found_in_the_sessions_of_every_tool(index):
    found = index.search("parser drops", most=20)
    assert {each.tool for each in found} == set(IDS)
    assert all(each.hits and len(each.hits) <= 3 for each in found)
    assert {each.title for each in found} >= {"Fix the parser", "Rows at the end"}


def test_all_words_count_before_any_and_phrases_stay_together(machine, index):
    add(machine.files["claude-code"], "the zebra crossed")
    add(machine.files["claude-code"], "crossed by a zebra", uuid="n2")
    index.update()
    assert len(index.search("zebra crossed")[0].hits) == 2
    (only,) = index.search('"zebra crossed"')
    assert [hit.text for hit in only.hits] == ["the zebra crossed"]
    assert index.search("zebra nowhereatall")[0].id == IDS["claude-code"]
    assert index.search("nowhereatall") == []


def test_calls_and_results_are_found_by_who_said_them(index):
    (found,) = index.search("file_2", tool="claude-code")
    assert found.hits[0].who == "call"
    found = index.search("Done with 1", tool="codex")[0]
    assert found.hits[0].who == "assistant"


def test_only_what_changed_is_read_again(machine, index):
    assert read_lately(index) == 0
    rows = index._store.execute("SELECT count(*) FROM part").fetchone()[0]
    add(machine.files["claude-code"], "a quokka")
    assert read_lately(index) == 1
    assert index._store.execute("SELECT count(*) FROM part").fetchone()[0] == rows + 1
    assert index.search("quokka")[0].id == IDS["claude-code"]


def test_a_file_that_was_rewritten_is_read_whole(machine, index):
    path = machine.files["claude-code"]
    lines(path, [{**claude_lines("s", "/w", turns=1)[0], "uuid": "other"}])
    assert read_lately(index) == 1
    assert index.search("parser", tool="claude-code", hits=50)[0].hits[0].position == 0
    assert len(index.search("parser", tool="claude-code", hits=50)[0].hits) == 1


def test_a_session_that_was_deleted_is_forgotten(machine, index):
    machine.files["codex"].unlink()
    index.update()
    assert index.search("parser", tool="codex") == []
    assert index._store.execute("SELECT count(*) FROM words").fetchone()[0] > 0


def test_a_file_that_cannot_be_read_is_reported_and_the_others_are_found(machine, index):
    bad = machine.home / "claude" / "projects" / "-w" / "bad.jsonl"
    bad.parent.mkdir(parents=True)
    bad.write_bytes(b"")
    assert list(index.update()) == [str(bad)]
    assert index.search("parser")


@pytest.mark.parametrize(
    "words", ["parser AND", "NEAR(parser", "parser*", "(parser)", "body:parser", "-parser", "^parser", 'par"ser', "parser\0", "parser \ud800"]
)  # fmt: skip
def test_nothing_that_a_user_types_is_read_as_an_expression(index, words):
    index.search(words)


@pytest.mark.parametrize("words", ["", "  ", '""', "*** --"])
def test_words_without_a_word_are_refused(index, words):
    with pytest.raises(InvalidPolicy, match="no word"):
        index.search(words)


def test_odd_text_is_stored(machine, index):
    add(machine.files["claude-code"], "wombat \ud800 \0 " + "x" * 500_000)
    index.update()
    assert index.search("wombat")


def test_the_index_is_its_owners_and_is_built_again_if_damaged(machine, index):
    path = machine.home / "state" / "search.db"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    index.close()
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    path.write_bytes(b"no database at all, but long enough to be looked at as one" * 40)
    with SearchIndex() as again:
        assert again.search("parser") == []
        again.update()
        assert again.search("parser")


def test_an_index_of_another_version_is_built_again(machine, index):
    index._store.execute("PRAGMA user_version = 99")
    index.close()
    with SearchIndex() as again:
        assert read_lately(again) == len(found_sessions())


def test_a_place_that_cannot_be_written_is_named(machine, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be made"):
        SearchIndex(tmp_path / "file" / "search.db")


def test_two_processes_may_update_at_once(machine, index):
    other = SearchIndex()
    try:
        for at in range(5):
            add(machine.files["claude-code"], f"round{at}", uuid=f"n{at}")
            index.update()
            other.update()
        hits = other.search("round4", hits=50)[0].hits
        assert len(hits) == 1
    finally:
        other.close()


def test_a_locked_index_is_an_error_with_a_name(machine, index, monkeypatch):
    monkeypatch.setattr("ullage.sessions.search_index._BUSY_SECONDS", 0.05)
    locked = sqlite3.connect(index.path)
    locked.execute("BEGIN EXCLUSIVE")
    add(machine.files["claude-code"], "more")
    try:
        with SearchIndex() as other, pytest.raises(StoreError, match="locked"):
            other.update()
    finally:
        locked.close()


def test_the_command(machine):
    pytest.importorskip("cyclopts")
    done = ullage("search", "parser", "drops")
    assert done.returncode == 0, done.stderr
    assert IDS["codex"] in done.stdout
    assert ullage("search", "nowhereatall").returncode == 1
    found = report("search", "parser", "--tool", "codex", "--hits", "1")
    assert [each["id"] for each in found["sessions"]] == [IDS["codex"]]
    assert len(found["sessions"][0]["hits"]) == 1
    done = ullage("search")
    assert done.returncode == 2
