"""Context collapse: spans are summarised ahead of need, and committed when the window is nearly full."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ullage._engine import core
from ullage.effects import Flow, Wait
from ullage.exceptions import UnknownHandle
from ullage.facts.reading import text_of
from ullage.levels.collapse.state import Collapse, Committed, Staged, commit_records
from ullage.levels.level import NEVER, NOW, Context, Level, Rest, share_of
from ullage.levels.report import Made, StageReport, spans, unrecorded
from ullage.levels.view import View
from ullage.messages import uuid_of

if TYPE_CHECKING:
    from ullage.levels.collapse.spans import Candidate

__all__ = ["LEVEL", "QUIET_SOURCES", "STAGE", "expand", "percent", "stage", "stage_now"]

STAGE = "collapse"
QUIET_SOURCES = frozenset({"compact", "session_memory", "collapse", "marble_origami"})
"""They write summaries themselves and would wait for themselves (AUTO-1); the last is what Claude Code calls collapse."""

LOOK_PERCENT = 2
"""Percent of the effective window that must have come before spans are looked for again: that walks the whole context."""

GAIN_PERCENT = 5
"""Percent of the effective window that a commit must free: each one breaks the cached prefix far in front (P-8)."""

WAIT_SECONDS = 0.1
TITLE_CHARS = 100


def percent(context: Context) -> int:
    """Share of the effective window that the next request takes, rounded down."""
    return 100 * context.view.tokens(context.overhead_tokens) // max(1, _room(context))


def _room(context: Context) -> int:
    return context.effective_tokens or context.window_tokens


def run(context: Context) -> Flow[StageReport | None] | None:
    """Stage and commit as the window fills; `None` if neither was due.

    A model is never asked here, that is done in the background. From `block_percent` on summaries that are being written
    are waited for, where what is ready does not suffice, and what then still lacks is put together from lines.
    """
    rules, state = context.policy.collapse, context.state(Collapse)
    if not rules.enabled or context.source in QUIET_SOURCES:
        return None
    if context.background is not None:
        context.background.go_on()
    filled = percent(context)
    state.armed = filled >= rules.stage_percent
    if filled < min(rules.stage_percent, rules.commit_percent):
        return None
    return _due(context, state, filled)


def rest(context: Context) -> Rest:
    """Until spans are staged or committed, while nothing is written in the background."""
    rules, state = context.policy.collapse, context.state(Collapse)
    if not rules.enabled or context.source in QUIET_SOURCES:
        return NEVER
    if state.armed or (context.background is not None and context.background.running):
        return NOW
    least = min(rules.stage_percent, rules.commit_percent)
    return Rest(fill=share_of(max(1, _room(context)), least))


def _due(context: Context, state: Collapse, filled: int) -> Flow[StageReport | None]:
    from ullage.levels.collapse.summary import asks_outside

    view, rules = context.view, context.policy.collapse
    _forget_torn(view, state)
    goal = _room(context) * rules.target_percent // 100
    outside = asks_outside(context.summarizer)
    if filled >= rules.block_percent and outside and _lacks(context, state, goal):
        yield from _awaited(context, state)
    if filled >= (rules.block_percent if outside else rules.stage_percent):
        by_code = replace(context, summarizer=None) if outside else context
        yield from stage(by_code, state)
    if filled >= rules.commit_percent:
        why = f"{filled} % of the effective window"
        report = _commit(context, state, why, goal)
        if report is not None:
            return report
    return _staged_report(view, state) if state.untold else None


def _lacks(context: Context, state: Collapse, goal: int) -> bool:
    """Whether what is staged could not bring the request below the goal."""
    ready = sum(_tokens_of(context.view, each) for each in state.staged)
    return context.view.tokens(context.overhead_tokens) - ready > goal


def _awaited(context: Context, state: Collapse) -> Flow[None]:
    """Waits for summaries that are being written elsewhere, at most as long as one may take."""
    waited = 0.0
    while state.running and waited < context.policy.summary.deadline_seconds:
        yield Wait(WAIT_SECONDS)
        waited += WAIT_SECONDS
        if context.background is not None:
            context.background.go_on()


def drain(context: Context) -> StageReport | None:
    """After a refusal: commit everything that is staged (COL-5); `None` if nothing is."""
    state = context.state(Collapse)
    if not context.policy.collapse.enabled:
        return None
    _forget_torn(context.view, state)
    return _commit(context, state, "the provider refused the request", None)


def reset(context: Context) -> None:
    """After a compaction: staged spans of the old context are found incomplete, and dropped, at the next run."""
    state = context.state(Collapse)
    state.armed, state.looked_tokens = False, 0


def rewind(context: Context, count: int) -> None:
    """Forget spans of messages that were taken back."""
    state = context.state(Collapse)
    state.staged = [each for each in state.staged if each.last < count]
    state.commits = {k: each for k, each in state.commits.items() if each.span.last < count}
    state.expanded = [span for span in state.expanded if span.last < count]


# ---- staging ---------------------------------------------------------------------------------


def stage_now(context: Context) -> Flow[int]:
    """As `stage`, after what is being written elsewhere; returns how many spans are ready that were not before."""
    state = context.state(Collapse)
    before = len(state.staged)
    yield from _awaited(context, state)
    yield from stage(context, state)
    return max(0, len(state.staged) - before)


def stage(context: Context, state: Collapse) -> Flow[int]:
    """Write summaries for as much as a commit will need, the most rewarding spans first.

    May run in the background: what was added or changed meanwhile is looked at when it ends.

    Returns:
        How many spans were staged.
    """
    from ullage.levels.collapse.summary import summaries

    view, rules = context.view, context.policy.collapse
    now = _room(context) * (rules.block_percent - rules.target_percent) // 100
    chosen = _wanted(context, state, now)
    if not chosen:
        return 0
    spans = [(view.sources[span.start], view.sources[span.stop - 1]) for span in chosen]
    names = [(view.uuid_at(span.start), view.uuid_at(span.stop - 1)) for span in chosen]
    items = [(view.originals[span.start], view.originals[span.stop - 1]) for span in chosen]
    state.running += 1
    try:
        texts = yield from summaries(view, context.policy, context.summarizer, chosen)
    finally:
        state.running -= 1
    before = len(state.staged)
    for span, ends, held, named, text in zip(chosen, spans, items, names, texts, strict=True):
        if text:
            own = (uuid_of(held[0]) or ends[0], uuid_of(held[1]) or ends[1])
            state.staged.append(
                Staged(
                    int(ends[0]), int(ends[1]), text, 1000 - span.worth, context.now_ms or 0,
                    *named, span.stop - span.start, "|".join(map(str, own)),
                )
            )  # fmt: skip
    _forget_torn(view, state)
    state.last_run_tokens = view.tokens(context.overhead_tokens)
    count = max(0, len(state.staged) - before)
    state.untold += count
    return count


def _wanted(context: Context, state: Collapse, tokens: int) -> list[Candidate]:
    """The most rewarding spans, ties to the older, until with what is staged there are tokens enough."""
    from ullage.levels.collapse.spans import candidates

    view, room = context.view, _room(context)
    ready = sum(_tokens_of(view, each) for each in state.staged)
    now = view.tokens(context.overhead_tokens)
    step = room * LOOK_PERCENT // 100
    if 2 * ready >= tokens or 0 <= now - state.looked_tokens < step:
        return []  # a few larger batches, not one span with each request
    state.looked_tokens = now
    found = candidates(view, context.policy, room, state)
    chosen = []
    for span in sorted(found, key=lambda each: (-each.worth, each.start)):
        if ready >= tokens:
            break
        ready += span.tokens
        chosen.append(span)
    return chosen


def _staged_report(view: View, state: Collapse) -> StageReport:
    tokens, count = view.ledger.tokens(), state.untold
    state.untold = 0
    return StageReport(
        stage=STAGE,
        why=f"{count} span(s) summarised ahead of need; nothing has changed yet",
        tokens_before=tokens,
        tokens_after=tokens,
        records=(state.snapshot_record(),),
    )


# ---- where staged spans are in the view ------------------------------------------------------


def _place(view: View, span: Staged) -> tuple[int, int] | None:
    """[start, stop) of a span in the view, if all of it is there without a gap."""
    length = span.last - span.first + 1
    start = _index_of(view, span.first)
    if start is None:
        return None
    run = view.sources[start : start + length]
    known = [source for source in run if isinstance(source, int) and source <= span.last]
    whole = run[: len(known)] == known and known[-1] == span.last
    return (start, start + len(known)) if whole and span.count in (0, len(known)) else None


def _index_of(view: View, position: int) -> int | None:
    """Where a message of the history stands in the view: positions rise, with what levels made between them."""
    low, high = 0, len(view.sources)
    while low < high:
        middle = probe = (low + high) // 2
        while probe < high and isinstance(view.sources[probe], str):
            probe += 1
        found = view.sources[probe] if probe < high else position + 1
        if isinstance(found, int) and found < position:
            low = probe + 1
        elif found == position and probe < high:
            return probe
        else:
            high = middle
    return None


def _tokens_of(view: View, span: Staged) -> int:
    place = _place(view, span)
    return 0 if place is None else view.ledger.tokens(*place)


def _forget_torn(view: View, state: Collapse) -> None:
    """Spans that a snip or a compaction took part of, or that overlap an older one, are not staged any more."""
    kept: list[Staged] = []
    for span in sorted(state.staged, key=lambda each: (each.first, each.last)):
        if (not kept or span.first > kept[-1].last) and _place(view, span) is not None:
            kept.append(span)
    state.staged = kept


# ---- committing ------------------------------------------------------------------------------


def _commit(context: Context, state: Collapse, why: str, goal: int | None) -> StageReport | None:
    """Commit staged spans, the most rewarding first, until below the goal; all of them, however little it is, without a goal."""
    from ullage.levels.collapse.spans import protected

    view = context.view
    untouchable = protected(view, context.policy)
    tokens = view.tokens(context.overhead_tokens)
    chosen: list[tuple[Staged, tuple[int, int], Made]] = []
    gained = 0
    for span in sorted(state.staged, key=lambda each: (each.risk, each.first)):
        place = _place(view, span)
        if place is None or untouchable.intersection(range(*place)):
            continue
        if goal is not None and tokens - gained < goal:
            break
        made = _made(span)
        gain = view.ledger.tokens(*place) - int(core.Ledger(view.weights, [made.message]).tokens())
        if gain > 0:
            gained += gain
            chosen.append((span, place, made))
    if not chosen or (goal is not None and gained < _least(context)):
        return None
    return _committed(view, state, why, chosen)


def _least(context: Context) -> int:
    return max(context.policy.micro.min_freed_tokens, _room(context) * GAIN_PERCENT // 100)


def _made(span: Staged) -> Made:
    from ullage.levels.collapse.summary import placeholder

    name = span.collapse_id
    text = placeholder(name, span.first, span.last, span.summary)
    return Made(f"{STAGE}:{name}", {"role": "user", "content": text})


def _committed(
    view: View, state: Collapse, why: str, chosen: Sequence[tuple[Staged, tuple[int, int], Made]]
) -> StageReport:
    starts = {place[0]: made for _, place, made in chosen}
    inside = {at for _, (start, stop), _ in chosen for at in range(start, stop)}
    results = [result for result in view.results() if result.message in inside]
    for span, (start, stop), _ in chosen:
        words = " ".join(text_of(view.originals[start])[: 4 * TITLE_CHARS].split())
        title = words[:TITLE_CHARS] or f"{stop - start} messages"
        sources = (source for source in view.sources[start:stop] if isinstance(source, int))
        parts = tuple((part.start, part.stop - 1) for part in spans(sources))
        state.commits[span.collapse_id] = Committed(parts, title)
    gone = {span.first for span, _, _ in chosen}
    state.staged = [span for span in state.staged if span.first not in gone]
    state.untold = 0
    report = view.rearranged(
        STAGE,
        f"{why}; {len(chosen)} span(s) committed",
        [starts.get(at, at) for at in range(len(view)) if at not in inside or at in starts],
        tools=tuple(dict.fromkeys(result.tool for result in results)),
        paths=tuple(dict.fromkeys(result.path for result in results if result.path)),
    )
    told = commit_records((span, made.message["content"]) for span, _, made in chosen)
    lines = (*told, state.snapshot_record()) if told else ()
    untold = 2 * (len(chosen) - len(told))
    return replace(report, records=lines, failures=(unrecorded(untold),) if untold else ())


# ---- expanding -------------------------------------------------------------------------------


def expand(view: View, state: Collapse, collapse_id: str, history: Sequence[Any]) -> StageReport:
    """Put a collapsed span back in its place; it is not collapsed again (COL-4).

    Raises:
        UnknownHandle: No placeholder with that id is in the context.
    """
    from ullage.transcript import records

    key = f"{STAGE}:{collapse_id}"
    found = state.commits.get(collapse_id)
    if found is None or key not in view.sources:
        raise UnknownHandle(collapse_id)
    before = view.ledger.tokens()
    changed = view.put_back(view.sources.index(key), found.positions, history)
    del state.commits[collapse_id]
    state.expanded.append(found.span)
    return StageReport(
        stage=STAGE,
        why="put back on request",
        tokens_before=before,
        tokens_after=view.ledger.tokens(),
        first_changed=changed,
        records=(records.collapse_expand(collapse_id),),
    )


LEVEL = Level(STAGE, run, Collapse, drain=drain, reset=reset, rewind=rewind, rest=rest)
