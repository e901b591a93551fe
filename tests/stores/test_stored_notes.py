"""Session notes that workers share: taken by one, used and continued by another, never lost to a second updater."""

from __future__ import annotations

import pytest

from tests.kit import said, user
from ullage.exceptions import LogConflict, StoreError
from ullage.memory.session import SessionMemory
from ullage.memory.session.notes_folder import MAX_BYTES, NOTES
from ullage.stores import FolderStore, SqliteStore, StoredNotes, Worker, stored_log as module

MODEL = "claude-opus-4-5"


@pytest.fixture(params=["folder", "sqlite"])
def store(request, tmp_path):
    made = FolderStore(tmp_path) if request.param == "folder" else SqliteStore(tmp_path / "f.db")
    yield made
    made.close()


def memory(store, **options):
    return SessionMemory(StoredNotes(store, "c"), session_id="c", mode="inline", **options)


def talk(count, length=1):
    return [
        item
        for number in range(count)
        for item in (
            user(f"Please look at file_{number}.py. Never touch config_{number}.toml."),
            said(f"I looked at file_{number}.py: it reads the settings. " * length),
        )
    ]


def test_one_worker_takes_notes_and_another_compacts_with_them(store):
    def of(name):
        return {"memory": memory(store)}

    one, two = (Worker(store, model=MODEL, of=of, most_kept=0) for _ in range(2))
    with one.checkout("c") as held:
        for item in talk(12, length=300):
            held.add(item)
        assert memory(store).update(held.manager.messages).outcome.value == "updated"
    with two.checkout("c") as held:
        done = held.manager.compact()
        assert done.compacted
        assert done.report.summarizer == "session_memory", done.report
        assert "config_3.toml" in str(held.manager.messages[0])
    for each in (one, two):
        each.close()


def test_an_update_goes_on_where_another_worker_stopped(store):
    items = talk(4)
    assert memory(store).update(items).outcome.value == "updated"
    first = memory(store).notes()
    assert memory(store).update(items).reason == "nothing new"
    assert memory(store).update([*items, user("Never push to main.")]).outcome.value == "updated"
    assert memory(store).notes() != first
    assert StoredNotes(store, "c").read_bytes("previous.md") == first.encode()


def test_two_at_a_time(store, monkeypatch):
    place = StoredNotes(store, "c", busy_seconds=60)
    lock = place.lock()
    assert StoredNotes(store, "c").busy_seconds() < 60
    assert memory(store).update(talk(1)).outcome.value == "busy"
    with pytest.raises(LogConflict, match="another update"):
        StoredNotes(store, "c").lock()
    # Its worker died; or did it?
    now = module.now_in_ms()
    monkeypatch.setattr(module, "now_in_ms", lambda: now + 61_000)
    assert StoredNotes(store, "c").busy_seconds() is None
    assert memory(store).update(talk(1)).outcome.value == "updated"
    assert not place.commit("late", based_on="", lock=lock)
    with pytest.raises(LogConflict):
        place.save(b"{}", lock=lock)
    lock.release()
    assert "late" not in memory(store).notes()
    with pytest.raises(LogConflict, match="stuck"):
        place.commit("late", based_on="", lock=lock)


def test_notes_that_cannot_be_read(store):
    store.save("c", "notes/summary.md", b"\xff\xfe", after=0)
    with pytest.raises(StoreError, match="UTF-8"):
        memory(store).notes()
    assert memory(store).update(talk(1)).outcome.value == "failed"
    store.save("c", "notes/summary.md", b"x" * (MAX_BYTES + 1), after=1)
    with pytest.raises(StoreError, match="at most"):
        StoredNotes(store, "c").read_bytes(NOTES)


def test_a_template_and_the_end(store):
    store.save("c", "notes/config/template.md", b"# Goals\n_What we want._\n", after=0)
    memory(store).update(talk(2))
    assert memory(store).notes().startswith("# Goals")
    store.forget("c")
    assert memory(store).notes() == ""
