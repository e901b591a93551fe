"""What a conversation need not hold in memory any more; it goes on as it would have."""

from __future__ import annotations

from collections.abc import Callable

from ullage.manager.history import History
from ullage.manager.machine import Machine
from ullage.manager.request_writer import RequestWriter
from ullage.messages import Item

__all__ = ["MOST_TOLD", "Lighter", "too_many_told", "trim_account"]

MOST_TOLD = 256
"""Reports, and records of requests, that are remembered at least; at twice as many the oldest go."""

_FEW = 64
"""Messages that may have left the view before it is worth a walk."""

Read = Callable[[int], Item | None]


class Lighter:
    """Lets go of what left the view: messages that a log holds, names, times and what the repairer knows of them."""

    def __init__(self) -> None:
        self._looked = 0  # messages that had left the view then

    def lighten(self, machine: Machine, writer: RequestWriter, read: Read | None) -> None:
        """After a request, when all that was decided is where it is kept.

        Args:
            machine: Its view stays as it is.
            writer: Its request was just made.
            read: Gives a message from the log; `None`: there is none, and the messages stay.
        """
        trim_account(machine)
        view, count = machine.view, len(machine.history)
        left = count - len(view)
        if abs(left - self._looked) < _FEW:
            return
        self._looked = left
        shown = {source for source in view.sources if isinstance(source, int)}
        inside = {*shown, *(int(key) for key in view.sources if str(key).isdecimal()), count - 1}
        writer.forget(machine, shown)
        view.bases = {key: each for key, each in view.bases.items() if key in shown}
        if read is None:
            return
        if not isinstance(machine.history, History):
            machine.history = History(machine.history, read)
        history = machine.history
        history.let_go(inside)
        view.uuids = {at: name for at, name in view.uuids.items() if history.held(at)}
        view.times = {at: came for at, came in view.times.items() if history.held(at)}


def too_many_told(machine: Machine) -> bool:
    """Whether the oldest records of requests are to go."""
    return machine.account.held >= 2 * MOST_TOLD


def trim_account(machine: Machine) -> None:
    """Let the oldest reports and records of requests go, if they are many."""
    more = len(machine.reports) - MOST_TOLD
    if more >= MOST_TOLD:
        newest = max(report.request for report in machine.reports[:more])
        machine.let_go = machine.let_go[0] + more, max(newest, machine.let_go[1])
        del machine.reports[:more]
    if too_many_told(machine):
        machine.account.trim(MOST_TOLD)
