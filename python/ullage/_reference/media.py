"""Which messages hold media (MED-1). The twin of `rust/core/src/media.rs`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ullage._reference.blocks import kind_of
from ullage._reference.digest import BlockKind
from ullage._reference.stored import stored
from ullage._reference.view import is_list

__all__ = ["media_indices"]

_MEDIA = frozenset({BlockKind.IMAGE, BlockKind.DOCUMENT})
_ROLES = frozenset({"user", "tool", "function"})


def media_indices(items: Sequence[Mapping[str, Any]]) -> list[int]:
    """Indices of the user and tool messages with an image or document, also inside a tool result.

    Items that are no messages are passed over: this only looks, it does not judge.
    """
    return [index for index, item in enumerate(items) if _holds_media(stored(item))]


def _holds_media(item: Any) -> bool:
    if not isinstance(item, dict):
        return False
    message = item if "role" in item else item.get("message")
    if not isinstance(message, dict):
        return False
    role = message.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        return False
    return _in_content(message.get("content"), nested=False)


def _in_content(content: Any, *, nested: bool) -> bool:
    return is_list(content) and any(_is_media(block, nested=nested) for block in content)


def _is_media(block: Any, *, nested: bool) -> bool:
    block_type = block.get("type") if isinstance(block, dict) else None
    if not isinstance(block_type, str):
        return False
    if kind_of(block_type) in _MEDIA:
        return True
    return (
        not nested
        and block_type == "tool_result"
        and _in_content(block.get("content"), nested=True)
    )
