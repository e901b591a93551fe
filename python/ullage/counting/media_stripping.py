"""Takes images and documents out of messages, as before a summary call (MED-1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ullage._engine import core
from ullage.messages import Item
from ullage.providers.native_lists import read_form

_IMAGE: Final = {"type": "text", "text": "[image]"}
_DOCUMENT: Final = {"type": "text", "text": "[document]"}
_PLACEHOLDERS: Final = {
    "image": _IMAGE,
    "image_url": _IMAGE,
    "input_image": _IMAGE,
    "document": _DOCUMENT,
    "file": _DOCUMENT,
    "input_file": _DOCUMENT,
}


def strip_media(items: Sequence[Item], *, provider: str | None = None) -> list[Item]:
    """Replaces images and documents of user and tool messages by `[image]` and `[document]`.

    This includes tool results. Entries keep their envelope; a message without media is returned as the
    same object, and no message is changed in place.

    Args:
        items: Messages, items or contents of any provider, or entries; anything else passes through.
        provider: Format of the items: `openai_responses`, `gemini` or `bedrock`; other formats are read as they
            are. `None`: items of the Responses API and Gemini's contents are recognised.

    Returns:
        A new list of the same length; in other formats one item may be replaced by several.
    """
    form = read_form(items, provider)
    if form is None:
        return _stripped(items)
    return form.back(_stripped(form.messages))


def _stripped(items: Sequence[Item]) -> list[Item]:
    stripped = list(items)
    for index in core.media_indices(stripped):
        stripped[index] = _item(stripped[index])
    return stripped


def _item(item: Item) -> Item:
    if "role" in item:
        return {**item, "content": _content(item["content"])}
    message = item["message"]
    return {**item, "message": {**message, "content": _content(message["content"])}}


def _content(blocks: Sequence[Any]) -> list[Any]:
    return [_block(block) for block in blocks]


def _block(block: Any) -> Any:
    block_type = block.get("type") if isinstance(block, dict) else None
    if not isinstance(block_type, str):
        return block
    if block_type in _PLACEHOLDERS:
        return dict(_PLACEHOLDERS[block_type])
    content = block.get("content")
    if block_type == "tool_result" and isinstance(content, (list, tuple)):
        inner = [_nested(part) for part in content]
        if any(new is not old for new, old in zip(inner, content, strict=True)):
            return {**block, "content": inner}
    return block


def _nested(part: Any) -> Any:
    part_type = part.get("type") if isinstance(part, dict) else None
    if isinstance(part_type, str) and part_type in _PLACEHOLDERS:
        return dict(_PLACEHOLDERS[part_type])
    return part
