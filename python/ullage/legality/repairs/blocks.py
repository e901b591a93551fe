"""Blocks by themselves: which a message may hold, and what stands in place of others (A02 to A04, A08, A13, A19, A20, A32)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ullage.legality.repairs.block_forms import changes, dumps, text_of
from ullage.legality.repairs.known_keys import MESSAGE_KEYS, known_keys
from ullage.legality.repairs.texts import DOCUMENT, IMAGE, left_out
from ullage.legality.repairs.working_copy import (
    ASSISTANT,
    SYSTEM,
    USER,
    Draft,
    Slot,
    kind_of,
    text_block,
)
from ullage.messages import THINKING

__all__ = ["repair_blocks", "split_results"]

_USER_KINDS = ("text", "image", "document", "search_result", "tool_result", "container_upload")
_ASSISTANT_KINDS = (
    "text",
    "tool_use",
    "tool_result",  # moved where it belongs by the repair of pairs
    "thinking",
    "redacted_thinking",
    "server_tool_use",
    "mcp_tool_use",
    "compaction",
    "fallback",
)
_SYSTEM_KINDS = ("text", "tool_addition", "tool_removal")
_PLACEHOLDERS = {"image": IMAGE, "document": DOCUMENT}
# Of no use to a model in another place, and refused there.
_DROPPED = (*THINKING, "fallback", "tool_addition", "tool_removal", "foreign")
# Kinds that no rule names but that the API has.
_PASSIVE = ("mcp_tool_listing", "connector_text")
# Types that other APIs have for what Anthropic has too: refused by name.
_FOREIGN = ("input_text", "output_text", "image_url", "input_image", "file", "input_file")


def repair_blocks(draft: Draft, *, strict_version: bool) -> None:
    """Makes every block one that its message may hold, in a form that the API takes.

    Args:
        draft: Changed.
        strict_version: The API version refuses documents of the assistant and citations of the user.
    """
    for slot in draft.speaking():
        _content(draft, slot)
        _keys(draft, slot)
        blocks: list[Any] = []
        for index, block in enumerate(slot.blocks):
            blocks.extend(_fixed(draft, slot, index, block, blocks, strict_version))
        slot.blocks = blocks
    draft.drop_empty("A02")


def _content(draft: Draft, slot: Slot) -> None:
    content = slot.message.get("content")
    if isinstance(content, Mapping):
        draft.note("A02", slot, "put the content block into a list")
        slot.edit({**slot.message, "content": None})  # once: a later round must not see it again
        slot.blocks = [content]
    elif content is not None and not isinstance(content, str | list | tuple) and not slot.blocks:
        draft.note("A02", slot, "made the content text")
        slot.blocks = [text_block(dumps(content))]


def _keys(draft: Draft, slot: Slot) -> None:
    foreign = [key for key in slot.message if key not in MESSAGE_KEYS]
    # In an envelope the message is a response as it came; senders take what they need.
    if foreign and (slot.item is None or "message" not in slot.item or "role" in slot.item):
        draft.note("A04", slot, f"removed keys: {', '.join(map(str, foreign))}")
        slot.edit({key: slot.message[key] for key in slot.message if key in MESSAGE_KEYS})


def _fixed(
    draft: Draft, slot: Slot, index: int, block: Any, before: list[Any], strict_version: bool
) -> list[Any]:
    block = _as_block(draft, slot, index, block)
    if kind_of(block) == "cache_edits":
        draft.note("A32", slot, "dropped a cache edit", block=index)
        return []
    placed = _placed(draft, slot, index, block, strict_version)
    return [] if placed is None else _formed(draft, slot, index, placed, before, strict_version)


def _as_block(draft: Draft, slot: Slot, index: int, block: Any) -> Mapping[str, Any]:
    if kind_of(block) in _FOREIGN and isinstance(block.get("text"), str):
        draft.note("A03", slot, "made a text block of another API's", block=index)
        return text_block(block["text"])
    if kind_of(block) in _FOREIGN:
        draft.note("A03", slot, "replaced a block of another API by text", block=index)
        return text_block(left_out(kind_of(block)))
    if kind_of(block):
        return block  # type: ignore[no-any-return]
    draft.note("A03", slot, "turned a value that is not a block into a text block", block=index)
    if isinstance(block, Mapping) and isinstance(block.get("text"), str):
        return text_block(block["text"])
    return text_block(block if isinstance(block, str) else dumps(block))


def _placed(
    draft: Draft, slot: Slot, index: int, block: Mapping[str, Any], strict_version: bool
) -> Mapping[str, Any] | None:
    """The block, or what may stand in its place; `None`: nothing."""
    kind = kind_of(block)
    if _allowed(slot.role, kind, strict_version):
        return block
    rule = "A20" if slot.role == ASSISTANT and kind == "document" else "A03"
    if kind in _DROPPED:
        draft.note(rule, slot, f"dropped a {kind} block of the {slot.role}", block=index)
        return None
    draft.note(rule, slot, f"replaced a {kind} block of the {slot.role} by text", block=index)
    return text_block(_told(block, kind))


def _allowed(role: str, kind: str, strict_version: bool) -> bool:
    if known_keys(kind) is None:  # what a model has said may be newer than we are: it passes
        return kind in _PASSIVE or (role == ASSISTANT and kind != "foreign")
    if role == USER:
        return kind in _USER_KINDS
    if role == SYSTEM:
        return kind in _SYSTEM_KINDS
    if kind == "document":
        return not strict_version
    return kind in _ASSISTANT_KINDS or kind.endswith("_tool_result")


def _told(block: Mapping[str, Any], kind: str) -> str:
    if kind in _PLACEHOLDERS:
        return _PLACEHOLDERS[kind]
    if kind == "compaction" and isinstance(block.get("content"), str):
        return str(block["content"]) or left_out(kind)
    if kind in ("tool_use", "tool_result", "search_result"):
        body = {key: block[key] for key in ("name", "input", "content", "title") if key in block}
        return f"[{kind}] {dumps(body)}"
    if known_keys(kind) is None:
        return f"[{kind}] {dumps({key: block[key] for key in block if key != 'type'})}"
    return left_out(kind)


def _formed(
    draft: Draft,
    slot: Slot,
    index: int,
    block: Mapping[str, Any],
    before: list[Any],
    strict_version: bool,
) -> list[Any]:
    """The block with everything in the form that the API takes; no block if nothing is left."""
    kind = kind_of(block)
    if kind == "text" and not text_of(block).strip():
        _keep_marker(block, before)
        draft.note("A02", slot, "dropped a blank text block", block=index)
        return []
    if kind in THINKING and not _sealed(block):
        draft.note("A13", slot, f"dropped a {kind} block without signature or data", block=index)
        return []
    for rule, action, change in changes(slot.role, kind, strict_version):
        changed = change(block)
        if changed is not block:
            draft.note(rule, slot, action, block=index)
            block = changed
    return [block]


def _sealed(block: Mapping[str, Any]) -> bool:
    key = "signature" if kind_of(block) == "thinking" else "data"
    return isinstance(block.get(key), str) and bool(block[key])


def _keep_marker(block: Mapping[str, Any], before: list[Any]) -> None:
    """A marker on a dropped block goes to the block before it."""
    marker = block.get("cache_control")
    if marker and before and kind_of(before[-1]) not in THINKING:
        before[-1] = {"cache_control": marker, **before[-1]}


def split_results(draft: Draft) -> None:
    """Move tool results in an assistant message into a user message after it (A03)."""
    slots: list[Slot] = []
    for slot in draft.slots:
        kinds = [kind_of(block) for block in slot.blocks]
        if slot.role != ASSISTANT or "tool_result" not in kinds:
            slots.append(slot)
            continue
        draft.note("A03", slot, "moved tool results out of an assistant message")
        slots.extend(_split(slot))
    draft.slots = slots


def _split(slot: Slot) -> Iterator[Slot]:
    part: list[Any] = []
    first = True
    for block in [*slot.blocks, None]:
        result = kind_of(block) == "tool_result"
        if part and (block is None or (kind_of(part[-1]) == "tool_result") != result):
            role = USER if kind_of(part[-1]) == "tool_result" else ASSISTANT
            if first and role == ASSISTANT:
                slot.blocks = part
                yield slot
            else:
                yield Slot.added(role, part, slot.origin)
            first, part = False, []
        part.append(block)
