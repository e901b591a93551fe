"""What `validate` hands back."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ullage._engine.digests import Violation
from ullage.legality.catalogue import rules

__all__ = ["Report", "Violation", "describe"]


@dataclass(frozen=True)
class Report:
    """All that was found, sorted by place.

    Attributes:
        provider: Whose rules were checked.
        violations: Errors (the provider would refuse) and warnings.
    """

    provider: str
    violations: tuple[Violation, ...] = ()

    @cached_property
    def errors(self) -> tuple[Violation, ...]:
        """What the provider would refuse."""
        return tuple(found for found in self.violations if found.severity == "error")

    @cached_property
    def warnings(self) -> tuple[Violation, ...]:
        """What some platform or model refuses, or what costs."""
        return tuple(found for found in self.violations if found.severity != "error")

    @property
    def ok(self) -> bool:
        """Whether there is no error."""
        return not self.errors

    @cached_property
    def rules(self) -> frozenset[str]:
        """Ids of the rules with errors."""
        return frozenset(found.rule for found in self.errors)

    def __bool__(self) -> bool:
        return self.ok

    def __repr__(self) -> str:
        return f"Report({self.provider}, errors={len(self.errors)}, warnings={len(self.warnings)})"

    def __str__(self) -> str:
        if not self.violations:
            return f"{self.provider}: legal"
        return "\n".join(describe(found) for found in self.violations)


def describe(found: Violation) -> str:
    """One finding as a line: rule, place, what is wrong, what to do, source."""
    rule = rules().get(found.rule)
    place = "request" if found.message < 0 else f"message {found.message}"
    place += "" if found.block < 0 else f", block {found.block}"
    line = f"{found.rule} {found.severity}, {place}: {found.detail}"
    return line if rule is None else f"{line} -> {rule.advice} [{rule.source}]"
