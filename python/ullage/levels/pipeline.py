"""The levels in their order, and the loop that runs them: for a request, and after a provider refused one."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from itertools import groupby
from operator import itemgetter

from ullage.effects import Flow
from ullage.exceptions import InvalidPolicy
from ullage.levels import (
    autocompact,
    collapse,
    context_edits,
    drop_stale_thinking,
    fold,
    image_limit,
    microcompact,
    offers,
    pins,
    provider_clearing,
    snip,
    squeeze,
    tool_budget,
    truncate,
    turn_snip,
)
from ullage.levels.level import NEVER, Context, Level, LevelState, Outcome, Rest
from ullage.levels.view import StageReport

ORDER: tuple[Level, ...] = (
    tool_budget.LEVEL,
    snip.LEVEL,
    turn_snip.LEVEL,
    context_edits.LEVEL,
    provider_clearing.LEVEL,
    microcompact.LEVEL,
    collapse.LEVEL,
    offers.LEVEL,
    autocompact.LEVEL,
    autocompact.AFTER_COLLAPSE,
    squeeze.LEVEL,
    fold.LEVEL,
    truncate.LEVEL,
    image_limit.LEVEL,
    drop_stale_thinking.LEVEL,
    pins.LEVEL,
)
"""Each acts only on what the ones before left over: least lossy first."""

Act = Callable[[Context], Outcome]
Note = Callable[[StageReport], Flow[StageReport]]


def checked(levels: Sequence[Level]) -> tuple[Level, ...]:
    """An order that holds every level of `ORDER`, and no name or kind of state twice.

    Raises:
        InvalidPolicy: It does not; names the level.
    """
    names = [level.name for level in levels]
    kinds = [level.state for level in levels if level.state is not None]
    missing = [level.name for level in ORDER if level not in levels]
    if missing:
        raise InvalidPolicy("levels", ", ".join(names), f"must hold {', '.join(missing)}")
    if len(set(names)) < len(names) or len(set(kinds)) < len(kinds):
        raise InvalidPolicy("levels", ", ".join(names), "must not repeat a name or a kind of state")
    return tuple(levels)


def fresh_states(levels: tuple[Level, ...] = ORDER) -> dict[str, LevelState]:
    """The states of a conversation that begins, by the names of their levels."""
    return {level.name: level.state() for level in levels if level.state is not None}


def run(
    levels: tuple[Level, ...], context: Context, note: Note, *, at_rest: bool = False
) -> Flow[None]:
    """Run the levels, in order, for a request.

    `at_rest`: all marks hold: until a level has changed something, only those are asked that state none. `note` takes each report
    into account as soon as its level has acted, and gives it back complete for `context.reports`.
    """
    edits = context.view.edits
    for level in levels:
        at_rest = at_rest and context.view.edits == edits and not context.reports
        if at_rest and level.rest is not None:
            continue
        outcome = level.run(context)
        if outcome is not None:
            yield from take(outcome, context, note)


def resting(levels: tuple[Level, ...], context: Context) -> Rest:
    """Until when no level that states marks has anything to do."""
    marks = [level.rest(context) for level in levels if level.rest is not None]
    return NEVER.both(*[mark for mark in marks if mark is not NEVER])


def take(outcome: Outcome, context: Context, note: Note) -> Flow[None]:
    """Take in what a level's `run` or `drain` came to, whether it yields effects or not."""
    if isinstance(outcome, Generator):
        outcome = yield from outcome
    if outcome is not None:
        # Before the next level acts: where this one changed something is a place in the view as it left it.
        settled = drop_stale_thinking.after(outcome, context.view, context.model)
        context.reports.append((yield from note(settled)))


def resorts(levels: tuple[Level, ...]) -> Iterator[tuple[str, list[Act]]]:
    """The last resorts after a refusal, in order, by name: what the levels do that each is made of."""
    able = [(level.resort or level.name, level.drain) for level in levels if level.drain]
    for name, group in groupby(able, key=itemgetter(0)):
        yield name, [drain for _, drain in group]
