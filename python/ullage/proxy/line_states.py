"""What lines are kept in: their levels' decisions in a store, without the messages, which every call brings again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import orjson

from ullage.exceptions import StoreError, UllageError
from ullage.manager import ContextManager

if TYPE_CHECKING:
    from ullage.proxy.client_lines import ClientLine
    from ullage.stores import DocumentStore

__all__ = ["LineStates"]

LOG = logging.getLogger("ullage.proxy")

MOST_STATES = 4
"""Lines of one conversation whose state is kept: the newest."""

_DOCUMENT = "proxy-lines"


class LineStates:
    """States of lines by the name of their conversation.

    Args:
        store: Any store of `ullage.stores`; `None`: nothing outlives the process.
    """

    def __init__(self, store: DocumentStore | None) -> None:
        self._store = store

    def save(self, line: ClientLine) -> None:
        """Keep a line's state; a store that fails is reported, and the call goes on."""
        if self._store is None:
            return
        try:
            held, version = self._read(line.name)
            key = str(line.number)
            kept = {name: state for name, state in held.items() if name != key}
            kept[key] = line.manager.view_state()
            newest = dict(list(kept.items())[-MOST_STATES:])
            self._store.save(line.name, _DOCUMENT, orjson.dumps(newest), after=version)
        except (UllageError, OSError, ValueError) as exc:
            LOG.warning("the state of a conversation was not kept: %s", type(exc).__name__)

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
