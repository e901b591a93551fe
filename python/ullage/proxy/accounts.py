"""What the page and the metrics show: per conversation what was sent, what the provider counted, and what left."""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from ullage.counting.models import ModelTable
from ullage.proxy.client_calls import ClientCall
from ullage.proxy.fitter import FittedCall
from ullage.proxy.upstream import ReportedTokens

MOST_ACCOUNTS = 200
"""Conversations that are shown; the one that was used longest ago is dropped first."""

MOST_ACTS = 20
"""Newest acts of the levels that are shown for a conversation."""

_BYTES_PER_TOKEN = 4
"""Roughly, for what was not sent: nobody counts it."""


@dataclass(slots=True)
class CallTotals:
    """Sums over calls; tokens are the provider's figures.

    Attributes:
        calls: Calls of the known APIs.
        answered: Of these, answered here without a model.
        changed: Of these, made smaller by the levels.
        recovered: Of these, sent again after a refusal as too large.
        prompt: Tokens of prompts, cached parts included.
        cache_read: Of these, read from the cache; `cache_write`: written to it.
        output: Tokens of answers.
        predicted_read: Tokens that should have been read, over the calls for which that was predicted.
        compared_read: Tokens that were read in the same calls.
        saved_tokens: Tokens that were not sent, by their bytes.
        saved_nanodollars: Their price as read from a cache, the least that they would have cost.
    """

    calls: int = 0
    answered: int = 0
    changed: int = 0
    recovered: int = 0
    prompt: int = 0
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0
    predicted_read: int = 0
    compared_read: int = 0
    saved_tokens: int = 0
    saved_nanodollars: int = 0


@dataclass(slots=True)
class ConversationAccount:
    """One conversation.

    Attributes:
        name: As it is recognised.
        provider: Whose API.
        model: Of the newest call.
        totals: Over its calls.
        fill_tokens: Prompt of the newest call, by the provider; 0: unknown.
        window_tokens: The model's window.
        acts: What levels did: level, freed tokens by estimate, why.
        lines: Number of each line that levels look at, newest last.
        used_at: Time of the newest call, in seconds since the epoch.
    """

    name: str
    provider: str
    model: str = ""
    totals: CallTotals = field(default_factory=CallTotals)
    fill_tokens: int = 0
    window_tokens: int = 0
    acts: deque[tuple[str, int, str]] = field(default_factory=lambda: deque(maxlen=MOST_ACTS))
    lines: list[int] = field(default_factory=list)
    used_at: float = 0.0
    cached: dict[int, int] = field(default_factory=dict)  # by line: tokens that lie in the cache

    @property
    def percent(self) -> int:
        """How full the window is."""
        return 100 * self.fill_tokens // self.window_tokens if self.window_tokens else 0


class CallAccounts:
    """All conversations of this process."""

    def __init__(self) -> None:
        self.totals = CallTotals()
        self._by_name: OrderedDict[str, ConversationAccount] = OrderedDict()

    def __iter__(self) -> Iterator[ConversationAccount]:
        """The conversations, newest first."""
        return iter(tuple(reversed(self._by_name.values())))

    def __len__(self) -> int:
        return len(self._by_name)

    def note(
        self,
        name: str,
        call: ClientCall,
        *,
        fitted: FittedCall | None = None,
        reported: ReportedTokens | None = None,
        answered: bool = False,
        recovered: bool = False,
    ) -> None:
        """Note a call that has ended.

        Args:
            name: Of its conversation.
            call: As the client sent it.
            fitted: What was sent in its place; `None`: it was not looked at.
            reported: What the provider counted; `None`: unknown.
            answered: It was answered here.
            recovered: It was sent again after a refusal.
        """
        account = self._account(name, call)
        for totals in (self.totals, account.totals):
            totals.calls += 1
            totals.answered += answered
            totals.recovered += recovered
        if fitted is not None:
            self._note_fitted(account, call, fitted)
        if reported is not None:
            self._note_reported(account, fitted, reported)

    def _account(self, name: str, call: ClientCall) -> ConversationAccount:
        account = self._by_name.setdefault(name, ConversationAccount(name, call.endpoint.provider))
        self._by_name.move_to_end(name)
        while len(self._by_name) > MOST_ACCOUNTS:
            self._by_name.popitem(last=False)
        row = ModelTable.builtin().find(call.model)
        account.model, account.used_at = call.model, time.time()
        account.window_tokens = 200_000 if row is None else row.context_window
        return account

    def _note_fitted(
        self, account: ConversationAccount, call: ClientCall, fitted: FittedCall
    ) -> None:
        number = fitted.line.number
        if number not in account.lines:
            account.lines.append(number)
        for report in fitted.reports:
            account.acts.append((report.stage, report.freed, report.why))
        saved = max(0, len(call.raw) - len(fitted.raw)) // _BYTES_PER_TOKEN
        row = ModelTable.builtin().find(call.model)
        price = 0 if row is None or row.prices is None else row.prices.cache_read
        for totals in (self.totals, account.totals):
            totals.changed += fitted.raw is not call.raw
            totals.saved_tokens += saved
            # Whole numbers: sums of a day's calls in floats would lose the fractions of a cent that one call saves.
            totals.saved_nanodollars += round(saved * price * 1_000)  # dollars for a million tokens

    def _note_reported(
        self, account: ConversationAccount, fitted: FittedCall | None, reported: ReportedTokens
    ) -> None:
        account.fill_tokens = reported.prompt
        before = None
        if fitted is not None:
            number = fitted.line.number
            # A level that acted breaks the cached prefix on purpose: there is nothing to predict.
            before = None if fitted.reports else account.cached.get(number)
            account.cached[number] = reported.cache_read + reported.cache_write
        for totals in (self.totals, account.totals):
            totals.prompt += reported.prompt
            totals.cache_read += reported.cache_read
            totals.cache_write += reported.cache_write
            totals.output += reported.output
            if before is not None:
                totals.predicted_read += before
                totals.compared_read += reported.cache_read
