"""What holds for every provider, over the internal view of a form: the rules of a form that has none of its own."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeVar

import orjson

from ullage._engine import core
from ullage._engine.digests import Violation
from ullage.exceptions import InvalidMessage
from ullage.legality.anthropic import facts_of
from ullage.legality.blocks import (
    DISPLACED,
    EARLIER,
    ORPHANS,
    no_messages,
    plain,
    repair_items,
    unsendable,
)
from ullage.legality.check import RuleRequest, check_unicode, read_ledger, rules
from ullage.legality.draft import (
    ASSISTANT,
    USER,
    Draft,
    Repair,
    Repaired,
    Slot,
    WorkingCopy,
    kind_of,
    text_block,
)
from ullage.legality.pairs import repair_pairs
from ullage.legality.repairs import Plan, run_steps
from ullage.providers._common import BROKEN
from ullage.providers.native_lists import FormList, read_form
from ullage.providers.registry import provider_of

RULES: Final = ("A01", "A02", "A05", "A06", "T01")
"""Messages there are and can be read, none is empty, calls and results pair, text is Unicode."""

_PLAIN: Final = ("text", "tool_use", "tool_result")


def check(items: Sequence[Any], request: RuleRequest) -> Iterator[Violation]:
    """Checks items of any form; findings name the item that a message came from."""
    form, unread = readable(items, request)
    for at in unread:
        yield Violation("A01", "error", at, -1, "cannot be read as an item of the form")
    within = inner(request)
    ledger, unreadable = read_ledger(form.messages, "A01")
    findings = core.check(ledger, within.provider.rules, facts_of(within).core)
    for violation in (*unreadable, *findings):
        at = form.owner(violation.message) if violation.message >= 0 else -1
        yield violation._replace(message=at, block=-1)
    yield from check_unicode(items, system=request.system, tools=request.tools)


def shared(messages: Sequence[Any], items: Sequence[Any]) -> Iterator[str]:
    """As that of the chat form: blocks of which nobody says what the form does with them are judged with the rest."""
    for message in messages:
        content = message.get("content")
        for block in content if isinstance(content, list) else ():
            if not isinstance(block, Mapping) or block.get("type") not in _PLAIN:
                yield ""


def readable(items: Sequence[Any], request: RuleRequest) -> tuple[FormList, list[int]]:
    """The items in the internal view, and the indices of those that cannot be read."""
    unread: list[int] = []
    form = read_form(items, request.provider, unread=unread)
    if form is None:  # the engine reads the form as it is
        form = FormList(request.provider, items, list(items), list(range(len(items))))
    return form, unread


def inner(request: RuleRequest) -> RuleRequest:
    """The request as the internal view is asked about: only `RULES` count."""
    return replace(
        request,
        provider=provider_of("anthropic"),
        model=None,
        system=None,
        tools=None,
        original=None,
        params={},
        facts={"skip": skipped()},
    )


def skipped() -> tuple[str, ...]:
    """Rules that only some providers have."""
    return tuple(rule for rule in rules() if rule not in RULES)


# Repairs that are the same for every form: items are read, repaired on the internal view, and written back.


# Keys are sorted because two writers may put them in another order, which is no change of an item.
_JSON: Final = orjson.OPT_NON_STR_KEYS | orjson.OPT_SORT_KEYS


Part = TypeVar("Part", Slot, "ChatLine")


def pair(
    work: WorkingCopy,
    parts: list[Part],
    make: Callable[[Any, int], Part],
    *,
    rules: Mapping[str, str],
    read: Callable[[Sequence[Any]], Sequence[Any]],
    steps: Sequence[Callable[[Draft], None]],
    write: Callable[[Sequence[Any]], Sequence[Any]],
) -> list[Part]:
    """Runs steps over the internal view of items; the same parts where they do nothing, or the form cannot say what they did.

    Args:
        work: Notes the repairs.
        parts: Items that the form's reader can read.
        make: A part of an item and its origin.
        rules: The form's rule for each of Anthropic's under which a step files a repair; that of "" for the others.
        read: Messages of the internal view, one for each item; a first item that only stands in for a missing one has none.
        steps: What to do.
        write: Messages in the provider's form.
    """
    items = [part.build() for part in parts]
    try:
        draft = Draft(read(items))
        for slot, part in zip(draft.slots, parts[len(parts) - len(draft.slots) :], strict=True):
            slot.origin = part.origin
        for step in steps:
            step(draft)
        if not draft.repairs:
            return parts
        written = same_objects(write(draft.build()), items, write(read(items)))
    except (*BROKEN, InvalidMessage):
        return parts
    work.repairs += [one._replace(rule=rules.get(one.rule, rules[""])) for one in draft.repairs]
    # Each item has its own origin, or that of the one before it.
    origins = {id(item): part.origin for item, part in zip(items, parts, strict=True)}
    origin, paired = 0, []
    for item in written:
        origin = origins.get(id(item), origin)
        paired.append(make(item, origin))
    return paired


def same_objects(written: Sequence[Any], items: Sequence[Any], as_read: Sequence[Any]) -> list[Any]:
    """The written items, each as the object that was given where nothing has changed in it.

    `as_read`: the given items, read and written without a repair; what that cannot reproduce of an item is no change.
    """
    items_by_key: dict[bytes, deque[Any]] = {}
    # Where the model spoke first, writing put a line before it.
    shapes = as_read[max(0, len(as_read) - len(items)) :]
    comparable = shapes if len(shapes) == len(items) else items
    for item, shape in zip(items, comparable, strict=True):
        items_by_key.setdefault(_key(shape), deque()).append(item)
    return [
        waiting.popleft() if (waiting := items_by_key.get(_key(item_written))) else item_written
        for item_written in written
    ]


def with_same_objects(done: Repaired, items: Sequence[Any]) -> Repaired:
    """The repaired list, with items that came out as they went in as the objects that were given."""
    if not done.repairs:
        return done
    same_ids = {id(item_now) for item_now in done.messages}
    free = [item for item in items if id(item) not in same_ids]
    ids_before = {id(item) for item in items}
    new_items = [item_now for item_now in done.messages if id(item_now) not in ids_before]
    swapped = dict(zip(map(id, new_items), same_objects(new_items, free, free), strict=True))
    return replace(
        done, messages=[swapped.get(id(item_now), item_now) for item_now in done.messages]
    )


def _key(item: object) -> bytes:
    try:
        return orjson.dumps(item, default=repr, option=_JSON)
    except TypeError:  # keys that JSON has no word for, or too deep for it
        pass
    try:
        return repr(item).encode(errors="backslashreplace")
    except RecursionError:
        return str(id(item)).encode()


# ---- steps -----------------------------------------------------------------------------------


def in_call_order(draft: Draft) -> None:
    """The results at the head of a user turn stand in the order of their calls."""
    order: dict[str, int] = {}
    for slot in draft.speaking():
        if slot.role == ASSISTANT:
            calls = (block for block in slot.blocks if kind_of(block) == "tool_use")
            order |= {str(call.get("id")): len(order) + at for at, call in enumerate(calls)}
            continue
        results = [block for block in slot.blocks if kind_of(block) == "tool_result"]
        others = [block for block in slot.blocks if kind_of(block) != "tool_result"]
        results.sort(key=lambda block: order.get(str(block.get("tool_use_id")), len(order)))
        if [id(block) for block in (*results, *others)] != [id(block) for block in slot.blocks]:
            draft.note("A07", slot, "put results in the order of their calls")
            slot.blocks = [*results, *others]


def in_turn(draft: Draft) -> None:
    """A line stands before the assistant's first message; neighbours of one role will be written as one."""
    first = next(draft.speaking(), None)
    if first is not None and first.role == ASSISTANT:
        draft.note("A29", first, "put a line before the first assistant message")
        draft.slots.insert(0, Slot.added(USER, [text_block(EARLIER)], first.origin))
    for before, slot in pairwise(draft.speaking()):
        if slot.role == before.role:
            draft.note("A29", slot, "merged two messages of one role")


# Repairs of a form that has none of its own: read into the internal view, repaired there, written back.


def repair(items: Sequence[Any], request: RuleRequest) -> Repaired:
    """Repairs items of any form; those that come out as they went in are the same objects."""
    report = request.report(items)
    if report.ok:
        return Repaired(items)
    form, unread = readable(items, request)
    plan: Plan = (
        ("A01", repair_items),
        ("A02", _blank),
        ("A05 A06", lambda draft: repair_pairs(draft, orphans=request.orphans)),
        ("A01 A02", no_messages),
    )
    done = run_steps(form.messages, inner(request), Draft, plan)
    action = "dropped an item that does not have the provider's format"
    repairs = [Repair("A01", at, -1, action) for at in unread]
    for one in done.repairs:
        at = form.owners[one.message] if 0 <= one.message < len(form.owners) else -1
        repairs.append(one._replace(message=at, block=-1))
    if not repairs:
        return Repaired(items, (), report.errors)
    shaped = request.provider.shape.to_provider(done.messages)
    written = same_objects(shaped.parts[request.provider.list_key], items, items)
    left = request.report(written).errors
    if len(left) > len(report.errors):
        return Repaired(items, (), report.errors)
    return Repaired(written, tuple(repairs), left)


def _blank(draft: Draft) -> None:
    """Drops text that says nothing, and messages that hold nothing else; what no rule knows stays."""

    def speaks(block: Any) -> bool:
        text = block.get("text") if kind_of(block) == "text" else "..."
        return not isinstance(text, str) or bool(text.strip())

    draft.keep("A02", "dropped a blank text block", speaks)
    draft.drop_empty("A02")


# A working copy of a list whose items are messages without blocks in common: chat, items, contents.


class ChatLine:
    """One item. `value` is the item itself until a repair puts a new one in its place.

    Attributes:
        value: The item; never changed in place.
        origin: Its index in the list that was given; that of a neighbour for an added one.
    """

    __slots__ = ("origin", "value")

    def __init__(self, value: Any, origin: int) -> None:
        self.value = value
        self.origin = origin

    def build(self) -> Any:
        """The item as it is now."""
        return self.value

    def get(self, key: str) -> Any:
        """A field of the item."""
        return self.value.get(key) if isinstance(self.value, Mapping) else None

    def put(self, **fields: Any) -> None:
        """Sets fields, in a copy."""
        self.value = {**self.value, **fields}

    def drop(self, *keys: str) -> None:
        """Removes fields, in a copy."""
        self.value = {key: value for key, value in self.value.items() if key not in keys}


class Lines(WorkingCopy):
    """Lines in order."""

    def __init__(self, items: Iterable[Any]) -> None:
        super().__init__()
        self.lines = [ChatLine(item, index) for index, item in enumerate(items)]

    def build(self) -> list[Any]:
        """The items as they are now."""
        return [line.value for line in self.lines]

    def make_plain(self, rule: str) -> None:
        """Replaces what JSON cannot hold."""
        for line in self.lines:
            if reason := unsendable({"role": USER, "content": [line.value]}):
                self.note(rule, line, f"replaced what cannot be sent: {reason}")
                line.value = plain(line.value)


def as_text(value: Any) -> str:
    """Text of content in any of the usual forms; what is no text is left out."""
    if isinstance(value, str):
        return value
    parts = value if isinstance(value, list | tuple) else ()
    texts = (part.get("text") for part in parts if isinstance(part, Mapping))
    return "\n".join(text for text in texts if isinstance(text, str))


# Answers that answer no call, in the two forms whose answers are items of their own.


class AnswerForm(NamedTuple):
    """Where an answer holds its call's id and its text; how repairs of it are filed."""

    call: str
    text: str
    orphan_rule: str
    orphan: str
    repeated_rule: str
    repeated: str

    def stray(
        self,
        work: Lines,
        line: ChatLine,
        first: ChatLine | None,
        placed: Sequence[ChatLine],
        policy: str,
        *,
        waits: bool,
    ) -> list[ChatLine]:
        """What stands for an answer to no call; where one waits, or `first` stands in its place, its text stays."""
        if first is None:
            return self.orphaned(
                work, line, placed, "text" if waits and policy == "note" else policy
            )
        work.note(self.repeated_rule, line, self.repeated, ids=(line.get(self.call),))
        text = as_text(line.get(self.text)).strip()
        if policy == "drop" or not text or text == as_text(first.get(self.text)).strip():
            return []
        return [ChatLine({"role": USER, "content": f"{DISPLACED}\n{text}"}, line.origin)]

    def orphaned(
        self, work: Lines, line: ChatLine, placed: Sequence[ChatLine], policy: str
    ) -> list[ChatLine]:
        """The line that stands for an answer whose call is missing."""
        work.note(self.orphan_rule, line, f"{self.orphan}: {policy}", ids=(line.get(self.call),))
        if policy == "drop":
            return []
        text = as_text(line.get(self.text)).strip() if policy == "text" else ""
        value = {"role": USER, "content": f"{ORPHANS}\n{text}" if text else ORPHANS}
        # One line says it for all that stand together.
        return [] if placed and placed[-1].value == value else [ChatLine(value, line.origin)]


# Parts that are one of several members, as Converse's blocks and Gemini's parts are.


def ranked(names: str) -> dict[str, int]:
    """Names of members, each with its place."""
    return {name: at for at, name in enumerate(names.split())}


def members(part: Any, names: Mapping[str, int]) -> list[str]:
    """All members that are set, in the order of `names`; a part may have one."""
    if type(part) is not dict and not isinstance(part, Mapping):
        return []
    kinds = [name for name in part if name in names and part[name] is not None]
    return kinds if len(kinds) < 2 else sorted(kinds, key=names.__getitem__)


def member(part: Any, names: Mapping[str, int]) -> str:
    """The first member that is set, "" if none is known."""
    if type(part) is dict and len(part) == 1:  # nearly all
        (name,) = part
        return name if name in names and part[name] is not None else ""
    kinds = members(part, names)
    return kinds[0] if kinds else ""
