"""Where a conversation can be cut without tearing anything apart: what turns, collapses and folds begin and end at."""

from __future__ import annotations

from typing import Any

from ullage._engine.digests import BlockKind, MessageFlag, Role
from ullage.facts.whose_words import is_host_only

__all__ = ["newest_input", "turn_starts", "turn_starts_from", "whole_cuts"]

_RESULTS = (BlockKind.TOOL_RESULT, BlockKind.SERVER_TOOL_RESULT)


def whole_cuts(ledger: Any, stop: int | None = None) -> list[int]:
    """Positions p, rising, such that neither part of a cut before message p misses anything of the other.

    No answered call is before p with its result at or after p, no response that was stored in pieces is split, and p is
    not between two assistant messages, which are one turn on the wire. 0 is always one of them.

    Args:
        ledger: Of the messages.
        stop: Last position to look at; `None`: the end, which counts too.
    """
    found: list[int] = ledger.whole_cuts(stop)
    return found


def turn_starts(ledger: Any) -> list[int]:
    """Messages that begin a turn and can be cut off before: user inputs that answer no call, with no call open."""
    whole = set(whole_cuts(ledger))
    return [at for at in range(len(ledger)) if at in whole and _is_input(ledger, at)]


def turn_starts_from(ledger: Any, start: int) -> list[int]:
    """Those of `turn_starts` at or after a message; earlier messages are not visited."""
    end, found = len(ledger), []
    called = _called_behind(ledger, start)
    last_piece = {ledger.message(at).response_id: at for at in range(start, end)}
    before = (at for at in range(start - 1, -1, -1) if ledger.message(at).role == Role.ASSISTANT)
    newest = next(before, None)
    response = 0 if newest is None else ledger.message(newest).response_id
    for at in range(start, end):
        torn = response and last_piece.get(response, -1) >= at
        if not torn and called[at - start] >= at and _is_input(ledger, at):
            found.append(at)
        if ledger.message(at).role == Role.ASSISTANT:
            response = ledger.message(at).response_id
    return found


def _called_behind(ledger: Any, start: int) -> list[int]:
    """For each message from there on: the position of the first call that it, or a later one, answers."""
    first, found = len(ledger), []
    for at in range(len(ledger) - 1, start - 1, -1):
        for block in ledger.blocks(at):
            if block.kind in _RESULTS and block.id:
                call = ledger.find_call(ledger.string(block.id))
                first = first if call is None else min(first, call[0])
        found.append(first)
    return found[::-1]


def _is_input(ledger: Any, at: int) -> bool:
    answers = any(block.kind == BlockKind.TOOL_RESULT for block in ledger.blocks(at))
    return bool(ledger.message(at).flags & MessageFlag.USER_INPUT) and not answers


def newest_input(view: Any) -> int | None:
    """The newest message of a view that the user wrote; what levels made does not count. `None`: there is none."""
    for at in range(len(view) - 1, -1, -1):
        said = view.ledger.message(at).flags & MessageFlag.USER_INPUT
        if said and isinstance(view.sources[at], int) and not is_host_only(view.originals[at]):
            return at
    return None
