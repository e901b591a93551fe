"""Preparing a request, and what levels do between requests, as generators of effects."""

from __future__ import annotations

from ullage.effects import Flow
from ullage.exceptions import ContextTooLarge, InvalidMessage
from ullage.levels import collapse, pipeline
from ullage.levels.collapse import Collapse
from ullage.levels.drop_stale_thinking import after
from ullage.levels.level import Goal
from ullage.levels.report import StageReport
from ullage.manager.compactions import Autocompaction, job_for
from ullage.manager.host import Host
from ullage.manager.look_ahead import look_ahead
from ullage.manager.machine import Machine
from ullage.manager.request_writer import RequestWriter
from ullage.manager.values import Request

__all__ = ["at_rest", "expand", "prepare", "stage_ahead", "write_ahead"]


def prepare(
    machine: Machine,
    host: Host,
    writer: RequestWriter,
    now_ms: int | None,
    *,
    at_rest: bool = False,
) -> Flow[Request]:
    """Run every level and build the request; `at_rest`: see `pipeline.run`.

    Raises:
        ContextTooLarge: What has to stay does not fit; names the smallest possible size.
        InvalidMessage: There is nothing to send.
    """
    if not len(machine.view):
        raise InvalidMessage("there is no message to send")
    writer.note_imported(machine)
    compaction = machine.window.compaction
    goal = Goal(machine.last_resort_tokens if compaction else None)
    compactor = Autocompaction(machine, host)
    context = machine.context(host, now_ms, goal=goal, compactor=compactor)
    yield from pipeline.run(machine.levels, context, machine.noted, at_rest=at_rest)
    compactor.ended()
    if context.tokens() > machine.window.prompt:
        hint = "" if compaction else "compaction is turned off: unset DISABLE_COMPACT"
        raise ContextTooLarge(context.tokens(), machine.window.prompt, hint=hint)
    return writer.request(machine, context.reports, compactor.result, context.extras, now_ms=now_ms)


def at_rest(machine: Machine, writer: RequestWriter, tokens: int, now_ms: int | None) -> Request:
    """Build the request, of this size, where no level has anything to do."""
    writer.note_imported(machine)
    machine.now_ms = now_ms
    return writer.request(machine, now_ms=now_ms, tokens=tokens)


# ---- context collapse ------------------------------------------------------------------------


def stage_ahead(machine: Machine, host: Host) -> Flow[int]:
    """Write summaries of spans before they are needed (COL-1)."""
    context, rules = machine.context(host, None), machine.policy.collapse
    if not rules.enabled or collapse.percent(context) < rules.stage_percent:
        return 0
    return (yield from collapse.stage_now(context))


def write_ahead(machine: Machine, host: Host, *, asynchronous: bool) -> None:
    """Have written in the background what will be needed soon: a summary of the whole, or of spans if a model writes these."""
    if host.ahead is not None:
        look_ahead(machine, host, job_for, asynchronous=asynchronous)
    if not machine.policy.collapse.enabled or not collapse.asks_outside(host.summarizer):
        return
    if not machine.state(Collapse).running:
        host.beside.start(stage_ahead(machine, host), host, in_loop=asynchronous)


def expand(machine: Machine, writer: RequestWriter, collapse_id: str) -> Flow[StageReport]:
    """Put a collapsed span back (COL-4)."""
    writer.note_imported(machine)
    view, state = machine.view, machine.state(Collapse)
    report = collapse.expand(view, state, collapse_id, machine.history)
    return (yield from machine.noted(after(report, view, machine.model)))
