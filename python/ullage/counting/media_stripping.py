"""Takes images and documents out of messages, as before a summary call (MED-1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ullage._engine import core
from ullage.messages import Item, with_parts
from ullage.providers.native_lists import read_form

_PLACEHOLDERS: Final = {
    **dict.fromkeys(("image", "image_url", "input_image"), "[image]"),
    **dict.fromkeys(("document", "file", "input_file"), "[document]"),
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
        return with_parts(item, _block)
    return {**item, "message": with_parts(item["message"], _block)}


def _block(block: Any) -> Any:
    if isinstance(block, dict) and block.get("type") == "tool_result":
        return with_parts(block, _placeholder)
    return _placeholder(block)


def _placeholder(part: Any) -> Any:
    """What stands for an image or a document; anything else as it is."""
    part_type = part.get("type") if isinstance(part, dict) else None
    if isinstance(part_type, str) and part_type in _PLACEHOLDERS:
        return {"type": "text", "text": _PLACEHOLDERS[part_type]}
    return part
