"""Thinking: as it came in the open turn, one valid run on bound models (A13 to A16)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ullage.legality.blocks import RECEIVED, TURN_CLOSED
from ullage.legality.draft import ASSISTANT, USER, Draft, Slot, text_block
from ullage.legality.originals import Originals, Place, current_turn, prefixes, thought_key
from ullage.messages import Item


def repair_binding(draft: Draft, originals: Originals, *, system: Any, tools: Any) -> None:
    """Keeps the newest unbroken run of thinking that still is valid, and drops the rest (A15, A16).

    Args:
        draft: Changed.
        originals: What the model made, and after what.
        system: The request's system prompt.
        tools: The request's tools.
    """
    items = draft.build()
    keep = _newest_run(list(prefixes(system, tools, items)), originals)
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


def _newest_run(thoughts: Sequence[tuple[Place, str, bytes]], originals: Originals) -> set[Place]:
    keep: set[Place] = set()
    expected: int | None = None
    for place, key, digest in reversed(thoughts):
        valid = digest in originals.bound.get(key, ())
        if keep and (not valid or originals.order[key] != expected):
            break
        if valid:
            keep.add(place)
            expected = originals.order[key] - 1
    return keep


def restore_turn(draft: Draft, originals: Originals) -> bool:
    """Puts the current turn's thinking back as it came; False if that cannot be done (A13)."""
    items = draft.build()
    start = current_turn(items)
    done = _restore_blocks(draft, originals)
    for run in _runs(draft.slots[start:]):
        original_blocks = _original_blocks(run, originals)
        if original_blocks is None:
            continue
        have = [block for slot in run for block in slot.blocks]
        if have == original_blocks or [b for b in have if thought_key(b) is None] != [
            b for b in original_blocks if thought_key(b) is None
        ]:
            continue
        draft.note("A13", run[0], "put thinking of the open turn back as it came")
        _spread(run, original_blocks)
        done = True
    return done


def _restore_blocks(draft: Draft, originals: Originals) -> bool:
    done = False
    for slot in draft.speaking():
        blocks = [originals.blocks.get(thought_key(block) or "", block) for block in slot.blocks]
        if blocks != slot.blocks:
            draft.note("A13", slot, "put altered thinking back as it came")
            slot.blocks, done = blocks, True
    return done


def _runs(slots: Sequence[Slot]) -> list[list[Slot]]:
    runs: list[list[Slot]] = []
    previous = ""
    for slot in slots:
        if slot.role == ASSISTANT:
            if previous != ASSISTANT:
                runs.append([])
            runs[-1].append(slot)
        previous = slot.role or previous
    return runs


def _original_blocks(run: Sequence[Slot], originals: Originals) -> list[Any] | None:
    blocks = [block for slot in run for block in slot.blocks]
    steps = sorted({step for block in blocks if (step := originals.step(block)) is not None})
    return [block for step in steps for block in originals.layout[step]] if steps else None


def _spread(run: Sequence[Slot], original_blocks: Sequence[Any]) -> None:
    """Gives the whole sequence back to the messages that hold its parts."""
    unplaced = list(original_blocks)
    for slot in run[:-1]:
        count = sum(thought_key(block) is None for block in slot.blocks)
        part: list[Any] = []
        while unplaced and (count or thought_key(unplaced[0]) is not None):
            count -= thought_key(unplaced[0]) is None
            part.append(unplaced.pop(0))
        slot.blocks = part
    run[-1].blocks = unplaced


def close_turn(draft: Draft) -> None:
    """Ends the open turn with text, so that its thinking may be left out (A13, A14)."""
    start = current_turn(draft.build())
    for slot in draft.slots[start:]:
        remaining = [block for block in slot.blocks if thought_key(block) is None]
        if len(remaining) != len(slot.blocks):
            draft.note("A13", slot, "dropped thinking of the open turn")
            slot.blocks = remaining
    draft.drop_empty("A13", "dropped a message that held only thinking")
    spoken = (slot for slot in reversed(draft.slots) if slot.role in (USER, ASSISTANT))
    last = next(spoken, None)
    if last is None or start >= len(draft.slots):
        return
    draft.note("A13", last, "ended the open turn with lines of text")
    if last.role == USER:
        draft.slots.append(Slot.added(ASSISTANT, [text_block(RECEIVED)], last.origin))
    draft.slots.append(Slot.added(USER, [text_block(TURN_CLOSED)], last.origin))


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
    last = next((slot for slot in reversed(draft.slots) if slot.role in (USER, ASSISTANT)), None)
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
    for slot in draft.speaking():
        spoken = [block for block in slot.blocks if thought_key(block) is None]
        if len(spoken) != len(slot.blocks):
            draft.note("A15", slot, "dropped thinking that the provider refused")
            slot.blocks = spoken
    if draft.repairs:
        draft.drop_empty("A15", "dropped a message that held only thinking")


def binding_params(params: Mapping[str, Any], header: str) -> dict[str, Any]:
    """Parameters that ask the server to drop mismatched thinking itself."""
    thinking = params.get("thinking")
    base = dict(thinking) if isinstance(thinking, Mapping) else {}
    base["block_binding"] = {"prefix_mismatch_behavior": "drop_block"}
    betas = [*(params.get("betas") or ())]
    return {"thinking": base, "betas": betas if header in betas else [*betas, header]}
