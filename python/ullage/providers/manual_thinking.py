"""The request's `thinking` parameter, and what manual thinking asks of a conversation: an open turn begins with thinking (A14)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from ullage._engine.digests import BlockKind, Role
from ullage.exceptions import InvalidPolicy
from ullage.providers.registry import AnyProvider, provider_of

__all__ = ["Thinking", "is_manual", "is_torn", "read_thinking", "whole_start"]

Thinking: TypeAlias = Mapping[str, object]
"""As the provider takes it: `{"type": "enabled", "budget_tokens": 4000}`, `{"type": "adaptive"}`, ..."""

TYPES: Final = ("enabled", "adaptive", "disabled", "between_tools")
_THOUGHTS: Final = (BlockKind.THINKING, BlockKind.REDACTED_THINKING)


def read_thinking(given: object, *, provider: AnyProvider | None = "anthropic") -> Thinking | None:
    """A `thinking` argument; `None`: not in use.

    Args:
        given: As the host gave it.
        provider: Whose form the request has; `None`: none whose types are known.

    Raises:
        InvalidPolicy: It is no mapping, or, for Anthropic's models, of no known type.
    """
    if given is None:
        return None
    if not isinstance(given, Mapping):
        raise InvalidPolicy("thinking", given, "must be a mapping, such as {'type': 'adaptive'}")
    kind = given.get("type")
    typed = provider is not None and provider_of(provider).claude_thinking
    if typed and kind not in TYPES:
        raise InvalidPolicy("thinking.type", kind, f"must be one of {', '.join(TYPES)}")
    return dict(given)


def is_manual(thinking: Thinking | None, *, provider: AnyProvider = "anthropic") -> bool:
    """Whether the request thinks by a budget (`enabled`): then an open turn has to begin with its thinking."""
    claude = provider_of(provider).claude_thinking
    return claude and thinking is not None and thinking.get("type") == "enabled"


def first_of_turn(ledger: Any, start: int = 0) -> int | None:
    """The first message of the model's in the turn that is still open, of those from `start` on; `None`: no turn is open.

    Args:
        ledger: Of the messages.
        start: Something of the user's stands before this message, or nothing.
    """
    first: int | None = None
    behind: int | None = None
    newest: int | None = None
    answered = False
    for at in range(len(ledger) - 1, start - 1, -1):
        role = ledger.message(at).role
        if role == Role.USER:
            answered = (behind == Role.USER and answered) or _answers(ledger, at)
        elif role == Role.ASSISTANT:
            if behind == Role.USER and not answered:
                break
            first = at if ledger.blocks(at) else first
        else:
            continue
        behind, newest = role, role if newest is None else newest
    is_open = newest == Role.USER or bool(ledger.open_calls())
    return first if is_open else None


def _answers(ledger: Any, at: int) -> bool:
    return any(block.kind == BlockKind.TOOL_RESULT for block in ledger.blocks(at))


def _thinks(ledger: Any, at: int) -> bool:
    return ledger.blocks(at)[0].kind in _THOUGHTS


def is_torn(ledger: Any, start: int = 0) -> bool:
    """Whether the open turn, cut before `start`, does not begin with thinking."""
    first = first_of_turn(ledger, start)
    return first is not None and not _thinks(ledger, first)


def whole_start(ledger: Any, start: int, *, floor: int, last: int, most: int | None) -> int | None:
    """A cut near `start` after which the open turn begins with thinking; `None`: there is none.

    An earlier one is preferred, which keeps more.

    Args:
        ledger: Of the messages.
        start: Where the cut would be.
        floor: First message that may be kept.
        last: Last place where a cut may be.
        most: Tokens that may be kept; `None`: any.
    """
    if not is_torn(ledger, start):
        return start
    length = len(ledger)
    for at in range(start - 1, floor - 1, -1):
        if most is not None and ledger.tokens(at, length) > most:
            break
        if _is_cut(ledger, at) and not is_torn(ledger, at):
            return at
    later = range(start + 1, min(last, length - 1) + 1)
    return next((at for at in later if _is_cut(ledger, at) and not is_torn(ledger, at)), None)


def _is_cut(ledger: Any, at: int) -> bool:
    """Whether a cut before a message separates no call from its result and splits no response."""
    found = ledger.keep_window(at, floor=0, min_tokens=0, max_tokens=1, min_text_messages=0)
    return int(found.start) == at
