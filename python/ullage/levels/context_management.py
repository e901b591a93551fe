"""Anthropic's `context_management`: read, checked and written exactly as the API takes it.

The forms are those of the beta headers `context-management-2025-06-27` (clearing) and `compact-2026-01-12` (compaction).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, TypeAlias

from ullage.exceptions import InvalidPolicy

CLEAR_TOOL_USES = "clear_tool_uses_20250919"
CLEAR_THINKING = "clear_thinking_20251015"
COMPACT = "compact_20260112"
EDITING_HEADER = "context-management-2025-06-27"
COMPACT_HEADER = "compact-2026-01-12"
MIN_COMPACT_TOKENS = 50_000  # the API refuses a compaction trigger below this


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearToolUses:
    """Old tool results become a placeholder; the defaults are the API's."""

    trigger: int = 100_000  # from this size on: input tokens, or tool uses where `by_uses`
    by_uses: bool = False
    keep: int = 3  # newest tool uses that stay
    at_least: int = 0  # nothing is cleared if fewer tokens would go; 0: any gain is enough
    exclude_tools: tuple[str, ...] = ()  # names of tools whose uses stay
    # Clear the inputs of the calls too: all, none, or those of the named tools.
    inputs: bool | tuple[str, ...] = False

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        kind = "tool_uses" if self.by_uses else "input_tokens"
        written: dict[str, Any] = {
            "type": CLEAR_TOOL_USES,
            "trigger": {"type": kind, "value": self.trigger},
            "keep": {"type": "tool_uses", "value": self.keep},
        }
        if self.at_least:
            written["clear_at_least"] = {"type": "input_tokens", "value": self.at_least}
        if self.exclude_tools:
            written["exclude_tools"] = list(self.exclude_tools)
        inputs = self.inputs
        written["clear_tool_inputs"] = list(inputs) if isinstance(inputs, tuple) else inputs
        return written

    @classmethod
    def read(cls, edit: Mapping[str, Any], place: str) -> Self:
        """From the API's form."""
        _only(edit, place, "type trigger keep clear_at_least exclude_tools clear_tool_inputs")
        default = cls()
        kind, trigger = _typed(edit.get("trigger"), f"{place}.trigger", default.trigger)
        inputs = edit.get("clear_tool_inputs") or False
        if not isinstance(inputs, bool):
            inputs = _names(inputs, f"{place}.clear_tool_inputs")
        return cls(
            trigger=trigger,
            by_uses=kind == "tool_uses",
            keep=_typed(edit.get("keep"), f"{place}.keep", default.keep)[1],
            at_least=_typed(edit.get("clear_at_least"), f"{place}.clear_at_least", 0)[1],
            exclude_tools=_names(edit.get("exclude_tools") or (), f"{place}.exclude_tools"),
            inputs=inputs,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearThinking:
    """Thinking of older turns goes. `keep_turns`: newest turns whose thinking stays; `None`: all."""

    keep_turns: int | None = 1

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        turns = self.keep_turns
        keep: Any = "all" if turns is None else {"type": "thinking_turns", "value": turns}
        return {"type": CLEAR_THINKING, "keep": keep}

    @classmethod
    def read(cls, edit: Mapping[str, Any], place: str) -> Self:
        """From the API's form."""
        _only(edit, place, "type keep")
        keep = edit.get("keep")
        if keep == "all" or (isinstance(keep, Mapping) and keep.get("type") == "all"):
            return cls(keep_turns=None)
        turns = _typed(keep, f"{place}.keep", 1)[1]
        if turns < 1:
            raise InvalidPolicy(f"{place}.keep.value", turns, "must be at least 1")
        return cls(keep_turns=turns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compact:
    """A summary by the provider, from so many input tokens on; `instructions` replace its prompt, empty: its own."""

    trigger: int = 150_000
    instructions: str = ""
    pause: bool = False

    def __post_init__(self) -> None:
        if self.trigger < MIN_COMPACT_TOKENS:
            limit = f"must be at least {MIN_COMPACT_TOKENS:,}"
            raise InvalidPolicy(f"{COMPACT}.trigger.value", self.trigger, limit)

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        written: dict[str, Any] = {
            "type": COMPACT,
            "trigger": {"type": "input_tokens", "value": self.trigger},
        }
        if self.instructions:
            written["instructions"] = self.instructions
        return {**written, "pause_after_compaction": True} if self.pause else written

    @classmethod
    def read(cls, edit: Mapping[str, Any], place: str) -> Self:
        """From the API's form."""
        _only(edit, place, "type trigger instructions pause_after_compaction")
        instructions = edit.get("instructions") or ""
        if not isinstance(instructions, str):
            raise InvalidPolicy(f"{place}.instructions", instructions, "must be a text")
        return cls(
            trigger=_typed(edit.get("trigger"), f"{place}.trigger", cls().trigger)[1],
            instructions=instructions,
            pause=edit.get("pause_after_compaction") is True,
        )


Edit: TypeAlias = ClearToolUses | ClearThinking | Compact

_KINDS: dict[str, type[Edit]] = {
    CLEAR_TOOL_USES: ClearToolUses,
    CLEAR_THINKING: ClearThinking,
    COMPACT: Compact,
}


@dataclass(frozen=True, slots=True)
class ContextManagement:
    """The whole parameter: edits in their order.

    Example:
        >>> given = {"edits": [{"type": "clear_tool_uses_20250919", "keep": {"type": "tool_uses", "value": 5}}]}
        >>> ContextManagement.read(given).edits[0].keep
        5
    """

    edits: tuple[Edit, ...] = field(default=())

    def __post_init__(self) -> None:
        kinds = [type(edit) for edit in self.edits]
        if len(set(kinds)) < len(kinds):
            raise InvalidPolicy("context_management.edits", len(kinds), "must not repeat a type")
        if ClearThinking in kinds[1:]:
            limit = "must be the first of the edits"
            raise InvalidPolicy("context_management.edits", CLEAR_THINKING, limit)

    @classmethod
    def read(cls, value: Any) -> Self:
        """From the API's form.

        Raises:
            InvalidPolicy: The API would refuse it; names the field.
        """
        edits = value.get("edits") if isinstance(value, Mapping) else None
        if not isinstance(edits, Sequence) or isinstance(edits, str):
            limit = "must be an object with a list `edits`"
            raise InvalidPolicy("context_management", value, limit)
        _only(value, "context_management", "edits")
        read_edits: list[Edit] = []
        for at, edit in enumerate(edits):
            place = f"context_management.edits[{at}]"
            kind = edit.get("type") if isinstance(edit, Mapping) else None
            if kind not in _KINDS:
                limit = f"must be one of {', '.join(_KINDS)}"
                raise InvalidPolicy(f"{place}.type", kind, limit)
            read_edits.append(_KINDS[kind].read(edit, place))
        return cls(tuple(read_edits))

    def to_json(self) -> dict[str, Any]:
        """As the API takes it."""
        return {"edits": [edit.to_json() for edit in self.edits]}

    def headers(self) -> tuple[str, ...]:
        """Values of `anthropic-beta` that the edits need."""
        clears = any(not isinstance(edit, Compact) for edit in self.edits)
        compacts = any(isinstance(edit, Compact) for edit in self.edits)
        return (EDITING_HEADER,) * clears + (COMPACT_HEADER,) * compacts


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
