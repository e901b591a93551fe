"""Cache markers within number and order (A17, A18)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ullage.legality.capabilities import MAX_MARKERS
from ullage.legality.repairs.working_copy import Draft, Slot

__all__ = ["repair_markers"]

_Marked = tuple[Slot, Any, Any]  # slot, block, nested block or None


def repair_markers(draft: Draft, *, markers: Sequence[str], auto_cache: str) -> None:
    """Drops the oldest markers of messages over the limit, and levels TTLs that come too late.

    Args:
        draft: Changed.
        markers: TTLs of the markers in tools and system, which stay.
        auto_cache: TTL of the automatic marker, "" if there is none.
    """
    found = _find(draft)
    over = max(0, len(found) + len(markers) + bool(auto_cache) - MAX_MARKERS)
    changes = [
        (each, None, "A17", "dropped a cache marker over the limit") for each in found[:over]
    ]
    changes += _too_late(found[over:], auto_cache, late="5m" in markers)
    _apply(draft, changes)


_Change = tuple[_Marked, Any, str, str]  # a marker, what becomes of it, the rule, what is said


def _too_late(found: Sequence[_Marked], auto_cache: str, *, late: bool) -> Iterator[_Change]:
    """Markers whose TTL does not fit an earlier one, or the automatic one at the end."""
    for index, each in enumerate(found):
        short = _ttl(each) == "5m"
        if auto_cache == "1h":
            if short:
                yield each, None, "A18", "dropped a 5m cache marker before the automatic 1h one"
            continue
        last = auto_cache == "5m" and index == len(found) - 1
        if not short and (late or last):
            yield each, {"type": "ephemeral"}, "A18", "made a late 1h cache marker 5m"
        late = late or short or last


def _find(draft: Draft) -> list[_Marked]:
    found: list[_Marked] = []
    for slot in draft.speaking():
        for block in slot.blocks:
            # What is inside a result comes before the result's own marker.
            found.extend((slot, block, part) for part in _parts(block) if _marked(part))
            if _marked(block):
                found.append((slot, block, None))
    return found


def _parts(block: Any) -> Sequence[Any]:
    content = block.get("content") if isinstance(block, Mapping) else None
    return content if isinstance(content, list | tuple) else ()


def _marked(block: Any) -> bool:
    return isinstance(block, Mapping) and block.get("cache_control") is not None


def _ttl(each: _Marked) -> str:
    _, block, part = each
    marker = (block if part is None else part)["cache_control"]
    return "1h" if isinstance(marker, Mapping) and marker.get("ttl") == "1h" else "5m"


def _apply(draft: Draft, changes: Sequence[_Change]) -> None:
    # By id() of a message and a block in it: what becomes of its own marker, and of its parts'.
    wanted: dict[tuple[int, int], dict[int | None, Any]] = {}
    for (slot, block, part), marker, rule, action in changes:
        draft.note(rule, slot, action)
        place = None if part is None else id(part)
        wanted.setdefault((id(slot), id(block)), {})[place] = marker
    for slot in draft.speaking() if wanted else ():
        slot.blocks = [_changed(block, wanted.get((id(slot), id(block)))) for block in slot.blocks]


def _changed(block: Any, wanted: Mapping[int | None, Any] | None) -> Any:
    if wanted is None:
        return block
    if any(place is not None for place in wanted):
        parts = [_with(p, wanted[id(p)]) if id(p) in wanted else p for p in _parts(block)]
        block = {**block, "content": parts}
    return _with(block, wanted[None]) if None in wanted else block


def _with(block: Mapping[str, Any], marker: Any) -> dict[str, Any]:
    kept = {key: value for key, value in block.items() if key != "cache_control"}
    return kept if marker is None else {**kept, "cache_control": marker}
