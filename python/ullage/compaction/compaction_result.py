"""The result of a compaction: the new context, what was removed, and what it cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, TypeAlias

from ullage.exceptions import UllageError
from ullage.messages import Item
from ullage.observe.events import SummaryUsage

__all__ = ["CompactionReport", "CompactionResult", "Direction", "Outcome"]

Direction: TypeAlias = Literal["full", "from", "up_to"]


class Outcome(StrEnum):
    """The four ways to end. Only after `COMPACTED` has anything changed."""

    COMPACTED = "compacted"
    NO_OP = "no_op"  # nothing to gain; not a failure
    BLOCKED = "blocked"  # a PreCompact hook said so
    FAILED = "failed"  # automatic only: a manual compaction raises


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionReport:
    """What was done, for logs and for the user; also for a compaction that changed nothing.

    Attributes:
        removed: Ids of the messages that the summary replaced: uuids, or positions in the input where
            a message has none. Together with `kept` these are all messages of the context, each once.
        kept: Ids of the messages that stay verbatim.
        tokens_before: Size of the context, system prompt and tools included where known.
        tokens_after: Size of the new context, counted the same way.
        overhead_tokens: Of both, system prompt and tools; 0: not known. The rest are the messages, which a target counts.
        summary_tokens: Of that, the summary message.
        summarizer: The summarizer that wrote the summary, or was asked last; empty if none.
        attempts: Summary calls that were made.
        usage: Tokens of the calls that reported them.
        dropped_messages: Oldest messages that no summary call saw, because it was too long for it; what
            code keeps of them is in the summary anyway.
        summarizer_failure: Why the summarizer that was asked first gave up, so that another wrote; empty: it did not.
        facts_appended: What code added because the summary had lost it, by kind.
        warnings: What a host should know, such as `would_trigger_again`.
    """

    removed: tuple[str | int, ...] = ()
    kept: tuple[str | int, ...] = ()
    tokens_before: int = 0
    tokens_after: int = 0
    overhead_tokens: int = 0
    summary_tokens: int = 0
    summarizer: str = ""
    attempts: int = 0
    usage: SummaryUsage = field(default_factory=SummaryUsage)
    dropped_messages: int = 0
    summarizer_failure: str = ""
    facts_appended: Mapping[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def messages_after(self) -> int:
        """Tokens of the new context without system prompt and tools."""
        return self.tokens_after - self.overhead_tokens

    def __repr__(self) -> str:
        return (
            f"CompactionReport({len(self.removed)} removed, {len(self.kept)} kept, "
            f"{self.tokens_before:_} → {self.tokens_after:_} tokens)"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionResult:
    """The outcome of one compaction.

    Attributes:
        outcome: How it ended.
        reason: Why, unless `compacted`: a stable word such as `nothing_to_compact`.
        messages: The context from now on: boundary, what hosts put there to stand, summary, kept messages, attachments, hook results.
            Bare messages have no boundary line, so it is left out there and the list can be sent as it
            is. Unless `compacted`: the items that were passed.
        boundary: The entry that separates old from new; `None` unless `compacted`.
        summary_messages: The summary, in the form of the input (bare or entry), the last one; before it what stands ahead of it:
            the provider's own item, texts that hosts put there to stand.
        kept: The messages that stay: the same objects.
        attachments: Files and state that were restored.
        hook_results: What SessionStart hooks added.
        head: System messages at the start of a bare list; they are never compacted.
        report: What was done.
        user_notice: One line for the user, never for the model.
        stop: Why the agent should stop, as a hook said with `{"continue": false}`; empty: it may continue. A compaction that was
            installed before stays.
        error: What went wrong, for `failed`.
    """

    outcome: Outcome
    reason: str = ""
    messages: tuple[Item, ...] = field(default=(), repr=False)
    boundary: Item | None = field(default=None, repr=False)
    summary_messages: tuple[Item, ...] = field(default=(), repr=False)
    kept: tuple[Item, ...] = field(default=(), repr=False)
    attachments: tuple[Item, ...] = field(default=(), repr=False)
    hook_results: tuple[Item, ...] = field(default=(), repr=False)
    head: tuple[Item, ...] = field(default=(), repr=False)
    report: CompactionReport = field(default_factory=CompactionReport)
    user_notice: str = ""
    stop: str = ""
    error: UllageError | None = None

    @property
    def compacted(self) -> bool:
        """Whether there is a new context."""
        return self.outcome is Outcome.COMPACTED

    @property
    def new_entries(self) -> tuple[Item, ...]:
        """What a log has to append, in order; kept messages stay where they are."""
        if self.boundary is None:
            return ()
        return (self.boundary, *self.summary_messages, *self.attachments, *self.hook_results)

    def __repr__(self) -> str:
        why = f", {self.reason}" if self.reason else ""
        return f"CompactionResult({self.outcome.value}{why}, {self.report!r})"
