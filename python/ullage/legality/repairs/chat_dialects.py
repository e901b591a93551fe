"""Repairs of the chat form that single providers ask for: reasoning, system messages, the order of roles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ullage.legality.repairs.chat_calls import calls_of
from ullage.legality.repairs.chat_draft import ChatLine, Lines, as_text
from ullage.legality.repairs.texts import EARLIER, NO_MESSAGES, NO_REPLY, RECEIVED, SYSTEM_HEAD

__all__ = ["alternate", "answer_tools", "last_word", "no_messages", "reasoning", "systems"]

USER, ASSISTANT, TOOL = "user", "assistant", "tool"
SYSTEMS = ("system", "developer")


def reasoning(work: Lines, thinking: bool) -> None:
    """Thinking mode requires reasoning with each call; without it none may be sent."""
    for line in work.lines:
        if thinking and calls_of(line) and not isinstance(line.get("reasoning_content"), str):
            work.note("D01", line, "added empty reasoning_content")
            line.put(reasoning_content="")
        elif not thinking and line.get("reasoning_content") is not None:
            work.note("D01", line, "removed reasoning_content")
            line.drop("reasoning_content")


def systems(work: Lines) -> None:
    """One system message, first; later ones become the user's, marked as what they are."""
    lines = work.lines
    head = 0
    while head < len(lines) and lines[head].get("role") in SYSTEMS:
        head += 1
    if head > 1:
        work.note("L01", lines[1], "merged the leading system messages")
        text = "\n\n".join(as_text(line.get("content")) for line in lines[:head])
        lines[0].put(content=text)
    work.lines = [*lines[: min(head, 1)], *lines[head:]]
    for line in work.lines[1 if head else 0 :]:
        if line.get("role") in SYSTEMS:
            work.note("L01", line, "made a user message of a later system message")
            line.put(role=USER, content=SYSTEM_HEAD + as_text(line.get("content")))


def alternate(work: Lines) -> None:
    """User first; neighbours of one side become one message."""
    made: list[ChatLine] = []
    joined: list[ChatLine] = []  # what the newest message takes in
    before: ChatLine | None = None
    first = True
    for line in work.lines:
        role = line.get("role")
        if role == ASSISTANT and first:
            work.note("L02", line, "put a line before the first assistant message")
            made.append(ChatLine({"role": USER, "content": EARLIER}, line.origin))
        if before is not None and role in (USER, ASSISTANT) and before.get("role") == role:
            work.note("L02", line, "merged two messages of one side")
            joined.append(line)
            continue
        if role is not None:
            _merge(before, joined)
            before, joined = line, []
        first = first and role in (*SYSTEMS, None)
        made.append(line)
    _merge(before, joined)
    work.lines = made


def _merge(into: ChatLine | None, lines: Sequence[ChatLine]) -> None:
    if into is None or not lines:
        return
    each = [into, *lines]
    contents = [line.get("content") for line in each]
    content: Any
    if any(isinstance(one, list | tuple) for one in contents):
        content = [part for one in contents for part in _as_parts(one)]
    else:
        content = "\n\n".join(text for text in contents if text)
    calls = [call for line in each for call in line.get("tool_calls") or ()]
    into.put(content=content, **({"tool_calls": calls} if calls else {}))


def _as_parts(content: Any) -> list[Any]:
    if isinstance(content, list | tuple):
        return list(content)
    return [{"type": "text", "text": content}] if content else []


def answer_tools(work: Lines) -> None:
    """Mistral accepts no user message directly after a tool's."""
    made: list[ChatLine] = []
    for line in work.lines:
        if made and made[-1].get("role") == TOOL and line.get("role") not in (TOOL, ASSISTANT):
            work.note("M02", line, "put an assistant line between tool and user")
            made.append(ChatLine({"role": ASSISTANT, "content": RECEIVED}, line.origin))
        made.append(line)
    work.lines = made


def last_word(work: Lines) -> None:
    """The last message is the user's or a tool's."""
    last = work.lines[-1] if work.lines else None
    if last is not None and last.get("role") not in (USER, TOOL):
        work.note("L03", last, "added a line after the last assistant message")
        work.lines.append(ChatLine({"role": USER, "content": NO_REPLY}, last.origin))


def no_messages(work: Lines) -> None:
    """A request needs one message."""
    if not any(line.get("role") for line in work.lines):
        work.note("O06", None, "added a message that says there is none")
        work.lines.append(ChatLine({"role": USER, "content": NO_MESSAGES}, -1))
