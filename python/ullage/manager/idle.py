"""The idle turn: plain messages are added, a request is made, and no level has anything to do (most turns of an agent).

Whether a level could act is looked up in numbers that were worked out after the last request for which the levels ran. The
request is the one that they would have left; what they note of new messages even then is noted when it is needed.
"""

from __future__ import annotations

from typing import Any

from ullage.levels import pipeline
from ullage.levels.level import NEVER, Goal, Rest
from ullage.levels.microcompact import newest_answer_ms
from ullage.manager.compactions import Autocompaction
from ullage.manager.host import Host
from ullage.manager.machine import Machine
from ullage.manager.request_writer import RequestWriter
from ullage.manager.values import Request
from ullage.messages import Item, as_sent

__all__ = ["IdleTurns"]


class IdleTurns:
    """Follows what was added since the last request.

    Attributes:
        enabled: Off, every request runs all levels, with the same results.
    """

    __slots__ = (
        "_answered", "_chars", "_count", "_longest", "_plain", "_results", "_rules", "enabled",
    )  # fmt: skip

    def __init__(self) -> None:
        self.enabled = True
        self._rules: tuple[Any, ...] = ()
        self.begin(-1)

    def begin(self, count: int) -> None:
        """A request was just made of so many messages, by whichever way."""
        self._count, self._plain, self._answered = count, True, False
        self._longest = self._chars = 0
        self._results: list[str] = []

    # ---- messages ----------------------------------------------------------------------------

    def take(
        self, machine: Machine, writer: RequestWriter, message: Any, at_ms: int | None
    ) -> bool:
        """Add a message as `Machine.take` and `RequestWriter.note_answer` do; False: it is not plain, nothing has changed."""
        if machine.provider.internal:
            if not self._taken(machine, message, at_ms):
                return False
        elif not self._read(machine, message, at_ms):
            machine.take(message, at_ms=at_ms, add=self.add)
            writer.note_answer(machine)
            return True
        newest = machine.view.messages[-1]
        if newest["role"] == "assistant":
            if self._plain:
                writer.answered(newest)
            else:
                writer.note_answer(machine)
        return True

    def _read(self, machine: Machine, item: Any, at_ms: int | None) -> bool:
        """Add a plain item of another provider's form; False: it is not plain, nothing has changed."""
        form = machine.provider.plain_form
        message = None if form is None else form.read_plain(item)
        return message is not None and self._taken(machine, message, at_ms)

    def add(self, machine: Machine, message: Item, at_ms: int | None) -> None:
        """Add a message that was read, whatever it is, as `Machine.add` does."""
        if not self._taken(machine, message, at_ms):
            self._plain = False
            machine.add(message, at_ms=at_ms)

    def _taken(self, machine: Machine, message: Any, at_ms: int | None) -> bool:
        """Add a plain message; False: it is not plain, or a decision is laid over one of its ids."""
        if not self.enabled:
            return False
        view, history, known = machine.view, machine.history, machine.call_ids
        own = "" if machine.provider.internal else machine.provider.name
        found = view.ledger.append_plain(message, known.calls, known.answered, own)
        if found is None:
            return False
        answer, names, longest, chars = found
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
            # What follows other words than the model's answers a request that was not made here.
            self._plain = self._plain and not self._answered
        else:
            known.note_results(names)
            self._note_input(names, longest, chars)
        self._count += 1
        self._plain = self._plain and self._count == len(view.messages)
        return True

    def _note_input(self, names: list[str], longest: int, chars: int) -> None:
        self._answered = True
        self._results += names
        self._chars += chars
        if longest > self._longest:
            self._longest = longest

    def observe(
        self, machine: Machine, writer: RequestWriter, response: Any, at_ms: int | None
    ) -> bool:
        """Add an answer as `Machine.observe` does; False: it is not plain, or a level of the host wants to see it."""
        if not (type(response) is dict and response.get("role") == "assistant"):
            return False
        if machine.watched:
            return False
        before = int(machine.view.ledger.tokens())
        if not self.take(machine, writer, response, at_ms):
            return False
        held = machine.tracking.turns, machine.figure, machine.correction
        try:
            machine.answered(response, before)
        except BaseException:
            machine.tracking.turns, machine.figure, machine.correction = held
            raise
        return True

    # ---- requests ----------------------------------------------------------------------------

    def tokens(
        self, machine: Machine, host: Host, writer: RequestWriter, now_ms: int | None
    ) -> int | None:
        """Tokens of the next request, if no level has anything to do; `None`: they must be run."""
        view = machine.view
        grown = self.enabled and self._plain and self._count == len(view.messages)
        if not grown or not writer.follows(view):
            return None
        rest = self._rest(machine, host)
        fill, tokens = machine.sizes()
        if not rest.least_fill <= fill < rest.fill or tokens >= rest.tokens:
            return None
        if self._longest > rest.result_chars or self._chars > rest.message_chars:
            return None
        if rest.pause_ms < NEVER.pause_ms and self._paused(machine, rest.pause_ms, now_ms):
            return None
        return tokens

    def request(
        self, machine: Machine, writer: RequestWriter, tokens: int, now_ms: int | None
    ) -> Request:
        """The next request, of the size that `tokens` has just found."""
        view = machine.view
        if machine.skipped_from is None:
            machine.skipped_from = view.sent
        machine.now_ms = now_ms
        for name in self._results:
            view.whole[name] = None
        request = writer.plain_request(machine, tokens, now_ms)
        self.begin(view.sent)
        return request

    def _rest(self, machine: Machine, host: Host) -> Rest:
        rules = machine.policy, machine.window, machine.model, machine.tools, machine.thinking, host
        known = machine.rest
        if (
            known is None or rules != self._rules
        ):  # mostly the same objects, of which none is looked into
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
    if context.view.changed_from is not None or not machine.requests:
        return Rest(fill=0)
    fits = Rest(tokens=machine.window.prompt + 1)
    return fits.both(pipeline.resting(machine.levels, context))
