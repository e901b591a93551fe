"""What has changed between two states of plain JSON, and the later one from the earlier and the change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ullage.levels.view_state import Dumped

__all__ = ["diff", "patch", "view_change"]

SAME: dict[str, Any] = {}
"""The change of what has not changed."""


def diff(before: Any, now: Any) -> dict[str, Any]:
    """How `now` comes of `before`; empty where they are equal.

    Mappings are compared by key, lists stored as what follows their common beginning, texts that have grown as what was added,
    everything else whole.
    """
    if before is now or (type(before) is type(now) and before == now):
        return SAME
    if isinstance(before, dict) and isinstance(now, dict):
        return _of_keys(before, now)
    if isinstance(before, list) and isinstance(now, list):
        same = _common(before, now)
        return {"from": same, "tail": now[same:]}
    if isinstance(before, str) and isinstance(now, str) and before and now.startswith(before):
        return {"from": len(before), "tail": now[len(before) :]}
    return {"is": now}


def view_change(before: Mapping[str, Any], now: Dumped) -> dict[str, Any]:
    """How a dump comes of the one before it, in the form of `diff`."""
    keys = {}
    for name, value in now.state.items():
        old, same = before[name], now.same.get(name)
        if value is old:
            continue
        if same is None:
            change = diff(old, value)
        else:
            change = {"from": same, "tail": value[same:]} if old[same:] != value[same:] else SAME
        if change:
            keys[name] = change
    return {"keys": keys} if keys else SAME


def _of_keys(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    changed = {
        key: change
        for key, value in now.items()
        if (change := diff(before[key], value) if key in before else {"is": value})
    }
    gone = [key for key in before if key not in now]
    if changed:
        found["keys"] = changed
    if gone:
        found["gone"] = gone
    if list(now) != [*(key for key in before if key in now), *(k for k in now if k not in before)]:
        return {
            "is": dict(now)
        }  # order is part of it: texts are laid over in the order of the decisions
    return found


def _common(before: Sequence[Any], now: Sequence[Any]) -> int:
    most = min(len(before), len(now))
    if before[:most] == now[:most]:
        return most
    return next(at for at in range(most) if before[at] != now[at])


def patch(before: Any, change: Mapping[str, Any], *, in_place: bool = False) -> Any:
    """The value that `diff` got as `now`.

    Args:
        before: As given to `diff`.
        change: What it returned.
        in_place: `before` becomes that value where it can, at the cost of the change alone. After an error it is neither.

    Raises:
        KeyError: The change belongs to another state; so do the other two.
        TypeError: As above.
        ValueError: As above.
    """
    if not change:
        return before
    if "is" in change:
        return change["is"]
    if "tail" in change:
        return _grown(before, change["from"], change["tail"], in_place=in_place)
    found = before if in_place else dict(before)
    for key in change.get("gone", ()):
        found.pop(key, None)
    for key, inner in change.get("keys", {}).items():
        found[key] = patch(found.get(key), inner, in_place=in_place)
    return found


def _grown(before: Any, same: int, tail: Any, *, in_place: bool) -> Any:
    if same > len(before):
        raise ValueError(f"there are {len(before)} of {same} values")
    if isinstance(before, str):
        return before[:same] + tail
    found = before if in_place else list(before)
    found[same:] = tail
    return found
