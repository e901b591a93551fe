"""`view`: for frameworks that hand over their whole list of messages at each call. What is known of it; and the list to send: its own objects where nothing changed, with where each message came from."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import accumulate, chain, groupby, pairwise
from operator import is_
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ullage._engine import core
from ullage._start import Frozen, NamedTuple, hashlib, loaded, orjson
from ullage.effects import Flow
from ullage.exceptions import ContextTooLarge, InvalidPolicy
from ullage.facts.words import blocks_of
from ullage.levels.view import StageReport
from ullage.manager import prepare
from ullage.manager.machine import as_bytes, as_given
from ullage.manager.prepare import Marks
from ullage.manager.values import Request
from ullage.messages import Item, as_sent, message_of, same_items
from ullage.providers._common import normal_form

if TYPE_CHECKING:
    from ullage.manager.keeping import Keeper
    from ullage.manager.manager import ContextManager
    from ullage.providers.registry import Provider


Action: TypeAlias = Literal["kept", "replaced", "removed", "inserted"]


class PlanStep(NamedTuple):
    """What became of one message, as data.

    Attributes:
        action: `kept`: it is sent as it was given. `replaced`: in other words. `removed`: not at all. `inserted`: Ullage wrote it.
        given: Its position in the given list; `None`: it was not there.
        at: Its position in the list to send; `None`: it is not there.
    """

    action: Action
    given: int | None
    at: int | None


class ListView(Frozen):
    """A framework's list, made to fit.

    Attributes:
        messages: To send, in the form of the given list; those that need no change are the very objects given.
        origin: For each of them the position of the given message that it is made of; `None`: Ullage wrote it.
        plan: What became of every message, in order, as data.
        reports: Of the levels that acted in this call.
        tokens: Estimate of the request, system prompt and tools included.
        tools: Definitions that levels offer to the model; usually none.
    """

    messages: list[Item]
    origin: list[int | None]
    plan: tuple[PlanStep, ...]
    reports: tuple[StageReport, ...] = ()
    tokens: int = 0
    tools: tuple[Mapping[str, Any], ...] = ()

    def __getattr__(self, name: str) -> Any:
        # Of a list that was just written; see `list_view`.
        count, written = vars(self).get("_count"), vars(self).get("_written")
        if count is None or name not in ("origin", "plan"):
            raise AttributeError(name)
        places = range(count)
        value: Any
        if name == "origin":
            value = [*places] if written is None else [line.origin for line in written]
        else:
            other = {*self._replaced}
            steps = (PlanStep("replaced" if at in other else "kept", at, at) for at in places)
            value = tuple(steps) if written is None else plan_of(written, count)
        return vars(self).setdefault(name, value)

    @property
    def changed(self) -> bool:
        """Whether anything is not as it was given."""
        if "_count" not in vars(self):
            return any(step.action != "kept" for step in self.plan)
        written = self._written
        if written is None:
            return bool(self._replaced)
        as_given = all(line.same and line.origin == at for at, line in enumerate(written))
        return not as_given or len(self.messages) != self._count

    def __repr__(self) -> str:
        acted = ", ".join(report.stage for report in self.reports) or "nothing done"
        return f"ListView({len(self.messages)} messages, ≈{self.tokens:_} tokens, {acted})"


def list_view(
    messages: list[Item],
    count: int,
    more: Mapping[str, Any],
    *,
    written: Sequence[Written] | None = None,
    replaced: Sequence[int] = (),
) -> ListView:
    """A list of so many messages as it was written, whose origin and plan are made when somebody asks.

    `more`: what else is said of it. `written`: its messages to send; `None`: each in its place, those in `replaced` in other words.
    """
    view = ListView.__new__(ListView)
    vars(view).update(more, messages=messages, _count=count, _written=written, _replaced=replaced)
    return view


def sent_steps(view: ListView) -> Iterator[PlanStep]:
    """The steps of the plan that are sent, without those of messages that are not."""
    written = vars(view).get("_written")
    if written is None:
        yield from (step for step in view.plan if step.at is not None)
        return
    for at, line in enumerate(written):
        yield _step(line, at)


class Written(NamedTuple):
    """One message to send."""

    message: Item
    origin: int | None  # of which given message it is made
    same: bool  # as it was given


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
        # What the messages were made of when they were fingerprinted; not stored.
        self.objects: core.MessageObjects = core.MessageObjects()
        # So many at the beginning are each sent in their place.
        self.plain = 0
        # Those of them that are sent as they were taken, without fields that stay here, or that are null; and those of these that say
        # something else then. A view holds the list that was made for it.
        self.as_taken: list[int] = []
        self.reworded: list[int] = []

    def start(self, index: int) -> int:
        """The position in the history at which message `index` begins."""
        return self.ends[index - 1] if index else 0

    def owner(self, place: int) -> int:
        """The message of the list that a message of the history came from."""
        return bisect_right(self.ends, place)

    def cut(self, count: int) -> None:
        """Know only the first `count` messages."""
        if count < len(self.prints):
            self.prints, self.ends = self.prints[:count], self.ends[:count]
        self.plain = min(self.plain, count)
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
        self.objects, self.plain = core.MessageObjects(), 0
        self.asked = len(prints)

    def note(self, state: Mapping[str, Any]) -> None:
        """A point to go back to: the state as it is now."""
        self.points.append((len(self.prints), state))
        del self.points[:-POINTS]

    def dump(self) -> dict[str, Any]:
        """As plain JSON: twelve characters for a message."""
        places = enumerate(pairwise([0, *self.ends]))
        uneven = [[at, end - start] for at, (start, end) in places if end != start + 1]
        return {
            "format": FORMAT,
            "prints": "".join(self.prints),
            "uneven": uneven,
            "asked": self.asked,
            "mark": self.mark,
        }

    def load(self, stored: Mapping[str, Any]) -> None:
        """Be what `dump` gave, or a list that was never seen; points of what is known then stay. An `InvalidPolicy` if it is of a newer version."""
        stored = stored or Followed().dump()
        if stored.get("format") != FORMAT:
            raise InvalidPolicy("saved.followed.format", stored.get("format"), f"must be {FORMAT}")
        joined, uneven = str(stored["prints"]), dict(map(tuple, stored["uneven"]))
        prints = [joined[at : at + PRINT] for at in range(0, len(joined), PRINT)]
        ends = list(accumulate(uneven.get(at, 1) for at in range(len(prints))))
        self.asked, self.mark = int(stored["asked"]), [int(number) for number in stored["mark"]]
        self.prints, self.ends = prints, ends
        self.objects, self.plain = core.MessageObjects(), 0
        self.points = [point for point in self.points if point[0] <= len(prints)]


VERSION = 1
"""Of `view_state`; raised when an older reader could not read it any more."""

_DECIDED = 3
"""Where a mark counts the decisions about results."""

OFTEN = 64
"""Requests after which a point to go back to is noted even if no level has acted: as many are made again at most."""


class WholeLists:
    """Follows a list that somebody else keeps; see `ContextManager.view`."""

    def __init__(self, keeper: Keeper, marks: Marks) -> None:
        self._keeper, self._marks, self._clock = keeper, marks, keeper.clock
        self._machine, self._host, self._writer = keeper.machine, keeper.host, keeper.writer
        self._followed = keeper.followed
        self._rules: _Rules | None = None

    def follow(self, items: Sequence[Item], turns: ContextManager) -> Flow[ListView]:
        """Take what is new, and write the list."""
        reports, request = yield from self._take(items, turns)
        return self._written(items, reports, request)

    def follow_changed(
        self, items: Sequence[Item], turns: ContextManager, unchanged: int
    ) -> Flow[ListView | None]:
        """Take what is new, and write the list if it is another one; `unchanged`: see `ContextManager.changed_view`."""
        reports, request = yield from self._take(items, turns, unchanged)
        untouched = self._is_untouched()
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
        followed = Followed()
        followed.load(stored.get("followed") or {})
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
        prints = self._compared(items, unchanged)
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
        machine, marks, now = self._machine, self._marks, self._clock()
        try:
            if marks.suffice and marks.hold(machine, self._host, now):
                request = prepare.at_rest(machine, self._writer, marks.tokens, now)
            else:
                request = yield from prepare.prepare(machine, self._host, self._writer, marks, now)
        except BaseException:
            marks.forget()
            raise
        finally:
            self._writer.light = False
        marks.edits = machine.view.edits
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

    # ---- the list to send --------------------------------------------------------------------

    def _written(
        self, items: Sequence[Item], reports: Sequence[StageReport], request: Request | None
    ) -> ListView:
        """The view in the form of the given list, legal, and what became of each message."""
        more: dict[str, Any] = {
            "tokens": self._machine.tokens,
            "reports": tuple(reports),
            "tools": () if request is None else tuple(request.tools),
        }
        names, view = self._machine.call_ids.came_as, self._machine.view
        plain = self._plain(items)
        if plain is None:
            written = [*self._of_view(items)]
            messages = [line.message for line in written]
            others = self._machine.provider.internal and not same_items(messages, view.messages)
            start = None if others else partial(self._start, written)
            legal = self._repaired(messages, start)
        else:
            followed = self._followed
            if (legal := self._repaired(plain, followed.start)) is None:
                return list_view(plain, len(items), more, replaced=followed.reworded)
            replaced = {*followed.reworded}
            written = [Written(item, at, at not in replaced) for at, item in enumerate(plain)]
        written = written if legal is None else aligned(written, legal)
        if names and self._machine.provider.by_place:
            written = [_named_as_given(line, items, names) for line in written]
        written = standing(written, items)
        return list_view([line.message for line in written], len(items), more, written=written)

    def _is_untouched(self) -> bool:
        """Whether the view shows all of the history as it was added."""
        view = self._machine.view
        # The history may have been rewound, and continued with other messages.
        self._followed.plain = min(self._followed.plain, view.in_order)
        return view.is_untouched(len(self._machine.history))

    def _plain(self, items: Sequence[Item]) -> list[Item] | None:
        """The messages, if each is sent in its place, as far as the provider takes them so; looks at what is new."""
        followed, view = self._followed, self._machine.view
        if not self._is_untouched() or not items or len(items) != len(followed.ends):
            return None
        if followed.ends[-1] != len(view.originals):
            return None
        internal = self._machine.provider.internal
        followed.as_taken = followed.as_taken[: bisect_left(followed.as_taken, followed.plain)]
        followed.reworded = followed.reworded[: bisect_left(followed.reworded, followed.plain)]
        while (at := followed.plain) < len(items):
            start, end, item = followed.start(at), followed.ends[at], items[at]
            if start == end or (internal and not (end == at + 1 and self._stands(item, at))):
                return None
            followed.plain += 1
        plain, messages = [*items], view.messages
        for at in followed.as_taken:
            plain[at] = messages[at]
        return plain

    def _stands(self, item: Item, at: int) -> bool:
        """Whether a message in the form of the internal view, which is one of the history, is sent as it was given or as it was taken."""
        ours, sent = self._machine.view.originals[at], self._machine.view.messages[at]
        is_it = _is_it(item, ours)
        same = is_it or _says_the_same(item, ours)
        # Where calls are paired by their place, what is sent has the ids that stand in the list.
        if not is_it and (as_sent(item) is item if same else self._machine.provider.by_place):
            return False
        if not same or sent.keys() != item.keys():
            self._followed.as_taken.append(at)
            if not same:
                self._followed.reworded.append(at)
        return True

    def _of_view(self, items: Sequence[Item]) -> Iterator[Written]:
        view, followed = self._machine.view, self._followed
        internal = self._machine.provider.internal
        owners = [followed.owner(at) if isinstance(at, int) else None for at in view.sources]
        for owner, group in groupby(range(len(owners)), key=owners.__getitem__):
            places = list(group)
            if owner is None:
                yield from self._translated(places, None)
                continue
            whole = len(places) == followed.ends[owner] - followed.start(owner)
            first, end, item = places[0], places[-1] + 1, items[owner]
            same = whole and same_items(view.shown[first:end], view.originals[first:end])
            # Most are the very objects that were added, in a list that is handed over again.
            if same and (not internal or as_sent(item) is item is view.originals[first]):
                yield Written(item, owner, True)
            elif not internal:
                yield from self._translated(places, owner)
            else:
                for at in places:
                    mine = same and _says_the_same(item, view.originals[at])
                    as_it_is = mine and as_sent(item) is item
                    yield Written(item if as_it_is else view.messages[at], owner, mine)

    def _translated(self, places: Sequence[int], owner: int | None) -> Iterator[Written]:
        """Messages of the view in the provider's form, under the ids that stand in the list; a form that names a result's tool is shown the calls first."""
        form, names = self._machine.provider, self._machine.call_ids.came_as
        messages: list[Any] = [self._machine.view.messages[at] for at in places]
        if not form.internal:
            before = [as_given(message, names) for message in self._calls_before(messages)]
            skip = len(form.shape.to_provider(before).parts[form.list_key]) if before else 0
            named = (as_given(message, names) for message in messages)
            messages = form.shape.to_provider([*before, *named]).parts[form.list_key][skip:]
        return (Written(message, owner, False) for message in messages)

    def _calls_before(self, messages: Sequence[Item]) -> list[Item]:
        """A user's word and an answer with the calls whose results are among the messages."""
        view, calls = self._machine.view, []
        for block in chain.from_iterable(map(blocks_of, messages)):
            name = str(block.get("tool_use_id"))
            place = view.ledger.find_call(name) if block.get("type") == "tool_result" else None
            answered = [] if place is None else blocks_of(view.messages[place[0]])
            own = (one for one in answered if one.get("type") == "tool_use")
            calls += [one for one in own if one.get("id") == name][:1]
        if not calls:
            return []
        return [{"role": "user", "content": "."}, {"role": "assistant", "content": calls}]

    def _start(self, written: Sequence[Written], at: int) -> int:
        """The position in the view at which a line begins; after its end, where it is of nothing that was given, or not of all of it."""
        sources, origin = self._machine.view.sources, written[at].origin
        place = len(sources) if origin is None else self._followed.start(origin)
        return sources.index(place) if place in sources else len(sources)

    def _repaired(
        self, messages: list[Item], start: Callable[[int], int] | None
    ) -> Sequence[Item] | None:
        """`_legal`, at the cost of what is new. `start`: the position in the view of a message's beginning; `None`: these are not the view's."""
        machine = self._machine
        if not messages or speaks(messages[-1]) or start is None:
            return self._legal(messages)
        rules, ledger, internal = self._rules, machine.view.ledger, machine.view.messages
        head = machine.provider, machine.model.name, self._writer.system
        if rules is None or not rules.go_on(ledger, head):
            rules = self._rules = _Rules(ledger, head)
        if rules.pass_on(messages, internal, start):
            return None
        legal = self._legal(messages)
        if legal is None:
            rules.note(messages, internal)
        return legal

    def _legal(self, messages: list[Item]) -> Sequence[Item] | None:
        """The messages as the provider takes them; `None`: as they are."""
        from ullage.legality.repairs import repair
        from ullage.requests.to_request import rules_model

        if not messages:
            return None
        form = self._machine.provider
        # A list that ends with the model's words gets the user's next message from its framework.
        waits = speaks(messages[-1])
        asked = [*messages, form.user_message(".")] if waits else messages
        model = rules_model(self._machine.model.name, form)
        done = repair(asked, provider=form, model=model, system=self._writer.system).messages
        return None if done is asked else done[: -1 if waits else None]

    # ---- back to what is the same ------------------------------------------------------------

    def _compared(self, items: Sequence[Item], unchanged: int) -> Sequence[str]:
        """Go back to the last known message that the list still has; returns the prints of its messages."""
        followed = self._followed
        # What a failed call had added was taken back.
        followed.cut(bisect_right(followed.ends, len(self._machine.history)))
        # Until it is sure what is known, nothing is: an error on the way must not leave objects of other messages.
        objects, followed.objects = followed.objects, core.MessageObjects()
        prints, same = _prints(items, followed, objects, unchanged)
        if same == len(followed.prints):
            same = self._adopt(items, prints)
        if same < len(followed.prints) or followed.start(same) != len(self._machine.history):
            self._return_to(same)
        # A log's messages are let go of; a gateway reads each body again.
        if not unchanged and not self._host.logged:
            followed.objects = objects
        return prints

    def _adopt(self, items: Sequence[Item], prints: Sequence[str]) -> int:
        """Know what was added or observed since the last view, as far as the list goes on with it."""
        history, followed = self._machine.history, self._followed
        while (at := len(followed.prints)) < len(items) and followed.start(at) < len(history):
            from ullage.providers.native_lists import read_item  # mostly nothing was

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


def _prints(
    items: Sequence[Item], followed: Followed, objects: core.MessageObjects, unchanged: int
) -> tuple[list[str], int]:
    """Of a list whose messages are known by the objects of which they are made, and else read; and how many of the earlier ones still hold.

    `unchanged`: so many need no look.
    """
    listed = items if type(items) is list else list(items)
    earlier = followed.prints
    same = min(len(earlier), len(listed))
    for at in objects.differing(listed, min(unchanged, same), same):
        # Its objects before its content: no code runs between, and none may change it unseen.
        objects.note(listed, at)
        if print_of(listed[at]) != earlier[at]:
            same = at
            break
        followed.plain = min(followed.plain, at)
    objects.cut(same)
    prints = earlier[:same]
    for at in range(same, len(listed)):
        objects.note(listed, at)
        prints.append(print_of(listed[at]))
    return prints, same


def speaks(item: object) -> bool:
    """Whether an item is the model's: a response, or a part of one; what is none is refused where it is taken."""
    message = message_of(item)
    if message is not None:
        return message.get("role") in ("assistant", "model")
    kind = item.get("type") if isinstance(item, Mapping) else None
    return isinstance(kind, str) and not kind.endswith(("_output", "_response", "_reference"))


_INTERNAL, _ANTHROPIC = "ullage.legality.internal", "ullage.legality.anthropic"
_UNREPAIRED = ("A24", "B03")
"""Rules that no repair is for: what is too large for the window, and definitions of tools, which no list holds."""


class _Rules:
    """The rules of a form over a list as it grows, for those that can be asked about what is new. `head`: the form, the model and the system prompt.

    A list in the form of the internal view is read from the view's ledger. Of other forms parts are judged, as `WrittenForm` does.
    """

    def __init__(self, ledger: Any, head: tuple[Provider, str, Any]) -> None:
        from ullage.legality.check import RuleRequest
        from ullage.legality.incremental import Repairer
        from ullage.legality.internal import skipped
        from ullage.requests.to_request import rules_model

        form, model, system = head
        self._ledger, self._head, self._version = ledger, head, 0
        self._seen = self._legal = 0  # messages of the history; of the list, as far as it was legal
        self._keys: set[str | None] = {""}
        self._shared: Any = None
        self._repairer: Repairer | None = None
        name, both = rules_model(model, form), form.check == form.repair
        if form.internal and form.read_as_is:
            if both and form.check == _ANTHROPIC and form.rules == "anthropic":
                self._repairer = Repairer(model=name, system=system, facts={"skip": _UNREPAIRED})
            elif both and form.check == _INTERNAL:
                self._repairer = Repairer(facts={"skip": skipped()})
        elif both and form.check != _INTERNAL:  # which does not look at ids as the list has them
            self._shared = getattr(loaded(form.check), "shared", None)
            self._before = form.user_message(".")
            self._request = RuleRequest(provider=form, model=name, system=system, skip=_UNREPAIRED)

    def go_on(self, ledger: Any, head: tuple[Provider, str, Any]) -> bool:
        """Whether it is the same list, which may have grown."""
        same = ledger is self._ledger and all(map(is_, head, self._head))
        return same and ledger.changed_since(self._version) >= self._seen

    def pass_on(
        self, items: Sequence[Item], internal: Sequence[Item], start: Callable[[int], int]
    ) -> bool:
        """Whether these messages, which the ledger holds in the internal view, are surely legal; `start`: see `WholeLists._repaired`."""
        self._seen, self._version = len(internal), self._ledger.version
        if self._repairer is not None:
            return self._repairer.passes(items, self._ledger)
        at, self._legal = self._legal, 0
        part = 0 < at < len(items) and self._part(at, items, internal[start(at) :])
        if part or at == len(items):
            self._legal = len(items)
        return self._legal > 0

    def _part(self, at: int, items: Sequence[Item], messages: Sequence[Item]) -> bool:
        """Whether what is new would be legal by itself. `messages`: the same in the internal view."""
        asked, keys = [self._before, *items[at:]], self._keys_of(items[at:], messages)
        stands = messages and not speaks(items[at - 1]) and speaks(items[at])
        if not stands or None in keys or not self._keys.isdisjoint({None, *keys}):
            return False
        self._keys |= keys
        return self._request.report(asked).ok

    def note(self, items: Sequence[Item], internal: Sequence[Item]) -> None:
        """All of these messages are legal."""
        if self._shared is not None:
            self._keys, self._legal = {"", *self._keys_of(items, internal)}, len(items)

    def _keys_of(self, items: Sequence[Item], internal: Sequence[Item]) -> set[str | None]:
        from ullage.manager.written_form import calls_of

        return {*calls_of(internal), *self._shared(internal, items)}


# What is sent, and said as data.


def _is_it(theirs: Item, ours: Item) -> bool:
    """Whether a bare message stands as it was taken."""
    bare = message_of(theirs) is theirs and "type" not in theirs
    return bare and (theirs is ours or theirs == ours)


def _says_the_same(theirs: Item, ours: Item) -> bool:
    """Whether a message was taken as it is: a second call under a used id is given another."""
    one, other = message_of(theirs) or {}, message_of(ours) or {}
    return one is other or one.get("content") == other.get("content")


def _named_as_given(line: Written, items: Sequence[Item], names: Mapping[str, str]) -> Written:
    """A message under the ids that stand in the list, for whoever pairs calls and results by their place; what says the same as there is as it was given."""
    message, at = as_given(line.message, names), line.origin
    if line.same or message is line.message:
        return line
    if at is not None and _says_the_same(items[at], message):
        return Written(items[at], at, True)
    return Written(message, at, False)


def aligned(before: Sequence[Written], after: Sequence[Item]) -> list[Written]:
    """Messages after a repair, each with the origin of the one that it stands in place of."""
    places = {id(line.message): at for at, line in enumerate(before)}
    aligned_lines: list[Written] = []
    following = 0
    for at, message in enumerate(after):
        place = places.get(id(message))
        if place is not None:
            aligned_lines.append(before[place])
            following = place + 1
            continue
        resumes = next((places[id(line)] for line in after[at:] if id(line) in places), len(before))
        fits = following < resumes and before[following].message.get("role") == message.get("role")
        aligned_lines.append(Written(message, before[following].origin if fits else None, False))
        following += fits
    return aligned_lines


def standing(written: Sequence[Written], items: Sequence[Item]) -> list[Written]:
    """What the list already says as it is to be sent, since the newest view was kept, as given."""
    standing_lines: list[Written] = []
    # A place that another message is made of stays that message's.
    origins = {line.origin for line in written}
    following = 0
    for line in written:
        place = following if line.origin is None else line.origin
        free = (
            not line.same and place < len(items) and (line.origin == place or place not in origins)
        )
        if free and items[place] == line.message:
            line = Written(items[place], place, True)
        standing_lines.append(line)
        following = following if line.origin is None else line.origin + 1
    return standing_lines


def _step(line: Written, at: int) -> PlanStep:
    if line.origin is None:
        return PlanStep("inserted", None, at)
    return PlanStep("kept" if line.same else "replaced", line.origin, at)


def plan_of(written: Sequence[Written], count: int) -> tuple[PlanStep, ...]:
    """What became of each of so many given messages, in order, and what was put between them."""
    origins = {line.origin for line in written}
    removed = [at for at in reversed(range(count)) if at not in origins]
    steps: list[PlanStep] = []
    for at, line in enumerate(written):
        while line.origin is not None and removed and removed[-1] < line.origin:
            steps.append(PlanStep("removed", removed.pop(), None))
        steps.append(_step(line, at))
    return (*steps, *(PlanStep("removed", at, None) for at in reversed(removed)))
