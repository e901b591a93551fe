"""Links between entries: past removed ones, to the nearest entry that remains (SNIP-4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ullage.messages import Item

__all__ = ["mended"]


def mended(entries: Sequence[Item], removed: Mapping[str, str]) -> list[Item]:
    """The entries, with parent links to removed entries redirected to the nearest remaining ancestor.

    Args:
        entries: Never changed; an entry whose link holds is the same object.
        removed: For each removed entry its parent; empty: it has none.
    """
    return [_linked(entry, removed) if removed else entry for entry in entries]


def _linked(entry: Item, removed: Mapping[str, str]) -> Item:
    parent = entry.get("parentUuid")
    if not isinstance(parent, str) or parent not in removed:
        return entry
    return {**entry, "parentUuid": _ancestor(parent, removed)}


def _ancestor(uuid: str, removed: Mapping[str, str]) -> str | None:
    seen = set()
    while uuid in removed and uuid not in seen:  # a damaged file may link in circles
        seen.add(uuid)
        uuid = removed[uuid]
    return None if uuid in seen else uuid or None
