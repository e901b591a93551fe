"""Rules on request parameters other than messages (A15's header, A26)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ullage._engine.digests import Violation
from ullage.legality.capabilities import BINDING_HEADER, RequestFacts

__all__ = ["check_params", "check_wire"]

MIN_COMPACT_TRIGGER = 50_000
_NO_API = ("cache_edits", "cache_reference")
_WIRE_KEYS = {
    "user": frozenset({"role", "content"}),
    "assistant": frozenset({"role", "content"}),
    "system": frozenset({"role", "content", "output_config", "clear_at"}),
}


def check_params(params: Mapping[str, Any], facts: RequestFacts) -> Iterator[Violation]:
    """Checks context edits and the header that `block_binding` needs."""
    management = params.get("context_management")
    edits = management.get("edits") if isinstance(management, Mapping) else None
    if isinstance(edits, list | tuple):
        for position, edit in enumerate(edits):
            yield from _edit(position, edit)
    for name in _NO_API:
        if name in params:
            yield _found("A32", f"{name} is no public parameter")
    thinking = params.get("thinking")
    if isinstance(thinking, Mapping) and "block_binding" in thinking:
        if facts.betas is not None and BINDING_HEADER not in facts.betas:
            yield _found("A15", f"thinking.block_binding needs the header {BINDING_HEADER}")


def check_wire(messages: Sequence[Any]) -> Iterator[Violation]:
    """A04 for messages that still carry what only responses and stored views have."""
    for index, item in enumerate(messages):
        if isinstance(item, Mapping) and "role" in item:
            known = _WIRE_KEYS.get(str(item["role"]))
            if known is not None and not item.keys() <= known:
                yield Violation(
                    "A04", "error", index, -1, "message has keys that the API does not know"
                )


def _edit(position: int, edit: Any) -> Iterator[Violation]:
    if not isinstance(edit, Mapping):
        yield _found("A26", f"context edit {position} is not an object")
        return
    kind = str(edit.get("type", ""))
    if kind.startswith("clear_thinking") and position > 0:
        yield _found("A26", "clear_thinking is not the first context edit")
    if kind.startswith("compact_") and 0 <= _value(edit.get("trigger")) < MIN_COMPACT_TRIGGER:
        yield _found("A26", f"compact trigger is below {MIN_COMPACT_TRIGGER} tokens")
    if 0 <= _value(edit.get("keep"), default=1) < 1 and kind.startswith("clear_thinking"):
        yield _found("A26", "clear_thinking must keep at least 1 turn")


def _value(part: Any, default: int = -1) -> int:
    value = part.get("value", default) if isinstance(part, Mapping) else default
    return value if isinstance(value, int) else default


def _found(rule: str, detail: str) -> Violation:
    return Violation(rule, "error", -1, -1, detail)
