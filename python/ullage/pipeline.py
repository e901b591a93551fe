"""The levels before the summary, in their order, over one view: `tool-result budget → snip → microcompact`.

Autocompact and hard truncation follow in the context manager, which alone may ask for a summary.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ullage.offload import OffloadStore
from ullage.policy import Policy
from ullage.stages import microcompact, snip, tool_budget
from ullage.stages.report import StageReport
from ullage.stages.view import View

__all__ = ["STAGES", "Situation", "run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What the levels are told beside the view.

    Attributes:
        window_tokens: The model's context window.
        overhead_tokens: System prompt and tool definitions.
        now_ms: The host's clock; `None`: unknown, nothing happens by time.
        store: For offloaded results; `None`: nothing is offloaded.
    """

    window_tokens: int
    overhead_tokens: int = 0
    now_ms: int | None = None
    store: OffloadStore | None = None

    def fill_percent(self, view: View) -> int:
        """Share of the window that the next request takes, rounded down."""
        return 100 * view.tokens(self.overhead_tokens) // self.window_tokens


Stage = Callable[[View, Policy, Situation], StageReport | None]


def _tool_budget(view: View, policy: Policy, situation: Situation) -> StageReport | None:
    return tool_budget.apply(view, policy, situation.store)


def _snip(view: View, policy: Policy, situation: Situation) -> StageReport | None:
    return snip.apply(view, policy, situation.fill_percent(view))


def _microcompact(view: View, policy: Policy, situation: Situation) -> StageReport | None:
    return microcompact.apply(view, policy, situation.fill_percent(view), situation.now_ms)


STAGES: tuple[Stage, ...] = (_tool_budget, _snip, _microcompact)
"""In order; each acts only on what the one before left over."""


def run(view: View, policy: Policy, situation: Situation) -> list[StageReport]:
    """Run the levels that need no summary; reports of those that acted."""
    reports = (stage(view, policy, situation) for stage in STAGES)
    return [report for report in reports if report is not None]
