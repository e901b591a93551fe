"""Whether an automatic compaction is due, and what is remembered of earlier tries (AUTO-1 to AUTO-8)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ullage.levels.collapse import QUIET_SOURCES
from ullage.manager.values import Decided

if TYPE_CHECKING:
    from ullage.manager.machine import Machine
    from ullage.policy.summaries import AutocompactPolicy

__all__ = ["Tracking", "collapse_failed", "decided"]


@dataclass(slots=True)
class Tracking:
    """What automatic compaction remembers of its tries (AUTO-3, AUTO-4, AUTO-8).

    Attributes:
        turns: Answers of the model so far.
        failures: Tries in a row that failed.
        refills: Times in a row that the context was full again within a few turns.
        compactions: How many were installed.
        compacted_turn: Turn of the newest; `None`: there was none.
        last_failure: Why the newest try failed; empty: it did not.
        model_failures: Times in a row that the summarizer failed and code wrote instead.
        model_rested: Compactions since the newest of these for which it was not asked.
    """

    turns: int = 0
    failures: int = 0
    refills: int = 0
    compactions: int = 0
    compacted_turn: int | None = None
    last_failure: str = ""
    model_failures: int = 0
    model_rested: int = 0

    @property
    def turns_since(self) -> int | None:
        """Turns since the newest compaction; `None`: there was none."""
        return None if self.compacted_turn is None else self.turns - self.compacted_turn

    def failed(self, why: str) -> None:
        """One more failure in a row."""
        self.failures += 1
        self.last_failure = why

    def model_wrote(self, failure: str) -> None:
        """A compaction is there; `failure`: why the summarizer gave up and code wrote it, empty if it did not."""
        self.model_failures = self.model_failures + 1 if failure else 0
        self.model_rested = 0

    def model_rests(self, auto: AutocompactPolicy) -> bool:
        """Whether code writes at once, since the summarizer failed too often; after as many compactions it is asked again."""
        return self.model_failures >= auto.max_failures > self.model_rested

    def compacted(self, *, refill_turns: int, automatic: bool) -> None:
        """A compaction was installed: failures are forgotten; one that came too soon is counted."""
        since = self.turns_since
        soon = automatic and since is not None and since <= refill_turns
        self.refills = self.refills + 1 if soon else 0
        self.failures, self.last_failure = 0, ""
        self.compactions += 1
        self.compacted_turn = self.turns


def decided(machine: Machine) -> Decided:
    """Whether an automatic compaction is due (WIN-5, AUTO-1); a pure look at any moment."""
    tokens, limit = machine.tokens, machine.trigger()
    code, why = _obstacle(machine)
    if code:
        fills = machine.usage().by_category if code == "refills" else {}
        return Decided(False, why, code, tokens, limit, fills)
    if tokens < limit:
        return Decided(False, f"{tokens:,} of {limit:,} tokens", "below", tokens, limit)
    return Decided(True, f"{tokens:,} tokens reach {limit:,}", "due", tokens, limit)


def is_due(machine: Machine, tokens: int) -> bool:
    """As `decided`, of a count that is at hand, without a reason."""
    return tokens >= machine.trigger() and not _obstacle(machine)[0]


def collapse_failed(machine: Machine, tokens: int) -> bool:
    """Whether collapse stands in for a compaction and could not make room: then one may come after all (AUTO-7)."""
    if not machine.policy.collapse.enabled:
        return False
    if tokens <= min(machine.window.effective, machine.last_resort_tokens):
        return False
    return not _obstacle(machine, last_resort=True)[0]


def _obstacle(machine: Machine, *, last_resort: bool = False) -> tuple[str, str]:
    """Why nothing automatic is done, whatever the size; empty if there is no such reason."""
    auto, tracking = machine.policy.auto, machine.tracking
    if not machine.window.autocompact:
        return "off", "automatic compaction is off"
    if machine.source in QUIET_SOURCES:
        return "source", f"{machine.source} writes a summary itself"
    if auto.reactive_only:
        return "reactive_only", "only after a refusal of the provider"
    if machine.policy.collapse.enabled and not last_resort:
        return "collapse", "context collapse is on"
    if tracking.failures >= auto.max_failures:
        return "failures", f"{tracking.failures} failures in a row: {tracking.last_failure}"
    # A rest, not an end: a later try that holds resets the count (P-8: no guard without an exit).
    resting = (tracking.turns_since or 0) <= auto.refill_turns * auto.max_refills
    if tracking.refills >= auto.max_refills and resting:
        turns = auto.refill_turns
        return "refills", f"full again within {turns} turns, {tracking.refills} times in a row"
    return "", ""
