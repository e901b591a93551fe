"""What lines are kept in: their levels' decisions in a store.

The messages are not kept, which every call brings again; what stands in their place is: excerpts of results, summaries. So states in a
folder are text of conversations, and are removed when they are old.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import orjson

from ullage.exceptions import LogConflict, StoreError, UllageError
from ullage.manager import ContextManager
from ullage.stores import FolderStore

if TYPE_CHECKING:
    from ullage.proxy.client_lines import ClientLine
    from ullage.stores import DocumentStore

__all__ = ["LineStates", "forget_all", "forget_old"]

LOG = logging.getLogger("ullage.proxy")

MOST_STATES = 4
"""Lines of one conversation whose state is kept: the newest."""

_DOCUMENT = "proxy-lines"
_NAME = re.compile("[0-9a-f]{16}")
_SWEEP_SECONDS = 3600


class LineStates:
    """States of lines by the name of their conversation.

    Args:
        store: Any store of `ullage.stores`; `None`: nothing outlives the process.
        days: After which a state in a folder is removed; 0: never. Other stores have limits of their own.
        most_bytes: Of all states in a folder; the oldest are removed first; 0: no limit.
    """

    def __init__(
        self, store: DocumentStore | None, *, days: float = 0, most_bytes: int = 0
    ) -> None:
        self._store = store
        self._days, self._most_bytes, self._swept = days, most_bytes, float("-inf")

    def save(self, line: ClientLine) -> None:
        """Keep a line's state; a store that fails is reported, and the call goes on."""
        if self._store is None:
            return
        try:
            try:
                self._saved(line)
            except LogConflict:  # another line of this conversation was saved meanwhile
                self._saved(line)
        except (UllageError, OSError, ValueError) as exc:
            LOG.warning("the state of a conversation was not kept: %s", type(exc).__name__)
        self.sweep()

    def _saved(self, line: ClientLine) -> None:
        assert self._store is not None  # noqa: S101 - the caller looked
        held, version = self._read(line.name)
        key = str(line.number)
        kept = {name: state for name, state in held.items() if name != key}
        kept[key] = line.manager.view_state()
        newest = dict(list(kept.items())[-MOST_STATES:])
        self._store.save(line.name, _DOCUMENT, orjson.dumps(newest), after=version)

    def sweep(self) -> None:
        """Remove what is too old or too much, at most once an hour; a folder that cannot be read is reported."""
        if not isinstance(self._store, FolderStore):
            return
        if time.monotonic() <= self._swept + _SWEEP_SECONDS:
            return
        self._swept = time.monotonic()
        try:
            forget_old(self._store, days=self._days, most_bytes=self._most_bytes)
        except (UllageError, OSError) as exc:
            LOG.warning("old states of conversations were not removed: %s", type(exc).__name__)

    def loaded(
        self, name: str, bare: Sequence[Any], new: Callable[[], ContextManager]
    ) -> ContextManager | None:
        """A manager that goes on from a kept state; `None`: none of them is of this list."""
        if self._store is None:
            return None
        try:
            held, _ = self._read(name)
        except (StoreError, ValueError) as exc:
            LOG.warning("the state of a conversation was not read: %s", type(exc).__name__)
            return None
        for state in reversed(held.values()):
            made = new()
            try:
                if made.load_view_state(state, bare):
                    return made
            except UllageError as exc:  # of another version, or damaged
                LOG.warning("the state of a conversation is not of use: %s", type(exc).__name__)
        return None

    def _read(self, name: str) -> tuple[dict[str, Any], int]:
        assert self._store is not None  # noqa: S101 - both callers looked
        found = self._store.load(name, _DOCUMENT)
        if found is None:
            return {}, 0
        read = orjson.loads(found.data)
        return read if isinstance(read, dict) else {}, found.version


def forget_all(store: FolderStore) -> int:
    """Remove the states of all conversations; returns how many. The key of compaction items stays: clients hold such items.

    Raises:
        StoreError: The folder cannot be read or written.
    """
    names = list(_conversations(store))
    for name in names:
        store.forget(name)
    return len(names)


def forget_old(
    store: FolderStore, *, days: float, most_bytes: int, now: float | None = None
) -> None:
    """Remove states by age, then the oldest ones until the rest fits.

    Args:
        store: Whose states; what else lies in it stays.
        days: Since the last change; 0: of any age.
        most_bytes: Of what stays; 0: no limit.
        now: Seconds since the epoch; `None`: the clock's.

    Raises:
        StoreError: The folder cannot be read or written.
    """
    known = sorted(((*store.usage(name), name) for name in _conversations(store)), reverse=True)
    latest = (time.time() if now is None else now) - days * 86_400
    total = 0
    for changed, size, name in known:
        total += size
        if (days and changed < latest) or (most_bytes and total > most_bytes):
            store.forget(name)


def _conversations(store: FolderStore) -> Iterator[str]:
    """Those that are the gateway's: the folder may hold others."""
    for name in store.conversations():
        ours = _NAME.fullmatch(name) and store.end(name) == 0
        if ours and store.holds(name, _DOCUMENT):
            yield name
