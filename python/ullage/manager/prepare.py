"""What a context manager does, as generators of effects: prepare a request, compact, recover from a refusal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

from ullage.compaction import CompactionResult
from ullage.compaction.api import job_of
from ullage.compaction.attachments import Providers
from ullage.compaction.cut import Direction
from ullage.compaction.flow import compaction_flow
from ullage.compaction.from_session_notes import SESSION_MEMORY
from ullage.compaction.prefetch import Ahead, fitted
from ullage.counting.window import FULL_WINDOW_TOKENS
from ullage.effects import Emit, Flow
from ullage.exceptions import (
    CompactionError,
    ContextTooLarge,
    InvalidMessage,
    InvalidPolicy,
    LogConflict,
)
from ullage.levels import (
    collapse,
    fold,
    hard_truncation,
    microcompact,
    model_tools,
    pipeline,
    provider_clearing,
    shrink_results,
)
from ullage.levels.drop_stale_thinking import end_torn_turn, unbind
from ullage.levels.report import StageReport
from ullage.manager.look_ahead import taken
from ullage.manager.machine import Machine
from ullage.manager.request_writer import Outgoing
from ullage.manager.restore_pins import put_back
from ullage.manager.values import Request
from ullage.observe.events import LevelActed
from ullage.policy import KeepPolicy

__all__ = ["Asked", "Host", "answered", "autocompact", "compact", "noted", "prepare"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """What belongs to the outside and is not saved: summarizer, stores, hooks, listeners.

    Attributes:
        summarizer: For compactions; `None`: extractive.
        line_summarizer: With a small model, for lines that stand for single tool results; `None`: put together by code.
        fallback: Who writes if that fails; `None`: the extractive one, for automatic compactions.
        offload: For large tool results; `None`: they stay, and are snipped.
        memory: Notes of the session, tried before a summary is written (AUTO-2); see `ullage.manager`. `None`: none.
        hooks: Of compactions.
        providers: What is put back after a compaction, and who reads files.
        options: Further fields of `compaction.job.Job`.
        listeners: Told of every event.
        ahead: Writes summaries ahead of need; `None`: nobody does.
        beside: The same for spans that a context collapse will need.
        logged: The conversation is in a log that holds what the history holds.
    """

    summarizer: Any = None
    line_summarizer: Any = None
    fallback: Any = None
    offload: Any = None
    memory: Any = None
    hooks: Any = None
    providers: Providers = field(default_factory=Providers)
    options: dict[str, Any] = field(default_factory=dict)
    listeners: tuple[Any, ...] = ()
    ahead: Ahead | None = None
    beside: Any = None
    logged: bool = False

    @property
    def store(self) -> Any:
        """Where a compaction is installed beside the view: nowhere, its lines are written when the call ends."""
        return None


def prepare(machine: Machine, host: Host, outgoing: Outgoing, now_ms: int | None) -> Flow[Request]:
    """Run every level and make what to send.

    Raises:
        ContextTooLarge: What must stay does not fit; names the floor.
        InvalidMessage: There is nothing to send.
    """
    if not len(machine.view):
        raise InvalidMessage("there is no message to send")
    outgoing.note_imported(machine)
    situation = machine.situation(host, now_ms)
    view, policy = machine.view, machine.policy
    note = partial(noted, machine)
    reports = yield from pipeline.run(view, policy, situation, machine.states, note, machine.levels)
    result, asked = None, machine.states[model_tools.STAGE].take()
    if asked is not None and machine.window.compaction:
        result, summed = yield from autocompact(
            machine, host, why="the model asked", instructions=asked
        )
        reports += [summed] if summed is not None else []
    elif machine.decide().compact:
        result, summed = yield from autocompact(machine, host)
        reports += [summed] if summed is not None else []
    if machine.collapse_failed():
        why = "context collapse could not make enough room"
        result, summed = yield from autocompact(machine, host, why=why)
        reports += [summed] if summed is not None else []
    if machine.window.compaction and machine.tokens > machine.last_resort_tokens:
        reports += yield from shorten(machine, machine.last_resort_tokens)
    if machine.manual_thinking and _may_be_torn(machine, reports):
        end_torn_turn(view)
    pinned = put_back(machine, reports)
    reports += [] if pinned is None else [(yield from noted(machine, pinned))]
    if machine.tokens > machine.window.prompt:
        raise ContextTooLarge(machine.tokens, machine.window.prompt, hint=_way_out(machine))
    return outgoing.request(machine, reports, result, situation.extras, now_ms)


def _way_out(machine: Machine) -> str:
    return "" if machine.window.compaction else "compaction is turned off: unset DISABLE_COMPACT"


def _may_be_torn(machine: Machine, reports: Sequence[StageReport]) -> bool:
    return bool(reports) or not machine.requests or machine.view.changed_from is not None


def noted(machine: Machine, report: StageReport) -> Flow[StageReport]:
    """A report, numbered, in the account and told to the listeners."""
    if report.first_changed is not None and machine.model.bound_thinking:
        if unbind(machine.view, report.first_changed):
            report = replace(report, tokens_after=int(machine.view.ledger.tokens()))
    report = replace(report, request=machine.requests + 1, cost=machine.cost_of(report))
    machine.reports.append(report)
    yield Emit(LevelActed(report=report))
    return report


def shorten(machine: Machine, limit: int) -> Flow[list[StageReport]]:
    """The last resorts before a request is sent: the fold, else hard truncation (AUTO-7, AUTO-9).

    What no cut can bring down, since the newest part alone is too large, is made smaller first (P-3).
    """
    overhead, margin = machine.overhead_tokens, machine.policy.truncate.margin_tokens
    # Levels measure by our estimate; the provider's figure for the same messages may be higher.
    size = int(machine.view.ledger.tokens()) + overhead
    ours = min(limit, limit * size // max(1, machine.tokens))
    # Each is noted before the next acts: where it changed something is a place in the view as it left it.
    squeezed = shrink_results.apply(machine.view, ours - overhead - margin)
    reports = yield from all_noted(machine, [squeezed])
    folded = None
    if machine.tokens > limit:
        folded = fold.apply(machine.view, machine.policy, ours, overhead, history=machine.history)
        reports += yield from all_noted(machine, [folded])
    if machine.tokens > limit and folded is None:
        reports += yield from all_noted(machine, [dropped(machine, ours)])
    return reports


def dropped(machine: Machine, limit: int) -> StageReport | None:
    """Whole rounds are dropped; where only the newest turn is left, it is folded and older words are shortened.

    Raises:
        ContextTooLarge: What must stay does not fit; names the floor.
    """
    view, overhead = machine.view, machine.overhead_tokens
    try:
        return hard_truncation.apply(view, limit, overhead, machine.policy.truncate.margin_tokens)
    except ContextTooLarge:
        report = fold.apply(
            view, machine.policy, limit, overhead, whole_words=False, history=machine.history
        )
        if report is None:
            raise
        return report


def all_noted(machine: Machine, reports: Sequence[StageReport | None]) -> Flow[list[StageReport]]:
    """Those of the levels that did something, each `noted`."""
    acted = []
    for report in reports:
        if report is not None:
            acted.append((yield from noted(machine, report)))  # noqa: PERF401 - a generator cannot yield inside a list
    return acted


# ---- context collapse ------------------------------------------------------------------------


def stage_ahead(machine: Machine, host: Host) -> Flow[int]:
    """Summaries of spans, made before they are needed (COL-1)."""
    room = pipeline.room_of(machine.situation(host, None))
    state, rules = machine.states[collapse.STAGE], machine.policy.collapse
    if not rules.enabled or room.percent(machine.view) < rules.stage_percent:
        return 0
    return (yield from collapse.stage_now(machine.view, machine.policy, room, state))


def stages_beside(machine: Machine, host: Host) -> bool:
    """Whether summaries of spans come from a model, and nobody is writing any: then they are asked for beside the conversation."""
    rules, state = machine.policy.collapse, machine.states[collapse.STAGE]
    return rules.enabled and not state.running and collapse.asks_outside(host.summarizer)


def expand(machine: Machine, collapse_id: str) -> Flow[StageReport]:
    """Put a collapsed span back (COL-4)."""
    state = machine.states[collapse.STAGE]
    report = collapse.expand(machine.view, state, collapse_id, machine.history)
    return (yield from noted(machine, report))


# ---- compactions -----------------------------------------------------------------------------


def autocompact(
    machine: Machine, host: Host, *, why: str = "summary", instructions: str = ""
) -> Flow[tuple[CompactionResult | None, StageReport | None]]:
    """An automatic compaction: memory first, then a full one. A failure is counted, never raised (AUTO-5)."""
    ready = None if instructions else (yield from taken(machine, host))
    base = list(machine.view.messages)
    job = job_for(machine, host, base, "auto", instructions=instructions)
    try:
        result = yield from compaction_flow(job if ready is None else fitted(job, ready))
    except CompactionError as exc:
        if exc.code == "aborted":
            raise
        machine.tracking.failed(str(exc))
        return None, None
    if result.outcome.value == "failed":
        machine.tracking.failed(result.reason)
    if not result.compacted:
        return result, None
    stage = SESSION_MEMORY if result.report.summarizer == SESSION_MEMORY else "autocompact"
    report = yield from _installed(machine, result, base, stage, why, automatic=True)
    _resized(machine, host)
    return result, report


class Asked(NamedTuple):
    """What a person or host asks of a compaction; see `ContextManager.compact`."""

    instructions: str = ""
    keep: KeepPolicy | int | None = None
    direction: Direction = "full"
    at: int | str | None = None
    target_tokens: int | None = None


def compact(machine: Machine, host: Host, asked: Asked) -> Flow[CompactionResult]:
    """A compaction that a person or host asked for; microcompact comes before it (FULL-6).

    Raises:
        CompactionError: It failed; nothing has changed.
        LogConflict: Something else rewrote the conversation meanwhile; nothing has changed.
    """
    # Before anything is changed: what is asked for may be wrong.
    job_for(machine, host, machine.view.messages, "manual", **_asked(machine, asked))
    if machine.window.compaction:
        yield from _shortened(machine, host)
    base = list(machine.view.messages)
    job = job_for(machine, host, base, "manual", **_asked(machine, asked))
    result = yield from compaction_flow(job)
    if result.compacted:
        report = yield from _installed(
            machine, result, base, "compact", "asked for", automatic=False
        )
        if report is None:
            raise LogConflict("the conversation changed while it was compacted")
        _resized(machine, host)
    return result


def _asked(machine: Machine, asked: Asked) -> dict[str, Any]:
    given: dict[str, Any] = {"instructions": asked.instructions, "direction": asked.direction}
    if asked.keep is not None:
        given["keep"] = asked.keep
    if asked.target_tokens is not None:
        given["target_tokens"] = asked.target_tokens
    if asked.at is not None:
        given["at"] = _place_of(machine, asked.at)
    return given


def _place_of(machine: Machine, at: int | str) -> int | str:
    """A position in the view; the view's messages have no uuids of their own."""
    view = machine.view
    if isinstance(at, str):
        found = next((place for place in range(len(view)) if view.uuid_at(place) == at), None)
        if found is None:
            raise InvalidPolicy(
                "at", at, "must be the uuid of a message in the context, or its position"
            )
        return found
    return at + len(view) if at < 0 else at


def _shortened(machine: Machine, host: Host) -> Flow[None]:
    """Old results that can be had again become short, whatever the fill: the summary is of what matters."""
    view, policy = machine.view, machine.policy
    if provider_clearing.comes_first(view, policy, machine.provider, machine.model):
        return
    pressure = microcompact.Pressure(
        100, 0, machine.overhead_tokens, machine.now_ms, host.line_summarizer
    )
    state = machine.states[microcompact.STAGE]
    report = yield from microcompact.flow(view, policy, pressure, state)
    if report is not None:
        yield from noted(machine, report)


def _resized(machine: Machine, host: Host) -> None:
    if host.memory is not None:
        host.memory.compacted(machine.tokens)


def answered(machine: Machine, host: Host, response: Mapping[str, Any]) -> None:
    """Tell the session's notes of a response; they work beside, and this returns at once."""
    if host.memory is not None:
        host.memory.answered(
            response,
            machine.view.messages,
            tokens=machine.tokens,
            source=machine.source,
            history=machine.history,
        )


def job_for(machine: Machine, host: Host, base: Sequence[Any], trigger: Any, **more: Any) -> Any:
    options = {
        "window_tokens": machine.window.context,
        "trigger_tokens": _trigger_estimated(machine),
        "weights": machine.view.weights,
        "overhead_tokens": machine.overhead_tokens,
        "memory": host.memory,
        "disabled": not machine.window.compaction,
        "keep": _share_kept(machine),
        "thinking": machine.thinking if machine.manual_thinking else None,
        "source": machine.source,
        "turns_since": machine.tracking.turns_since,
        "previous_turn_id": _shown_turn(machine.tracking.compacted_turn),
        **{name: value for name, value in host.options.items() if value is not None},
        **more,
    }
    return job_of(
        base,
        summarizer=host.summarizer,
        fallback=host.fallback,
        trigger=trigger,
        hooks=host.hooks,
        providers=host.providers,
        pins=machine.pins.values(),
        policy=machine.policy,
        **options,
    )


def _shown_turn(turn: int | None) -> str:
    return "" if turn is None else str(turn)


def _trigger_estimated(machine: Machine) -> int:
    """The trigger, in a small window in tokens of our estimate: what a provider counts beyond it is much of so little room."""
    trigger = machine.trigger()
    if machine.window.prompt >= FULL_WINDOW_TOKENS:
        return trigger
    estimated = int(machine.view.ledger.tokens()) + machine.overhead_tokens
    return min(trigger, trigger * estimated // max(1, machine.tokens))


def _share_kept(machine: Machine) -> int | None:
    """Tokens to keep so that a compaction by share ends at its target (PIPE-4); `None`: as the keep policy says."""
    auto = machine.policy.auto
    if not auto.start_percent:
        return None
    target = machine.trigger() * auto.target_percent // 100 - machine.overhead_tokens
    # A quarter is the summary's own room.
    return max(0, target) * 3 // 4


def _installed(
    machine: Machine,
    result: CompactionResult,
    base: Sequence[Any],
    stage: str,
    why: str,
    *,
    automatic: bool,
) -> Flow[StageReport | None]:
    report = machine.install(result, base, stage=stage, why=why)
    if report is None:
        machine.tracking.failed("the conversation changed meanwhile")
        return None
    refill_turns = machine.policy.auto.refill_turns
    machine.tracking.compacted(refill_turns=refill_turns, automatic=automatic)
    return (yield from noted(machine, report))
