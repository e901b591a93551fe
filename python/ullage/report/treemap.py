"""A squarified treemap: areas in proportion to their sizes, near to squares (Bruls, Huizing, van Wijk 2000)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

__all__ = ["Tile", "treemap"]

MOST_TILES = 40
"""What is smaller than the largest so many is drawn as one."""

THE_REST = "smaller ones"


class Tile(NamedTuple):
    """One part of the whole; `label` is its name cut to its width, empty where none fits."""

    name: str
    size: int
    x: float
    y: float
    width: float
    height: float
    label: str


def treemap(sizes: Mapping[str, int], *, width: int, height: int) -> list[Tile]:
    """Lay out parts by size, the largest at the upper left.

    Args:
        sizes: By name; those that are 0 are left out.
        width: Of the drawing.
        height: Likewise.
    """
    parts = _largest(sizes)
    whole = sum(size for _, size in parts)
    if not whole:
        return []
    areas = [size * width * height / whole for _, size in parts]
    boxes = _laid_out(areas, 0.0, 0.0, float(width), float(height))
    return [_tile(*part, *box) for part, box in zip(parts, boxes, strict=True)]


def _largest(sizes: Mapping[str, int]) -> list[tuple[str, int]]:
    found = sorted((part for part in sizes.items() if part[1] > 0), key=lambda part: -part[1])
    rest = sum(size for _, size in found[MOST_TILES:])
    shown = found[:MOST_TILES]
    return [*shown, (f"{len(found) - MOST_TILES:,} {THE_REST}", rest)] if rest else shown


def _tile(name: str, size: int, x: float, y: float, width: float, height: float) -> Tile:
    fits = int((width - 10) / 7.2)
    shown = _cut(name, fits) if height >= 18 and fits >= 4 else ""
    return Tile(name, size, round(x, 1), round(y, 1), round(width, 1), round(height, 1), shown)


def _cut(name: str, fits: int) -> str:
    """The end of a path, the beginning of any other name."""
    if len(name) <= fits:
        return name
    return f"…{name[1 - fits :]}" if "/" in name else f"{name[: fits - 1]}…"


def _laid_out(
    areas: Sequence[float], x: float, y: float, width: float, height: float
) -> list[tuple[float, float, float, float]]:
    """Row by row along the shorter side, each as long as its worst tile gets better."""
    boxes: list[tuple[float, float, float, float]] = []
    at = 0
    while at < len(areas):
        side = max(min(width, height), 1e-9)
        stop = at + 1
        while stop < len(areas) and _worst(areas[at : stop + 1], side) <= _worst(
            areas[at:stop], side
        ):
            stop += 1
        row = areas[at:stop]
        depth = sum(row) / side
        place = 0.0
        for area in row:
            length = area / depth
            box = (
                (x, y + place, depth, length) if width >= height else (x + place, y, length, depth)
            )
            boxes.append(box)
            place += length
        if width >= height:
            x, width = x + depth, width - depth
        else:
            y, height = y + depth, height - depth
        at = stop
    return boxes


def _worst(row: Sequence[float], side: float) -> float:
    """The largest ratio of two sides of a tile in this row."""
    total = sum(row)
    return max(side * side * max(row) / (total * total), total * total / (side * side * min(row)))
