"""A13 to A16: signatures, open turns, binding to the prefix, unbroken runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.oracle.checker.report import Finding, error
from tests.oracle.checker.request import Place, Request, Turn, blocks_of, kind_of
from ullage.testing.generator import Seal, Walk, unseal

__all__ = ["BINDING_BETA", "check_thinking", "drops_mismatches"]

BINDING_BETA = "thinking-binding-controls-2026-08-01"
_KINDS = ("thinking", "redacted_thinking")


class _At(NamedTuple):
    """Where a thinking block stands in the request."""

    before: str  # hash of all before its turn
    previous: str  # name of the thinking before it
    step: int  # thinking before it since the user's last words
    begins: bool  # the first thinking of the first response of the open turn


def drops_mismatches(request: Request) -> bool:
    """Whether the request asks that thinking of another prefix be dropped, with its header."""
    binding = _binding(request)
    wanted = isinstance(binding, dict) and binding.get("prefix_mismatch_behavior") == "drop_block"
    return wanted and BINDING_BETA in request.betas


def _binding(request: Request) -> Any:
    thinking = request.body.get("thinking")
    return thinking.get("block_binding") if isinstance(thinking, dict) else None


def check_thinking(request: Request) -> Iterator[Finding]:
    """All of it."""
    if _binding(request) is not None and BINDING_BETA not in request.betas:
        kind = request.body["thinking"].get("type")
        text = f"thinking.{kind}.block_binding: Extra inputs are not permitted"
        yield error("A15", (-1, -1), text)
    yield from _bound(request)
    yield from _manual(request)


def _signature(place: Place) -> Any:
    return place.value.get("signature" if kind_of(place.value) == "thinking" else "data")


def _bound(request: Request) -> Iterator[Finding]:
    system, tools = request.body.get("system"), request.tools
    walk, previous, open_from = Walk(system, tools), "", _open_turn(request)
    # Its first response: a system message in between is none.
    later = (turn for turn in request.turns if turn.first >= open_from)
    first = next((turn for turn in later if turn.role == "assistant"), None)
    for index, message in enumerate(request.messages):
        before = walk.enter(message) if isinstance(message, dict) else ""
        for at, block in enumerate(blocks_of(request.content(index))):
            if kind_of(block) not in _KINDS:
                continue
            place = Place(index, at, block)
            value = unseal(_signature(place), str(block.get("thinking") or ""))
            yield from _signed(request, place, value)
            if value is not None:
                yield from _fits(request, place, value, before, previous)
                begins = walk.step == 0 and first is not None and index <= first.last
                if index >= open_from and not _complete(
                    value, _At(before, previous, walk.step, begins)
                ):
                    yield _incomplete(place)
                previous = value.name
            walk.step += 1


def _signed(request: Request, place: Place, value: Seal | None) -> Iterator[Finding]:
    signature = _signature(place)
    key = "signature" if kind_of(place.value) == "thinking" else "data"
    if not isinstance(signature, str) or not signature:
        yield error("A13", place.at, f"{place.path}.{kind_of(place.value)}.{key}: Field required")
    elif value is None and request.sealed:
        yield error("A13", place.at, f"{place.path}: Invalid `{key}` in `thinking` block")


def _fits(
    request: Request, place: Place, value: Seal, before: str, previous: str
) -> Iterator[Finding]:
    """A15 and A16, of models that bind; thinking of another model is dropped in silence."""
    model = request.body.get("model")
    if not request.facts.bound or drops_mismatches(request) or (model and value.model != model):
        return
    if value.prefix != before:
        text = (
            f"{place.path}: Invalid `signature` in `thinking` block. The block is bound to a different "
            "conversation. Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` "
            'to "drop_block".'
        )
        hint = "" if BINDING_BETA in request.betas else f" (needs the beta header {BINDING_BETA})"
        yield error("A15", place.at, text + hint)
    elif previous and value.previous != previous:
        text = (
            f"{place.path}: Invalid `signature` in `thinking` block. Earlier thinking is missing."
        )
        yield error("A16", place.at, text)


def _complete(value: Seal, at: _At) -> bool:
    """Whether no thinking of the open turn is missing before this.

    After a history that was replaced (another prefix, of a model that does not bind) the open turn begins where
    that ends: what its first response holds comes first, and what follows must follow on that.
    """
    if value.prefix == at.before or value.step == at.step:
        return value.step == at.step
    return value.previous == at.previous or at.begins


def _incomplete(place: Place) -> Finding:
    text = (
        f"{place.path}: `thinking` or `redacted_thinking` blocks in the latest assistant message "
        "cannot be modified. These blocks must remain as they were in the original response."
    )
    return error("A13", place.at, text)


def _answered(turn: Turn) -> bool:
    return bool(turn.of("tool_result"))


def _open_turn(request: Request) -> int:
    """Index of the first message of the open turn: after the user's last words."""
    first = len(request.messages)
    for turn in reversed(request.turns):
        if turn.role == "user" and not _answered(turn):
            break
        first = turn.first
    return first


def _manual(request: Request) -> Iterator[Finding]:
    """A14: with manual thinking an open tool loop begins with thinking."""
    thinking = request.body.get("thinking")
    turns = request.turns
    if not isinstance(thinking, dict) or thinking.get("type") != "enabled" or not turns:
        return
    if turns[-1].role != "user" or not _answered(turns[-1]):
        return
    first = next((turn for turn in turns if turn.first >= _open_turn(request)), None)
    places = first.places if first and first.role == "assistant" else []
    if places and kind_of(places[0].value) not in _KINDS:
        text = (
            f"{places[0].path}.type: Expected `thinking` or `redacted_thinking`, but found "
            f"`{kind_of(places[0].value)}`. When `thinking` is enabled, a final `assistant` message must "
            "start with a thinking block (preceeding the lastmost set of `tool_use` and `tool_result` "
            "blocks)."
        )
        yield error("A14", places[0].at, text)
