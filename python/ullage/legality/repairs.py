"""`repair`: one call for every provider, and the loop that each provider's steps run in: check, let each step repair its rules, check again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Unpack

from ullage._start import loaded
from ullage.legality.check import Report, RuleRequest, valid
from ullage.legality.draft import Repair, Repaired, WorkingCopy
from ullage.legality.params import REPAIR_OPTIONS, RepairOptions, request_of
from ullage.messages import Item, check_list

# Each round repairs what the one before revealed; more rounds would mean that repairs undo each other.
MAX_ROUNDS = 8


Plan = Sequence[tuple[str, Callable[[Any], None]]]
"""Repairs in order: the rules whose violation calls for one, as words in a string, and what it does to the working copy."""


def run_steps(
    messages: Sequence[Any],
    request: RuleRequest,
    working_copy: Callable[[Sequence[Any]], WorkingCopy],
    plan: Plan,
    report: Report | None = None,
) -> Repaired:
    """Runs steps on a working copy of `messages`, of which `report` is, until nothing they are for is left; keeps the best state."""
    report = request.report(messages) if report is None else report
    if report.ok:
        return Repaired(messages)
    work, best, result, repairs = working_copy(messages), report, messages, 0
    steps = [(frozenset(rules.split()), act) for rules, act in plan]
    for _ in range(MAX_ROUNDS):
        done = len(work.repairs)
        for rules, act in steps:
            if report.rules & rules:
                act(work)
        items = work.build()
        report = request.report(items)
        if work.repairs and len(report.errors) <= len(best.errors):
            best, result, repairs = report, items, len(work.repairs)
        idle = len(work.repairs) == done
        if report.ok or idle or not any(report.rules & rules for rules, _ in steps):
            break
    return Repaired(result, tuple(work.repairs[:repairs]), best.errors)


def repair(
    messages: Sequence[Item],
    *,
    resume: str = "",
    drop_thinking: bool = False,
    **options: Unpack[RepairOptions],
) -> Repaired:
    """Makes a request legal for its provider; what is legal stays the same objects.

    The input is never changed, and repairing twice changes nothing more. Nothing that a user wrote
    is dropped. What cannot be repaired in the messages (too many tokens, a missing header) is left
    and named.

    Args:
        messages: In the provider's own form; items in envelopes are repaired in place.
        resume: `pause_turn` or `compaction` when this request resumes such a stop.
        drop_thinking: All thinking goes, valid or not (Anthropic's form): for the one retry after
            `classify` called an error `binding`, and every request of that history afterwards.
        **options: See `ullage.legality.RepairOptions`: `provider`, `model`, `system`, `tools`, what becomes of what has to
            go, and more, and the request's other parameters by name.

    Returns:
        The messages, what was repaired, and what is left.

    Raises:
        InvalidPolicy: An unknown provider or fact.

    Example:
        >>> call = {"type": "tool_use", "id": "t1", "name": "ls", "input": {}}
        >>> done = repair([{"role": "user", "content": "hi"}, {"role": "assistant", "content": [call]}])
        >>> done.repairs[0].action
        'answered an interrupted tool call'
    """
    check_list(messages)
    around = request_of(repair, options, REPAIR_OPTIONS)
    request = RuleRequest(resume=resume, drop_thinking=drop_thinking, **around)
    form = loaded(request.provider.repair)
    done: Repaired = form.repair(messages, request)
    if not any(violation.rule == "T01" and violation.message >= 0 for violation in done.left):
        return done
    # The same without what UTF-8 cannot hold.
    written = [valid(item) for item in messages]
    changed = (at for at, item in enumerate(messages) if written[at] is not item)
    repairs = (Repair("T01", at, -1, "put U+FFFD for lone surrogates") for at in changed)
    again: Repaired = form.repair(written, request)
    return replace(again, repairs=(*repairs, *again.repairs))
