"""What Anthropic's server does to a history before the model sees it: clearing and compacting."""

from __future__ import annotations

from typing import Any

from tests.oracle.checker.request import Request, kind_of
from tests.oracle.checker.size import count_tokens
from ullage.messages import THINKING
from ullage.testing.generator import seal, unseal
from ullage.testing.script import Step, answer

__all__ = ["apply_edits", "compaction_block", "is_own_compaction", "wants_compaction"]

_MARK = "compaction"


def apply_edits(request: Request, tokens: int) -> list[dict[str, Any]]:
    """`applied_edits` of the request's `context_management`; the request stays as it is."""
    management = request.body.get("context_management")
    edits = management.get("edits") if isinstance(management, dict) else None
    applied = []
    for edit in edits if isinstance(edits, list) else ():
        kind = str(edit.get("type"))
        if kind.startswith("clear_tool_uses"):
            applied += _clear_tools(request, edit, tokens)
        elif kind.startswith("clear_thinking"):
            applied += _clear_thinking(request, edit)
    return applied


def _number(part: Any, default: int) -> int:
    value = part.get("value") if isinstance(part, dict) else None
    return value if isinstance(value, int) else default


def _clear_tools(request: Request, edit: dict[str, Any], tokens: int) -> list[dict[str, Any]]:
    calls = {
        place.value.get("id"): place.value.get("name")
        for place in request.places()
        if kind_of(place.value) == "tool_use"
    }
    trigger = edit.get("trigger") or {}
    reached = len(calls) if trigger.get("type") == "tool_uses" else tokens
    excluded = edit.get("exclude_tools") or []
    results = [
        place.value
        for place in request.places()
        if kind_of(place.value) == "tool_result"
        and calls.get(place.value.get("tool_use_id")) not in excluded
    ]
    keep = _number(edit.get("keep"), 3)
    cleared = results[: len(results) - keep] if keep else results
    freed = sum(count_tokens({"messages": [block.get("content")]}) for block in cleared)
    least = _number(edit.get("clear_at_least"), 0)
    if reached < _number(trigger, 100_000) or not cleared or freed < least:
        return []
    found = {"type": edit["type"], "cleared_tool_uses": len(cleared)}
    return [{**found, "cleared_input_tokens": freed}]


def _clear_thinking(request: Request, edit: dict[str, Any]) -> list[dict[str, Any]]:
    keep = edit.get("keep")
    if keep == "all" or (isinstance(keep, dict) and keep.get("type") == "all"):
        return []
    turns = [t for t in request.turns if t.of(*THINKING)]
    cleared = turns[: len(turns) - _number(keep, 1)]
    if not cleared:
        return []
    blocks = [place.value for turn in cleared for place in turn.of(*THINKING)]
    freed = sum(count_tokens({"messages": [block]}) for block in blocks)
    found = {"type": edit["type"], "cleared_thinking_turns": len(cleared)}
    return [{**found, "cleared_input_tokens": freed}]


def wants_compaction(request: Request, tokens: int) -> bool:
    """Whether this request asks for a compaction, or has grown to the edit's trigger."""
    if isinstance(request.body.get("compaction"), dict):
        return True
    management = request.body.get("context_management")
    edits = management.get("edits") if isinstance(management, dict) else None
    return any(
        str(edit.get("type")).startswith("compact_")
        and tokens >= _number(edit.get("trigger"), 150_000)
        for edit in (edits if isinstance(edits, list) else ())
    )


def compaction_block(messages: list[Any]) -> dict[str, Any]:
    """A compaction block with a summary, signed for its own words."""
    text = answer(Step("good"), messages).text
    signature, _ = seal(_MARK, _MARK, text)
    return {
        "type": "compaction",
        "content": text,
        "signature": signature,
        "encrypted_content": signature,
    }


def is_own_compaction(block: Any) -> bool:
    """Whether the block is one of this server's, unchanged."""
    found = unseal(block.get("signature"), str(block.get("content") or "")) if block else None
    return found is not None and found.model == _MARK
