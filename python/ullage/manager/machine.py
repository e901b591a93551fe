"""The conversation as a pure state machine: history, view, states of the levels, counts. No I/O, no clock."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableSequence, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from itertools import count, takewhile
from typing import TYPE_CHECKING, Any, Final, TypeVar
from warnings import warn

from ullage._engine.digests import BlockKind, MessageFlag, Role
from ullage._start import hashlib, orjson
from ullage.counting.calibration import (
    LEAST_TOKENS,
    Correction,
    Estimate,
    UntrueUsageWarning,
    weights_for,
)
from ullage.counting.models import Model, ModelTable
from ullage.counting.window import WindowSettings, window_for
from ullage.effects import Emit, Flow
from ullage.facts.words import host_share, is_standing
from ullage.levels import pipeline, provider_clearing
from ullage.levels.collapse import QUIET_SOURCES
from ullage.levels.context_edits import ContextEdits
from ullage.levels.cost import working_size
from ullage.levels.level import NO_GOAL, AutoCompactor, Context, Goal, Level, Rest
from ullage.levels.pins import Pin
from ullage.levels.view import ANY, StageReport, View, is_replaced
from ullage.manager.known import Host, check_answer, check_item, names_of, no_answer, overhead_of
from ullage.manager.values import (
    Decided,
    Figure,
    RequestRecord,
    Usage,
    reported,
    states_usage,
)
from ullage.messages import Item, as_blocks, message_of, now_in_ms, same_items
from ullage.policy import Policy
from ullage.providers._common import with_id
from ullage.providers.anthropic import Thinking, is_manual
from ullage.providers.incoming import given_as_json, read_response, without_null_fields
from ullage.providers.registry import Provider

if TYPE_CHECKING:
    from ullage.manager.options import Log
    from ullage.policy import AutocompactPolicy
    from ullage.transcript.log import TranscriptLog


# Whether an automatic compaction is due, and what is remembered of earlier tries (AUTO-1 to AUTO-8).


@dataclass(slots=True)
class Tracking:
    """What automatic compaction remembers of its tries (AUTO-3, AUTO-4, AUTO-8).

    Attributes:
        turns: Answers of the model so far.
        failures: Tries in a row that failed.
        refills: Times in a row that the context was full again within a few turns.
        compactions: How many were installed.
        compacted_turn: Turn of the newest; `None`: there was none.
        last_failure: Why the newest try failed; empty: it did not.
        model_failures: Times in a row that the summarizer failed and code wrote instead.
        model_rested: Compactions since the newest of these for which it was not asked.
    """

    turns: int = 0
    failures: int = 0
    refills: int = 0
    compactions: int = 0
    compacted_turn: int | None = None
    last_failure: str = ""
    model_failures: int = 0
    model_rested: int = 0

    @property
    def turns_since(self) -> int | None:
        """Turns since the newest compaction; `None`: there was none."""
        return None if self.compacted_turn is None else self.turns - self.compacted_turn

    def failed(self, why: str) -> None:
        """One more failure in a row."""
        self.failures += 1
        self.last_failure = why

    def model_wrote(self, failure: str) -> None:
        """A compaction is there; `failure`: why the summarizer gave up and code wrote it, empty if it did not."""
        self.model_failures = self.model_failures + 1 if failure else 0
        self.model_rested = 0

    def model_rests(self, auto: AutocompactPolicy) -> bool:
        """Whether code writes at once, since the summarizer failed too often; after as many compactions it is asked again."""
        return self.model_failures >= auto.max_failures > self.model_rested

    def compacted(self, *, refill_turns: int, automatic: bool) -> None:
        """A compaction was installed: failures are forgotten; one that came too soon is counted."""
        since = self.turns_since
        soon = automatic and since is not None and since <= refill_turns
        self.refills = self.refills + 1 if soon else 0
        self.failures, self.last_failure = 0, ""
        self.compactions += 1
        self.compacted_turn = self.turns


def decided(machine: Machine) -> Decided:
    """Whether an automatic compaction is due (WIN-5, AUTO-1); a pure look at any moment."""
    tokens, limit = machine.tokens, machine.window.threshold
    code, why = obstacle(machine)
    if code:
        fills = machine.usage().by_category if code == "refills" else {}
        return Decided(False, why, code, tokens, limit, fills)
    if tokens < limit:
        return Decided(False, f"{tokens:,} of {limit:,} tokens", "below", tokens, limit)
    return Decided(True, f"{tokens:,} tokens reach {limit:,}", "due", tokens, limit)


def can_compact(machine: Machine) -> bool:
    """Whether nothing speaks against an automatic compaction, whatever the size."""
    return not obstacle(machine)[0]


def obstacle(machine: Machine, *, last_resort: bool = False) -> tuple[str, str]:
    """Why nothing automatic is done, whatever the size; empty if there is no such reason."""
    auto, tracking = machine.policy.auto, machine.tracking
    if not machine.window.autocompact:
        return "off", "automatic compaction is off"
    if machine.source in QUIET_SOURCES:
        return "source", f"{machine.source} writes a summary itself"
    if auto.reactive_only:
        return "reactive_only", "only after a refusal of the provider"
    if machine.policy.collapse.enabled and not last_resort:
        return "collapse", "context collapse is on"
    if tracking.failures >= auto.max_failures:
        return "failures", f"{tracking.failures} failures in a row: {tracking.last_failure}"
    # A rest, not an end: a later try that holds resets the count (P-8: no guard without an exit).
    resting = (tracking.turns_since or 0) <= auto.refill_turns * auto.max_refills
    if tracking.refills >= auto.max_refills and resting and not last_resort:
        turns = auto.refill_turns
        return "refills", f"full again within {turns} turns, {tracking.refills} times in a row"
    return "", ""


# Ids of calls that are used again: a second call under an id gets one of its own, and so does its result.
#
# Some servers number the calls of each answer from 0, and some give all calls of an answer one id. What is decided of a result is decided
# by its id: under a shared one a later result would be shown as an earlier one. Whoever keeps the list has to find its own ids in it:
# `as_given` puts them back.


LONGEST = 40
"""Characters of an id that every API takes."""


class CallIds:
    """Which call ids a conversation has used. Rebuilt from its history, it is the same.

    Attributes:
        calls: Ids of calls, each with the id of its response.
        answered: Ids that a result names.
        waiting: Ids of calls that no later result names, in order.
        came_as: By the id of its own that a call got here, the one it came with.
    """

    def __init__(self, came_as: Mapping[str, str] | None = None) -> None:
        self.calls: dict[str, str | None] = {}
        self.answered: set[str] = set()
        self.waiting: dict[str, None] = {}
        self.came_as: dict[str, str] = dict(came_as or ())
        # By the id that it came with, the newest call that was renamed.
        self._newest: dict[str, str] = {}
        # Calls of the newest answer without a result, in order.
        self._open: dict[str, None] = {}
        self._spoken = False  # the newest message is the model's

    def of_all(self, items: Iterable[Item]) -> list[Item]:
        """Messages in order, each `own` and taken in."""
        own = []
        for item in items:
            own.append(self.own(item))
            self.take(own[-1])
        return own

    def own(self, item: Item) -> Item:
        """The message, its calls and results under ids of their own; the same object where they are already."""
        message = message_of(item)
        content = None if message is None else message.get("content")
        if message is None or not isinstance(content, list):
            return item
        names_here: list[str] = []  # by calls and results of this message
        blocks = [self._block(block, message.get("id"), names_here) for block in content]
        if same_items(blocks, content):
            return item
        changed = {**message, "content": blocks}
        return changed if message is item else {**item, "message": changed}

    def take(self, item: Item) -> None:
        """Note the ids of a message that was added."""
        message = message_of(item)
        if message is None:
            return
        self.heard(message.get("role"))
        content = message.get("content")
        for key, name in map(_id_in, content if isinstance(content, list) else ()):
            if key == "id":
                self.note_calls((name,), message.get("id"))
            elif key:
                self.note_results((name,))

    def heard(self, role: Any) -> None:
        """A message of this role has come; its calls or results are noted next."""
        if role == "assistant" and not self._spoken:
            self._open = {}
        if role != "system":
            self._spoken = role == "assistant"

    def note_calls(self, names: Iterable[str], response: Any) -> None:
        """Note calls of an answer; `response`: its id, if it has one."""
        made_by = response if isinstance(response, str) else None
        for name in names:
            if name in self.calls:
                continue
            self.calls[name] = made_by
            self.waiting[name] = self._open[name] = None
            if name in self.came_as:
                self._newest[self.came_as[name]] = name

    def note_results(self, names: Iterable[str]) -> None:
        """Note results of these calls."""
        for name in names:
            self.answered.add(name)
            self.waiting.pop(name, None)
            self._open.pop(name, None)

    def _block(self, block: Any, response: Any, names_here: list[str]) -> Any:
        key, came = _id_in(block)
        if not key:
            return block
        if key == "id":
            name = self._of_call(came, response, names_here)
        else:
            name = self._of_result(came, names_here)
        names_here.append(name)
        return block if name == came else {**block, key: name}

    def _of_call(self, came: str, response: Any, names_here: list[str]) -> str:
        newest = self._newest.get(came, came)
        if newest not in names_here:
            if newest not in self.calls:
                return newest
            if response is not None and self.calls[newest] == response:
                return newest  # the same answer once more, not another call
        stem = came
        if len(came) > LONGEST - 8:
            stem = "call-" + hashlib.sha256(came.encode("utf-8", "surrogatepass")).hexdigest()[:24]
        others = (f"{stem}-{number}" for number in count(2))
        name = next(one for one in others if one not in self.calls and one not in names_here)
        self.came_as[name] = came
        return name

    def _of_result(self, came: str, names_here: list[str]) -> str:
        """The first open call of the newest answer that came with this id, else the newest one of them."""
        # Without calls that were renamed it can only be its own.
        for name in self._open if self.came_as else self._open.keys() & {came}:
            if self.came_as.get(name, name) == came and name not in names_here:
                return name
        newest = self._newest.get(came, came)
        return came if newest in self.answered or newest in names_here else newest


def _id_in(block: Any) -> tuple[str, str]:
    """The key under which a block holds a call's id, and the id; empty: it is neither call nor result."""
    kind = block.get("type") if isinstance(block, Mapping) else None
    key = "id" if kind == "tool_use" else "tool_use_id" if kind == "tool_result" else ""
    name = block.get(key) if key else None
    return (key, name) if isinstance(name, str) else ("", "")


def as_given(message: Item, came_as: Mapping[str, str]) -> Item:
    """A bare message with the ids that its calls and results came with (`CallIds.came_as`); the same object where they are there."""
    content = message.get("content")
    if not came_as or not isinstance(content, list):
        return message
    blocks = [with_id(block, came_as) for block in content]
    return message if same_items(blocks, content) else {**message, "content": blocks}


# What the window is spent on, by category, kept up to date as the view grows (BEY-3).


CATEGORIES: Final = (
    "system",
    "tools",
    "user",
    "assistant",
    "thinking",
    "tool calls",
    "tool results",
    "shortened results",
    "media",
    "summaries",
    "host text",
    "other",
)
"""In the order in which they are shown."""

_AT: Final = {name: at for at, name in enumerate(CATEGORIES)}
# Places by plain numbers: a log has a row of each message in each turn, and a look at an enum's member takes as long as one at a dict.
_OF_KIND: Final = {
    int(BlockKind.TOOL_USE): _AT["tool calls"],
    int(BlockKind.SERVER_TOOL_USE): _AT["tool calls"],
    int(BlockKind.TOOL_RESULT): _AT["tool results"],
    int(BlockKind.SERVER_TOOL_RESULT): _AT["tool results"],
    int(BlockKind.THINKING): _AT["thinking"],
    int(BlockKind.REDACTED_THINKING): _AT["thinking"],
    int(BlockKind.IMAGE): _AT["media"],
    int(BlockKind.DOCUMENT): _AT["media"],
    int(BlockKind.COMPACTION): _AT["summaries"],
}
_OF_ROLE: Final = {
    int(Role.USER): _AT["user"],
    int(Role.ASSISTANT): _AT["assistant"],
    int(Role.TOOL): _AT["tool results"],
    int(Role.SYSTEM): _AT["host text"],
}
_TEXT, _RESULT, _USER = int(BlockKind.TEXT), int(BlockKind.TOOL_RESULT), int(Role.USER)
_SHORTENED, _HOST, _OTHER = _AT["shortened results"], _AT["host text"], _AT["other"]
_SUMMARY: Final = MessageFlag.SUMMARY
Row = tuple[tuple[int, int], ...]


class Tally:
    """Estimated tokens of a view by category; looking again costs what changed since. `overhead`: tokens of `system` and `tools`."""

    def __init__(self, overhead: Mapping[str, int]) -> None:
        self._overhead = overhead
        self._totals = [0] * len(CATEGORIES)
        self._rows: list[tuple[Item, Row]] = []  # with the message that each is of
        self._version = 0
        self._ledger: Any = None

    def look(self, view: View, count: int) -> dict[str, int]:
        """Categories of the first so many messages that are not empty, in their order; not fewer messages than in the call before."""
        rows, totals, shown, end = self._rows, self._totals, view.shown, len(self._rows)
        same = self._ledger is view.ledger
        valid = view.ledger.changed_since(self._version) if same else 0
        self._ledger, self._version = view.ledger, view.ledger.version
        # A level changes a few of many: the others are the same objects, and count the same.
        places = range(valid, end)
        new = [at for at in places if at >= count or not same or rows[at][0] is not shown[at]]
        for index in new:
            for at, tokens in rows[index][1]:
                totals[at] -= tokens
        del rows[count:]
        for index in (*(at for at in new if at < count), *range(end, count)):
            row = _row(view, index)
            rows[index : index + 1] = [(shown[index], row)]
            for at, tokens in row:
                totals[at] += tokens
        totals[0], totals[1] = self._overhead.get("system", 0), self._overhead.get("tools", 0)
        return {name: totals[at] for name, at in _AT.items() if totals[at]}


def _row(view: View, index: int) -> Row:
    message = view.ledger.message(index)
    if isinstance(view.sources[index], str) or message.flags & _SUMMARY:  # a level wrote it
        name = "host text" if is_standing(view.originals[index]) else "summaries"
        return ((_AT[name], message.tokens),)
    own = _OF_ROLE.get(message.role, _OTHER)
    tokens_by_category: dict[int, int] = {}
    left = message.tokens
    for block in view.ledger.blocks(index):
        kind = block.kind
        at = own if kind == _TEXT else _OF_KIND.get(kind, _OTHER)
        if kind == _RESULT:
            decided = view.decisions and view.ledger.string(block.id) in view.decisions
            if decided or is_replaced(block.chars, block.flags):
                at = _SHORTENED
        tokens_by_category[at] = tokens_by_category.get(at, 0) + block.tokens
        left -= block.tokens
    is_input = message.role == _USER and own in tokens_by_category
    if is_input and (host := _host_tokens(view, index)):
        tokens_by_category[own] -= host
        tokens_by_category[_HOST] = host
    # What frames a message counts to what most of it is, the first of equals.
    main = min(tokens_by_category, key=lambda at: (-tokens_by_category[at], at), default=own)
    tokens_by_category[main] = tokens_by_category.get(main, 0) + left
    return tuple(tokens_by_category.items())


def _host_tokens(view: View, index: int) -> int:
    """Tokens of the part of a user message that a host wrote, as its share of the characters."""
    content: list[Any] = as_blocks(view.messages[index].get("content"))
    blocks = view.ledger.blocks(index)
    if len(content) != len(blocks):
        return 0
    texts = (block.get("text") if isinstance(block, Mapping) else None for block in content)
    return sum(
        block.tokens * host_share(text) // len(text)
        for text, block in zip(texts, blocks, strict=True)
        if block.kind == _TEXT and isinstance(text, str) and text
    )


S = TypeVar("S")

_UNCONCERNED = (None, provider_clearing.observe)
"""What levels do with an answer that says nothing of `context_management`."""


class Machine:
    """State and pure transitions; everything with effects is in the flows.

    `overhead`: estimated tokens of `system` and `tools`, changed in place; `tools`: names that the host offers; `stated_window`: what the
    host stated of the model; `thinking` and `context_management`: the parameters of requests.
    """

    def __init__(
        self,
        *,
        model: Model,
        policy: Policy,
        settings: WindowSettings,
        overhead: dict[str, int],
        source: str,
        provider: Provider,
        tools: frozenset[str],
        thinking: Thinking | None,
        levels: tuple[Level, ...],
        stated_window: dict[str, int],
        context_management: Mapping[str, Any] | None,
    ) -> None:
        self.model, self.settings, self.overhead, self.source = model, settings, overhead, source
        self.tools, self.thinking, self.levels = tools, thinking, levels
        self.change_form(provider)
        self.stated_window, self.context_management = stated_window, context_management
        self.table_window = model.context_window
        self.watched = any(level.observe not in _UNCONCERNED for level in levels)
        self.catch_ups = [level.catch_up for level in levels if level.catch_up is not None]
        collapse = settings.context_collapse
        if collapse is not None and collapse != policy.collapse.enabled:
            policy = policy.change({"collapse.enabled": collapse})
        # As the host gave it, and what differs from its preset; `policy` is fitted to the window.
        self.stated_policy, self.stated_changes = policy, policy.changes()
        self._begin(model)

    def _begin(self, model: Model) -> None:
        self.history: MutableSequence[Item] = []
        self.view = View(weights_for(model))
        self.states = pipeline.fresh_states(self.levels)
        self.reports: list[StageReport] = []
        self.let_go = (0, 0)  # reports that are no longer kept; request of the newest
        # Records of requests; of the newest only tuples with the length of the view in the last place. What each was spent on is
        # worked out when somebody asks, or before the view changes in another way than by growing (`settle`).
        self._records: list[RequestRecord] = []
        self._noted: list[tuple[Any, ...]] = []
        self.tally = Tally(self.overhead)
        self.pins: dict[str, Pin] = {}
        self.call_ids = CallIds()
        self.tracking = Tracking()
        self.requests = 0
        self.recovered = 0  # number of the request for which the last resorts are running
        self.steps_tried: list[str] = []
        self.learned_limit: int | None = None
        self.correction = Correction(model.name)
        self.figure: Figure | None = None
        self.prints: list[str] = []  # of messages, taken when the state is saved
        self.skipped_from: int | None = None  # first message of requests made without the levels
        self.told_of_usage = False  # the warning about usage that cannot be true was given
        # Not saved: the newest request's clock; until when no level has anything to do; how often levels may have changed their states.
        self.now_ms: int | None = None
        self.resting_until: Rest | None = None
        self.looks = 0
        self.set_window(model)
        if self.context_management is not None:
            self.state(ContextEdits).config = dict(self.context_management)

    def change_form(self, provider: Provider) -> None:
        """Read and write messages in this form from now on."""
        self.provider, self._form = provider, provider.plain_form
        # What messages may carry besides Anthropic's own keys: data of this form.
        self._own = "" if provider.internal else provider.carrier or provider.name

    def fresh(self) -> Machine:
        """A conversation of the same settings before its first message."""
        fresh = copy(self)
        fresh.overhead = dict(self.overhead)
        fresh._begin(replace(self.model, context_window=self.table_window))
        return fresh

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
            working_tokens=self._working_tokens(model),
        )
        self.policy = self.stated_policy.fitted(min(self.window.context, self.window.prompt))
        if not self.window.compaction:
            off = {"collapse.enabled": False, "micro.provider_compact_tokens": 0}
            self.policy = self.policy.change(off)

    def _working_tokens(self, model: Model) -> int | None:
        """Where nobody states how much of the window to use, and compaction happens by itself, the size that is found (COST-1).

        A window that is stated as the table has it says nothing of how much to use.
        """
        policy, settings = self.stated_policy, self.settings
        stated = settings.auto_compact_window or "auto.start_percent" in self.stated_changes
        window = settings.max_context_tokens or self.stated_window.get("context_window")
        if window is not None:
            row = ModelTable.builtin().find(model.name)
            stated = stated or row is None or row.context_window != window
        if stated and not policy.cost.work_tokens:
            return None
        if not policy.auto.enabled or policy.auto.reactive_only or settings.disable_auto_compact:
            return None
        return working_size(model, policy, overhead_tokens=self.overhead_tokens).tokens

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
        self.set_window(self.model)

    def learn(self, limit: int | None) -> None:
        """Learn a window that a provider's error named (WIN-6); `None` or a larger one changes nothing."""
        if limit is not None and limit < self.window.whole:
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
        answers: bool = False,
    ) -> list[Item]:
        """Append an item in the provider's format, or an SDK's object; returns the messages that it became.

        `about`: `id` and `usage` of the response that it is of; `at_ms`: when it came, in milliseconds since the epoch; `answers`: it has
        to be the model's. After an `InvalidMessage` whoever calls takes back what was added (`take_back`).
        """
        provider, plain = self.provider, item
        if not provider.internal:
            form, place = self._form, len(self.history)
            plain = None if form is None else form.read_plain(item, place, self._open_calls)
        if type(plain) is dict and (not answers or plain.get("role") == "assistant"):
            if about:
                plain = {**plain, **about}
            if answers and provider.internal:  # servers send every field of a block, null or not
                plain = without_null_fields(plain, of_blocks=True)
            if self._take_plain(plain, at_ms):
                return [plain]
            if not provider.internal:
                self._add(plain, at_ms)
                return [plain]
            bare = without_null_fields(plain)
            if bare is not plain and self._take_plain(bare, at_ms):
                return [bare]
        from ullage.providers.native_lists import read_item

        item = given_as_json(item, provider)
        (check_answer if answers else check_item)(item, provider)
        read = read_item(item, provider, position=len(self.history), open_calls=self._open_calls)
        messages = [{**message, **about} if about else message for message in read]
        for message in messages:
            self.add(message, at_ms=at_ms)
        return messages

    def _open_calls(self) -> list[tuple[str, str]]:
        ledger = self.view.ledger
        return [
            (name, ledger.string(ledger.blocks(at[0])[at[1]].name))
            for name in self.call_ids.waiting
            if (at := ledger.find_call(name)) is not None
        ]

    def add(self, message: Item, *, at_ms: int | None = None, uuid: str = "") -> None:
        """Append a message of the internal view, bare or an entry, which may be an `InvalidMessage`: then nothing has changed.

        `at_ms` and `uuid`: when it came (milliseconds since the epoch) and what a log calls it, where it does not say so itself.
        """
        place = len(self.history)
        if not self._take_plain(message, at_ms):
            self._add(message, at_ms)
        if uuid and not isinstance(message.get("uuid"), str):
            self.view.uuids[place] = uuid

    def _add(self, message: Item, at_ms: int | None) -> None:
        message, place = self.call_ids.own(message), len(self.history)
        if self.view.add(message, place) and at_ms is not None and "timestamp" not in message:
            self.view.times[place] = at_ms
        self.history.append(message)
        self.call_ids.take(message)

    def _take_plain(self, message: Any, at_ms: int | None) -> bool:
        """Append a message that needs no second look, which the engine reads, checks and takes in at once.

        False: it is not plain, or a decision is laid over one of its ids; nothing has changed.
        """
        view, history, call_ids = self.view, self.history, self.call_ids
        plain = view.ledger.append_plain(message, call_ids.calls, call_ids.answered, self._own)
        if plain is None:
            return False
        place = len(history)
        if not view.take(message, place, at_ms, plain):
            return False
        answer, names, _, _ = plain
        history.append(message)
        call_ids.heard(message["role"])
        if answer:
            call_ids.note_calls(names, message.get("id"))
        else:
            call_ids.note_results(names)
        if not self._own:
            view.plain.add(place)
        return True

    def observe(self, response: Any, *, at_ms: int | None = None) -> Item:
        """Append the model's response and let the levels see it; returns its newest message. Raises as `take`."""
        before = self.view.ledger.tokens()
        body, items, about = read_response(response, self.provider)
        if not items:
            raise no_answer(body)
        piece = {"id": about["id"]} if "id" in about else {}
        added: list[Item] = []
        for number, item in enumerate(items, 1):
            with_about = about if number == len(items) else piece
            added += self.take(item, with_about, at_ms=at_ms, answers=True)
        newest = added[-1] if added else {}
        # First what the provider left out: its figure is judged without that.
        if self.watched or "context_management" in (message_of(body) or body):
            context, seen = self.own_context(), given_as_json(body, self.provider)
            for level in self.levels:
                if level.observe is not None:
                    level.observe(context, seen)
        self.answered(newest, before)
        return newest

    def answered(self, newest: Item, before: int) -> None:
        """The model has answered, with this newest message; `before`: estimate of the messages without the answer.

        The estimates are corrected by its figures (TOK-2b).
        """
        self.tracking.turns += 1
        message = message_of(newest) or {}
        usage = message.get("usage")
        if not usage:
            return
        prompt, answer = reported(usage)
        if self._set_aside(usage, prompt + answer) or not prompt:
            return
        view, last = self.view, self.figure
        after = view.ledger.tokens()
        self.figure = Figure(prompt + answer, after, len(view.messages), view.rewrites)
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
        newest, count = view.anchor(), len(view.messages)
        anchors = newest is not None and newest.last == count - 1
        if anchors or not count or not states_usage(usage):
            return False
        estimated = int(view.ledger.tokens())
        if not self.told_of_usage and estimated >= LEAST_TOKENS:
            self.told_of_usage = True
            text = (
                f"a response of {self.model.name!r} states {stated:,} tokens for messages of about {estimated:,}: usage below half "
                "of the estimate cannot be true, so sizes are estimated until a figure is"
            )
            warn(text, UntrueUsageWarning, stacklevel=1)
        return True

    def take_back(self, count: int) -> None:
        """Drop the messages that came in after the first `count`, as if they had never been added; no request has shown them."""
        view = self.view
        if len(self.history) <= count and len(view.ledger) <= len(view):
            return
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
        self.call_ids = CallIds(self.call_ids.came_as)
        self.call_ids.of_all(self.history)

    # ---- counts ------------------------------------------------------------------------------

    @property
    def overhead_tokens(self) -> int:
        """System prompt and tool definitions, by estimate."""
        return sum(self.overhead.values())

    def estimate(self) -> Estimate:
        """Tokens of the next request: the newest reported figure, and the corrected estimate of what it lacks."""
        usage, remaining = self._figure_and_estimate()
        estimate = self.correction.apply(abs(remaining))
        if remaining < 0:
            estimate = Estimate(-estimate.tokens, -estimate.high, -estimate.low)
        return Estimate(*(max(0, usage + part) for part in estimate))

    @property
    def tokens(self) -> int:
        """Tokens of the next request."""
        return self.sizes()[1]

    def estimated(self) -> int:
        """Tokens of the next request by the estimate alone."""
        return int(self.view.ledger.tokens()) + self.overhead_tokens

    def sizes(self) -> tuple[int, int]:
        """Tokens of the next request as `View.tokens` and as `tokens` count them."""
        usage, remaining = self._figure_and_estimate()
        if remaining >= 0:
            return usage + remaining, usage + self.correction.count(remaining)
        return max(0, usage + remaining), max(0, usage - self.correction.count(-remaining))

    def _figure_and_estimate(self) -> tuple[int, int]:
        """Tokens of the next request that a figure states, 0 without one, and the estimate of what it lacks."""
        view = self.view
        count = view.ledger.anchored(0, ANY)
        anchor = view.held(count.anchor)
        if anchor is None:
            return 0, int(view.ledger.tokens()) + sum(self.overhead.values())
        return anchor.usage, count.estimated - view.freed_since(anchor)

    def usage(self) -> Usage:
        """How full the window is now."""
        self._add_up()  # the tally does not go back to fewer messages
        estimate = self.estimate()
        anchored = self.view.anchor() is not None
        by_category = self.tally.look(self.view, len(self.view))
        return Usage(
            estimate.tokens, self.window.context, anchored, estimate.low, estimate.high, by_category
        )

    # ---- marks ---------------------------------------------------------------------------

    @property
    def last_resort_tokens(self) -> int:
        """Above this a request is folded or truncated: the window itself where the host waits for the provider's refusal (AUTO-10)."""
        waits = self.policy.auto.reactive_only or not self.window.autocompact
        percent = 100 if waits else self.policy.truncate.start_percent
        return self.window.prompt * percent // 100

    # ---- costs -------------------------------------------------------------------------------

    def noted(self, report: StageReport) -> Flow[StageReport]:
        """A report, numbered and priced, in the account and passed to the listeners."""
        from ullage.levels.cost import cost_of, is_cold
        from ullage.observe.events import LevelActed

        number = self.requests + 1
        # Levels that acted before it for the next request have broken the prefix already (BEY-2).
        newest = takewhile(lambda latest: latest.request == number, reversed(self.reports))
        earlier = [latest.first_changed for latest in newest if latest.first_changed is not None]
        cost = cost_of(
            report,
            self.view,
            self.model,
            overhead_tokens=self.overhead_tokens,
            broken_from=min(earlier, default=None),
            cold=is_cold(self.view, self.model, self.now_ms),
        )
        report = replace(report, request=number, cost=cost)
        self.reports.append(report)
        yield Emit(LevelActed(report=report))
        return report

    # ---- requests without levels -------------------------------------------------------------

    @property
    def records(self) -> list[RequestRecord]:
        """What is remembered of requests, oldest first; the list is the machine's own."""
        self._add_up()
        return self._records

    @records.setter
    def records(self, records: list[RequestRecord]) -> None:
        self._records, self._noted = records, []

    @property
    def record_count(self) -> int:
        """How many there are."""
        return len(self._records) + len(self._noted)

    def _add_up(self) -> None:
        for *fields, shown in self._noted:
            categories = self.tally.look(self.view, shown)
            self._records.append(RequestRecord._make([*fields, categories]))
        self._noted.clear()

    def trim_records(self, keep: int) -> None:
        """Hold only the newest so many."""
        more = max(0, self.record_count - keep)
        del self._noted[: max(0, more - len(self._records))]
        del self._records[:more]

    def request_made(self, messages: int, tokens: int, now_ms: int | None) -> int:
        """One more request was made; returns its number."""
        number, tracking = self.requests + 1, self.tracking
        # Where answers are only added, each request but this one has had its answer.
        if tracking.turns < self.requests:
            tracking.turns = self.requests
        self.requests = number
        row = (number, messages, len(self.history), tokens, now_ms, len(self.view.messages))
        self._noted.append(row)
        return number

    def settle(self) -> None:
        """Do what requests without levels left undone: before the view changes other than by growing, or a state is looked at."""
        self._add_up()
        start, self.skipped_from = self.skipped_from, None
        if start is None:
            return
        context = self._plain_context()
        for catch_up in self.catch_ups:
            self.looks += catch_up(context, start) is not False

    def touch(self) -> None:
        """A level looks, or the host changes what it looks at: its marks and its state may not be what they were."""
        self.resting_until = None
        self.looks += 1

    # ---- what levels are given ---------------------------------------------------------------

    def context(
        self,
        host: Host,
        now_ms: int | None,
        *,
        goal: Goal | None = None,
        compactor: AutoCompactor | None = None,
    ) -> Context:
        """What the levels are given for the next request."""
        self.settle()
        self.touch()
        self.now_ms = now_ms
        return self._plain_context(
            window_tokens=self.window.context,
            effective_tokens=self.window.effective,
            overhead_tokens=self.overhead_tokens,
            now_ms=now_ms,
            source=self.source,
            model=self.model,
            manual_thinking=self.manual_thinking,
            tools=self.tools,
            request=self.requests + 1,
            pins=self.pins.values(),
            store=host.offload,
            summarizer=host.summarizer,
            line_summarizer=host.line_summarizer,
            background=host.background,
            compactor=compactor,
            count=lambda: self.tokens,
            goal=goal or NO_GOAL,
        )

    def state(self, kind: type[S]) -> S:
        """The state of a level, by its class."""
        return self.own_context().state(kind)

    def own_context(self) -> Context:
        """For what levels do between requests, without the host."""
        self.settle()
        self.touch()
        return self._plain_context()

    def _plain_context(self, **more: Any) -> Context:
        return Context(
            view=self.view,
            policy=self.policy,
            states=self.states,
            provider=self.provider,
            history=self.history,
            **more,
        )


# Times and names that a conversation's log is written with.


def new_uuid() -> str:
    """A random one, of version 4."""
    random = os.urandom(16)  # the standard library's module takes milliseconds to load
    name, variant = random.hex(), "89ab"[random[8] & 3]
    return f"{name[:8]}-{name[8:12]}-4{name[13:16]}-{variant}{name[17:20]}-{name[20:]}"


@contextmanager
def opened_log(
    log: Log, clock: Callable[[], int | None], *, create: bool
) -> Iterator[tuple[TranscriptLog, bool]]:
    """A log, opened and stamped by the host's clock if it is a path, and whether it is; then it is closed after an error."""
    if not isinstance(log, str | os.PathLike):
        yield log, False  # its owner's to close
        return
    from ullage.transcript.log import TranscriptLog

    opened = TranscriptLog.open(log, create=create, clock=lambda: clock() or now_in_ms())
    try:
        yield opened, True
    except BaseException:
        opened.close()
        raise


def as_bytes(item: object, option: int = 0) -> bytes:
    """For a fingerprint: the item as JSON, or where JSON cannot hold it as Python shows it."""
    try:
        return orjson.dumps(item, default=repr, option=option | orjson.OPT_NON_STR_KEYS)
    except (orjson.JSONEncodeError, RecursionError):  # lone surrogates, integers over 64 bits
        return repr(item).encode("utf-8", "surrogatepass")
