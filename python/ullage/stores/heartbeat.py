"""Renews leases in the background, so that a long call to a model does not lose a conversation."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from ullage.exceptions import UllageError
from ullage.stores.store_protocols import Lease

__all__ = ["Heartbeat"]


class Heartbeat:
    """One thread, begun with the first lease.

    Args:
        renew: See `LeaseStore.renew`.
        seconds: Length of a lease; each is renewed when a third of it is over.
    """

    def __init__(self, renew: Callable[[Lease, float], Lease], seconds: float) -> None:
        self._renew, self._seconds = renew, seconds
        self._leases: dict[str, Lease] = {}
        self._one, self._stop = threading.Lock(), threading.Event()
        self._thread: threading.Thread | None = None

    def keep(self, lease: Lease) -> None:
        """Renew this lease until it is forgotten."""
        with self._one:
            self._leases[lease.conversation] = lease
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._beat, name="ullage-leases", daemon=True
                )
                self._thread.start()

    def forget(self, lease: Lease) -> None:
        """Renew it no more."""
        with self._one:
            self._leases.pop(lease.conversation, None)

    def close(self) -> None:
        """End the thread."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _beat(self) -> None:
        while not self._stop.wait(self._seconds / 3):
            with self._one:
                leases = list(self._leases.values())
            for lease in leases:
                # What fails now is tried again, and a lease that is lost shows at the next write.
                with suppress(UllageError):
                    self._renew(lease, self._seconds)
