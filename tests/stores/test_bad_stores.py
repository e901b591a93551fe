"""Servers that are down, refuse, or hold something else: a typed error that says where, and never a password."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from random import Random

import pytest

from tests.stores.servers import free_port
from ullage.exceptions import MissingExtra, StoreError
from ullage.stores import BucketStore, PostgresStore, RedisStore, SqliteStore, open_store


@pytest.mark.parametrize(
    ("module", "address", "extra"),
    [
        ("psycopg", "postgresql://h/d", "postgres"),
        ("redis", "redis://h", "redis"),
        ("obstore", "s3://b", "objects"),
    ],
)
def test_a_library_that_is_not_installed(monkeypatch, module, address, extra):
    for name in [name for name in sys.modules if name.partition(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra) as told:
        open_store(address)
    assert told.value.extra == extra


def test_no_postgres_there():
    pytest.importorskip("psycopg")
    with pytest.raises(StoreError, match=r"127\.0\.0\.1") as told:
        PostgresStore(f"postgresql://me:secret@127.0.0.1:{free_port()}/fleet")
    assert "secret" not in str(told.value)
    with pytest.raises(StoreError, match="postgresql"):
        PostgresStore("postgresql://[broken")


def test_a_database_that_does_not_exist(postgres):
    with pytest.raises(StoreError, match="does not exist"):
        PostgresStore(postgres.address.replace("/postgres", "/nothing"))


def test_a_postgres_that_goes_down(postgres):
    store = PostgresStore(postgres.address, retry_seconds=0.2)
    end = store.append("down", b"one\n", at=0, write_id="w1")
    postgres.kill()
    try:
        with pytest.raises(StoreError):
            store.append("down", b"two\n", at=end, write_id="w2")
    finally:
        postgres.start()
    store.close()
    again = PostgresStore(postgres.address)
    assert again.append("down", b"two\n", at=end, write_id="w2") == 8
    assert again.read("down") == b"one\ntwo\n"
    again.close()


def test_tables_may_not_be_made(postgres):
    import psycopg

    with psycopg.connect(postgres.address, autocommit=True) as one:
        one.execute("CREATE DATABASE empty")
    with pytest.raises(StoreError, match="ullage_schema"):
        PostgresStore(postgres.address.replace("/postgres", "/empty"), create=False)


def test_no_redis_there():
    pytest.importorskip("redis")
    with pytest.raises(StoreError, match=r"127\.0\.0\.1") as told:
        RedisStore(f"redis://:secret@127.0.0.1:{free_port()}/0")
    assert "secret" not in str(told.value)
    with pytest.raises(StoreError):
        RedisStore("http://no")


def test_a_redis_that_goes_down(redis):
    store = RedisStore(redis.address, retry_seconds=0.2)
    end = store.append("down", b"one\n", at=0, write_id="w1")
    redis.kill()
    try:
        with pytest.raises(StoreError):
            store.append("down", b"two\n", at=end, write_id="w2")
    finally:
        redis.start()
    assert store.read("down") == b"one\n"  # it was on the disk
    assert store.append("down", b"two\n", at=end, write_id="w2") == 8
    store.close()


def test_no_such_bucket(bucket):
    pytest.importorskip("obstore")
    with pytest.raises(StoreError, match="s3://nothing"):
        BucketStore("s3://nothing/prefix")


def test_a_bucket_whose_server_goes_down(buckets, monkeypatch):
    for name, value in buckets.environment(buckets.port).items():
        monkeypatch.setenv(name, value)
    store = BucketStore(buckets.address)
    end = store.append("down", b"one\n", at=0, write_id="w1")
    buckets.kill()
    try:
        with pytest.raises(StoreError, match="s3://fleet"):
            store.append("down", b"two\n", at=end, write_id="w2")
    finally:
        buckets.start()
    assert store.read("down") == b"one\n"
    assert store.append("down", b"two\n", at=end, write_id="w2") == 8
    assert store.append("down", b"two\n", at=end, write_id="w2") == 8
    store.close()


def test_no_credentials(monkeypatch, bucket):
    pytest.importorskip("obstore")
    monkeypatch.setenv("AWS_ENDPOINT", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", f"http://127.0.0.1:{free_port()}")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(StoreError, match="s3://fleet"):
        BucketStore("s3://fleet")


def test_a_postgres_store_in_an_old_database(postgres):
    store = PostgresStore(postgres.address)
    store._run(lambda: _version("version + 1"))
    with pytest.raises(StoreError, match="version 2; this version of Ullage knows 1"):
        PostgresStore(postgres.address)
    store._run(lambda: _version("version - 1"))
    store.close()
    PostgresStore(postgres.address, create=False).close()


def _version(text):
    from ullage.stores.sql_store import SqlStatement

    yield SqlStatement(f"UPDATE ullage_schema SET version = {text}")


def test_a_damaged_sqlite_file_is_a_typed_error(tmp_path):
    path = tmp_path / "fleet.db"
    SqliteStore(path).close()
    whole, random, refused = path.read_bytes(), Random(7), 0
    for _ in range(150):
        damaged = bytearray(whole)
        at = random.randrange(100, 4_000)
        damaged[at : at + 40] = random.randbytes(40)
        path.write_bytes(damaged)
        try:
            with closing(SqliteStore(path)) as store:
                store.append("one", b"{}\n", at=0, write_id="w1")
        except StoreError:
            refused += 1
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
    assert refused > 10


@pytest.mark.parametrize("version", ["", "INSERT INTO ullage_schema VALUES (0)"])
def test_tables_without_their_version_are_refused_with_a_way_out(tmp_path, version):
    path = tmp_path / "fleet.db"
    SqliteStore(path).close()
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("DELETE FROM ullage_schema")
        database.execute(version)
    with pytest.raises(StoreError, match="already exists") as caught:
        SqliteStore(path)
    assert "INSERT INTO ullage_schema VALUES (1)" in caught.value.hint


def test_a_version_that_is_not_a_number(tmp_path):
    path = tmp_path / "fleet.db"
    SqliteStore(path).close()
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE ullage_schema SET version = 'new'")
    with pytest.raises(StoreError, match="not a number but 'new'"):
        SqliteStore(path)
