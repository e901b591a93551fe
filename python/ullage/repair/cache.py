"""Cache markers within number and order (A17, A18)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ullage.repair.draft import Draft, Slot

__all__ = ["repair_markers"]

MAX_MARKERS = 4
_Marked = tuple[Slot, Any, Any]  # slot, block, nested block or None


def repair_markers(draft: Draft, *, markers: Sequence[str], auto_cache: str) -> None:
    """Drops the oldest markers of messages over the limit, and levels TTLs that come too late.

    Args:
        draft: Changed.
        markers: TTLs of the markers in tools and system, which stay.
        auto_cache: TTL of the automatic marker, "" if there is none.
    """
    found = _find(draft)
    over = len(found) + len(markers) + bool(auto_cache) - MAX_MARKERS
    for each in found[: max(0, over)]:
        _set(draft, each, None, "A17", "dropped a cache marker over the limit")
    found = _find(draft)
    if auto_cache == "1h":
        for each in found:
            if _ttl(each) == "5m":
                _set(
                    draft,
                    each,
                    None,
                    "A18",
                    "dropped a 5m cache marker before the automatic 1h one",
                )
        return
    late = "5m" in markers
    for index, each in enumerate(found):
        last = auto_cache == "5m" and index == len(found) - 1
        if _ttl(each) == "1h" and (late or last):
            _set(draft, each, {"type": "ephemeral"}, "A18", "made a late 1h cache marker 5m")
        late = late or _ttl(each) == "5m"


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


def _set(draft: Draft, each: _Marked, marker: Any, rule: str, action: str) -> None:
    slot, block, part = each
    new = _with(block, marker)
    if part is not None:
        new = {**block, "content": [_with(p, marker) if p is part else p for p in _parts(block)]}
    draft.note(rule, slot, action)
    slot.blocks = [new if other is block else other for other in slot.blocks]


def _with(block: Mapping[str, Any], marker: Any) -> dict[str, Any]:
    kept = {key: value for key, value in block.items() if key != "cache_control"}
    return kept if marker is None else {**kept, "cache_control": marker}
