"""Makes a client's call fit: finds its conversation, runs the levels, and rewrites the call if anything is due."""

from __future__ import annotations

import asyncio
import logging
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import orjson

from ullage._start import NamedTuple
from ullage.counting.models import ModelTable
from ullage.exceptions import ContextTooLarge, LogConflict, StoreError, UllageError
from ullage.levels.cost import FLOOR_TOKENS
from ullage.policy import Policy
from ullage.proxy.client_calls import ClientCall, ClientLine, ClientLines, ClientList, name_of
from ullage.proxy.proxy_settings import ProxySettings
from ullage.stores import FolderStore

if TYPE_CHECKING:
    from ullage.levels.view import StageReport
    from ullage.manager import ContextManager, ListView
    from ullage.stores import DocumentStore


# The levels' decisions of each line, kept in a store.
#
# Messages are not kept, since every call brings them; their replacements are: excerpts of results, summaries. So states in a
# folder hold text of conversations, and old ones are removed.


LOG = logging.getLogger("ullage.proxy")

_DOCUMENT = "proxy-lines"
_NAME = re.compile("[0-9a-f]{16}")


class LineStates:
    """States of lines by the name of their conversation.

    Old ones are removed even if none are kept now; other stores than folders have their own limits.
    """

    def __init__(self, settings: ProxySettings) -> None:
        self._settings, self._swept = settings, float("-inf")
        self._store = settings.store if settings.keep_text else None

    def save(self, line: ClientLine) -> None:
        """Keep a line's state; if the store fails, log it and continue."""
        if self._store is None:
            return
        try:
            try:
                _save(self._store, line)
            except LogConflict:  # another line of this conversation was saved meanwhile
                _save(self._store, line)
        except (UllageError, OSError, ValueError) as exc:
            LOG.warning("the state of a conversation was not kept: %s", type(exc).__name__)
        self.sweep()

    def sweep(self) -> None:
        """Remove states that are too old or too large, at most once an hour; log a folder that cannot be read."""
        settings, folder = self._settings, self._settings.store
        if not isinstance(folder, FolderStore):
            return
        # It lists the folder; states are kept for days, so an hour more does not matter.
        if time.monotonic() <= self._swept + 3600:
            return
        self._swept = time.monotonic()
        try:
            forget_old(folder, days=settings.state_days, most_bytes=settings.state_bytes)
        except (UllageError, OSError) as exc:
            LOG.warning("old states of conversations were not removed: %s", type(exc).__name__)

    def loaded(
        self, name: str, bare: Sequence[Any], new: Callable[[], ContextManager]
    ) -> ContextManager | None:
        """A manager restored from a kept state; `None` if no state fits this list."""
        if self._store is None:
            return None
        try:
            held, _ = _load(self._store, name)
        except (StoreError, ValueError) as exc:
            LOG.warning("the state of a conversation was not read: %s", type(exc).__name__)
            return None
        # The newest first: clients usually continue from there and rarely go back.
        for state in reversed(held.values()):
            manager = new()
            try:
                if manager.load_view_state(state, bare):
                    return manager
            except UllageError as exc:  # of another version, or damaged
                LOG.warning("the state of a conversation cannot be used: %s", type(exc).__name__)
        return None


def _save(store: DocumentStore, line: ClientLine) -> None:
    held, version = _load(store, line.name)
    held.pop(str(line.number), None)
    held[str(line.number)] = line.manager.view_state()
    newest = dict(list(held.items())[-4:])  # of so many lines the state is kept
    store.save(line.name, _DOCUMENT, orjson.dumps(newest), after=version)


def _load(store: DocumentStore, name: str) -> tuple[dict[str, Any], int]:
    """A conversation's states by the number of their line, the newest last, and their version."""
    document = store.load(name, _DOCUMENT)
    if document is None:
        return {}, 0
    states = orjson.loads(document.data)
    return states if isinstance(states, dict) else {}, document.version


def forget_all(store: FolderStore) -> int:
    """Remove the states of all conversations and return how many. The key of compaction items stays, since clients hold such items.

    Raises:
        StoreError: The folder cannot be read or written.
    """
    names = list(_conversations(store))
    for name in names:
        store.forget(name)
    return len(names)


def forget_old(store: FolderStore, *, days: float, most_bytes: int) -> None:
    """Remove states by days since their last change (0: any), then the oldest until the remainder fits (0: no limit).

    Raises:
        StoreError: The folder cannot be read or written.
    """
    usages = ((*store.usage(name), name) for name in _conversations(store))
    latest = time.time() - days * 86_400
    total = 0
    for changed, size, name in sorted(usages, reverse=True):
        total += size
        if (days and changed < latest) or (most_bytes and total > most_bytes):
            store.forget(name)


def _conversations(store: FolderStore) -> Iterator[str]:
    """The gateway's conversations; the folder may hold others."""
    for name in store.conversations():
        ours = _NAME.fullmatch(name) and store.end(name) == 0
        if ours and store.holds(name, _DOCUMENT):
            yield name


_BYTES_PER_TOKEN = 2
"""Fewer bytes per token than any text has: a request below the window's tokens times this is certainly small."""

_UNKNOWN_WINDOW = 200_000
"""Window for a model that is not in the table, as in a manager."""

_BRIEF_BYTES = 64 * 1024
_BRIEF_MESSAGES = 16
"""More new text, or more new messages, run in a thread."""


def gateway_policy(policy: Policy | None = None) -> Policy:
    """A policy without what needs the client's help: tools for the model, stores to recall from, the provider's own edits.

    `policy`: `None`: the default, where clearing waits until it pays for the cache that it breaks.
    """
    own = policy or Policy.buffered()
    off = ("tool_budget.enabled", "snip.turns", "micro.by_provider", "micro.by_cache_edit")
    changed: dict[str, Any] = dict.fromkeys(off, False)
    return own.change({**changed, "micro.provider_compact_tokens": 0, "offer.notice_percent": 0})


def _start_percent(policy: Policy) -> int:
    """Percent of the window below which no level acts."""
    micro, snip = policy.micro, policy.snip
    if micro.by_time or snip.on_arrival:
        return 0
    marks = (
        (True, policy.auto.start_percent or 50),
        (snip.enabled, snip.start_percent),
        (micro.by_supersession, micro.supersede_start_percent),
        (micro.by_line, micro.line_start_percent),
    )
    return min(percent for acts, percent in marks if acts)


def _has_million(call: ClientCall) -> bool:
    """Whether a call names the beta that opens a window of a million tokens."""
    return "context-1m" in call.incoming.header(b"anthropic-beta")


class FittedCall(NamedTuple):
    """A call after the levels ran."""

    line: ClientLine
    client_list: ClientList
    reports: tuple[StageReport, ...]  # of the levels that acted in this call
    raw: bytes  # the body to send: the client's own bytes until a level acts


class Fitter:
    """Runs the levels on calls; `states`: where lines are kept over a restart."""

    def __init__(self, settings: ProxySettings, states: LineStates) -> None:
        self.policy, self.lines = gateway_policy(settings.policy), ClientLines()
        self._states, self._record = states, settings.record
        self._start = _start_percent(self.policy)
        # The smallest window that the levels may work in (COST-1).
        least, cost = {"knee": FLOOR_TOKENS, "price": 0}, self.policy.cost
        self._size = cost.work_tokens or least.get(cost.work, sys.maxsize)
        # Names of conversations refused as too large: their window is smaller than the table says.
        self._refused: set[str] = set()

    def may_be_due(self, call: ClientCall) -> bool:
        """Whether a level could act on a call, by its size alone, so that small ones pass at once; true if one like it was refused."""
        if call.endpoint.kind not in ("messages", "chat", "responses"):
            return False
        if self._refused and name_of(call) in self._refused:
            return True
        row = ModelTable.builtin().find(call.model)
        window = _UNKNOWN_WINDOW if row is None else row.context_window
        if _has_million(call):
            window = 1_000_000
        tokens = min(window, self._size) * self._start // 100
        return self._record is not None or len(call.raw) > tokens * _BYTES_PER_TOKEN

    async def fit(self, call: ClientCall) -> FittedCall | None:
        """The call made to fit; `None`: send it unchanged."""
        try:
            # A smaller body parses in about a millisecond, so a thread would only add to it.
            if len(call.raw) < 1024 * 1024:
                client_list = ClientList.of(call)
            else:
                client_list = await asyncio.to_thread(ClientList.of, call)
            if client_list is None:
                return None
            line, same = await self._line(client_list)
            async with line.lock:
                # Slow work runs in a thread, so that other calls go on.
                if _is_brief(line, client_list, same):
                    fitted = self._fitted(line, client_list, same)
                else:
                    fitted = await asyncio.to_thread(self._fitted, line, client_list, same)
                if fitted.reports:
                    await asyncio.to_thread(self._states.save, line)
                return fitted
        except ContextTooLarge as exc:
            LOG.warning("nothing left to make smaller: %s", exc)
        except UllageError as exc:
            LOG.warning("a call is passed on unchanged: %s", type(exc).__name__)
        except Exception:  # whatever a client sends, its provider can still answer
            LOG.exception("a call could not be read and is passed on unchanged")
        return None

    async def _line(self, client_list: ClientList) -> tuple[ClientLine, int]:
        """The line that a call continues (the nearest, a fork of it, or a new one), and how many of its messages it has seen."""
        near, same = self.lines.nearest(client_list)
        if near is not None:
            client_list.bare[:same] = near.bare[:same]  # keep one copy in memory, the manager's
        if near is not None and same == len(near.bare):
            near.bare = client_list.bare  # before anything is awaited: the next call sees it
            self.lines.used(near)
            return near, same
        if near is not None and same:
            async with near.lock:
                manager = await asyncio.to_thread(near.manager.fork)
                seen = near.seen
        else:
            manager, seen = await asyncio.to_thread(self._begun, client_list), 0
        return self.lines.add(client_list, manager, seen), same

    def _begun(self, client_list: ClientList) -> ContextManager:
        """A manager for a line that is not in memory, with an earlier process's state if one fits."""
        call, thinking = client_list.call, client_list.thinking
        understood = isinstance(thinking, dict) and call.endpoint.provider == "anthropic"
        # Takes 30 ms, and small calls are passed on without.
        from ullage.manager import ContextManager
        from ullage.providers.incoming import CountedTools

        def new() -> ContextManager:
            return ContextManager(
                model=call.model,
                provider=call.endpoint.provider,
                policy=self.policy,
                system=client_list.system,
                tools=CountedTools(client_list.tools),
                thinking=thinking if understood else None,
                context_window=1_000_000 if _has_million(call) else None,
            )

        return self._states.loaded(client_list.name, client_list.bare, new) or new()

    def _fitted(self, line: ClientLine, client_list: ClientList, same: int) -> FittedCall:
        call, manager = client_list.call, line.manager
        view = manager.changed_view(
            client_list.bare,
            unchanged=min(same, line.seen),
            system=client_list.system,
            tools=client_list.tools,
            model=None if manager.model.name == call.model else call.model,
        )
        line.seen, line.size = len(client_list.bare), len(call.raw)
        items = client_list.written(view) if view is not None and view.changed else None
        raw = call.raw if items is None else call.with_items(items)
        self._recorded(line, client_list, view, raw)
        return FittedCall(line, client_list, () if view is None else view.reports, raw)

    def _recorded(
        self, line: ClientLine, client_list: ClientList, view: ListView | None, raw: bytes
    ) -> None:
        """Record what is sent, if wanted; if that fails, log it and continue."""
        if self._record is None:
            return
        call, bare = client_list.call, client_list.bare
        head = {key: value for key, value in (call.body or {}).items() if value is not call.items}
        sent = {call.endpoint.provider: raw}
        try:
            if line.records is None:
                from ullage.transcript.record import RecordFile

                line.records = RecordFile.of(self._record, f"{line.name} {line.number}")
            if view is None:
                line.records.add(bare, bare, range(len(bare)), head=head, form=sent)
            else:
                line.records.add_view(bare, view, head=head, form=sent)
        except (UllageError, OSError, ValueError) as exc:
            LOG.warning("a call was not recorded: %s", type(exc).__name__)

    async def recovered(self, fitted: FittedCall, error: object) -> FittedCall | None:
        """The call made smaller after the provider refused it as too large; `None` for another error, or if nothing helps."""
        try:
            async with fitted.line.lock:
                return await asyncio.to_thread(self._recovered, fitted, error)
        except ContextTooLarge as exc:
            LOG.warning("nothing left to make smaller: %s", exc)
        except Exception:
            LOG.exception("a refused call could not be made smaller")
        return None

    def _recovered(self, fitted: FittedCall, error: object) -> FittedCall | None:
        line, client_list = fitted.line, fitted.client_list
        done = line.manager.on_overflow(error)
        if not done:
            return None
        view, call = line.manager.view(client_list.bare), client_list.call
        keys = ("max_completion_tokens", "max_output_tokens", "max_tokens")
        key = next((key for key in keys if key in (call.body or {})), keys[-1])
        smaller = {} if done.max_tokens is None else {key: done.max_tokens}
        raw = call.with_items(client_list.written(view), **smaller)
        self._recorded(line, client_list, view, raw)
        self._states.save(line)
        if len(self._refused) < 10_000:  # one more would be refused again, then made smaller
            self._refused.add(line.name)
        if raw == fitted.raw:
            return None
        return FittedCall(line, client_list, (*fitted.reports, *done.reports, *view.reports), raw)


def _is_brief(line: ClientLine, client_list: ClientList, same: int) -> bool:
    """Whether the levels are certain to be quick: a few new messages at the end, and too little for a summary.

    That takes less time than waking a thread on a busy machine.
    """
    new_bytes = len(client_list.call.raw) - line.size
    if same < line.seen or not 0 <= new_bytes <= _BRIEF_BYTES or not line.seen:
        return False
    machine = line.manager.machine
    most = machine.tokens + new_bytes // _BYTES_PER_TOKEN
    return len(client_list.bare) - line.seen <= _BRIEF_MESSAGES and most < machine.window.threshold
