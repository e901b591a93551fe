"""Microcompact: old results of tools that can be run again become a placeholder or one line.

Three ways, the least lossy first: results that a later one replaced (supersession), one line each for the older half, and
a bare placeholder after a pause, when the provider's cache is cold anyway. Calls, ids and errors stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase

from ullage.digests import Role
from ullage.policy import MicrocompactPolicy, Policy
from ullage.recall.text import call_title
from ullage.stages.lines import one_line, outcome
from ullage.stages.report import Decision, StageReport
from ullage.stages.view import Result, View

__all__ = ["CLEARED", "apply", "line_for"]

STAGE = "microcompact"
CLEARED = "[Old tool result content cleared]"

_READS = ("Read", "NotebookRead")
_WRITES = ("Write", "Edit", "MultiEdit", "NotebookEdit")


def apply(view: View, policy: Policy, fill_percent: int, now_ms: int | None) -> StageReport | None:
    """Clear or shorten old results; `None` if nothing is due or it would free too little.

    Args:
        view: Changed in place by the decisions.
        policy: Which ways are on, and their numbers.
        fill_percent: Of the window, what the next request takes.
        now_ms: The host's clock in milliseconds since the epoch; `None`: unknown, nothing goes by time.
    """
    micro = policy.micro
    eligible = _eligible(view, policy)
    if micro.by_time and _idle(view, micro, now_ms):
        return _pass(
            view, f"no answer for {micro.idle_minutes} minutes", eligible, lambda _: CLEARED, policy
        )
    if micro.by_supersession and fill_percent >= micro.supersede_start_percent:
        chosen = _share(_superseded(view, eligible), eligible, micro.supersede_max_percent)
        report = _pass(view, "replaced by a later result", chosen, lambda _: CLEARED, policy)
        if report is not None:
            return report
    if micro.by_line and fill_percent >= micro.line_start_percent:
        older = [result for result in eligible if result.message < len(view) // 2]
        return _pass(
            view,
            f"{fill_percent} % of the window",
            older,
            lambda result: line_for(view, result),
            policy,
        )
    return None


def _eligible(view: View, policy: Policy) -> list[Result]:
    """Results of the tools that may be cleared, without the newest and without what is cleared already."""
    micro = policy.micro
    found = [
        result
        for result in view.results()
        if any(fnmatchcase(result.tool, name) for name in micro.tools)
    ]
    protected = max(micro.keep_recent, policy.protect.tool_results)
    old = found[:-protected] if protected else found
    return [
        result
        for result in old
        if not result.is_error and not result.has_media and not _is_short(view, result)
    ]


def _is_short(view: View, result: Result) -> bool:
    if result.id in view.cleared_elsewhere:
        return True
    decision = view.decisions.get(result.id)
    return decision is not None and decision.stage == STAGE


def _idle(view: View, micro: MicrocompactPolicy, now_ms: int | None) -> bool:
    if now_ms is None:
        return False
    for index in range(len(view) - 1, -1, -1):
        message = view.ledger.message(index)
        if message.role == Role.ASSISTANT:
            return bool(0 < message.timestamp <= now_ms - micro.idle_minutes * 60_000)
    return False


def _superseded(view: View, eligible: Sequence[Result]) -> list[Result]:
    """Reads of a file that a later whole read or write replaced; polls that an identical later call repeated."""
    newest: dict[tuple[str, str], int] = {}
    for result in view.results():
        if result.path and (result.tool in _WRITES or _is_whole_read(result)):
            newest["file", result.path] = result.message
        newest[result.tool, repr(sorted(result.given.items(), key=repr))] = result.message
    return [
        result
        for result in eligible
        if (result.tool in _READS and newest.get(("file", result.path), -1) > result.message)
        or newest[result.tool, repr(sorted(result.given.items(), key=repr))] > result.message
    ]


def _is_whole_read(result: Result) -> bool:
    return result.tool in _READS and "offset" not in result.given and "limit" not in result.given


def _share(chosen: Iterable[Result], eligible: Iterable[Result], percent: int) -> list[Result]:
    """The oldest of the chosen, up to a share of all eligible tokens."""
    room = sum(result.tokens for result in eligible) * percent // 100
    taken = []
    for result in chosen:
        room -= result.tokens
        if room < 0:
            break
        taken.append(result)
    return taken


def _pass(
    view: View, why: str, chosen: Sequence[Result], text_of: Callable[[Result], str], policy: Policy
) -> StageReport | None:
    """One pass: all at once, or nothing where it would free less than the least."""
    decided = []
    for result in chosen:
        text = text_of(result)
        if len(text) < result.chars:
            decided.append((result, Decision(result.id, STAGE, text)))
    gain = sum(
        result.tokens - result.tokens * len(decision.text) // result.chars
        for result, decision in decided
    )
    if not decided or gain < policy.micro.min_freed_tokens:
        return None
    return view.report(STAGE, why, decided)


def line_for(view: View, result: Result) -> str:
    """A result in one line: tool, target, size, first meaningful line, exit status. No model is asked."""
    title = one_line(call_title(result.tool, result.given), 100)
    return f"[Compacted: {'; '.join([title, *outcome(view.text(result))])}]"
