"""Sessions of the Claude Agent SDK in a store: an adapter of the form that the SDK calls `SessionStore`."""

from __future__ import annotations

import asyncio
import hashlib
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import quote, unquote

import orjson

from ullage.exceptions import LogConflict
from ullage.messages import Item
from ullage.stores.store_protocols import ConversationStore
from ullage.transcript.log import line_of

_CHANGED = "changed"


class AgentSessions:
    """Mirrors sessions of the Claude Agent SDK: `ClaudeAgentOptions(session_store=AgentSessions(store))`.

    Each is a conversation of the store, whose log is the transcript; an entry that comes twice is kept once, by its `uuid`.

    Args:
        store: Any `ConversationStore`; it is called on threads.
    """

    def __init__(self, store: ConversationStore) -> None:
        self._store = store
        self._known: dict[str, tuple[int, set[str]]] = {}
        self._one = asyncio.Lock()

    def __repr__(self) -> str:
        return f"AgentSessions({self._store!r})"

    async def append(self, key: Mapping[str, str], entries: Sequence[Item]) -> None:
        """Adds entries; those whose `uuid` is there already are left out.

        Raises:
            InvalidMessage: An entry cannot be written as JSON; none is added.
            StoreError: The store fails.
        """
        # In the order of the calls, which threads would not keep.
        async with self._one:
            await asyncio.to_thread(self._append, _name(key), entries)

    async def load(self, key: Mapping[str, str]) -> list[dict[str, object]] | None:
        """All entries; `None`: there is no such session.

        Raises:
            StoreError: The store fails.
        """
        data = await asyncio.to_thread(self._store.read, _name(key))
        return list(_entries(data)) if data else None

    async def list_sessions(self, project_key: str) -> list[dict[str, object]]:
        """Sessions of a project, with the time of their last change in milliseconds since the epoch.

        Raises:
            StoreError: The store fails.
        """
        return await asyncio.to_thread(self._sessions, f"{_project(project_key)}/")

    async def delete(self, key: Mapping[str, str]) -> None:
        """Deletes a session with its subagents', or one subagent's.

        Raises:
            StoreError: The store fails.
        """
        async with self._one:
            await asyncio.to_thread(self._delete, _name(key))

    async def list_subkeys(self, key: Mapping[str, str]) -> list[str]:
        """Subpaths of a session.

        Raises:
            StoreError: The store fails.
        """
        prefix = f"{_name(key)}/"
        names = await asyncio.to_thread(self._under, prefix)
        return [unquote(name.removeprefix(prefix)) for name in names]

    # ---- on a thread -------------------------------------------------------------------------

    def _append(self, name: str, entries: Sequence[Item]) -> None:
        if not entries:
            return
        lines = [(entry.get("uuid"), line_of(entry, at)) for at, entry in enumerate(entries)]
        while True:
            end, known = self._known.get(name) or self._read(name)
            fresh = {
                own if isinstance(own, str) else f"line {at}": line
                for at, (own, line) in enumerate(lines)
                if not isinstance(own, str) or own not in known
            }
            data = b"".join(fresh.values())
            try:
                if data:
                    write_id = uuid.uuid4().hex
                    end = self._store.append(name, data, at=end, write_id=write_id)
            except LogConflict:  # another process added to it
                self._known.pop(name, None)
                continue
            self._known[name] = end, known | fresh.keys()
            self._touch(name)
            return

    def _read(self, name: str) -> tuple[int, set[str]]:
        data = self._store.read(name)
        return len(data), {str(entry["uuid"]) for entry in _entries(data) if "uuid" in entry}

    def _touch(self, name: str) -> None:
        found = self._store.load(name, _CHANGED)
        now = str(time.time_ns() // 1_000_000).encode()
        try:
            self._store.save(name, _CHANGED, now, after=found.version if found else 0)
        except LogConflict:
            return  # another process did, just now

    def _sessions(self, prefix: str) -> list[dict[str, object]]:
        found: list[dict[str, object]] = []
        for name in self._under(prefix):
            session = name.removeprefix(prefix)
            changed = self._store.load(name, _CHANGED)
            if "/" not in session:
                at = int(changed.data) if changed else 0
                found.append({"session_id": unquote(session), "mtime": at})
        return found

    def _delete(self, name: str) -> None:
        for each in (name, *self._under(f"{name}/")):
            self._store.forget(each)
            self._known.pop(each, None)

    def _under(self, prefix: str) -> list[str]:
        return [name for name in self._store.conversations() if name.startswith(prefix)]


def _name(key: Mapping[str, str]) -> str:
    parts = [_project(key["project_key"]), quote(key["session_id"], safe="")]
    if key.get("subpath"):
        parts.append(quote(key["subpath"], safe=""))
    return "/".join(parts)


def _project(key: str) -> str:
    """A project's key may be longer than a name."""
    return "agent-" + hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def _entries(data: bytes) -> Iterator[dict[str, object]]:
    yield from (orjson.loads(line) for line in data.split(b"\n") if line)
