"""Where a conversation can be cut without tearing anything apart: what turns, collapses and folds begin and end at."""

from __future__ import annotations

from typing import Any

from ullage.digests import BlockKind, MessageFlag, Role

__all__ = ["is_turn_start", "newest_input", "turn_starts", "whole_cuts"]

_CALLS = (BlockKind.TOOL_USE, BlockKind.SERVER_TOOL_USE)
_RESULTS = (BlockKind.TOOL_RESULT, BlockKind.SERVER_TOOL_RESULT)


def whole_cuts(ledger: Any, stop: int | None = None) -> list[int]:
    """Positions p, rising, such that neither part of a cut before message p misses anything of the other.

    No answered call stands before p with its result at or behind p, no response that was stored in pieces is split, and p is
    not between two assistant messages, which are one turn on the wire. 0 is always one of them.

    Args:
        ledger: Of the messages.
        stop: Last position to look at; `None`: the end, which counts too.
    """
    end = len(ledger) if stop is None else stop
    last_piece = {ledger.message(at).response_id: at for at in range(len(ledger))}
    cuts, reach = [0], -1
    for at in range(end):
        reach = max(reach, _reach(ledger, at, last_piece))
        # Position at + 1: everything that was begun up to here has ended.
        if reach <= at and not _between_assistants(ledger, at):
            cuts.append(at + 1)
    return cuts


def _reach(ledger: Any, at: int, last_piece: dict[int, int]) -> int:
    """The last message that belongs together with this one."""
    message = ledger.message(at)
    reach = last_piece[message.response_id] if message.response_id else at
    for block in ledger.blocks(at):
        if block.kind in _CALLS and block.id:
            result = ledger.find_result(ledger.string(block.id))
            reach = max(reach, result[0] if result is not None else at)
    return reach


def _between_assistants(ledger: Any, at: int) -> bool:
    if at + 1 >= len(ledger):
        return False
    return bool(ledger.message(at).role == ledger.message(at + 1).role == Role.ASSISTANT)


def turn_starts(ledger: Any) -> list[int]:
    """Messages that begin a turn and can be cut off before: user inputs that answer no call, with no call open."""
    whole = set(whole_cuts(ledger))
    return [at for at in range(len(ledger)) if at in whole and _is_input(ledger, at)]


def is_turn_start(ledger: Any, at: int) -> bool:
    """Whether a message is one of `turn_starts`; only what stands behind it is looked at."""
    before = next(
        (index for index in range(at - 1, -1, -1) if ledger.message(index).role == Role.ASSISTANT),
        None,
    )
    response = ledger.message(before).response_id if before is not None else 0
    for index in range(at, len(ledger)):
        if response and ledger.message(index).response_id == response:
            return False
        if any(_answers_before(ledger, block, at) for block in ledger.blocks(index)):
            return False
    return _is_input(ledger, at)


def _answers_before(ledger: Any, block: Any, at: int) -> bool:
    if block.kind not in _RESULTS or not block.id:
        return False
    call = ledger.find_call(ledger.string(block.id))
    return call is not None and call[0] < at


def _is_input(ledger: Any, at: int) -> bool:
    answers = any(block.kind == BlockKind.TOOL_RESULT for block in ledger.blocks(at))
    return bool(ledger.message(at).flags & MessageFlag.USER_INPUT) and not answers


def newest_input(view: Any) -> int | None:
    """The newest message of a view that a person wrote; what levels made does not count. `None`: there is none."""
    for at in range(len(view) - 1, -1, -1):
        said = view.ledger.message(at).flags & MessageFlag.USER_INPUT
        if said and isinstance(view.sources[at], int):
            return at
    return None
