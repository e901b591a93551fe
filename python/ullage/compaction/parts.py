"""Splits a history that is too long for its summarizer into parts that fit, one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from ullage._engine import core
from ullage.counting.estimate import Weights
from ullage.messages import Item
from ullage.summarizers.budgeted_text import shorten

__all__ = ["MOST_PARTS", "split_in_parts"]


MOST_PARTS = 12
"""Calls for one compaction; if a history needs more, its oldest rounds are covered only by the facts."""

LONG_TEXT_TOKENS = 500
"""Characters of each text that stay in a round that does not fit by itself."""


def split_in_parts(
    messages: Sequence[Item], room_tokens: int, weights: Weights | None = None
) -> list[list[Item]]:
    """Whole rounds, as many in each part as fit.

    Args:
        messages: Oldest first.
        room_tokens: What one call can take.
        weights: For the estimate; `None`: rough.

    Returns:
        Parts in order, at most `MOST_PARTS`; one if all fits. A round that is too long by itself is a
        part of its own, with its texts shortened.
    """
    listed = list(messages)
    ledger = core.Ledger(weights, listed)
    if int(ledger.tokens()) <= room_tokens:
        return [listed]
    starts = [*sorted({0, *(int(at) for at in ledger.rounds())}), len(listed)]
    parts: list[list[Item]] = []
    room = 0
    for first, last in pairwise(starts):
        size = int(ledger.tokens(first, last))
        round_ = listed[first:last]
        if size > room_tokens:
            round_ = [_shortened(message) for message in round_]
            size = int(core.Ledger(weights, round_).tokens())
        if not parts or size > room:
            parts.append([])
            room = room_tokens
        parts[-1].extend(round_)
        room -= size
    return parts[-MOST_PARTS:]


def _shortened(message: Item) -> Item:
    content = message.get("content")
    if isinstance(content, str):
        return {**message, "content": shorten(content, LONG_TEXT_TOKENS)}
    if not isinstance(content, list):
        return message
    return {**message, "content": [_block(block) for block in content]}


def _block(block: Any) -> Any:
    if not isinstance(block, Mapping):
        return block
    if block.get("type") == "text" and isinstance(block.get("text"), str):
        return {**block, "text": shorten(block["text"], LONG_TEXT_TOKENS)}
    inner = block.get("content")
    if block.get("type") != "tool_result":
        return block
    if isinstance(inner, str):
        return {**block, "content": shorten(inner, LONG_TEXT_TOKENS)}
    return (
        {**block, "content": [_block(part) for part in inner]} if isinstance(inner, list) else block
    )
