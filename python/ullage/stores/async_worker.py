"""A worker in an event loop: what a conversation adds is written where the host awaits it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Unpack

from ullage.exceptions import InvalidPolicy, LeaseHeld, UllageError
from ullage.manager import ContextManager
from ullage.stores.retries import pauses
from ullage.stores.store_protocols import AsyncLogStore, Lease, checked_name
from ullage.stores.stored_log import StoredLog
from ullage.stores.worker import Checkout, begun

if TYPE_CHECKING:
    from ullage.manager.outside import Outside
    from ullage.policy import Policy

__all__ = ["AsyncCheckout", "AsyncWorker"]


class AsyncCheckout(Checkout):
    """A conversation that this worker holds; `commit` writes what was added, and so does the end of the block."""

    def __init__(
        self,
        conversation: str,
        manager: ContextManager,
        log: StoredLog,
        store: AsyncLogStore,
        lease: Lease,
    ) -> None:
        super().__init__(conversation, manager, log)
        self._store, self._lease = store, lease

    async def commit(self) -> None:
        """Writes everything since the last time with one write, all of it or nothing.

        Raises:
            LeaseExpired: Another worker took the conversation over; nothing was written.
            LogConflict: A writer without a lease was there; nothing was written.
            StoreError: The store fails.
        """
        at, data = self._log.pending
        if data:
            end = await self._store.append(
                self.conversation, data, at=at, write_id=uuid.uuid4().hex, lease=self._lease
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
        """Holds a conversation for a block; a block that raises writes nothing that it did not commit.

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
            lease = await self._leased(conversation, wait_seconds)
            beat = asyncio.create_task(self._renewed(lease))
            try:
                held = await self._opened(lease)
                yield held
                await held.commit()
                held._log.close()
            finally:
                beat.cancel()
                with suppress(UllageError):  # it ends by itself
                    await self.store.release(lease)
        finally:
            self._out.discard(conversation)

    async def _opened(self, lease: Lease) -> AsyncCheckout:
        log = StoredLog(None, lease.conversation, await self.store.read(lease.conversation), lease)
        made = begun(log, self._policy, self._outside.copy())
        return AsyncCheckout(lease.conversation, made.manager, log, self.store, lease)

    async def _leased(self, conversation: str, wait_seconds: float) -> Lease:
        for pause in pauses(wait_seconds):
            with suppress(LeaseHeld):
                return await self.store.acquire(conversation, self.owner, self._seconds)
            await asyncio.sleep(pause)
        return await self.store.acquire(conversation, self.owner, self._seconds)

    async def _renewed(self, lease: Lease) -> None:
        while True:
            await asyncio.sleep(self._seconds / 3)
            with suppress(UllageError):  # what is lost shows at the next write
                await self.store.renew(lease, self._seconds)
