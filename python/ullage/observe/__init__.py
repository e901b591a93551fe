"""Interfaces to the host application: events, hooks, telemetry, the cache monitor, redaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ullage._start import on_first_use

if TYPE_CHECKING:
    from ullage.observe.cache_monitor import (
        CacheForecast as CacheForecast,
        CacheMonitor,
        CacheUse as CacheUse,
        CacheVerdict as CacheVerdict,
        cache_use as cache_use,
    )
    from ullage.observe.events import (
        BackgroundFinished as BackgroundFinished,
        BackgroundStarted as BackgroundStarted,
        CacheBroken as CacheBroken,
        CacheReset as CacheReset,
        CompactionFinished as CompactionFinished,
        CompactionProgress as CompactionProgress,
        CompactionRetried as CompactionRetried,
        CompactionStarted as CompactionStarted,
        CompactionSummaryRejected as CompactionSummaryRejected,
        CompactionSummaryWritten as CompactionSummaryWritten,
        Event,
        HookFinished as HookFinished,
        HookStarted as HookStarted,
        LevelActed as LevelActed,
        Listener as Listener,
        SessionMemoryFinished as SessionMemoryFinished,
        SessionMemoryStarted as SessionMemoryStarted,
        SummaryUsage as SummaryUsage,
    )
    from ullage.observe.hooks import (
        CallableHook,
        Hook as Hook,
        HookReply,
        Hooks as Hooks,
        Redactor,
        ShellHook,
    )
    from ullage.observe.telemetry import (
        Telemetry as Telemetry,
        TurnRecorder as TurnRecorder,
        TurnTelemetry,
    )

__all__ = [
    "CacheMonitor",
    "CallableHook",
    "Event",
    "HookReply",
    "Redactor",
    "ShellHook",
    "TurnTelemetry",
]

_HOMES = {
    "cache_monitor": "CacheForecast CacheMonitor CacheUse CacheVerdict cache_use",
    "events": (
        "BackgroundFinished BackgroundStarted CacheBroken CacheReset CompactionFinished CompactionProgress CompactionRetried "
        "CompactionStarted CompactionSummaryRejected CompactionSummaryWritten Event HookFinished HookStarted LevelActed Listener "
        "SessionMemoryFinished SessionMemoryStarted SummaryUsage"
    ),
    "hooks": "CallableHook Hook HookReply Hooks Redactor ShellHook",
    "telemetry": "Telemetry TurnRecorder TurnTelemetry",
}
if not TYPE_CHECKING:
    __getattr__, __dir__ = on_first_use(__name__, _HOMES)
