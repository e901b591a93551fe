"""Conversations in PostgreSQL without blocking the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any, Self, TypeVar

from ullage.exceptions import StoreError
from ullage.stores import sql_flows
from ullage.stores.postgres_store import POSTGRES, psycopg_module, without_password
from ullage.stores.retries import pauses
from ullage.stores.sql_schema import Row, Sql, SqlStatement, migrated
from ullage.stores.store_protocols import Lease

__all__ = ["AsyncPostgresStore"]

T = TypeVar("T")


class AsyncPostgresStore:
    """An `AsyncLogStore` on the tables of `PostgresStore`, by psycopg 3; opened by `await AsyncPostgresStore.open(address)`.

    Args:
        pool: An open pool of psycopg.
        place: For errors.
        retry_seconds: How long a lost server is waited for.
    """

    def __init__(self, pool: object, *, place: str, retry_seconds: float = 30) -> None:
        self._pool: Any = pool
        self.place, self._retry = place, retry_seconds
        self._psycopg: Any = psycopg_module("psycopg")

    @classmethod
    async def open(
        cls,
        address: str,
        *,
        create: bool = True,
        connections: int = 4,
        retry_seconds: float = 30,
    ) -> Self:
        """Opens a store; the arguments and errors are those of `PostgresStore`.

        Raises:
            MissingExtra, StoreError: See `PostgresStore`.
        """
        psycopg, place = psycopg_module("psycopg"), without_password(address)
        try:
            one = await psycopg.AsyncConnection.connect(address, connect_timeout=10)
            await one.close()
        except psycopg.Error as exc:
            raise StoreError(str(exc).strip().split("\n")[0], path=place) from exc
        pool = psycopg_module("psycopg_pool").AsyncConnectionPool(
            address,
            min_size=1,
            max_size=connections,
            timeout=min(10, max(1, retry_seconds)),
            kwargs={"autocommit": True},
            open=False,
        )
        made = cls(pool, place=place, retry_seconds=retry_seconds)
        await pool.open()
        try:
            await made._run(lambda: migrated(POSTGRES, place, create=create))
        except BaseException:
            await made.close()
            raise
        return made

    def __repr__(self) -> str:
        return f"AsyncPostgresStore({self.place!r})"

    async def close(self) -> None:
        """Closes all connections."""
        await self._pool.close()

    async def _run(self, make: Callable[[], Sql[T]]) -> T:
        try:
            for pause in pauses(self._retry):
                try:
                    return await self._once(make())
                except self._psycopg.OperationalError:
                    await asyncio.sleep(pause)
            return await self._once(make())
        except self._psycopg.Error as exc:
            raise StoreError(str(exc).strip().split("\n")[0], path=self.place) from exc

    async def _once(self, flow: Sql[T]) -> T:
        async with AsyncExitStack() as opened:
            connection = await opened.enter_async_context(self._pool.connection())
            cursor = await opened.enter_async_context(connection.cursor())
            whole = True
            try:
                statement: SqlStatement = next(flow)
                while True:
                    if whole and not statement.alone:
                        await opened.enter_async_context(connection.transaction())
                        whole = False
                    await cursor.execute(POSTGRES.written(statement.text), statement.values)
                    rows: list[Row] = await cursor.fetchall() if cursor.description else []
                    statement = flow.send(rows)
            except StopIteration as stop:
                made: T = stop.value
        return made

    # ---- the store ---------------------------------------------------------------------------

    async def read(self, conversation: str, start: int = 0) -> bytes:
        """See `LogStore.read`."""
        return await self._run(lambda: sql_flows.read(conversation, start))

    async def end(self, conversation: str) -> int:
        """See `LogStore.end`."""
        return await self._run(lambda: sql_flows.end(conversation))

    async def append(
        self, conversation: str, data: bytes, *, at: int, write_id: str, lease: Lease | None = None
    ) -> int:
        """See `LogStore.append`."""
        return await self._run(
            lambda: sql_flows.append(
                conversation, data, at=at, write_id=write_id, lease=lease, at_once=True
            )
        )

    async def acquire(self, conversation: str, owner: str, seconds: float) -> Lease:
        """See `LeaseStore.acquire`."""
        return await self._run(lambda: sql_flows.acquire(conversation, owner, seconds))

    async def renew(self, lease: Lease, seconds: float) -> Lease:
        """See `LeaseStore.renew`."""
        return await self._run(lambda: sql_flows.renew(lease, seconds))

    async def release(self, lease: Lease) -> None:
        """See `LeaseStore.release`."""
        await self._run(lambda: sql_flows.release(lease))
