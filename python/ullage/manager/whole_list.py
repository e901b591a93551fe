"""`view`: for frameworks that hand over their whole list of messages at each call."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self, Unpack

from ullage._lazy import hashlib, orjson
from ullage.counting.models import ModelTable
from ullage.effects import Flow
from ullage.exceptions import ContextTooLarge, InvalidPolicy
from ullage.levels.view import StageReport
from ullage.manager import prepare
from ullage.manager.keeping import ExclusiveGuard, Keeping
from ullage.manager.known import shown_form
from ullage.manager.prepare import Marks
from ullage.manager.values import Request
from ullage.messages import Item, SystemPrompt, Tools, message_of
from ullage.policy import Policy
from ullage.providers._common import normal_form
from ullage.providers.native_tools import CountedTools

if TYPE_CHECKING:
    from ullage.manager.outside import Log, Outside
    from ullage.manager.written_back import ListView


# What a manager knows of the list that a framework hands it at each call, and the way back to an earlier part of it.


FORMAT = 1
"""Of the stored form; raised when an older reader could not read it any more."""

PRINT = 12
"""Hex digits of a message's fingerprint."""

POINTS = 16
"""States that are held to go back to: the newest, each a few bytes for a message."""


def print_of(item: object) -> str:
    """The fingerprint of a message's content; the order of its keys is no part of it."""
    options = orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS
    try:
        body = orjson.dumps(item, default=repr, option=options)
    except (orjson.JSONEncodeError, RecursionError):  # lone surrogates, integers over 64 bits
        body = repr(item).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(body, digest_size=PRINT // 2).hexdigest()


@dataclass(slots=True)
class Followed:
    """The list as it was last seen.

    Attributes:
        prints: Of each of its messages.
        ends: For each the length of the history after it; one message may be several there, or none.
        asked: How many of them the newest request showed; -1: there was none.
        mark: What the conversation was like after that request, to know whether anything was done since.
        points: States after requests in which a level acted, by the number of messages that had been taken; not stored.
    """

    prints: list[str] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    asked: int = -1
    mark: list[int] = field(default_factory=list)
    points: list[tuple[int, Mapping[str, Any]]] = field(default_factory=list)

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
        """From now on the list is what was made of it.

        Args:
            prints: Of its messages.
            origin: For each the message of the old list that it is made of; `None`: it stands for all before the next that has one.
            end: The length of the history.
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

    @classmethod
    def load(cls, stored: Mapping[str, Any]) -> Followed:
        """What `dump` gave.

        Raises:
            InvalidPolicy: Not such a form, or of a newer version; names the field.
        """
        if not stored:
            return cls()
        if stored.get("format") != FORMAT:
            raise InvalidPolicy("saved.followed.format", stored.get("format"), f"must be {FORMAT}")
        try:
            joined, uneven = str(stored["prints"]), dict(map(tuple, stored["uneven"]))
            prints = [joined[at : at + PRINT] for at in range(0, len(joined), PRINT)]
            ends, end = [], 0
            for at in range(len(prints)):
                end += uneven.get(at, 1)
                ends.append(end)
            return cls(
                prints, ends, int(stored["asked"]), [int(number) for number in stored["mark"]]
            )
        except (KeyError, TypeError, ValueError) as exc:
            raise InvalidPolicy(
                "saved.followed", type(exc).__name__, f"cannot be read: {exc}"
            ) from exc


VERSION = 1
"""Of `view_state`; raised when an older reader could not read it any more."""

OFTEN = 64
"""Requests after which a point to go back to is noted even if no level has acted."""


class WholeLists(Keeping):
    """Follows a list that somebody else keeps; see `ContextManager`."""

    _followed: Followed
    _run: Callable[..., Any]
    _arun: Callable[..., Any]
    _prepare: Callable[[int | None], Flow[Request]]
    _exclusive: ExclusiveGuard
    _marks: Marks
    add: Callable[[Item], None]
    observe: Callable[[object], None]
    _form_is_open: bool

    def view(
        self,
        messages: Sequence[Item],
        *,
        system: SystemPrompt | None = None,
        tools: Tools | None = None,
        model: str | None = None,
    ) -> ListView:
        """The list to send in place of a framework's whole list of messages.

        Messages are compared by content with those of the call before. New ones are taken; where the list was cut, edited or
        continued in another way, the conversation goes back to the last message that is the same. Before each response in the list
        that no request was prepared for, the levels run as they would have: a new manager makes the same view of a list as
        one that followed it from the start (with equal arguments, the same time of day, and no summarizer that asks a model).

        Args:
            messages: All of the conversation, oldest first, in the manager's form; never changed.
            system: The system prompt, to be counted; `None`: as before.
            tools: Tool definitions, to be counted; `None`: as before.
            model: Name of the model for this and later calls; `None`: as before.

        Raises:
            ContextTooLarge: What has to stay does not fit; names the smallest possible size.
            InvalidMessage: A message is malformed; those before it have been taken.
            ManagerBusy: Another call prepares a request of this conversation.

        Example:
            >>> from ullage import ContextManager
            >>> given = [{"role": "user", "content": "hello"}]
            >>> view = ContextManager(model="claude-opus-4-5").view(given)
            >>> view.messages[0] is given[0], view.origin, view.plan[0].action
            (True, [0], 'kept')
        """
        with self._exclusive("view"):
            self.host.background.stop_task()
            self._meet(system, tools, model)
            with self._whole("prepare", careful=False):
                list_view: ListView = self._run(self._follow(messages))
            prepare.write_ahead(self.machine, self.host, asynchronous=False)
        return list_view

    def changed_view(
        self,
        messages: Sequence[Item],
        *,
        unchanged: int = 0,
        system: SystemPrompt | None = None,
        tools: Tools | None = None,
        model: str | None = None,
    ) -> ListView | None:
        """`view`; `None` as long as nothing that levels did is in it: the list is then to be sent as it is.

        For a gateway, which repairs nothing that it has not changed, and sends the bytes that came.

        Args:
            messages: The same as of `view`, like what follows.
            unchanged: So many messages at the beginning are known to be those of the call before, and are not compared.
            system: `None`: the one before.
            tools: `None`: those before.
            model: `None`: the one before.

        Raises:
            ContextTooLarge, InvalidMessage, ManagerBusy: See `view`.
        """
        with self._exclusive("changed_view"):
            self.host.background.stop_task()
            self._meet(system, tools, model)
            with self._whole("prepare", careful=False):
                list_view: ListView | None = self._run(self._follow_changed(messages, unchanged))
            prepare.write_ahead(self.machine, self.host, asynchronous=False)
        return list_view

    async def aview(
        self,
        messages: Sequence[Item],
        *,
        system: SystemPrompt | None = None,
        tools: Tools | None = None,
        model: str | None = None,
    ) -> ListView:
        """`view`, without blocking the event loop."""
        with self._exclusive("aview"):
            self._meet(system, tools, model)
            with self._whole("prepare"):
                list_view: ListView = await self._arun(self._follow(messages))
            prepare.write_ahead(self.machine, self.host, asynchronous=True)
        return list_view

    def view_kept(self, view: ListView) -> None:
        """The framework has put the newest view in place of its own list, which the next call hands over."""
        prints = [print_of(message) for message in view.messages]
        self._followed.become(prints, view.origin, len(self.machine.history))
        self._note_point()
        self._commit("view")

    # ---- state for a framework's checkpoint --------------------------------------------------

    def view_state(self) -> dict[str, Any]:
        """What the next `view` goes on from, as small plain JSON: decisions and fingerprints, no messages, no account of the past.

        It may be lost: `view` then starts from the list alone.
        """
        from ullage.manager.journal import state_of

        state, view = state_of(self.machine), self.machine.view
        held = [
            decision
            for decision in state["view"]["decisions"]
            if view.ledger.find_result(decision[0])
        ]
        shown = {**state["view"], "decisions": held}
        return {"version": VERSION, **state, "view": shown, **self._other_state()}

    def load_view_state(self, stored: Mapping[str, Any], messages: Sequence[Item]) -> bool:
        """Put a state of `view_state` into this manager, which is still empty.

        Args:
            stored: Also one that another process or version wrote; one that cannot be read is an error.
            messages: The framework's list, from which the history is taken; it may have grown since.

        Returns:
            Whether it was of use: false where the list has been changed since, so that `view` starts from the list alone.

        Raises:
            InvalidPolicy: It is no such state, or the manager is not empty; names the field.
        """
        from ullage.manager.journal import set_state

        if len(self.machine.history):
            limit = "must be empty: a state is loaded before the first view"
            raise InvalidPolicy("manager", f"{len(self.machine.history)} messages", limit)
        if stored.get("version") != VERSION:
            raise InvalidPolicy("stored.version", stored.get("version"), f"must be {VERSION}")
        followed = Followed.load(stored.get("followed") or {})
        prints = [print_of(item) for item in messages[: len(followed.prints)]]
        if not prints or prints != followed.prints:
            return False
        for item in messages[: len(prints)]:
            self.machine.take(item)
        held = list(self.machine.history)
        if len(held) != stored.get("count"):
            raise InvalidPolicy("stored.count", stored.get("count"), f"must be {len(held)}")
        set_state(self.machine, stored, held)
        self._load_other_state(stored)
        self._note_point()
        return True

    def _other_state(self) -> dict[str, Any]:
        return {**super()._other_state(), "followed": self._followed.dump()}

    def _load_other_state(self, stored: Mapping[str, Any]) -> None:
        super()._load_other_state(stored)
        points = self._followed.points
        self._followed = Followed.load(stored.get("followed") or {})
        count = len(self._followed.prints)
        self._followed.points = [point for point in points if point[0] <= count]

    def fork(
        self,
        *,
        policy: Policy | str | None = None,
        log: Log | None = None,
        **outside: Unpack[Outside],
    ) -> Self:
        """Another manager of the same conversation in its current state; the two are independent from then on.

        Args:
            policy: `None`: this one's.
            log: The fork's own log: a path, or an open and empty log. `None`: it has none.
            **outside: What should differ from this manager, with the constructor's names.
        """
        fork = super().fork(policy=policy, log=log, **outside)
        fork._followed = Followed.load(self._followed.dump())
        fork._followed.points = list(self._followed.points)
        return fork

    # ---- inside ------------------------------------------------------------------------------

    def _follow(self, items: Sequence[Item]) -> Flow[ListView]:
        """Take what is new, and write the list."""
        reports, request = yield from self._take(items)
        return self._written(items, reports, request)

    def _follow_changed(self, items: Sequence[Item], unchanged: int) -> Flow[ListView | None]:
        """Take what is new, and write the list if it is another one."""
        reports, request = yield from self._take(items, unchanged)
        untouched = self.machine.view.is_untouched(len(self.machine.history))
        return None if untouched and not reports else self._written(items, reports, request)

    def _take(
        self, items: Sequence[Item], unchanged: int = 0
    ) -> Flow[tuple[list[StageReport], Request | None]]:
        """Take what is new, with a request before each response that had none, and one for the whole."""
        if self._form_is_open:
            self._look_at_form(items)
        known_prints = self._followed.prints[:unchanged]
        prints = [*known_prints, *(print_of(item) for item in items[len(known_prints) :])]
        self._find(items, prints)
        followed, reports = self._followed, list[StageReport]()
        request: Request | None = None
        for at in range(len(followed.prints), len(items)):
            answers = _speaks(items[at])
            if answers and at and not _speaks(items[at - 1]) and self._followed.asked != at:
                reports += yield from self._past_request()
            last = answers and (at + 1 == len(items) or not _speaks(items[at + 1]))
            (self.observe if last else self.add)(items[at])
            self._note_taken(prints[at])
        if self._followed.asked != len(items) or self._followed.mark != self._mark():
            request = yield from self._request()
            reports += request.reports
        return reports, request

    def _past_request(self) -> Flow[tuple[StageReport, ...]]:
        """Have the levels do what they would have done before a response that is in the list already."""
        try:
            request = yield from self._request()
        except (
            ContextTooLarge
        ):  # it was answered, so it was not too large for the model then in use
            return ()
        return request.reports

    def _request(self) -> Flow[Request]:
        with self._light():
            request = yield from self._prepare(None)
        self._marks.forget()  # what it worked out was for another request
        self._followed.asked, self._followed.mark = len(self._followed.prints), self._mark()
        if request.reports or request.number % OFTEN == 0:
            self._note_point()
        return request

    @contextmanager
    def _light(self) -> Iterator[None]:
        """Meanwhile requests are not translated: the list that is sent is written at the end, of the framework's own objects."""
        form = self.machine.provider
        self._writer.light = not form.internal or form.name != "anthropic"
        try:
            yield
        finally:
            self._writer.light = False

    def _note_point(self) -> None:
        from ullage.manager.journal import state_of

        if self._journal is None:
            self._followed.note({**state_of(self.machine), **self._other_state()})

    def _note_taken(self, fingerprint: str) -> None:
        self._followed.prints.append(fingerprint)
        self._followed.ends.append(len(self.machine.history))

    def _mark(self) -> list[int]:
        """What changes when anything is done to the conversation between two views."""
        machine = self.machine
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

        machine, form = self.machine, self.machine.provider
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
        followed, history = self._followed, self.machine.history
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

        history, followed = self.machine.history, self._followed
        while (at := len(followed.prints)) < len(items) and followed.start(at) < len(history):
            start = followed.start(at)
            read = read_item(items[at], self.machine.provider, position=start, open_calls=list)
            end = start + len(read)
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
        asks = self.host.summarizer is not None
        if self._journal is not None or (point is None and asks):
            self.rewind(followed.start(count))
            followed.cut(count)
            return
        state = self._empty_state() if point is None else point[1]
        machine, requests = self.machine, int(state["requests"])
        counts = (
            sum(report.request <= requests for report in machine.reports),
            sum(record.number <= requests for record in machine.records),
        )
        followed.cut(0 if point is None else point[0])
        self._go_back(state, state["count"], counts)
        del machine.prints[state["count"] :]

    def _empty_state(self) -> Mapping[str, Any]:
        """The state of a conversation that begins, with what the provider said of the window since."""
        from ullage.manager.journal import state_of

        make: Any = type(self)
        fresh: Self = make(**self._outside)
        learned = {"learned_limit": self.machine.learned_limit}
        return {**state_of(fresh.machine), **fresh._other_state(), **learned}

    # ---- what differs from call to call -----------------------------------------------------

    def _look_at_form(self, items: Sequence[Any]) -> None:
        """Go on in the form that the first of these messages shows which shows one; nothing, if none does."""
        form = shown_form(items, self.machine.provider)
        if form is None:
            return
        self._form_is_open = False
        if form is self.machine.provider or shown_form(self.machine.history, form) is not None:
            return  # earlier messages have shown it
        before = self.machine.provider
        self.machine.provider = form
        try:
            self._writer = self._writer.of_other(self.machine)
        except InvalidPolicy:
            self.machine.provider, self._form_is_open = before, True
            raise
        self._outside["provider"], self.machine.resting_until = form, None
        self._marks.forget()

    def _meet(self, system: Any, tools: Any, model: str | None) -> None:
        """Count with this system prompt, these tools and this model from now on."""
        if model is not None and model != self.machine.model.name:
            table = self._outside.get("table") or ModelTable.builtin()
            row = table.stated(model, **self.machine.stated_window)
            self.machine.change_model(row)
            self._outside["model"] = model
        writer = self._writer
        arguments = {"system": system, "tools": None if tools is None else CountedTools(tools)}
        changed = {name: value for name, value in arguments.items() if value is not None}
        if model is None and all(
            getattr(writer, name) == wanted for name, wanted in changed.items()
        ):
            return
        self._outside.update(changed)
        self._writer = writer_then = writer.of_other(self.machine, **changed)
        self.machine.change_overhead(writer_then.system, writer_then.tools, writer_then.definitions)


def _speaks(item: Item) -> bool:
    """Whether an item is the model's: a response, or a part of one."""
    message = message_of(item)
    if message is not None:
        return message.get("role") in ("assistant", "model")
    kind = item.get("type")
    return isinstance(kind, str) and not kind.endswith(("_output", "_response", "_reference"))
