"""The last resorts after a provider refused a request as too long (AUTO-6, AUTO-7, WIN-6).

In order, each once per request: staged collapses, a full compaction, the same in parts, a fold without a model, hard
truncation; then a typed error. A step that makes enough room ends the round; the next refusal of the
same request goes on with the step after it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ullage.effects import Flow
from ullage.exceptions import ContextTooLarge
from ullage.levels import fold, pipeline, shrink_results
from ullage.levels.report import StageReport
from ullage.manager import prepare
from ullage.manager.machine import Machine
from ullage.manager.prepare import Host
from ullage.manager.values import Recovery
from ullage.providers.errors import Classified, classify

__all__ = ["STEPS", "recover"]

ENOUGH_PERCENT = 95
"""Percent of the refused size to get below where the error names no gap: any less is hardly a step."""

TRUNCATE_PERCENT = 80
"""The same for hard truncation, after which nothing else is left to try."""

OUTPUT = "output"
"""In `Machine.steps_tried`: a smaller output was asked for; where that is refused too, room is made."""

Step = Callable[[Machine, Host, int], Flow[list[StageReport]]]


def _collapse(machine: Machine, host: Host, goal: int) -> Flow[list[StageReport]]:
    del goal
    situation = machine.situation(host, None)
    reports = []
    for level in machine.levels:
        if level.drain is not None:
            state = machine.states.get(level.name)
            report = yield from pipeline.run_one(
                level.drain, machine.view, machine.policy, situation, state
            )
            if report is not None:
                reports.append((yield from prepare.noted(machine, report)))
    return reports


def _compact(machine: Machine, host: Host, goal: int) -> Flow[list[StageReport]]:
    del goal
    if not machine.window.compaction:
        return []
    _, report = yield from prepare.autocompact(machine, host, why="the provider refused")
    return [] if report is None else [report]


def _fold(machine: Machine, host: Host, goal: int) -> Flow[list[StageReport]]:
    del host
    margin, overhead = machine.policy.truncate.margin_tokens, machine.overhead_tokens
    # Each is noted before the next acts: where it changed something is a place in the view as it left it.
    reports = yield from prepare.all_noted(
        machine, [shrink_results.apply(machine.view, goal - overhead)]
    )
    view, policy, history = machine.view, machine.policy, machine.history
    folded = fold.apply(view, policy, goal + margin, overhead, history=history)
    return [*reports, *(yield from prepare.all_noted(machine, [folded]))]


def _truncate(machine: Machine, host: Host, goal: int) -> Flow[list[StageReport]]:
    del host
    margin = machine.policy.truncate.margin_tokens
    size = int(machine.view.ledger.tokens()) + machine.overhead_tokens
    limit = min(goal, size * TRUNCATE_PERCENT // 100) + margin
    return (yield from prepare.all_noted(machine, [prepare.dropped(machine, limit)]))


STEPS: tuple[tuple[str, Step], ...] = (
    ("collapse", _collapse),
    ("compact", _compact),
    ("fold", _fold),
    ("truncate", _truncate),
)


def recover(machine: Machine, host: Host, error: Any) -> Flow[Recovery]:
    """Make room after a refusal.

    Returns:
        False (as a truth value) where the error is another one.

    Raises:
        ContextTooLarge: Every step was tried and what must stay is still too much.
    """
    found = classify(error, provider=machine.provider)
    if machine.recovered != machine.requests:
        machine.recovered, machine.steps_tried = machine.requests, []
    if found.kind == "output_budget":
        smaller = _smaller_output(found)
        if smaller is not None and OUTPUT not in machine.steps_tried:
            machine.steps_tried.append(OUTPUT)
            return Recovery(found.kind, max_tokens=smaller)
    if not found.is_overflow:
        return Recovery(found.kind)
    machine.learn(found.learned_limit)
    goal = _goal(machine, found)
    before, reports = int(machine.view.ledger.tokens()), list[StageReport]()
    for name, step in STEPS if machine.window.compaction else ():
        if name in machine.steps_tried:
            continue
        machine.steps_tried.append(name)
        reports += yield from step(machine, host, goal)
        after = int(machine.view.ledger.tokens())
        if after < before and after + machine.overhead_tokens <= goal:
            return Recovery(found.kind, name, before - after, found.learned_limit, tuple(reports))
    floor = int(machine.view.ledger.tokens()) + machine.overhead_tokens
    hint = "start a new conversation or a model with more room"
    if not machine.window.compaction:
        hint = "compaction is turned off: unset DISABLE_COMPACT"
    raise ContextTooLarge(floor, goal, hint=hint)


def _smaller_output(found: Classified) -> int | None:
    """The most output that the error leaves room for; `None`: it does not say, or that is none."""
    if found.output_limit_tokens is not None:
        return found.output_limit_tokens
    if found.used_tokens is None or found.limit_tokens is None:
        return None
    left = found.limit_tokens - found.used_tokens
    return left if left > 0 else None


def _goal(machine: Machine, found: Classified) -> int:
    """Estimated tokens to get below: what was refused less the gap, or a share of it."""
    estimated = int(machine.view.ledger.tokens()) + machine.overhead_tokens
    enough = estimated * ENOUGH_PERCENT // 100
    if found.gap_tokens and found.used_tokens:
        # The gap is in the provider's tokens; our estimate of the same request may be larger or smaller.
        return min(enough, estimated - -(-found.gap_tokens * estimated // found.used_tokens))
    return enough if found.learned_limit is None else min(enough, found.learned_limit)
