"""A view as plain JSON, and back: what of the history is left, what levels made, every decision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ullage.counting.estimate import Weights
from ullage.exceptions import InvalidPolicy
from ullage.levels.report import Decision
from ullage.levels.view import View
from ullage.messages import Item

__all__ = ["dump_view", "load_view"]


def dump_view(view: View) -> dict[str, Any]:
    """The view as plain JSON; messages of the history stand there by position only."""
    inside = set(view.sources)
    return {
        "parts": _parts(view),
        "decisions": [
            [each.tool_use_id, each.stage, each.text] for each in view.decisions.values()
        ],
        "added_texts": [[at, list(texts)] for at, texts in view.added_texts.items()],
        "whole": sorted(view.whole),
        "emptied": sorted(view.emptied),
        "unthought": sorted(view.unthought),
        "sent": view.sent,
        "changed_from": view.changed_from,
        "rewrites": view.rewrites,
        "bases": [[source, tokens] for source, tokens in view.bases.items() if source in inside],
        "times": [[at, came] for at, came in view.times.items() if at in inside],
    }


def _parts(view: View) -> list[Any]:
    parts: list[Any] = []
    for source, item in zip(view.sources, view.originals, strict=True):
        if isinstance(source, str):
            parts.append({"key": source, "message": item})
        elif parts and isinstance(parts[-1], list) and parts[-1][1] == source:
            parts[-1][1] = source + 1
        else:
            parts.append([source, source + 1])
    return parts


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
        view.whole = set(stored["whole"])
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
