"""Everything that a report says about one session, as plain values."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ullage.compaction import CompactionResult
from ullage.counting.models import ModelTable
from ullage.counting.window import Window, WindowSettings, window_for
from ullage.exceptions import UllageError
from ullage.facts import Facts, collect
from ullage.facts.words import text_of
from ullage.levels.breakdown import Inspection
from ullage.levels.view import StageReport
from ullage.manager import ContextManager, Request
from ullage.messages import Item
from ullage.policy import Policy
from ullage.recall import Archive, Recalled
from ullage.replay import (
    DEFAULT_MODEL,
    WORKING_SIZES,
    Run,
    SessionScript,
    SizeCost,
    costs_by_size,
    replay_session,
    script_of,
)
from ullage.sessions import Session, compact_session
from ullage.sessions.inspected import inspect_opened, title_of

# What left the window in a replay: when, by which level, why, and its text.


@dataclass(frozen=True, slots=True)
class RemovedText:
    """A tool result or a message that left."""

    title: str  # the call or the message, one line
    handle: str  # the name under which `recall` returns it
    text: str  # its beginning; empty if the page has no room left
    omitted_chars: int  # characters of it that are not shown


@dataclass(frozen=True, slots=True)
class Removal:
    """One report of a level."""

    request: int  # number of the request, from 1
    time_ms: int  # when its newest message was said, since the epoch; 0: unknown
    level: str
    why: str
    freed_tokens: int
    results: int  # tool results that it shortened or cleared
    messages: int  # messages that it removed altogether
    rewrite_dollars: float  # for writing to the cache again; 0: nothing that was cached changed
    pays_after: int | None  # requests until the rewrite has paid; `None`: never, or there was none
    texts: tuple[RemovedText, ...]  # what left, the largest first
    more: int  # how many further ones are not listed


class TextBudget:
    """How many characters of removed text a page may still hold; `redact` is applied to each text and title before it is cut."""

    def __init__(self, chars: int, redact: Callable[[str], str] | None = None) -> None:
        self._left, self._redact = chars, redact

    def clean(self, text: str) -> str:
        """The text without what the host wants hidden."""
        return self._redact(text) if self._redact else text

    def take(self, text: str) -> tuple[str, int]:
        """The beginning of a text that still fits, and how many characters are not shown."""
        clean = self.clean(text)
        shown = clean[: max(0, min(2_000, self._left))]
        # Bytes on the page, where a markup character takes five.
        self._left -= len(shown.encode("utf-8", "surrogatepass"))
        self._left -= 4 * sum(map(shown.count, "<>&'\""))
        return shown, len(clean) - len(shown)


def removal_of(report: StageReport, archive: Archive, budget: TextBudget, time_ms: int) -> Removal:
    """Describe what one report removed; the archive still has the texts. `time_ms`: of the request, since the epoch; 0: unknown."""
    cost = report.cost
    removed = (f"m{at}" for span in report.removed for at in range(span.start, span.stop))
    handles = [*report.tool_use_ids, *removed]
    listed = handles[:24]  # a compaction may remove hundreds of messages
    return Removal(
        request=report.request,
        time_ms=time_ms,
        level=report.stage,
        why=budget.clean(report.why),
        freed_tokens=report.freed,
        results=len(report.tool_use_ids),
        messages=report.removed_messages,
        rewrite_dollars=cost.rewrite_nanousd / 1e9 if cost else 0.0,
        pays_after=cost.break_even_turns if cost and cost.rewritten_tokens else None,
        texts=tuple(_text(handle, archive, budget) for handle in listed),
        more=len(handles) - len(listed),
    )


def _text(handle: str, archive: Archive, budget: TextBudget) -> RemovedText:
    try:
        recalled = archive.resolve(handle)
    except UllageError as exc:
        return RemovedText(str(exc), handle, "", 0)
    shown, omitted = budget.take(recalled.text)
    return RemovedText(budget.clean(_title(recalled)), handle, shown, omitted)


def _title(recalled: Recalled) -> str:
    if recalled.kind != "messages" or not recalled.items:
        return recalled.title
    role = str(recalled.items[0].get("role") or "message")
    lines = (line.strip() for line in recalled.text.splitlines())
    first = next((line for line in lines if line and not line.startswith(("---", "["))), "")
    return f"{role}: {first[:100]}" if first else f"{role}: tool calls or results"


# Which facts of a conversation a compaction keeps verbatim, and which it loses.


@dataclass(frozen=True, slots=True)
class FactCount:
    """The facts of one kind."""

    kind: str  # such as `URLs`
    kept: int  # how many the new context holds, character for character
    total: int  # how many there were
    lost: tuple[str, ...]  # the others, the first of them; `more` are not listed
    more: int  # see `lost`


def facts_in(facts: Facts) -> dict[str, list[str]]:
    """The texts of facts that a successor needs verbatim, by kind, each once."""
    texts_by_kind: dict[str, Iterable[str]] = {
        "user messages": (fact.text for fact in facts.inputs),
        "lasting rules": (fact.text for fact in facts.standing),
        "files changed": (fact.path for fact in facts.files if fact.changed),
        "commits": (fact.digest for fact in facts.commits),
        "answers of the user": (fact.answer for fact in facts.decisions),
        "open tasks": (fact.subject for fact in facts.tasks if fact.open),
        "errors not fixed": (fact.line for fact in facts.failures if fact.fixed_index < 0),
        "URLs": facts.urls,
    }
    texts = {kind: list(dict.fromkeys(filter(None, rows))) for kind, rows in texts_by_kind.items()}
    return {kind: listed for kind, listed in texts.items() if listed}


def kept_facts(
    wanted: Mapping[str, Sequence[str]], context: Sequence[Item], budget: TextBudget
) -> tuple[FactCount, ...]:
    """Look for facts (see `facts_in`) in a new context, messages or entries."""
    # As JSON, to find a text anywhere in a message; escapes are the same on both sides.
    whole = json.dumps(list(context), default=str, ensure_ascii=False)
    counts = []
    for kind, texts in wanted.items():
        lost = [text for text in texts if json.dumps(text, ensure_ascii=False)[1:-1] not in whole]
        listed = tuple(budget.clean(text)[:400] for text in lost[:40])
        more = len(lost) - len(listed)
        counts.append(FactCount(kind, len(texts) - len(lost), len(texts), listed, more))
    return tuple(counts)


PAGE_CHARS = 900_000
"""Removed text on a page, so that the page stays below 2 MB."""

STEPS = 4 + len(WORKING_SIZES)
"""How often `figures_of` calls `step`."""


class Mark(NamedTuple):
    """A size at which something happens, such as the automatic compaction."""

    name: str
    tokens: int


@dataclass(frozen=True, slots=True)
class CompactionFigures:
    """A compaction before and after."""

    where: str  # which one, in words
    tokens_before: int
    tokens_after: int  # of the new context
    messages_before: int
    messages_after: int  # in the new one
    summary: str
    facts: tuple[FactCount, ...]  # what it kept and lost, by kind


@dataclass(frozen=True, slots=True, repr=False)
class SessionFigures:
    """One session.

    Attributes:
        name: Of the file.
        format: Of its transcript.
        model: Whose window and prices apply.
        marks: Sizes at which a level or the provider acts, largest first.
        runs: The session replayed: under the chosen policy, unmanaged, and under the other preset.
        sizes: What it costs under the chosen policy in windows of several sizes, smallest first.
        times_ms: For each request, when its newest message was said; 0: unknown.
        own_compactions: Requests before which the session compacted itself.
        holds: What the context holds now.
        removals: What left it in the first run, oldest first.
        compaction: The newest one of the first run, or else one tried on the session's end; `None`: there was nothing to gain.
        warnings: About the file.
        title: As `ullage list` shows it; empty: it has none.
    """

    name: str
    format: str
    model: str
    marks: tuple[Mark, ...]
    runs: tuple[Run, ...]
    sizes: tuple[SizeCost, ...]
    times_ms: tuple[int, ...]
    own_compactions: tuple[int, ...]
    holds: Inspection
    removals: tuple[Removal, ...]
    compaction: CompactionFigures | None
    warnings: tuple[str, ...] = field(default=())
    title: str = ""

    def __repr__(self) -> str:
        return f"SessionFigures({self.name}: {len(self.runs[0].turns)} requests, {len(self.removals)} removals)"

    @property
    def managed(self) -> Run:
        """The run under the chosen policy."""
        return self.runs[0]

    @property
    def unmanaged(self) -> Run:
        """The run without management."""
        return self.runs[1]


def figures_of(
    session: Session,
    *,
    policy: Policy | None = None,
    model: str = "",
    settings: WindowSettings | None = None,
    table: ModelTable | None = None,
    budget: TextBudget | None = None,
    step: Callable[[], object] = lambda: None,
) -> SessionFigures:
    """Replay a session and collect what a report shows. Writes nothing and calls no model.

    Args:
        session: An opened session.
        policy: Under which it is replayed; `None`: `Policy.buffered()`.
        model: Model whose window and prices apply; empty: the session's.
        settings: Of the window, such as a working size below the model's; `None`: those of the environment.
        table: Of models and prices; `None`: the built-in one.
        budget: How much removed text may be shown; `None`: as much as one page holds.
        step: Called `STEPS` times, as the work goes on.
    """
    chosen = policy or Policy.buffered()
    settings = settings or WindowSettings.from_env()
    budget = budget or TextBudget(PAGE_CHARS)
    script = script_of(session)
    seen = _Watcher(script, budget)
    models = table or ModelTable.builtin()
    runs = [replay_session(script, chosen, model=model, table=models, settings=settings, seen=seen)]
    step()
    other = Policy.ladder() if chosen == Policy.buffered() else Policy.buffered()
    for compared in (None, other):
        runs.append(replay_session(script, compared, model=model, table=models, settings=settings))
        step()
    row = models.lookup(model or script.model or DEFAULT_MODEL)
    window = window_for(row, settings=settings, working_tokens=runs[0].working_tokens)
    after = (
        next((turn.number for turn in runs[0].turns if turn.message > at), None)
        for at in script.compactions
    )
    figures = SessionFigures(
        name=session.path.name,
        format=session.format,
        model=row.name,
        marks=_marks(window, runs[0].window_tokens, session),
        runs=tuple(runs),
        sizes=costs_by_size(script, chosen, model=model, table=models, step=step),
        times_ms=tuple(script.times[turn.message - 1] for turn in runs[0].turns),
        own_compactions=tuple(number for number in after if number is not None),
        holds=inspect_opened(session, model=row.name).inspection,
        removals=tuple(seen.removals),
        compaction=seen.compaction or _tried(session, chosen, model, budget),
        warnings=tuple(map(budget.clean, session.warnings)),
        title=budget.clean(title_of(session)),
    )
    step()
    return figures


class _Watcher:
    """Notes what leaves in a replay, and its newest compaction."""

    def __init__(self, script: SessionScript, budget: TextBudget) -> None:
        self.script, self.budget = script, budget
        self.archive = Archive(script.messages)
        self.removals: list[Removal] = []
        self.compaction: CompactionFigures | None = None

    def __call__(self, manager: ContextManager, request: Request) -> None:
        messages = len(manager.history)
        when = self.script.times[messages - 1] if messages else 0
        for report in request.reports:
            removal = removal_of(report, self.archive, self.budget, when)
            shows = any(removed.text or removed.omitted_chars for removed in removal.texts)
            if removal.freed_tokens or removal.messages or shows:
                self.removals.append(removal)  # else an empty result got a line that says so
        done = request.compaction
        if done is not None and done.compacted:
            where = f"the automatic compaction before request {request.number:,}"
            before = self.script.messages[:messages]
            self.compaction = _compaction(where, done, before, request.messages, self.budget)


def _tried(
    session: Session, policy: Policy, model: str, budget: TextBudget
) -> CompactionFigures | None:
    """What `ullage compact --dry-run` would do at the end of the session."""
    done = compact_session(session, policy=policy, model=model or None)
    if not done.result.compacted:
        return None
    where = "a compaction at the end of the session, without a model"
    return _compaction(where, done.result, session.messages, done.messages, budget)


def _compaction(
    where: str,
    done: CompactionResult,
    before: Sequence[Item],
    after: Sequence[Item],
    budget: TextBudget,
) -> CompactionFigures:
    return CompactionFigures(
        where=where,
        tokens_before=done.report.tokens_before,
        tokens_after=done.report.tokens_after,
        messages_before=len(before),
        messages_after=len(after),
        summary=budget.clean("".join(map(text_of, done.summary_messages[-1:])))[:60_000],
        facts=kept_facts(facts_in(collect(before)), after, budget),
    )


def _marks(window: Window, whole: int, session: Session) -> tuple[Mark, ...]:
    """The lines of the chart; `whole`: the model's window, of which the levels may use a part."""
    marks = [
        Mark("works in" if window.context < whole else "window", window.context),
        Mark("requests are blocked", window.blocking_at),
        Mark("automatic compaction", window.threshold),
        Mark("warning", window.warning_at),
    ]
    if session.window_tokens not in (0, window.context):
        marks.append(Mark("the client's own limit", session.window_tokens))
    return tuple(sorted(marks, key=lambda mark: -mark.tokens))
