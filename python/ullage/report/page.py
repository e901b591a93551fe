"""Draws figures of sessions as one HTML page that loads nothing."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from ullage._start import extra_module
from ullage._version import VERSION
from ullage.exceptions import InvalidPolicy
from ullage.manager.machine import CATEGORIES
from ullage.recall.text import visible
from ullage.replay import ReplayedTurn, frontier_plot, sum_of_costs
from ullage.report.session_figures import SessionFigures
from ullage.sessions.load import draft_of, refuse_to_replace

# Coordinates of the charts as numbers; the page's template writes them as SVG.


MOST_POINTS = 480
"""Requests that a chart draws; no level acted between two of them."""


def sampled(turns: Sequence[ReplayedTurn]) -> list[int]:
    """Positions of the requests to draw: first, last, those where a level acted and the one before each, and others at even distances."""
    if len(turns) <= MOST_POINTS:
        return list(range(len(turns)))
    shown = {0, len(turns) - 1}
    step = len(turns) / (MOST_POINTS / 2)
    shown.update(int(number * step) for number in range(MOST_POINTS // 2))
    acted = [at for at, turn in enumerate(turns) if any(freed for _, _, freed in turn.acted)]
    heaviest = sorted(acted, key=lambda at: -sum(freed for _, _, freed in turns[at].acted))
    for at in heaviest[: MOST_POINTS // 4]:
        shown.update((max(0, at - 1), at))
    return sorted(shown)


def _frame(width: int, height: int, top: int) -> dict[str, Any]:
    """A drawing, and the edges of the plot in it."""
    edges = {"left": 44, "right": width - 8, "top": top, "bottom": height - 24}
    return {"width": width, "height": height, **edges}


def fill_chart(
    figures: SessionFigures, points: Sequence[int], *, width: int, height: int
) -> dict[str, Any]:
    """How full the window was, in a session with at least one request; `points`: requests to draw, see `sampled`."""
    frame = _frame(width, height, 26)
    left, top = frame["left"], frame["top"]
    turns, plain = figures.managed.turns, figures.unmanaged.turns
    window = figures.managed.working_tokens
    highest = max(turn.tokens for turn in (*turns, *plain))
    # A window that is never full would leave most of the chart empty.
    most = highest * 5 // 4 or 1
    if highest * 2 > window:
        most = min(max(highest, window), window * 13 // 10) or 1
    marks = [mark for mark in figures.marks if mark.tokens <= most]
    words = max((len(f"{mark.name}, {mark.tokens:,}") for mark in marks), default=0)
    x = _scale(max(1, len(turns) - 1), left, frame["right"])
    y = _scale(most, frame["bottom"], top)
    shared = [at for at in points if at < len(plain)]
    acted = [(turns[at], x(at)) for at in points if turns[at].acted]
    lines: list[dict[str, Any]] = []
    label = top - 18.0
    for mark in marks:  # from the largest down, each label below the one before
        at = y(mark.tokens)
        label = max(at - 4, label + 16)
        lines.append({"name": mark.name, "tokens": mark.tokens, "y": at, "label_y": label})
    return frame | {
        "areas": _areas(turns, points, x, y),
        "unmanaged": _path((x(at), max(4.0, y(plain[at].tokens))) for at in shared),
        "levels": lines,
        "acted": [
            {
                "x": place,
                "number": turn.number,
                "levels": ", ".join(_acted(turn)),
                "strong": "autocompact" in _acted(turn),
            }
            for turn, place in acted
        ],
        "own": [x(number - 1) for number in figures.own_compactions],
        "ticks": _ticks(len(turns), x),
        "clipped": highest > most,  # the unmanaged run grows beyond the plot
        "grid": [(y(at), at) for at in range(0, most, _step(most))],
        "marks_from": left + 8 + 6.7 * words,  # to the right of their labels
    }


def _step(most: int) -> int:
    """A round number that fits two to five times below the maximum."""
    unit = 10 ** max(0, len(str(most)) - 2)
    return next((unit * factor for factor in (1, 2, 5, 10, 20) if unit * factor * 5 >= most), most)


def _scale(most: float, start: float, stop: float) -> Callable[[float], float]:
    return lambda value: round(start + (stop - start) * value / most, 1)


def _areas(
    turns: Sequence[ReplayedTurn],
    points: Sequence[int],
    x: Callable[[float], float],
    y: Callable[[float], float],
) -> list[dict[str, str]]:
    """The stacked categories of the managed run, as SVG paths."""
    areas: list[dict[str, str]] = []
    below = [0] * len(points)
    for name in CATEGORIES:
        sizes = (turns[at].by_category.get(name, 0) for at in points)
        above = [low + size for low, size in zip(below, sizes, strict=True)]
        if above != below:
            upper = [(x(at), y(high)) for at, high in zip(points, above, strict=True)]
            lower = [(x(at), y(low)) for at, low in zip(points, below, strict=True)]
            if len(points) == 1:  # a single request is a strip that can be seen
                upper.append((upper[0][0] + 12, upper[0][1]))
                lower.append((lower[0][0] + 12, lower[0][1]))
            areas.append({"name": name, "path": _path([*upper, *reversed(lower)]) + "Z"})
        below = above
    return areas


def _path(points: Iterable[tuple[float, float]]) -> str:
    points_text = " ".join(f"{x:g},{y:g}" for x, y in points)
    return f"M{points_text}" if points_text else ""


def _acted(turn: ReplayedTurn) -> list[str]:
    """The levels that acted before a request, each once."""
    return list(dict.fromkeys(stage for stage, _, _ in turn.acted))


def _ticks(count: int, x: Callable[[float], float]) -> tuple[tuple[float, int], ...]:
    numbers = {1, count, *(1 + (count - 1) * part // 4 for part in (1, 2, 3))}
    shown = sorted(numbers) if count >= 5 else sorted({1, count})
    return tuple((x(number - 1), number) for number in shown)


def cache_chart(
    turns: Sequence[ReplayedTurn], *, width: int, height: int, most: int
) -> dict[str, Any]:
    """What prompts (at least one) read from the cache and wrote to it, in `most` bars: of more requests a bar is the mean of several."""
    frame = _frame(width, height, 12)
    left, right, bottom = frame["left"], frame["right"], frame["bottom"]
    size = -(-len(turns) // most)
    stacks = []
    for first in range(0, len(turns), size):
        group = turns[first : first + size]
        again = sum(turn.rewritten_tokens for turn in group)
        written = max(0, sum(turn.written_tokens for turn in group) - again)
        read = sum(turn.read_tokens for turn in group)
        sums = {"read": read, "written": written, "again": again}
        stacks.append({kind: tokens // len(group) for kind, tokens in sums.items()})
    highest = max(max(sum(stack.values()) for stack in stacks), 1)
    y = _scale(highest, bottom, frame["top"])
    step = (right - left) / len(stacks)
    wide = round(step - min(1.0, step / 5), 1)
    bars: list[dict[str, Any]] = []
    for at, stack in enumerate(stacks):
        below = 0
        for kind, tokens in stack.items():
            if tokens:
                upper = y(below + tokens)
                box = {"x": round(left + at * step, 1), "y": upper, "width": wide}
                bars.append({"kind": kind, **box, "height": round(y(below) - upper, 1)})
            below += tokens
    return frame | {
        "bars": bars,
        "grid": [(y(highest * part / 2), highest * part // 2) for part in (0, 1, 2)],
        "ticks": _ticks(
            len(turns), _scale(max(1, len(turns) - 1), left + step / 2, right - step / 2)
        ),
        "per_bar": size,
    }


# A squarified treemap: areas in proportion to sizes, as square as possible (Bruls, Huizing, van Wijk 2000).


MOST_TILES = 40
"""Parts beyond the largest so many are drawn as one."""


class Tile(NamedTuple):
    """One part of the whole; `label` is its name cut to its width, or empty if nothing fits."""

    name: str
    size: int
    x: float
    y: float
    width: float
    height: float
    label: str


def treemap(sizes: Mapping[str, int], *, width: int, height: int) -> list[Tile]:
    """Lay out parts above 0 by size, the largest at the upper left."""
    parts = sorted((part for part in sizes.items() if part[1] > 0), key=lambda part: -part[1])
    if remaining := sum(size for _, size in parts[MOST_TILES:]):
        parts[MOST_TILES:] = [(f"{len(parts) - MOST_TILES:,} smaller ones", remaining)]
    whole = sum(size for _, size in parts)
    areas = [size * width * height / whole for _, size in parts]
    tiles = []
    for (name, size), box in zip(parts, _laid_out(areas, width, height), strict=True):
        fits = int((box[2] - 10) / 7.2)
        label = _cut(name, fits) if box[3] >= 18 and fits >= 4 else ""
        x, y, wide, high = (round(side, 1) for side in box)
        tiles.append(Tile(name, size, x, y, wide, high, label))
    return tiles


def _cut(name: str, fits: int) -> str:
    """The end of a path, the beginning of any other name."""
    if len(name) <= fits:
        return name
    return f"…{name[1 - fits :]}" if "/" in name else f"{name[: fits - 1]}…"


def _laid_out(
    areas: Sequence[float], width: float, height: float
) -> list[tuple[float, float, float, float]]:
    """Row by row along the shorter side; a row grows while its worst tile improves."""
    boxes: list[tuple[float, float, float, float]] = []
    x = y = 0.0
    at = 0
    while at < len(areas):
        side = max(min(width, height), 1e-9)
        row = areas[at : at + 1]
        while len(row) < len(areas) - at:
            longer = areas[at : at + len(row) + 1]
            if _worst(longer, side) > _worst(row, side):
                break
            row = longer
        at += len(row)
        depth = sum(row) / side
        place, is_column = 0.0, width >= height
        for area in row:
            length = area / depth
            box = (x, y + place, depth, length) if is_column else (x + place, y, length, depth)
            boxes.append(box)
            place += length
        if is_column:
            x, width = x + depth, width - depth
        else:
            y, height = y + depth, height - depth
    return boxes


def _worst(row: Sequence[float], side: float) -> float:
    """The largest ratio of two sides of a tile in this row."""
    total = sum(row)
    return max(side * side * max(row) / (total * total), total * total / (side * side * min(row)))


MOST_REMOVALS = 400
"""Reports of levels that a page lists for a session."""

_INSPECTED = {
    "summary": "summaries",
    "system prompt and tools": "system",
    "message frames": "other",
}
"""Categories of `inspect` by the name that the chart over time has for them."""
_LABELS = {name: label for label, name in _INSPECTED.items()}


def report_page(sessions: Sequence[SessionFigures]) -> str:
    """Draw sessions as a page: one after the other, and side by side if there are several.

    Args:
        sessions: At least one.

    Raises:
        InvalidPolicy: None was given.
        MissingExtra: Jinja is not installed (`pip install 'ullage[report]'`).
    """
    if not sessions:
        raise InvalidPolicy("sessions", 0, "must be at least 1")
    style, script = _asset("page.css"), _asset("page.js")
    # Only this style and script run, whatever a transcript holds; nothing is loaded.
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    page = _environment().get_template("page.html.j2").render(
        sessions=[_session(session) for session in sessions],
        together=sum_of_costs(one.sizes for one in sessions) if len(sessions) > 1 else (),
        most_dollars=max(max(run.nanousd for run in session.runs) for session in sessions) or 1,
        style=style,
        script=script,
        policy=policy,
        version=VERSION,
    )  # fmt: skip
    return str(page)


def write_report(
    sessions: Sequence[SessionFigures], output: str | os.PathLike[str], *, overwrite: bool = False
) -> Path:
    """Write the page of `report_page` to a file that only its owner can read.

    Args:
        sessions: At least one.
        output: The file.
        overwrite: Whether to replace an existing file.

    Raises:
        StoreError: It exists, is a folder or cannot be written.
        MissingExtra: Jinja is not installed.
    """
    target = Path(output)
    refuse_to_replace(target, overwrite=overwrite)
    page = report_page(sessions)
    with draft_of(target) as draft:
        draft.write_text(page, encoding="utf-8", errors="backslashreplace")
        draft.replace(target)
    return target


# ---- the template and its values -------------------------------------------------------------


@cache
def _environment() -> Any:
    jinja = extra_module("jinja2", "report")
    environment = jinja.Environment(
        loader=jinja.PackageLoader("ullage.report", "assets"),
        autoescape=True,
        undefined=jinja.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "count": "{:,}".format,
        "dollars": lambda nanousd: f"${nanousd / 1e9:,.2f}",
        "share": lambda part, whole: f"{100 * part / whole:.1f} %" if whole else "–",
        "when": _when,
        "css": _class,
        "label": lambda name: _LABELS.get(name, name),  # as `inspect` calls a category
        "visible": visible,
    }
    return environment


def _asset(name: str) -> str:
    return Path(__file__).with_name("assets").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def _session(figures: SessionFigures) -> dict[str, Any]:
    turns = figures.managed.turns
    points = sampled(turns)
    drawn = bool(turns) and bool(figures.unmanaged.turns)
    return {
        "figures": figures,
        "saved": figures.unmanaged.nanousd - figures.managed.nanousd,
        "fill": [
            ("wide", fill_chart(figures, points, width=960, height=330)),
            ("narrow", fill_chart(figures, points, width=360, height=300)),
        ] if drawn else [],
        "cache": [
            ("wide", cache_chart(turns, width=960, height=210, most=120)),
            ("narrow", cache_chart(turns, width=360, height=200, most=50)),
        ] if drawn else [],
        "maps": _maps(figures),
        "categories": list(dict.fromkeys(name for turn in turns for name in turn.by_category)),
        "points": [_point(figures, at) for at in points] if drawn else [],
        "levels": sorted({removal.level for removal in figures.removals}),
        "removals": figures.removals[:MOST_REMOVALS],
        "more_removals": max(0, len(figures.removals) - MOST_REMOVALS),
        "largest": {
            run.name: max((turn.tokens for turn in run.turns), default=0) for run in figures.runs
        },
        "sizes": _sizes(figures),
        "ended": [run for run in figures.runs if run.error],
    }  # fmt: skip


def _sizes(figures: SessionFigures) -> dict[str, Any] | None:
    """What the session costs at several working sizes; `None`: it never reached the smallest of them."""
    sizes = figures.sizes
    if len({cost.nanousd for cost in sizes}) < 2:
        return None
    best = min(sizes, key=lambda cost: cost.nanousd)
    return {
        "rows": sizes,
        "best": best,
        "plot": frontier_plot(sizes, figures.unmanaged.nanousd),
        "most": max(figures.unmanaged.nanousd, *(cost.nanousd for cost in sizes)) or 1,
    }


def _point(figures: SessionFigures, at: int) -> list[object]:
    """What the page says about one request."""
    turn, plain = figures.managed.turns[at], figures.unmanaged.turns
    return [
        turn.number,
        turn.tokens,
        plain[at].tokens if at < len(plain) else 0,
        turn.read_tokens,
        turn.written_tokens,
        turn.rewritten_tokens,
        ", ".join(_acted(turn)),
        _when(figures.times_ms[at]),
    ]


def _maps(figures: SessionFigures) -> list[dict[str, Any]]:
    held = figures.holds
    sizes = {
        "category": held.categories,
        "tool": {item.name: item.tokens for item in held.tools},
        "file": {item.path: item.tokens for item in held.files},
    }
    return [
        {
            "by": by,
            "sizes": sorted(tokens.items(), key=lambda part: -part[1]),
            "total": sum(tokens.values()),
            "tiles": [
                ("wide", 960, 300, treemap(tokens, width=960, height=300)),
                ("narrow", 360, 340, treemap(tokens, width=360, height=340)),
            ],
        }
        for by, tokens in sizes.items()
        if any(tokens.values())
    ]


def _when(milliseconds: int) -> str:
    if not milliseconds:
        return ""
    return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%d %H:%M} UTC"


def _class(name: str) -> str:
    """A category as a class of the style sheet."""
    return "c-" + _INSPECTED.get(name, name).replace(" ", "-")
