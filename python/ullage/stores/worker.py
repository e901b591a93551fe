"""Workers that share conversations: any worker picks up any conversation, one at a time."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Unpack

from ullage.exceptions import InvalidPolicy, LeaseHeld, UllageError
from ullage.facts.words import blocks_of
from ullage.manager import ContextManager
from ullage.messages import Item, role_of
from ullage.stores.folder_store import OffloadedResults
from ullage.stores.store_protocols import (
    AsyncLogStore,
    ConversationStore,
    Lease,
    apersist,
    checked_name,
    persist,
)
from ullage.stores.stored_log import StoredLog
from ullage.transcript.log import TranscriptLog

if TYPE_CHECKING:
    from ullage.manager.options import Outside
    from ullage.policy import Policy


class Checkout:
    """A conversation that this worker holds.

    Attributes:
        conversation: Its name.
        manager: Its manager, which continues where the last worker stopped.
    """

    def __init__(self, conversation: str, manager: ContextManager, log: StoredLog) -> None:
        self.conversation, self.manager, self._log = conversation, manager, log

    def __repr__(self) -> str:
        return f"Checkout({self.conversation!r}, {self.manager!r})"

    def add(self, message: Item, *, key: str = "") -> bool:
        """Append a message, unless one with the same key was appended before.

        Args:
            message: See `ContextManager.add`.
            key: The queue's id of the delivery, equal on redelivery; empty: always append.

        Returns:
            Whether it was appended.

        Raises:
            InvalidMessage, LogConflict, StoreError: See `ContextManager.add`.
        """
        return self._once(key, lambda: self.manager.add(message))

    def observe(self, response: object, *, key: str = "") -> bool:
        """Append a response, unless one with the same key was appended before; see `add`."""
        return self._once(key, lambda: self.manager.observe(response))

    def has(self, key: str) -> bool:
        """Whether a message with this key exists; ask before calling the model again."""
        return key in self._log.keys

    def _once(self, key: str, append: Callable[[], None]) -> bool:
        if key and self.has(key):
            return False
        self._log.keyed(key)
        try:
            append()
        finally:
            self._log.keyed("")
        return True

    @property
    def answered(self) -> bool:
        """Whether the newest message is the model's and calls no tool, so nothing is left to do."""
        newest = self.manager.history[-1] if len(self.manager.history) else None
        calls = (block.get("type") == "tool_use" for block in blocks_of(newest))
        return role_of(newest) == "assistant" and not any(calls)


class Worker:
    """Holds the conversations that this process works on; safe for threads.

    A conversation is leased while it is checked out, and the lease is renewed in the background. The position of each write
    protects the log: a worker that lost its lease cannot write.

    Args:
        store: Shared by all workers.
        owner: Unique name of this worker; empty: a random one.
        lease_seconds: How long a dead worker keeps a conversation.
        most_kept: How many managers of released conversations to keep in memory; one is reused if no other worker wrote. 0: none.
        policy: See `ContextManager`; `None`: an existing conversation keeps its own.
        of: Returns more arguments for one conversation, such as its `memory`; `None`: none.
        **outside: Arguments of `ContextManager`. New conversations need `model`; `store` defaults to the
            shared one.

    Raises:
        InvalidPolicy: A number is out of range.

    Example:
        >>> import tempfile
        >>> from ullage.stores import SqliteStore
        >>> store = SqliteStore(tempfile.mkdtemp() + "/fleet.db")
        >>> with Worker(store, model="claude-opus-4-5") as worker:
        ...     for delivery in ("d1", "d1"):
        ...         with worker.checkout("one") as held:
        ...             print(held.add({"role": "user", "content": "hello"}, key=delivery))
        True
        False
        >>> store.close()
    """

    def __init__(
        self,
        store: ConversationStore,
        /,
        *,
        owner: str = "",
        lease_seconds: float = 60,
        most_kept: int = 64,
        policy: Policy | str | None = None,
        of: Callable[[str], Outside] | None = None,
        **outside: Unpack[Outside],
    ) -> None:
        if not 1 <= lease_seconds <= 86_400:
            raise InvalidPolicy("lease_seconds", lease_seconds, "must be from 1 to 86,400")
        if most_kept < 0:
            raise InvalidPolicy("most_kept", most_kept, "must not be negative")
        self.store, self.owner = store, owner or uuid.uuid4().hex
        self._seconds, self._most = lease_seconds, most_kept
        self._policy, self._of, self._outside = policy, of, outside
        self._idle_checkouts: OrderedDict[str, Checkout] = OrderedDict()
        # Conversations that are checked out, and their leases while these are to be renewed.
        self._out: dict[str, Lease | None] = {}
        self._one, self._closed = threading.Lock(), threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop renewing leases; the store stays open."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join()
        self._idle_checkouts.clear()

    def __repr__(self) -> str:
        return f"Worker({self.owner!r}, {self.store!r})"

    @contextmanager
    def checkout(
        self, conversation: str, *, wait_seconds: float = 0, at_end: bool = False
    ) -> Iterator[Checkout]:
        """Hold a conversation for a block; writes are in the store when a call returns.

        Args:
            conversation: Its name; one that does not exist is begun.
            wait_seconds: Longest wait for another worker. 0: none.
            at_end: Write once when the block ends, all or nothing. If the worker dies or the block raises, nothing
                is written.

        Raises:
            LeaseHeld: Another worker, or another thread of this one, holds it.
            LeaseExpired: At a write: another worker took over; earlier writes stay.
            LogConflict: At a write: a writer without a lease was there; nothing was written.
            StoreError: The store fails.
        """
        with self._one:
            if checked_name(conversation) in self._out:
                raise LeaseHeld(conversation, self.owner)
            self._out[conversation] = None
        try:
            acquire = partial(self.store.acquire, conversation, self.owner, self._seconds)
            lease = persist(acquire, (LeaseHeld,), wait_seconds)
            self._keep(lease)
            try:
                yield from self._held(lease, at_end=at_end)
            finally:
                with self._one:
                    self._out[conversation] = None
                with suppress(UllageError):  # it ends by itself
                    self.store.release(lease)
        finally:
            with self._one:
                del self._out[conversation]

    def _keep(self, lease: Lease) -> None:
        """Renew a lease in a thread, so that a long call to a model does not lose the conversation."""
        with self._one:
            self._out[lease.conversation] = lease
            if self._thread is None:
                name = "ullage-leases"
                self._thread = threading.Thread(target=self._renew, name=name, daemon=True)
                self._thread.start()

    def _renew(self) -> None:
        while not self._closed.wait(self._seconds / 3):
            with self._one:
                leases = [lease for lease in self._out.values() if lease is not None]
            for lease in leases:
                # Failures are retried, and the next write notices a lost lease.
                with suppress(UllageError):
                    self.store.renew(lease, self._seconds)

    def _held(self, lease: Lease, *, at_end: bool) -> Iterator[Checkout]:
        name, to = lease.conversation, None if at_end else self.store
        with self._one:
            held = self._idle_checkouts.pop(name, None)
        # The manager from last time, if nobody wrote since.
        if held is not None and held._log.end == self.store.end(name):
            log = held._log
            log.reopen(to, lease)
        else:
            log = StoredLog(to, name, self.store.read(name), lease)
            held = Checkout(name, begun(log, self._policy, self._arguments(name)), log)
        try:
            yield held
            at, data = log.pending
            if at_end and data:
                write_id = uuid.uuid4().hex
                log.stored(self.store.append(name, data, at=at, write_id=write_id, lease=lease))
        finally:
            log.close()
        with self._one:
            self._idle_checkouts[name] = held
            while len(self._idle_checkouts) > self._most:
                self._idle_checkouts.popitem(last=False)

    def copy(self, conversation: str) -> ContextManager:
        """A manager of a conversation as it is now, without a lease; it writes nothing.

        For slow work, such as a summary that `SharedSummaries` keeps for the worker that holds the conversation.

        Raises:
            StoreError: The store fails.
        """
        data = self.store.read(checked_name(conversation))
        log = StoredLog(None, conversation, data)
        return begun(log, self._policy, self._arguments(conversation))

    def _arguments(self, conversation: str) -> Outside:
        outside = self._outside.copy()
        if self._of is not None:
            outside.update(self._of(conversation))
        outside.setdefault("store", OffloadedResults(self.store, conversation))
        return outside


def begun(log: StoredLog, policy: Policy | str | None, outside: Outside) -> ContextManager:
    """A manager that continues a log, or starts it; `InvalidPolicy`: it is empty and no model is named."""
    transcript = TranscriptLog(log, envelope={"sessionId": log.conversation})
    if transcript.begun:
        return ContextManager.resume(transcript, policy=policy, **outside)
    if "model" in outside:
        return ContextManager(policy=policy, log=transcript, **outside)
    limit = "is needed: the conversation is new"
    raise InvalidPolicy("model", None, limit, hint="Worker(store, model=...)")


class AsyncCheckout(Checkout):
    """A conversation that this worker holds; `commit`, or the end of the block, writes what was added."""

    def __init__(
        self,
        conversation: str,
        manager: ContextManager,
        log: StoredLog,
        store: AsyncLogStore,
    ) -> None:
        super().__init__(conversation, manager, log)
        self._store = store

    async def commit(self) -> None:
        """Write everything since the last commit at once, all or nothing.

        Raises:
            LeaseExpired: Another worker took the conversation over; nothing was written.
            LogConflict: A writer without a lease was there; nothing was written.
            StoreError: The store fails.
        """
        at, data = self._log.pending
        if data:
            write_id, lease = uuid.uuid4().hex, self._log.lease
            end = await self._store.append(
                self.conversation, data, at=at, write_id=write_id, lease=lease
            )
            self._log.stored(end)


class AsyncWorker:
    """`Worker` for an event loop.

    Args:
        store: Shared by all workers.
        owner: Name of this worker, different from all others; empty: a random one.
        lease_seconds: How long a conversation stays with a worker that died.
        policy: See `Worker`.
        **outside: See `Worker`. Large results stay in the conversation unless `store` is given, for example `OffloadedResults`.

    Raises:
        InvalidPolicy: A number is out of range.
    """

    def __init__(
        self,
        store: AsyncLogStore,
        /,
        *,
        owner: str = "",
        lease_seconds: float = 60,
        policy: Policy | str | None = None,
        **outside: Unpack[Outside],
    ) -> None:
        if not 1 <= lease_seconds <= 86_400:
            raise InvalidPolicy("lease_seconds", lease_seconds, "must be from 1 to 86,400")
        self.store, self.owner = store, owner or uuid.uuid4().hex
        self._seconds, self._policy, self._outside = lease_seconds, policy, outside
        self._out: set[str] = set()

    def __repr__(self) -> str:
        return f"AsyncWorker({self.owner!r}, {self.store!r})"

    @asynccontextmanager
    async def checkout(
        self, conversation: str, *, wait_seconds: float = 0
    ) -> AsyncIterator[AsyncCheckout]:
        """Hold a conversation for a block; if the block raises, only what it committed is written.

        Args:
            conversation: Its name; one that does not exist is begun.
            wait_seconds: Longest wait for another worker. 0: none.

        Raises:
            LeaseHeld: Another worker, or another task of this one, holds it.
            LeaseExpired, LogConflict, StoreError: See `AsyncCheckout.commit`.
        """
        if checked_name(conversation) in self._out:
            raise LeaseHeld(conversation, self.owner)
        self._out.add(conversation)
        try:
            acquire = partial(self.store.acquire, conversation, self.owner, self._seconds)
            lease = await apersist(acquire, (LeaseHeld,), wait_seconds)
            beat = asyncio.create_task(self._renewed(lease))
            try:
                data = await self.store.read(conversation)
                log = StoredLog(None, conversation, data, lease)
                manager = begun(log, self._policy, self._outside.copy())
                held = AsyncCheckout(conversation, manager, log, self.store)
                yield held
                await held.commit()
                log.close()
            finally:
                beat.cancel()
                with suppress(UllageError):  # it ends by itself
                    await self.store.release(lease)
        finally:
            self._out.discard(conversation)

    async def _renewed(self, lease: Lease) -> None:
        while True:
            await asyncio.sleep(self._seconds / 3)
            with suppress(UllageError):  # the next write notices a lost lease
                await self.store.renew(lease, self._seconds)
