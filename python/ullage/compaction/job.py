"""Everything one compaction needs to know, fixed before it starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from ullage.compaction.compaction_result import CompactionResult, Direction
from ullage.compaction.context_providers import Providers
from ullage.compaction.recollection import Memory
from ullage.counting.estimate import Weights
from ullage.exceptions import InvalidPolicy
from ullage.levels.pins import Pin
from ullage.messages import Item
from ullage.observe.hooks import Hooks
from ullage.policy import KeepPolicy, Policy
from ullage.providers.manual_thinking import Thinking, read_thinking
from ullage.summarizers.extractive import ExtractiveSummarizer
from ullage.summarizers.protocol import Writer

__all__ = ["DEFAULT_WINDOW", "Job", "ResultStore"]

DEFAULT_WINDOW = 200_000
"""Context window without a model name (WIN-7)."""

ResultStore: TypeAlias = Callable[[CompactionResult, tuple[str | int, ...]], CompactionResult]
"""Installs a result, given the ids of what was compacted, oldest first: all or nothing. Returns it as installed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What to compact and how.

    The options of `ListOptions` mean here what they mean there, but are read: a preset's name is a `Policy`, a line a summarizer.

    Attributes:
        items: Bare messages or entries, oldest first. Never changed.
        limit_tokens: `trigger_tokens` in tokens of our estimate, for what may be kept; `None`: no other figure.
        context_tokens: Size of the context as the host counts it, which triggered; `None`: by the newest usage
            figure, or by the estimate and `overhead_tokens`.
        permille: Tokens of the provider for 1000 of our estimate, where the host knows it.
        bound_thinking: The model refuses thinking that comes after another prefix than the one it was
            generated after: what is kept after the summary loses its thinking.
        source: The part of the host that asks the model, for events.
        turns_since: Responses since the newest compaction, for events; `None`: read from the items if possible.
        previous_turn_id: Where that was; empty: likewise.
        microcompacted: The host has shortened old results already (a context manager), or they may not be.
        disabled: Compaction is turned off (`DISABLE_COMPACT`): the outcome is `blocked`.
    """

    items: Sequence[Item] = field(repr=False)
    trigger: Literal["manual", "auto"] = "manual"
    instructions: str = ""
    direction: Direction = "full"
    at: int | str | None = None
    keep: KeepPolicy | int | None = None
    target_tokens: int | None = None
    policy: Policy = field(default_factory=Policy, repr=False)
    window_tokens: int = DEFAULT_WINDOW
    trigger_tokens: int | None = None
    limit_tokens: int | None = None
    overhead_tokens: int | None = None
    context_tokens: int | None = None
    permille: int = 1000
    weights: Weights | None = field(default=None, repr=False)
    bound_thinking: bool = False
    thinking: Thinking | None = None
    summarizer: Writer = field(default_factory=ExtractiveSummarizer)
    fallback: Writer | None = None
    hooks: Hooks = field(default_factory=Hooks)
    providers: Providers = field(default_factory=Providers, repr=False)
    pins: tuple[Pin, ...] = ()
    template: str = field(default="", repr=False)
    redact: Callable[[str], str] | None = field(default=None, repr=False)
    transcript_path: str = ""
    session_id: str = ""
    cwd: str = ""
    source: str = "main"
    turns_since: int | None = None
    previous_turn_id: str = ""
    store: ResultStore | None = field(default=None, repr=False)
    memory: Memory | None = field(default=None, repr=False)
    microcompacted: bool = False
    disabled: bool = False

    def __post_init__(self) -> None:
        read_thinking(self.thinking, provider=None)
        _one_of("trigger", self.trigger, ("manual", "auto"))
        _one_of("direction", self.direction, ("full", "from", "up_to"))
        if (self.direction == "full") != (self.at is None):
            raise InvalidPolicy(
                "at", self.at, "is required for a partial direction, and valid only there"
            )
        if isinstance(self.window_tokens, bool) or self.window_tokens < 1:
            raise InvalidPolicy("window_tokens", self.window_tokens, "must be at least 1")
        target: object = self.target_tokens
        if target is not None and (
            isinstance(target, bool) or not isinstance(target, int) or target < 1
        ):
            raise InvalidPolicy("target_tokens", target, "must be a number of tokens, at least 1")


def _one_of(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise InvalidPolicy(name, value, f"must be one of {', '.join(choices)}")
