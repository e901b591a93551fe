"""A05 to A07, A09, A10: calls and their results, the client's and the provider's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from tests.oracle.checker.report import Finding, error, ident
from tests.oracle.checker.request import Place, Request, Turn, kind_of

__all__ = ["check_pairing", "check_server_tools"]


def _name(place: Place, key: str) -> Any:
    value = place.value.get(key)
    return value if isinstance(value, str) else None


def check_pairing(request: Request) -> Iterator[Finding]:
    """A05 to A07: every call answered in the very next turn, once, and nothing else answered."""
    turns = request.turns
    for at, turn in enumerate(turns):
        after = turns[at + 1] if at + 1 < len(turns) else None
        before = turns[at - 1] if at else None
        if turn.role == "assistant":
            yield from _unanswered(turn, after if after and after.role == "user" else None)
        elif turn.role == "user":
            known = before if before and before.role == "assistant" else None
            yield from _answers(turn, known)
            yield from _order(turn)


def _unanswered(turn: Turn, after: Turn | None) -> Iterator[Finding]:
    answers = (
        Counter(_name(place, "tool_use_id") for place in after.of("tool_result")) if after else {}
    )
    for place in turn.of("tool_use"):
        if not answers or ident(place.value.get("id")) not in answers:
            text = (
                f"messages.{place.message}: `tool_use` ids were found without `tool_result` blocks "
                f"immediately after: {place.value.get('id')}. Each `tool_use` block must have a "
                "corresponding `tool_result` block in the next message."
            )
            yield error("A05", place.at, text)


def _answers(turn: Turn, before: Turn | None) -> Iterator[Finding]:
    known = {ident(place.value.get("id")) for place in before.of("tool_use")} if before else set()
    seen: set[str] = set()
    for place in turn.of("tool_result"):
        name = _name(place, "tool_use_id")
        if name is None or name not in known:
            text = (
                f"{place.path}: unexpected `tool_use_id` found in `tool_result` blocks: {name}. Each "
                "`tool_result` block must have a corresponding `tool_use` block in the previous "
                "message."
            )
            yield error("A06", place.at, text)
        elif name in seen:
            text = "each tool_use must have a single result. Found multiple `tool_result` blocks"
            yield error("A05", place.at, f"{place.path}: {text} with id: {name}")
        else:
            seen.add(name)


def _order(turn: Turn) -> Iterator[Finding]:
    other = False
    for place in turn.places:
        if kind_of(place.value) != "tool_result":
            other = True
        elif other:
            text = (
                f"messages.{place.message}: `tool_use` ids were found without `tool_result` blocks "
                f"immediately after: {_name(place, 'tool_use_id')}. `tool_result` blocks must come "
                "first in the message."
            )
            yield error("A07", place.at, text)


def _is_result(place: Place) -> bool:
    kind = kind_of(place.value)
    return kind.endswith("_tool_result") and kind != "tool_result"


def _fits(call: Place, result: Place) -> bool:
    kind, tool = kind_of(result.value), str(call.value.get("name"))
    if kind_of(call.value) == "mcp_tool_use":
        return kind == "mcp_tool_result"
    stem = "tool_search" if tool.startswith("tool_search") else tool
    return kind == f"{stem}_tool_result"


def check_server_tools(request: Request) -> Iterator[Finding]:
    """A09, A10: the provider's own calls and their results, anywhere later."""
    calls: dict[Any, Place] = {}
    done: set[Any] = set()
    for at, turn in enumerate(request.turns):
        for place in turn.places if turn.role == "assistant" else ():
            if kind_of(place.value) in ("server_tool_use", "mcp_tool_use"):
                calls[ident(place.value.get("id"))] = place
            elif _is_result(place):
                yield from _resolve(place, calls, done)
        here = range(turn.first, turn.last + 1)
        still = [calls[n] for n in calls if n not in done and calls[n].message in here]
        if turn.role == "assistant" and still:
            yield from _while_open(request, at, still)
    for name, place in calls.items():
        if name not in done and not _may_stay_open(request, place):
            yield error("A09", place.at, _orphan(place))


def _orphan(place: Place) -> str:
    tool = place.value.get("name")
    return (
        f"messages.{place.message}: `{tool}` tool use with id `{place.value.get('id')}` was found "
        f"without a corresponding `{tool}_tool_result` block"
    )


def _resolve(place: Place, calls: dict[Any, Place], done: set[Any]) -> Iterator[Finding]:
    name, kind = ident(place.value.get("tool_use_id")), kind_of(place.value)
    call = calls.get(name)
    if call is None or name in done or not _fits(call, place):
        text = (
            f"{place.path}: unexpected `tool_use_id` found in `{kind}` blocks: {name}. Each `{kind}` "
            "block must have a corresponding `server_tool_use` block before it."
        )
        yield error("A09", place.at, text)
    if call is not None:
        done.add(name)


def _while_open(request: Request, at: int, still: list[Place]) -> Iterator[Finding]:
    """What may follow a turn that leaves a server call open."""
    after = request.turns[at + 1] if at + 1 < len(request.turns) else None
    if after is None:
        return
    for place in after.places if after.role == "user" else ():
        if kind_of(place.value) != "tool_result":
            text = f"messages.{place.message}: only `tool_result` blocks may follow an open server call"
            yield error("A10", place.at, text)
            break
    names = {ident(tool.get("name")) for tool in request.tools}
    for call in still:
        tool = ident(call.value.get("name"))
        if kind_of(call.value) == "server_tool_use" and tool not in names:
            text = f"{_orphan(call)}, but no `{tool}` tool was provided"
            yield error("A10", call.at, text)


def _may_stay_open(request: Request, call: Place) -> bool:
    """An open call in the last assistant turn is resumed: nothing or only results follow it."""
    turns = request.turns
    at = next(n for n, turn in enumerate(turns) if turn.first <= call.message <= turn.last)
    rest = turns[at + 1 :]
    if not rest:
        return True
    only_results = all(kind_of(place.value) == "tool_result" for place in rest[0].places)
    return len(rest) == 1 and rest[0].role == "user" and bool(rest[0].places) and only_results
