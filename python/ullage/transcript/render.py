"""From entries in context to the messages of a request.

A response that was stored in pieces becomes one assistant message again; the results of its calls
become the user message right after it, results first, whatever order the lines were written in.
Blocks, and messages that need no change, are the stored objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from ullage.messages import Block, Content, Item, message_of
from ullage.transcript.attachment_text import USER_KINDS, render

__all__ = ["MessageView", "project", "rendered", "to_messages"]


# A type that is asked for by name is recognised at once; `Mapping` alone asks its registry for each dict.


class MessageView(NamedTuple):
    """Messages of a request, and for each the uuids of the entries that it came from."""

    messages: list[dict[str, Any]]
    sources: list[tuple[str, ...]]
    orphans: list[tuple[str, str]]  # (uuid, tool_use_id) of results without a call, left out


# ---- one entry -------------------------------------------------------------------------------


def rendered(item: Item) -> Item | None:
    """An entry in the form that functions on messages accept.

    An attachment becomes a user entry with the text that the model is shown; an entry with a
    message is returned as it is.

    Returns:
        `None` if the model is shown nothing of it.
    """
    if item.get("type") != "attachment":
        return item if message_of(item) is not None else None
    attachment = item.get("attachment")
    content = render(attachment) if isinstance(attachment, (dict, Mapping)) else None
    if content is None or not isinstance(attachment, (dict, Mapping)):
        return None
    rest = {key: value for key, value in item.items() if key != "attachment"}
    meta = attachment.get("type") not in USER_KINDS
    message = {"role": "user", "content": content}
    return {**rest, "type": "user", "isMeta": meta, "message": message}


def project(item: Item, texts: Mapping[str, str]) -> Item:
    """The entry with the content of some tool results replaced.

    Args:
        item: An entry or a bare message.
        texts: Text to stand as the content of a result, by tool use id.

    Returns:
        The same object if none of its results is named, else a copy that shares all other parts.
    """
    message = message_of(item)
    content = message.get("content") if message else None
    if not texts or message is None or not isinstance(content, list):
        return item
    blocks = [_replaced(block, texts) for block in content]
    if all(new is old for new, old in zip(blocks, content, strict=True)):
        return item
    changed = {**message, "content": blocks}
    return changed if message is item else {**item, "message": changed}


def _replaced(block: Any, texts: Mapping[str, str]) -> Any:
    if not isinstance(block, (dict, Mapping)) or block.get("type") != "tool_result":
        return block
    text = texts.get(_text(block.get("tool_use_id")))
    return block if text is None else {**block, "content": text}


# ---- many entries ----------------------------------------------------------------------------


_Part: TypeAlias = tuple[int, Block | str]
"""Place of the entry that it came from, and a block; a string content is one part. A plain tuple: one is made for each block."""


@dataclass(slots=True)
class _Step:
    """One response (none at the very start), the results that answer it, and what else was said."""

    response_id: str = ""
    said: list[_Part] = field(default_factory=list)
    answers: list[_Part] = field(default_factory=list)
    follows: list[_Part] = field(default_factory=list)


def to_messages(items: Iterable[Item]) -> MessageView:
    """The messages of a request, from entries in the order of the context.

    Args:
        items: Entries or bare messages; attachments are rendered, other lines are skipped.

    Returns:
        Messages with `role` and `content` only, and where each came from. A result whose call is
        not among the items, or that answers a call a second time, is left out and named.
    """
    shown = [item for item in map(rendered, items) if item is not None]
    told = [message_of(item) or _NOTHING for item in shown]
    steps, orphans = _steps(told)
    messages: list[dict[str, Any]] = []
    sources: list[tuple[str, ...]] = []
    for step in steps:
        for role, parts in (("assistant", step.said), ("user", step.answers + step.follows)):
            if message := _message(role, parts, told):
                messages.append(message)
                sources.append(_uuids(parts, shown))
    return MessageView(messages, sources, [(_uuid(shown[at]), call) for at, call in orphans])


_NOTHING: Mapping[str, Any] = MappingProxyType({})


def _steps(told: Sequence[Mapping[str, Any]]) -> tuple[list[_Step], list[tuple[int, str]]]:
    steps = [_Step()]
    by_call: dict[str, _Step] = {}
    answers: list[_Part] = []
    for owner, message in enumerate(told):
        parts = _parts(owner, message)
        if message.get("role") == "assistant":
            step = _step_for(steps, _text(message.get("id")))
            step.said += parts
            for call in _calls(parts):
                by_call[call] = step
            continue
        follows = steps[-1].follows
        for part in parts:
            # A result can stand before its call in the file, so answers wait for all calls.
            (answers if _is_result(part[1]) else follows).append(part)
    return steps, _assign(answers, by_call)


def _step_for(steps: list[_Step], response_id: str) -> _Step:
    if len(steps) == 1 or not response_id or steps[-1].response_id != response_id:
        steps.append(_Step(response_id))
    return steps[-1]


def _assign(answers: Iterable[_Part], by_call: Mapping[str, _Step]) -> list[tuple[int, str]]:
    """Put each result after the response that called for it; returns those left over."""
    orphans = []
    answered: set[str] = set()
    for part in answers:
        owner, block = part
        call = _text(block.get("tool_use_id")) if isinstance(block, (dict, Mapping)) else ""
        step = by_call.get(call)
        if step is None or call in answered:
            orphans.append((owner, call))
        else:
            answered.add(call)
            step.answers.append(part)
    return orphans


def _parts(owner: int, message: Mapping[str, Any]) -> list[_Part]:
    content = message.get("content")
    if isinstance(content, str):
        return [(owner, content)]
    return [(owner, block) for block in content] if isinstance(content, list) else []


def _calls(parts: Iterable[_Part]) -> Iterable[str]:
    for _, block in parts:
        if isinstance(block, (dict, Mapping)) and block.get("type") == "tool_use":
            yield _text(block.get("id"))


def _is_result(block: Block | str) -> bool:
    return isinstance(block, (dict, Mapping)) and block.get("type") == "tool_result"


def _message(
    role: str, parts: Sequence[_Part], told: Sequence[Mapping[str, Any]]
) -> dict[str, Any] | None:
    if not parts:
        return None
    if (stored := _stored(parts, told)) is not None:
        return stored
    if len(parts) == 1:
        block = parts[0][1]
        return {"role": role, "content": block if isinstance(block, str) else [block]}
    blocks = [_as_block(block) for _, block in parts if block != ""]
    return {"role": role, "content": blocks} if blocks else None


def _stored(parts: Sequence[_Part], told: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """The stored message, if the parts are exactly its content."""
    message = told[parts[0][0]]
    if not isinstance(message, dict):
        return None
    content: Content = message["content"]
    blocks = [content] if isinstance(content, str) else content
    if len(parts) != len(blocks) or any(
        part[1] is not block for part, block in zip(parts, blocks, strict=True)
    ):
        return None
    if message.keys() == {"role", "content"}:
        return message
    return {"role": message["role"], "content": content}


def _as_block(part: Block | str) -> Block:
    return {"type": "text", "text": part} if isinstance(part, str) else part


def _uuids(parts: Sequence[_Part], items: Sequence[Item]) -> tuple[str, ...]:
    if len(parts) == 1:
        return (_uuid(items[parts[0][0]]),)
    return tuple(dict.fromkeys([_uuid(items[owner]) for owner, _ in parts]))


def _uuid(item: Item) -> str:
    return _text(item.get("uuid"))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
