"""Everything that a report says about one session, as plain values."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ullage.counting.estimate import weights_for
from ullage.counting.models import Model, ModelTable
from ullage.counting.window import Window, WindowSettings, window_for
from ullage.facts import collect
from ullage.levels.breakdown import Inspection, inspect_messages
from ullage.manager import ContextManager, Request
from ullage.messages import Item, message_of
from ullage.policy import Policy
from ullage.recall import Archive
from ullage.replay import (
    DEFAULT_MODEL,
    WORKING_SIZES,
    Run,
    SessionScript,
    SizeCost,
    costs_by_size,
    replay_session,
    script_of,
)
from ullage.report.removals import Removal, TextBudget, removal_of
from ullage.report.verbatim_facts import FactCount, facts_in, kept_facts
from ullage.sessions import Session, compact_session

__all__ = ["CompactionFigures", "Mark", "SessionFigures", "figures_of"]

PAGE_CHARS = 900_000
"""Removed text on a page: what keeps it under 2 MB with figures and charts."""

SUMMARY_CHARS = 60_000

STEPS = 4 + len(WORKING_SIZES)
"""How often `figures_of` calls `step`."""


class Mark(NamedTuple):
    """A size at which something happens, such as the automatic compaction."""

    name: str
    tokens: int


@dataclass(frozen=True, slots=True)
class CompactionFigures:
    """A compaction before and after.

    Attributes:
        where: Which one, in words.
        tokens_before: Of the context.
        tokens_after: Of the new context.
        messages_before: In the context.
        messages_after: In the new one.
        summary: Its text.
        facts: What it kept and lost, by kind.
    """

    where: str
    tokens_before: int
    tokens_after: int
    messages_before: int
    messages_after: int
    summary: str
    facts: tuple[FactCount, ...]


@dataclass(frozen=True, slots=True, repr=False)
class SessionFigures:
    """One session.

    Attributes:
        name: Of the file.
        format: Of its transcript.
        model: Whose window and prices apply.
        marks: Sizes at which a level or the provider acts, largest first.
        runs: The session replayed: under the chosen policy, unmanaged, and under the other preset.
        sizes: What it costs under the chosen policy in windows of several sizes, smallest first.
        times_ms: For each request, when its newest message was said; 0: unknown.
        own_compactions: Requests before which the session compacted itself.
        holds: What the context holds now.
        removals: What left it in the first run, oldest first.
        compaction: The newest one of the first run, or else one tried on the session's end; `None`: there was nothing to gain.
        warnings: About the file.
    """

    name: str
    format: str
    model: str
    marks: tuple[Mark, ...]
    runs: tuple[Run, ...]
    sizes: tuple[SizeCost, ...]
    times_ms: tuple[int, ...]
    own_compactions: tuple[int, ...]
    holds: Inspection
    removals: tuple[Removal, ...]
    compaction: CompactionFigures | None
    warnings: tuple[str, ...] = field(default=())

    def __repr__(self) -> str:
        return f"SessionFigures({self.name}: {len(self.runs[0].turns)} requests, {len(self.removals)} removals)"

    @property
    def managed(self) -> Run:
        """The run under the chosen policy."""
        return self.runs[0]

    @property
    def unmanaged(self) -> Run:
        """The run without management."""
        return self.runs[1]


def figures_of(
    session: Session,
    *,
    policy: Policy | None = None,
    model: str = "",
    settings: WindowSettings | None = None,
    budget: TextBudget | None = None,
    step: Callable[[], object] = lambda: None,
) -> SessionFigures:
    """Replay a session and collect what a report shows. Nothing is written and no model is asked.

    Args:
        session: An opened session.
        policy: Under which it is replayed; `None`: `Policy.buffered()`.
        model: Model whose window and prices apply; empty: the session's.
        settings: Of the window, such as a working size below the model's; `None`: those of the environment.
        budget: How much removed text may be shown; `None`: as much as one page holds.
        step: Called `STEPS` times, as the work goes on.
    """
    chosen = policy or Policy.buffered()
    settings = settings or WindowSettings.from_env()
    budget = budget or TextBudget(PAGE_CHARS)
    script = script_of(session)
    seen = _Watcher(script, budget)
    runs = [replay_session(script, chosen, model=model, settings=settings, seen=seen)]
    step()
    other = Policy.ladder() if chosen == Policy.buffered() else Policy.buffered()
    for each in (None, other):
        runs.append(replay_session(script, each, model=model, settings=settings))
        step()
    row = ModelTable.builtin().lookup(model or script.model or DEFAULT_MODEL)
    figures = SessionFigures(
        name=session.path.name,
        format=session.format,
        model=row.name,
        marks=_marks(window_for(row, settings=settings), session),
        runs=tuple(runs),
        sizes=costs_by_size(script, chosen, model=model, step=step),
        times_ms=tuple(script.times[turn.message - 1] for turn in runs[0].turns),
        own_compactions=_own_compactions(script, runs[0]),
        holds=_holds(session, row),
        removals=tuple(seen.removals),
        compaction=seen.compaction or _tried(session, chosen, model, budget),
        warnings=tuple(map(budget.clean, session.warnings)),
    )
    step()
    return figures


class _Watcher:
    """Notes what leaves in a replay, and its newest compaction."""

    def __init__(self, script: SessionScript, budget: TextBudget) -> None:
        self.script, self.budget = script, budget
        self.archive = Archive(script.messages)
        self.removals: list[Removal] = []
        self.compaction: CompactionFigures | None = None

    def __call__(self, manager: ContextManager, request: Request) -> None:
        said = len(manager.history)
        when = self.script.times[said - 1] if said else 0
        for report in request.reports:
            if report.freed or report.tool_use_ids or report.removed:
                found = removal_of(report, self.archive, self.budget, time_ms=when)
                self.removals.append(found)
        done = request.compaction
        if done is not None and done.compacted:
            counts = done.report
            self.compaction = _compaction(
                f"the automatic compaction before request {request.number:,}",
                (counts.tokens_before, counts.tokens_after),
                self.script.messages[:said],
                request.messages,
                done.summary_messages[-1:],
                self.budget,
            )


def _tried(
    session: Session, policy: Policy, model: str, budget: TextBudget
) -> CompactionFigures | None:
    """What `ullage compact --dry-run` would do at the session's end."""
    done = compact_session(session, policy=policy, model=model or None)
    if not done.result.compacted:
        return None
    counts = done.result.report
    return _compaction(
        "a compaction at the end of the session, without a model",
        (counts.tokens_before, counts.tokens_after),
        session.messages,
        done.messages,
        done.result.summary_messages[-1:],
        budget,
    )


def _compaction(
    where: str,
    tokens: tuple[int, int],
    before: Sequence[Item],
    after: Sequence[Item],
    summary: Sequence[Item],
    budget: TextBudget,
) -> CompactionFigures:
    facts = kept_facts(facts_in(collect(before)), after)
    clean = (
        dataclasses.replace(each, lost=tuple(budget.clean(text)[:400] for text in each.lost))
        for each in facts
    )
    text = "\n\n".join(map(_plain, summary))
    return CompactionFigures(
        where=where,
        tokens_before=tokens[0],
        tokens_after=tokens[1],
        messages_before=len(before),
        messages_after=len(after),
        summary=budget.clean(text)[:SUMMARY_CHARS],
        facts=tuple(clean),
    )


def _plain(item: Item) -> str:
    content = (message_of(item) or item).get("content")
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else ()
    return "\n".join(str(block.get("text", "")) for block in blocks if isinstance(block, dict))


def _marks(window: Window, session: Session) -> tuple[Mark, ...]:
    marks = [
        Mark("window", window.context),
        Mark("requests are blocked", window.blocking_at),
        Mark("automatic compaction", window.threshold),
        Mark("warning", window.warning_at),
    ]
    if session.window_tokens not in (0, window.context):
        marks.append(Mark("the client's own limit", session.window_tokens))
    return tuple(sorted(marks, key=lambda mark: -mark.tokens))


def _own_compactions(script: SessionScript, run: Run) -> tuple[int, ...]:
    found = (
        next((turn.number for turn in run.turns if turn.message > at), None)
        for at in script.compactions
    )
    return tuple(number for number in found if number is not None)


def _holds(session: Session, row: Model) -> Inspection:
    weights = weights_for(row.name)
    beside = session.overhead_tokens(weights)
    return inspect_messages(session.items, weights=weights, overhead_tokens=beside)
