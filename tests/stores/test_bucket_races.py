"""What other workers do to a bucket between two requests of one call."""

from __future__ import annotations

from datetime import timedelta

import pytest

from ullage.exceptions import LogConflict, StoreError
from ullage.stores import BucketStore, bucket_store


@pytest.fixture
def stores():
    shared = pytest.importorskip("obstore.store").MemoryStore()
    made = [BucketStore(shared) for _ in range(2)]
    yield made
    for each in made:
        each.close()


def test_versions_that_were_saved_meanwhile_refuse_the_late_one(stores, monkeypatch):
    slow, quick = stores
    version = slow.save("c", "state", b"0", after=0)
    create = slow._created

    def late(path, data):
        for number in range(version, version + 4):
            quick.save("c", "state", b"%d" % number, after=number)
        return create(path, data)

    monkeypatch.setattr(slow, "_created", late)
    with pytest.raises(LogConflict):
        slow.save("c", "state", b"late", after=version)
    assert slow.load("c", "state").data == b"4"


def test_a_save_that_took_too_long_is_not_called_saved(stores, monkeypatch):
    times = iter([0, 301_000])
    monkeypatch.setattr(bucket_store, "now_in_ms", lambda: next(times))
    with pytest.raises(StoreError, match="took too long") as told:
        stores[0].save("c", "state", b"0", after=0)
    assert "load it again" in told.value.hint


def test_old_versions_go(stores, monkeypatch):
    for number in range(4):
        stores[0].save("c", "state", b"%d" % number, after=number)
    monkeypatch.setattr(bucket_store, "_OLDER_VERSIONS_STAY", timedelta(seconds=-1))
    monkeypatch.setattr(bucket_store, "now_in_ms", lambda: 0)
    with pytest.raises(StoreError):
        stores[0].save("c", "state", b"4", after=4)
    monkeypatch.setattr(bucket_store, "_OLDER_VERSIONS_STAY", timedelta(0))
    stores[0].save("c", "state", b"5", after=5)
    left = [each["path"][-1] for each in stores[0]._under("documents/c.c")]
    assert sorted(left) == ["5", "6"]
