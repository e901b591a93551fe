"""The conversation as a pure state machine: history, view, states of the levels, counts. No I/O, no clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableSequence, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any, TypeVar

from ullage.counting.calibration import LEAST_TOKENS, Correction, Estimate
from ullage.counting.estimate import weights_for
from ullage.counting.models import Model
from ullage.counting.window import Window, WindowSettings, window_for
from ullage.effects import Emit, Flow
from ullage.levels import pipeline, provider_clearing
from ullage.levels.level import Compactor, Context, Goal, Level, LevelState, Rest
from ullage.levels.pins import Pin
from ullage.levels.report import StageReport
from ullage.levels.view import ANY, View
from ullage.manager.account import Account
from ullage.manager.call_ids import CallIds
from ullage.manager.categories import Tally
from ullage.manager.due import Tracking
from ullage.manager.figures import Figure, reported, states_usage, warn_of_usage
from ullage.manager.host import Host, names_of, overhead_of
from ullage.manager.known import check_answer, check_item
from ullage.manager.values import Usage
from ullage.messages import Item, message_of
from ullage.policy import Policy
from ullage.providers.manual_thinking import Thinking, is_manual
from ullage.providers.registry import Provider, provider_of
from ullage.requests.inbound import given_as_json, read_response

if TYPE_CHECKING:
    from ullage.levels.cost import Cost
    from ullage.manager.explain import RequestRecord

__all__ = ["Machine"]

S = TypeVar("S")
Adder = Callable[["Machine", Item, int | None], None]

_UNCONCERNED = (provider_clearing.observe,)
"""What levels do with an answer that says nothing of `context_management`."""


@dataclass(slots=True)
class Machine:
    """State and pure transitions; everything with effects is in the flows."""

    model: Model
    policy: Policy
    settings: WindowSettings
    overhead: dict[str, int]  # estimated tokens of `system` and `tools`
    source: str = "main"
    provider: Provider = field(default_factory=lambda: provider_of("anthropic"))
    tools: frozenset[str] = frozenset()  # names that the host offers
    thinking: Thinking | None = None  # the request's parameter
    levels: tuple[Level, ...] = pipeline.ORDER
    history: MutableSequence[Item] = field(default_factory=list)
    reports: list[StageReport] = field(default_factory=list)
    pins: dict[str, Pin] = field(default_factory=dict)
    call_ids: CallIds = field(default_factory=CallIds)
    tracking: Tracking = field(default_factory=Tracking)
    requests: int = 0
    recovered: int = 0  # number of the request for which the last resorts are running
    steps_tried: list[str] = field(default_factory=list)
    learned_limit: int | None = None
    stated_window: dict[str, int] = field(default_factory=dict)  # what the host stated of the model
    now_ms: int | None = None  # the clock of the newest request; not saved
    account: Account = field(default_factory=Account)
    let_go: tuple[int, int] = (0, 0)  # reports that are no longer kept; request of the newest
    prints: list[str] = field(default_factory=list)  # of messages, taken when the state is saved
    figure: Figure | None = None
    rest: Rest | None = None  # until when no level has anything to do; not saved
    told_of_usage: bool = False  # the warning about usage that cannot be true was given
    skipped_from: int | None = None  # first message of requests that were made without the levels
    stated_policy: Policy = field(
        init=False
    )  # as the host gave it; `policy` is fitted to the window
    stated_changes: dict[str, Any] = field(init=False)  # what differs from its preset
    window: Window = field(init=False)
    view: View = field(init=False)
    states: dict[str, LevelState] = field(init=False)
    correction: Correction = field(init=False)
    tally: Tally = field(init=False)
    table_window: int = field(init=False)

    def __post_init__(self) -> None:
        self.table_window = self.model.context_window
        self.view = View(weights_for(self.model))
        self.states = pipeline.fresh_states(self.levels)
        self.correction = Correction(self.model.name)
        collapse = self.settings.context_collapse
        if collapse is not None and collapse != self.policy.collapse.enabled:
            self.policy = self.policy.change({"collapse.enabled": collapse})
        self.stated_policy, self.stated_changes = self.policy, self.policy.changes()
        self.tally = Tally(self.overhead)
        self.set_window(self.model)

    @property
    def manual_thinking(self) -> bool:
        """Whether an open turn has to begin with its thinking (A14)."""
        return is_manual(self.thinking, provider=self.provider)

    def set_window(self, model: Model) -> None:
        """Switch to another model or window; all thresholds follow."""
        self.model = model
        auto = self.stated_policy.auto
        self.window = window_for(
            model,
            autocompact=auto.enabled,
            settings=self.settings,
            start_percent=auto.start_percent,
        )
        self.policy = self.stated_policy.fitted(self.window.prompt)
        if not self.window.compaction:
            off = {"collapse.enabled": False, "micro.provider_compact_tokens": 0}
            self.policy = self.policy.change(off)

    def change_model(self, model: Model) -> None:
        """Go on with another model: its window, its weights, and no figures of the one before."""
        self.learned_limit, self.table_window = None, model.context_window
        self.set_window(model)
        self.correction, self.figure = Correction(model.name), None
        if weights_for(model) != self.view.weights:
            self.view.weigh(weights_for(model))

    def change_overhead(
        self, system: Any, tools: Sequence[Any], definitions: Sequence[Mapping[str, Any]]
    ) -> None:
        """Count another system prompt and other tools from now on; `definitions` are the tools as they were read."""
        self.settle()
        self.overhead.update(overhead_of(system, tools, self.model))
        self.tools = names_of(definitions)

    def unlearn(self) -> None:
        """Use the table's window again."""
        if self.learned_limit is not None:
            self.learned_limit = None
            self.set_window(replace(self.model, context_window=self.table_window))

    def learn(self, limit: int | None) -> None:
        """Learn a window that a provider's error named (WIN-6); `None` or a larger one changes nothing."""
        if limit is not None and limit < self.window.context:
            self.learned_limit = limit
            # A limit in an error is more reliable than a setting.
            self.settings = replace(self.settings, max_context_tokens=None)
            self.set_window(replace(self.model, context_window=limit))

    # ---- input -------------------------------------------------------------------------------

    def take(
        self,
        item: Any,
        about: Mapping[str, Any] | None = None,
        *,
        at_ms: int | None = None,
        add: Adder | None = None,
        checked: bool = False,
    ) -> list[Item]:
        """Append an item in the provider's format; returns the messages that it became.

        Args:
            item: A message, or an item of Responses; an SDK's object of either.
            about: `id` and `usage` of the response that it is of.
            at_ms: When it came, in milliseconds since the epoch; `None`: unknown.
            add: Does what `add` does; `None`: that.
            checked: It is JSON, without nulls, and was checked.

        Raises:
            InvalidMessage: The message is malformed; state is unchanged.
        """
        from ullage.providers.native_lists import read_item

        if not checked:
            item = given_as_json(item, self.provider)
            check_item(item, self.provider)
        found = read_item(
            item, self.provider, position=len(self.history), open_calls=self._open_calls
        )
        made = [{**message, **about} if about else message for message in found]
        for message in made:
            if add is None:
                self.add(message, at_ms=at_ms)
            else:
                add(self, message, at_ms)
        return made

    def _open_calls(self) -> list[tuple[str, str]]:
        ledger = self.view.ledger
        found = ((name, ledger.find_call(name)) for name in self.call_ids.waiting)
        shown = ((name, ledger.blocks(at[0])[at[1]]) for name, at in found if at is not None)
        return [(name, ledger.string(block.name)) for name, block in shown]

    def add(self, message: Item, *, at_ms: int | None = None, uuid: str = "") -> None:
        """Append a message of the internal view.

        Args:
            message: Bare, or an entry.
            at_ms: When it came, in milliseconds since the epoch, where it does not say so itself; `None`: unknown.
            uuid: What a log calls it, where it has no uuid of its own.

        Raises:
            InvalidMessage: The message is malformed; state is unchanged.
        """
        message, place = self.call_ids.own(message), len(self.history)
        if self.view.add(message, place) and at_ms is not None and "timestamp" not in message:
            self.view.times[place] = at_ms
        if uuid and not isinstance(message.get("uuid"), str):
            self.view.uuids[place] = uuid
        self.history.append(message)
        self.call_ids.take(message)

    def observe(self, response: Any, *, at_ms: int | None = None, add: Adder | None = None) -> Item:
        """Append the model's response and let the levels see it; returns its newest message. `add`: see `take`."""
        before = int(self.view.ledger.tokens())
        body, items, about = read_response(response, self.provider)
        check_answer(body, items, self.provider)
        piece = {"id": about["id"]} if "id" in about else {}
        taken: list[Item] = []
        for number, item in enumerate(items):
            told = about if number + 1 == len(items) else piece
            taken += self.take(item, told, at_ms=at_ms, add=add, checked=item is body)
        newest = taken[-1] if taken else {}
        # First what the provider left out: its figure is judged without that.
        if self.watched or "context_management" in (message_of(body) or body):
            context = self._own_context()
            for level in self.levels:
                if level.observe is not None:
                    level.observe(context, body)
        self.answered(newest, before)
        return newest

    @property
    def watched(self) -> bool:
        """Whether a level looks at every answer, not only at what one says of `context_management`."""
        for each in self.levels:
            if each.observe is not None and each.observe not in _UNCONCERNED:
                return True
        return False

    def answered(self, newest: Item, before: int) -> None:
        """The model has answered, with this newest message; `before`: estimate of the messages without the answer."""
        self.tracking.turns += 1
        self._correct(newest, before)

    @contextmanager
    def whole_or_nothing(self) -> Iterator[None]:
        """What comes in meanwhile is there whole, or not at all."""
        count = len(self.history)
        held = replace(self.tracking), self.figure, self.correction
        try:
            yield
        except BaseException:
            if len(self.history) > count:
                self.forget(count)
            self.tracking, self.figure, self.correction = held
            raise

    def forget(self, count: int) -> None:
        """Drop the newest messages that no request has shown, down to `count`, as if they had never been added."""
        view = self.view
        index = len(view)
        while index and isinstance(source := view.sources[index - 1], int) and source >= count:
            index -= 1
        view.cut(index)
        for place in range(count, len(self.history)):
            view.uuids.pop(place, None)
        del self.history[count:], self.prints[count:]
        self.renumber()

    def renumber(self) -> None:
        """After messages were dropped, recompute the used call ids from those that are left."""
        self.call_ids = CallIds(self.call_ids.given)
        self.call_ids.of_all(self.history)

    def _correct(self, response: Item, before: int) -> None:
        """Correct the estimates by a provider's figure (TOK-2b)."""
        message = message_of(response) or {}
        prompt, answer = reported(message.get("usage"))
        if self._set_aside(message.get("usage"), prompt + answer) or not prompt:
            return
        view, last = self.view, self.figure
        after = int(view.ledger.tokens())
        self.figure = Figure(prompt + answer, after, len(view), view.rewrites)
        if last is None or last.rewrites != view.rewrites:
            self.correction = self.correction.rewritten(view.rewrites)
            return
        self.correction = self.correction.observe(
            before - last.estimated,
            prompt - last.total,
            model=self.model.name,
            response_id=str(message.get("id") or f"history:{len(self.history)}"),
            log_version=view.rewrites,
        )

    def _set_aside(self, usage: Any, stated: int) -> bool:
        """Whether the newest answer states a usage that cannot be true; the host is warned once (TOK-4)."""
        view = self.view
        if not states_usage(usage) or len(view) == 0:
            return False
        newest = view.anchor()
        if newest is not None and newest.last == len(view) - 1:
            return False
        estimated = int(view.ledger.tokens())
        if not self.told_of_usage and estimated >= LEAST_TOKENS:
            self.told_of_usage = True
            warn_of_usage(stated, estimated, self.model.name)
        return True

    # ---- counts ------------------------------------------------------------------------------

    @property
    def overhead_tokens(self) -> int:
        """System prompt and tool definitions, by estimate."""
        return sum(self.overhead.values())

    def estimate(self) -> Estimate:
        """Tokens of the next request: the newest reported figure, and the corrected estimate of what it lacks."""
        anchor = self.view.anchor()
        if anchor is None:
            return self.correction.apply(int(self.view.ledger.tokens()) + self.overhead_tokens)
        rest = int(self.view.ledger.anchored(0, ANY).estimated) - self.view.freed()
        found = self.correction.apply(abs(rest))
        if rest < 0:
            found = Estimate(-found.tokens, -found.high, -found.low)
        return Estimate(*(max(0, anchor.usage + each) for each in found))

    @property
    def tokens(self) -> int:
        """Tokens of the next request."""
        return self.estimate().tokens

    def estimated(self) -> int:
        """Tokens of the next request by the estimate alone."""
        return int(self.view.ledger.tokens()) + self.overhead_tokens

    def sizes(self) -> tuple[int, int]:
        """Tokens of the next request as `View.tokens` and as `tokens` count them."""
        view, correct = self.view, self.correction.count
        ledger, anchor = view.ledger, view.anchor()
        if anchor is None:
            rough = int(ledger.tokens()) + sum(self.overhead.values())
            return rough, correct(rough)
        found, freed = ledger.anchored(0, ANY), view.freed()
        rest = int(found.estimated) - freed
        grown = correct(rest) if rest >= 0 else -correct(-rest)
        return max(0, int(found.total) - freed), max(0, anchor.usage + grown)

    def usage(self) -> Usage:
        """How full the window is now."""
        self.account.settle(self.view, self.tally)
        found = self.estimate()
        anchored = self.view.anchor() is not None
        by_category = self.tally.look(self.view)
        return Usage(
            found.tokens, self.window.context, anchored, found.low, found.high, by_category
        )

    # ---- marks ---------------------------------------------------------------------------

    def trigger(self) -> int:
        """Tokens from which an automatic compaction is due."""
        return self.window.threshold

    @property
    def last_resort_tokens(self) -> int:
        """Above this a request is folded or truncated: the window itself where the host waits for the provider's refusal (AUTO-10)."""
        waits = self.policy.auto.reactive_only or not self.window.autocompact
        percent = 100 if waits else self.policy.truncate.start_percent
        return self.window.prompt * percent // 100

    # ---- costs -------------------------------------------------------------------------------

    def cost_of(self, report: StageReport) -> Cost | None:
        """What a rewrite for the next request costs; levels that acted before it have broken the prefix already (BEY-2)."""
        from ullage.levels.cost import cost_of, is_cold

        number = self.requests + 1
        newest = takewhile(lambda each: each.request == number, reversed(self.reports))
        earlier = [each.first_changed for each in newest if each.first_changed is not None]
        return cost_of(
            report,
            self.view,
            self.model,
            overhead_tokens=self.overhead_tokens,
            broken_from=min(earlier, default=None),
            cold=is_cold(self.view, self.model, self.now_ms),
        )

    def noted(self, report: StageReport) -> Flow[StageReport]:
        """A report, numbered and priced, in the account and passed to the listeners."""
        from ullage.observe.events import LevelActed

        report = replace(report, request=self.requests + 1, cost=self.cost_of(report))
        self.reports.append(report)
        yield Emit(LevelActed(report=report))
        return report

    # ---- requests without levels -------------------------------------------------------------

    @property
    def records(self) -> list[RequestRecord]:
        """What is remembered of requests, oldest first."""
        return self.account.records(self.view, self.tally)

    @records.setter
    def records(self, records: list[RequestRecord]) -> None:
        self.account.replace(records)

    def made(self, messages: int, tokens: int, now_ms: int | None) -> int:
        """One more request was made; returns its number."""
        number, tracking = self.requests + 1, self.tracking
        # Where answers are only added, each request but this one has had its answer.
        if tracking.turns < self.requests:
            tracking.turns = self.requests
        self.requests = number
        shown = len(self.view.messages)
        self.account.note(number, messages, len(self.history), tokens, now_ms, shown)
        return number

    def settle(self) -> None:
        """Do what requests without levels left undone: before the view changes other than by growing, or a state is looked at."""
        self.account.settle(self.view, self.tally)
        start, self.skipped_from = self.skipped_from, None
        if start is None:
            return
        context = Context(view=self.view, policy=self.policy, states=self.states)
        for level in self.levels:
            if level.catch_up is not None:
                level.catch_up(context, start)

    # ---- what levels are given ---------------------------------------------------------------

    def context(
        self,
        host: Host,
        now_ms: int | None,
        *,
        goal: Goal | None = None,
        compactor: Compactor | None = None,
    ) -> Context:
        """What the levels are given for the next request."""
        self.settle()
        self.rest = None
        self.now_ms = now_ms
        return Context(
            view=self.view,
            policy=self.policy,
            states=self.states,
            window_tokens=self.window.context,
            effective_tokens=self.window.effective,
            overhead_tokens=self.overhead_tokens,
            now_ms=now_ms,
            source=self.source,
            provider=self.provider,
            model=self.model,
            manual_thinking=self.manual_thinking,
            tools=self.tools,
            request=self.requests + 1,
            history=self.history,
            pins=self.pins.values(),
            store=host.offload,
            summarizer=host.summarizer,
            line_summarizer=host.line_summarizer,
            background=host.beside,
            compactor=compactor,
            count=lambda: self.tokens,
            goal=goal or Goal(),
        )

    def state(self, kind: type[S]) -> S:
        """The state of a level, by its class."""
        return self._own_context().state(kind)

    def _own_context(self) -> Context:
        """For what levels do between requests, without the host."""
        self.settle()
        self.rest = None
        return Context(view=self.view, policy=self.policy, states=self.states, history=self.history)

    def reset_levels(self) -> None:
        """A compaction was installed."""
        context = self._own_context()
        for level in self.levels:
            if level.reset is not None:
                level.reset(context)

    def rewind_levels(self, count: int) -> None:
        """Keep only the first messages of the history."""
        context = self._own_context()
        for level in self.levels:
            if level.rewind is not None:
                level.rewind(context, count)
