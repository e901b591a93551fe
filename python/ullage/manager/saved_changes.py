"""A saved state and what has changed since, for hosts that save after each turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ullage._late import hashlib, orjson
from ullage.exceptions import InvalidPolicy
from ullage.manager.delta import diff, patch

__all__ = ["change_of", "with_changes"]

SINCE, CHANGE = "since", "change"


def change_of(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """What `with_changes` makes the later state of, from the earlier one."""
    return {SINCE: _print(before), CHANGE: diff(before, now)}


def with_changes(saved: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The state that `ContextManager.save` gave last.

    Args:
        saved: A state, or a list of one and of the changes since, each of which follows the one before.

    Raises:
        InvalidPolicy: A change is missing, or belongs to another state; names its place.
    """
    if isinstance(saved, Mapping):
        return saved
    if not saved:
        raise InvalidPolicy("saved", [], "must begin with a result of save()")
    state, *changes = saved
    for at, each in enumerate(changes, 1):
        limit = "must be the change since the one before it: save(since=...)"
        if each.get(SINCE) != _print(state):
            raise InvalidPolicy(f"saved[{at}].since", each.get(SINCE), limit)
        try:
            state = patch(state, each[CHANGE])
        except (KeyError, TypeError, ValueError) as exc:
            raise InvalidPolicy(f"saved[{at}]", type(exc).__name__, limit) from exc
    return state


def _print(state: Mapping[str, Any]) -> str:
    body = orjson.dumps(state, option=orjson.OPT_SORT_KEYS, default=repr)
    return hashlib.blake2b(body, digest_size=6).hexdigest()
