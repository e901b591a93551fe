"""Going back in a conversation: the newest messages go, as if they had never come."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ullage.exceptions import InvalidPolicy
from ullage.facts.reading import blocks_of
from ullage.levels.view import View
from ullage.manager.machine import Machine
from ullage.messages import Item

__all__ = ["rewind"]


def rewind(machine: Machine, count: int) -> None:
    """Go back to the first `count` messages.

    What levels made of messages before stays where it stands before one that stays; where it may stand for
    messages that go, the messages that stay come back whole.

    Args:
        machine: Changed in place; corrections, learned limits and counters stay.
        count: Messages that stay.

    Raises:
        InvalidPolicy: There are not so many.
    """
    history = machine.history
    if type(count) is not int or not 0 <= count <= len(history):
        raise InvalidPolicy(
            "count", count, f"must be from 0 to {len(history)}, the messages that were added"
        )
    if count == len(history):
        return
    machine.settle()
    machine.rest = None
    gone = set(_tool_ids(history[count:])) - set(_tool_ids(history[:count]))
    view = machine.view
    index = next(
        (
            at
            for at, source in enumerate(view.sources)
            if isinstance(source, int) and source >= count
        ),
        len(view),
    )
    written = index > 0 and isinstance(view.sources[index - 1], str)
    if not written:
        view.cut(index)
    if written or (count and not index):
        machine.view = _whole(view, history[:count])
    del history[count:], machine.prints[count:]
    machine.renumber()
    _forget(machine.view, count, gone)
    machine.rewind_levels(count)
    machine.figure = None


def _whole(view: View, history: Sequence[Item]) -> View:
    """All that stays, with the decisions about it; what was sent is another list."""
    made = View(view.weights)
    made.decisions, made.added_texts, made.whole = view.decisions, view.added_texts, view.whole
    made.emptied, made.unthought = view.emptied, view.unthought
    made.uuids, made.times = view.uuids, view.times
    for place, item in enumerate(history):
        made.add(item, place)
    made.rewrites, made.changed_from = view.rewrites + 1, 0
    return made


def _tool_ids(items: Iterable[Item]) -> Iterator[str]:
    for item in items:
        for block in blocks_of(item):
            name = block.get("id") if block.get("type") == "tool_use" else block.get("tool_use_id")
            if isinstance(name, str):
                yield name


def _forget(view: View, count: int, gone: set[str]) -> None:
    """A message that comes in the place of one that went has nothing of it."""
    view.decisions = {name: each for name, each in view.decisions.items() if name not in gone}
    view.added_texts = {at: texts for at, texts in view.added_texts.items() if at < count}
    view.whole = {name: None for name in view.whole if name not in gone}
    view.emptied = view.emptied - gone
    view.unthought = {at for at in view.unthought if at < count}
    view.uuids = {at: name for at, name in view.uuids.items() if at < count}
    view.times = {at: came for at, came in view.times.items() if at < count}
