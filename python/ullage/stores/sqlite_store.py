"""Conversations in one SQLite database: many threads and processes of one machine."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from ullage.exceptions import StoreError
from ullage.stores.sql_store import Row, Sql, SqlDialect, SqlStatement, SqlStore, migrated

T = TypeVar("T")

_PAUSE = 0.01

_DIALECT = SqlDialect(
    now="CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)", blob="BLOB", mark="?"
)


def _use_wal(connection: sqlite3.Connection, wait_seconds: float) -> None:
    """Turn the write-ahead log on, waiting for others: SQLite's own timeout does not cover this change."""
    end = time.monotonic() + wait_seconds
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as exc:
            if exc.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() >= end:
                raise
            time.sleep(_PAUSE)
        else:
            return


def _hint(error: Exception) -> str:
    if str(error).startswith("table ullage_") and str(error).endswith("already exists"):
        return "ullage_schema lacks the version of the tables: INSERT INTO ullage_schema VALUES (1), or use a copy"
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    damaged = code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
    if damaged or isinstance(error, UnicodeDecodeError):
        return "the file is damaged: use a copy, or what the sqlite3 shell's .recover finds in it"
    return ""


class SqliteStore(SqlStore):
    r"""A `ConversationStore` in a file; see there for what the methods do.

    Each write is on the disk when it returns (write-ahead log, `synchronous=FULL`).

    Args:
        path: The database; its folder must exist. Not on a network drive, where SQLite's locks do not hold.
        create: Whether the database and its tables are made, and tables of an older version changed.
        wait_seconds: Longest wait for another process that writes.

    Raises:
        StoreError: It cannot be opened, is no database, or a later version of Ullage made it.

    Example:
        >>> import tempfile
        >>> store = SqliteStore(tempfile.mkdtemp() + "/fleet.db")
        >>> store.append("one", b"{}\n", at=0, write_id="w1")
        3
        >>> store.append("one", b"{}\n", at=0, write_id="w1")
        3
        >>> store.read("one")
        b'{}\n'
        >>> store.close()
    """

    def __init__(
        self, path: str | os.PathLike[str], *, create: bool = True, wait_seconds: float = 30
    ) -> None:
        self.path = os.fspath(path)
        self._one = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        try:
            self._connection = self._opened(create=create, wait_seconds=wait_seconds)
            self._run(lambda: migrated(_DIALECT, self.path, create=create))
        except BaseException as exc:
            self.close()
            if isinstance(exc, StoreError):
                raise
            if isinstance(exc, sqlite3.Error | OSError | UnicodeDecodeError):
                raise StoreError(str(exc), path=self.path, hint=_hint(exc)) from exc
            raise

    def _opened(self, *, create: bool, wait_seconds: float) -> sqlite3.Connection:
        if create and not Path(self.path).exists():
            # As private as the conversations in it.
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
        elif not Path(self.path).exists():
            raise StoreError("there is no such database", path=self.path)
        connection = sqlite3.connect(
            self.path, timeout=wait_seconds, isolation_level=None, check_same_thread=False
        )
        try:
            _use_wal(connection, wait_seconds)
            connection.execute("PRAGMA synchronous=FULL")
        except BaseException:
            connection.close()
            raise
        return connection

    def __repr__(self) -> str:
        return f"SqliteStore({self.path!r})"

    def close(self) -> None:
        """See `ConversationStore.close`."""
        with self._one:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    def _run(self, make: Callable[[], Sql[T]]) -> T:
        """One transaction: whole, or nothing of it."""
        with self._one:
            connection = self._connection
            if connection is None:
                raise StoreError("the store is closed", path=self.path)
            try:
                connection.execute("BEGIN IMMEDIATE")
                result = self._steps(connection, make())
                connection.execute("COMMIT")
            except BaseException as exc:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                # With a damaged schema the module may fail to decode the database's own error.
                if isinstance(exc, sqlite3.Error | UnicodeDecodeError):
                    raise StoreError(str(exc), path=self.path, hint=_hint(exc)) from exc
                raise
            return result

    def _steps(self, connection: sqlite3.Connection, flow: Sql[T]) -> T:
        try:
            statement: SqlStatement = next(flow)
            while True:
                text = _DIALECT.written(statement.text)
                rows: list[Row] = connection.execute(text, statement.values).fetchall()
                statement = flow.send(rows)
        except StopIteration as stop:
            result: T = stop.value
            return result
