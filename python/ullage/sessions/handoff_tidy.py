"""Small damage of a session, repaired entry by entry, so that each entry keeps what is known of it: its id, time and flags."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ullage.facts.reading import blocks_of
from ullage.messages import Item

__all__ = ["tidied"]

_UNANSWERED = "[The call was interrupted; it has no result.]"


def tidied(items: Sequence[Item]) -> list[Item]:
    """The entries without blank texts, with an answer after each call that has none.

    Args:
        items: Entries; never changed. What needs no repair is the same object.
    """
    answered = {
        str(block.get("tool_use_id"))
        for item in items
        for block in blocks_of(item)
        if block.get("type") == "tool_result"
    }
    made: list[Item] = []
    for item in items:
        kept = _without_blanks(item)
        if kept is not None:
            made += [kept, *_answers(kept, answered)]
    return made


def _without_blanks(item: Item) -> Item | None:
    message = item.get("message")
    content = message.get("content") if isinstance(message, Mapping) else None
    if isinstance(content, str):
        return item if content.strip() else None
    if not isinstance(content, list):
        return item
    blocks = [_filled(block) for block in content if not _is_blank(block)]
    if not blocks:
        return None
    same = len(blocks) == len(content) and all(a is b for a, b in zip(blocks, content, strict=True))
    return item if same else {**item, "message": {**item["message"], "content": blocks}}


def _is_blank(block: Any) -> bool:
    return (
        isinstance(block, Mapping)
        and block.get("type") == "text"
        and not str(block.get("text") or "").strip()
    )


def _filled(block: Any) -> Any:
    """A result without the blank texts in it."""
    inner = block.get("content") if isinstance(block, Mapping) else None
    if not isinstance(inner, list) or not any(map(_is_blank, inner)):
        return block
    kept = [part for part in inner if not _is_blank(part)]
    return {**block, "content": kept or ""}


def _answers(item: Item, answered: set[str]) -> Iterator[Item]:
    open_ = [
        str(block.get("id"))
        for block in blocks_of(item)
        if block.get("type") == "tool_use" and str(block.get("id")) not in answered
    ]
    if open_:
        blocks = [
            {"type": "tool_result", "tool_use_id": name, "content": _UNANSWERED, "is_error": True}
            for name in open_
        ]
        head = {key: item[key] for key in ("timestamp", "sessionId", "cwd") if key in item}
        message = {"role": "user", "content": blocks}
        yield {"type": "user", "uuid": str(uuid.uuid4()), **head, "message": message}
