"""Messages and blocks by themselves: roles, content, kinds, keys (A01 to A04, A08, A13, A19, A20, A32)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import orjson

from ullage._engine import core
from ullage.exceptions import InvalidMessage
from ullage.repair.draft import ASSISTANT, SYSTEM, USER, Draft, Slot, kind_of, text_block
from ullage.repair.keys import MESSAGE_KEYS, NESTED_KINDS, known_keys
from ullage.repair.texts import DOCUMENT, IMAGE, NO_MESSAGES, left_out

__all__ = ["dumps", "no_messages", "plain", "repair_blocks", "repair_items", "split_results"]

MAX_DEPTH = 100
TOOL = "tool"
_ROLES = {
    "human": USER,
    "tool": USER,
    "function": USER,
    "model": ASSISTANT,
    "ai": ASSISTANT,
    "bot": ASSISTANT,
    "developer": SYSTEM,
}
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
_DROPPED = ("thinking", "redacted_thinking", "fallback", "tool_addition", "tool_removal")
# Types that other APIs have for what Anthropic has too: refused by name.
_FOREIGN = ("input_text", "output_text", "image_url", "input_image", "file", "input_file")
_THOUGHTS = ("thinking", "redacted_thinking")


# ---- items -----------------------------------------------------------------------------------


def repair_items(draft: Draft) -> None:
    """Makes every item a message that can be read at all, or drops it (A01)."""
    draft.slots = [slot for old in draft.slots if (slot := _readable(draft, old)) is not None]


def no_messages(draft: Draft) -> None:
    """A request needs one message."""
    if not any(draft.speaking()):
        draft.slots.append(Slot.added(USER, [text_block(NO_MESSAGES)], -1))
        draft.note("A01", None, "added a message that says there is none")


def _readable(draft: Draft, slot: Slot) -> Slot | None:
    item = slot.build()
    if isinstance(item, str) and item.strip():
        draft.note("A01", slot, "made a string a user message")
        return _new(USER, item, slot)
    if not isinstance(item, Mapping) or (not slot.role and _says_nothing(item)):
        draft.note("A01", slot, "dropped what is no message")
        return None
    if not slot.role and not _is_envelope(item):
        draft.note("A01", slot, "made it a user message: it has no role")
        slot = _new(USER, item.get("content"), slot)
    if slot.role in (TOOL, ASSISTANT, USER) and (
        "tool_call_id" in slot.message or "tool_calls" in slot.message
    ):
        slot = _from_chat(draft, slot)
    if slot.role and slot.role not in (USER, ASSISTANT, SYSTEM):
        role = _ROLES.get(slot.role, USER)
        draft.note("A01", slot, f"read the role as {role}")
        slot.edit({**slot.message, "role": role})
    return _plain_slot(draft, slot)


def _from_chat(draft: Draft, slot: Slot) -> Slot:
    """A message with the chat form's calls or results, in blocks."""
    draft.note("A01", slot, "put calls of the chat form into blocks")
    keys = ("tool_calls", "tool_call_id")
    rest = {key: value for key, value in slot.message.items() if key not in keys}
    if slot.role == TOOL:
        name = slot.message.get("tool_call_id")
        content = slot.message.get("content")
        result = {"type": "tool_result", "tool_use_id": name, "content": content}
        return _new(USER, [result], slot)
    calls = slot.message.get("tool_calls")
    listed = calls if isinstance(calls, list | tuple) and slot.role == ASSISTANT else ()
    blocks = [*slot.blocks, *(_chat_call(call) for call in listed if isinstance(call, Mapping))]
    slot.edit(rest)
    slot.blocks = blocks
    return slot


def _chat_call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call.get("function")
    body = function if isinstance(function, Mapping) else call
    given = body.get("arguments", body.get("input"))
    return {"type": "tool_use", "id": call.get("id"), "name": str(body.get("name")), "input": given}


def _new(role: str, content: Any, like: Slot) -> Slot:
    slot = Slot(None, like.origin, {"role": role, "content": content})
    slot.changed = True
    return slot


def _is_envelope(item: Mapping[str, Any]) -> bool:
    return isinstance(item.get("type"), str) and item["type"] not in (USER, ASSISTANT)


def _says_nothing(item: Mapping[str, Any]) -> bool:
    return not _is_envelope(item) and not item.get("content")


def _plain_slot(draft: Draft, slot: Slot) -> Slot:
    """Replaces what JSON cannot hold."""
    item = slot.build()
    try:
        core.Ledger(None, [item])
    except InvalidMessage as exc:
        draft.note("A01", slot, f"replaced what cannot be sent: {exc.reason}")
        made = Slot(plain(item), slot.origin)
        made.changed = True
        return made
    return slot


def plain(value: Any, depth: int = 0) -> Any:
    """A value without what JSON cannot hold."""
    if depth > MAX_DEPTH:
        return left_out("too deep")
    if isinstance(value, Mapping):
        return {str(key): plain(each, depth + 1) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each, depth + 1) for each in value]
    if value is None or isinstance(value, str | float | bool):
        return value
    if isinstance(value, int):
        return value if abs(value) < 1 << 64 else left_out("number")
    return left_out(type(value).__name__)


# ---- blocks ----------------------------------------------------------------------------------


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
    draft.note("A03", slot, "made a text block of what is no block", block=index)
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
    if known_keys(kind) is None:
        return True  # unknown kinds pass through
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
    if kind == "text" and not _text_of(block).strip():
        _keep_marker(block, before)
        draft.note("A02", slot, "dropped a blank text block", block=index)
        return []
    if kind in _THOUGHTS and not _sealed(block):
        draft.note("A13", slot, f"dropped a {kind} block without signature or data", block=index)
        return []
    for rule, action, change in _changes(slot.role, kind, strict_version):
        changed = change(block)
        if changed is not block:
            draft.note(rule, slot, action, block=index)
            block = changed
    return [block]


def _sealed(block: Mapping[str, Any]) -> bool:
    key = "signature" if kind_of(block) == "thinking" else "data"
    return isinstance(block.get(key), str) and bool(block[key])


def _text_of(block: Mapping[str, Any]) -> str:
    text = block.get("text")
    return text if isinstance(text, str) else "" if text is None else dumps(text)


def _keep_marker(block: Mapping[str, Any], before: list[Any]) -> None:
    """A marker on a dropped block goes to the block before it."""
    marker = block.get("cache_control")
    if marker and before and kind_of(before[-1]) not in _THOUGHTS:
        before[-1] = {"cache_control": marker, **before[-1]}


_Change = Callable[[Mapping[str, Any]], Mapping[str, Any]]


def _changes(role: str, kind: str, strict_version: bool) -> Iterator[tuple[str, str, _Change]]:
    yield "A32", "removed a cache edit or an unknown cache_control", _cache_control
    if known_keys(kind) is not None:
        yield "A04", f"removed keys that a {kind} block does not have", _known_keys
    if kind in _THOUGHTS:
        yield "A19", "took the cache marker off thinking", _unmarked
    if kind == "text":
        yield "A02", "made the text a string", _text
    if kind == "tool_use":
        yield "A08", "made the input an object", _input
    if kind == "tool_result":
        yield "A03", "made the content of the result what it may be", _result
    if role == USER and strict_version:
        yield "A20", "removed citations", _uncited


def _without(block: Mapping[str, Any], *keys: str) -> Mapping[str, Any]:
    if not any(key in block for key in keys):
        return block
    return {key: value for key, value in block.items() if key not in keys}


def _cache_control(block: Mapping[str, Any]) -> Mapping[str, Any]:
    block = _without(block, "cache_reference")
    marker = block.get("cache_control")
    if marker is None or _known_marker(marker):
        return block
    if isinstance(marker, Mapping) and marker.get("type") == "ephemeral":
        kept = {"type": "ephemeral"} | ({"ttl": "1h"} if marker.get("ttl") == "1h" else {})
        return {**block, "cache_control": kept}
    return _without(block, "cache_control")


def _known_marker(marker: Any) -> bool:
    if not isinstance(marker, Mapping) or marker.get("type") != "ephemeral":
        return False
    return set(marker) <= {"type", "ttl"} and marker.get("ttl", "5m") in ("5m", "1h")


def _known_keys(block: Mapping[str, Any]) -> Mapping[str, Any]:
    known = known_keys(kind_of(block))
    return block if known is None else _without(block, *(key for key in block if key not in known))


def _unmarked(block: Mapping[str, Any]) -> Mapping[str, Any]:
    return _without(block, "cache_control")


def _text(block: Mapping[str, Any]) -> Mapping[str, Any]:
    return block if isinstance(block.get("text"), str) else {**block, "text": _text_of(block)}


def _input(block: Mapping[str, Any]) -> Mapping[str, Any]:
    given = block.get("input")
    if isinstance(given, Mapping):
        return block
    if isinstance(given, str):
        try:
            given = orjson.loads(given)
        except orjson.JSONDecodeError:
            pass
    if given is None or isinstance(given, Mapping):
        return {**block, "input": given or {}}
    return {**block, "input": {"value": given}}


def _result(block: Mapping[str, Any]) -> Mapping[str, Any]:
    content = block.get("content")
    if content is None or isinstance(content, str):
        return block
    if not isinstance(content, list | tuple):
        return {**block, "content": dumps(content)}
    nested = [_nested(part) for part in content]
    same = all(a is b for a, b in zip(nested, content, strict=True))
    return block if same else {**block, "content": nested}


def _nested(part: Any) -> Any:
    kind = kind_of(part)
    if kind in NESTED_KINDS:
        known = _cache_control(part)
        return _known_keys(known)
    if isinstance(part, Mapping) and isinstance(part.get("text"), str):
        return text_block(part["text"])
    return text_block(part if isinstance(part, str) else dumps(part))


def _uncited(block: Mapping[str, Any]) -> Mapping[str, Any]:
    if kind_of(block) == "text" and block.get("citations"):
        return _without(block, "citations")
    content = block.get("content")
    if not isinstance(content, list | tuple) or kind_of(block) not in (
        "search_result",
        "tool_result",
    ):
        return block
    nested = [_uncited(part) if isinstance(part, Mapping) else part for part in content]
    same = all(a is b for a, b in zip(nested, content, strict=True))
    return block if same else {**block, "content": nested}


def split_results(draft: Draft) -> None:
    """Puts tool results that stand in an assistant message into a user message behind it (A03)."""
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


def dumps(value: Any) -> str:
    """Compact JSON of anything."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=repr)
