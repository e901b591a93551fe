"""Makes a client's call fit: finds its conversation, runs the levels, and writes the call again if anything is due."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Any

from ullage.counting.models import ModelTable
from ullage.exceptions import ContextTooLarge, UllageError
from ullage.levels.report import StageReport
from ullage.manager import ContextManager
from ullage.policy import Policy
from ullage.providers.native_tools import CountedTools
from ullage.proxy.client_calls import ClientCall
from ullage.proxy.client_lines import ClientLine, ClientLines, name_of
from ullage.proxy.client_list import ClientList
from ullage.proxy.line_states import LineStates

__all__ = ["FittedCall", "Fitter", "gateway_policy"]

LOG = logging.getLogger("ullage.proxy")

_BYTES_PER_TOKEN = 2
"""Fewer than any text has: a request of fewer bytes than its window allows tokens, times this, is small for certain."""

_MILLION = "context-1m"
"""Part of the beta that opens a window of a million tokens."""

_UNKNOWN_WINDOW = 200_000
"""Tokens, for a model that the table does not have; what a manager assumes too."""

_SMALL_BYTES = 1024 * 1024
"""Below this a body is read in about a millisecond, and a thread would only add to it."""

_BRIEF_BYTES = 64 * 1024
_BRIEF_MESSAGES = 16
"""More new text, or more new messages, are looked at in a thread."""

_MOST_REFUSED = 10_000
"""Names that are remembered; a call that is not is refused, and then made smaller."""


def gateway_policy(policy: Policy | None = None) -> Policy:
    """A policy without what needs the client's help: tools for the model, stores it could recall from, the provider's own edits.

    Args:
        policy: `None`: the default, where clearing waits until it pays for the cache that it breaks.
    """
    own = policy or Policy.buffered().change({"cost.wait_requests": 10})
    off = ("tool_budget.enabled", "snip.turns", "micro.by_provider", "micro.by_cache_edit")
    changed: dict[str, Any] = dict.fromkeys(off, False)
    return own.change({**changed, "micro.provider_compact_tokens": 0, "offer.notice_percent": 0})


def _start_percent(policy: Policy) -> int:
    """Percent of the window below which no level does anything."""
    if policy.micro.by_time or policy.snip.on_arrival:
        return 0
    marks = [policy.auto.start_percent or 50]
    marks += [policy.snip.start_percent] if policy.snip.enabled else []
    marks += [policy.micro.supersede_start_percent] if policy.micro.by_supersession else []
    marks += [policy.micro.line_start_percent] if policy.micro.by_line else []
    return min(marks)


@dataclass(frozen=True, slots=True)
class FittedCall:
    """A call that was looked at.

    Attributes:
        line: Its conversation.
        given: Its list.
        reports: Of the levels that acted in this call.
        raw: The body to send: the client's own bytes as long as no level has acted.
    """

    line: ClientLine
    given: ClientList
    reports: tuple[StageReport, ...]
    raw: bytes


class Fitter:
    """Runs the levels on calls.

    Args:
        policy: Of the levels.
        states: Where lines are kept over a restart.
    """

    def __init__(self, policy: Policy, states: LineStates) -> None:
        self.policy, self.lines = policy, ClientLines()
        self._states, self._start = states, _start_percent(policy)
        # Names of what was refused as too large: its window is smaller than the table says.
        self._refused: set[str] = set()

    def may_be_due(self, call: ClientCall) -> bool:
        """Whether a level could act on a call; by its size alone, so that small ones leave at once, unless one like it was refused."""
        if call.endpoint.kind not in ("messages", "chat", "responses"):
            return False
        if self._refused and name_of(call) in self._refused:
            return True
        tokens = _window_of(call) * self._start // 100
        return len(call.raw) > tokens * _BYTES_PER_TOKEN

    async def fit(self, call: ClientCall) -> FittedCall | None:
        """The call made to fit; `None`: it is sent as it came."""
        try:
            given = await self._read(call)
            if given is None:
                return None
            name, thinking = name_of(call), (call.body or {}).get("thinking")
            line, same = await self._line(name, call, given, thinking)
            async with line.lock:
                return await self._looked_at(line, call, given, same)
        except ContextTooLarge as exc:
            LOG.warning("nothing left to make smaller: %s", exc)
        except UllageError as exc:
            LOG.warning("a call is passed on as it came: %s", type(exc).__name__)
        except Exception:  # whatever a client sends, its provider can still answer
            LOG.exception("a call could not be looked at and is passed on as it came")
        return None

    async def _read(self, call: ClientCall) -> ClientList | None:
        if len(call.raw) < _SMALL_BYTES:
            return ClientList.of(call)
        return await asyncio.to_thread(ClientList.of, call)

    async def _line(
        self, name: str, call: ClientCall, given: ClientList, thinking: object
    ) -> tuple[ClientLine, int]:
        """The line that a call goes on with: the nearest, a fork of it, or a new one; and how many messages it has seen before."""
        near, same = self.lines.nearest(name, given, thinking)
        if near is not None:
            given.bare[:same] = near.bare[
                :same
            ]  # one copy of it in memory, the one that the manager has
        if near is not None and same == len(near.bare):
            near.bare = given.bare  # before anything is awaited: the next call sees it
            self.lines.used(near)
            return near, same
        if near is not None and same:
            async with near.lock:
                manager = await asyncio.to_thread(near.manager.fork)
                taken = near.taken
        else:
            manager, taken = await asyncio.to_thread(self._begun, name, call, given, thinking), 0
        made = self.lines.add(name, manager, thinking)
        made.bare, made.taken = given.bare, taken
        return made, same

    def _begun(
        self, name: str, call: ClientCall, given: ClientList, thinking: Any
    ) -> ContextManager:
        """A manager for a line that is not in memory: with the state that an earlier process left, if one fits."""
        provider = call.endpoint.provider
        window = 1_000_000 if _MILLION in call.incoming.header(b"anthropic-beta") else None

        def new() -> ContextManager:
            return ContextManager(
                model=call.model,
                provider=provider,
                policy=self.policy,
                system=given.system,
                tools=CountedTools(given.tools),
                thinking=thinking
                if isinstance(thinking, dict) and provider == "anthropic"
                else None,
                context_window=window,
            )

        return self._states.loaded(name, given.bare, new) or new()

    async def _looked_at(
        self, line: ClientLine, call: ClientCall, given: ClientList, same: int
    ) -> FittedCall:
        """The call as levels leave it; what takes long runs in a thread, where it does not hold up other calls."""
        if _is_brief(line, call, given, same):
            fitted = self._fitted(line, call, given, same)
        else:
            fitted = await asyncio.to_thread(self._fitted, line, call, given, same)
        if fitted.reports:
            await asyncio.to_thread(self._states.save, line)
        return fitted

    def _fitted(
        self, line: ClientLine, call: ClientCall, given: ClientList, same: int
    ) -> FittedCall:
        manager = line.manager
        view = manager.changed_view(
            given.bare,
            unchanged=min(same, line.taken),
            system=given.system,
            tools=given.tools,
            model=None if manager.model.name == call.model else call.model,
        )
        line.taken, line.size = len(given.bare), len(call.raw)
        if view is None:
            return FittedCall(line, given, (), call.raw)
        raw = call.with_items(given.written(view)) if view.changed else call.raw
        return FittedCall(line, given, view.reports, raw)

    async def recovered(
        self, fitted: FittedCall, call: ClientCall, error: object
    ) -> FittedCall | None:
        """The call made smaller after the provider refused it as too large; `None`: it is another error, or nothing helps."""
        line = fitted.line
        try:
            async with line.lock:
                return await asyncio.to_thread(self._recovered, fitted, call, error)
        except ContextTooLarge as exc:
            LOG.warning("nothing left to make smaller: %s", exc)
        except Exception:
            LOG.exception("a refused call could not be made smaller")
        return None

    def _recovered(self, fitted: FittedCall, call: ClientCall, error: object) -> FittedCall | None:
        line, given = fitted.line, fitted.given
        done = line.manager.on_overflow(error)
        if not done:
            return None
        view = line.manager.view(given.bare)
        smaller = {} if done.max_tokens is None else {_output_key(call): done.max_tokens}
        raw = call.with_items(given.written(view), **smaller)
        self._states.save(line)
        if len(self._refused) < _MOST_REFUSED:
            self._refused.add(line.name)
        if raw == fitted.raw:
            return None
        return FittedCall(line, given, (*fitted.reports, *done.reports, *view.reports), raw)


def _is_brief(line: ClientLine, call: ClientCall, given: ClientList, same: int) -> bool:
    """Whether a look is surely short: a few new messages at the end, and not enough for a summary to be due.

    It takes less time than a busy machine takes to wake a thread for it.
    """
    new_bytes = len(call.raw) - line.size
    if same < line.taken or not 0 <= new_bytes <= _BRIEF_BYTES or not line.taken:
        return False
    machine = line.manager.machine
    most = machine.tokens + new_bytes // _BYTES_PER_TOKEN
    return len(given.bare) - line.taken <= _BRIEF_MESSAGES and most < machine.trigger()


def _window_of(call: ClientCall) -> int:
    if _MILLION in call.incoming.header(b"anthropic-beta"):
        return 1_000_000
    row = ModelTable.builtin().find(call.model)
    return _UNKNOWN_WINDOW if row is None else row.context_window


def _output_key(call: ClientCall) -> str:
    keys = ("max_completion_tokens", "max_output_tokens", "max_tokens")
    return next((key for key in keys if key in (call.body or {})), keys[-1])
