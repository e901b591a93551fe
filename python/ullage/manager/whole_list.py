"""`view`: for frameworks that hand over their whole list of messages at each call."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from ullage._start import hashlib, orjson
from ullage.effects import Flow
from ullage.exceptions import ContextTooLarge, InvalidPolicy
from ullage.levels.view import StageReport
from ullage.manager import prepare
from ullage.manager.machine import as_bytes
from ullage.manager.prepare import Marks
from ullage.manager.values import Request
from ullage.messages import Item, message_of
from ullage.providers._common import normal_form

if TYPE_CHECKING:
    from ullage.manager.keeping import Keeper
    from ullage.manager.known import Host
    from ullage.manager.machine import Machine
    from ullage.manager.manager import ContextManager
    from ullage.manager.request_writer import RequestWriter
    from ullage.manager.written_back import ListView


# What a manager knows of the list that a framework hands it at each call, and the way back to an earlier part of it.


FORMAT = 1
"""Of the stored form; raised when an older reader could not read it any more."""

PRINT = 12
"""Hex digits of a message's fingerprint: 48 bits, so that one of some 10^14 edits passes unseen."""

POINTS = 16
"""States that are held to go back to: the newest, each a few bytes for a message. An edit before all of them starts from the list again."""


def print_of(item: object) -> str:
    """The fingerprint of a message's content; the order of its keys is no part of it."""
    body = as_bytes(item, orjson.OPT_SORT_KEYS)
    return hashlib.blake2b(body, digest_size=PRINT // 2).hexdigest()


class Followed:
    """The list as it was last seen."""

    def __init__(self) -> None:
        self.prints: list[str] = []  # of each of its messages
        # For each the length of the history after it; one message may be several there, or none.
        self.ends: list[int] = []
        self.asked = -1  # how many of them the newest request showed; -1: there was none
        # What the conversation was like after that request, to know whether anything was done since.
        self.mark: list[int] = []
        # States after requests in which a level acted, by the number of messages that had been taken; not stored.
        self.points: list[tuple[int, Mapping[str, Any]]] = []

    def start(self, index: int) -> int:
        """The position in the history at which message `index` begins."""
        return self.ends[index - 1] if index else 0

    def owner(self, place: int) -> int:
        """The message of the list that a message of the history came from."""
        return bisect_right(self.ends, place)

    def same(self, prints: Sequence[str]) -> int:
        """How many messages a list has at its beginning that are known."""
        most = min(len(prints), len(self.prints))
        if self.prints[:most] == prints[:most]:
            return most
        return next(at for at in range(most) if self.prints[at] != prints[at])

    def cut(self, count: int) -> None:
        """Know only the first `count` messages."""
        del self.prints[count:], self.ends[count:]
        self.points = [point for point in self.points if point[0] <= count]
        if self.asked > count:
            self.asked = -1

    def become(self, prints: Sequence[str], origin: Sequence[int | None], end: int) -> None:
        """From now on the list is what was made of it: prints of its messages, and for each the message of the old list that it is made of.

        `None` in `origin`: it stands for all before the next that has one. `end`: the length of the history.
        """
        ends: list[int] = []
        for at in range(len(prints)):
            following = next((place for place in origin[at + 1 :] if place is not None), None)
            own = origin[at]
            if own is None or own == following:
                ends.append(end if following is None else self.start(following))
            else:
                ends.append(self.ends[own])
        if ends:
            ends[-1] = end  # what came after it and was removed is in what was made of the list
        self.prints, self.ends, self.points = list(prints), ends, []
        self.asked = len(prints)

    def note(self, state: Mapping[str, Any]) -> None:
        """A point to go back to: the state as it is now."""
        self.points.append((len(self.prints), state))
        del self.points[:-POINTS]

    def dump(self) -> dict[str, Any]:
        """As plain JSON: twelve characters for a message."""
        uneven = [
            [at, end - self.start(at)]
            for at, end in enumerate(self.ends)
            if end != self.start(at) + 1
        ]
        return {
            "format": FORMAT,
            "prints": "".join(self.prints),
            "uneven": uneven,
            "asked": self.asked,
            "mark": self.mark,
        }

    def load(self, stored: Mapping[str, Any]) -> None:
        """Be what `dump` gave; points of what is known then stay. Raises as `read`."""
        then = Followed.read(stored)
        self.prints, self.ends = then.prints, then.ends
        self.asked, self.mark = then.asked, then.mark
        self.points = [point for point in self.points if point[0] <= len(self.prints)]

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> Followed:
        """What `dump` gave, without points; an `InvalidPolicy` if it is of a newer version."""
        then = cls()
        if not stored:
            return then
        if stored.get("format") != FORMAT:
            raise InvalidPolicy("saved.followed.format", stored.get("format"), f"must be {FORMAT}")
        joined, uneven = str(stored["prints"]), dict(map(tuple, stored["uneven"]))
        then.prints = [joined[at : at + PRINT] for at in range(0, len(joined), PRINT)]
        counts = (uneven.get(at, 1) for at in range(len(then.prints)))
        then.ends = list(accumulate(counts))
        then.asked = int(stored["asked"])
        then.mark = [int(number) for number in stored["mark"]]
        return then


VERSION = 1
"""Of `view_state`; raised when an older reader could not read it any more."""

_DECIDED = 3
"""Where a mark counts the decisions about results."""

OFTEN = 64
"""Requests after which a point to go back to is noted even if no level has acted: as many are made again at most."""


class WholeLists:
    """Follows a list that somebody else keeps; see `ContextManager.view`."""

    def __init__(
        self,
        machine: Machine,
        host: Host,
        writer: RequestWriter,
        marks: Marks,
        keeper: Keeper,
        followed: Followed,
        clock: Callable[[], int | None],
    ) -> None:
        self._machine, self._host, self._writer, self._marks = machine, host, writer, marks
        self._keeper, self._followed, self._clock = keeper, followed, clock

    def follow(self, items: Sequence[Item], turns: ContextManager) -> Flow[ListView]:
        """Take what is new, and write the list."""
        reports, request = yield from self._take(items, turns)
        return self._written(items, reports, request)

    def follow_changed(
        self, items: Sequence[Item], turns: ContextManager, unchanged: int
    ) -> Flow[ListView | None]:
        """Take what is new, and write the list if it is another one; `unchanged`: see `ContextManager.changed_view`."""
        reports, request = yield from self._take(items, turns, unchanged)
        untouched = self._machine.view.is_untouched(len(self._machine.history))
        return None if untouched and not reports else self._written(items, reports, request)

    def replaced_by(self, view: ListView) -> None:
        """The framework's list is now what was made of it."""
        prints = [print_of(message) for message in view.messages]
        self._followed.become(prints, view.origin, len(self._machine.history))
        self._note_point()

    def share_points(self, other: WholeLists) -> None:
        """Be able to go back where another part can, which follows the same list; later neither knows of the other's."""
        self._followed.points = list(other._followed.points)

    # ---- state for a framework's checkpoint --------------------------------------------------

    def state(self) -> dict[str, Any]:
        """See `ContextManager.view_state`."""
        state, ledger = self._keeper.state(), self._machine.view.ledger
        view, followed = state["view"], state["followed"]
        held = [decision for decision in view["decisions"] if ledger.find_result(decision[0])]
        mark = list(followed["mark"])
        # Else a list that nothing was done to would be asked about again once this is loaded.
        if mark:
            mark[_DECIDED] -= len(view["decisions"]) - len(held)
        changes = {"view": {**view, "decisions": held}, "followed": {**followed, "mark": mark}}
        return {"version": VERSION, **state, **changes}

    def load(self, stored: Mapping[str, Any], messages: Sequence[Item]) -> bool:
        """See `ContextManager.load_view_state`."""
        machine = self._machine
        if len(machine.history):
            limit = "must be empty: a state is loaded before the first view"
            raise InvalidPolicy("manager", f"{len(machine.history)} messages", limit)
        if stored.get("version") != VERSION:
            raise InvalidPolicy("stored.version", stored.get("version"), f"must be {VERSION}")
        followed = Followed.read(stored.get("followed") or {})
        prints = [print_of(item) for item in messages[: len(followed.prints)]]
        if not prints or prints != followed.prints:
            return False
        for item in messages[: len(prints)]:
            machine.take(item)
        held = list(machine.history)
        if len(held) != stored.get("count"):
            raise InvalidPolicy("stored.count", stored.get("count"), f"must be {len(held)}")
        self._keeper.put(stored, held)
        self._note_point()
        return True

    # ---- inside ------------------------------------------------------------------------------

    def _take(
        self, items: Sequence[Item], turns: ContextManager, unchanged: int = 0
    ) -> Flow[tuple[list[StageReport], Request | None]]:
        """Take what is new, with a request before each response that had none, and one for the whole."""
        known_prints = self._followed.prints[:unchanged]
        prints = [*known_prints, *(print_of(item) for item in items[len(known_prints) :])]
        self._find(items, prints)
        followed, reports = self._followed, list[StageReport]()
        request: Request | None = None
        for at in range(len(followed.prints), len(items)):
            answers = speaks(items[at])
            if answers and at and not speaks(items[at - 1]) and self._followed.asked != at:
                # It was answered, so it was not too large for the model then in use.
                with suppress(ContextTooLarge):
                    reports += (yield from self._request()).reports
            # Parts of one answer, as the Responses API has them: the last says that the answer is whole.
            last = answers and (at + 1 == len(items) or not speaks(items[at + 1]))
            (turns.observe if last else turns.add)(items[at])
            followed.prints.append(prints[at])
            followed.ends.append(len(self._machine.history))
        if self._followed.asked != len(items) or self._followed.mark != self._mark():
            request = yield from self._request()
            reports += request.reports
        return reports, request

    def _request(self) -> Flow[Request]:
        # Requests are not translated: the list that is sent is written at the end, of the framework's own objects.
        self._writer.light = self._machine.provider.name != "anthropic"
        try:
            request = yield from prepare.prepare(
                self._machine, self._host, self._writer, self._marks, self._clock()
            )
        finally:
            self._writer.light = False
        self._marks.forget()  # what it worked out was for another request
        self._followed.asked, self._followed.mark = len(self._followed.prints), self._mark()
        if request.reports or request.number % OFTEN == 0:
            self._note_point()
        return request

    def _note_point(self) -> None:
        if not self._host.logged:
            self._followed.note(self._keeper.state())

    def _mark(self) -> list[int]:
        """What changes when anything is done to the conversation between two views."""
        machine = self._machine
        view = machine.view
        counts = machine.requests, view.rewrites, len(view), len(view.decisions), len(machine.pins)
        return [*counts, machine.overhead_tokens, machine.window.context]

    def _written(
        self, items: Sequence[Item], reports: Sequence[StageReport], request: Request | None
    ) -> ListView:
        from ullage.manager.written_back import (
            ListView,
            legal_again,
            named_as_given,
            plan_of,
            standing,
            written_back,
        )

        machine, form = self._machine, self._machine.provider
        names = machine.call_ids.came_as
        written = written_back(machine.view, items, self._followed, form, names)
        written = legal_again(written, form, machine.model.name, self._writer.system)
        if names and form.by_place:
            written = named_as_given(written, items, names)
        written = standing(written, items)
        return ListView(
            [line.message for line in written],
            [line.origin for line in written],
            plan_of(written, len(items)),
            tuple(reports),
            machine.tokens,
            () if request is None else tuple(request.tools),
        )

    # ---- back to what is the same ------------------------------------------------------------

    def _find(self, items: Sequence[Item], prints: Sequence[str]) -> None:
        """Go back to the last known message that the list still has."""
        followed, history = self._followed, self._machine.history
        fits = bisect_right(followed.ends, len(history))
        followed.cut(fits)  # the manager was rewound
        same = followed.same(prints)
        if same == len(followed.prints):
            same = self._adopt(items, prints)
        followed = self._followed
        if same < len(followed.prints) or followed.start(same) != len(history):
            self._return_to(same)

    def _adopt(self, items: Sequence[Item], prints: Sequence[str]) -> int:
        """Know what was added or observed since the last view, as far as the list goes on with it."""
        from ullage.providers.native_lists import read_item

        history, followed = self._machine.history, self._followed
        while (at := len(followed.prints)) < len(items) and followed.start(at) < len(history):
            start = followed.start(at)
            read = read_item(items[at], self._machine.provider, position=start, open_calls=list)
            end = start + len(read)
            # A host may have added a message in another way of writing than the framework's list has it.
            if normal_form(history[start:end]) != normal_form(read):
                break
            followed.prints.append(prints[at])
            followed.ends.append(end)
        return len(followed.prints)

    def _return_to(self, count: int) -> None:
        """Go back to the state in which the first `count` messages were known, or an earlier one from which they are taken again."""
        followed = self._followed
        point = next(
            (candidate for candidate in reversed(followed.points) if candidate[0] <= count), None
        )
        # Levels write the same again; a model's summary is not made again for an edit.
        asks = self._host.summarizer is not None
        if self._host.logged or (point is None and asks):
            self._keeper.rewind(followed.start(count))
            followed.cut(count)
            return
        state = self._empty_state() if point is None else point[1]
        requests = int(state["requests"])
        reports = sum(report.request <= requests for report in self._machine.reports)
        followed.cut(0 if point is None else point[0])
        self._keeper.go_back(state, state["count"], reports)

    def _empty_state(self) -> Mapping[str, Any]:
        """The state of a conversation that begins, with what the provider said of the window since."""
        from ullage.manager.journal import state_of

        fresh = self._machine.fresh()
        outgoing = self._writer.fresh(fresh).dump(fresh)
        learned = {"learned_limit": self._machine.learned_limit}
        return {**state_of(fresh), "outgoing": outgoing, **learned}


def speaks(item: object) -> bool:
    """Whether an item is the model's: a response, or a part of one; what is none is refused where it is taken."""
    message = message_of(item)
    if message is not None:
        return message.get("role") in ("assistant", "model")
    kind = item.get("type") if isinstance(item, Mapping) else None
    return isinstance(kind, str) and not kind.endswith(("_output", "_response", "_reference"))
