"""Preparing a request, and what levels do between requests, as generators of effects; compactions, automatic and on demand, and their installation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ullage.compaction.effects_runner import Performer
from ullage.counting.window import FULL_WINDOW_TOKENS
from ullage.effects import Call, Emit, Flow, LetOthersRun
from ullage.exceptions import (
    CompactionError,
    ContextTooLarge,
    InvalidMessage,
    InvalidPolicy,
    LogConflict,
)
from ullage.levels import collapse, fold, microcompact, pipeline, truncate
from ullage.levels.collapse import Collapse, asks_outside
from ullage.levels.cost import idle_pays, life_ms
from ullage.levels.drop_stale_thinking import after
from ullage.levels.level import NEVER, Goal, Level, Rest
from ullage.levels.view import NESTED_MEDIA, Made, StageReport, View, is_replaced
from ullage.manager.known import Host
from ullage.manager.machine import Machine, can_compact, decided, obstacle
from ullage.manager.request_writer import RequestWriter
from ullage.manager.values import Recovery, Request
from ullage.policy import KeepPolicy

if TYPE_CHECKING:
    from ullage.compaction import CompactionResult
    from ullage.compaction.job import Direction, Job
    from ullage.compaction.prefetch import Prewritten
    from ullage.providers.errors import Classified


def prepare(
    machine: Machine, host: Host, writer: RequestWriter, marks: Marks, now_ms: int | None
) -> Flow[Request]:
    """Run every level, or those alone that state no marks where the others have nothing to do, and build the request."""
    if not len(machine.view):
        raise InvalidMessage("there is no message to send")
    # Where the marks suffice, they were looked at before anything was prepared.
    resting = not marks.suffice and marks.hold(machine, host, now_ms)
    writer.note_imported(machine)
    compaction = machine.window.compaction
    goal = Goal(machine.last_resort_tokens if compaction else None)
    compactor = Autocompaction(machine, host)
    context = machine.context(host, now_ms, goal=goal, compactor=compactor)
    yield from pipeline.run(machine.levels, context, machine.noted, at_rest=resting)
    compactor.ended()
    tokens = context.tokens()
    if tokens > machine.window.prompt:
        hint = "" if compaction else "compaction is turned off: unset DISABLE_COMPACT"
        raise ContextTooLarge(tokens, machine.window.prompt, hint=hint)
    return writer.request(
        machine, context.reports, compactor.result, context.extras, now_ms=now_ms, tokens=tokens
    )


def at_rest(machine: Machine, writer: RequestWriter, tokens: int, now_ms: int | None) -> Request:
    """Build the request, of this size, where no level has anything to do."""
    writer.note_imported(machine)
    machine.now_ms = now_ms
    return writer.request(machine, now_ms=now_ms, tokens=tokens)


def rest_again(machine: Machine, writer: RequestWriter, tokens: int, now_ms: int | None) -> None:
    """Make a request again that was made at rest, with the same effects, whatever the levels' marks are now."""
    _results_pass(machine, NEVER)
    at_rest(machine, writer, tokens, now_ms)


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
        look_ahead(machine, host, asynchronous=asynchronous)
    if not machine.policy.collapse.enabled:
        return
    if asks_outside(host.summarizer) and not machine.state(Collapse).running:
        host.background.start(stage_ahead(machine, host), host, in_loop=asynchronous)


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
    """Make room after a refusal; the result is false where the error is another one."""
    from ullage.providers.errors import classify

    classified = classify(error, provider=machine.provider)
    if classified.is_overflow:
        writer.note_imported(machine)
    if machine.recovered != machine.requests:
        machine.recovered, machine.steps_tried = machine.requests, []
    if classified.kind == "output_budget":
        smaller = _smaller_output(classified)
        if smaller is not None and OUTPUT not in machine.steps_tried:
            machine.steps_tried.append(OUTPUT)
            return Recovery(classified.kind, max_tokens=smaller)
    if not classified.is_overflow:
        return Recovery(classified.kind)
    machine.learn(classified.learned_limit)
    goal = _goal(machine, classified)
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
            return Recovery(classified.kind, name, freed, classified.learned_limit, reports)
    floor = context.estimated()
    hint = "start a new conversation or a model with more room"
    if not machine.window.compaction:
        hint = "compaction is turned off: unset DISABLE_COMPACT"
    raise ContextTooLarge(floor, min(goal, machine.window.prompt), hint=hint)


def _smaller_output(classified: Classified) -> int | None:
    """The most output that the error leaves room for; `None`: it does not say, or that is none."""
    if classified.output_limit_tokens is not None:
        return classified.output_limit_tokens
    if classified.used_tokens is None or classified.limit_tokens is None:
        return None
    left = classified.limit_tokens - classified.used_tokens
    return left if left > 0 else None


def _goal(machine: Machine, classified: Classified) -> int:
    """Estimated tokens to get below: what was refused less the gap, or a share of it."""
    estimated = machine.estimated()
    enough = estimated * ENOUGH_PERCENT // 100
    if classified.gap_tokens and classified.used_tokens:
        # The gap is in the provider's tokens; our estimate of the same request may be larger or smaller.
        return min(
            enough, estimated - -(-classified.gap_tokens * estimated // classified.used_tokens)
        )
    return enough if classified.learned_limit is None else min(enough, classified.learned_limit)


# Whether any level has anything to do for the next request: one look at the marks that they have stated, instead of asking each.


class Marks:
    """Marks hold from one request to the next, while messages are only added.

    Attributes:
        suffice: All levels state marks; else those that do not are asked for every request.
        tokens: Size of the next request, as `hold` has just found it.
        edits: Of the view when a request was just made, by whichever way; -1: ask every level for the next one.
    """

    def __init__(self, levels: Sequence[Level]) -> None:
        self.suffice = all(level.rest is not None for level in levels)
        self._rules: tuple[Any, ...] = ()
        self.edits, self.tokens = -1, 0

    def forget(self) -> None:
        """Ask every level for the next request."""
        self.edits = -1

    def hold(self, machine: Machine, host: Host, now_ms: int | None) -> bool:
        """Whether no level that has stated marks has anything to do. Then they count as asked; see `Machine.settle`."""
        view, until = machine.view, machine.resting_until
        if self.edits != view.edits or not machine.requests:
            return False
        rules = machine.policy, machine.window, machine.model, machine.tools, machine.thinking, host
        # They are mostly the same objects, of which none is looked into.
        if until is None or rules != self._rules:
            until = machine.resting_until = _resting(machine, host)
            self._rules = rules
        fill, self.tokens = machine.sizes()
        if not until.least_fill <= fill < until.fill or self.tokens >= until.tokens:
            return False
        if until.pause_ms < NEVER.pause_ms and now_ms is not None:
            if 0 < view.answered_ms() <= now_ms - until.pause_ms:
                return False
        return _results_pass(machine, until)


def _resting(machine: Machine, host: Host) -> Rest:
    """Until when no level acts, and the request fits."""
    goal = Goal(machine.last_resort_tokens if machine.window.compaction else None)
    context = machine.context(host, None, goal=goal, compactor=Autocompaction(machine, host))
    if context.view.changed_from is not None:
        return Rest(fill=0)
    fits = Rest(tokens=machine.window.prompt + 1)
    return fits.both(pipeline.resting(machine.levels, context))


def _results_pass(machine: Machine, until: Rest) -> bool:
    """Whether no new result is empty, or longer than a mark allows; then the model is shown them whole."""
    view, chars = machine.view, 0
    shown: list[str] = []
    fits = view.fresh_longest <= until.result_chars and view.fresh_chars <= until.message_chars
    # Mostly all that is new came plainly.
    plain = fits and view.closely <= view.sent
    if plain:
        shown = view.fresh
    for name, _, _, _, _, length, _, flags in () if plain else view.ledger.results(view.sent):
        chars += length
        if length > until.result_chars or chars > until.message_chars:
            return False
        if flags & NESTED_MEDIA and view.images() > until.images:
            return False
        if name in view.whole or name in view.decisions or is_replaced(length, flags):
            continue
        if not length:
            return False
        shown.append(name)
    for name in shown:
        view.whole[name] = None
    if machine.skipped_from is None:
        machine.skipped_from = view.sent
    return True


# When a context manager has a summary written ahead of need, and how it takes it.


SLICE_SECONDS = 0.2
"""Of the wait for a summary that is being written: between two, a cancel is seen."""


def look_ahead(machine: Machine, host: Host, *, asynchronous: bool) -> None:
    """Starts a summary where the context has reached the soft threshold, and none is there.

    Nothing is written ahead for a summarizer without a model (it takes milliseconds), where session
    notes come first, or where PreCompact hooks have a say about the instructions.
    """
    ahead, percent, hooks = host.ahead, machine.policy.auto.background_percent, host.hooks
    if ahead is None or percent == 0 or host.memory is not None:
        return
    before = (
        hooks.get("pre_compact") if isinstance(hooks, dict) else getattr(hooks, "pre_compact", ())
    )
    if before or not asks_outside(host.summarizer):
        return
    ahead.drop_outdated(machine.view.messages)
    decision = decided(machine)
    near = decision.tokens * 100 >= decision.limit_tokens * percent
    if ahead.busy or decision.code != "below" or not near:
        return
    if machine.tracking.model_rests(machine.policy.auto):
        return
    job = job_for(machine, host, _base(machine), "auto")
    from ullage.observe.events import BackgroundStarted

    event = BackgroundStarted(tokens=decision.tokens, trigger_tokens=decision.limit_tokens)
    Performer(host.listeners)(Emit(event))
    ahead.start(job, in_loop=asynchronous)


def take_prewritten(machine: Machine, host: Host) -> Flow[Prewritten | None]:
    """The summary that was written ahead, if it still fits; one that is being written is waited for."""
    if host.ahead is None:
        return None
    left = float(machine.policy.summary.deadline_seconds)
    while host.ahead.running and left > 0:
        yield Call(host.ahead.wait, (SLICE_SECONDS,))
        left -= SLICE_SECONDS
    return host.ahead.take(machine.view.messages)


class Autocompaction:
    """What the level `autocompact` uses to summarise; `result` is that of the newest try, `None` if it failed or there was none."""

    def __init__(self, machine: Machine, host: Host) -> None:
        self._machine, self._host = machine, host
        self.result: CompactionResult | None = None

    @property
    def possible(self) -> bool:
        """Compaction is not switched off."""
        return self._machine.window.compaction

    @property
    def least_tokens(self) -> int:
        """Below this size nothing automatic is due."""
        machine = self._machine
        least = min(machine.window.threshold, machine.window.effective, machine.last_resort_tokens)
        return min(least, idle_mark(machine) or least)

    def due(self, tokens: int) -> bool:
        """Whether an automatic compaction is due at this size (WIN-5, AUTO-1), or pays since the cache has run out (COST-3)."""
        machine = self._machine
        if tokens >= machine.window.threshold and can_compact(machine):
            return True
        now_ms = machine.now_ms
        if now_ms is None or not 0 < idle_mark(machine) <= tokens:
            return False
        return 0 < _idle_end(machine, self._host, tokens, cold=True) < now_ms

    def due_at_last(self, tokens: int) -> bool:
        """Whether context collapse could not make enough room, or there is none left while compactions rest (AUTO-7)."""
        machine = self._machine
        if tokens <= min(machine.window.effective, machine.last_resort_tokens):
            return False
        waits = obstacle(machine)[0] in ("collapse", "refills")
        return waits and not obstacle(machine, last_resort=True)[0]

    def compact(self, *, why: str = "summary", instructions: str = "") -> Flow[StageReport | None]:
        """Memory first, then a full summary. A failure is counted, never raised."""
        from ullage.compaction.flow import compaction_flow
        from ullage.compaction.job import SESSION_MEMORY

        machine, host = self._machine, self._host
        self.result = None
        if why == "summary" and machine.tokens < machine.window.threshold:
            why = "the provider's cache has run out"
        ready = None if instructions else (yield from take_prewritten(machine, host))
        base = _base(machine)
        job = job_for(machine, host, base, "auto", instructions=instructions)
        rests = job.fallback is not None and machine.tracking.model_rests(machine.policy.auto)
        if rests and job.fallback is not None:
            job = replace(job, summarizer=job.fallback, fallback=None)
        try:
            if ready is not None:
                job = replace(job, summarizer=ready, direction="up_to", at=ready.at, keep=None)
            result = yield from compaction_flow(job)
        except CompactionError as exc:
            if exc.code == "aborted":
                raise
            machine.tracking.failed(str(exc))
            return None
        self.result = result
        if result.outcome.value == "failed":
            machine.tracking.failed(result.reason)
        if not result.compacted:
            return None
        by_notes = result.report.summarizer == SESSION_MEMORY
        if rests:
            machine.tracking.model_rested += 1
        elif not by_notes:
            machine.tracking.model_wrote(result.report.summarizer_failure)
        stage = SESSION_MEMORY if by_notes else "autocompact"
        return _installed(machine, result, base, stage, why, automatic=True)

    def ended(self) -> None:
        """After all levels: notes of the session count growth from the new size, with what came back after a compaction."""
        if self.result is not None and self.result.compacted:
            _resized(self._machine, self._host)


# Compaction between two requests, where the next one finds the provider's cache run out (COST-3).


LEAD_MS = 45_000
"""A model's summary is asked for so long before the cache runs out: its call still reads the conversation from there."""

USUAL_IDLE_PERCENT = 50
"""Of the trigger, where a host asks and the policy has no mark of its own."""


def idle_mark(machine: Machine) -> int:
    """Tokens from which a request is preceded by a compaction where the cache has run out; 0: none is."""
    return machine.window.threshold * machine.policy.auto.idle_percent // 100


def idle_from(machine: Machine, host: Host) -> int | None:
    """From when on a compaction while idle pays, in milliseconds since the epoch; `None`: it does not, or no time is known."""
    percent = machine.policy.auto.idle_percent or USUAL_IDLE_PERCENT
    if machine.tokens * 100 < machine.window.threshold * percent:
        return None
    end = _idle_end(machine, host, machine.tokens, cold=False)
    lead = LEAD_MS if asks_outside(host.summarizer) else 0
    return end - min(lead, life_ms(machine.model, machine.policy)) if end else None


def _idle_end(machine: Machine, host: Host, tokens: int, *, cold: bool) -> int:
    """When the provider's cache runs out, if nothing speaks against a compaction, none was made a moment ago, and it pays; else 0, also for an unknown time."""
    model, policy, since = machine.model, machine.policy, machine.tracking.turns_since
    # Used when the newest request was made, or else when its answer came.
    sent = machine.records[-1].at_ms if machine.records else None
    used, life = sent or machine.view.answered_ms(), life_ms(model, policy)
    recent = since is not None and since <= policy.auto.refill_turns
    if not used or not life or recent or not can_compact(machine):
        return 0
    overhead, asks = machine.overhead_tokens, asks_outside(host.summarizer)
    pays = idle_pays(tokens, model, policy, overhead_tokens=overhead, asks=asks, cold=cold)
    return used + life if pays else 0


def compact_idle(machine: Machine, host: Host, now_ms: int | None) -> Flow[StageReport | None]:
    """Compact where that pays now; `None`: it does not, or nothing was installed."""
    at_ms = idle_from(machine, host)
    if at_ms is None or now_ms is None or now_ms < at_ms:
        return None
    compactor = Autocompaction(machine, host)
    report = yield from compactor.compact(why="nobody works on it, and the cache runs out")
    if report is None:
        return None
    report = yield from machine.noted(after(report, machine.view, machine.model))
    compactor.ended()
    return report


def compact(
    machine: Machine,
    host: Host,
    writer: RequestWriter,
    instructions: str,
    keep: KeepPolicy | int | None,
    direction: Direction,
    at: int | str | None,
    target_tokens: int | None,
) -> Flow[CompactionResult]:
    """A compaction that a user or host requested; microcompact runs before it. See `ContextManager.compact`."""
    from ullage.compaction.assemble import check_target
    from ullage.compaction.cut import prepare
    from ullage.compaction.flow import compaction_flow

    if machine.window.compaction:
        writer.note_imported(machine)
        yield LetOthersRun()
    place = None if at is None else _place_of(machine.view, at)
    stated: dict[str, Any] = {"keep": keep, "target_tokens": target_tokens, "at": place}
    asked = {name: value for name, value in stated.items() if value is not None}
    asked |= {"instructions": instructions, "direction": direction}
    # Before anything is changed: what is asked for may be wrong, or a target too small.
    job = job_for(machine, host, _base(machine), "manual", **asked)
    if target_tokens is not None and machine.window.compaction and machine.view.messages:
        check_target(prepare(job))
    if machine.window.compaction:
        yield LetOthersRun()
        # Old results that can be fetched again are shortened, however full the window is, so that the summary covers what matters.
        context = machine.context(host, machine.now_ms)
        whatever = replace(context, window_tokens=0, source="main", tools=frozenset())
        yield from pipeline.take(microcompact.LEVEL.run(whatever), whatever, machine.noted)
        yield LetOthersRun()
    base = _base(machine)
    result = yield from compaction_flow(job_for(machine, host, base, "manual", **asked))
    if result.compacted:
        report = _installed(machine, result, base, "compact", "asked for", automatic=False)
        if report is None:
            raise LogConflict("the conversation changed while it was compacted")
        yield from machine.noted(report)
        _resized(machine, host)
    return result


def _place_of(view: View, at: int | str) -> int:
    """A position in the view; the view's messages have no uuids of their own."""
    if not isinstance(at, str):
        return at + len(view) if at < 0 else at
    for place in range(len(view)):
        if view.uuid_at(place) == at:
            return place
    limit = "must be the uuid of a message in the context, or its position"
    raise InvalidPolicy("at", at, limit)


def _resized(machine: Machine, host: Host) -> None:
    if host.memory is not None:
        host.memory.compacted(machine.tokens)


def _base(machine: Machine) -> Sequence[Any]:
    """The context to compact, with what the records, placeholders and marks of levels in it stand for."""
    view, originals = machine.view, dict[int, list[Any]]()
    names = {at: key.partition(":") for at, key in enumerate(view.sources) if isinstance(key, str)}
    commits = machine.state(Collapse).commits
    collapsed = {
        at: commits[name].positions
        for at, (stage, _, name) in names.items()
        if stage == collapse.STAGE and name in commits
    }
    apart = {place for places in collapsed.values() for place in places}
    for at, (stage, _, _) in names.items():
        places = collapsed.get(at, [])
        if stage in (fold.STAGE, truncate.STAGE):
            before = (place for place in view.sources[:at] if isinstance(place, int))
            later = (place for place in view.sources[at:] if isinstance(place, int))
            between = range(max(before, default=-1) + 1, next(later, len(machine.history)))
            places = [place for place in between if place not in apart]
        if places:
            originals[at] = [machine.history[place] for place in places]
    if not originals:
        return list(view.messages)
    from ullage.compaction.cut import ReadItems

    return ReadItems.with_originals(view.messages, originals)


def job_for(machine: Machine, host: Host, base: Sequence[Any], trigger: Any, **more: Any) -> Job:
    """The job of compacting these messages, from the state machine and the host's settings."""
    from ullage.compaction.api import job_of

    turn = machine.tracking.compacted_turn
    options = {
        "window_tokens": machine.window.context,
        "trigger_tokens": machine.window.threshold,
        "limit_tokens": _trigger_estimated(machine),
        "context_tokens": machine.tokens,
        "permille": machine.correction.permille,
        "microcompacted": True,
        "weights": machine.view.weights,
        "overhead_tokens": machine.overhead_tokens,
        "memory": host.memory,
        "disabled": not machine.window.compaction,
        "keep": _share_kept(machine),
        "target_tokens": (machine.policy.auto.target_tokens or None) if trigger == "auto" else None,
        "thinking": machine.thinking if machine.manual_thinking else None,
        "source": machine.source,
        "turns_since": machine.tracking.turns_since,
        "previous_turn_id": "" if turn is None else str(turn),
        **{name: value for name, value in host.options.items() if value is not None},
        **more,
    }
    return job_of(
        base,
        summarizer=host.summarizer,
        fallback=host.fallback,
        trigger=trigger,
        hooks=host.hooks,
        pins=machine.pins.values(),
        policy=machine.policy,
        **options,
    )


def _trigger_estimated(machine: Machine) -> int:
    """The trigger, in a small window in tokens of our estimate: what a provider counts beyond it is much of so little room."""
    trigger = machine.window.threshold
    if machine.window.prompt >= FULL_WINDOW_TOKENS:
        return trigger
    estimated = int(machine.view.ledger.tokens()) + machine.overhead_tokens
    return min(trigger, trigger * estimated // max(1, machine.tokens))


def _share_kept(machine: Machine) -> int | None:
    """Tokens to keep so that a compaction by share ends at its target (PIPE-4); `None`: as the keep policy says."""
    auto = machine.policy.auto
    if not auto.start_percent:
        return None
    target = machine.window.threshold * auto.target_percent // 100 - machine.overhead_tokens
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
) -> StageReport | None:
    """Install a compaction; messages that were added meanwhile follow it. `None`: the view does not begin with `base` any more, nothing has changed."""
    view = machine.view
    now = view.messages
    if len(now) < len(base) or any(a is not b for a, b in zip(base, now, strict=False)):
        machine.tracking.failed("the conversation changed meanwhile")
        return None
    parts = _parts(result, base, f"{stage}:{machine.tracking.compactions + 1}")
    report = view.rearranged(stage, why, [*parts, *range(len(base), len(now))])
    view.forget_usage()
    context = machine.own_context()
    for level in machine.levels:
        if level.reset is not None:
            level.reset(context)
    refill_turns = machine.policy.auto.refill_turns
    machine.tracking.compacted(refill_turns=refill_turns, automatic=automatic)
    return after(report, view, machine.model)


def _parts(result: CompactionResult, base: Sequence[Any], key: str) -> list[int | Made]:
    """The new context: the kept messages of `base`, by position, and what was made."""
    kept_places = [at for at in result.report.kept if isinstance(at, int)]
    order = [*range(len(result.head)), *kept_places]
    parts: list[int | Made] = []
    for message in result.messages:
        here = next((at for at, place in enumerate(order) if message is base[place]), None)
        if here is not None:
            parts.append(order[here])
            del order[: here + 1]
        else:
            parts.append(Made(f"{key}.{len(parts)}", dict(message)))
    return parts
