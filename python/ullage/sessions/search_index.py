"""Full-text search over all sessions of this machine: an SQLite index that reads only files that changed since.

The index holds text of sessions. It lies in Ullage's own folder, readable by its owner alone, and can be deleted at any time: the
next search builds it again.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from ullage import _env
from ullage.exceptions import InvalidPolicy, StoreError, UllageError
from ullage.facts.words import blocks_of
from ullage.messages import Item, message_of, role_of
from ullage.recall.text import content_text
from ullage.sessions.find import FoundSession, found_sessions, opened_path
from ullage.sessions.inspected import title_of
from ullage.sessions.load import open_session, private_folder

# Another version's index is made again: it holds nothing that the sessions' files do not.
_SCHEMA_VERSION = 1
_TEXT_CHARS = 20_000
"""Of one block: half from each end. Longer results are data, and the file itself holds them."""

# Two processes may index at once; the second waits for the first one's transaction.
_BUSY_SECONDS = 10.0
_SCHEMA = """
CREATE TABLE session (
  number INTEGER PRIMARY KEY, tool TEXT, id TEXT, path TEXT, size INTEGER, modified REAL,
  title TEXT, cwd TEXT, lines INTEGER, newest TEXT, UNIQUE (path, id)
);
CREATE TABLE part (number INTEGER PRIMARY KEY, session INTEGER, position INTEGER, who TEXT);
CREATE INDEX part_session ON part (session);
CREATE VIRTUAL TABLE words USING fts5 (body, tokenize = "unicode61 remove_diacritics 2");
"""


_MATCHES = """
SELECT s.tool, s.id, s.path, s.title, s.cwd, s.modified, -bm25(words), p.position, p.who,
  snippet(words, 0, '', '', '…', 24) FROM words JOIN part p ON p.number = words.rowid
  JOIN session s ON s.number = p.session WHERE words MATCH ?
  AND (? = '' OR s.tool = ?) AND (? = '' OR s.cwd = ?)
  ORDER BY bm25(words) LIMIT 2000
"""


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A place in a session."""

    position: int  # of the entry among the session's entries, from 0
    who: str  # `user`, `assistant`, `call` or `result`
    text: str  # the words around the hit, one line


@dataclass(frozen=True, slots=True)
class SearchedSession:
    """A session that was found, with its best places."""

    tool: str
    id: str
    path: Path
    title: str  # as its tool names it, or how it begins
    cwd: str  # where it ran
    modified: float  # seconds since the epoch
    score: float  # higher is better; comparable within one search
    hits: tuple[SearchHit, ...]  # best first


class SearchIndex:
    """The index; opened when it is first used, and closed by `close`.

    Args:
        path: The database; `None`: `search.db` in Ullage's own folder.

    Raises:
        StoreError: It cannot be opened or written.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self.path = Path(path) if path is not None else _env.state_folder() / "search.db"
        self._store = self._opened()

    def __enter__(self) -> SearchIndex:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the database."""
        self._store.close()

    def update(
        self,
        sessions: Sequence[FoundSession] | None = None,
        *,
        step: Callable[[int], object] = lambda done: None,
    ) -> dict[str, str]:
        """Reads what is new since the last time of all sessions, by default those of this machine.

        Those whose files are missing leave the index. `step` is called with 1 after each session that was read. The result
        has the reason for each file that cannot be read: its old text stays. `StoreError`: the index cannot be written.
        """
        current = found_sessions() if sessions is None else sessions
        problems: dict[str, str] = {}
        with self._reported():
            rows = self._store.execute("SELECT path, id, size, modified FROM session").fetchall()
            indexed = {(row[0], row[1]): row[2:] for row in rows}
            for session in current:
                read = indexed.pop((str(session.path), session.id), None)
                if read == (session.size, session.modified):
                    continue
                try:
                    self._read(session)
                except (UllageError, OSError) as exc:
                    if isinstance(exc, StoreError) and exc.path == str(self.path):
                        raise
                    problems[str(session.path)] = str(getattr(exc, "reason", "") or exc)
                step(1)
            with self._store:
                for path, name in indexed:
                    self._forget(path, name)
        return problems

    def _read(self, session: FoundSession) -> None:
        opened = open_session(opened_path(session))
        entries = [line for line in opened.entries() if message_of(line) is not None]
        with self._store:
            number, start = self._begun(session, entries)
            for position in range(start, len(entries)):
                for who, text in _texts(entries[position]):
                    line = (number, position, who)
                    row = self._store.execute("INSERT INTO part VALUES (NULL, ?, ?, ?)", line)
                    body = (row.lastrowid, _storable(text))
                    self._store.execute("INSERT INTO words (rowid, body) VALUES (?, ?)", body)
            self._store.execute(
                "UPDATE session SET size=?, modified=?, title=?, cwd=?, lines=?, newest=? WHERE number=?",
                (session.size, session.modified, _storable(title_of(opened)), _storable(opened.cwd),
                 len(entries), _name(entries[-1]) if entries else "", number),
            )  # fmt: skip

    def _begun(self, session: FoundSession, entries: Sequence[Item]) -> tuple[int, int]:
        """The session's row, and the first entry that is not in the index yet; 0 if the file was rewritten."""
        place = (str(session.path), session.id)
        query = "SELECT number, lines, newest FROM session WHERE path = ? AND id = ?"
        row = self._store.execute(query, place).fetchone()
        if row and row[1] and row[1] <= len(entries) and _name(entries[row[1] - 1]) == row[2]:
            return row[0], row[1]
        self._forget(*place)
        added = (session.tool, session.id, str(session.path))
        query = "INSERT INTO session (tool, id, path) VALUES (?, ?, ?)"
        return int(self._store.execute(query, added).lastrowid or 0), 0

    def _forget(self, path: str, name: str) -> None:
        which = "(SELECT number FROM session WHERE path = ? AND id = ?)"
        parts = f"(SELECT number FROM part WHERE session IN {which})"  # noqa: S608 - no value in it
        self._store.execute(f"DELETE FROM words WHERE rowid IN {parts}", (path, name))  # noqa: S608
        self._store.execute(f"DELETE FROM part WHERE session IN {which}", (path, name))  # noqa: S608
        self._store.execute("DELETE FROM session WHERE path = ? AND id = ?", (path, name))

    def search(
        self,
        words: str,
        *,
        most: int = 10,
        hits: int = 3,
        tool: str = "",
        cwd: str = "",
    ) -> list[SearchedSession]:
        """Sessions with these words, best first: those with all words in one place, or if there are none, with any.

        Args:
            words: Words, or phrases in double quotes; case and accents do not matter.
            most: Sessions at most.
            hits: Places of each at most.
            tool: Only sessions of this tool; empty: of all.
            cwd: Only sessions that ran in this folder; empty: in any.

        Raises:
            InvalidPolicy: There is no word, or a number is below 1.
            StoreError: The index cannot be read.
        """
        terms = _terms(words)
        if not terms:
            raise InvalidPolicy("words", words, "holds no word to search for")
        for name, value in (("most", most), ("hits", hits)):
            if value < 1:
                raise InvalidPolicy(name, value, "must be at least 1")
        for join in (" AND ", " OR "):
            with self._reported():
                values = (join.join(terms), tool, tool, cwd, cwd)
                rows = self._store.execute(_MATCHES, values).fetchall()
            if rows:
                return _grouped(rows, most, hits)
        return []

    def _opened(self) -> sqlite3.Connection:
        private_folder(self.path.parent)
        with self._reported():
            try:
                return self._prepared()
            except sqlite3.DatabaseError as exc:
                if isinstance(exc, sqlite3.OperationalError):
                    raise
                # Damaged, or no database: it can be built again.
                for suffix in ("", "-wal", "-shm"):
                    self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
                return self._prepared()

    def _prepared(self) -> sqlite3.Connection:
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600))
        store = sqlite3.connect(self.path, timeout=_BUSY_SECONDS)
        try:
            version = store.execute("PRAGMA user_version").fetchone()[0]
            if version not in (0, _SCHEMA_VERSION):
                raise sqlite3.DatabaseError("of another version")
            store.execute("PRAGMA journal_mode = WAL")
            if version == 0:
                store.executescript(f"{_SCHEMA} PRAGMA user_version = {_SCHEMA_VERSION};")
        except BaseException:
            store.close()
            raise
        return store

    @contextmanager
    def _reported(self) -> Iterator[None]:
        """Faults of the database as `StoreError`."""
        try:
            yield
        except UllageError:  # some are OSErrors too
            raise
        except (sqlite3.Error, OSError) as exc:
            hint = "delete the file: the next search builds it again"
            raise StoreError(f"search index: {exc}", path=str(self.path), hint=hint) from exc


def _name(entry: Item) -> str:
    return str(entry.get("uuid") or "")


def _texts(entry: Item) -> Iterator[tuple[Literal["user", "assistant", "call", "result"], str]]:
    role: Any = "assistant" if role_of(entry) == "assistant" else "user"
    for block in blocks_of(entry):
        kind = block.get("type")
        if kind == "tool_use":
            yield "call", f"{block.get('name')} {content_text(block.get('input'))}"
        elif kind == "tool_result":
            yield "result", content_text(block.get("content"))
        elif kind == "text" and isinstance(text := block.get("text"), str) and text.strip():
            yield role, text


def _storable(text: str) -> str:
    """A text without what SQLite cannot hold, its middle left out if it is long."""
    if len(text) > _TEXT_CHARS:
        text = text[: _TEXT_CHARS // 2] + "\n…\n" + text[-_TEXT_CHARS // 2 :]
    return text.encode("utf-8", "replace").decode().replace("\0", " ")


def _terms(words: str) -> list[str]:
    """Quoted for FTS5, in whose language nothing a user types then has a meaning."""
    pieces = words.split('"')
    terms = [piece for at, piece in enumerate(pieces) if at % 2]  # phrases
    terms += [word for at, piece in enumerate(pieces) if at % 2 == 0 for word in piece.split()]
    encodable = [term.encode("utf-8", "replace").decode().replace("\0", " ") for term in terms]
    return [f'"{term}"' for term in encodable if any(char.isalnum() for char in term)]


def _grouped(rows: Sequence[tuple[Any, ...]], most: int, hits: int) -> list[SearchedSession]:
    groups: dict[tuple[str, str], SearchedSession] = {}
    for tool, name, path, title, cwd, modified, score, position, who, text in rows:
        hit = SearchHit(position, who, " ".join(text.split()))
        group = groups.get((path, name))
        if group is None:
            groups[path, name] = SearchedSession(
                tool, name, Path(path), title or "", cwd or "", modified or 0.0, score, (hit,)
            )
        elif len(group.hits) < hits:
            groups[path, name] = replace(group, hits=(*group.hits, hit))
    return list(groups.values())[:most]
