"""System messages at their place, and the last word (A11, A12)."""

from __future__ import annotations

from typing import Any

from ullage.legality.repairs.texts import NO_REPLY, SYSTEM_HEAD
from ullage.legality.repairs.working_copy import (
    ASSISTANT,
    SYSTEM,
    USER,
    Draft,
    Slot,
    kind_of,
    text_block,
)

__all__ = ["repair_last_word", "repair_system"]


def repair_system(draft: Draft, *, mid_system_ok: bool) -> None:
    """Move system messages after the next user turn, or turn them into user messages.

    Args:
        draft: Changed.
        mid_system_ok: The model takes system messages inside the conversation.
    """
    _drop_hollow(draft)
    if mid_system_ok:
        _move(draft)
        return
    for slot in draft.speaking():
        if _is_system(slot):
            _to_user(draft, slot)


def _effort_only(slot: Slot) -> bool:
    return not slot.blocks and slot.message.get("output_config") is not None


def _is_system(slot: Slot) -> bool:
    return slot.role == SYSTEM and not _effort_only(slot)


def _drop_hollow(draft: Draft) -> None:
    for slot in list(draft.speaking()):
        if _is_system(slot) and not slot.blocks:
            draft.note("A12", slot, "dropped an empty system message")
            draft.slots.remove(slot)


def _to_user(draft: Draft, slot: Slot) -> None:
    texts = [str(block.get("text", "")) for block in slot.blocks if kind_of(block) == "text"]
    draft.note("A12", slot, "made a user message of a system message")
    keys = ("output_config", "clear_at")
    kept = {key: value for key, value in slot.message.items() if key not in keys}
    slot.edit({**kept, "role": USER})
    slot.blocks = [text_block(SYSTEM_HEAD + "\n".join(texts))]


def _move(draft: Draft) -> None:
    """One pass: misplaced ones wait until a user turn has ended."""
    placed: list[Slot] = []
    waiting: list[Slot] = []
    slots = draft.slots
    for at, slot in enumerate(slots):
        if _is_system(slot):
            if _follows_well(placed) and _next_role(slots, at) != USER:
                placed.append(slot)
            else:
                waiting.append(slot)
            continue
        if slot.role == ASSISTANT and waiting and _last_role(placed) == USER:
            placed += _settled(draft, waiting)
            waiting = []
        placed.append(slot)
    if waiting:
        legal = _last_role(placed) == USER
        placed += (
            _settled(draft, waiting) if legal else [_user_now(draft, slot) for slot in waiting]
        )
    draft.slots = placed


def _settled(draft: Draft, waiting: list[Slot]) -> list[Slot]:
    for slot in waiting:
        draft.note("A12", slot, "moved a system message after the next user turn")
    return list(waiting)


def _user_now(draft: Draft, slot: Slot) -> Slot:
    _to_user(draft, slot)
    return slot


def _follows_well(placed: list[Slot]) -> bool:
    before = next((slot for slot in reversed(placed) if slot.role and not _effort_only(slot)), None)
    if before is None:
        return False
    if before.role == ASSISTANT:
        last: Any = before.blocks[-1] if before.blocks else None
        return kind_of(last).endswith("_tool_result")
    return True


def _last_role(placed: list[Slot]) -> str:
    spoken = (slot.role for slot in reversed(placed) if slot.role in (USER, ASSISTANT))
    return next(spoken, "")


def _next_role(slots: list[Slot], at: int) -> str:
    spoken = (slot.role for slot in slots[at + 1 :] if slot.role and not _is_system(slot))
    return next((role for role in spoken if role != SYSTEM), "")


def repair_last_word(draft: Draft, *, prefill_ok: bool, policy: str) -> None:
    """Ends the request with a user message, or the prefill without white space.

    Args:
        draft: Changed.
        prefill_ok: The model continues an assistant message.
        policy: `note`: a line that nobody has replied; `drop`: the assistant's last turn goes.
    """
    speaking = [slot for slot in draft.speaking() if not _effort_only(slot)]
    if not speaking or speaking[-1].role != ASSISTANT:
        return
    last = speaking[-1]
    if prefill_ok:
        _strip(draft, last)
    elif policy == "drop" and any(slot.role == USER for slot in speaking):
        while speaking and speaking[-1].role == ASSISTANT:
            draft.note("A11", speaking[-1], "dropped an assistant message at the end")
            draft.slots.remove(speaking.pop())
    else:
        draft.note("A11", last, "added a line after the last assistant message")
        draft.slots.append(Slot.added(USER, [text_block(NO_REPLY)], last.origin))


def _strip(draft: Draft, slot: Slot) -> None:
    last: Any = slot.blocks[-1] if slot.blocks else None
    if kind_of(last) != "text" or not isinstance(last["text"], str):
        return
    text = last["text"].rstrip()
    draft.note("A11", slot, "took white space off the end of the prefill")
    slot.blocks = [*slot.blocks[:-1], *([{**last, "text": text}] if text else [])]
    draft.drop_empty("A11")
