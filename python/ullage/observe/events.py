"""Events as typed values for one listener interface.

A listener is any callable that takes an event. Listeners are called in order and must not change anything. If one
raises, the event is lost for that listener; the observed work continues.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias

from ullage._start import Frozen, NamedTuple
from ullage.messages import whole_count

if TYPE_CHECKING:
    from ullage.levels.view import StageReport


class SummaryUsage(Frozen, kw_only=True):
    """Tokens of summary calls as reported by their providers; all 0 if there was no call, or no report.

    Attributes:
        calls: Calls that reported usage.
        input_tokens: Input neither read from a cache nor written to one.
        cache_read_tokens: Input read from the provider's cache.
        cache_write_tokens: Input written to it.
        output_tokens: What the model wrote.
    """

    calls: int = 0
    input_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: SummaryUsage) -> SummaryUsage:
        counts = vars(other)
        return SummaryUsage(**{name: count + counts[name] for name, count in vars(self).items()})


class ReportedTokens(NamedTuple):
    """What a provider counted for one response."""

    prompt: int  # the whole prompt, cached parts included
    cache_read: int  # of the prompt, read from the cache
    cache_write: int  # of the prompt, written to it
    output: int


def reported_tokens(usage: Mapping[str, Any]) -> ReportedTokens:
    """A response's usage in the words of Anthropic, OpenAI or a compatible API; figures that it lacks are 0."""
    details = usage.get("prompt_tokens_details") or usage.get("input_tokens_details")

    def first(*names: str) -> int:
        counts = (whole_count(usage.get(name)) for name in names)
        return next(filter(None, counts), 0)

    prompt = first("prompt_tokens", "input_tokens")
    output = first("output_tokens", "completion_tokens")
    read = first("cache_read_input_tokens", "cache_read_tokens")
    written = first("cache_creation_input_tokens", "cache_write_tokens")
    # OpenAI counts what its cache had and what it took as input too, Anthropic does not; LiteLLM writes both for either.
    apart = not whole_count(usage.get("prompt_tokens")) and (read or written or not details)
    if details and isinstance(details, Mapping):
        read = read or whole_count(details.get("cached_tokens"))
        written = written or whole_count(details.get("cache_write_tokens"))
    if apart:
        prompt += read + written
    return ReportedTokens(prompt, read, written, output)


class CompactionStarted(Frozen, kw_only=True):
    """A compaction begins; exactly one `CompactionFinished` follows, however it ends.

    Attributes:
        trigger: `manual` or `auto`.
        messages: Messages of the context.
        tokens_before: Tokens of the context, including system prompt and tools if known.
        summarizer: The first summarizer to be called.
        recompaction: Whether the context was compacted before.
        turns_since: Responses of the model since then; `None`: there was no compaction, or it is unknown.
        previous_turn_id: Position of that compaction: the uuid of its summary, or in a `ContextManager` the number of responses
            before it; empty: there was no compaction, or it is unknown.
        threshold_tokens: Size from which an automatic compaction is due; `None`: unset.
        source: The part of the host that calls the model, such as `main`.
    """

    trigger: str
    messages: int
    tokens_before: int
    summarizer: str
    recompaction: bool
    turns_since: int | None = None
    previous_turn_id: str = ""
    threshold_tokens: int | None = None
    source: str = "main"


class CompactionProgress(Frozen, kw_only=True):
    """A summary is being written; `chars` were received so far. Sent by the thread that reads the stream."""

    summarizer: str
    attempt: int
    chars: int


class CompactionRetried(Frozen, kw_only=True):
    """The summary call is repeated.

    `reason`: `overflow`, `rate_limit`, `overloaded`, `error`, `rejected`, `part` or `fallback`.
    """

    reason: str
    attempt: int
    summarizer: str
    dropped_messages: int = 0
    wait_seconds: float = 0


class CompactionSummaryRejected(Frozen, kw_only=True):
    """A summary failed the checks; `problems` says why."""

    summarizer: str
    problems: tuple[str, ...]


class CompactionSummaryWritten(Frozen, kw_only=True):
    """A summary passed the checks; nothing is installed yet. `attempts` and `usage`: of all calls so far."""

    summarizer: str
    attempts: int
    chars: int
    usage: SummaryUsage = SummaryUsage()


class CompactionFinished(Frozen, kw_only=True):
    """A compaction ended.

    Attributes:
        outcome: `compacted`, `no_op`, `blocked`, `failed` or `aborted`.
        reason: Why; set for every outcome except `compacted`.
        trigger: `manual` or `auto`.
        tokens_before: Of the context, system prompt and tools included where known.
        tokens_after: Of the new context; the same as before unless `compacted`.
        summarizer: The summarizer that wrote the summary, or was asked last; empty: none was asked.
        facts_appended: Facts that code added because the summary lacked them.
        attempts: Summary calls that were made.
        dropped_messages: Oldest messages left out of the newest call.
        usage: Of all summary calls that reported theirs.
    """

    outcome: str
    reason: str
    trigger: str
    tokens_before: int
    tokens_after: int
    summarizer: str
    facts_appended: int = 0
    attempts: int = 0
    dropped_messages: int = 0
    usage: SummaryUsage = SummaryUsage()


class HookStarted(Frozen, kw_only=True):
    """A hook starts."""

    event_name: str
    hook: str


class HookFinished(Frozen, kw_only=True):
    """A hook ended; `status` is one of `ok`, `blocked`, `failed`, `timeout`."""

    event_name: str
    hook: str
    status: str
    detail: str = ""


class CacheReset(Frozen, kw_only=True):
    """The cached prefix was changed intentionally; the cache monitor takes a new baseline."""

    reason: str
    details: Mapping[str, Any]


class CacheBroken(Frozen, kw_only=True):
    """The provider had much less of the prefix in its cache than expected, without an announcement.

    `reason` as in `ullage.observe.cache_monitor.CacheVerdict`; `message`: first message that changed.
    """

    source: str
    reason: str
    expected_tokens: int
    read_tokens: int
    message: int | None = None


class BackgroundStarted(Frozen, kw_only=True):
    """A summary is started in advance; it is installed later, or never."""

    tokens: int
    trigger_tokens: int


class BackgroundFinished(Frozen, kw_only=True):
    """A summary in advance is finished or abandoned. Sent by the thread or task that wrote it.

    `outcome` is one of `ready`, `nothing` (too little to summarise), `failed`; `usage` is reported again by the
    compaction that installs it.
    """

    outcome: str
    reason: str = ""
    usage: SummaryUsage = SummaryUsage()


class LevelActed(Frozen, kw_only=True):
    """A level of the pipeline changed the view."""

    report: StageReport


class SessionMemoryStarted(Frozen, kw_only=True):
    """An update of the session's notes begins; `tokens` is the size of the conversation at that time."""

    reason: str
    tokens: int


class SessionMemoryFinished(Frozen, kw_only=True):
    """An update of the session's notes ended.

    `outcome` is one of `updated`, `unchanged`, `conflict`, `failed`, `busy`, `dropped`, `cancelled`; `refused` lists
    what the model tried besides editing the notes; `over` names sections that are too long.
    """

    outcome: str
    reason: str
    updater: str
    absorbed: int
    edits: int
    calls: int
    refused: tuple[str, ...] = ()
    over: tuple[str, ...] = ()


Event: TypeAlias = (
    CompactionStarted
    | CompactionProgress
    | CompactionRetried
    | CompactionSummaryRejected
    | CompactionSummaryWritten
    | CompactionFinished
    | HookStarted
    | HookFinished
    | CacheReset
    | CacheBroken
    | BackgroundStarted
    | BackgroundFinished
    | LevelActed
    | SessionMemoryStarted
    | SessionMemoryFinished
)
Listener: TypeAlias = Callable[[Event], None]


def tell(listeners: Iterable[Listener], event: Event) -> None:
    """Call the listeners; one that fails only observes, and must not stop the work."""
    for listener in listeners:
        with suppress(Exception):
            listener(event)
