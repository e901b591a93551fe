"""Conversations in SQLite, or in PostgreSQL for workers on any number of machines: each method of a store runs one flow of statements as one transaction."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import threading
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator
from contextlib import AsyncExitStack, ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ParamSpec, Self, TypeAlias, TypeVar

from ullage._start import extra_module
from ullage.effects import adrive, drive
from ullage.exceptions import LeaseExpired, LeaseHeld, StoreError
from ullage.stores.store_protocols import (
    Lease,
    StoredDocument,
    apersist,
    checked_blob,
    checked_name,
    document_conflict,
    log_conflict,
    persist,
)

T = TypeVar("T")
P = ParamSpec("P")

Value: TypeAlias = str | int | bytes
Row: TypeAlias = tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class SqlStatement:
    """One statement."""

    # With `?` for each value, `{now}` for milliseconds since the epoch and `{blob}` for the type of bytes.
    text: str
    values: tuple[Value, ...] = ()  # one per `?`
    # Complete by itself, without a transaction, which takes one round trip instead of three.
    alone: bool = False


Sql: TypeAlias = Generator[SqlStatement, list[Row], T]
"""Statements that stand alone, then one transaction: yields them and receives their rows."""


@dataclass(frozen=True, slots=True)
class SqlDialect:
    """What differs between databases."""

    now: str  # its clock, in milliseconds since the epoch
    blob: str  # its type of bytes
    mark: str  # its placeholder for a value
    # A statement that keeps others from migrating at the same time; empty: every transaction does.
    alone: str = ""

    def written(self, text: str) -> str:
        """A statement in this dialect."""
        return text.replace("{now}", self.now).replace("{blob}", self.blob).replace("?", self.mark)


MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE ullage_logs (conversation TEXT PRIMARY KEY, bytes BIGINT NOT NULL,
           token BIGINT NOT NULL, owner TEXT NOT NULL, until_ms BIGINT NOT NULL)""",
        """CREATE TABLE ullage_chunks (conversation TEXT NOT NULL, start BIGINT NOT NULL,
           write_id TEXT NOT NULL, data {blob} NOT NULL, PRIMARY KEY (conversation, start))""",
        """CREATE TABLE ullage_documents (conversation TEXT NOT NULL, name TEXT NOT NULL,
           version BIGINT NOT NULL, write_id TEXT NOT NULL, data {blob} NOT NULL,
           PRIMARY KEY (conversation, name))""",
        """CREATE TABLE ullage_blobs (digest TEXT PRIMARY KEY, stored_ms BIGINT NOT NULL,
           data {blob} NOT NULL)""",
        """CREATE TABLE ullage_references (digest TEXT NOT NULL, conversation TEXT NOT NULL,
           PRIMARY KEY (digest, conversation))""",
        "CREATE INDEX ullage_references_of ON ullage_references (conversation)",
    ),
)
"""Each step is applied once, in order, and never edited: a change is a new step."""


def migrated(dialect: SqlDialect, place: str, *, create: bool) -> Sql[int]:
    """Migrate a database, called `place` in errors, to the newest version of its tables, which is returned.

    Without `create` it must have that version. `StoreError`: it has not, or a later version of Ullage made it.
    """
    steps = MIGRATIONS
    if dialect.alone:
        yield SqlStatement(dialect.alone)
    if create:
        yield SqlStatement("CREATE TABLE IF NOT EXISTS ullage_schema (version BIGINT NOT NULL)")
    versions = yield SqlStatement("SELECT max(version) FROM ullage_schema")
    version = versions[0][0] or 0
    if not isinstance(version, int):
        raise StoreError(f"the version of its tables is not a number but {version!r}", path=place)
    if version > len(steps):
        raise StoreError(
            f"its tables have version {version}; this version of Ullage knows {len(steps)}",
            path=place,
            hint="a later version of Ullage made them: use that version",
        )
    if version < len(steps) and not create:
        raise StoreError(
            f"its tables have version {version}; this version of Ullage needs {len(steps)}",
            path=place,
            hint="open it once with create=True, as a role that may change tables",
        )
    for text in (text for step in steps[version:] for text in step):
        yield SqlStatement(text)
    if version < len(steps):
        yield SqlStatement("INSERT INTO ullage_schema VALUES (?)", (len(steps),))
    return len(steps)


# What the asynchronous store does, too: generators of statements, run in one transaction unless they stand alone.


def _begin_log(conversation: str) -> SqlStatement:
    # Tokens start at the current time, so that a forgotten conversation's are invalid for its successor.
    return SqlStatement(
        "INSERT INTO ullage_logs (conversation, bytes, token, owner, until_ms) VALUES (?, 0, ?, '', 0)"
        " ON CONFLICT (conversation) DO NOTHING",
        (checked_name(conversation), time.time_ns()),
    )


def read(conversation: str, start: int = 0) -> Sql[bytes]:
    """See `LogStore.read`."""
    rows = yield SqlStatement(
        "SELECT data FROM ullage_chunks WHERE conversation = ? AND start >= ? ORDER BY start",
        (checked_name(conversation), start),
        alone=True,
    )
    return b"".join(map(_bytes, rows))


def end(conversation: str) -> Sql[int]:
    """See `LogStore.end`."""
    rows = yield SqlStatement(
        "SELECT bytes FROM ullage_logs WHERE conversation = ?",
        (checked_name(conversation),),
        alone=True,
    )
    return int(rows[0][0]) if rows else 0


_GROW = (
    "UPDATE ullage_logs SET bytes = bytes + ? WHERE conversation = ? AND bytes = ?"
    " AND (token = ? OR ? < 0) RETURNING bytes"
)
_GROW_AND_WRITE = f"""WITH grown AS ({_GROW}),
    written AS (INSERT INTO ullage_chunks (conversation, start, write_id, data) SELECT ?, ?, ?, ? FROM grown)
    SELECT bytes FROM grown"""  # noqa: S608 - constants


def append(
    conversation: str,
    data: bytes,
    *,
    at: int,
    write_id: str,
    lease: Lease | None = None,
    at_once: bool = False,
) -> Sql[int]:
    """See `LogStore.append`; `at_once`: the database changes two tables in one statement."""
    token = -1 if lease is None else lease.token
    place = (len(data), checked_name(conversation), at, token, token)
    chunk = (conversation, at, write_id, data)
    if at_once:
        rows = yield SqlStatement(_GROW_AND_WRITE, (*place, *chunk), alone=True)
        if rows:
            return int(rows[0][0])
    if at == 0:
        yield _begin_log(conversation)
    rows = yield SqlStatement(_GROW, place)
    if rows:
        yield SqlStatement(
            "INSERT INTO ullage_chunks (conversation, start, write_id, data) VALUES (?, ?, ?, ?)",
            chunk,
        )
        return int(rows[0][0])
    written = yield SqlStatement(
        "SELECT write_id FROM ullage_chunks WHERE conversation = ? AND start = ?",
        (conversation, at),
    )
    if written and written[0][0] == write_id:
        return at + len(data)
    rows = yield SqlStatement(
        "SELECT bytes, token FROM ullage_logs WHERE conversation = ?", (conversation,)
    )
    bytes_now, token = (int(rows[0][0]), int(rows[0][1])) if rows else (0, 0)
    if lease is not None and lease.token != token:
        raise LeaseExpired(conversation, lease.owner)
    raise log_conflict(conversation, bytes_now, at)


def acquire(conversation: str, owner: str, seconds: float) -> Sql[Lease]:
    """See `LogStore.acquire`."""
    take = SqlStatement(
        "UPDATE ullage_logs SET owner = ?, token = token + 1, until_ms = {now} + ?"
        " WHERE conversation = ? AND (until_ms <= {now} OR owner = ?) RETURNING token, until_ms",
        (owner, _ms(seconds), checked_name(conversation), owner),
        alone=True,
    )
    rows = yield take
    if not rows:
        held = yield SqlStatement(
            "SELECT owner FROM ullage_logs WHERE conversation = ?", (conversation,), alone=True
        )
        if held:
            raise LeaseHeld(conversation, str(held[0][0]))
        yield _begin_log(conversation)
        rows = yield take
    if not rows:  # another worker was faster
        raise LeaseHeld(conversation, "")
    return Lease(conversation, owner, int(rows[0][0]), int(rows[0][1]))


def renew(lease: Lease, seconds: float) -> Sql[Lease]:
    """See `LogStore.renew`."""
    rows = yield SqlStatement(
        "UPDATE ullage_logs SET until_ms = {now} + ? WHERE conversation = ? AND token = ? AND owner = ?"
        " RETURNING until_ms",
        (_ms(seconds), lease.conversation, lease.token, lease.owner),
        alone=True,
    )
    if not rows:
        raise LeaseExpired(lease.conversation, lease.owner)
    return Lease(lease.conversation, lease.owner, lease.token, int(rows[0][0]))


def release(lease: Lease) -> Sql[None]:
    """See `LogStore.release`."""
    yield SqlStatement(
        "UPDATE ullage_logs SET until_ms = 0, owner = '' WHERE conversation = ? AND token = ?",
        (lease.conversation, lease.token),
        alone=True,
    )


def in_turn(*statements: SqlStatement) -> Sql[list[Row]]:
    """These statements; the rows of the last."""
    rows: list[Row] = []
    for statement in statements:
        rows = yield statement
    return rows


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


def _bytes(row: Row) -> bytes:
    return bytes(row[0])  # type: ignore[arg-type]


class SqlStore(ABC):
    """A `ConversationStore` over a database."""

    _at_once = False
    """Whether the database changes two tables in one statement."""

    @abstractmethod
    def _run(self, flow: Callable[P, Sql[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run one transaction, all or nothing; restart it if the connection is lost."""

    def read(self, conversation: str, start: int = 0) -> bytes:
        """See `LogStore.read`."""
        return self._run(read, conversation, start)

    def end(self, conversation: str) -> int:
        """See `LogStore.end`."""
        return self._run(end, conversation)

    def append(
        self, conversation: str, data: bytes, *, at: int, write_id: str, lease: Lease | None = None
    ) -> int:
        """See `LogStore.append`."""
        once = self._at_once
        return self._run(
            append, conversation, data, at=at, write_id=write_id, lease=lease, at_once=once
        )

    def acquire(self, conversation: str, owner: str, seconds: float) -> Lease:
        """See `LogStore.acquire`."""
        return self._run(acquire, conversation, owner, seconds)

    def renew(self, lease: Lease, seconds: float) -> Lease:
        """See `LogStore.renew`."""
        return self._run(renew, lease, seconds)

    def release(self, lease: Lease) -> None:
        """See `LogStore.release`."""
        self._run(release, lease)

    def load(self, conversation: str, name: str) -> StoredDocument | None:
        """See `DocumentStore.load`."""
        text = "SELECT data, version FROM ullage_documents WHERE conversation = ? AND name = ?"
        place = checked_name(conversation), checked_name(name, "name")
        rows = self._run(in_turn, SqlStatement(text, place, alone=True))
        return StoredDocument(_bytes(rows[0]), int(rows[0][1])) if rows else None

    def save(self, conversation: str, name: str, data: bytes, *, after: int) -> int:
        """See `DocumentStore.save`."""
        place, write_id = (checked_name(conversation), checked_name(name, "name")), uuid.uuid4().hex
        write = SqlStatement(
            "UPDATE ullage_documents SET version = version + 1, write_id = ?, data = ?"
            " WHERE conversation = ? AND name = ? AND version = ? RETURNING version",
            (write_id, data, *place, after),
            alone=True,
        )
        if after == 0:
            write = SqlStatement(
                "INSERT INTO ullage_documents (conversation, name, version, write_id, data)"
                " VALUES (?, ?, 1, ?, ?) ON CONFLICT (conversation, name) DO NOTHING RETURNING version",
                (*place, write_id, data),
                alone=True,
            )
        # A write that was done already, before the connection was lost, has its version.
        look = SqlStatement(
            "SELECT version FROM ullage_documents WHERE conversation = ? AND name = ? AND write_id = ?",
            (*place, write_id),
            alone=True,
        )
        rows = self._run(in_turn, write) or self._run(in_turn, look)
        if not rows:
            raise document_conflict(conversation, name, after)
        return int(rows[0][0])

    def put_blob(self, conversation: str, data: bytes) -> str:
        """See `ConversationStore.put_blob`."""
        digest = hashlib.sha256(data).hexdigest()
        # The update locks the row against a collection at the same time, which then sees the reference.
        store = SqlStatement(
            "INSERT INTO ullage_blobs (digest, stored_ms, data) VALUES (?, {now}, ?)"
            " ON CONFLICT (digest) DO UPDATE SET stored_ms = {now}",
            (digest, data),
        )
        refer = SqlStatement(
            "INSERT INTO ullage_references (digest, conversation) VALUES (?, ?)"
            " ON CONFLICT (digest, conversation) DO NOTHING",
            (digest, checked_name(conversation)),
        )
        self._run(in_turn, store, refer)
        return digest

    def blob(self, digest: str) -> bytes | None:
        """See `ConversationStore.blob`."""
        text = "SELECT data FROM ullage_blobs WHERE digest = ?"
        rows = self._run(in_turn, SqlStatement(text, (digest,), alone=True))
        return checked_blob(digest, _bytes(rows[0]) if rows else None)

    def collect(self, *, unused_seconds: float = 3600) -> int:
        """See `ConversationStore.collect`."""
        unused = SqlStatement(
            "DELETE FROM ullage_blobs WHERE stored_ms <= {now} - ? AND NOT EXISTS"
            " (SELECT 1 FROM ullage_references WHERE ullage_references.digest = ullage_blobs.digest)"
            " RETURNING digest",
            (_ms(unused_seconds),),
        )
        return len(self._run(in_turn, unused))

    def conversations(self) -> Iterator[str]:
        """See `ConversationStore.conversations`."""
        names = SqlStatement(
            "SELECT conversation FROM ullage_logs UNION SELECT conversation FROM ullage_documents"
            " UNION SELECT conversation FROM ullage_references",
            alone=True,
        )
        yield from (str(row[0]) for row in self._run(in_turn, names))

    def forget(self, conversation: str) -> None:
        """See `ConversationStore.forget`."""
        name = (checked_name(conversation),)
        tables = ("logs", "chunks", "documents", "references")
        texts = (f"DELETE FROM ullage_{table} WHERE conversation = ?" for table in tables)  # noqa: S608 - a fixed list
        self._run(in_turn, *(SqlStatement(text, name) for text in texts))


SQLITE = SqlDialect(
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
            time.sleep(0.01)
        else:
            return


def _hint(error: Exception) -> str:
    if str(error).startswith("table ullage_") and str(error).endswith("already exists"):
        return "ullage_schema lacks the version of the tables: INSERT INTO ullage_schema VALUES (1), or use a copy"
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    damaged = code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
    if damaged or isinstance(error, UnicodeDecodeError):
        return "the file is damaged: use a copy, or the sqlite3 shell's .recover"
    return ""


class SqliteStore(SqlStore):
    r"""A `ConversationStore` in a file.

    Each write is on the disk when it returns (write-ahead log, `synchronous=FULL`).

    Args:
        path: The database; its folder must exist. Not on a network drive, where SQLite's locks do not hold.
        create: Whether to create the database and its tables, and to migrate an older version.
        wait_seconds: Longest wait for another process that writes.

    Raises:
        StoreError: It cannot be opened, is not a database, or a later version of Ullage made it.

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
            self._run(migrated, SQLITE, self.path, create=create)
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

    def _run(self, flow: Callable[P, Sql[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """One transaction, all or nothing."""
        with self._one:
            connection = self._connection
            if connection is None:
                raise StoreError("the store is closed", path=self.path)
            try:
                connection.execute("BEGIN IMMEDIATE")
                result = drive(
                    flow(*args, **kwargs),
                    lambda one: connection.execute(SQLITE.written(one.text), one.values).fetchall(),
                )
                connection.execute("COMMIT")
            except BaseException as exc:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                # With a damaged schema the module may fail to decode the database's own error.
                if isinstance(exc, sqlite3.Error | UnicodeDecodeError):
                    raise StoreError(str(exc), path=self.path, hint=_hint(exc)) from exc
                raise
            return result


POSTGRES = SqlDialect(
    now="(extract(epoch from clock_timestamp()) * 1000)::bigint",
    blob="BYTEA",
    mark="%s",
    alone="SELECT pg_advisory_xact_lock(7235414725941)",  # a number of its own
)


def without_password(address: str) -> str:
    """A database's address, for errors and logs."""
    info = extra_module("psycopg.conninfo", "postgres")
    try:
        parts = info.conninfo_to_dict(address)
    except extra_module("psycopg", "postgres").Error:
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
        self._psycopg: Any = extra_module("psycopg", "postgres")
        self.place, self._retry = without_password(address), retry_seconds
        # A pool reports only that it got no connection; this reports why.
        try:
            self._psycopg.connect(address, connect_timeout=10).close()
        except self._psycopg.Error as exc:
            raise _store_error(exc, self.place) from exc
        self._pool: Any = extra_module("psycopg_pool", "postgres").ConnectionPool(
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
            in_transaction = False

            def rows_of(statement: SqlStatement) -> list[Row]:
                nonlocal in_transaction
                if not (in_transaction or statement.alone):
                    opened.enter_context(connection.transaction())
                    in_transaction = True
                cursor.execute(POSTGRES.written(statement.text), statement.values)
                return cursor.fetchall() if cursor.description else []

            return drive(flow, rows_of)


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
        self._psycopg: Any = extra_module("psycopg", "postgres")

    @classmethod
    async def open(
        cls, address: str, *, create: bool = True, connections: int = 4, retry_seconds: float = 30
    ) -> Self:
        """Open a store, with the arguments and errors of `PostgresStore`.

        Raises:
            MissingExtra, StoreError: See `PostgresStore`.
        """
        psycopg, place = extra_module("psycopg", "postgres"), without_password(address)
        try:
            one = await psycopg.AsyncConnection.connect(address, connect_timeout=10)
            await one.close()
        except psycopg.Error as exc:
            raise _store_error(exc, place) from exc
        pool = extra_module("psycopg_pool", "postgres").AsyncConnectionPool(
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
            in_transaction = False

            async def rows_of(statement: SqlStatement) -> list[Row]:
                nonlocal in_transaction
                if not (in_transaction or statement.alone):
                    await opened.enter_async_context(connection.transaction())
                    in_transaction = True
                await cursor.execute(POSTGRES.written(statement.text), statement.values)
                return await cursor.fetchall() if cursor.description else []

            return await adrive(flow, rows_of)

    async def read(self, conversation: str, start: int = 0) -> bytes:
        """See `LogStore.read`."""
        return await self._run(read, conversation, start)

    async def end(self, conversation: str) -> int:
        """See `LogStore.end`."""
        return await self._run(end, conversation)

    async def append(
        self, conversation: str, data: bytes, *, at: int, write_id: str, lease: Lease | None = None
    ) -> int:
        """See `LogStore.append`."""
        return await self._run(
            append, conversation, data, at=at, write_id=write_id, lease=lease, at_once=True
        )

    async def acquire(self, conversation: str, owner: str, seconds: float) -> Lease:
        """See `LogStore.acquire`."""
        return await self._run(acquire, conversation, owner, seconds)

    async def renew(self, lease: Lease, seconds: float) -> Lease:
        """See `LogStore.renew`."""
        return await self._run(renew, lease, seconds)

    async def release(self, lease: Lease) -> None:
        """See `LogStore.release`."""
        await self._run(release, lease)
