"""What happens, as typed values for one listener interface.

A listener is any callable that takes an event; it is told in order and may not change anything. One
that raises is dropped for that event, never the work that it watches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from ullage.stages.report import StageReport

__all__ = [
    "BackgroundStarted",
    "CacheBroken",
    "CacheReset",
    "CompactionFinished",
    "CompactionProgress",
    "CompactionRetried",
    "CompactionStarted",
    "CompactionSummaryRejected",
    "CompactionSummaryWritten",
    "Event",
    "HookFinished",
    "HookStarted",
    "LevelActed",
    "Listener",
    "SessionMemoryFinished",
    "SessionMemoryStarted",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionStarted:
    """A compaction begins."""

    trigger: str
    messages: int
    tokens_before: int
    summarizer: str
    recompaction: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionProgress:
    """A summary is being written: `chars` of it have come. Told from the thread that reads the stream."""

    summarizer: str
    attempt: int
    chars: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionRetried:
    """The summary call is made again.

    `reason`: `overflow`, `rate_limit`, `overloaded`, `error`, `rejected`, `part` or `fallback`.
    """

    reason: str
    attempt: int
    summarizer: str
    dropped_messages: int = 0
    wait_seconds: float = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionSummaryRejected:
    """A summary did not pass the checks; `problems` names why."""

    summarizer: str
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionSummaryWritten:
    """A summary passed the checks; nothing is installed yet."""

    summarizer: str
    attempts: int
    chars: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionFinished:
    """A compaction ended; `outcome` is one of `compacted`, `no_op`, `blocked`, `failed`."""

    outcome: str
    reason: str
    trigger: str
    tokens_before: int
    tokens_after: int
    summarizer: str
    facts_appended: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class HookStarted:
    """A hook is run."""

    event_name: str
    hook: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HookFinished:
    """A hook ended; `status` is one of `ok`, `blocked`, `failed`, `timeout`."""

    event_name: str
    hook: str
    status: str
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheReset:
    """The cached prefix was given up on purpose: the cache monitor takes a new baseline."""

    reason: str
    details: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheBroken:
    """The provider had much less of the prefix in its cache than it should, and nobody had announced that.

    `reason` as in `ullage.cache_monitor.CacheVerdict`; `message`: first message that changed.
    """

    source: str
    reason: str
    expected_tokens: int
    read_tokens: int
    message: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundStarted:
    """A compaction begins ahead of need; it is installed later, or not at all."""

    tokens: int
    trigger_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelActed:
    """A level of the pipeline changed the view."""

    report: StageReport


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionMemoryStarted:
    """An update of the session's notes begins; `tokens` is the size of the conversation when it was asked for."""

    reason: str
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionMemoryFinished:
    """An update of the session's notes ended.

    `outcome` is one of `updated`, `unchanged`, `conflict`, `failed`, `busy`, `dropped`, `cancelled`; `refused` tells what
    the model tried besides edits of the notes; `over` names sections that are too long.
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
    | LevelActed
    | SessionMemoryStarted
    | SessionMemoryFinished
)
Listener: TypeAlias = Callable[[Event], None]
