"""Sessions of the Claude Agent SDK in a store, by the SDK's own conformance suite."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from ullage.exceptions import InvalidMessage
from ullage.stores import (
    AgentSessions,
    BucketStore,
    FolderStore,
    PostgresStore,
    RedisStore,
    SqliteStore,
)

KEY = {"project_key": "p" * 300, "session_id": "s/1"}


def emptied(postgres, number):
    """The address of a database of its own."""
    psycopg = pytest.importorskip("psycopg")
    with psycopg.connect(postgres.address, autocommit=True) as one:
        one.execute(f"CREATE DATABASE sessions{number}")
    return postgres.address.replace("/postgres", f"/sessions{number}")


@pytest.fixture(params=["folder", "sqlite", "postgres", "redis", "objects"])
def empty_store(request, tmp_path):
    """Makes a store that holds nothing."""
    server = (
        request.getfixturevalue(request.param) if request.param in ("postgres", "redis") else None
    )
    objects = pytest.importorskip("obstore.store") if request.param == "objects" else None
    kinds = {
        "folder": lambda number: FolderStore(tmp_path / number),
        "sqlite": lambda number: SqliteStore(tmp_path / number),
        "postgres": lambda number: PostgresStore(emptied(server, number)),
        "redis": lambda number: RedisStore(server.address, prefix=f"sessions{number}"),
        "objects": lambda number: BucketStore(objects.MemoryStore()),
    }
    return kinds[request.param]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_conformance_suite_of_the_sdk(empty_store):
    testing = pytest.importorskip("claude_agent_sdk.testing")
    numbers, made = itertools.count(), []

    def fresh():
        made.append(empty_store(str(next(numbers))))
        return AgentSessions(made[-1])

    asyncio.run(testing.run_session_store_conformance(fresh))
    assert len(made) > 5
    for each in made:
        each.close()


def test_two_processes_mirror_one_session(tmp_path):
    one, two = (AgentSessions(FolderStore(tmp_path)) for _ in range(2))
    lines = [{"type": "user", "uuid": f"u{n}", "n": n} for n in range(6)]

    async def work():
        await one.append(KEY, lines[:3])
        await two.append(KEY, lines[2:5])
        await one.append(KEY, lines[1:])
        return await two.load(KEY)

    assert asyncio.run(work()) == lines


def test_what_is_no_json_is_refused_whole(tmp_path):
    store = AgentSessions(FolderStore(tmp_path))
    with pytest.raises(InvalidMessage):
        asyncio.run(store.append(KEY, [{"type": "user"}, {"type": object()}]))
    assert asyncio.run(store.load(KEY)) is None
