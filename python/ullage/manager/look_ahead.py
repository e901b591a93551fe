"""When a context manager has a summary written ahead of need, and how it takes it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ullage.effects import Call, Flow
from ullage.manager.due import decided
from ullage.manager.machine import Machine

if TYPE_CHECKING:
    from ullage.compaction.job import Job
    from ullage.compaction.prefetch import Prewritten

__all__ = ["look_ahead", "taken"]

SLICE_SECONDS = 0.2
"""Of the wait for a summary that is being written: between two, a cancel is seen."""


def look_ahead(
    machine: Machine, host: Any, job_for: Callable[..., Job], *, asynchronous: bool
) -> None:
    """Starts a summary where the context has reached the soft threshold, and none is there.

    Nothing is written ahead for a summarizer without a model (it takes milliseconds), where session
    notes come first, or where PreCompact hooks have a say about the instructions.
    """
    ahead, percent = host.ahead, machine.policy.auto.background_percent
    if ahead is None or percent == 0 or not _wanted(host):
        return
    ahead.drop_outdated(machine.view.messages)
    found = decided(machine)
    if machine.tracking.model_rests(machine.policy.auto):
        return
    if ahead.busy or found.code != "below" or found.tokens * 100 < found.limit_tokens * percent:
        return
    job = job_for(machine, host, list(machine.view.messages), "auto")
    from ullage.observe.events import BackgroundStarted

    event = BackgroundStarted(tokens=found.tokens, trigger_tokens=found.limit_tokens)
    for listener in host.listeners:
        with suppress(Exception):
            listener(event)
    ahead.start(job, in_loop=asynchronous)


def _wanted(host: Any) -> bool:
    local = host.summarizer is None or getattr(host.summarizer, "local", False) is True
    hooks = host.hooks
    before = (
        hooks.get("pre_compact") if isinstance(hooks, dict) else getattr(hooks, "pre_compact", ())
    )
    return not (local or host.summarizer == "extractive" or host.memory is not None or before)


def taken(machine: Machine, host: Any) -> Flow[Prewritten | None]:
    """The summary that was written ahead, if it still fits; one that is being written is waited for."""
    if host.ahead is None:
        return None
    left = float(machine.policy.summary.deadline_seconds)
    while host.ahead.running and left > 0:
        yield Call(host.ahead.wait, (SLICE_SECONDS,))
        left -= SLICE_SECONDS
    found: Prewritten | None = host.ahead.take(machine.view.messages)
    return found
