"""Conversations in PostgreSQL, for workers on any number of machines."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import AsyncExitStack, ExitStack
from typing import Any, ParamSpec, Self, TypeVar

from ullage.exceptions import MissingExtra, StoreError
from ullage.stores import sql_store as sql_flows
from ullage.stores.sql_store import Row, Sql, SqlDialect, SqlStatement, SqlStore, migrated
from ullage.stores.store_protocols import Lease, apersist, persist

T = TypeVar("T")
P = ParamSpec("P")

POSTGRES = SqlDialect(
    now="(extract(epoch from clock_timestamp()) * 1000)::bigint",
    blob="BYTEA",
    mark="%s",
    alone="SELECT pg_advisory_xact_lock(7235414725941)",  # a number of its own
)


def psycopg_module(name: str) -> Any:
    """A module of psycopg; `MissingExtra`: it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError as exc:
        raise MissingExtra(name, "postgres") from exc


def without_password(address: str) -> str:
    """A database's address, for errors and logs."""
    info = psycopg_module("psycopg.conninfo")
    try:
        parts = info.conninfo_to_dict(address)
    except psycopg_module("psycopg").Error:
        return "postgresql"
    return f"postgresql://{parts.get('host', '')}/{parts.get('dbname', '')}"


class PostgresStore(SqlStore):
    """A `ConversationStore` in PostgreSQL 12 or later, with psycopg 3.

    Each write is committed when it returns, as durable as the server's `synchronous_commit` makes it. After a lost
    connection the transaction is repeated.

    Args:
        address: A connection string or `postgresql://` address; missing parts come from the environment (`PGHOST`, `PGPASSWORD`, …).
        create: Whether to create tables, and to migrate those of an older version.
        connections: Maximum connections, one per working thread.
        retry_seconds: How long a lost server is waited for.

    Raises:
        MissingExtra: psycopg is not installed.
        StoreError: The server cannot be reached, refuses, or a later version of Ullage made the tables.
    """

    def __init__(
        self, address: str, *, create: bool = True, connections: int = 4, retry_seconds: float = 30
    ) -> None:
        self._psycopg: Any = psycopg_module("psycopg")
        self.place, self._retry = without_password(address), retry_seconds
        # A pool reports only that it got no connection; this reports why.
        try:
            self._psycopg.connect(address, connect_timeout=10).close()
        except self._psycopg.Error as exc:
            raise _store_error(exc, self.place) from exc
        self._pool: Any = psycopg_module("psycopg_pool").ConnectionPool(
            address, open=True, **_pool_options(connections, retry_seconds)
        )
        try:
            self._run(migrated, POSTGRES, self.place, create=create)
        except BaseException:
            self.close()
            raise

    _at_once = True

    def __repr__(self) -> str:
        return f"PostgresStore({self.place!r})"

    def close(self) -> None:
        """See `ConversationStore.close`."""
        self._pool.close()

    def _run(self, flow: Callable[P, Sql[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        # Lost connections, deadlocks and an exhausted pool are of this class.
        lost = (self._psycopg.OperationalError,)
        try:
            return persist(lambda: self._once(flow(*args, **kwargs)), lost, self._retry)
        except self._psycopg.Error as exc:
            raise _store_error(exc, self.place) from exc

    def _once(self, flow: Sql[T]) -> T:
        with ExitStack() as opened:
            connection = opened.enter_context(self._pool.connection())
            cursor = opened.enter_context(connection.cursor())
            whole = True
            try:
                statement: SqlStatement = next(flow)
                while True:
                    if whole and not statement.alone:
                        opened.enter_context(connection.transaction())
                        whole = False
                    cursor.execute(POSTGRES.written(statement.text), statement.values)
                    rows: list[Row] = cursor.fetchall() if cursor.description else []
                    statement = flow.send(rows)
            except StopIteration as stop:
                result: T = stop.value
        return result


def _pool_options(connections: int, retry_seconds: float) -> dict[str, Any]:
    return {
        "min_size": 1,
        "max_size": connections,
        "timeout": min(10, max(1, retry_seconds)),
        "kwargs": {"autocommit": True},
    }


def _store_error(exc: Exception, place: str) -> StoreError:
    return StoreError(str(exc).strip().split("\n")[0], path=place)


class AsyncPostgresStore:
    """An `AsyncLogStore` on the tables of `PostgresStore`, with psycopg 3; open one with `await AsyncPostgresStore.open(address)`.

    Args:
        pool: An open psycopg pool.
        place: For errors.
        retry_seconds: How long a lost server is waited for.
    """

    def __init__(self, pool: object, *, place: str, retry_seconds: float = 30) -> None:
        self._pool: Any = pool
        self.place, self._retry = place, retry_seconds
        self._psycopg: Any = psycopg_module("psycopg")

    @classmethod
    async def open(
        cls, address: str, *, create: bool = True, connections: int = 4, retry_seconds: float = 30
    ) -> Self:
        """Open a store, with the arguments and errors of `PostgresStore`.

        Raises:
            MissingExtra, StoreError: See `PostgresStore`.
        """
        psycopg, place = psycopg_module("psycopg"), without_password(address)
        try:
            one = await psycopg.AsyncConnection.connect(address, connect_timeout=10)
            await one.close()
        except psycopg.Error as exc:
            raise _store_error(exc, place) from exc
        pool = psycopg_module("psycopg_pool").AsyncConnectionPool(
            address, open=False, **_pool_options(connections, retry_seconds)
        )
        store = cls(pool, place=place, retry_seconds=retry_seconds)
        await pool.open()
        try:
            await store._run(migrated, POSTGRES, place, create=create)
        except BaseException:
            await store.close()
            raise
        return store

    def __repr__(self) -> str:
        return f"AsyncPostgresStore({self.place!r})"

    async def close(self) -> None:
        """Closes all connections."""
        await self._pool.close()

    async def _run(self, flow: Callable[P, Sql[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        lost = (self._psycopg.OperationalError,)
        try:
            return await apersist(lambda: self._once(flow(*args, **kwargs)), lost, self._retry)
        except self._psycopg.Error as exc:
            raise _store_error(exc, self.place) from exc

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
                result: T = stop.value
        return result

    async def read(self, conversation: str, start: int = 0) -> bytes:
        """See `LogStore.read`."""
        return await self._run(sql_flows.read, conversation, start)

    async def end(self, conversation: str) -> int:
        """See `LogStore.end`."""
        return await self._run(sql_flows.end, conversation)

    async def append(
        self, conversation: str, data: bytes, *, at: int, write_id: str, lease: Lease | None = None
    ) -> int:
        """See `LogStore.append`."""
        append = sql_flows.append
        return await self._run(
            append, conversation, data, at=at, write_id=write_id, lease=lease, at_once=True
        )

    async def acquire(self, conversation: str, owner: str, seconds: float) -> Lease:
        """See `LogStore.acquire`."""
        return await self._run(sql_flows.acquire, conversation, owner, seconds)

    async def renew(self, lease: Lease, seconds: float) -> Lease:
        """See `LogStore.renew`."""
        return await self._run(sql_flows.renew, lease, seconds)

    async def release(self, lease: Lease) -> None:
        """See `LogStore.release`."""
        await self._run(sql_flows.release, lease)
