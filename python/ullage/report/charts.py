"""Coordinates of the charts: which shapes stand where. Numbers only; the page's template writes them as SVG."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ullage.manager.categories import CATEGORIES
from ullage.replay import ReplayedTurn
from ullage.report.session_figures import Mark, SessionFigures

__all__ = ["Area", "CacheChart", "FillChart", "MarkLine", "cache_chart", "fill_chart", "sampled"]

MOST_POINTS = 480
"""Requests that a chart draws; between two of them no level acted."""


class MarkLine(NamedTuple):
    """A horizontal line with a label; `label_y` keeps labels from covering each other."""

    name: str
    tokens: int
    y: float
    label_y: float


class Area(NamedTuple):
    """One category's part of the stack, as an SVG path."""

    name: str
    path: str


class Acted(NamedTuple):
    """A request before which a level acted."""

    x: float
    number: int
    levels: str
    strong: bool


class Box(NamedTuple):
    """A rectangle with its class."""

    kind: str
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class FillChart:
    """How full the window was, request by request.

    Attributes:
        width: Of the drawing; `height`: likewise. `left`, `right`, `top`, `bottom`: edges of the plot in it.
        areas: Stacked categories of the managed run.
        unmanaged: The other run as a path; it ends where the plot does.
        levels: The marks.
        acted: Requests before which a level acted.
        own: Where the session compacted itself.
        ticks: Request numbers under the axis, with their place.
        clipped: Whether the unmanaged run grows beyond the plot.
    """

    width: int
    height: int
    left: int
    right: int
    top: int
    bottom: int
    areas: tuple[Area, ...]
    unmanaged: str
    levels: tuple[MarkLine, ...]
    acted: tuple[Acted, ...]
    own: tuple[float, ...]
    ticks: tuple[tuple[float, int], ...]
    clipped: bool


@dataclass(frozen=True, slots=True)
class CacheChart:
    """Tokens of the prompts read from and written to the cache, in up to a hundred bars."""

    width: int
    height: int
    left: int
    right: int
    top: int
    bottom: int
    bars: tuple[Box, ...]
    grid: tuple[tuple[float, int], ...]
    ticks: tuple[tuple[float, int], ...]
    per_bar: int


def sampled(turns: Sequence[ReplayedTurn]) -> list[int]:
    """Positions of the requests that are drawn: first, last, those where a level acted with the one before, and evenly others."""
    if len(turns) <= MOST_POINTS:
        return list(range(len(turns)))
    kept = {0, len(turns) - 1}
    step = len(turns) / (MOST_POINTS / 2)
    kept.update(int(number * step) for number in range(MOST_POINTS // 2))
    acted = [at for at, turn in enumerate(turns) if any(freed for _, _, freed in turn.acted)]
    heaviest = sorted(acted, key=lambda at: -sum(freed for _, _, freed in turns[at].acted))
    for at in heaviest[: MOST_POINTS // 4]:
        kept.update((max(0, at - 1), at))
    return sorted(kept)


def fill_chart(
    figures: SessionFigures, points: Sequence[int], *, width: int, height: int
) -> FillChart:
    """Draw the fill of the window.

    Args:
        figures: Of a session with at least one request.
        points: Requests to draw, see `sampled`.
        width: Of the drawing, in its own units.
        height: Likewise.
    """
    left, right, top, bottom = 8, width - 8, 26, height - 24
    turns, plain = figures.managed.turns, figures.unmanaged.turns
    window = figures.managed.working_tokens
    highest = max(turn.tokens for turn in (*turns, *plain))
    most = min(max(highest, window), window * 13 // 10) or 1
    x = _scale(max(1, len(turns) - 1), left, right)
    y = _scale(most, bottom, top)
    shared = [at for at in points if at < len(plain)]
    return FillChart(
        width, height, left, right, top, bottom,
        areas=_areas(turns, points, x, y),
        unmanaged=_path((x(at), max(4.0, y(plain[at].tokens))) for at in shared),
        levels=_levels(figures.marks, y, top),
        acted=tuple(_acted(turns[at], x(at)) for at in points if turns[at].acted),
        own=tuple(x(number - 1) for number in figures.own_compactions),
        ticks=_ticks(len(turns), x),
        clipped=highest > most,
    )  # fmt: skip


def _scale(most: float, start: float, stop: float) -> Callable[[float], float]:
    return lambda value: round(start + (stop - start) * value / most, 1)


def _areas(
    turns: Sequence[ReplayedTurn],
    points: Sequence[int],
    x: Callable[[float], float],
    y: Callable[[float], float],
) -> tuple[Area, ...]:
    found: list[Area] = []
    below = [0] * len(points)
    for name in CATEGORIES:
        above = [
            low + turns[at].by_category.get(name, 0) for low, at in zip(below, points, strict=True)
        ]
        if above != below:
            upper = [(x(at), y(high)) for at, high in zip(points, above, strict=True)]
            lower = [(x(at), y(low)) for at, low in zip(points, below, strict=True)]
            found.append(Area(name, _path([*_wide(upper), *reversed(_wide(lower))]) + "Z"))
        below = above
    return tuple(found)


def _wide(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """A single request as a strip that can be seen."""
    return [points[0], (points[0][0] + 12, points[0][1])] if len(points) == 1 else points


def _path(points: Iterable[tuple[float, float]]) -> str:
    found = " ".join(f"{x:g},{y:g}" for x, y in points)
    return f"M{found}" if found else ""


def _levels(marks: Sequence[Mark], y: Callable[[float], float], top: int) -> tuple[MarkLine, ...]:
    """From the largest down, each label below the one before."""
    found: list[MarkLine] = []
    lowest = top - 18.0
    for mark in marks:
        at = y(mark.tokens)
        label = max(at - 4, lowest + 16)
        lowest = label
        found.append(MarkLine(mark.name, mark.tokens, at, label))
    return tuple(found)


def _acted(turn: ReplayedTurn, x: float) -> Acted:
    names = list(dict.fromkeys(stage for stage, _, _ in turn.acted))
    return Acted(x, turn.number, ", ".join(names), "autocompact" in names)


def _ticks(count: int, x: Callable[[float], float]) -> tuple[tuple[float, int], ...]:
    numbers = {1, count, *(1 + (count - 1) * part // 4 for part in (1, 2, 3))}
    shown = sorted(numbers) if count >= 5 else sorted({1, count})
    return tuple((x(number - 1), number) for number in shown)


def cache_chart(turns: Sequence[ReplayedTurn], *, width: int, height: int, most: int) -> CacheChart:
    """Draw what the prompts read from the cache and wrote to it.

    Args:
        turns: Of the managed run; at least one.
        width: Of the drawing.
        height: Likewise.
        most: Bars at most; several requests share one where there are more, as their mean.
    """
    left, right, top, bottom = 44, width - 8, 12, height - 24
    size = -(-len(turns) // most)
    groups = [turns[at : at + size] for at in range(0, len(turns), size)]
    stacks = [_stack(group) for group in groups]
    highest = max(max(map(sum, stacks)), 1)
    y = _scale(highest, bottom, top)
    step = (right - left) / len(groups)
    bars = tuple(
        box for at, stack in enumerate(stacks) for box in _bar(stack, left + at * step, step, y)
    )
    grid = tuple((y(highest * part / 2), highest * part // 2) for part in (0, 1, 2))
    x = _scale(max(1, len(turns) - 1), left + step / 2, right - step / 2)
    return CacheChart(
        width, height, left, right, top, bottom, bars, grid, _ticks(len(turns), x), size
    )


def _stack(group: Sequence[ReplayedTurn]) -> tuple[int, int, int]:
    """Mean tokens read, newly written, written again."""
    again = sum(turn.rewritten_tokens for turn in group)
    written = sum(turn.written_tokens for turn in group)
    read = sum(turn.read_tokens for turn in group)
    return read // len(group), max(0, written - again) // len(group), again // len(group)


def _bar(
    stack: tuple[int, int, int], x: float, step: float, y: Callable[[float], float]
) -> Iterable[Box]:
    below, gap = 0, min(1.0, step / 5)
    for kind, size in zip(("read", "written", "again"), stack, strict=True):
        if size:
            yield Box(
                kind,
                round(x, 1),
                y(below + size),
                round(step - gap, 1),
                round(y(below) - y(below + size), 1),
            )
        below += size
