"""Media in tool results, for shapes whose results hold only text.

The result names each item, the user message after the results carries it under a label. Both texts are
fixed, so that the way back finds the items and puts them where they stood.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ullage.messages import Block
from ullage.providers._common import is_text

__all__ = ["attach", "collect"]

_LABEL = re.compile(r"\[attachment (\d+) of tool call ([^\]\s]+)\]")


def _placeholder(number: int) -> str:
    return f"[attachment {number}: see the next user message]"


def _label(number: int, call: str) -> str:
    return f"[attachment {number} of tool call {call}]"


def collect(
    parts: list[dict[str, Any]], call: str, moved: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Takes what is no text out of a result's parts; appends it, labelled, to `moved`."""
    kept: list[dict[str, Any]] = []
    number = 0
    for part in parts:
        if part.get("type") == "text":
            kept.append(part)
            continue
        number += 1
        kept.append({"type": "text", "text": _placeholder(number)})
        moved += [{"type": "text", "text": _label(number, call)}, part]
    return kept


def attach(blocks: list[Block], results: list[Block], mapped: Mapping[str, str]) -> list[Block]:
    """Puts labelled blocks back into the results that name them; returns the others.

    Args:
        blocks: What the user message after the results holds.
        results: The results just before it; changed in place, they are the reader's own.
        mapped: Our id → the provider's, which the labels use.
    """
    by_call = {
        mapped.get(str(one.get("tool_use_id")), str(one.get("tool_use_id"))): one for one in results
    }
    position = 0
    while position + 1 < len(blocks) and _put_back(blocks[position], blocks[position + 1], by_call):
        position += 2
    return blocks[position:]


def _put_back(label: Block, item: Block, by_call: Mapping[str, Block]) -> bool:
    hit = _LABEL.fullmatch(label["text"]) if is_text(label) else None
    result = by_call.get(hit[2]) if hit else None
    if hit is None or result is None or not isinstance(result.get("content"), list):
        return False
    wanted = {"type": "text", "text": _placeholder(int(hit[1]))}
    if wanted not in result["content"]:
        return False
    result["content"][result["content"].index(wanted)] = item
    return True
