"""A request around its messages, and how to repair it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol, cast

from ullage.legality.findings import Report
from ullage.legality.repairs.result import Repaired
from ullage.legality.rule_request import RuleRequest, found_in

__all__ = ["RepairRequest", "repaired"]


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
