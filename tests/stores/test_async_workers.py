"""Workers in an event loop, on PostgreSQL."""

from __future__ import annotations

import asyncio

import pytest

from tests.kit import said, user
from tests.stores.servers import free_port
from ullage.exceptions import LeaseExpired, LeaseHeld, LogConflict, StoreError
from ullage.stores import AsyncPostgresStore, AsyncWorker, PostgresStore, Worker

MODEL = "claude-opus-4-5"


def run(postgres, work):
    async def whole():
        store = await AsyncPostgresStore.open(postgres.address)
        try:
            await work(store)
        finally:
            await store.close()

    asyncio.run(whole())


def test_a_worker_in_a_loop_and_one_on_a_thread_share_a_conversation(postgres):
    async def work(store):
        worker = AsyncWorker(store, model=MODEL)
        async with worker.checkout("shared") as held:
            assert held.add(user("one"), key="d1")
            await held.manager.aprepare()
            await held.commit()
            assert held.observe(said("two"), key="a1")
        async with worker.checkout("shared") as held:
            assert not held.add(user("one"), key="d1")

    run(postgres, work)
    store = PostgresStore(postgres.address)
    with Worker(store) as worker, worker.checkout("shared") as held:
        assert list(held.manager.history) == [user("one"), said("two")]
        assert held.has("a1")
    store.close()


def test_a_block_that_raises_keeps_what_it_committed(postgres):
    async def work(store):
        worker = AsyncWorker(store, model=MODEL)
        with pytest.raises(ZeroDivisionError):  # noqa: PT012
            async with worker.checkout("raises") as held:
                held.add(user("one"))
                await held.commit()
                held.add(said("two"))
                raise ZeroDivisionError
        async with worker.checkout("raises") as held:
            assert list(held.manager.history) == [user("one")]

    run(postgres, work)


def test_one_task_at_a_time(postgres):
    async def work(store):
        workers = [AsyncWorker(store, model=MODEL) for _ in range(2)]
        async with workers[0].checkout("busy") as held:
            held.add(user("one"))
            for each in workers:
                with pytest.raises(LeaseHeld):
                    async with each.checkout("busy"):
                        pass
            waiting = asyncio.create_task(_added(workers[1]))
            await asyncio.sleep(0.1)
        assert await waiting == [user("one")]

    async def _added(worker):
        async with worker.checkout("busy", wait_seconds=20) as held:
            return list(held.manager.history)

    run(postgres, work)


def test_who_lost_the_lease_cannot_write(postgres):
    async def work(store):
        one, two = (AsyncWorker(store, model=MODEL) for _ in range(2))
        with pytest.raises(LeaseExpired):  # noqa: PT012
            async with one.checkout("lost") as held:
                held.add(user("late"))
                await store.release(held._log.lease)
                async with two.checkout("lost") as other:
                    other.add(user("first"))
        async with two.checkout("lost") as held:
            assert list(held.manager.history) == [user("first")]
        with pytest.raises(LogConflict):
            await store.append("lost", b"x\n", at=0, write_id="w")

    run(postgres, work)


def test_no_server_there():
    pytest.importorskip("psycopg")
    with pytest.raises(StoreError, match=r"127\.0\.0\.1"):
        asyncio.run(AsyncPostgresStore.open(f"postgresql://127.0.0.1:{free_port()}/x"))
