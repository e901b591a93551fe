"""Every store does what `ullage.testing.stores` asks of one."""

from __future__ import annotations

import pytest

from ullage.stores import BucketStore, FolderStore, PostgresStore, RedisStore, SqliteStore
from ullage.testing.stores import STORE_CHECKS

checks = pytest.mark.parametrize("check", STORE_CHECKS, ids=lambda check: check.__name__)


@checks
def test_sqlite(check, tmp_path):
    check(lambda: SqliteStore(tmp_path / "fleet.db"))


@checks
def test_a_folder(check, tmp_path):
    check(lambda: FolderStore(tmp_path / "fleet"))


@checks
def test_postgres(check, postgres):
    check(lambda: PostgresStore(postgres.address))


@checks
def test_redis(check, redis):
    check(lambda: RedisStore(redis.address))


@checks
def test_objects_in_memory(check):
    shared = pytest.importorskip("obstore.store").MemoryStore()
    check(lambda: BucketStore(shared))


@checks
def test_objects_in_a_folder(check, tmp_path):
    pytest.importorskip("obstore")
    check(lambda: BucketStore(f"file://{tmp_path}"))


@checks
def test_objects_in_a_bucket(check, buckets, monkeypatch):
    for name, value in buckets.environment(buckets.port).items():
        monkeypatch.setenv(name, value)
    check(lambda: BucketStore(buckets.address))


@checks
def test_objects_in_an_emulated_bucket(check, bucket):
    pytest.importorskip("obstore")
    if check.__name__.startswith("of_appends"):
        pytest.skip("the emulator looks and writes in two steps")
    check(lambda: BucketStore(bucket))
