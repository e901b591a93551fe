"""A11, A12, A29, A30: who speaks when."""

from __future__ import annotations

from collections.abc import Iterator

from tests.oracle.checker.report import Finding, error, ident, warning
from tests.oracle.checker.request import Request, Turn, effort_only, kind_of

__all__ = ["check_placement"]

_PREFILL = (
    "This model does not support assistant message prefill. The conversation must end with a user "
    "message."
)


def check_placement(request: Request) -> Iterator[Finding]:
    """All four rules."""
    if request.turns:
        yield from _ending(request)
        yield from _portable(request)
    yield from _systems(request)


def _ending(request: Request) -> Iterator[Finding]:
    last = request.turns[-1]
    if last.role == "assistant" and not _resumes(request, last):
        at = (last.last, -1)
        if not request.facts.prefill:
            yield error("A11", at, _PREFILL)
        elif last.places and kind_of(last.places[-1].value) == "text":
            text = last.places[-1].value.get("text")
            if isinstance(text, str) and text != text.rstrip():
                words = "messages: final assistant content cannot end with trailing whitespace"
                yield error("A11", at, words)


def _resumes(request: Request, last: Turn) -> bool:
    """Whether the last assistant turn goes on after a pause or a compaction."""
    if request.resume in ("pause_turn", "compaction"):
        return True
    calls = {ident(p.value.get("id")) for p in last.of("server_tool_use", "mcp_tool_use")}
    done = {ident(p.value.get("tool_use_id")) for p in last.places if isinstance(p.value, dict)}
    return bool(calls - done) or bool(last.of("compaction"))


def _systems(request: Request) -> Iterator[Finding]:
    turns = request.turns
    for at, turn in enumerate(turns):
        if turn.role != "system":
            continue
        place = (turn.first, -1)
        if not request.facts.mid_system:
            yield error("A12", place, f"messages.{turn.first}: role 'system' is not supported")
        before, after = turns[at - 1] if at else None, turns[at + 1 : at + 2]
        if before is None or not _may_follow(before):
            text = f"messages.{turn.first}: a system message must directly follow a user message"
            yield error("A12", place, text)
        if after and after[0].role != "assistant":
            text = f"messages.{turn.first}: a system message must be last or be followed by an assistant message"
            yield error("A12", place, text)
    for index, message in enumerate(request.messages):
        if (
            request.role(index) == "system"
            and not message.get("content")
            and not effort_only(message)
        ):
            text = f"messages.{index}: a system message needs `content` or `output_config`"
            yield error("A12", (index, -1), text)


def _may_follow(before: Turn) -> bool:
    if before.role == "user":
        return True
    last = kind_of(before.places[-1].value) if before.places else ""
    return before.role == "assistant" and last.endswith("_tool_result") and last != "tool_result"


def _portable(request: Request) -> Iterator[Finding]:
    previous = ""
    for index in range(len(request.messages)):
        role = request.role(index)
        if role == previous and role != "system":
            yield warning("A29", (index, -1), "roles do not alternate")
        if index == 0 and role == "assistant":
            yield warning("A29", (0, -1), "the first message is not the user's")
        previous = role
    tool_blocks = ("tool_use", "tool_result")
    used = any(kind_of(place.value) in tool_blocks for place in request.places())
    if used and not request.body.get("tools"):
        yield warning("A30", (-1, -1), "tool blocks, but no tools")
