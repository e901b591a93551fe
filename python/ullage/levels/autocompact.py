"""Autocompact: the whole conversation is summarised when the threshold is reached, or when the model asked for it.

The summary itself is the business of `context.compactor`, which lies above the levels; here is only when.
"""

from __future__ import annotations

from ullage.effects import Flow
from ullage.levels.level import NEVER, NOW, Context, Level, Rest
from ullage.levels.offers import Offers
from ullage.levels.view import StageReport


def run(context: Context) -> Flow[StageReport | None] | None:
    """Summarise where that is due, or asked for by the model."""
    compactor = context.compactor
    if compactor is None:
        return None
    asked = context.state(Offers).take()
    if asked is not None and compactor.possible:
        return compactor.compact(why="the model asked", instructions=asked)
    return compactor.compact() if compactor.due(context.tokens()) else None


def after_collapse(context: Context) -> Flow[StageReport | None] | None:
    """Summarise after all where context collapse stands in for it, or it rests, and there is no room left (AUTO-7)."""
    compactor = context.compactor
    if compactor is None or not compactor.due_at_last(context.tokens()):
        return None
    collapses = context.policy.collapse.enabled
    why = "context collapse could not make enough room" if collapses else "there is no room left"
    return compactor.compact(why=why)


def rest(context: Context) -> Rest:
    """Until a summary may be due, unless the model has asked for one."""
    compactor = context.compactor
    if compactor is None:
        return NEVER
    asked = context.state(Offers).asked is not None
    return NOW if asked else Rest(tokens=compactor.least_tokens)


def drain(context: Context) -> Flow[StageReport | None] | None:
    """Summarise after a refusal, whatever the count says (AUTO-6)."""
    compactor = context.compactor
    return None if compactor is None else compactor.compact(why="the provider refused")


LEVEL = Level("autocompact", run, drain=drain, resort="compact", rest=rest)
AFTER_COLLAPSE = Level("autocompact_after_collapse", after_collapse, rest=rest)
