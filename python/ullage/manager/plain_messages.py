"""Messages that need no second look are added by a short way: the engine reads, checks and appends them in one step."""

from __future__ import annotations

from typing import Any

from ullage.manager.machine import Machine
from ullage.messages import Item, as_sent

__all__ = ["add", "observe", "take"]


def take(machine: Machine, message: Any, at_ms: int | None) -> bool:
    """Add a message as `Machine.take` does; False: it is not plain, nothing has changed."""
    if machine.provider.internal:
        return _taken(machine, message, at_ms)
    form = machine.provider.plain_form
    plain = None if form is None else form.read_plain(message)
    return plain is not None and _taken(machine, plain, at_ms)


def add(machine: Machine, message: Item, at_ms: int | None) -> None:
    """Add a message that was read, whatever it is, as `Machine.add` does."""
    if not _taken(machine, message, at_ms):
        machine.add(message, at_ms=at_ms)


def observe(machine: Machine, response: Any, at_ms: int | None) -> bool:
    """Add an answer as `Machine.observe` does; False: it is not plain, or a level of the host wants to see it."""
    if not (type(response) is dict and response.get("role") == "assistant") or machine.watched:
        return False
    before = int(machine.view.ledger.tokens())
    if not take(machine, response, at_ms):
        return False
    held = machine.tracking.turns, machine.figure, machine.correction
    try:
        machine.answered(response, before)
    except BaseException:
        machine.tracking.turns, machine.figure, machine.correction = held
        raise
    return True


def _taken(machine: Machine, message: Any, at_ms: int | None) -> bool:
    """Add a plain message; False: it is not plain, or a decision is laid over one of its ids."""
    view, history, known = machine.view, machine.history, machine.call_ids
    own = "" if machine.provider.internal else machine.provider.name
    found = view.ledger.append_plain(message, known.calls, known.answered, own)
    if found is None:
        return False
    answer, names, _, _ = found
    place = len(history)
    if not view.is_bare(place, names):
        view.ledger.truncate(len(view.messages))
        return False
    view.take(message, message if len(message) == 2 else as_sent(message) or {}, place)
    if at_ms is not None:
        view.times[place] = at_ms
    history.append(message)
    if answer:
        known.note_calls(names, message.get("id"))
    else:
        known.note_results(names)
    return True
