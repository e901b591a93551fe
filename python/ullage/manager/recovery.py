"""The last resorts after a provider refused a request as too long (AUTO-6, AUTO-7, WIN-6).

The levels that can drain are asked in their order, each once per request: staged collapses, a full compaction, the same in
parts, a fold without a model, hard truncation; then a typed error. A step that makes enough room ends the round; the next
refusal of the same request goes on with the step after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ullage.effects import Flow
from ullage.exceptions import ContextTooLarge
from ullage.levels import pipeline
from ullage.levels.level import Goal
from ullage.manager.compactions import Autocompaction
from ullage.manager.host import Host
from ullage.manager.machine import Machine
from ullage.manager.request_writer import RequestWriter
from ullage.manager.values import Recovery

if TYPE_CHECKING:
    from ullage.providers.errors import Classified

__all__ = ["recover"]

ENOUGH_PERCENT = 95
"""Percent of the refused size to get below where the error names no gap: any less is hardly a step."""

OUTPUT = "output"
"""In `Machine.steps_tried`: a smaller output was asked for; where that is refused too, room is made."""


def recover(machine: Machine, host: Host, writer: RequestWriter, error: Any) -> Flow[Recovery]:
    """Make room after a refusal.

    Returns:
        False (as a truth value) where the error is another one.

    Raises:
        ContextTooLarge: Every step was tried and what must stay is still too much.
    """
    from ullage.providers.errors import classify

    found = classify(error, provider=machine.provider)
    if found.is_overflow:
        writer.note_imported(machine)
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
    compactor = Autocompaction(machine, host)
    context = machine.context(host, None, goal=Goal(goal, refused=True), compactor=compactor)
    before = context.estimated()
    for name, drains in pipeline.resorts(machine.levels) if machine.window.compaction else ():
        if name in machine.steps_tried:
            continue
        machine.steps_tried.append(name)
        for drain in drains:
            yield from pipeline.take(drain(context), context, machine.noted)
        compactor.ended()
        now = context.estimated()
        if now < before and now <= goal:
            freed, reports = before - now, tuple(context.reports)
            return Recovery(found.kind, name, freed, found.learned_limit, reports)
    floor = context.estimated()
    hint = "start a new conversation or a model with more room"
    if not machine.window.compaction:
        hint = "compaction is turned off: unset DISABLE_COMPACT"
    raise ContextTooLarge(floor, min(goal, machine.window.prompt), hint=hint)


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
    estimated = machine.estimated()
    enough = estimated * ENOUGH_PERCENT // 100
    if found.gap_tokens and found.used_tokens:
        # The gap is in the provider's tokens; our estimate of the same request may be larger or smaller.
        return min(enough, estimated - -(-found.gap_tokens * estimated // found.used_tokens))
    return enough if found.learned_limit is None else min(enough, found.learned_limit)
