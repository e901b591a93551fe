"""Workers on one conversation: leases, deliveries, what a block that fails leaves, what comes back from memory."""

from __future__ import annotations

import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.kit import result, said, use, user
from ullage import compact
from ullage.exceptions import InvalidPolicy, LeaseExpired, LeaseHeld, LogConflict, StoreError
from ullage.stores import FolderStore, SharedSummaries, SqliteStore, Worker, open_store
from ullage.stores.sql_store import MIGRATIONS
from ullage.stores.stored_log import StoredLog
from ullage.summarizers import SummaryReply, SummaryRequest
from ullage.testing import ScriptedSummarizer
from ullage.transcript import Transcript, TranscriptLog

MODEL = "claude-opus-4-5"


@pytest.fixture
def store(tmp_path):
    made = SqliteStore(tmp_path / "fleet.db")
    yield made
    made.close()


@pytest.fixture
def workers(store):
    made = [Worker(store, model=MODEL) for _ in range(2)]
    yield made
    for each in made:
        each.close()


def test_the_log_is_what_a_file_would_hold(tmp_path, store):
    options = {"ids": iter(map(str, range(99))).__next__, "clock": lambda: 0}
    envelope = {"sessionId": "s"}
    with TranscriptLog.open(tmp_path / "s.jsonl", envelope=envelope, **options) as log:
        log.extend([user("hi"), said("hello")])
    options["ids"] = iter(map(str, range(99))).__next__
    log = TranscriptLog(StoredLog(store, "s", b""), envelope=envelope, **options)
    log.extend([user("hi"), said("hello")])
    assert store.read("s") == (tmp_path / "s.jsonl").read_bytes()
    assert Transcript.from_bytes(store.read("s")).messages() == [user("hi"), said("hello")]


def test_a_compaction_is_installed_in_a_stored_log(store):
    log = TranscriptLog(StoredLog(store, "s", b""))
    for number in range(12):
        log.extend([user(f"question {number} " * 30), said(f"answer {number} " * 30)])
    done = compact(log.resume().entries, keep=200, log=log)
    again = TranscriptLog(StoredLog(store, "s", store.read("s"))).resume().messages
    assert done.report.removed
    assert len(again) == 2
    assert again[-1] == said("answer 11 " * 30)


def test_what_a_worker_decided_is_what_the_next_goes_on_with(workers):
    text = "one line of a long output\n" * 4_000
    with workers[0].checkout("c") as held:
        for item in (user("go"), said([use("t1", "Bash")]), user([result("t1", text)])):
            held.add(item)
        first = held.manager.prepare().messages
    with workers[1].checkout("c") as held:
        assert held.manager.messages == first
        assert held.manager.recall.get("t1").text == text
    assert len(str(first)) < len(text)


def test_a_manager_is_used_again_if_nobody_else_wrote(workers, store):
    with workers[0].checkout("c") as held:
        held.add(user("one"))
        manager = held.manager
    with workers[0].checkout("c") as held:
        assert held.manager is manager
    with workers[1].checkout("c") as held:
        held.add(said("two"))
    with workers[0].checkout("c") as held:
        assert held.manager is not manager
        assert list(held.manager.history) == [user("one"), said("two")]


def test_one_thread_at_a_time(workers):
    with workers[0].checkout("c"):
        for each in workers:
            with pytest.raises(LeaseHeld, match="'c' is held"), each.checkout("c"):
                pass
    with workers[1].checkout("c"):
        pass


def test_a_worker_waits_for_another(workers):
    inside, waited = threading.Event(), []

    def hold():
        with workers[0].checkout("c") as held:
            inside.set()
            time.sleep(0.2)
            held.add(user("one"))

    thread = threading.Thread(target=hold)
    thread.start()
    inside.wait(10)
    with workers[1].checkout("c", wait_seconds=20) as held:
        waited += held.manager.history
    thread.join()
    assert waited == [user("one")]


def test_a_block_that_raises_leaves_what_was_written_or_nothing(workers, store):
    for at_end, kept in ((False, [user("one")]), (True, [])):
        name = f"c{at_end}"
        with pytest.raises(ZeroDivisionError), workers[0].checkout(name, at_end=at_end) as held:  # noqa: PT012
            held.add(user("one"))
            raise ZeroDivisionError
        assert bool(store.end(name)) is not at_end
        with workers[1].checkout(name) as held:
            assert list(held.manager.history) == kept


def test_a_worker_that_slept_cannot_write(store):
    old, new = Worker(store, model=MODEL, lease_seconds=1), Worker(store, model=MODEL)
    old._keep = lambda lease: None  # its process stands still
    with pytest.raises(LeaseExpired), old.checkout("c") as slow:  # noqa: PT012
        slow.add(user("one"))
        with new.checkout("c", wait_seconds=20) as held:
            held.add(said("two"))
            slow.add(user("late"))
    with new.checkout("c") as held:
        assert list(held.manager.history) == [user("one"), said("two")]
    new.close()


def test_a_lease_is_renewed_while_a_model_is_called(store, monkeypatch):
    renewed, renew = threading.Semaphore(0), store.renew

    def counted(lease, seconds):
        made = renew(lease, seconds)
        renewed.release()
        return made

    monkeypatch.setattr(store, "renew", counted)
    one, two = (Worker(store, model=MODEL, lease_seconds=2) for _ in range(2))
    with one.checkout("c") as held:
        for _ in range(4):  # longer than the lease
            assert renewed.acquire(timeout=30)
        with pytest.raises(LeaseHeld), two.checkout("c"):
            pass
        held.add(user("one"))
    one.close()


def test_a_response_is_asked_for_once(workers):
    calls = []
    for each in (*workers, *workers):
        with each.checkout("c") as held:
            held.add(user("hi"), key="d1")
            if not held.has("d1/answer"):
                calls.append(held.manager.prepare())
                assert held.observe(said("hello"), key="d1/answer")
            assert not held.observe(said("hello"), key="d1/answer")
            assert held.answered
    assert len(calls) == 1


def test_given_back_is_given_back(workers):
    with workers[0].checkout("c") as held:
        pass
    with pytest.raises(LogConflict, match="was released"):
        held.add(user("late"))


# ---- bad input -------------------------------------------------------------------------------


def test_a_new_conversation_needs_a_model(store):
    with (
        Worker(store) as worker,
        pytest.raises(InvalidPolicy, match="model"),
        worker.checkout("c"),
    ):
        pass
    assert store.end("c") == 0
    store.acquire("c", "another", 1)  # it was given back


def test_numbers_out_of_range(store):
    for wrong in ({"lease_seconds": 0}, {"most_kept": -1}):
        with pytest.raises(InvalidPolicy, match=next(iter(wrong))):
            Worker(store, model=MODEL, **wrong)


@pytest.mark.parametrize("address", ["", "ftp://host/x", "nothing:here"])
def test_an_address_of_nothing(address):
    with pytest.raises(InvalidPolicy, match="store"):
        open_store(address)


def test_addresses(tmp_path):
    assert isinstance(open_store(str(tmp_path / "fleet")), FolderStore)
    made = open_store(f"sqlite:{tmp_path / 'fleet.db'}")
    assert isinstance(made, SqliteStore)
    made.close()
    with pytest.raises(StoreError, match="closed"):
        made.read("c")


def test_tables_of_another_version(tmp_path):
    path = tmp_path / "fleet.db"
    made = SqliteStore(path)
    made.append("c", b"one\n", at=0, write_id="w")
    made._connection.execute("UPDATE ullage_schema SET version = version + 1")
    made.close()
    with pytest.raises(StoreError, match="version 2; this version of Ullage knows 1") as told:
        SqliteStore(path)
    assert "later version" in told.value.hint


def test_tables_are_brought_up_to_date(tmp_path, monkeypatch):
    path = tmp_path / "fleet.db"
    made = SqliteStore(path)
    made.append("c", b"one\n", at=0, write_id="w")
    made.close()
    step = ("CREATE TABLE ullage_more (name TEXT)", "INSERT INTO ullage_more VALUES ('x')")
    steps = (*MIGRATIONS, step)
    monkeypatch.setattr("ullage.stores.sql_store.MIGRATIONS", steps)
    with pytest.raises(StoreError, match="have version 1") as told:
        SqliteStore(path, create=False)
    assert "create=True" in told.value.hint
    for _ in range(2):
        made = SqliteStore(path)
        assert made.read("c") == b"one\n"
        assert made._connection.execute("SELECT count(*) FROM ullage_more").fetchall() == [(1,)]
        made.close()


def test_a_migration_that_fails_changes_nothing(tmp_path, monkeypatch):
    path = tmp_path / "fleet.db"
    SqliteStore(path).close()
    steps = (*MIGRATIONS, ("CREATE TABLE ullage_more (name TEXT)", "SELECT 1 FROM nowhere"))
    with monkeypatch.context() as patch:
        patch.setattr("ullage.stores.sql_store.MIGRATIONS", steps)
        with pytest.raises(StoreError, match="nowhere"):
            SqliteStore(path)
    made = SqliteStore(path)
    found = made._connection.execute("SELECT name FROM sqlite_master WHERE name = 'ullage_more'")
    assert found.fetchall() == []
    made.close()


@pytest.mark.parametrize("what", ["text", "missing folder", "folder"])
def test_no_database(tmp_path, what):
    path = tmp_path / "x.db"
    if what == "text":
        path.write_text("no database at all " * 100)
    elif what == "folder":
        path.mkdir()
    else:
        path = path / "y.db"
    with pytest.raises(StoreError, match=r"x\.db"):
        SqliteStore(path)
    with pytest.raises(StoreError, match=r"no such|x\.db"):
        SqliteStore(tmp_path / "missing.db", create=False)


def test_a_folder_whose_last_line_is_cut_off(tmp_path):
    store = FolderStore(tmp_path)
    with Worker(store, model=MODEL) as worker:
        with worker.checkout("c") as held:
            held.add(user("one"))
        path = tmp_path / "conversations" / "c.c" / "log.jsonl"
        with path.open("ab") as file:
            file.write(b'{"type":"us')
        for text in ("two", "three"):
            with worker.checkout("c") as held:
                held.add(user(text))
        with worker.checkout("c") as held:
            texts = [item["content"] for item in held.manager.history]
    assert texts == ["one", "two", "three"]
    with Worker(store) as worker, worker.checkout("c") as held:
        assert [item["content"] for item in held.manager.history] == texts


def test_a_blob_that_was_changed(tmp_path):
    store = FolderStore(tmp_path)
    digest = store.put_blob("c", b"text")
    (tmp_path / "blobs" / digest).write_bytes(b"more")
    with pytest.raises(StoreError, match="do not match its digest"):
        store.blob(digest)
    assert store.blob("../../etc/passwd") is None


def test_a_lock_that_was_removed_with_its_conversation_keeps_nobody_out(tmp_path):
    """Whoever waited for it takes the one that stands there now."""
    store, held, most = FolderStore(tmp_path), list[int](), list[int]()

    def work(number: int) -> None:
        for _ in range(60):
            with store._locked("c"):
                held.append(number)
                most.append(len(held))
                time.sleep(0.0005)
                held.remove(number)
            if not number:
                store.forget("c")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert max(most) == 1


def test_what_is_refused_begins_no_conversation(tmp_path):
    store = FolderStore(tmp_path)
    lease = store.acquire("c", "one", 60)
    store.forget("c")
    store.release(lease)
    with pytest.raises(LeaseExpired):
        store.renew(lease, 60)
    with pytest.raises(LogConflict):
        store.append("c", b"x\n", at=5, write_id="w")
    with pytest.raises(LogConflict):
        store.save("c", "state", b"x", after=5)
    assert list(store.conversations()) == []


# ---- a summary that one worker writes and another installs ----------------------------------


def test_a_compaction_that_another_worker_computed(store):
    model = ScriptedSummarizer("good")

    def of(name):
        return {"summarizer": SharedSummaries(model, store, name)}

    busy, idle = (Worker(store, model=MODEL, of=of) for _ in range(2))
    with busy.checkout("c") as held:
        for number in range(10):
            held.add(user(f"question {number} " * 400))
            held.add(said(f"answer {number} " * 400))
        at = held.manager.entries()[12]["uuid"]
    before = store.read("c")
    with busy.checkout("c") as held:
        first = idle.copy("c").compact("numbers", direction="up_to", at=at)
        assert store.read("c") == before  # a copy writes nothing
        held.add(user("one more"))
        calls = len(model.requests)
        second = held.manager.compact("numbers", direction="up_to", at=at)
        assert len(model.requests) == calls > 0
        summary = held.manager.messages[0]
    assert first.compacted
    assert second.compacted
    with idle.checkout("c") as held:
        assert held.manager.messages[0] == summary
        assert held.manager.messages[-1] == user("one more")
    for each in (busy, idle):
        each.close()


def test_a_refusal_is_not_kept(store):
    replies = [SummaryReply(text="", refused=True), SummaryReply(text="good")]
    shared = SharedSummaries(lambda request: replies.pop(0), store, "c")
    request = SummaryRequest(messages=[user("hi")], prompt="sum up")
    found = [shared.summarize(request) for _ in range(3)]
    assert [each.text for each in found] == ["", "good", "good"]
    assert shared.calls == 2


def test_opening_waits_for_who_writes_the_first_page(tmp_path):
    """SQLite answers at once, whatever its timeout, where two connections turn the write-ahead log on."""
    path = tmp_path / "fleet.db"
    first = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    first.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="locked"):
        SqliteStore(path, wait_seconds=0.1)
    ends = threading.Timer(0.3, first.execute, ["ROLLBACK"])
    ends.start()
    SqliteStore(path).close()
    ends.join()
    first.close()
