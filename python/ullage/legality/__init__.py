"""Whether a provider would take a request, and why not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ullage._lazy import on_first_use

if TYPE_CHECKING:
    from ullage.legality.capabilities import RequestFacts, facts_for
    from ullage.legality.catalogue import Rule, rules
    from ullage.legality.check import validate
    from ullage.legality.findings import Report, Violation, describe
    from ullage.legality.originals import Originals
    from ullage.legality.repairs import Repair, Repaired, Repairer, repair

__all__ = [
    "Originals",
    "Repair",
    "Repaired",
    "Repairer",
    "Report",
    "RequestFacts",
    "Rule",
    "Violation",
    "describe",
    "facts_for",
    "repair",
    "rules",
    "validate",
]

_HOMES = {
    "capabilities": (
        "RequestFacts",
        "facts_for",
    ),
    "catalogue": (
        "Rule",
        "rules",
    ),
    "check": ("validate",),
    "findings": (
        "Report",
        "Violation",
        "describe",
    ),
    "originals": ("Originals",),
    "repairs": (
        "Repair",
        "Repaired",
        "Repairer",
        "repair",
    ),
}
if not TYPE_CHECKING:  # a misspelt name is an error of the type checker
    __getattr__, __dir__ = on_first_use(__name__, _HOMES)
