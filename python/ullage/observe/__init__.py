"""Interfaces to the host application: events, hooks, telemetry, the cache monitor, redaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ullage._lazy import on_first_use

if TYPE_CHECKING:
    from ullage.observe.cache_monitor import (
        CacheForecast,
        CacheMonitor,
        CacheUse,
        CacheVerdict,
        cache_use,
    )
    from ullage.observe.events import (
        BackgroundFinished,
        BackgroundStarted,
        CacheBroken,
        CacheReset,
        CompactionFinished,
        CompactionProgress,
        CompactionRetried,
        CompactionStarted,
        CompactionSummaryRejected,
        CompactionSummaryWritten,
        Event,
        HookFinished,
        HookStarted,
        LevelActed,
        Listener,
        SessionMemoryFinished,
        SessionMemoryStarted,
        SummaryUsage,
    )
    from ullage.observe.hooks import CallableHook, Hook, HookReply, Hooks, Redactor, ShellHook
    from ullage.observe.telemetry import Telemetry, TurnRecorder, TurnTelemetry

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
