"""Whether a provider would take a request, and why not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ullage._start import on_first_use

if TYPE_CHECKING:
    from ullage._engine.digests import Violation as Violation
    from ullage.legality.check import (
        Report as Report,
        Rule as Rule,
        describe,
        rules,
        validate as validate,
    )
    from ullage.legality.draft import Repair as Repair, Repaired as Repaired
    from ullage.legality.incremental import Repairer
    from ullage.legality.originals import Originals as Originals
    from ullage.legality.params import (
        RepairOptions as RepairOptions,
        RequestFacts as RequestFacts,
        RuleOptions as RuleOptions,
        facts_for,
    )
    from ullage.legality.repairs import repair as repair

__all__ = ["Repairer", "describe", "facts_for", "rules"]

_HOMES = {
    "check": "Report Rule Violation describe rules validate",
    "draft": "Repair Repaired",
    "incremental": "Repairer",
    "originals": "Originals",
    "params": "RepairOptions RequestFacts RuleOptions facts_for",
    "repairs": "repair",
}
if not TYPE_CHECKING:  # a misspelt name is an error of the type checker
    __getattr__, __dir__ = on_first_use(__name__, _HOMES)
