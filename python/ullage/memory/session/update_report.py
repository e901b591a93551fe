"""The report of one update of the notes."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from ullage.memory.session.notes_edits import Refusal

__all__ = ["UpdateOutcome", "UpdateReport"]


class UpdateOutcome(StrEnum):
    """How an update ended. Only after the first two has the conversation been absorbed."""

    UPDATED = "updated"
    UNCHANGED = "unchanged"  # there was nothing to write
    CONFLICT = "conflict"  # the user changed the same lines meanwhile: theirs stay
    FAILED = "failed"
    BUSY = "busy"  # another updater is at work
    DROPPED = "dropped"  # no longer wanted, or nothing new
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateReport:
    """The result of an update.

    Attributes:
        outcome: How it ended.
        reason: Why, unless `updated`.
        covered: Name of the last message that the notes now hold; empty: it did not move.
        absorbed: Messages that were read.
        edits: Edits that were applied.
        refusals: What the model tried in addition, and was refused.
        conflicts: Edits that were lost to a user's change.
        over: Titles of sections that are too long; the next update is asked to shorten them.
        calls: Calls of the summarizer; 0: no model was asked.
        chars: Length of the notes.
        updater: The name of the summarizer; `copies`: code.
    """

    outcome: UpdateOutcome
    reason: str = ""
    covered: str = ""
    absorbed: int = 0
    edits: int = 0
    refusals: tuple[Refusal, ...] = field(default=(), repr=False)
    conflicts: int = 0
    over: tuple[str, ...] = ()
    calls: int = 0
    chars: int = 0
    updater: str = ""

    @property
    def absorbed_all(self) -> bool:
        """Whether the notes now cover what the update read."""
        return self.outcome in (UpdateOutcome.UPDATED, UpdateOutcome.UNCHANGED)

    def __repr__(self) -> str:
        why = f", {self.reason}" if self.reason else ""
        return (
            f"UpdateReport({self.outcome.value}{why}, {self.absorbed} messages, {self.edits} edits)"
        )
