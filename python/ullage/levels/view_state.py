"""A view as plain JSON, and back: the remaining history, what levels made, every decision."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from ullage.counting.calibration import Weights
from ullage.exceptions import InvalidPolicy
from ullage.levels.view import Decision, View
from ullage.messages import Item


def dump_view(view: View) -> dict[str, Any]:
    """The view as plain JSON; messages of the history stand there by position only."""
    return _dumped(view, None).state


@dataclass(frozen=True, slots=True, eq=False)
class Dumped:
    """A view as plain JSON, and what it takes to dump it again at the cost of what is new.

    Attributes:
        view: It was dumped; the state of another says nothing about it.
        state: Plain JSON. Its lists are shared with later dumps and never changed.
        count: Messages that the view had.
        starts: For each of `state["parts"]` the index of its first message.
        edits: As the view's.
        same: By key: so many leading items are those of the dump before. A key that is missing has to be compared.
    """

    view: View
    state: dict[str, Any]
    count: int
    starts: tuple[int, ...]
    edits: int
    same: Mapping[str, int]


def dump_next(view: View, last: Dumped | None = None) -> Dumped:
    """Dump a view, reading only what came or changed since an earlier dump of it.

    Args:
        view: Its mark of what is stable is set, so one keeper of dumps can follow a view.
        last: The newest dump of the same keeper; `None`: all is read.
    """
    made = _dumped(view, last)
    view.stable = len(view)
    return made


def _dumped(view: View, last: Dumped | None) -> Dumped:
    if last is None or last.view is not view:
        last = Dumped(view, _NOTHING, 0, (), -1, {})
    kept = min(last.count, view.stable)
    old = last.state
    same: dict[str, int] = {}
    state, starts = _rows(view, last, kept, same)
    if last.edits != view.edits:
        state |= {**_edited(view), "whole": list(view.whole)}
    else:
        state |= {name: old[name] for name in _EDITED}
        same["whole"] = known = len(old["whole"])
        more = list(islice(view.whole, known, None))
        state["whole"] = [*old["whole"], *more] if more else old["whole"]
    state |= {"sent": view.sent, "changed_from": view.changed_from, "rewrites": view.rewrites}
    return Dumped(view, {name: state[name] for name in _ORDER}, len(view), starts, view.edits, same)


_EDITED = ("decisions", "added_texts", "emptied", "unthought")
_ORDER = (
    "parts", *_EDITED[:2], "whole", *_EDITED[2:], "sent", "changed_from", "rewrites", "bases", "times",
)  # fmt: skip
_NOTHING: dict[str, Any] = {"parts": [], "bases": [], "times": [], "whole": []}


def _edited(view: View) -> dict[str, Any]:
    return {
        "decisions": [
            [each.tool_use_id, each.stage, each.text] for each in view.decisions.values()
        ],
        "added_texts": [[at, list(texts)] for at, texts in view.added_texts.items()],
        "emptied": sorted(view.emptied),
        "unthought": sorted(view.unthought),
    }


def _rows(
    view: View, last: Dumped, kept: int, same: dict[str, int]
) -> tuple[dict[str, Any], tuple[int, ...]]:
    """Parts, bases and times: those of the first `kept` messages are taken over, the others are made."""
    old = last.state
    parts, starts = _first_parts(old["parts"], last.starts, kept)
    settled = max(0, len(parts) - 1)  # the last one may grow
    if kept < last.count:  # seldom: something before the end has changed
        bases, times, inside = [], [], range(len(view))
    else:
        bases, times, inside = list(old["bases"]), list(old["times"]), range(kept, len(view))
        same |= {"bases": len(bases), "times": len(times)}
    same["parts"] = settled
    for at in range(kept, len(view)):
        source = view.sources[at]
        if isinstance(source, str):
            parts.append({"key": source, "message": view.originals[at]})
            starts.append(at)
        elif parts and isinstance(parts[-1], list) and parts[-1][1] == source:
            parts[-1] = [parts[-1][0], source + 1]
        else:
            parts.append([source, source + 1])
            starts.append(at)
    for at in inside:
        source = view.sources[at]
        if source in view.bases:
            bases.append([source, view.bases[source]])
        if isinstance(source, int) and source in view.times:
            times.append([source, view.times[source]])
    return {"parts": parts, "bases": bases, "times": times}, tuple(starts)


def _first_parts(
    parts: Sequence[Any], starts: Sequence[int], count: int
) -> tuple[list[Any], list[int]]:
    """What the first `count` messages come to."""
    number = bisect_left(starts, count)
    found, begins = list(parts[:number]), list(starts[:number])
    if found and isinstance(found[-1], list):
        first, stop = found[-1]
        found[-1] = [first, min(stop, first + count - begins[-1])]
    return found, begins


def load_view(stored: Mapping[str, Any], history: Sequence[Item], weights: Weights | None) -> View:
    """The view that `dump_view` was given.

    Args:
        stored: What it gave.
        history: The messages that had been added, in order.
        weights: For the calibrated estimate.

    Raises:
        InvalidPolicy: It is no such form, or names a message that the history does not have.
    """
    view = View(weights)
    try:
        for name, stage, text in stored["decisions"]:
            view.decisions[name] = Decision(name, stage, text)
        view.added_texts = {int(at): list(texts) for at, texts in stored["added_texts"]}
        view.whole = dict.fromkeys(stored["whole"])
        view.emptied = set(stored.get("emptied", ()))
        view.unthought = set(stored.get("unthought", ()))
        view.place(_placed(stored["parts"], history))
        view.sent, view.changed_from = stored["sent"], stored["changed_from"]
        view.rewrites = stored["rewrites"]
        view.bases = {source: int(tokens) for source, tokens in stored["bases"]}
        view.times = {int(at): int(came) for at, came in stored.get("times", ())}
    except (KeyError, TypeError, ValueError, IndexError) as exc:
        raise InvalidPolicy("saved.view", type(exc).__name__, f"cannot be read: {exc}") from exc
    return view


def _placed(parts: Sequence[Any], history: Sequence[Item]) -> list[tuple[int | str, Item]]:
    placed: list[tuple[int | str, Item]] = []
    for part in parts:
        if isinstance(part, Mapping):
            placed.append((str(part["key"]), part["message"]))
            continue
        start, stop = part
        if not 0 <= start <= stop <= len(history):
            raise IndexError(f"messages {start} to {stop} of {len(history)}")
        placed += [(at, history[at]) for at in range(start, stop)]
    return placed
