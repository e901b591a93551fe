"""Feeds a session to a context manager, request by request, and computes the effect on the provider's cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Unpack

from ullage._engine import core
from ullage.counting.calibration import weights_for
from ullage.counting.models import Model, ModelTable
from ullage.counting.window import WindowSettings, window_for
from ullage.exceptions import ContextTooLarge
from ullage.levels.cost import rates_of
from ullage.manager import ContextManager, Request
from ullage.manager.outside import Surroundings
from ullage.policy import Policy
from ullage.recall.store import MemoryStore
from ullage.replay.session_script import SessionScript

Seen = Callable[[ContextManager, Request], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedTurn:
    """One request.

    Attributes:
        number: From 1.
        message: Number of messages before it.
        tokens: Estimated size of the request; `unmanaged_tokens`: its size without any management.
        own_tokens: Reported size of the session's own prompt; 0: unknown.
        by_category: Tokens of the request by category.
        acted: Level, reason and freed tokens of each that acted.
        rewritten_from: First message that differs from the request before; `None`: none does.
        read_tokens: Read from the provider's cache; `written_tokens`: written to it.
        rewritten_tokens: Those written tokens that were in the cache until a level changed something before them.
    """

    number: int
    message: int
    tokens: int
    unmanaged_tokens: int
    own_tokens: int
    by_category: Mapping[str, int] = field(default_factory=dict)
    acted: tuple[tuple[str, str, int], ...] = ()
    rewritten_from: int | None = None
    read_tokens: int = 0
    written_tokens: int = 0
    rewritten_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Run:
    """A session replayed under one policy.

    Attributes:
        name: Of the policy, or `unmanaged`.
        turns: Every request.
        error: Why it ended early; empty if it did not.
        nanousd: Cost of all prompts, cached where possible, in 10⁻⁹ dollars.
        window_tokens: The model's window.
        working_tokens: The window that the levels worked in, lower where the settings say so.
    """

    name: str
    turns: tuple[ReplayedTurn, ...]
    error: str = ""
    nanousd: int = 0
    window_tokens: int = 0
    working_tokens: int = 0

    def __repr__(self) -> str:
        return f"Run({self.name}: {len(self.turns)} requests, {self.rewrites} rewrites)"

    @property
    def rewrites(self) -> int:
        """Requests that changed what was sent before."""
        return sum(turn.rewritten_from is not None for turn in self.turns)

    @property
    def refused(self) -> int:
        """Requests over the window."""
        return sum(turn.tokens > self.window_tokens for turn in self.turns)

    def total(self, name: str) -> int:
        """The sum of a figure over all requests."""
        return sum(getattr(turn, name) for turn in self.turns)


def replay_session(
    script: SessionScript,
    policy: Policy | None,
    *,
    model: str = "",
    table: ModelTable | None = None,
    seen: Seen | None = None,
    **outside: Unpack[Surroundings],
) -> Run:
    """Replay a session.

    Args:
        script: What was said.
        policy: `None`: the context is not managed.
        model: Model whose window applies; empty: the session's.
        table: Model table; `None`: the built-in one.
        seen: Called for every request, with the manager in its state at that point.
        **outside: Further arguments of `ContextManager`.
    """
    models = table or ModelTable.builtin()
    row = models.lookup(model or script.model or DEFAULT_MODEL)
    turns, error = list[ReplayedTurn](), ""
    settings = outside.get("settings") or WindowSettings.from_env()
    working = window_for(row, settings=settings).context
    played = _unmanaged(script, row)
    if policy is not None:
        # A script holds the internal view.
        given: Any = {"provider": "anthropic", "store": MemoryStore(), **outside}
        manager = ContextManager(model=row.name, policy=policy, table=models, **given)
        manager.machine.overhead["system"] = script.overhead_tokens
        manager.machine.set_window(row)
        working = manager.machine.window.context
        played = _managed(script, manager, row, seen)
    try:
        for turn in played:
            turns.append(turn)
    except ContextTooLarge as exc:
        error = str(exc)
    cost = sum(_nanousd(turn, row) for turn in turns)
    name = policy.preset if policy is not None else "unmanaged"
    return Run(name, tuple(turns), error, cost, row.context_window, working)


WORKING_SIZES: Final = (80_000, 120_000, 200_000, 400_000)
"""Windows, in tokens, in which a session is tried in addition to the model's own: what agents commonly set."""


class SizeCost(NamedTuple):
    """What a session's prompts cost where the levels work in a window of `tokens`; `largest` is its largest request."""

    tokens: int
    nanousd: int
    largest: int


def costs_by_size(
    script: SessionScript,
    policy: Policy,
    *,
    model: str = "",
    sizes: Sequence[int] = WORKING_SIZES,
    step: Callable[[], object] = lambda: None,
) -> tuple[SizeCost, ...]:
    """Replay a session at several working sizes, up to the model's window, smallest first.

    Args:
        script: What was said.
        policy: Of the levels.
        model: Model whose window and prices apply; empty: the session's.
        sizes: In tokens; those above the model's window are left out, its window is added.
        step: Called once for each of `sizes`, as the work goes on.
    """
    costs = list[SizeCost]()
    whole = ModelTable.builtin().lookup(model or script.model or DEFAULT_MODEL).context_window
    for size in sizes:
        if size < whole:
            costs.append(_at_size(script, policy, model, size))
        step()
    return (*costs, _at_size(script, policy, model, whole))


def _at_size(script: SessionScript, policy: Policy, model: str, size: int) -> SizeCost:
    run = replay_session(
        script, policy, model=model, settings=WindowSettings(auto_compact_window=size)
    )
    return SizeCost(size, run.nanousd, max((turn.tokens for turn in run.turns), default=0))


DEFAULT_MODEL = "claude-opus-4-5"
"""For a session that names no model."""


def _unmanaged(script: SessionScript, row: Model) -> Iterator[ReplayedTurn]:
    before = 0
    for number, (at, tokens) in enumerate(_sizes(script, row), 1):
        yield ReplayedTurn(
            number=number,
            message=at + 1,
            tokens=tokens,
            unmanaged_tokens=tokens,
            own_tokens=_own(script, at),
            read_tokens=before,
            written_tokens=tokens - before,
        )
        before = tokens


def _sizes(script: SessionScript, row: Model) -> Iterator[tuple[int, int]]:
    ledger, added = core.Ledger(weights_for(row)), 0
    for at in script.requests():
        ledger.extend(script.messages[added : at + 1])
        added = at + 1
        yield at, int(ledger.tokens()) + script.overhead_tokens


def _own(script: SessionScript, at: int) -> int:
    """The prompt that the session itself sent here, as the response reports it."""
    return script.own_tokens[at + 1] if at + 1 < len(script.own_tokens) else 0


def _managed(
    script: SessionScript, manager: ContextManager, row: Model, seen: Seen | None
) -> Iterator[ReplayedTurn]:
    added, sent = 0, 0
    for at, unmanaged in _sizes(script, row):
        for message in script.messages[added : at + 1]:
            manager.add(message)
        added = at + 1
        request = manager.prepare(now_ms=script.times[at] or None)
        if seen is not None:
            seen(manager, request)
        turn = _turn(manager, request, unmanaged, _own(script, at), at, sent)
        sent = int(manager.machine.view.ledger.tokens())
        yield turn


def _turn(
    manager: ContextManager, request: Request, unmanaged: int, own: int, at: int, sent: int
) -> ReplayedTurn:
    """The cache holds the last request up to where this one differs."""
    ledger, overhead = manager.machine.view.ledger, manager.machine.overhead_tokens
    size, first = int(ledger.tokens()), request.rewritten_from
    same = sent if first is None else min(size, int(ledger.tokens(0, first)))
    read = same + overhead if request.number > 1 else 0
    return ReplayedTurn(
        number=request.number,
        message=at + 1,
        tokens=request.tokens,
        unmanaged_tokens=unmanaged,
        own_tokens=own,
        by_category=manager.explain(request.number).by_category,
        acted=tuple((report.stage, report.why, report.freed) for report in request.reports),
        rewritten_from=first,
        read_tokens=read,
        written_tokens=size + overhead - read,
        rewritten_tokens=0 if first is None else max(0, min(size, sent) - same),
    )


def _nanousd(turn: ReplayedTurn, model: Model) -> int:
    write, read = rates_of(model, turn.tokens)
    return turn.read_tokens * read + turn.written_tokens * write
