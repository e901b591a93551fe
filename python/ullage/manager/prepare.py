"""Preparing a request, and what levels do between requests, as generators of effects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ullage.effects import Flow
from ullage.exceptions import ContextTooLarge, InvalidMessage
from ullage.levels import collapse, pipeline
from ullage.levels.collapse import Collapse
from ullage.levels.drop_stale_thinking import after
from ullage.levels.level import NEVER, Goal, Level, Rest
from ullage.levels.microcompact import newest_answer_ms
from ullage.levels.view import NESTED_MEDIA, StageReport, is_replaced
from ullage.manager.compactions import Autocompaction, job_for, look_ahead
from ullage.manager.known import Host
from ullage.manager.machine import Machine
from ullage.manager.request_writer import RequestWriter
from ullage.manager.values import Recovery, Request

if TYPE_CHECKING:
    from ullage.providers.errors import Classified


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
    if not machine.policy.collapse.enabled:
        return
    # Writers of summaries load where a collapse may ask one.
    from ullage.levels.collapse import asks_outside

    if asks_outside(host.summarizer) and not machine.state(Collapse).running:
        host.beside.start(stage_ahead(machine, host), host, in_loop=asynchronous)


def expand(machine: Machine, writer: RequestWriter, collapse_id: str) -> Flow[StageReport]:
    """Put a collapsed span back (COL-4)."""
    writer.note_imported(machine)
    view, state = machine.view, machine.state(Collapse)
    report = collapse.expand(view, state, collapse_id, machine.history)
    return (yield from machine.noted(after(report, view, machine.model)))


# The last resorts after a provider refused a request as too long (AUTO-6, AUTO-7, WIN-6).
#
# The levels that can drain are asked in their order, each once per request: staged collapses, a full compaction, the same in
# parts, a fold without a model, hard truncation; then a typed error. A step that makes enough room ends the round; the next
# refusal of the same request goes on with the step after it.


ENOUGH_PERCENT = 95
"""Percent of the refused size to get below where the error names no gap: any less is hardly a step."""

OUTPUT = "output"
"""In `Machine.steps_tried`: a smaller output was asked for; where that is refused too, room is made."""


def recover(machine: Machine, host: Host, writer: RequestWriter, error: Any) -> Flow[Recovery]:
    """Make room after a refusal.

    Returns:
        False (as a truth value) where the error is another one.

    Raises:
        ContextTooLarge: Every step was tried and what must stay is still too much.
    """
    from ullage.providers.errors import classify

    found = classify(error, provider=machine.provider)
    if found.is_overflow:
        writer.note_imported(machine)
    if machine.recovered != machine.requests:
        machine.recovered, machine.steps_tried = machine.requests, []
    if found.kind == "output_budget":
        smaller = _smaller_output(found)
        if smaller is not None and OUTPUT not in machine.steps_tried:
            machine.steps_tried.append(OUTPUT)
            return Recovery(found.kind, max_tokens=smaller)
    if not found.is_overflow:
        return Recovery(found.kind)
    machine.learn(found.learned_limit)
    goal = _goal(machine, found)
    compactor = Autocompaction(machine, host)
    context = machine.context(host, None, goal=Goal(goal, refused=True), compactor=compactor)
    before = context.estimated()
    for name, drains in pipeline.resorts(machine.levels) if machine.window.compaction else ():
        if name in machine.steps_tried:
            continue
        machine.steps_tried.append(name)
        for drain in drains:
            yield from pipeline.take(drain(context), context, machine.noted)
        compactor.ended()
        now = context.estimated()
        if now < before and now <= goal:
            freed, reports = before - now, tuple(context.reports)
            return Recovery(found.kind, name, freed, found.learned_limit, reports)
    floor = context.estimated()
    hint = "start a new conversation or a model with more room"
    if not machine.window.compaction:
        hint = "compaction is turned off: unset DISABLE_COMPACT"
    raise ContextTooLarge(floor, min(goal, machine.window.prompt), hint=hint)


def _smaller_output(found: Classified) -> int | None:
    """The most output that the error leaves room for; `None`: it does not say, or that is none."""
    if found.output_limit_tokens is not None:
        return found.output_limit_tokens
    if found.used_tokens is None or found.limit_tokens is None:
        return None
    left = found.limit_tokens - found.used_tokens
    return left if left > 0 else None


def _goal(machine: Machine, found: Classified) -> int:
    """Estimated tokens to get below: what was refused less the gap, or a share of it."""
    estimated = machine.estimated()
    enough = estimated * ENOUGH_PERCENT // 100
    if found.gap_tokens and found.used_tokens:
        # The gap is in the provider's tokens; our estimate of the same request may be larger or smaller.
        return min(enough, estimated - -(-found.gap_tokens * estimated // found.used_tokens))
    return enough if found.learned_limit is None else min(enough, found.learned_limit)


# Whether any level has anything to do for the next request: one look at the marks that they have stated, instead of asking each.


class Marks:
    """Marks hold from one request to the next, while messages are only added.

    Args:
        levels: In order.

    Attributes:
        suffice: All of them state marks; else the others are asked for every request.
        tokens: Size of the next request, as `hold` has just found it.
    """

    def __init__(self, levels: Sequence[Level]) -> None:
        self.suffice = all(level.rest is not None for level in levels)
        self._rules: tuple[Any, ...] = ()
        self._edits, self.tokens = -1, 0

    def begin(self, machine: Machine) -> None:
        """A request was just made, by whichever way."""
        self._edits = machine.view.edits

    def forget(self) -> None:
        """Ask every level for the next request."""
        self._edits = -1

    def hold(self, machine: Machine, host: Host, now_ms: int | None) -> bool:
        """Whether no level that has stated marks has anything to do. Then they count as asked; see `Machine.settle`."""
        view = machine.view
        if self._edits != view.edits or not machine.requests:
            return False
        rest = self._rest(machine, host)
        fill, self.tokens = machine.sizes()
        if not rest.least_fill <= fill < rest.fill or self.tokens >= rest.tokens:
            return False
        if rest.pause_ms < NEVER.pause_ms and self._paused(machine, rest.pause_ms, now_ms):
            return False
        return _results_pass(machine, rest)

    def _rest(self, machine: Machine, host: Host) -> Rest:
        rules = machine.policy, machine.window, machine.model, machine.tools, machine.thinking, host
        known = machine.rest
        # They are mostly the same objects, of which none is looked into.
        if known is None or rules != self._rules:
            known = machine.rest = _resting(machine, host)
            self._rules = rules
        return known

    @staticmethod
    def _paused(machine: Machine, pause_ms: int, now_ms: int | None) -> bool:
        return now_ms is not None and 0 < newest_answer_ms(machine.view) <= now_ms - pause_ms


def _resting(machine: Machine, host: Host) -> Rest:
    """Until when no level acts, and the request fits."""
    goal = Goal(machine.last_resort_tokens if machine.window.compaction else None)
    context = machine.context(host, None, goal=goal, compactor=Autocompaction(machine, host))
    if context.view.changed_from is not None:
        return Rest(fill=0)
    fits = Rest(tokens=machine.window.prompt + 1)
    return fits.both(pipeline.resting(machine.levels, context))


def _results_pass(machine: Machine, rest: Rest) -> bool:
    """Whether no new result is empty, or longer than a mark allows; then the model is shown them whole."""
    view, shown, chars = machine.view, list[str](), 0
    for name, _, _, _, _, length, _, flags in view.ledger.results(view.sent):
        chars += length
        if length > rest.result_chars or chars > rest.message_chars:
            return False
        if flags & NESTED_MEDIA and view.images() > rest.images:
            return False
        if name in view.whole or name in view.decisions or is_replaced(length, flags):
            continue
        if not length:
            return False
        shown.append(name)
    view.whole.update(dict.fromkeys(shown))
    if machine.skipped_from is None:
        machine.skipped_from = view.sent
    return True
