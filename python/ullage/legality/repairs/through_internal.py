"""Repairs that are the same for every form: items are read, repaired on the internal view, and written back."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final, NamedTuple

import orjson

from ullage.exceptions import InvalidMessage
from ullage.legality.repairs.pairs import repair_pairs
from ullage.legality.repairs.result import Repair, Repaired
from ullage.legality.repairs.texts import EARLIER
from ullage.legality.repairs.working_copy import ASSISTANT, USER, Draft, Slot, kind_of, text_block
from ullage.providers._placed import BROKEN

__all__ = ["Placed", "in_call_order", "in_turn", "pair", "pairs", "same_objects", "with_given"]


_JSON: Final = orjson.OPT_NON_STR_KEYS | orjson.OPT_SORT_KEYS


class Placed(NamedTuple):
    """An item, and its index in the list that was given; that of a neighbour for an added one."""

    item: Any
    origin: int


def pair(
    given: Sequence[Placed],
    *,
    rules: Mapping[str, str],
    read: Callable[[Sequence[Any]], Sequence[Any]],
    steps: Sequence[Callable[[Draft], None]],
    write: Callable[[Sequence[Any]], Sequence[Any]],
) -> tuple[list[Placed], list[Repair]]:
    """Runs steps over the internal view of items.

    Args:
        given: Items that the form's reader can read.
        rules: The form's rule for each of Anthropic's under which a step files a repair; that of "" for the others.
        read: Messages of the internal view, one for each item; a first item that only stands in for a missing one has none.
        steps: What to do; where they do nothing, the items stay.
        write: Messages in the provider's form.
    """
    items = [each.item for each in given]
    try:
        draft = Draft(read(items))
        for slot, each in zip(draft.slots, given[len(given) - len(draft.slots) :], strict=True):
            slot.origin = each.origin
        for step in steps:
            step(draft)
        if not draft.repairs:
            return list(given), []
        written = same_objects(write(draft.build()), items, write(read(items)))
    except (*BROKEN, InvalidMessage):  # what the form cannot say stays as it is, and is left
        return list(given), []
    repairs = [each._replace(rule=rules.get(each.rule, rules[""])) for each in draft.repairs]
    return list(_with_origins(written, given)), repairs


def _with_origins(written: Sequence[Any], given: Sequence[Placed]) -> Iterator[Placed]:
    """Each item with its own origin, or that of the one before it."""
    origins = {id(each.item): each.origin for each in given}
    last = 0
    for item in written:
        last = origins.get(id(item), last)
        yield Placed(item, last)


def same_objects(written: Sequence[Any], items: Sequence[Any], as_read: Sequence[Any]) -> list[Any]:
    """The written items, each as the object that was given where nothing has changed in it.

    Args:
        written: After the repair.
        items: As given.
        as_read: The given items, read and written without a repair: what that cannot reproduce of an item is no change.
    """
    given: dict[bytes, deque[Any]] = {}
    # Where the model spoke first, writing put a line before it.
    shapes = as_read[max(0, len(as_read) - len(items)) :]
    known = shapes if len(shapes) == len(items) else items
    for item, shape in zip(items, known, strict=True):
        given.setdefault(_key(shape), deque()).append(item)
    return [found.popleft() if (found := given.get(_key(each))) else each for each in written]


def with_given(done: Repaired, items: Sequence[Any]) -> Repaired:
    """The repaired list, with items that came out as they went in as the objects that were given."""
    if not done.repairs:
        return done
    kept = {id(each) for each in done.messages}
    free = [item for item in items if id(item) not in kept]
    given = {id(item) for item in items}
    made = [each for each in done.messages if id(each) not in given]
    swapped = dict(zip(map(id, made), same_objects(made, free, free), strict=True))
    return replace(done, messages=[swapped.get(id(each), each) for each in done.messages])


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


def pairs(orphans: str) -> Callable[[Draft], None]:
    """Calls and results pair; see `repair` for `orphans`."""
    return lambda draft: repair_pairs(draft, orphans=orphans)


def in_call_order(draft: Draft) -> None:
    """The results at the head of a user turn stand in the order of their calls."""
    order: dict[str, int] = {}
    for slot in draft.speaking():
        if slot.role == ASSISTANT:
            calls = (block for block in slot.blocks if kind_of(block) == "tool_use")
            order |= {str(call.get("id")): len(order) + at for at, call in enumerate(calls)}
            continue
        results = [block for block in slot.blocks if kind_of(block) == "tool_result"]
        rest = [block for block in slot.blocks if kind_of(block) != "tool_result"]
        results.sort(key=lambda block: order.get(str(block.get("tool_use_id")), len(order)))
        if [id(block) for block in (*results, *rest)] != [id(block) for block in slot.blocks]:
            draft.note("A07", slot, "put results in the order of their calls")
            slot.blocks = [*results, *rest]


def in_turn(draft: Draft) -> None:
    """A line stands before the assistant's first message; neighbours of one role will be written as one."""
    first = next(draft.speaking(), None)
    if first is not None and first.role == ASSISTANT:
        draft.note("A29", first, "put a line before the first assistant message")
        draft.slots.insert(0, Slot.added(USER, [text_block(EARLIER)], first.origin))
    for before, slot in pairwise(draft.speaking()):
        if slot.role == before.role:
            draft.note("A29", slot, "merged two messages of one role")
