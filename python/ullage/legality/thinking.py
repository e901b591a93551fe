"""Thinking: as it came in the open turn, one valid run on bound models (A13 to A16)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any

from ullage.legality.blocks import RECEIVED, TURN_CLOSED
from ullage.legality.draft import ASSISTANT, USER, Draft, Slot, text_block
from ullage.legality.originals import Originals, Place, current_turn, prefixes, thought_key
from ullage.legality.params import BINDING_HEADER
from ullage.messages import Item


def repair_binding(draft: Draft, originals: Originals, *, system: Any, tools: Any) -> None:
    """Keeps the newest unbroken run of thinking that still is valid, and drops the rest (A15, A16)."""
    keep: set[Place] = set()
    expected: int | None = None
    for place, key, digest in reversed(list(prefixes(system, tools, draft.build()))):
        valid = digest in originals.bound.get(key, ())
        if keep and (not valid or originals.order[key] != expected):
            break
        if valid:
            keep.add(place)
            expected = originals.order[key] - 1
    for index, slot in enumerate(draft.slots):
        dropped = [
            position
            for position, block in enumerate(slot.blocks)
            if thought_key(block) is not None and Place(index, position) not in keep
        ]
        if dropped:
            draft.note("A15", slot, "dropped thinking that is bound to another prefix")
            slot.blocks = [b for position, b in enumerate(slot.blocks) if position not in dropped]
    draft.drop_empty("A15", "dropped a message that held only thinking")


def restore_turn(draft: Draft, originals: Originals) -> bool:
    """Puts the current turn's thinking back as it came; False if that cannot be done (A13)."""
    start, done = current_turn(draft.build()), False
    for slot in draft.speaking():
        blocks = [originals.blocks.get(thought_key(block) or "", block) for block in slot.blocks]
        if blocks != slot.blocks:
            draft.note("A13", slot, "put altered thinking back as it came")
            slot.blocks, done = blocks, True
    spoken = (slot for slot in draft.slots[start:] if slot.role)
    for role, run in groupby(spoken, lambda slot: slot.role):
        slots = list(run)
        blocks = [block for slot in slots for block in slot.blocks]
        steps = sorted({step for block in blocks if (step := originals.step(block)) is not None})
        came = [block for step in steps for block in originals.layout[step]]
        if role != ASSISTANT or not steps or blocks == came or _spoken(blocks) != _spoken(came):
            continue
        draft.note("A13", slots[0], "put thinking of the open turn back as it came")
        done = True
        # Each message takes what it held, with the thinking that came before and after it.
        for slot in slots[:-1]:
            count = len(_spoken(slot.blocks))
            part: list[Any] = []
            while came and (count or thought_key(came[0]) is not None):
                count -= thought_key(came[0]) is None
                part.append(came.pop(0))
            slot.blocks = part
        slots[-1].blocks = came
    return done


def _is_spoken(block: Any) -> bool:
    return thought_key(block) is None


def _spoken(blocks: Iterable[Any]) -> list[Any]:
    """All but the thinking."""
    return list(filter(_is_spoken, blocks))


def close_turn(draft: Draft) -> None:
    """Ends the open turn with text, so that its thinking may be left out (A13, A14)."""
    start = current_turn(draft.build())
    draft.keep("A13", "dropped thinking of the open turn", _is_spoken, draft.slots[start:])
    draft.drop_empty("A13", "dropped a message that held only thinking")
    last = _last(draft)
    if last is not None and start < len(draft.slots):
        draft.note("A13", last, "ended the open turn with lines of text")
        if last.role == USER:
            draft.slots.append(Slot.added(ASSISTANT, [text_block(RECEIVED)], last.origin))
        draft.slots.append(Slot.added(USER, [text_block(TURN_CLOSED)], last.origin))


def _last(draft: Draft) -> Slot | None:
    return next((slot for slot in reversed(draft.slots) if slot.role in (USER, ASSISTANT)), None)


def unbound(messages: Iterable[Item], *, close: bool = True) -> list[Item]:
    """Messages without their thinking, for use after a prefix that it was not generated for.

    Args:
        messages: The kept end of a conversation; messages without thinking are the same objects.
        close: End a turn that is still open and lost thinking with lines of text (1.34: the open turn's
            thinking may not be missing). Not where results of its calls are still to come.
    """
    items = list(messages)
    draft = Draft(items)
    start = current_turn(items)
    drop_thinking(draft)
    lost = any(one.message >= start for one in draft.repairs)
    last = _last(draft)
    if close and lost and last is not None and last.role == USER:
        draft.slots.append(Slot.added(ASSISTANT, [text_block(RECEIVED)], last.origin))
        draft.slots.append(Slot.added(USER, [text_block(TURN_CLOSED)], last.origin))
    return draft.build()


def turn_end() -> tuple[dict[str, Any], dict[str, Any]]:
    """Two messages that end a turn whose results have come, so that its thinking may be missing (1.35)."""
    # In the host's element, so that it is not mistaken for the user's words.
    words = f"<system-reminder>{TURN_CLOSED}</system-reminder>"
    return {"role": "assistant", "content": RECEIVED}, {"role": "user", "content": words}


def drop_thinking(draft: Draft) -> None:
    """Drops all thinking: what the documentation asks for after the error of a foreign binding."""
    draft.keep("A15", "dropped thinking that the provider refused", _is_spoken)
    if draft.repairs:
        draft.drop_empty("A15", "dropped a message that held only thinking")


def binding_params(params: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters that ask the server to drop mismatched thinking itself."""
    thinking = params.get("thinking")
    base = dict(thinking) if isinstance(thinking, Mapping) else {}
    base["block_binding"] = {"prefix_mismatch_behavior": "drop_block"}
    betas = [*(params.get("betas") or ())]
    missing = [] if BINDING_HEADER in betas else [BINDING_HEADER]
    return {"thinking": base, "betas": [*betas, *missing]}
