"""Conversations in PostgreSQL: workers on any number of machines."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, TypeVar

from ullage.exceptions import MissingExtra, StoreError
from ullage.stores.retries import persist
from ullage.stores.sql_schema import Row, Sql, SqlDialect, SqlStatement, migrated
from ullage.stores.sql_store import SqlStore

__all__ = ["POSTGRES", "PostgresStore", "psycopg_module", "without_password"]

T = TypeVar("T")

POSTGRES = SqlDialect(
    now="(extract(epoch from clock_timestamp()) * 1000)::bigint",
    blob="BYTEA",
    mark="%s",
    alone="SELECT pg_advisory_xact_lock(7235414725941)",  # a number of its own
)


def psycopg_module(name: str) -> Any:
    """A module of psycopg.

    Raises:
        MissingExtra: It is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as exc:
        raise MissingExtra(name, "postgres") from exc


def without_password(address: str) -> str:
    """Where a database is, for errors and logs."""
    info = psycopg_module("psycopg.conninfo")
    try:
        given = info.conninfo_to_dict(address)
    except psycopg_module("psycopg").Error:
        return "postgresql"
    return f"postgresql://{given.get('host', '')}/{given.get('dbname', '')}"


class PostgresStore(SqlStore):
    """A `ConversationStore` in PostgreSQL 12 or later, by psycopg 3; see there for what the methods do.

    Each write is committed when it returns, as durable as the server's `synchronous_commit` makes it. A lost connection is made
    again, and the transaction with it.

    Args:
        address: A connection string or `postgresql://` address; what it lacks comes from the environment (`PGHOST`, `PGPASSWORD`, …).
        create: Whether tables are made, and tables of an older version changed.
        connections: At most so many at a time, one for each thread that is at work.
        retry_seconds: How long a lost server is waited for.

    Raises:
        MissingExtra: psycopg is not installed.
        StoreError: The server cannot be reached, refuses, or a later version of Ullage made the tables.
    """

    def __init__(
        self,
        address: str,
        *,
        create: bool = True,
        connections: int = 4,
        retry_seconds: float = 30,
    ) -> None:
        self._psycopg: Any = psycopg_module("psycopg")
        self.place = without_password(address)
        self._retry = retry_seconds
        # A pool says only that it got no connection; this says why.
        try:
            self._psycopg.connect(address, connect_timeout=10).close()
        except self._psycopg.Error as exc:
            raise self._error(exc) from exc
        self._pool: Any = psycopg_module("psycopg_pool").ConnectionPool(
            address,
            min_size=1,
            max_size=connections,
            timeout=min(10, max(1, retry_seconds)),
            kwargs={"autocommit": True},
            open=True,
        )
        try:
            self._run(lambda: migrated(POSTGRES, self.place, create=create))
        except BaseException:
            self.close()
            raise

    _at_once = True

    def __repr__(self) -> str:
        return f"PostgresStore({self.place!r})"

    def close(self) -> None:
        """See `ConversationStore.close`."""
        self._pool.close()

    def _run(self, make: Callable[[], Sql[T]]) -> T:
        # Lost connections and deadlocks are of this class, and so is a pool that is out of connections.
        lost = (self._psycopg.OperationalError,)
        try:
            return persist(lambda: self._once(make()), lost, self._retry)
        except self._psycopg.Error as exc:
            raise self._error(exc) from exc

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
                made: T = stop.value
        return made

    def _error(self, exc: Exception) -> StoreError:
        return StoreError(str(exc).strip().split("\n")[0], path=self.place)
