"""Whether any level has anything to do for the next request: one look at the marks that they have stated, instead of asking each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ullage.levels import pipeline
from ullage.levels.level import NEVER, Goal, Level, Rest
from ullage.levels.microcompact import newest_answer_ms
from ullage.levels.tool_results import is_replaced
from ullage.manager.compactions import Autocompaction
from ullage.manager.host import Host
from ullage.manager.machine import Machine

__all__ = ["Marks"]


class Marks:
    """Marks hold from one request to the next, while messages are only added.

    Args:
        levels: In order.

    Attributes:
        suffice: All of them state marks; else the others are asked for every request.
        tokens: Size of the next request, as `hold` has just found it.
    """

    def __init__(self, levels: Sequence[Level]) -> None:
        self.suffice = all(level.rest is not None for level in levels)
        self._rules: tuple[Any, ...] = ()
        self._edits, self.tokens = -1, 0

    def begin(self, machine: Machine) -> None:
        """A request was just made, by whichever way."""
        self._edits = machine.view.edits

    def forget(self) -> None:
        """Ask every level for the next request."""
        self._edits = -1

    def hold(self, machine: Machine, host: Host, now_ms: int | None) -> bool:
        """Whether no level that has stated marks has anything to do. Then they count as asked; see `Machine.settle`."""
        view = machine.view
        if self._edits != view.edits or not machine.requests:
            return False
        rest = self._rest(machine, host)
        fill, self.tokens = machine.sizes()
        if not rest.least_fill <= fill < rest.fill or self.tokens >= rest.tokens:
            return False
        if rest.pause_ms < NEVER.pause_ms and self._paused(machine, rest.pause_ms, now_ms):
            return False
        return _results_pass(machine, rest)

    def _rest(self, machine: Machine, host: Host) -> Rest:
        rules = machine.policy, machine.window, machine.model, machine.tools, machine.thinking, host
        known = machine.rest
        # They are mostly the same objects, of which none is looked into.
        if known is None or rules != self._rules:
            known = machine.rest = _resting(machine, host)
            self._rules = rules
        return known

    @staticmethod
    def _paused(machine: Machine, pause_ms: int, now_ms: int | None) -> bool:
        return now_ms is not None and 0 < newest_answer_ms(machine.view) <= now_ms - pause_ms


def _resting(machine: Machine, host: Host) -> Rest:
    """Until when no level acts, and the request fits."""
    goal = Goal(machine.last_resort_tokens if machine.window.compaction else None)
    context = machine.context(host, None, goal=goal, compactor=Autocompaction(machine, host))
    if context.view.changed_from is not None:
        return Rest(fill=0)
    fits = Rest(tokens=machine.window.prompt + 1)
    return fits.both(pipeline.resting(machine.levels, context))


def _results_pass(machine: Machine, rest: Rest) -> bool:
    """Whether no new result is empty, or longer than a mark allows; then the model is shown them whole."""
    view, shown, chars = machine.view, list[str](), 0
    for name, _, _, _, _, length, _, flags in view.ledger.results(view.sent):
        chars += length
        if length > rest.result_chars or chars > rest.message_chars:
            return False
        if name in view.whole or name in view.decisions or is_replaced(length, flags):
            continue
        if not length:
            return False
        shown.append(name)
    view.whole.update(dict.fromkeys(shown))
    if machine.skipped_from is None:
        machine.skipped_from = view.sent
    return True
