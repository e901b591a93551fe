"""What `repair` hands back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ullage._engine.digests import Violation
from ullage.messages import Item

__all__ = ["Repair", "Repaired"]


class Repair(NamedTuple):
    """One change that made a request legal.

    Attributes:
        rule: The rule that was broken.
        message: Index in the messages that were given; -1: the request as a whole.
        block: Index of the block there; -1: the message as a whole.
        action: What was done, in words.
        ids: Tool use ids or call ids that it touches.
    """

    rule: str
    message: int
    block: int
    action: str
    ids: tuple[str, ...] = ()


@dataclass(frozen=True)
class Repaired:
    """A request's messages as they may be sent.

    Attributes:
        messages: The very list that was given if nothing had to change; else a new list, in which
            untouched messages are the same objects.
        repairs: What was changed, in the order it was done.
        left: Errors that no repair can fix, such as too many tokens.
        params: Request parameters to add, only under the policy `thinking="drop_block"`.
    """

    messages: Sequence[Item]
    repairs: tuple[Repair, ...] = ()
    left: tuple[Violation, ...] = ()
    params: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether the provider would take it, as far as the rules know."""
        return not self.left

    def __repr__(self) -> str:
        return f"Repaired(repairs={len(self.repairs)}, left={len(self.left)})"
