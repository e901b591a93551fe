"""Tables of the SQL stores, in steps: a database of an older version is brought up to date when it is opened."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from ullage.exceptions import StoreError

__all__ = ["MIGRATIONS", "Row", "Sql", "SqlDialect", "SqlStatement", "migrated"]

T = TypeVar("T")

Value: TypeAlias = str | int | bytes
Row: TypeAlias = tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class SqlStatement:
    """One statement.

    Attributes:
        text: With `?` for each value, `{now}` for milliseconds since the epoch and `{blob}` for the type of bytes.
        values: One for each `?`.
        alone: Whole by itself: none before it needs a transaction with it. A server is asked once then, not three times.
    """

    text: str
    values: tuple[Value, ...] = ()
    alone: bool = False


Sql: TypeAlias = Generator[SqlStatement, list[Row], T]
"""Statements that stand alone, then one transaction: yields them and receives their rows."""


@dataclass(frozen=True, slots=True)
class SqlDialect:
    """How a database says what others say otherwise.

    Attributes:
        now: Its clock, in milliseconds since the epoch.
        blob: Its type of bytes.
        mark: What stands for a value.
        alone: A statement that keeps others from migrating at the same time; empty: every transaction does.
    """

    now: str
    blob: str
    mark: str
    alone: str = ""

    def written(self, text: str) -> str:
        """A statement in its words."""
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
"""Each step is applied once, in order, and never changed afterwards: a change is a further step."""


def migrated(dialect: SqlDialect, place: str, *, create: bool) -> Sql[int]:
    """Brings a database up to date, in one transaction.

    Args:
        dialect: The database's.
        place: For errors.
        create: Whether tables are made and changed; false: the version must be this one.

    Returns:
        Its version.

    Raises:
        StoreError: A later version of Ullage made it, or it is older and may not be changed.
    """
    steps = MIGRATIONS
    if dialect.alone:
        yield SqlStatement(dialect.alone)
    if create:
        yield SqlStatement("CREATE TABLE IF NOT EXISTS ullage_schema (version BIGINT NOT NULL)")
    found = yield SqlStatement("SELECT max(version) FROM ullage_schema")
    version = found[0][0] or 0
    if not isinstance(version, int):
        raise StoreError(f"the version of its tables is not a number but {version!r}", path=place)
    if version > len(steps):
        raise StoreError(
            f"its tables have version {version}, this version of Ullage knows {len(steps)}",
            path=place,
            hint="a later version of Ullage made them: use that one",
        )
    if version < len(steps) and not create:
        raise StoreError(
            f"its tables have version {version}, this version of Ullage needs {len(steps)}",
            path=place,
            hint="open it once with create=True, by a role that may change tables",
        )
    for text in (text for step in steps[version:] for text in step):
        yield SqlStatement(text)
    if version < len(steps):
        yield SqlStatement("INSERT INTO ullage_schema VALUES (?)", (len(steps),))
    return len(steps)
