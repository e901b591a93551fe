"""Everything one compaction needs to know, fixed before it starts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from functools import cache
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, TypedDict

from ullage._start import Frozen, table
from ullage.compaction.effects_runner import Providers
from ullage.counting.calibration import Weights
from ullage.effects import CancelToken, Flow
from ullage.exceptions import InvalidPolicy, UllageError
from ullage.levels.pins import Pin
from ullage.messages import Item
from ullage.observe.events import Listener, SummaryUsage
from ullage.observe.hooks import Hooks
from ullage.policy import KeepPolicy, Policy
from ullage.providers.anthropic import Thinking, read_thinking
from ullage.summarizers.extractive import ExtractiveSummarizer
from ullage.summarizers.protocol import Writer, WriterLike
from ullage.transcript.log import TranscriptLog

# The result of a compaction: the new context, what was removed, and what it cost.


Direction: TypeAlias = Literal["full", "from", "up_to"]
DIRECTIONS: tuple[Direction, ...] = ("full", "from", "up_to")


class Outcome(StrEnum):
    """The four ways to end. Only after `COMPACTED` has anything changed."""

    COMPACTED = "compacted"
    NO_OP = "no_op"  # nothing to gain; not a failure
    BLOCKED = "blocked"  # a PreCompact hook said so
    FAILED = "failed"  # automatic only: a manual compaction raises


@cache
def wording() -> Mapping[str, Any]:
    """What a compaction says: to a model, as warnings, of a summary that is refused."""
    return table(__file__, "texts.toml")


def warning_text(warning: str) -> str:
    """A warning of a report as a sentence; one without a code, such as those about lines of a file, as it is."""
    code, _, value = warning.partition(":")
    if value.isdecimal():
        value = f"{int(value):,}"
    elif code in ("cannot_shrink", "session_memory_passed"):  # codes too; the others hold names
        value = value.replace("_", " ").replace("=", " ").replace(",", ", ")
    sentences = wording()["warnings"]
    return str(sentences[code]).format(value) if code in sentences else warning


class CompactionReport(Frozen, kw_only=True):
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
        warnings: What a host should know, such as `would_trigger_again`; `warning_text` says each as a sentence.
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


class CompactionResult(Frozen, kw_only=True):
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


# Notes of a session as a compaction uses them: who keeps them, and what they stand for.


SESSION_MEMORY = "session_memory"  # name of the summarizer in reports: no model was asked


class Remembered(NamedTuple):
    """Notes that can stand for a part of the conversation."""

    start: int  # first message that they have not absorbed
    # The notes within so many tokens, `None`: within their own limits. What is cut is said, with where the rest is.
    text: Callable[[int | None], str]


class Memory(Protocol):
    """Keeps notes of the conversation while it goes on."""

    def recall_flow(
        self, items: Sequence[Mapping[str, Any]], measure: Callable[[str], int]
    ) -> Flow[Remembered | str]:
        """The notes, after waiting for an update that is running; or why they can't be used. `measure`: tokens of a text."""
        ...


class KeptNotes(Memory, Protocol):
    """Notes that are kept up to date while a manager's conversation goes on."""

    def answered(
        self,
        response: Mapping[str, Any],
        items: Sequence[Item],
        /,
        *,
        tokens: int,
        source: str = "main",
        history: Sequence[Item] | None = None,
    ) -> object:
        """Called after each response; returns at once.

        `items`: the conversation as the model sees it, of so many tokens; `source`: the part of the host that asked, as in the manager;
        `history`: all that was said, `None`: `items`.
        """
        ...

    def compacted(self, tokens: int) -> object:
        """Called after each compaction with the new size."""
        ...


DEFAULT_WINDOW = 200_000  # context window without a model name (WIN-7)

ResultStore: TypeAlias = Callable[[CompactionResult, tuple[str | int, ...]], CompactionResult]
"""Installs a compaction in the host's log, all or nothing, and returns it as it was installed; messages appended since are kept.

Given the draft, and the ids of what was compacted, oldest first: where the log's context begins with these no more it raises `LogConflict`.
"""


# What may be said about a compaction: each option once, for `compact`, `acompact`, `compact_session` and the manager.


class SummaryOptions(TypedDict, total=False):
    """How summaries are written, for one compaction and for all of a manager; what is left out has the default that is named.

    Attributes:
        keep: Newest part that stays verbatim: tokens, a `KeepPolicy`, or `None` for the
            policy's. 0: only what must stay (an unanswered message, calls still open).
        thinking: The `thinking` parameter of later requests; `None`: not in use. With `{"type": "enabled", ...}`
            an open turn never begins without its thinking (A14): the cut moves, or the turn is ended.
        summarizer: A summarizer, a function that takes a `SummaryRequest` and returns text (for `acompact` a coroutine function
            too), or a line such as `anthropic:claude-haiku-4-5`; `None`: the extractive one.
        fallback: Writes the summary if the summarizer fails; `None`: for an automatic compaction the extractive one, else none.
        listeners: Called with every event.
        hooks: `Hooks`, or their fields as a mapping.
        providers: What to restore afterwards.
        template: Replaces the prompt; empty: the built-in one.
        redact: Applied to all text that is sent to a model or becomes the summary; `None`: not applied.
        session_id: Passed to hooks; empty: that of the log.
        cwd: Passed to hooks.
    """

    keep: KeepPolicy | int | None
    thinking: Thinking | None
    summarizer: WriterLike | None
    fallback: WriterLike | None
    listeners: Iterable[Listener]
    hooks: Hooks | Mapping[str, Any] | None
    providers: Providers | None
    template: str
    redact: Callable[[str], str] | None
    session_id: str
    cwd: str


class CompactionOptions(SummaryOptions, total=False):
    """The options of every compaction, by name.

    Attributes:
        model: The model that continues: its window decides how much is kept. `None`: that of the session, or else a window
            of 200 000 tokens.
        instructions: What the summary should focus on, in the user's words; empty: nothing.
        target_tokens: Most tokens of the new context's messages; system prompt and tools are not counted
            (`CompactionReport.overhead_tokens`). Half is for the kept messages: large results there are cut in the middle first (in
            bare messages; the lines of a transcript stay whole), then less is kept, then the summary is shorter. A target that is too
            small for what must stay (an unanswered message, the newest message, rules, pins) is refused. `None`: no limit.
        cancel: Anything with `is_set()`; checked between steps.
        trigger: `manual`: failures are raised. `auto`: they are outcomes, and the summary tells the model to continue.
        direction: `full`, or `from` the message `at` to the end, or `up_to` that message.
        at: For the latter two: a position among the items, or a uuid.
        policy: Thresholds, or the name of a preset; `None`: the default.
        pins: `Pin`s to carry verbatim.
        memory: Notes of the session, tried before a summary is written; `None`: there are none.
        window_tokens: Context window; `None`: the model's.
        trigger_tokens: Where the next automatic compaction would start; `None`: the model's.
        overhead_tokens: System prompt and tools; `None`: taken from the usage figures, if any.
        weights: For the calibrated estimate; `None`: the model's.
    """

    model: str | None
    instructions: str
    target_tokens: int | None
    cancel: CancelToken | None
    trigger: Literal["manual", "auto"]
    direction: Direction
    at: int | str | None
    policy: Policy | str | None
    pins: Iterable[Pin]
    memory: Memory | None
    window_tokens: int | None
    trigger_tokens: int | None
    overhead_tokens: int | None
    weights: Weights | None


class ListOptions(CompactionOptions, total=False):
    """The same for a list, whose form and origin the caller knows.

    Attributes:
        provider: Whose form the items have: `openai_responses`, `gemini` or `bedrock`, and the result has it
            too; the others are read as they are. `None`: items of the Responses API and Gemini's contents are
            recognised.
        log: An open log that the items came from: the result is installed there.
        store: Installs the result; `None`: that is up to the caller.
        transcript_path: Passed to the model and to hooks; empty: that of `log`, if it is given.
    """

    provider: str | None
    log: TranscriptLog | None
    store: ResultStore | None
    transcript_path: str


class Job(Frozen, kw_only=True):
    """What to compact and how.

    The options of `ListOptions` mean here what they mean there, but are read: a preset's name is a `Policy`, a line a summarizer.
    """

    items: Sequence[Item] = field(repr=False)  # oldest first; never changed
    trigger: Literal["manual", "auto"] = "manual"
    instructions: str = ""
    direction: Direction = "full"
    at: int | str | None = None
    keep: KeepPolicy | int | None = None
    target_tokens: int | None = None
    policy: Policy = field(default_factory=Policy, repr=False)
    window_tokens: int = DEFAULT_WINDOW
    trigger_tokens: int | None = None
    limit_tokens: int | None = None  # `trigger_tokens` by our estimate, for what may be kept
    overhead_tokens: int | None = None
    # Size of the context as the host counts it, which triggered; `None`: by the newest usage figure, or by the estimate.
    context_tokens: int | None = None
    permille: int = 1000  # tokens of the provider for 1000 of our estimate
    weights: Weights | None = field(default=None, repr=False)
    # Thinking is refused after another prefix than its own: none is kept.
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
    # For events: the part of the host that asks the model; responses since the newest compaction, and where that was, which are
    # read from the items if possible where they are not stated.
    source: str = "main"
    turns_since: int | None = None
    previous_turn_id: str = ""
    store: ResultStore | None = field(default=None, repr=False)
    memory: Memory | None = field(default=None, repr=False)
    microcompacted: bool = False  # the host has shortened old results already, or they may not be
    disabled: bool = False  # by `DISABLE_COMPACT`: the outcome is `blocked`

    def __post_init__(self) -> None:
        read_thinking(self.thinking, provider=None)
        for name, choices in (("trigger", ("manual", "auto")), ("direction", DIRECTIONS)):
            if getattr(self, name) not in choices:
                limit = f"must be one of {', '.join(choices)}"
                raise InvalidPolicy(name, getattr(self, name), limit)
        if (self.direction == "full") != (self.at is None):
            limit = "is required for a partial direction, and valid only there"
            raise InvalidPolicy("at", self.at, limit)
        if isinstance(self.window_tokens, bool) or self.window_tokens < 1:
            raise InvalidPolicy("window_tokens", self.window_tokens, "must be at least 1")
        target: object = self.target_tokens
        if target is not None and (
            isinstance(target, bool) or not isinstance(target, int) or target < 1
        ):
            raise InvalidPolicy("target_tokens", target, "must be a number of tokens, at least 1")
