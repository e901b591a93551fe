"""Whether a provider would take a request, and why not."""

from __future__ import annotations

from ullage.validate.catalogue import RULES, Rule
from ullage.validate.check import PROVIDERS, canonical, validate
from ullage.validate.compare import Comparison, compare_requests
from ullage.validate.facts import RequestFacts, facts_for
from ullage.validate.originals import Originals
from ullage.validate.report import Report, Violation, describe
from ullage.validate.rewrites import check_operation, check_rewrite

__all__ = [
    "PROVIDERS",
    "RULES",
    "Comparison",
    "Originals",
    "Report",
    "RequestFacts",
    "Rule",
    "Violation",
    "canonical",
    "check_operation",
    "check_rewrite",
    "compare_requests",
    "describe",
    "facts_for",
    "validate",
]
