"""Items that must become messages before anything else is looked at (A01)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ullage._engine import core
from ullage.exceptions import InvalidMessage
from ullage.legality.repairs.texts import NO_MESSAGES, left_out
from ullage.legality.repairs.working_copy import ASSISTANT, SYSTEM, USER, Draft, Slot, text_block

__all__ = ["no_messages", "plain", "repair_items"]

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
        draft.note("A01", slot, "dropped an item that is not a message")
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
