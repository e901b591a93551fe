"""A message as it is shown: what was decided of its results, calls and thinking laid over it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ullage.levels.report import Decision
from ullage.messages import THINKING, Item, as_blocks, message_of

__all__ = ["laid_over"]


def laid_over(
    item: Item,
    *,
    decisions: Mapping[str, Decision],
    texts: Sequence[str],
    emptied: Collection[str],
    thinking: bool,
) -> Item:
    """The message or entry as it is shown; the same object where nothing concerns it.

    Args:
        item: As it was added.
        decisions: What stands in place of results, by tool use id.
        texts: Texts to add after it.
        emptied: Tool uses whose input is shown empty.
        thinking: Whether its thinking is shown.
    """
    if thinking and not (decisions or texts or emptied):
        return item
    message = message_of(item)
    content = None if message is None else message.get("content")
    blocks: Any = content
    if isinstance(content, list):
        blocks = [_block(block, decisions, emptied) for block in content]
        if all(new is old for new, old in zip(blocks, content, strict=True)):
            blocks = content
        if not thinking:
            blocks = _without_thinking(blocks)
    for text in texts:
        blocks = _with_text(blocks, text)
    if blocks is content or message is None:
        return item
    changed = {**message, "content": blocks}
    return changed if message is item else {**item, "message": changed}


def _block(block: Any, decisions: Mapping[str, Decision], emptied: Collection[str]) -> Any:
    kind = block.get("type") if isinstance(block, Mapping) else None
    if kind == "tool_use" and str(block.get("id")) in emptied and block.get("input"):
        return {**block, "input": {}}
    if kind != "tool_result":
        return block
    decision = decisions.get(str(block.get("tool_use_id")))
    return block if decision is None else {**block, "content": decision.text}


def _without_thinking(blocks: list[Any]) -> list[Any]:
    """The same list where there is none, or nothing else."""
    rest = [
        block
        for block in blocks
        if not (isinstance(block, Mapping) and block.get("type") in THINKING)
    ]
    return rest if rest and len(rest) < len(blocks) else blocks


def _with_text(content: Any, text: str) -> list[Any]:
    return [*as_blocks(content), {"type": "text", "text": text}]
