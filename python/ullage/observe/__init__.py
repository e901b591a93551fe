"""Interfaces to the host application: events, hooks, telemetry, the cache monitor, redaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ullage._start import on_first_use

if TYPE_CHECKING:
    from ullage.observe.cache_monitor import CacheMonitor
    from ullage.observe.events import Event, Listener as Listener
    from ullage.observe.hooks import CallableHook, HookReply, Hooks as Hooks, Redactor, ShellHook
    from ullage.observe.telemetry import Telemetry as Telemetry, TurnTelemetry

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
    "cache_monitor": "CacheMonitor",
    "events": "Event Listener",
    "hooks": "CallableHook HookReply Hooks Redactor ShellHook",
    "telemetry": "Telemetry TurnTelemetry",
}
if not TYPE_CHECKING:
    __getattr__, __dir__ = on_first_use(__name__, _HOMES)
