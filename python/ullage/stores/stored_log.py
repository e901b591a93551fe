"""A log in a store, for one worker at a time; a `TranscriptLog` writes to it instead of a file."""

from __future__ import annotations

import asyncio
import hashlib
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote, unquote

import orjson

from ullage.exceptions import InvalidPolicy, LogConflict, StoreError, UllageError
from ullage.memory.session.notes_folder import (
    MAX_BYTES,
    NOTES,
    PREVIOUS,
    STATE,
    Lock,
    Notes,
    digest_of_notes,
)
from ullage.messages import Item, now_in_ms
from ullage.stores.store_protocols import (
    ConversationStore,
    DocumentStore,
    Lease,
    LogStore,
    StoredDocument,
    checked_name,
)
from ullage.summarizers.lines import writer_of
from ullage.summarizers.protocol import SummaryReply, SummaryRequest, WriterLike
from ullage.transcript.log import entry_in, line_of

DELIVERY = "ullage-delivery"  # type of the lines that record a message's delivery key

_DELIVERY_BYTES = f'"{DELIVERY}"'.encode()


class StoredLog:
    """A conversation's log, read once and held in memory (a `LogBytes`).

    Without a store to write to, appends stay in memory as `pending`; without a lease, only the position in the log protects it.
    """

    path = ""

    def __init__(
        self,
        store: LogStore | None,
        conversation: str,
        data: bytes,
        lease: Lease | None = None,
    ) -> None:
        self.conversation, self._data = conversation, bytearray(data)
        self.reopen(store, lease)
        self._key = ""
        self._stored = len(data)
        # Delivery keys of its messages.
        self.keys = {key for line in self.lines() if (key := _key(line))}

    @property
    def name(self) -> str:
        """Its name in errors."""
        return f"conversation {self.conversation!r}"

    @property
    def end(self) -> int:
        """Where the next write goes, in bytes."""
        return len(self._data)

    @property
    def unfinished(self) -> tuple[int, int] | None:
        """(offset, length) of an incomplete last line, which only a folder can hold, or `None`."""
        if not self._data or self._data.endswith(b"\n"):
            return None
        start = self._data.rfind(b"\n") + 1
        return start, len(self._data) - start

    @property
    def pending(self) -> tuple[int, bytes]:
        """Position and bytes that are not in the store yet."""
        return self._stored, bytes(self._data[self._stored :])

    def keyed(self, key: str) -> None:
        """Record this delivery key with the next append; empty: none."""
        self._key = key

    def append(self, data: bytes) -> None:
        """Write whole lines at the end, all or none.

        Raises:
            LeaseExpired: Another worker took the conversation over; nothing was written.
            LogConflict: Another worker wrote to it, or it was released; nothing was written.
            StoreError: The store fails; the log is read again before the next write.
        """
        if self._closed:
            raise LogConflict(f"{self.name} was released", hint="check the conversation out again")
        key = self._key
        if key:
            data = orjson.dumps({"type": DELIVERY, "key": key}) + b"\n" + data
        if self._store is not None:
            at, write_id = len(self._data), uuid.uuid4().hex
            end = self._store.append(
                self.conversation, data, at=at, write_id=write_id, lease=self.lease
            )
            # A store that closes an incomplete last line does so before these bytes.
            data = b"\n" * (end - at - len(data)) + data
            self._stored = end
        self._data += data
        if key:
            self.keys.add(key)
            self._key = ""

    def stored(self, end: int) -> None:
        """Note that pending bytes are now in the store, up to this end."""
        self._stored = end

    def sync(self) -> None:
        """Does nothing: appends are durable already, as far as the store guarantees."""

    def close(self) -> None:
        """Stop writing."""
        self._closed = True

    def reopen(self, store: LogStore | None, lease: Lease | None) -> None:
        """Continue under another lease, if the store holds exactly these bytes."""
        self._store, self.lease, self._closed = store, lease, False

    def lines(self) -> Iterator[bytes]:
        """Lines from the first to the last, line ends included."""
        yield from BytesIO(self._data)

    def lines_backwards(self) -> Iterator[tuple[int, bytes, bool]]:
        """Lines from the last to the first: offset, bytes, and whether a line end follows."""
        stop = len(self._data)
        while stop > 0:
            ended = self._data[stop - 1] == 10
            start = self._data.rfind(b"\n", 0, stop - 1) + 1
            yield start, bytes(self._data[start : stop - ended]), ended
            stop = start

    def line_at(self, offset: int) -> bytes:
        """The line at an offset in bytes, or empty bytes."""
        stop = self._data.find(b"\n", offset)
        return bytes(self._data[offset : stop + 1 if stop >= 0 else None])

    def head(self, stop: int) -> bytes:
        """The bytes before an offset."""
        return bytes(self._data[:stop])


def _key(line: bytes) -> str:
    if _DELIVERY_BYTES not in line:
        return ""
    entry = entry_in(line)
    return str(entry.get("key", "")) if entry.get("type") == DELIVERY else ""


_LOCK = "lock"


class StoredNotes:
    """A place for `SessionMemory`: notes, their record and the previous text, as documents of the conversation.

    No lease is needed: the version shows what another worker wrote meanwhile, and the update is repeated. The lock only
    keeps two workers from asking a model for the same.

    Args:
        store: Shared by all workers.
        conversation: Its name; `forget` deletes the notes with it.
        busy_seconds: How long a dead updater blocks others, by the workers' clocks.

    Example:
        >>> import tempfile
        >>> from ullage.memory.session import SessionMemory
        >>> from ullage.stores import FolderStore
        >>> store = FolderStore(tempfile.mkdtemp())
        >>> one, two = (SessionMemory(StoredNotes(store, "c"), mode="inline") for _ in range(2))
        >>> one.update([{"role": "user", "content": "Fix the login page"}]).outcome.value
        'updated'
        >>> "Fix the login page" in two.notes()
        True
    """

    def __init__(
        self, store: DocumentStore, conversation: str, *, busy_seconds: float = 600
    ) -> None:
        self._store, self._conversation = store, checked_name(conversation)
        self._busy_ms = round(busy_seconds * 1000)
        self._record_version = 0

    def __repr__(self) -> str:
        return f"StoredNotes({self._conversation!r})"

    @property
    def notes_path(self) -> Path:
        """See `NotesPlace.notes_path`."""
        return Path("session-memory") / NOTES

    def read(self) -> Notes:
        """See `NotesFolder.read`."""
        return Notes.of(self.read_bytes(NOTES), self._named(NOTES))

    def read_bytes(self, name: str, *, inside: str = "") -> bytes | None:
        """See `NotesFolder.read_bytes`; the document is called `notes/NAME` or `notes/FOLDER/NAME`."""
        stored = self._load("/".join(filter(None, (inside, name))))
        if stored is not None and len(stored.data) > MAX_BYTES:
            limit = f"has {len(stored.data):,} bytes, at most {MAX_BYTES:,}"
            raise StoreError(limit, path=self._named(name))
        return None if stored is None else stored.data

    def commit(self, text: str, *, based_on: str, lock: Lock) -> bool:
        """See `NotesFolder.commit`."""
        lock.check(self._named(_LOCK))
        now = self._load(NOTES)
        if digest_of_notes(now.data if now else None) != based_on:
            return False
        if now is not None:
            before = self._load(PREVIOUS)
            with suppress(LogConflict):  # then the notes have a new version, too
                self._save(PREVIOUS, now.data, before)
        try:
            self._save(NOTES, text.encode("utf-8", "replace"), now)
        except LogConflict:
            return False
        return True

    def save(self, data: bytes, *, lock: Lock) -> None:
        """See `NotesFolder.save`."""
        lock.check(self._named(_LOCK))
        self._record_version = self._store.save(
            self._conversation, _document(STATE), data, after=self._record_version
        )

    def lock(self) -> Lock:
        """See `NotesFolder.lock`."""
        stored, now = self._load(_LOCK), now_in_ms()
        if stored is not None and _until(stored) > now:
            raise LogConflict(f"{self._named(_LOCK)}: another update is running")
        owner = uuid.uuid4().hex
        data = orjson.dumps({"owner": owner, "from_ms": now, "until_ms": now + self._busy_ms})
        version = self._save(_LOCK, data, stored)
        record = self._load(STATE)
        self._record_version = record.version if record else 0

        def unlock() -> None:
            with suppress(UllageError):  # it ends by itself
                self._store.save(self._conversation, _document(_LOCK), b"", after=version)

        return Lock(unlock)

    def busy_seconds(self) -> float | None:
        """See `NotesFolder.busy_seconds`."""
        with suppress(StoreError):
            stored, now = self._load(_LOCK), now_in_ms()
            if stored is not None and _until(stored) > now:
                return max(0.0, (now - int(orjson.loads(stored.data)["from_ms"])) / 1000)
        return None

    def _load(self, name: str) -> StoredDocument | None:
        return self._store.load(self._conversation, _document(name))

    def _save(self, name: str, data: bytes, before: StoredDocument | None) -> int:
        after = before.version if before is not None else 0
        return self._store.save(self._conversation, _document(name), data, after=after)

    def _named(self, name: str) -> str:
        return f"conversation {self._conversation!r}, {_document(name)}"


def _document(name: str) -> str:
    return f"notes/{name}"


def _until(lock: StoredDocument) -> int:
    return int(orjson.loads(lock.data)["until_ms"]) if lock.data else 0


class SharedSummaries:
    """A summarizer that keeps its replies in a store, by request.

    A worker that has time compacts a copy of a conversation (`Worker.copy`); the one that holds the conversation compacts with the same
    arguments and finds the reply. A worker that is killed after the call does not pay for it again.

    Args:
        summarizer: Answers new requests; needs a synchronous form.
        store: Where replies are kept, until the conversation is forgotten.
        conversation: Its name.

    Raises:
        InvalidPolicy: The summarizer has only an asynchronous form.
    """

    def __init__(self, summarizer: WriterLike, store: DocumentStore, conversation: str) -> None:
        self._inner: Any = writer_of(summarizer)
        if not hasattr(self._inner, "summarize"):
            limit = "must have a synchronous form"
            raise InvalidPolicy("summarizer", type(self._inner).__name__, limit)
        self._store, self._conversation = store, checked_name(conversation)
        self.name = str(self._inner.name)
        self.modes: tuple[Literal["shared", "plain", "native"], ...]
        self.modes = tuple(getattr(self._inner, "modes", ("plain",)))
        self.window_tokens: int | None = getattr(self._inner, "window_tokens", None)
        self.max_output_tokens: int | None = getattr(self._inner, "max_output_tokens", None)
        self.calls = 0
        """Requests that were not answered from the store."""

    def __repr__(self) -> str:
        return f"SharedSummaries({self._inner!r}, {self._conversation!r})"

    def summarize(self, request: SummaryRequest) -> SummaryReply:
        """The kept reply, or a new one.

        Raises:
            StoreError: The store fails.
            Exception: What the summarizer raises; nothing is kept then.
        """
        name = f"summary-{_digest(self.name, request)}"
        document = self._store.load(self._conversation, name)
        if document is not None:
            stored = orjson.loads(document.data)
            lists = {key: tuple(stored[key]) for key in ("tool_calls", "carried")}
            return SummaryReply(**{**stored, **lists})
        self.calls += 1
        answer = self._inner.summarize(request)
        reply = answer if isinstance(answer, SummaryReply) else SummaryReply(text=answer)
        if not reply.is_refusal:
            fields = {field: getattr(reply, field) for field in SummaryReply.__dataclass_fields__}
            data = orjson.dumps(fields, default=dict)
            with suppress(LogConflict):  # another worker was as fast
                self._store.save(self._conversation, name, data, after=0)
        return reply


def _digest(name: str, request: SummaryRequest) -> str:
    """A digest of everything that the reply depends on; a retry is another request."""
    asked = [
        name, list(request.messages), request.prompt, request.mode, request.system, request.max_output_tokens,
        request.instructions, request.attempt,
    ]  # fmt: skip
    data = orjson.dumps(asked, default=repr, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS)
    return hashlib.sha256(data).hexdigest()


_CHANGED = "changed"


class AgentSessions:
    """Mirrors sessions of the Claude Agent SDK (its `SessionStore`): `ClaudeAgentOptions(session_store=AgentSessions(store))`.

    Each is a conversation of the store, whose log is the transcript; a repeated entry is kept once, by its `uuid`. Every
    method raises `StoreError` if the store fails.

    Args:
        store: Any `ConversationStore`; it is called on threads.
    """

    def __init__(self, store: ConversationStore) -> None:
        self._store = store
        self._ends: dict[str, tuple[int, set[str]]] = {}
        self._one = asyncio.Lock()

    def __repr__(self) -> str:
        return f"AgentSessions({self._store!r})"

    async def append(self, key: Mapping[str, str], entries: Sequence[Item]) -> None:
        """Add entries, except those whose `uuid` is there already.

        Raises:
            InvalidMessage: An entry cannot be written as JSON; none is added.
        """
        # Threads would not keep the order of calls.
        async with self._one:
            await asyncio.to_thread(self._append, _name(key), entries)

    async def load(self, key: Mapping[str, str]) -> list[dict[str, object]] | None:
        """All entries, or `None` if there is no such session."""
        data = await asyncio.to_thread(self._store.read, _name(key))
        return list(_entries(data)) if data else None

    async def list_sessions(self, project_key: str) -> list[dict[str, object]]:
        """Sessions of a project, with the time of their last change in milliseconds since the epoch."""
        return await asyncio.to_thread(self._sessions, f"{_project(project_key)}/")

    async def delete(self, key: Mapping[str, str]) -> None:
        """Delete a session with its sub-agents' sessions, or one sub-agent's."""
        async with self._one:
            await asyncio.to_thread(self._delete, _name(key))

    async def list_subkeys(self, key: Mapping[str, str]) -> list[str]:
        """Subpaths of a session."""
        prefix = f"{_name(key)}/"
        names = await asyncio.to_thread(self._under, prefix)
        return [unquote(name.removeprefix(prefix)) for name in names]

    # The following run on a thread.

    def _append(self, name: str, entries: Sequence[Item]) -> None:
        if not entries:
            return
        lines = [(entry.get("uuid"), line_of(entry, at)) for at, entry in enumerate(entries)]
        while True:
            if name not in self._ends:
                data = self._store.read(name)
                ids = {str(entry["uuid"]) for entry in _entries(data) if "uuid" in entry}
                self._ends[name] = len(data), ids
            end, ids = self._ends[name]
            fresh = {
                own if isinstance(own, str) else f"line {at}": line
                for at, (own, line) in enumerate(lines)
                if not isinstance(own, str) or own not in ids
            }
            data = b"".join(fresh.values())
            try:
                if data:
                    write_id = uuid.uuid4().hex
                    end = self._store.append(name, data, at=end, write_id=write_id)
            except LogConflict:  # another process added to it
                self._ends.pop(name, None)
                continue
            self._ends[name] = end, ids | fresh.keys()
            stored = self._store.load(name, _CHANGED)
            now = str(now_in_ms()).encode()
            with suppress(LogConflict):  # another process did, just now
                self._store.save(name, _CHANGED, now, after=stored.version if stored else 0)
            return

    def _sessions(self, prefix: str) -> list[dict[str, object]]:
        sessions: list[dict[str, object]] = []
        for name in self._under(prefix):
            session = name.removeprefix(prefix)
            if "/" not in session:
                changed = self._store.load(name, _CHANGED)
                at = int(changed.data) if changed else 0
                sessions.append({"session_id": unquote(session), "mtime": at})
        return sessions

    def _delete(self, name: str) -> None:
        for part in (name, *self._under(f"{name}/")):
            self._store.forget(part)
            self._ends.pop(part, None)

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
