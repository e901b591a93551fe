"""A level by itself: the context that it is given, and a loop that answers what it asks for."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from ullage.effects import Call, drive
from ullage.levels.level import Context, Level, Outcome
from ullage.levels.pipeline import fresh_states
from ullage.levels.view import View
from ullage.policy import Policy


def context_of(
    view: View, policy: Policy, *states: Any, percent: int | None = None, **more: Any
) -> Context:
    """What a level is given.

    Args:
        states: In place of fresh ones, by their class.
        percent: Share of the window that the view takes; `None`: the window is unknown, unless `more` names it.
    """
    given = {type(each): each for each in states}
    known = {name: given.get(type(each), each) for name, each in fresh_states().items()}
    if percent is not None:
        tokens = view.tokens(more.get("overhead_tokens", 0))
        more["window_tokens"] = tokens * 100 // percent if percent else 10**9
    return Context(view=view, policy=policy, states=known, **more)


def act(
    how: Level | Callable[[Context], Outcome],
    context: Context,
    perform: Callable[[Any], Any] | None = None,
) -> Any:
    """What a level does, with a store that answers at once; no other effect has a result, unless `perform` gives one."""
    outcome = (how.run if isinstance(how, Level) else how)(context)
    if isinstance(outcome, Generator):
        outcome = drive(outcome, perform or _answer)
    return outcome


def _answer(effect: Any) -> Any:
    return effect.function(*effect.args) if isinstance(effect, Call) else None
