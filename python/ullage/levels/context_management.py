"""Anthropic's `context_management`: read and checked exactly as the API takes it.

The forms are those of the beta headers `context-management-2025-06-27` (clearing) and `compact-2026-01-12` (compaction).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ullage.exceptions import InvalidPolicy

CLEAR_TOOL_USES = "clear_tool_uses_20250919"
CLEAR_THINKING = "clear_thinking_20251015"
COMPACT = "compact_20260112"
EDITING_HEADER = "context-management-2025-06-27"
COMPACT_HEADER = "compact-2026-01-12"
MIN_COMPACT_TOKENS = 50_000  # the API refuses a compaction trigger below this

_SETTINGS = {
    CLEAR_TOOL_USES: "type trigger keep clear_at_least exclude_tools clear_tool_inputs",
    CLEAR_THINKING: "type keep",
    COMPACT: "type trigger instructions pause_after_compaction",
}


class ContextEdit(NamedTuple):
    """What one edit asks for; the defaults are the API's."""

    kind: str
    trigger: int = 0  # from this size on: input tokens, or tool uses where `by_uses`
    by_uses: bool = False
    keep: int | None = (
        None  # newest tool uses, or turns with their thinking, that stay; `None`: all
    )
    at_least: int = 0  # nothing is cleared if fewer tokens would go; 0: any gain is enough
    exclude_tools: tuple[str, ...] = ()  # names of tools whose uses stay
    # Clear the inputs of the calls too: all, none, or those of the named tools.
    inputs: bool | tuple[str, ...] = False


def read_edits(value: Any) -> tuple[ContextEdit, ...]:
    """The edits of the parameter, in their order.

    Raises:
        InvalidPolicy: The API would refuse it; names the field.

    Example:
        >>> given = {"edits": [{"type": "clear_tool_uses_20250919", "keep": {"type": "tool_uses", "value": 5}}]}
        >>> read_edits(given)[0].keep
        5
    """
    edits = value.get("edits") if isinstance(value, Mapping) else None
    if not isinstance(edits, Sequence) or isinstance(edits, str):
        limit = "must be an object with a list `edits`"
        raise InvalidPolicy("context_management", value, limit)
    _only(value, "context_management", "edits")
    read = tuple(_read(edit, f"context_management.edits[{at}]") for at, edit in enumerate(edits))
    kinds = [edit.kind for edit in read]
    if len(set(kinds)) < len(kinds):
        raise InvalidPolicy("context_management.edits", len(kinds), "must not repeat a type")
    if CLEAR_THINKING in kinds[1:]:
        limit = "must be the first of the edits"
        raise InvalidPolicy("context_management.edits", CLEAR_THINKING, limit)
    return read


def betas(edits: Iterable[ContextEdit]) -> tuple[str, ...]:
    """Values of `anthropic-beta` that the edits need."""
    compacts = {edit.kind == COMPACT for edit in edits}
    return (EDITING_HEADER,) * (False in compacts) + (COMPACT_HEADER,) * (True in compacts)


def _read(edit: Any, place: str) -> ContextEdit:
    kind = edit.get("type") if isinstance(edit, Mapping) else None
    if kind not in _SETTINGS:
        raise InvalidPolicy(f"{place}.type", kind, f"must be one of {', '.join(_SETTINGS)}")
    _only(edit, place, _SETTINGS[kind])
    if kind == CLEAR_THINKING:
        return _thinking(edit.get("keep"), f"{place}.keep")
    if kind == COMPACT:
        instructions = edit.get("instructions") or ""
        if not isinstance(instructions, str):
            raise InvalidPolicy(f"{place}.instructions", instructions, "must be a text")
        trigger = _typed(edit.get("trigger"), f"{place}.trigger", 150_000)[1]
        if trigger < MIN_COMPACT_TOKENS:
            limit = f"must be at least {MIN_COMPACT_TOKENS:,}"
            raise InvalidPolicy(f"{COMPACT}.trigger.value", trigger, limit)
        return ContextEdit(kind, trigger)
    unit, trigger = _typed(edit.get("trigger"), f"{place}.trigger", 100_000)
    inputs = edit.get("clear_tool_inputs") or False
    if not isinstance(inputs, bool):
        inputs = _names(inputs, f"{place}.clear_tool_inputs")
    return ContextEdit(
        kind,
        trigger,
        by_uses=unit == "tool_uses",
        keep=_typed(edit.get("keep"), f"{place}.keep", 3)[1],
        at_least=_typed(edit.get("clear_at_least"), f"{place}.clear_at_least", 0)[1],
        exclude_tools=_names(edit.get("exclude_tools") or (), f"{place}.exclude_tools"),
        inputs=inputs,
    )


def _thinking(keep: Any, place: str) -> ContextEdit:
    if keep == "all" or (isinstance(keep, Mapping) and keep.get("type") == "all"):
        return ContextEdit(CLEAR_THINKING)
    turns = _typed(keep, place, 1)[1]
    if turns < 1:
        raise InvalidPolicy(f"{place}.value", turns, "must be at least 1")
    return ContextEdit(CLEAR_THINKING, keep=turns)


def _only(value: Mapping[str, Any], place: str, names: str) -> None:
    for key in value:
        if key not in names.split():
            raise InvalidPolicy(f"{place}.{key}", value[key], "is not a setting")


def _typed(pair: Any, place: str, default: int) -> tuple[str, int]:
    """`{"type": ..., "value": ...}`; absent or null: the default."""
    if pair is None:
        return "", default
    value = pair.get("value") if isinstance(pair, Mapping) else None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidPolicy(f"{place}.value", value, "must be a whole number of at least 0")
    return str(pair.get("type")), value


def _names(value: Any, place: str) -> tuple[str, ...]:
    listed = isinstance(value, Sequence) and not isinstance(value, str)
    if not listed or not all(isinstance(name, str) for name in value):
        raise InvalidPolicy(place, value, "must be a list of names")
    return tuple(value)
