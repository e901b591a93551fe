"""The loop of all repairs: check, let each step repair its rules, check again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple, Protocol, cast

from ullage.legality.check import Report, RuleRequest, found_in
from ullage.legality.draft import Repair, Repaired

# Each round repairs what the one before revealed; more rounds would mean that repairs undo each other.
MAX_ROUNDS = 8


class Work(Protocol):
    """A working copy that steps change."""

    repairs: list[Repair]

    def build(self) -> list[Any]:
        """The items as they are now."""


class RepairStep(NamedTuple):
    """One repair, and the rules whose violation calls for it."""

    rules: frozenset[str]
    act: Callable[[Any], None]


def steps(*rows: tuple[str, Callable[[Any], None]]) -> list[RepairStep]:
    """Steps in order; the rules of each are words in a string."""
    return [RepairStep(frozenset(rules.split()), act) for rules, act in rows]


def mend(
    messages: Sequence[Any],
    *,
    work: Work,
    plan: Sequence[RepairStep],
    check: Callable[[Sequence[Any]], Report],
    report: Report,
) -> Repaired:
    """Runs steps until nothing they are for is left; keeps the best state, never a worse one.

    Args:
        messages: As given; handed back if no repair helps.
        work: A working copy of them.
        plan: The steps.
        check: The rules.
        report: What they say of the messages as given.
    """
    best, result, repairs = report, messages, 0
    for _ in range(MAX_ROUNDS):
        done = len(work.repairs)
        for step in plan:
            if report.rules & step.rules:
                step.act(work)
        items = work.build()
        report = check(items)
        if work.repairs and len(report.errors) <= len(best.errors):
            best, result, repairs = report, items, len(work.repairs)
        idle = len(work.repairs) == done
        if report.ok or idle or not any(report.rules & step.rules for step in plan):
            break
    return Repaired(result, tuple(work.repairs[:repairs]), best.errors)


# A request around its messages, and how to repair it.


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairRequest(RuleRequest):
    """All of a request but its messages; see `ullage.legality.repairs.repair`."""

    orphans: str = "note"
    trailing: str = "note"
    thinking: str = "strip"
    drop_thinking: bool = False

    def report(self, messages: Sequence[Any]) -> Report:
        """All rules over these messages."""
        return found_in(messages, self)


class _Repairs(Protocol):
    """What the module has that a provider's row names as its `repair`."""

    def repair(self, messages: Sequence[Any], request: RepairRequest) -> Repaired:
        """The messages, legal as far as that can be had; the same list if it is legal."""


def repaired(messages: Sequence[Any], request: RepairRequest) -> Repaired:
    """What the repairs of the request's provider make of the messages."""
    repairs = cast("_Repairs", import_module(request.provider.repair))
    return repairs.repair(messages, request)
