"""A20, A25 to A28, A31, and the rules on thinking modes: what versions, betas and models add."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.oracle.checker.report import Finding, error, ident
from tests.oracle.checker.request import Place, Request, kind_of

__all__ = ["check_special"]

STRICT_VERSION = 2026_10_21
MIN_COMPACT_TRIGGER = 50_000
ON_DEMAND = "compact-2026-09-04"
_SAMPLING = ("temperature", "top_p", "top_k")
_BEFORE_FALLBACK = ("thinking", "redacted_thinking", "connector_text", "tool_use")


def check_special(request: Request) -> Iterator[Finding]:
    """All of them."""
    if request.version >= STRICT_VERSION:
        yield from _strict(request)
    yield from _compactions(request)
    yield from _edits(request)
    yield from _search_results(request)
    yield from _fallbacks(request)
    yield from _tool_changes(request)


def _strict(request: Request) -> Iterator[Finding]:
    for key in _SAMPLING:
        if key in request.body:
            yield error("A20", (-1, -1), f"{key}: Extra inputs are not permitted")
    for place in request.places():
        role = request.role(place.message)
        if role == "assistant" and kind_of(place.value) == "document":
            text = f"{place.path}: `document` blocks are not allowed in assistant messages"
            yield error("A20", place.at, text)
        if role == "user" and _cited(place.value):
            text = f"{place.path}.citations: citations are not allowed in user messages"
            yield error("A20", place.at, text)


def _cited(block: Any) -> bool:
    if not isinstance(block, dict):
        return False
    citations, inner = block.get("citations"), block.get("content")
    here = kind_of(block) == "text" and isinstance(citations, list) and bool(citations)
    return here or (isinstance(inner, list) and any(_cited(item) for item in inner))


def _compactions(request: Request) -> Iterator[Finding]:
    found = [place for place in request.places() if kind_of(place.value) == "compaction"]
    for place in found:
        if place.value.get("content") == "":
            text = f"{place.path}.compaction.content: String should have at least 1 character"
            yield error("A25", place.at, text)
    if not found or ON_DEMAND not in request.betas:
        return
    full = [place for place in found if place.value.get("content")]
    if len(full) != 1:
        text = f"messages: exactly one compaction block with content is allowed, found {len(full)}"
        yield error("A25", (-1, -1), text, code="compaction_block_ambiguous")
    for place in full[:1]:
        if place.at != (0, 0):
            text = f"{place.path}: the compaction block must be first in `messages`"
            yield error("A25", place.at, text, code="compaction_block_misplaced")
    if any(str(edit.get("type")).startswith("compact_") for _, edit in _all_edits(request)):
        text = "context_management: a compact edit cannot be combined with a compaction block"
        yield error("A25", (-1, -1), text)


def _all_edits(request: Request) -> list[tuple[int, dict[str, Any]]]:
    management = request.body.get("context_management")
    edits = management.get("edits") if isinstance(management, dict) else None
    listed = edits if isinstance(edits, list) else []
    return [(at, edit) for at, edit in enumerate(listed) if isinstance(edit, dict)]


def _value(part: Any) -> Any:
    return part.get("value") if isinstance(part, dict) else None


def _edits(request: Request) -> Iterator[Finding]:
    for at, edit in _all_edits(request):
        kind, path = str(edit.get("type")), f"context_management.edits.{at}"
        trigger, keep = _value(edit.get("trigger")), _value(edit.get("keep"))
        if kind.startswith("clear_thinking") and at:
            yield error("A26", (-1, -1), f"{path}: clear_thinking must be the first edit")
        if (
            kind.startswith("compact_")
            and isinstance(trigger, int)
            and trigger < MIN_COMPACT_TRIGGER
        ):
            text = f"{path}.trigger.value: Input should be greater than or equal to {MIN_COMPACT_TRIGGER}"
            yield error("A26", (-1, -1), text)
        if kind.startswith("clear_thinking") and isinstance(keep, int) and keep < 1:
            text = f"{path}.keep.value: Input should be greater than 0"
            yield error("A26", (-1, -1), text)


def _search_results(request: Request) -> Iterator[Finding]:
    blocks = [
        (place, block)
        for place in request.places()
        for block in (place.value, *request.nested(place))
        if kind_of(block) == "search_result"
    ]
    on = [_enabled(block) for _, block in blocks]
    if any(on) and not all(on):
        place = blocks[on.index(not on[0])][0]
        text = f"{place.path}: search_result blocks must all enable citations, or none"
        yield error("A27", place.at, text)


def _enabled(block: Any) -> bool:
    citations = block.get("citations")
    return isinstance(citations, dict) and citations.get("enabled") is True


def _fallbacks(request: Request) -> Iterator[Finding]:
    for turn in request.turns:
        marks = [at for at, place in enumerate(turn.places) if kind_of(place.value) == "fallback"]
        before = turn.places[: marks[-1]] if marks else []
        done = {ident(p.value.get("tool_use_id")) for p in before if isinstance(p.value, dict)}
        for place in before:
            if _must_go(place, done):
                text = f"{place.path}: must be dropped before a `fallback` block"
                yield error("A28", place.at, text)


def _must_go(place: Place, done: set[Any]) -> bool:
    kind = kind_of(place.value)
    open_call = kind == "server_tool_use" and ident(place.value.get("id")) not in done
    return kind in _BEFORE_FALLBACK or open_call


def _tool_changes(request: Request) -> Iterator[Finding]:
    """A31: with tool changes in use, whatever is named must be defined by then."""
    changes = ("tool_addition", "tool_removal")
    used = any(kind_of(place.value) in changes for place in request.places())
    if not used and not request.beta("mid-conversation-tool-changes"):
        return
    known = {ident(tool.get("name")) for tool in request.tools}
    for place in request.places():
        kind, name = kind_of(place.value), _tool_name(place.value)
        if kind in changes and _on_server(place.value.get("tool")):
            continue
        if kind == "tool_addition" and _inline(place.value.get("tool")):
            if name in known:
                text = f"{place.path}: tool `{name}` is already defined"
                yield error("A31", place.at, text, code="tool_name_conflict")
            known.add(name)
        elif kind in (*changes, "tool_use") and name not in known:
            text = f"{place.path}: tool `{name}` is not available here"
            yield error("A31", place.at, text, code="tool_reference_unresolved")


def _inline(tool: Any) -> bool:
    """Whether a tool is given by value: in a wrapper of its own, or as it is."""
    return isinstance(tool, dict) and (
        isinstance(tool.get("definition"), dict) or "input_schema" in tool
    )


def _on_server(tool: Any) -> bool:
    inner = tool.get("definition") if isinstance(tool, dict) else None
    return kind_of(tool).startswith("mcp_") or kind_of(inner) == "mcp_toolset"


def _tool_name(block: Any) -> str:
    if not isinstance(block, dict):
        return ""
    tool = block.get("tool")
    if isinstance(tool, dict) and isinstance(tool.get("definition"), dict):
        tool = tool["definition"]
    if isinstance(tool, dict):
        return ident(tool.get("name") or tool.get("tool_name"))
    return ident(block.get("name"))
