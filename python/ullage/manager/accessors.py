"""What a host may ask of its conversation at any moment; nothing changes by it."""

from __future__ import annotations

from collections.abc import MutableSequence
from typing import TYPE_CHECKING

from ullage.counting.models import Model
from ullage.counting.window import Window
from ullage.levels.one_line_records import tokens_of
from ullage.levels.pins import Pin
from ullage.manager.due import decided
from ullage.manager.machine import Machine
from ullage.manager.values import Decided, Usage
from ullage.messages import Item
from ullage.policy import Policy

if TYPE_CHECKING:
    from ullage.manager.explain import Explanation

__all__ = ["Accessors"]


class Accessors:
    """What a context manager answers at any moment.

    Attributes:
        machine: The conversation.
    """

    machine: Machine

    @property
    def policy(self) -> Policy:
        """Every threshold."""
        return self.machine.policy

    @property
    def model(self) -> Model:
        """The model's row; its window is what was learned of it."""
        return self.machine.model

    @property
    def window(self) -> Window:
        """All marks of the window."""
        return self.machine.window

    @property
    def history(self) -> MutableSequence[Item]:
        """All that was added, as it was added; with a log, what no request shows any more is read from there."""
        return self.machine.history

    @property
    def messages(self) -> list[Item]:
        """The request as it stands, before the levels look at it again."""
        return list(self.machine.view.messages)

    def usage(self) -> Usage:
        """How full the window is now."""
        return self.machine.usage()

    def decide(self) -> Decided:
        """Whether an automatic compaction is due; a pure look that may be taken at any moment."""
        return decided(self.machine)

    def explain(self, request: int | None = None) -> Explanation:
        """What is in a request by category, and what left until then: when, by which level, why.

        The newest 256 requests and reports are remembered, at times up to 511; a log holds all of them.

        Args:
            request: Its number; `None`: the next one, as things stand.

        Raises:
            InvalidPolicy: There was no such request, or it is remembered no more.
        """
        from ullage.manager.explain import explain

        machine, usage = self.machine, self.machine.usage()
        now = usage.tokens, usage.by_category
        return explain(request, machine.records, machine.reports, now, machine.let_go)

    def pins(self) -> dict[str, tuple[Pin, int]]:
        """All pins by name, each with what it costs in tokens."""
        weights = self.machine.view.weights
        return {
            name: (pin, tokens_of(pin.text, weights)) for name, pin in self.machine.pins.items()
        }
